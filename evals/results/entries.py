"""What is kept of a run: scores, counts and tables of each player and suite; never the ledger itself."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from evals.analysis.labels import run_labels, unused
from evals.ledger.run_data import RunData, count_rows
from evals.stats.intervals import Estimate
from evals.suite import Suite, built_in_names
from evals.suite_results import suite_measures, suite_results
from evals.summary.as_planned import overall_estimate
from evals.summary.paired import Measure, Observation
from evals.summary.reply_health import ReplyHealth, reply_health
from evals.tables import Table
from evals.types import stable_hash

_GAME = ("task", "level", "mode", "index", "repeat", "seed")
_SUMS = ("cost", "seconds")
_SUMMED: list[tuple[Any, str]] = [([], "count_all"), *((name, "sum") for name in _SUMS)]
"""What Arrow makes of the rows of one player and status."""


@dataclass(frozen=True)
class Outline:
    """What is read of every run before the first ledger is."""

    name: str
    settings: Mapping[str, Any]
    """The resolved configuration."""
    plays: Collection[tuple[str, str]]
    """Players with the suites that they play."""
    built_in: Collection[str]
    """Players that need no engine."""
    episodes: Mapping[str, str] = field(default_factory=dict)
    """Hash of the ids of each player's planned episodes."""


@dataclass(frozen=True)
class Score:
    """One measure of a player's games, pooled over all of them as `raycade compare` pools it."""

    measure: str
    estimate: Estimate
    values: array[float]
    keys: tuple[tuple[Any, ...], ...]
    """Cell, game and unit of each value; one object for all players with the same ones."""
    dimensions: tuple[str, ...] = ()
    """What the parts of a cell are called."""
    better: Literal["higher", "lower"] = "higher"

    def observations(self, depth: int = 0) -> list[Observation]:
        """As they were, in cells that tell the first ``depth`` dimensions apart: for 0 all in one."""
        pairs = zip(self.keys, self.values, strict=True)
        return [Observation(cell[:depth], game, (cell, unit), value) for (cell, game, unit), value in pairs]


@dataclass(frozen=True)
class Entry:
    """One player of one run in one suite."""

    player: str
    """As the site calls it."""
    suite: str
    run: str
    """Name of the run."""
    reference: str
    """Of a built-in player what it stands for, such as ``perfect play (oracle)``; empty for a model."""
    shortcut: bool
    """Whether it is a player that cheats as a model could."""
    games: str
    """Hash of the games that it was to play: entries of other games are never in one table."""
    about: Mapping[str, Sequence[str]]
    """The values of task, level and mode."""
    scores: Sequence[Score]
    planned: int
    done: int
    failed: int
    health: ReplyHealth
    cost: float
    seconds: float
    """Sum over its episodes."""
    stopping: Sequence[str]
    """What the run's stopping rule said."""
    episodes: str = ""
    """Hash of the ids of its planned episodes: with the same games it tells the rules and prompts of two runs apart."""
    of_runs: tuple[str, ...] = ()
    """Of a built-in player on a board of several rules: the runs that it stands for."""

    @property
    def title(self) -> str:
        """What its row is called."""
        name = self.reference or self.player
        return f"{name} of {', '.join(self.of_runs)}" if self.of_runs else name

    @property
    def played(self) -> int:
        """Episodes that were played, failed ones included."""
        return self.done + self.failed

    @property
    def missing(self) -> int:
        """Episodes that nobody has played yet."""
        return self.planned - self.played


@dataclass(frozen=True)
class RunPart:
    """All that a site shows of a run."""

    name: str
    settings: Mapping[str, Any]
    sessions: Sequence[Mapping[str, Any]]
    entries: Sequence[Entry]
    tables: Mapping[str, Sequence[Table]]
    """Scores, by suite."""


def player_labels(outlines: Sequence[Outline]) -> dict[str, dict[str, str]]:
    """For each run the names of its models that another run has too, with what tells the settings of these runs apart."""
    found: dict[str, dict[str, str]] = {outline.name: {} for outline in outlines}
    taken = {player for outline in outlines for player, _ in outline.plays}
    for player, runs in _runs_by_model(outlines).items():
        if _complete_each_other(player, runs):
            continue
        for name, label in _labels_with(player, runs).items():
            found[name][player] = unused(f"{player} ({label})", name, taken)
            taken.add(found[name][player])
    return found


def _runs_by_model(outlines: Sequence[Outline]) -> Mapping[str, list[Outline]]:
    """The runs of each player that is not built in."""
    runs: defaultdict[str, list[Outline]] = defaultdict(list)
    for outline in outlines:
        players = dict.fromkeys(player for player, _ in outline.plays)
        for player in players:
            if player not in outline.built_in:
                runs[player].append(outline)
    return runs


