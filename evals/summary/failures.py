"""Why episodes failed: causes grouped by message, with the episodes that each of them ended."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from evals.ledger.run_data import RunData, count_rows
from evals.tables import Table

EPISODES_KEPT = 20
"""Ids kept of each cause, the first in alphabetical order, so that they do not depend on the order of the ledger."""

_LONGEST = 400
"""Characters of a message that are looked at and shown."""
_VARIABLE = re.compile(r"(0x[0-9a-f]+|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:[.,:]\d+)*)")
"""What may differ between messages of one cause: numbers, addresses and hashes."""


@dataclass
class Cause:
    """Failures whose messages are alike; what differs between them reads ``#``."""

    parts: list[str]
    """Alternately what all messages share, and a number that may differ."""
    kind: str = ""
    count: int = 0
    episodes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The message."""
        return "".join(self.parts)

    def add(self, parts: Sequence[str], episode: str) -> None:
        """Count one more failure."""
        self.count += 1
        self.parts = [mine if mine == other else "#" for mine, other in zip(self.parts, parts, strict=True)]
        insort(self.episodes, episode)
        del self.episodes[EPISODES_KEPT:]


class Causes:
    """Failures counted by cause, one after the other."""

    def __init__(self) -> None:
        """Without any."""
        self._found: dict[tuple[str, ...], Cause] = {}

    def add(self, error: str, episode: str = "", kind: str = "") -> None:
        """Count a failed episode.

        Args:
            error: Its message, as in the ledger.
            episode: Its id.
            kind: Whose failure it was (``evals.types.ErrorKind``).
        """
        text = " ".join(error.split())
        parts = _VARIABLE.split(text if len(text) <= _LONGEST else text[:_LONGEST] + " ...")
        self._found.setdefault((kind, *parts[::2]), Cause(parts, kind)).add(parts, episode)

    def most_common(self) -> list[Cause]:
        """All causes, the most frequent first."""
        return sorted(self._found.values(), key=lambda cause: (-cause.count, cause.text, cause.kind))


def causes_of(run: RunData) -> dict[tuple[str, str], list[Cause]]:
    """Causes of failure by player and suite, in the order of the plan; those without failures are left out."""
    found: dict[tuple[str, str], Causes] = {}
    names = ["player", "suite", "error", "error_kind", "episode_id"]
    for batch in run.batches([*names, "status"]):
        for row in batch.filter(pc.equal(batch["status"], "failed")).select(names).to_pylist():
            causes = found.setdefault((row["player"], row["suite"]), Causes())
            causes.add(row["error"], row["episode_id"], row["error_kind"])
    return {key: found[key].most_common() for key in count_rows(run.plan, ("player", "suite")) if key in found}


def failure_table(causes: Mapping[tuple[str, str], Sequence[Cause]]) -> Table | None:
    """One row per cause; None where nothing failed."""
    if not causes:
        return None
    return Table(
        name="failures",
        title="Failed episodes by cause",
        columns=("player", "suite", "failed", "failure of", "cause", "for example"),
        rows=tuple(
            (player, suite, cause.count, cause.kind, cause.text, cause.episodes[0])
            for (player, suite), found in causes.items()
            for cause in found
        ),
        notes=(
            "cause: the message, with # for numbers that differ; for example: the id of one such episode. "
            f"summary.json has up to {EPISODES_KEPT} ids of each cause.",
        ),
        headline=True,
    )


def failures_to_json(causes: Mapping[tuple[str, str], Sequence[Cause]]) -> list[dict[str, Any]]:
    """What ``summary.json`` holds of failures."""
    return [
        {
            **{"player": player, "suite": suite, "cause": cause.text, "kind": cause.kind},
            **{"count": cause.count, "episodes": list(cause.episodes)},
        }
        for (player, suite), found in causes.items()
        for cause in found
    ]
