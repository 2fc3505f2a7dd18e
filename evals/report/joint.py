"""Several runs in one report: players of one name are told apart, tables and figures of one name become one."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from evals.analysis.labels import run_labels, unused
from evals.figures import Figure, joined
from evals.ledger.records import plan_from_table, plan_to_table
from evals.ledger.run_data import RunData, count_rows
from evals.suite import Suite, built_in_names
from evals.suite_results import suite_figures, suite_results
from evals.summary.paired import file_stem
from evals.summary.status import is_imported
from evals.tables import Table
from evals.types import Episode


@dataclass(frozen=True)
class RunReport:
    """One run and the tables that all suites have in common."""

    name: str
    run: RunData
    """With names of players that no other run of the report has."""
    suite: Suite
    tables: Sequence[Table]
    """Scores and diagnostics, then performance."""
    status: Sequence[str]


@dataclass(frozen=True)
class Report:
    """All runs together."""

    runs: Sequence[RunReport]

    @property
    def baselines(self) -> frozenset[str]:
        """The built-in players, which do not compete for the best value, also under the names that tell runs apart."""
        found: set[str] = set()
        for one in self.runs:
            built_in = built_in_names(one.suite)
            found |= built_in
            found.update(player for player, _ in _pairs(one.run) if one.run.stored_name(player) in built_in)
        return frozenset(found)

    @property
    def status(self) -> list[str]:
        """What must be known of each run before its scores are read."""
        return [f"{one.name}: {line}" if len(self.runs) > 1 else line for one in self.runs for line in one.status]

    def tables(self) -> list[Table]:
        """All tables, those of one name joined."""
        return joined_tables({one.name: one.tables for one in self.runs})

    def paper_tables(self) -> list[Table]:
        """Tables in the layouts of the papers, joined."""
        return joined_tables({one.name: suite_results(one.suite, one.run, "paper") for one in self.runs})

    def figures(self) -> list[Figure]:
        """All figures, those of one name joined."""
        return joined(figure for one in self.runs for figure in suite_figures(one.suite, one.run))


def _default_labels(runs: Mapping[str, RunData]) -> Mapping[str, str]:
    with_imports = any(is_imported(run.sessions) for run in runs.values())
    if with_imports:
        # An import has only some of a run's settings: those that it lacks tell nothing.
        return {name: name for name in runs}
    return run_labels({name: run.settings for name, run in runs.items()})


def _first_runs(runs: Mapping[str, RunData], built_in: Collection[str]) -> Mapping[str, Mapping[frozenset[str], str]]:
    """Of each built-in player its sets of games, each with the first run that has it."""
    first_with: defaultdict[str, dict[frozenset[str], str]] = defaultdict(dict)
    for name, run in runs.items():
        players = dict.fromkeys(player for player, _ in _pairs(run))
        for player in players:
            if player in built_in:
                first_with[player].setdefault(_games(run, player), name)
    return first_with


def relabeled(
    runs: Mapping[str, RunData], built_in: Collection[str], names: Mapping[str, str] | None = None
) -> dict[str, RunData]:
    """The runs with each player under a name of its own.

    A player that plays one suite in several runs gets its run's label behind its own. A built-in player that was planned
    for the same episodes in an earlier run is left out: its games are the same. If all its games are, it keeps its name.

    Args:
        runs: By name.
        built_in: Names of built-in players.
        names: Labels of runs, by their names; by default what tells their settings apart, and with imports their names.
    """
    if not names:
        names = _default_labels(runs)
    counts = Counter(pair for run in runs.values() for pair in _pairs(run))
    first_with = _first_runs(runs, built_in)
    taken = {player for player, _ in counts}
    found = {}
    for name, run in runs.items():
        labels: dict[str, str | None] = {}
        in_several_runs = [player for player, suite in _pairs(run) if counts[player, suite] > 1]
        for player in dict.fromkeys(in_several_runs):
            labels[player] = unused(f"{player} ({names[name]})", name, taken)
            if player not in built_in:
                continue
            # Its games are the same as in an earlier run.
            first_run_with_games = first_with[player][_games(run, player)]
            if name != first_run_with_games:
                labels[player] = None
                continue
            # All its games are.
            if len(first_with[player]) == 1:
                labels[player] = player
        found[name] = run
        taken.update(label for label in labels.values() if label is not None)
        if labels:
            found[name] = with_labels(run, labels)
    return found


def _games(run: RunData, player: str) -> frozenset[str]:
    """The ids of a player's episodes."""
    ids = pc.filter(run.plan["episode_id"], pc.equal(run.plan["player"], player))
    return frozenset(ids.to_pylist())


def _pairs(run: RunData) -> list[tuple[str, str]]:
    """Players with the suites that they play."""
    return list(count_rows(run.plan, ("player", "suite")))


def with_labels(run: RunData, labels: Mapping[str, str | None]) -> RunData:
    """The run with other names of players; those named None are left out. Episodes get the ids of their new names."""
    renamed: dict[str, Episode] = {}
    for episode in plan_from_table(run.plan):
        label = labels.get(episode.player, episode.player)
        if label is not None:
            renamed[episode.id] = dataclasses.replace(episode, player=label)

    def rename(batch: pa.Table) -> pa.Table:
        batch = batch.filter(pc.is_in(batch["episode_id"], pa.array(renamed, pa.string())))
        episodes = [renamed[old] for old in batch["episode_id"].to_pylist()]
        columns = {"episode_id": [each.id for each in episodes], "player": [each.player for each in episodes]}
        for name in columns.keys() & {*batch.column_names}:
            batch = batch.set_column(batch.column_names.index(name), name, pa.array(columns[name], pa.string()))
        return batch

    stored_names = {label: name for name, label in labels.items() if label is not None}
    shown = run.renamed(plan_to_table(renamed.values()), rename)
    return dataclasses.replace(shown, unlabeled=run, stored_names=stored_names)


def joined_tables(runs: Mapping[str, Sequence[Table]]) -> list[Table]:
    """One table of those that have one name and the same columns; others get their run's name into the title.

    Tables of a run's performance that do not tell players apart stay by themselves.

    Args:
        runs: The tables of each run, by its name.
    """
    found: dict[str, Table] = {}
    for run, tables in runs.items():
        for table in tables:
            first = found.get(table.name)
            if first is None:
                found[table.name] = table
            elif _can_be_joined(first, table):
                more = [row for row in table.rows if row not in first.rows]
                notes = tuple(dict.fromkeys((*first.notes, *table.notes)))
                found[table.name] = dataclasses.replace(first, rows=(*first.rows, *more), notes=notes)
            else:
                name = f"{table.name}_{file_stem(run)}"
                found[name] = dataclasses.replace(table, name=name, title=f"{table.title} ({run})")
    return list(found.values())


def _can_be_joined(first: Table, table: Table) -> bool:
    if first.columns != table.columns:
        return False
    return "player" in table.columns or table.section != "performance"
