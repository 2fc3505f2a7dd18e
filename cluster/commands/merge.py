"""Joining the ledgers of runs that played parts of one plan (``shard=i/n``), without one big cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from cluster.config.plan import whole_plan
from cluster.config.registry import class_of
from cluster.engines.base import Engine, is_among
from cluster.engines.batch.store import journal_of
from cluster.errors import UserError
from cluster.stopping.registration import KEPT_AS, joined_registration
from cluster.storage.durable import write_durably
from cluster.storage.provenance import check_room, mixtures
from cluster.storage.run_directory import RunDirectory
from cluster.storage.shard import part_of, read_shard
from cluster.storage.spending import MergedPart, Spenders, Spending, check_journal, write_spending
from cluster.storage.stored_run import Run, read_runs
from envs.files import real_path, shown_files
from evals.analysis.differences import flat_settings
from evals.ledger.parts import LedgerChangedError
from evals.notes import NoteError, NotesFile
from evals.types import Episode

SHARD_SETTINGS = (
    "name",
    "run_dir",
    "shard",
    "strict",
    "retry_failed",
    "cluster",
    "tracker",
    "stop",
    "order",
    "model.replica",
)
"""Settings in which merged runs may differ."""

MAY_DIFFER = ("seconds", "cached_tokens", "cost", "session", "turns")
"""Columns in which two runs of one episode may differ without conflict."""

KEY = ("episode_id", "attempt")
Attempt = tuple[Any, ...]
"""An episode's id and the number of the attempt."""
Place = tuple[str | int, ...]
"""Player, suite, task, level, mode, index and repeat of an episode."""


@dataclass(frozen=True)
class Joined:
    """The result of a merge."""

    planned: int
    rows: int
    warnings: tuple[str, ...]
    """Missing shards, mixed versions, and batch jobs that are left behind."""


def merge(target: Path, sources: Sequence[Path]) -> Joined:
    """Join runs into a run directory: a new one, or one that earlier merges or an unsharded run have made.

    Its plan is the whole one, so that what no source played is counted as missing, can be merged later, or be played by
    ``raycade run`` with ``run_dir`` set to it.

    Raises:
        UserError: a run is missing or damaged, runs have different settings, or two say different things of one episode.
    """
    return read_runs([], lambda: _merge(target, sources))


def _merge(target: Path, sources: Sequence[Path]) -> Joined:
    """As ``merge``; may be called again when it did not come to its end.

    Raises:
        LedgerDamagedError: a part of some run cannot be read after all.
        LedgerChangedError: the target, or parts of some run, changed meanwhile.
    """
    # A target that exists is merged with the sources, and may be one of them.
    directory = RunDirectory(target)
    begun = directory.begun
    if not begun:
        directory.check_plan(())
    paths = {real_path(path): path for path in sources}
    if begun:
        paths.pop(real_path(target), None)
    others = [Run(path) for path in paths.values()]
    runs: list[Run] = [directory, *others] if begun else others
    if begun and directory.config.get("shard") is not None:
        raise UserError(f"{target} is itself a part (shard={directory.config['shard']}); name another target")
    warnings = _check_settings(runs)
    _check_one_plan(runs)
    plan, reason = _whole_plan(runs)
    owners = _check_conflicts(runs)
    warnings += _check_versions(runs)
    registration, unregistered = joined_registration(runs)
    warnings += unregistered
    config = {**runs[0].config, "shard": None, "run_dir": str(directory.path)}
    _check_endings(runs)
    sessions = _joined_sessions(runs)
    check_room(directory.path, sessions)
    directory.claim()
    try:
        _check_unchanged(directory, begun)
        # The target is written in an order in which a merge that was killed can be started again: the plan before the rows
        # of its episodes, and parts are removed last.
        replaced = directory.ledger.replaced if begun else ()
        directory.begin(plan, {"config.yaml": yaml.safe_dump(config, sort_keys=False, allow_unicode=True)})
        if len(plan) > len(directory.planned):
            directory.write_plan(plan)
        if registration:
            write_durably(directory.path / KEPT_AS, registration)
        # Money before the sessions, which say whose it is: a merge that was killed in between would take all for the target's.
        spending = _joined_spending(directory, others)
        if spending.total and spending != directory.spending:
            write_spending(directory.path, spending)
        if sessions != directory.sessions:
            directory.write_sessions(sessions)
        for run in others:
            _copy_rows(run, directory, owners)
            warnings += _copy_notes(run, directory)
        directory.remove(replaced)
        directory.compact(everything=True)
    finally:
        directory.release()
    known = None if reason else {episode.id for episode in plan}
    played = {name for name, _ in owners}
    missing = _missing_shards(runs, played, known, reason)
    left_behind = _jobs_left_behind(others, target, played)
    return Joined(len(plan), len(played), (*warnings, *missing, *left_behind))


