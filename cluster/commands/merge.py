"""Joining the ledgers of runs that played parts of one plan (``shard=i/n``), without one big cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from cluster.config.registry import class_of
from cluster.config.settings import whole_plan
from cluster.engines.base import Engine
from cluster.errors import UserError
from cluster.storage.provenance import read_versions, write_versions
from cluster.storage.run_directory import RunDirectory, read_config, read_episodes, read_plan
from cluster.storage.shard import part_of, read_shard
from evals.types import Episode

OWN_AFFAIR = (
    "run_dir",
    "shard",
    "cluster",
    "tracker",
    "model.replica",
)
"""Settings in which runs that are joined may differ."""

TIMES = ("seconds", "cached_tokens", "turns")
"""Columns in which two runs of one episode may differ without being in conflict."""


@dataclass(frozen=True)
class Joined:
    """What a merge made."""

    planned: int
    rows: int
    warnings: tuple[str, ...]
    """What is missing, or may not belong together."""


def merge(target: Path, sources: Sequence[Path]) -> Joined:
    """Join runs into a run directory: a new one, or one that earlier merges or an unsharded run have made.

    Its plan is the whole one, so that what no source played is counted as missing, can be merged later, or be played by
    ``raycade run`` with ``run_dir`` set to it.

    Raises:
        UserError: a run is missing or damaged, runs have different settings, or two say different things of one episode.
    """
    directory = RunDirectory(target)
    begun = (target / "plan.parquet").exists()
    if not begun:
        directory.check_plan(())
    runs = list({run.resolve(): run for run in ([target] if begun else []) + list(sources)}.values())
    configs = {run: read_config(run) for run in runs}
    if begun and configs[target].get("shard") is not None:
        raise UserError(f"{target} is itself a part (shard={configs[target]['shard']}); name another target")
    warnings = _check_settings(configs)
    theirs = {episode.id: episode for run in runs for episode in read_plan(run)}
    plan, reason = _whole(configs[runs[0]], theirs)
    owners = _check_conflicts(runs)
    directory.claim()
    try:
        config = {**configs[runs[0]], "shard": None, "run_dir": str(target)}
        directory.begin(plan, {"config.yaml": yaml.safe_dump(config, sort_keys=False, allow_unicode=True)})
        if len(plan) > len(read_plan(target)):
            directory.write_plan(plan)
        there = set(read_episodes(target).table["episode_id"].to_pylist())
        _write_versions(target, runs)
        for run in runs:
            for part in sorted((run / "episodes").glob("*.parquet")) if run != target else ():
                rows = pq.read_table(part)
                mine = [owners.get(name) == run and name not in there for name in rows["episode_id"].to_pylist()]
                if any(mine):
                    directory.commit(rows.filter(pa.array(mine)))
    finally:
        directory.release()
    known = {episode.id for episode in plan} if not reason else None
    return Joined(len(plan), len(owners), (*warnings, *_missing_parts(configs, owners.keys(), known, reason)))


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
        if wrong := [key for key in differing if not (_own_affair(key) or key in operational)]:
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


def _own_affair(key: str) -> bool:
    return any(f"{key}.".startswith(f"{own}.") for own in OWN_AFFAIR)


def _whole(config: Mapping[str, Any], theirs: Mapping[str, Episode]) -> tuple[list[Episode], str]:
    """The plan of which the runs have parts; or what they have together, and why no more is known."""
    try:
        whole = {episode.id: episode for episode in whole_plan(config)[2]}
    except (UserError, KeyError) as error:
        return list(theirs.values()), f"their suite cannot be planned here ({error})"
    if not theirs.keys() <= whole.keys():
        return list(theirs.values()), "their settings plan other episodes with this version of raycade"
    return [theirs.get(name, episode) for name, episode in whole.items()], ""


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


def _check_conflicts(runs: Sequence[Path]) -> dict[str, Path]:
    """Which run's row counts for each episode: the first one's."""
    owners: dict[str, Path] = {}
    ledgers = {run: read_episodes(run).table for run in runs}
    places = {
        run: {name: number for number, name in enumerate(ledger["episode_id"].to_pylist())}
        for run, ledger in ledgers.items()
    }
    for run in runs:
        for name, place in places[run].items():
            owner = owners.setdefault(name, run)
            if owner == run:
                continue
            one, other = ledgers[owner].slice(places[owner][name], 1), ledgers[run].slice(place, 1)
            if found := _conflict(one.to_pylist()[0], other.to_pylist()[0]):
                raise UserError(f"{owner} and {run} disagree on episode {name}: {found}")
    return owners


def _conflict(one: dict[str, Any], other: dict[str, Any]) -> str:
    names = [name for name in one.keys() | other.keys() if name not in TIMES and one.get(name) != other.get(name)]
    return ", ".join(f"{name} is {one.get(name)!r} and {other.get(name)!r}" for name in sorted(names))


def _write_versions(target: Path, runs: Sequence[Path]) -> None:
    """The sessions of all runs, each once."""
    sessions: list[dict[str, Any]] = []
    for run in runs:
        sessions += [session for session in read_versions(run) if session not in sessions]
    if sessions != read_versions(target):
        write_versions(target, sessions)
