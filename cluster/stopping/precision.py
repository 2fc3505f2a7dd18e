"""What a plan's numbers of games and repeats buy, and the plan that buys a wanted precision (``raycade plan``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from cluster.config.settings import Settings
from cluster.errors import UserError
from cluster.storage.stored_run import Run
from evals.stats.intervals import intraclass_correlation
from evals.stats.reliability import games_for_precision, games_to_detect, what_a_plan_buys
from evals.tables import Cell, Table
from evals.types import Episode

CORRELATION = 0.3
"""How alike the runs of one game are taken to be where no past run tells: in the middle of what the published transcripts of
KUMO show for 14 models (.07 to .55)."""
LEAST = 0.02
"""The least success that a plan counts with, and the least share of lost games."""
DISCORDANT = 0.3
"""Share of the games that exactly one of two players wins, where no past run tells."""

SMALLEST = {"--precision": 0.001, "--detect": 0.0001}
"""What may be asked for: a smaller difference takes more than a hundred million games, and no anytime-valid interval gets much
narrower, since the smallest of the bets that it is made of does not."""


def precision_table(
    settings: Settings, like: Path | None, precision: float | None = None, detect: float | None = None
) -> Table:
    """The standard error that the model's part of a plan buys in each suite, and the plan without repeats that is as precise.

    Args:
        settings: With the plan.
        like: A past run, from which the success and the likeness of repeats are taken.
        precision: Half the width of an interval, to say how many games it takes.
        detect: A difference, to say how many games it takes to find it.

    Raises:
        UserError: a wanted precision or difference is not from ``SMALLEST`` up and below 1.
    """
    for name, value in (("--precision", precision), ("--detect", detect)):
        if value is not None and not SMALLEST[name] <= value < 1:
            raise UserError(f"{name} {value:g}: must be from {SMALLEST[name]:g} up and below 1")
    suites: defaultdict[str, list[Episode]] = defaultdict(list)
    for episode in settings.plan:
        if episode.player == settings.model.name:
            suites[episode.suite].append(episode)
    rows = tuple(_row(name, episodes, like, precision, detect) for name, episodes in suites.items())
    columns = ["suite", "games", "episodes a game", "success", "ICC", "standard error", "games once", "episodes saved"]
    source = f"assumed (success .5, ICC {CORRELATION:g}); --like RUN measures them"
    if like is not None:
        source = (
            f"from {like}, success as {LEAST:g} at least and {1 - LEAST:g} at most, and an ICC that it does not tell as "
            f"{CORRELATION:g}"
        )
    notes = [
        f"success, ICC (how alike the episodes of a game, its repeats and modes, are): {source}. games once: as many different "
        "games, played once each, give the same standard error; games before repeats, unless pass^k is wanted.",
    ]
    if precision is not None:
        columns += [f"games for ±{precision:g}", f"per cell for ±{precision:g}"]
        notes.append("games for ±: with an anytime-valid interval, as stop=precise needs; played once each.")
    if detect is not None:
        columns += [f"games to find {detect:g}", f"per cell to find {detect:g}"]
        notes.append(
            f"games to find: a paired difference, in 80 % of all cases by a fixed plan, if one side alone wins {DISCORDANT:g} "
            "of the games; stop=decided needs fewer where the difference is larger."
        )
    return Table("plan_precision", "What the plan buys", tuple(columns), rows, tuple(notes))


def _row(
    suite: str, episodes: Sequence[Episode], like: Path | None, precision: float | None, detect: float | None
) -> tuple[Cell, ...]:
    games = len({(episode.task, episode.level, episode.seed) for episode in episodes})
    cells = len({(episode.task, episode.level) for episode in episodes})
    repeats = max(1, round(len(episodes) / games))
    success, correlation = _measured(like, suite)
    buys = what_a_plan_buys(games, repeats, correlation, success)
    row: tuple[Cell, ...] = (suite, games, repeats, success, correlation, buys.error, buys.once, buys.saved)
    if precision is not None:
        needed = games_for_precision(precision, success)
        row += (needed, -(-needed // cells))
    if detect is not None:
        needed = games_to_detect(detect, DISCORDANT)
        row += (needed, -(-needed // cells))
    return row


def _measured(like: Path | None, suite: str) -> tuple[float, float]:
    """Success and intraclass correlation of the model of a past run, where it has played the suite."""
    success, correlation = 0.5, CORRELATION
    if like is None:
        return success, correlation
    run = Run(like)
    model = run.planned["player"][0].as_py()
    values, games = [], []
    for row in run.data.episodes(["suite", "player", "task", "level", "seed", "success"]).to_pylist():
        if row["suite"] == suite and row["player"] == model:
            values.append(float(bool(row["success"])))
            games.append((row["task"], row["level"], row["seed"]))
    if values:
        success = sum(values) / len(values)
        measured = intraclass_correlation(values, games)
        # None where no game was played twice, or all ended alike.
        if measured is not None:
            correlation = measured
    # A share of 0 or 1 would promise precision without a game.
    bounded = min(max(success, LEAST), 1 - LEAST)
    return bounded, correlation