def _check_unchanged(directory: RunDirectory, begun: bool) -> None:
    """See that no other merge has ended in a target since it was looked at; ``begun`` says what it was then."""
    there = {part.name for part in shown_files(directory.parts, "*.parquet")}
    if directory.begun != begun:
        raise LedgerChangedError(str(directory.path))
    if begun and there != directory.ledger.names:
        raise LedgerChangedError(str(directory.path))


# --- what belongs together ---


def _check_endings(runs: Sequence[Run]) -> None:
    """See that no run was ended by a stopping rule, and that all know what they have spent."""
    for run in runs:
        if run.stopping is not None:
            raise UserError(
                f"{run.path}: was played with a stopping rule, which chose its games by looking at their outcomes; parts "
                "that are chosen so cannot be merged. Play it to the end first: the same command with stop=none"
            )
    for run in runs:
        engine = _engine_class(run.config)
        # A source that forgot what it spent would make the merged run's spend cap start too low.
        if engine is not None and engine.metered:
            check_journal(run.path, run.ledger_cost, capped=True)


def _check_settings(runs: Sequence[Run]) -> list[str]:
    """See that all runs asked the same of the same model; returns what may not be the same.

    Settings that decide answers must be equal. Those of where and how a run was played may differ; of these, what an engine
    keeps fixed during a run (such as an endpoint's address) may hide another model, and is warned of.
    """
    first, *others = runs
    one = dict(flat_settings(first.config))
    operational, doubtful = _engine_keys(first.config)
    may_differ = {*SHARD_SETTINGS, *operational}
    warnings = []
    for run in others:
        other = dict(flat_settings(run.config))
        wrong: list[str] = []
        doubts: list[str] = []
        for key in sorted(one.keys() | other.keys()):
            here, there = one.get(key), other.get(key)
            if here == there:
                continue
            if not is_among(key, may_differ):
                wrong.append(key)
            if key in doubtful:
                doubts.append(f"{run.path} has {key}={there}, {first.path} {here}: is it the same model?")
        if wrong:
            raise UserError(f"{run.path} and {first.path} are not parts of one plan; they differ in {', '.join(wrong)}")
        warnings += doubts
    return warnings


