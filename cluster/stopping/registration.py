"""Preregistration: what a comparison will be, written down before it is run, and compared with what was done."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster.config.settings import Settings
from cluster.errors import UserError
from cluster.stopping.against import is_same_side
from cluster.storage.durable import write_durably
from cluster.storage.provenance import versions
from cluster.storage.stored_run import Run
from envs.files import Bounds, read_bytes, read_json
from envs.suggest import did_you_mean
from evals.ledger.columns import ledger_schema
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.stopping.outcomes import measurable
from evals.stopping.rules import StopRule
from evals.suite import ledger_columns
from evals.suite_results import suite_measures
from evals.tables import Cell, Table
from evals.types import stable_hash

KEPT_AS = "preregistration.json"
UNKNOWN = "unknown"
"""A version that was not noted."""
_LARGEST = 1_000_000
"""Bytes of a preregistration; ours have about a thousand."""


@dataclasses.dataclass(frozen=True)
class Registration:
    """What was stated before a run."""

    hypothesis: str
    measure: str
    players: tuple[str, ...]
    alpha: float
    rule: StopRule | None
    """None for a run that plays its whole plan."""
    plan: str
    """Hash of the planned episodes."""
    versions: dict[str, str]
    registered: str
    """When, in UTC."""

    def to_json(self) -> str:
        """The file's content; its SHA-256 identifies it."""
        content = dataclasses.asdict(self) | {"rule": None if self.rule is None else self.rule.to_json()}
        return json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True) + "\n"

    @classmethod
    def read(cls, path: Path) -> Registration:
        """The registration of a file.

        Raises:
            UserError: there is none, or it cannot be read.
        """
        try:
            values = read_json(path, Bounds(_LARGEST))
            rule = None if values["rule"] is None else StopRule.of_json(values["rule"])
            texts = {name: str(values[name]) for name in ("hypothesis", "measure", "plan", "registered")}
            used = {str(name): str(version) for name, version in values["versions"].items()}
            players = tuple(map(str, values["players"]))
            return cls(**texts, players=players, alpha=float(values["alpha"]), rule=rule, versions=used)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: cannot be read as a preregistration: {error}") from error


def plan_hash(ids: Sequence[str]) -> str:
    """Identifies a set of planned episodes, and with them games, model, sampling and prompts."""
    return stable_hash(sorted(ids))


def check_measure(measure: str, settings: Settings) -> None:
    """See that a run with these settings can be compared by a measure: a numeric column of its ledger, or one of the suite's.

    Raises:
        UserError: it cannot.
    """
    suite = settings.suite
    columns = measurable(ledger_schema(ledger_columns(suite)))
    if measure in columns:
        return
    # The suite names its own measures for any run, also one in which nothing has been played.
    nothing = RunData.of_tables(plan_to_table(settings.plan), records_to_table([], ledger_columns(suite)))
    offered = [
        one.name for part in suite.parts for one in suite_measures(part, nothing.of(part.name), settings.model.name)
    ]
    known = list(dict.fromkeys([*offered, *columns]))
    if measure not in known:
        near = did_you_mean(measure, known) or "."
        raise UserError(
            f"--measure {measure}: neither a measure of the suite nor a numeric column of its ledger{near} "
            f"There are {', '.join(known)}"
        )