def _complete_each_other(player: str, runs: Sequence[Outline]) -> bool:
    """Whether a player has played no suite in two of the runs."""
    suites: list[str] = []
    for run in runs:
        suites += [suite for name, suite in run.plays if name == player]
    return len(set(suites)) == len(suites)


def _labels_with(player: str, runs: Sequence[Outline]) -> dict[str, str]:
    """What tells runs of one model apart, by their names."""
    hashes = [run.episodes[player] for run in runs if player in run.episodes]
    # Equal ids: what may change answers is equal, as of a run and its import, so no setting tells these runs apart.
    if len(set(hashes)) < len(hashes):
        return {run.name: run.name for run in runs}
    return run_labels({run.name: run.settings for run in runs})


def outline_of(name: str, planned: pa.Table, settings: Mapping[str, Any], suite: Suite) -> Outline:
    """A run's outline, of its whole plan."""
    plays = count_rows(planned, ("player", "suite"))
    ids = planned.select(["player", "episode_id"]).group_by("player").aggregate([("episode_id", "list")]).to_pylist()
    hashes = {row["player"]: stable_hash(*sorted(row["episode_id_list"])) for row in ids}
    return Outline(name, settings, [*plays], built_in_names(suite), hashes)


class Reader:
    """Reads one run after the other."""

    def __init__(self) -> None:
        """Keys of observations are kept once for all runs of the same games."""
        self._keys: dict[tuple[tuple[Any, ...], ...], tuple[tuple[Any, ...], ...]] = {}

    def read(self, name: str, run: RunData, suite: Suite, planned: pa.Table, with_tables: bool = True) -> RunPart:
        """What a site shows of a run.

        Args:
            name: Of the run.
            run: With names of players that no other run has.
            suite: What was played.
            planned: The whole plan, as `run.plan`, but with the games that a stopping rule did not need.
            with_tables: Whether to make the suites' own tables of scores, too.
        """
        health = reply_health(run)
        reference = _reference_names(suite)
        shortcuts = {player for part in suite.parts for player in part.shortcuts}
        entries: list[Entry] = []
        tables: defaultdict[str, list[Table]] = defaultdict(list)
        with run.intervals():
            for part in suite.parts:
                mine = run.of(part.name)
                if with_tables:
                    tables[part.name] += suite_results(part, run, "scores")
                sums = _sums(mine)
                for (player,), count in count_rows(mine.plan, ["player"]).items():
                    whole = planned.filter(
                        pc.and_(pc.equal(planned["player"], player), pc.equal(planned["suite"], part.name))
                    )
                    totals = sums[player]
                    entries.append(
                        Entry(
                            player=player,
                            suite=part.name,
                            run=name,
                            reference=reference.get(player, ""),
                            shortcut=player in shortcuts,
                            games=_games(whole),
                            about={
                                key: [str(value) for value in pc.unique(whole[key]).to_pylist()] for key in _GAME[:3]
                            },
                            scores=[
                                self._score(measure, mine, player) for measure in suite_measures(part, mine, player)
                            ],
                            planned=count,
                            done=int(totals["done"]),
                            failed=int(totals["failed"]),
                            health=health.get((player, part.name), ReplyHealth()),
                            cost=totals["cost"],
                            seconds=totals["seconds"],
                            stopping=run.stopping,
                            episodes=stable_hash(*sorted(whole["episode_id"].to_pylist())),
                        )
                    )
        return RunPart(name, run.settings, run.sessions, entries, tables)

    def _score(self, measure: Measure, run: RunData, player: str) -> Score:
        observations = measure.observations
        keys = tuple((one.cell, one.game, one.unit) for one in observations)
        values = array("d", (one.value for one in observations))
        estimate = overall_estimate(run, player, observations) if observations else Estimate(0.0, 0.0, 0.0, 0)
        known = self._keys.setdefault(keys, keys)
        return Score(measure.name, estimate, values, known, measure.dimensions, measure.better)


def _reference_names(suite: Suite) -> dict[str, str]:
    """The built-in players of a suite, each with what it stands for."""
    known = {"random": "chance (random)", "oracle": "perfect play (oracle)"}
    return {name: known.get(name, name) for name in built_in_names(suite)}


def _games(plan: pa.Table) -> str:
    """A hash of the games of one player's plan; of prompts and settings only ``mode`` counts."""
    return stable_hash(sorted(zip(*(plan[name].to_pylist() for name in _GAME), strict=True)))


def _sums(run: RunData) -> defaultdict[str, defaultdict[str, float]]:
    """Of each player: episodes done and failed, cost and seconds."""
    found: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for batch in run.batches(["player", "status", *_SUMS]):
        grouped = batch.group_by(["player", "status"]).aggregate(_SUMMED)
        for row in grouped.to_pylist():
            totals = found[row["player"]]
            totals[row["status"]] += row["count_all"]
            for name in _SUMS:
                totals[name] += row[f"{name}_sum"] or 0.0
    return found
