"""The search itself: for each cell and feature class the player that the learner finds, on games that it has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from evals.shortcut_search.classes import FeatureClass, feature_classes
from evals.shortcut_search.games import lessons, play
from evals.shortcut_search.learner import Learner
from evals.stats.intervals import Estimate, mean_estimate
from evals.suite import Suite, plan_for
from evals.tables import Table
from evals.types import Episode

ENOUGH = 0.05
"""Two players that win shares of games this close are told the same: the margin of the tables of shortcuts, too."""


@dataclass(frozen=True)
class Found:
    """How the player of one feature class fares in one cell, on held-out games."""

    task: str
    level: str
    known: FeatureClass
    learned_from: int
    """Games."""
    success: Estimate

    @property
    def players(self) -> str:
        """Name of the feature class."""
        return self.known.name


def search(training: Suite, held_out: Suite) -> Iterator[Found]:
    """Search all cells of a plan.

    Args:
        training: Plans the games to learn from, none of which ``held_out`` has (``suite.seeds=training:0``).
        held_out: Plans those that the learned players are measured on.

    Yields:
        Each feature class for each cell, by task and level.

    Raises:
        NoFeaturesError: turns of the suite have no features.
    """
    lessons_of = _by_cell(training)
    for cell, episodes in _by_cell(held_out).items():
        yield from _search_cell(training, held_out, cell, lessons_of[cell], episodes)


def _by_cell(suite: Suite) -> dict[tuple[str, str], list[Episode]]:
    episodes = plan_for(suite, {"search": ""})
    ordered = sorted(episodes, key=lambda episode: (episode.task, episode.level, episode.index))
    return {cell: list(group) for cell, group in groupby(ordered, key=lambda episode: (episode.task, episode.level))}


def _search_cell(
    training: Suite,
    held_out: Suite,
    cell: tuple[str, str],
    to_learn_from: Sequence[Episode],
    to_be_played: Sequence[Episode],
) -> Iterator[Found]:
    taught = lessons(training, to_learn_from)
    names = {name for lesson in taught for option in lesson.options for name in option.values}
    turns, good = [lesson.options for lesson in taught], [lesson.good for lesson in taught]
    for known in feature_classes(names):
        learner = Learner(known)
        learner.learn(turns, good)
        credits = play(held_out, to_be_played, lambda _, options, player=learner: player.choose(options))  # type: ignore[misc]
        yield Found(*cell, known, len(to_learn_from), mean_estimate(credits, bounds=(0, 1)))


def needs_table(name: str, found: Sequence[Found]) -> Table:
    """What each cell needs: a row for each cell, a column for each feature class, and the senses without which less is won."""
    classes = list(dict.fromkeys(each.players for each in found))
    rows = []
    for (task, level), group in groupby(found, key=lambda each: (each.task, each.level)):
        success = {each.players: each.success for each in group}
        shares = [success.get(players) for players in classes]
        rows.append((task, level, *shares, ", ".join(_needed(success)) or "none of these"))
    return Table(
        f"{name}_needs",
        "What a learned player wins, by what it perceives",
        ("task", "level", *classes, "needs"),
        tuple(rows),
        notes=(
            f"needs: senses without which a learned player wins more than {ENOUGH} less. A learned player is a lower "
            "bound of what its feature class can win.",
        ),
    )


def _needed(success: Mapping[str, Estimate]) -> list[str]:
    """The senses without which less is won than with all."""
    everything = success["everything"].mean
    needed = []
    for players, estimate in success.items():
        is_without_one = players.startswith("all but ")
        if is_without_one and estimate.mean < everything - ENOUGH:
            needed.append(players.removeprefix("all but "))
    return needed
