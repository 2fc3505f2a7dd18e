"""Joining the ledgers of runs that played parts of one plan (``shard=i/n``), without one big cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from cluster.config.registry import class_of
from cluster.config.settings import whole_plan
from cluster.engines.base import Engine, is_among
from cluster.errors import UserError
from cluster.storage.provenance import mixtures, read_versions, write_versions
from cluster.storage.run_directory import RunDirectory
from cluster.storage.shard import part_of, read_shard
from cluster.storage.stored_run import read_config, read_plan, read_plan_table, reading, sound_ledger
from evals.ledger.ledger import Ledger, LedgerChangedError
from evals.types import Episode

SHARD_SETTINGS = (
    "run_dir",
    "shard",
    "strict",
    "retry_failed",
    "cluster",
    "tracker",
    "model.replica",
)
"""Settings in which merged runs may differ."""

MAY_DIFFER = ("seconds", "cached_tokens", "cost", "session", "turns")
"""Columns in which two runs of one episode may differ without conflict."""

KEY = ("episode_id", "attempt")
Attempt = tuple[Any, ...]
"""An episode's id and the number of the attempt."""


@dataclass(frozen=True)
class Joined:
    """The result of a merge."""

    planned: int
    rows: int
    warnings: tuple[str, ...]
    """Missing shards and mixed versions."""


def merge(target: Path, sources: Sequence[Path]) -> Joined:
    """Join runs into a run directory: a new one, or one that earlier merges or an unsharded run have made.

    Its plan is the whole one, so that what no source played is counted as missing, can be merged later, or be played by
    ``raycade run`` with ``run_dir`` set to it.

    Raises:
        UserError: a run is missing or damaged, runs have different settings, or two say different things of one episode.
    """
    return reading(lambda: _merge(target, sources))


def _merge(target: Path, sources: Sequence[Path]) -> Joined:
    """As ``merge``; may be called again when it did not come to its end.

    Raises:
        LedgerDamagedError: a part of some run cannot be read after all.
        LedgerChangedError: the target, or parts of some run, changed meanwhile.
    """
    directory = RunDirectory(target)
    begun = _parts(target) is not None
    if not begun:
        directory.check_plan(())
    runs = list(dict.fromkeys([target, *sources] if begun else sources))
    configs = {run: read_config(run) for run in runs}
    if begun and configs[target].get("shard") is not None:
        raise UserError(f"{target} is itself a part (shard={configs[target]['shard']}); name another target")
    warnings = _check_settings(configs)
    theirs = {episode.id: episode for run in runs for episode in read_plan(run)}
    plan, reason = _whole(configs[runs[0]], theirs)
    ledgers = {run: sound_ledger(run, read_plan_table(run)) for run in runs}
    owners = _check_conflicts(ledgers)
    warnings += _check_versions(runs)
    directory.claim()
    try:
        if _parts(target) != (ledgers[target].names if begun else None):
            raise LedgerChangedError(str(target))  # another merge ended just now
        config = {**configs[runs[0]], "shard": None, "run_dir": str(target)}
        directory.begin(plan, {"config.yaml": yaml.safe_dump(config, sort_keys=False, allow_unicode=True)})
        if len(plan) > len(read_plan_table(target)):
            directory.write_plan(plan)
        _write_versions(target, runs)
        for run in runs:
            if run != target:
                _copy(ledgers[run], directory, owners, run)
        directory.remove(ledgers[target].replaced if begun else ())
        directory.compact(everything=True)
    finally:
        directory.release()
    known = {episode.id for episode in plan} if not reason else None
    played = {name for name, _ in owners}
    return Joined(len(plan), len(played), (*warnings, *_missing_parts(configs, played, known, reason)))


def _parts(target: Path) -> set[str] | None:
    """The names of a run's parts; None where no run has begun."""
    if not (target / "plan.parquet").exists():
        return None
    return {path.name for path in (target / "episodes").glob("*.parquet")}


# --- what belongs together ---


def _check_settings(configs: Mapping[Path, Mapping[str, Any]]) -> list[str]:
    """See that all runs asked the same of the same model; returns what may not be the same."""
    (first, one), *others = ((run, dict(_flat(config))) for run, config in configs.items())
    engine = configs[first]["model"].get("engine")
    cls: type[Engine] | None = class_of("model.engine", engine) if engine else None
    operational = {f"model.engine.{name}" for name in (cls.operational if cls else ())}
    fixed = {f"model.engine.{name}" for name in (cls.fixed_for_run if cls else ())}
    warnings = []
    for run, other in others:
        differing = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
        if wrong := [key for key in differing if not is_among(key, {*SHARD_SETTINGS, *operational})]:
            raise UserError(f"{run} and {first} are not parts of one plan; they differ in {', '.join(wrong)}")
        for key in (key for key in differing if key in fixed):
            warnings.append(f"{run} has {key}={other.get(key)}, {first} {one.get(key)}: is it the same model?")
    return warnings


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{key}.")
        elif value is not None:  # a key that is not there says the same
            yield f"{above}{key}", value