def register(settings: Settings, hypothesis: str, measure: str, alpha: float) -> Registration:
    """State what a run with these settings will be."""
    stop = settings.stop
    # A stopping rule has a measure and an error level of its own.
    if stop is not None:
        measure, alpha = stop.measure, stop.alpha
    players = dict.fromkeys(episode.player for episode in settings.plan)
    used = {name: version or UNKNOWN for name, version in versions().items()}
    return Registration(
        hypothesis=hypothesis,
        measure=measure,
        players=tuple(players),
        alpha=alpha,
        rule=stop,
        plan=plan_hash([episode.id for episode in settings.plan]),
        versions=used,
        registered=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def keep(run: Run, path: Path) -> str:
    """Keep a registration with the run that begins; returns its SHA-256.

    Raises:
        UserError: the run has another one already, or has played without one.
    """
    Registration.read(path)
    content = read_bytes(path, _LARGEST)
    kept = run.path / KEPT_AS
    if kept.exists():
        if read_bytes(kept, _LARGEST) != content:
            raise UserError(f"preregistration={path}: {run.path} began with another one, {kept}")
        return sha256(content)
    if run.sessions:
        raise UserError(f"preregistration={path}: {run.path} has been played without it; name a new run_dir")
    write_durably(kept, content)
    return sha256(content)


def joined_registration(runs: Sequence[Run]) -> tuple[bytes, list[str]]:
    """The file of the registration that all of these runs have, which are joined; empty where some have none, which is told.

    Returns:
        The file, and warnings.

    Raises:
        UserError: they have different ones.
    """
    kept = {run.path: run.path / KEPT_AS for run in runs}
    contents = {path: read_bytes(file, _LARGEST) for path, file in kept.items() if file.exists()}
    if not contents:
        return b"", []
    (first, content), *others = contents.items()
    for path, other in others:
        if other != content:
            raise UserError(f"{path} and {first} have different preregistrations: {KEPT_AS}")
    without = [str(path) for path in kept if path not in contents]
    if without:
        return b"", [f"played without the preregistration of {first}, so the merged run has none: {', '.join(without)}"]
    return content, []


def sha256(content: bytes) -> str:
    """What is published to prove later that a file has not changed."""
    return hashlib.sha256(content).hexdigest()


def registration_table(run: Run, label: str, measure: str | None = None) -> Table | None:
    """What was registered for a run beside what was done; None for a run without registration.

    Args:
        run: A run that has begun.
        label: What the comparison calls it.
        measure: The measure that is looked at now; None for the suites' own.
    """
    path = run.path / KEPT_AS
    if not path.exists():
        return None
    registered = Registration.read(path)
    rows = list(_checks(registered, run, measure))
    return Table(
        name=f"preregistration_{label}",
        title=f"Preregistration of {label}: {registered.hypothesis}",
        columns=("what", "registered", "done", "kept"),
        rows=tuple(rows),
        notes=(f"SHA-256 of the file: {sha256(read_bytes(path, _LARGEST))}.",),
    )


def _checks(registered: Registration, run: Run, measure: str | None) -> Iterator[tuple[Cell, ...]]:
    stored = run.rule
    rule = stored.rule if stored is not None else None
    players = list(dict.fromkeys(run.planned["player"].to_pylist()))
    found: dict[str, tuple[Any, Any]] = {
        "plan": (registered.plan, plan_hash(run.planned["episode_id"].to_pylist())),
        "players": (list(registered.players), players),
        "stopping rule": (_rule(registered.rule), _rule(_as_registered(rule, registered.rule, players))),
        "measure": (registered.measure, measure or registered.measure),
    }
    for name, (stated, done) in found.items():
        yield name, _shown(stated), _shown(done), _yes_or_no(stated == done)
    began = min((str(session["began"]) for session in run.sessions if session.get("began")), default="")
    if began:
        yield "registered first", registered.registered, began, _yes_or_no(registered.registered <= began)
    yield from _version_checks(registered, run)


def _version_checks(registered: Registration, run: Run) -> Iterator[tuple[Cell, ...]]:
    for name in ("git_commit", "vllm"):
        used = sorted({str(session[name]) for session in run.sessions if session.get(name)})
        # What one of the two has not noted cannot be compared.
        version = registered.versions.get(name, UNKNOWN)
        if not used or version == UNKNOWN:
            continue
        shown = ", ".join(each[:12] for each in used)
        yield name, version[:12], shown, _yes_or_no(used == [version])


def _yes_or_no(kept: bool) -> str:
    return "yes" if kept else "NO"


def _as_registered(rule: StopRule | None, registered: StopRule | None, players: Sequence[str]) -> StopRule | None:
    """A rule with ``against`` as it was registered, where it names the same player or run."""
    if rule is None or registered is None:
        return rule
    is_same = is_same_side(registered.against, rule.against, players)
    return dataclasses.replace(rule, against=registered.against) if is_same else rule


def _rule(rule: StopRule | None) -> str:
    if rule is None:
        return "none: the whole plan"
    values = {name: value for name, value in rule.to_json().items() if value not in (None, "")}
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
