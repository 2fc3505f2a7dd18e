"""The stopping rule of a run, kept beside its ledger: with it and the ledger, what was decided can be computed again.

``stopping.json`` holds the rule and its player, and for a comparison with another run the name of a file beside it: what that
run's player had reached when this run began. So a decision does not change when the other run goes on, moves or is deleted.
The file is called by its content, so another rule never writes over it: wherever a start ends, one of the two is whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.errors import UserError
from cluster.storage.durable import write_durably
from envs.files import Bounds, read_json
from envs.files.parquet import read_parquet
from evals.ledger.ledger import Ledger
from evals.stopping.outcomes import PAIR_COLUMNS, Outcomes, Pair, measurable
from evals.stopping.rules import StopRule

RULE = "stopping.json"
AGAINST = "against.parquet"
"""What the other run had reached, in a run directory of a version that had one name for all."""
_AGAINST_FILE = re.compile(r"against(-[0-9a-f]{16})?\.parquet")
_LARGEST_RULE = 100_000
"""Bytes of a rule; ours have a few hundred."""


@dataclass(frozen=True)
class StoredRule:
    """A rule as a run directory keeps it."""

    rule: StopRule
    player: str
    """The model, whose games count."""
    other: Mapping[Pair, float] | None
    """Of the other run's player, by pair; None where ``rule.against`` is a player of the run itself."""

    @property
    def compares_within_run(self) -> bool:
        """Whether it compares the model with another player of the same run, and so waits for the games of both."""
        return self.rule.kind == "decided" and self.other is None

    def outcomes(self, plan: pa.Table) -> Outcomes:
        """A collector of outcomes, still empty."""
        return Outcomes(self.rule, plan, self.player, self.other)

    def outcomes_of(self, plan: pa.Table, ledger: Ledger, without: Collection[str] = ()) -> Outcomes:
        """A collector with the outcomes of a ledger, but those of episodes ``without`` (ids) that are played again.

        Raises:
            UserError: the ledger has no such measure.
        """
        columns = measurable(ledger.schema)
        if ledger.parts and self.rule.measure not in columns:
            raise UserError(
                f"{RULE}: cannot be followed: measure={self.rule.measure} is no numeric column of the ledger "
                f"({', '.join(columns)})"
            )
        found, left_out = self.outcomes(plan), pa.array(list(without), pa.string())
        for rows in ledger.batches(["episode_id", "status", self.rule.measure]):
            found.add(rows.filter(pc.invert(pc.is_in(rows["episode_id"], left_out))))
        return found


def read_rule(folder: Path) -> StoredRule | None:
    """The rule of a run directory; None where its plan is to be played to the end.

    Raises:
        UserError: it cannot be read.
    """
    path = folder / RULE
    if not path.exists():
        return None
    try:
        stored = read_json(path, Bounds(_LARGEST_RULE))
        rule, player = StopRule.of_json(stored["rule"]), str(stored["player"])
        name = _other_file(stored["other_run"])
        other = _read_other(folder / name) if name else None
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as a stopping rule: {error}") from error
    return StoredRule(rule, player, other)


def _other_file(noted: object) -> str:
    """The name of the file with what another run had reached; empty where the rule compares with none."""
    name = AGAINST if noted is True else str(noted or "")
    if name and not _AGAINST_FILE.fullmatch(name):
        raise ValueError(f"other_run={name}: is no name of such a file")
    return name


def _read_other(path: Path) -> dict[Pair, float]:
    table = read_parquet(path, (*PAIR_COLUMNS, "value"))
    has_null = any(table[name].null_count for name in table.column_names)
    if has_null or not pc.all(pc.is_finite(table["value"])).as_py():
        raise ValueError(f"{path.name} has a value that is null or no finite number")
    *pair, values = (table[name].to_pylist() for name in (*PAIR_COLUMNS, "value"))
    return dict(zip(zip(*pair, strict=True), values, strict=True))


def write_rule(folder: Path, stored: StoredRule) -> None:
    """Keep a rule, in place of any other.

    Raises:
        OSError: it cannot be written; the folder holds the rule that it held, or this one.
    """
    name = ""
    if stored.other is not None:
        table = _other_as_bytes(stored.other)
        name = f"against-{hashlib.sha256(table).hexdigest()[:16]}.parquet"
        write_durably(folder / name, table)
    content = {"rule": stored.rule.to_json(), "player": stored.player, "other_run": name or False}
    write_durably(folder / RULE, (json.dumps(content, indent=2) + "\n").encode())
    _remove_others(folder, but=name)


def remove_rule(folder: Path) -> None:
    """Forget the rule: the plan is to be played to its end."""
    (folder / RULE).unlink(missing_ok=True)
    _remove_others(folder, but="")


def _other_as_bytes(other: Mapping[Pair, float]) -> bytes:
    columns: dict[str, list[Any]] = {name: [] for name in PAIR_COLUMNS}
    for pair in other:
        for name, value in zip(PAIR_COLUMNS, pair, strict=True):
            columns[name].append(value)
    table = pa.table({**columns, "value": list(other.values())})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _remove_others(folder: Path, but: str) -> None:
    """Remove what earlier rules compared with; no rule names it any more."""
    for path in folder.glob("against*.parquet"):
        if _AGAINST_FILE.fullmatch(path.name) and path.name != but:
            path.unlink(missing_ok=True)