def _whole(config: Mapping[str, Any], theirs: Mapping[str, Episode]) -> tuple[list[Episode], str]:
    """The plan of which the runs have parts; or what they have together, and why no more is known."""
    try:
        whole = {episode.id: episode for episode in whole_plan(config)[2]}
    except (UserError, KeyError) as error:
        return list(theirs.values()), f"their suite cannot be planned here ({error})"
    if not theirs.keys() <= whole.keys():
        return list(theirs.values()), "their settings plan other episodes with this version of raycade"
    return list(whole.values()), ""


def _missing_parts(
    configs: Mapping[Path, Mapping[str, Any]], rows: Collection[str], whole: Collection[str] | None, reason: str
) -> list[str]:
    """Which of the n parts no run brought; ``whole`` are the ids of the whole plan, if they are known."""
    shards = {read_shard(config["shard"]) for config in configs.values() if config.get("shard") is not None}
    found = []
    for parts in sorted({parts for _, parts in shards}):
        brought = {part for part, of in shards if of == parts} | {part_of(name, parts) for name in rows}
        there_are = range(1, parts + 1) if whole is None else {part_of(name, parts) for name in whole}
        if missing := sorted(set(there_are) - brought):
            names = ", ".join(f"shard={part}/{parts}" for part in missing)
            found.append(f"missing: {names}; merge into the same target when there")
    if reason and (found or not shards):
        found.append(f"episodes that no run planned are not counted: {reason}")
    return found


# --- rows and versions ---


def _check_conflicts(ledgers: Mapping[Path, Ledger]) -> dict[Attempt, Path]:
    """Which run's row counts for each attempt at an episode: the first one's."""
    owners: dict[Attempt, Path] = {}
    for run, ledger in ledgers.items():
        keys = [key for batch in ledger.batches(KEY, every_attempt=True) for key in _keys(batch)]
        twice = dict.fromkeys(owners[key] for key in keys if key in owners)
        for owner in twice:
            shared = {key for key in keys if owners.get(key) == owner}
            _compare(owner, ledgers[owner], run, ledger, shared)
        for key in keys:
            owners.setdefault(key, run)
    return owners


def _compare(owner: Path, one: Ledger, run: Path, other: Ledger, shared: Collection[Attempt]) -> None:
    """See that two runs say the same of the attempts that both have."""
    tables = []
    for ledger in (one, other):
        batches = [batch.filter(_among(batch, shared)) for batch in ledger.batches(every_attempt=True)]
        tables.append(pa.concat_tables(batches).sort_by([(name, "ascending") for name in KEY]))
    for name in sorted({*tables[0].column_names, *tables[1].column_names} - set(MAY_DIFFER)):
        values = [table[name].to_pylist() if name in table.column_names else [None] * len(table) for table in tables]
        for episode_id, here, there in zip(tables[0]["episode_id"].to_pylist(), *values, strict=True):
            if here != there:
                raise UserError(f"{owner} and {run} disagree on episode {episode_id}: {name} is {here!r} and {there!r}")


def _copy(ledger: Ledger, directory: RunDirectory, owners: Mapping[Attempt, Path], run: Path) -> None:
    """Commit a run's rows that no run before it has."""
    for batch in ledger.batches(ledger.schema.names, every_attempt=True):
        mine = pa.array([owners[key] == run for key in _keys(batch)], pa.bool_())
        if pc.any(mine).as_py():
            directory.commit_rows(batch.filter(mine))


def _keys(batch: pa.Table) -> Iterator[Attempt]:
    return zip(*(batch[name].to_pylist() for name in KEY), strict=True)


def _among(batch: pa.Table, keys: Collection[Attempt]) -> pa.Array:
    return pa.array([key in keys for key in _keys(batch)], pa.bool_())


def _check_versions(runs: Sequence[Path]) -> list[str]:
    """What the runs' sessions were played with that was not the same."""
    found = mixtures([session for run in runs for session in read_versions(run)])
    return [f"the parts were played with different versions: {'; '.join(found)}"] if found else []


def _write_versions(target: Path, runs: Sequence[Path]) -> None:
    """The sessions of all runs, each once."""
    sessions: list[dict[str, Any]] = []
    for run in runs:
        known = {session.get("id") for session in sessions}
        sessions += [session for session in read_versions(run) if session.get("id") not in known]
    if sessions != read_versions(target):
        write_versions(target, sessions)