def _engine_keys(config: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Which settings of a run's engine change no answer, and which it keeps fixed during a run."""
    cls = _engine_class(config)
    if cls is None:
        return set(), set()
    operational = {f"model.engine.{name}" for name in cls.operational}
    fixed = {f"model.engine.{name}" for name in cls.fixed_for_run}
    return operational, fixed


def _engine_class(config: Mapping[str, Any]) -> type[Engine] | None:
    """The class of a run's engine; None for a model without one."""
    model = config.get("model") or {}
    engine = model.get("engine")
    if not engine:
        return None
    cls: type[Engine] = class_of("model.engine", engine)
    return cls


def _check_one_plan(runs: Sequence[Run]) -> None:
    """See that no two runs plan one game under two ids: then their plans are not parts of one.

    Runs whose settings read the same have other plans where a file that a setting names (templates, domains, a secret of
    sealed seeds) has changed in between, or raycade itself.
    """
    plans = [(run, _by_place(run.plan)) for run in runs]
    # A suite of others may plan several games at one place; its shards then have different ones of them.
    ambiguous = {place for _, places in plans for place, ids in places.items() if len(ids) > 1}
    first: dict[Place, tuple[Run, str]] = {}
    for run, places in plans:
        for place, ids in places.items():
            if place in ambiguous:
                continue
            (name,) = ids
            owner, known = first.setdefault(place, (run, name))
            if known != name:
                raise _other_plan(run, owner, f"{' '.join(map(str, place))} is planned as {known[:8]} and {name[:8]}")


def _by_place(plan: Sequence[Episode]) -> dict[Place, set[str]]:
    """The ids of a plan by what says which game, in which mode and repeat, for which player."""
    places: defaultdict[Place, set[str]] = defaultdict(set)
    for each in plan:
        place = each.player, each.suite, each.task, each.level, each.mode, each.index, each.repeat
        places[place].add(each.id)
    return places


def _other_plan(run: Run, other: Run, what: str) -> UserError:
    return UserError(
        f"{run.path} and {other.path} are not parts of one plan, though their settings read the same: {what}. Has a file "
        "that a setting names (templates, domains, a secret) changed between them, or were they played with different "
        "versions of raycade?"
    )


def _whole_plan(runs: Sequence[Run]) -> tuple[list[Episode], str]:
    """The plan of which the runs have parts; or what they have together, and why no more is known.

    Raises:
        UserError: the plan of this version holds one run's episodes, and others of another one.
    """
    theirs: dict[str, Episode] = {}
    for run in runs:
        theirs |= {episode.id: episode for episode in run.plan}
    try:
        whole = {episode.id: episode for episode in whole_plan(runs[0].config)[2]}
    except (UserError, KeyError) as error:
        return list(theirs.values()), f"their suite cannot be planned here ({error})"
    within, beyond = list[Run](), list[Run]()
    for run in runs:
        if any(episode.id not in whole for episode in run.plan):
            beyond.append(run)
        elif run.plan:  # a shard of a short plan may have nothing
            within.append(run)
    if not beyond:
        return list(whole.values()), ""
    if within:
        raise _other_plan(beyond[0], within[0], "here, they plan the episodes of the second one only")
    return list(theirs.values()), "their settings plan other episodes with this version of raycade"


def _missing_shards(
    runs: Sequence[Run], rows: Collection[str], whole: Collection[str] | None, reason: str
) -> list[str]:
    """Which of the n shards no run brought; ``whole`` are the ids of the whole plan, if they are known."""
    brought = _shards_brought(runs)
    found = []
    for count, shards in sorted(brought.items()):
        expected = set(range(1, count + 1))
        if whole is not None:
            # A short plan may have nothing for some of the shards.
            expected = _shards_of(whole, count)
        missing = sorted(expected - shards - _shards_of(rows, count))
        if missing:
            names = ", ".join(f"shard={shard}/{count}" for shard in missing)
            found.append(f"missing: {names}; merge into the same target when there")
    # Runs that are all shards have every episode among them; others may lack some.
    may_lack_episodes = bool(found) or not brought
    if reason and may_lack_episodes:
        found.append(f"episodes that no run planned are not counted: {reason}")
    return found


def _shards_brought(runs: Sequence[Run]) -> dict[int, set[int]]:
    """The numbers of the runs' shards, by how many shards the plan was divided into."""
    brought: defaultdict[int, set[int]] = defaultdict(set)
    for run in runs:
        if run.config.get("shard") is not None:
            shard, count = read_shard(run.config["shard"])
            brought[count].add(shard)
    return brought


def _shards_of(ids: Collection[str], count: int) -> set[int]:
    return {part_of(episode_id, count) for episode_id in ids}


def _jobs_left_behind(runs: Sequence[Run], target: Path, played: Collection[str]) -> list[str]:
    """Which runs have games that are not over and turns of them in batch jobs, whose journal stays with the run."""
    found = []
    for run in runs:
        unfinished = {episode.id for episode in run.plan}.difference(played)
        if unfinished and journal_of(run.path).exists():
            found.append(
                f"{run.path}: {len(unfinished)} games are not over, and the answers of its batch jobs stay there: play it to "
                f"its end in its own folder, then merge it again. Played on in {target}, their turns are asked, and paid, again"
            )
    return found


# --- rows and versions ---


def _check_conflicts(runs: Sequence[Run]) -> dict[Attempt, Run]:
    """Which run's row counts for each attempt at an episode: the first one's."""
    owners: dict[Attempt, Run] = {}
    for run in runs:
        keys: list[Attempt] = []
        for batch in run.ledger.batches(KEY, every_attempt=True):
            keys.extend(_keys(batch))
        # What an earlier run has too must be the same in both.
        twice: defaultdict[Run, set[Attempt]] = defaultdict(set)
        for key in keys:
            if key in owners:
                twice[owners[key]].add(key)
        for owner, shared in twice.items():
            _compare(owner, run, shared)
        for key in keys:
            owners.setdefault(key, run)
    return owners


def _compare(owner: Run, run: Run, shared: Collection[Attempt]) -> None:
    """See that two runs say the same of the attempts that both have."""
    one, other = _rows_of(owner, shared), _rows_of(run, shared)
    ids = one["episode_id"].to_pylist()
    for name in sorted({*one.column_names, *other.column_names} - set(MAY_DIFFER)):
        for episode_id, here, there in zip(ids, _values(one, name), _values(other, name), strict=True):
            if here != there:
                where = f"{owner.path} and {run.path} disagree on episode {episode_id}"
                raise UserError(f"{where}: {name} is {here!r} and {there!r}")


def _rows_of(run: Run, keys: Collection[Attempt]) -> pa.Table:
    """A run's rows of some attempts, sorted by these."""
    batches = []
    for batch in run.ledger.batches(every_attempt=True):
        shared = pa.array([key in keys for key in _keys(batch)], pa.bool_())
        batches.append(batch.filter(shared))
    return pa.concat_tables(batches).sort_by([(name, "ascending") for name in KEY])


def _values(table: pa.Table, name: str) -> list[Any]:
    """A column's values; nothing in every row where the table lacks it."""
    values: list[Any] = table[name].to_pylist() if name in table.column_names else [None] * len(table)
    return values


def _copy_rows(run: Run, directory: RunDirectory, owners: Mapping[Attempt, Run]) -> None:
    """Commit a run's rows that no run before it has."""
    for batch in run.ledger.batches(run.ledger.schema.names, every_attempt=True):
        mine = pa.array([owners[key] is run for key in _keys(batch)], pa.bool_())
        if pc.any(mine).as_py():
            directory.commit_rows(batch.filter(mine))


def _copy_notes(run: Run, directory: RunDirectory) -> list[str]:
    """Add a run's notes to those of the merged one; returns which lines cannot be read."""
    theirs = NotesFile(run.path)
    try:
        NotesFile(directory.path).add_from(theirs)
    except NoteError as error:
        raise UserError(str(error)) from error
    return [f"notes that are not merged: {line}" for line in theirs.read().damage]


def _keys(batch: pa.Table) -> Iterator[Attempt]:
    return zip(*(batch[name].to_pylist() for name in KEY), strict=True)


def _check_versions(runs: Sequence[Run]) -> list[str]:
    """What the runs' sessions were played with that was not the same."""
    found = mixtures([session for run in runs for session in run.sessions])
    return [f"the parts were played with different versions: {'; '.join(found)}"] if found else []


def _joined_spending(target: Run, others: Sequence[Run]) -> Spending:
    """What the target and the runs that are merged into it have spent, each part once.

    A part of which another one holds all sessions is that one, at an earlier time. Parts that share only some sessions are
    copies of a run that were played on apart: both count, rather too much than too little for a spend cap.
    """
    found: list[MergedPart] = []
    highest = 0.0
    for run in (target, *others):  # a copy of the target may be among the others
        found += run.spending.parts(Spenders.of(run.path, run.sessions))
        highest = max(highest, run.spending.highest)
    parts: list[MergedPart] = []
    # the longest and dearest first, so that earlier states of a run meet the latest one
    for part in sorted(found, key=lambda part: (len(part.sessions), part.total), reverse=True):
        sessions = set(part.sessions)
        held = any(sessions <= set(kept.sessions) for kept in parts)
        if not held:
            parts.append(part)
    return Spending(sum(part.total for part in parts), 0.0, highest, tuple(parts))


def _joined_sessions(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The sessions of all runs, each once."""
    sessions: list[dict[str, Any]] = []
    for run in runs:
        known = {session.get("id") for session in sessions}
        sessions += [session for session in run.sessions if session.get("id") not in known]
    return sessions
