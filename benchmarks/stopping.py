"""What stopping early saves and what it may get wrong, on published transcripts and on simulated players.

    python -m benchmarks.stopping published CHECKOUT [--orders N] [--picture FILE]
    python -m benchmarks.stopping simulated [--runs N]
    python -m benchmarks.stopping coverage [--runs N]

``published`` needs a checkout of KUMO's repository: 14 models, 5,000 easy tasks, five runs of each. Every pair of models plays
the same games in a random order, one episode a side; the game after which each method names a winner is recorded. Then every
model is compared with another run of itself: whoever names a winner there raises a false alarm. ``simulated`` does the same
with players whose true difference is known; ``coverage`` counts the runs whose interval misses the mean at any time.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from cluster.console import show
from evals.stats.anytime import asymptotic_sequence, capital_paths
from evals.stats.intervals import Estimate, wilson_estimate
from evals.tables import Cell, Table

ALPHA = 0.05
LIMIT = math.log(2 / ALPHA)
_SUCCESS = re.compile(rb'"successful": ?(true|false)')
_SEED = re.compile(rb'"seed": ?(\d{1,9})\b')

Decisions = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Of each run: games until it ended; 1 if the first was named, -1 the second, 0 a tie, 2 if nothing was decided."""
Method = Callable[[npt.NDArray[np.float64]], Decisions]
"""Takes differences, shape (runs, games)."""


# --- methods ---------------------------------------------------------------------------------------------------------


def decided(differences: npt.NDArray[np.float64], delta: float | None = None) -> Decisions:
    """The rule of `raycade run stop=decided`, for many runs at once."""
    above, below = capital_paths((differences + 1) / 2, 0.5)
    first, second = above >= LIMIT, below >= LIMIT
    tie = np.zeros_like(first)
    if delta is not None:
        over, _ = capital_paths((differences + 1) / 2, (1 - delta) / 2)
        _, under = capital_paths((differences + 1) / 2, (1 + delta) / 2)
        tie = (over >= LIMIT) & (under >= LIMIT)
    return _first_look(first, second, tie)


def beta_mixture(differences: npt.NDArray[np.float64]) -> Decisions:
    """A Beta(1/2, 1/2) mixture over the chance of winning a discordant game: another e-process, for comparison."""
    wins, losses = np.cumsum(differences > 0, axis=1), np.cumsum(differences < 0, axis=1)
    evidence = special.betaln(wins + 0.5, losses + 0.5) - special.betaln(0.5, 0.5) + (wins + losses) * math.log(2)
    shown = evidence >= math.log(1 / ALPHA)
    return _first_look(shown & (wins > losses), shown & (wins < losses), np.zeros_like(shown))


def peeked(differences: npt.NDArray[np.float64]) -> Decisions:
    """McNemar's exact test, looked at after every game and stopped at the first p < .05."""
    wins, losses = np.cumsum(differences > 0, axis=1), np.cumsum(differences < 0, axis=1)
    shown = 2 * stats.binom.cdf(np.minimum(wins, losses), wins + losses, 0.5) < ALPHA
    return _first_look(shown & (wins > losses), shown & (wins < losses), np.zeros_like(shown))


def fixed(differences: npt.NDArray[np.float64]) -> Decisions:
    """The same test, once, after all games."""
    wins, losses = (differences > 0).sum(axis=1), (differences < 0).sum(axis=1)
    shown = 2 * stats.binom.cdf(np.minimum(wins, losses), wins + losses, 0.5) < ALPHA
    verdict = np.where(shown, np.sign(wins - losses), 2)
    return np.full(len(differences), differences.shape[1]), verdict


def _first_look(first: np.ndarray, second: np.ndarray, tie: np.ndarray) -> Decisions:
    ended = first | second | tie
    found = ended.any(axis=1)
    place = np.where(found, ended.argmax(axis=1), ended.shape[1] - 1)
    rows = np.arange(len(ended))
    verdict = np.select([first[rows, place], second[rows, place], tie[rows, place]], [1, -1, 0], 2)
    return place + 1, verdict


METHODS: dict[str, Method] = {
    "stop=decided": decided,
    "stop=decided delta=.05": lambda differences: decided(differences, 0.05),
    "Beta mixture on flips": beta_mixture,
    "usual test, peeked at": peeked,
    "fixed plan, one test": fixed,
}


def _share(hits: float, count: int) -> Estimate:
    return wilson_estimate(hits / count, count)


# --- published transcripts -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """Who won which game of the published transcripts."""

    models: tuple[str, ...]
    won: npt.NDArray[np.bool_]
    """Shape (models, games, runs)."""


def read_published(checkout: Path) -> Published:
    """The easy tasks that all models with a hundred domains and more have played five times."""
    players: dict[str, dict[tuple[str, int], list[bool]]] = {}
    for folder in sorted((checkout / "results").iterdir()):
        files = sorted(folder.glob("VanillaAgent/*Env/truth_num=4+*/eval_times=5.jsonl"))
        if len(files) < 100:
            continue
        games = players.setdefault(folder.name, {})
        for path in files:
            with path.open("rb") as file:
                for line in file:
                    runs, seeds = [each == b"true" for each in _SUCCESS.findall(line)], _SEED.findall(line)
                    if len(runs) == 5 and seeds:
                        games.setdefault((path.parts[-3], int(seeds[-1])), runs)
    common = sorted(set.intersection(*(set(games) for games in players.values())))
    won = np.array([[games[key] for key in common] for games in players.values()])
    return Published(tuple(players), won)


@dataclass(frozen=True)
class Played:
    """What the methods decided on published games; a decision for each pair, or run against itself, in each order."""

    pairs: int
    games: int
    truth: npt.NDArray[np.float64]
    """The difference of each pair over all runs."""
    found: dict[str, Decisions]
    alarms: dict[str, Decisions]
    """Of models against themselves."""


def play(data: Published, orders: int) -> Played:
    """Every pair of models, and every model against another run of itself, in random orders of the games."""
    generator = np.random.default_rng(0)
    count, games, runs = data.won.shape
    pairs = list(itertools.combinations(range(count), 2))
    truth = np.array([data.won[one].mean() - data.won[other].mean() for one, other in pairs])
    found: dict[str, list[Decisions]] = {name: [] for name in METHODS}
    alarms: dict[str, list[Decisions]] = {name: [] for name in METHODS}
    for _ in range(orders):
        order = generator.permutation(games)
        run = [int(generator.integers(runs)) for _ in range(count)]
        outcomes = np.stack([data.won[player][order, run[player]] for player in range(count)]).astype(float)
        nulls = [
            data.won[player][order, one].astype(float) - data.won[player][order, other]
            for player in range(count)
            for one, other in itertools.combinations(range(runs), 2)
        ]
        for name, method in METHODS.items():
            found[name].append(method(np.stack([outcomes[one] - outcomes[other] for one, other in pairs])))
            alarms[name].append(method(np.stack(nulls)))
    joined = [{name: _joined(parts) for name, parts in each.items()} for each in (found, alarms)]
    return Played(len(pairs), games, np.tile(truth, orders), *joined)


def published_tables(played: Played, orders: int) -> Iterator[Table]:
    """Games until the better of two models is named; false alarms of a model against itself."""
    games, truths = played.games, played.truth
    rows = [_row(name, played.found[name], truths, played.alarms[name], games) for name in METHODS]
    yield Table(
        "stopping_published",
        f"{played.pairs} pairs of models x {orders} orders of {games:,} games; {rows[0][-2]:,} runs against themselves",
        (
            *("method", "games, mean", "games, median", "games saved", "winner named", "ties", "wrong winner"),
            *("null runs", "false alarms"),
        ),
        tuple(rows),
    )
    gaps = ((0.2, 1.0), (0.1, 0.2), (0.05, 0.1), (0.02, 0.05), (0.0, 0.02))
    by_gap: list[tuple[Cell, ...]] = []
    for low, high in gaps:
        inside = (np.abs(truths) >= low) & (np.abs(truths) < high)
        row: list[Cell] = [f"{low:g} to {high:g}", int(inside.sum()) // orders]
        for name in ("stop=decided", "stop=decided delta=.05"):
            taken, verdict = played.found[name]
            row += [float(taken[inside].mean()), float((np.abs(verdict[inside]) == 1).mean())]
        by_gap.append(tuple(row))
    columns = ("true difference", "pairs", "games, mean", "winner named", "games with delta", "winner named with delta")
    yield Table("stopping_by_gap", "By the difference over all runs", columns, tuple(by_gap))


def _joined(parts: list[Decisions]) -> Decisions:
    return np.concatenate([taken for taken, _ in parts]), np.concatenate([verdict for _, verdict in parts])


def _row(name: str, found: Decisions, truth: np.ndarray, alarms: Decisions, games: int) -> tuple[Cell, ...]:
    taken, verdict = found
    named = np.abs(verdict) == 1
    wrong = int((named & (verdict == -np.sign(truth))).sum())
    false = int((np.abs(alarms[1]) == 1).sum())
    return (
        *(name, float(taken.mean()), float(np.median(taken)), 1 - float(taken.mean()) / games),
        *(float(named.mean()), float((verdict == 0).mean()), f"{wrong} of {int(named.sum())}"),
        *(len(alarms[1]), _share(false, len(alarms[1]))),
    )


def draw_peeking(played: Played, path: Path) -> None:
    """False alarms by the number of games looked at, of the usual test and of evidence that may be looked at."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    games = played.games
    figure, axes = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    ticks = np.unique(np.geomspace(1, games, 300).astype(int))
    total = 0
    for name, color, above in (("usual test, peeked at", "#c1403d", 6), ("stop=decided", "#2a6f97", 22)):
        taken, verdict = played.alarms[name]
        total = len(taken)
        alarmed = np.sort(taken[np.abs(verdict) == 1])
        share = 100 * np.searchsorted(alarmed, ticks, side="right") / total
        axes.plot(ticks, share, color=color, linewidth=2)
        axes.annotate(f"{name}: {share[-1]:.1f} %", (ticks[-1], share[-1]), (-4, above), ha="right", color=color,
                      textcoords="offset points")  # fmt: skip
    axes.axhline(100 * ALPHA, color="#777777", linestyle=":", linewidth=1)
    axes.annotate("5 % promised", (1, 100 * ALPHA), (2, 3), color="#555555", textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlim=(1, games), ylim=(0, 55), xlabel="games looked at, one after the other",
             ylabel="false alarms, % of comparisons")  # fmt: skip
    axes.set_title(f"A model compared with itself, {total:,} times (KUMO, published transcripts)", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


# --- simulated players -----------------------------------------------------------------------------------------------

GAMES = 2_000


def independent(generator: np.random.Generator, runs: int, gap: float) -> npt.NDArray[np.float64]:
    """One episode a side; both win easy games more often."""
    ease = generator.uniform(-0.3, 0.3, (runs, GAMES))
    draws = [generator.random((runs, GAMES)) < 0.5 + side * gap / 2 + ease for side in (1, -1)]
    return _minus(draws)


def skewed(generator: np.random.Generator, runs: int, gap: float) -> npt.NDArray[np.float64]:
    """Both win nearly always."""
    return _minus([generator.random((runs, GAMES)) < chance for chance in (0.97, 0.97 - gap)])


def clustered(generator: np.random.Generator, runs: int, gap: float) -> npt.NDArray[np.float64]:
    """Five repeats of each game, which go the same way in a third of all games: a bounded difference of means."""
    sides = []
    for side in (1, -1):
        draws = generator.random((runs, GAMES, 5)) < 0.6 + side * gap / 2
        alike = generator.random((runs, GAMES, 1)) < 1 / 3
        sides.append(np.where(alike, draws[..., :1], draws).mean(axis=2))
    return _minus(sides)


def in_rounds(generator: np.random.Generator, runs: int, gap: float) -> npt.NDArray[np.float64]:
    """Twenty cells in rounds: in half of them one is better by .8, in half the other, apart from the gap."""
    cells = np.repeat([0.4, -0.4], 10)
    order = generator.random((runs, GAMES // 20, 20)).argsort(axis=2)
    lead = cells[order].reshape(runs, GAMES)
    draws = [generator.random((runs, GAMES)) < 0.5 + side * (lead + gap / 2) for side in (1, -1)]
    return _minus(draws)


def _minus(sides: list[Any]) -> npt.NDArray[np.float64]:
    difference: npt.NDArray[np.float64] = sides[0].astype(float) - sides[1]
    return difference


PLAYERS = {"independent": independent, "skewed": skewed, "five repeats": clustered, "rounds of unlike cells": in_rounds}


def simulated_tables(runs: int) -> Iterator[Table]:
    """Games, wrong winners and false alarms where the truth is known."""
    for gap in (0.0, 0.02, 0.1):
        rows: list[tuple[Cell, ...]] = []
        for kind, draw in PLAYERS.items():
            differences = draw(np.random.default_rng(1), runs, gap)
            for name in ("stop=decided", "stop=decided delta=.05", "usual test, peeked at"):
                if name.startswith("usual") and kind == "five repeats":
                    continue  # McNemar's test takes one outcome per game
                taken, verdict = METHODS[name](differences)
                wrong = np.abs(verdict) == 1 if gap == 0 else verdict == -1
                rows.append(
                    (
                        *(kind, name, float(taken.mean()), float(np.median(taken)), float((verdict == 1).mean())),
                        *(float((verdict == 0).mean()), _share(int(wrong.sum()), runs)),
                    )
                )
        wrong_name = "false alarms" if gap == 0 else "wrong winner"
        columns = ("games", "method", "games, mean", "games, median", "first named", "ties", wrong_name)
        title = f"A true difference of {gap:g}: {runs:,} runs of at most {GAMES:,} games"
        yield Table(f"stopping_simulated_{gap:g}", title, columns, tuple(rows))


# --- coverage --------------------------------------------------------------------------------------------------------


def coverage_table(runs: int) -> Table:
    """Runs whose interval misses the true mean at any of 2,000 times."""
    generator = np.random.default_rng(2)
    shape = (runs, GAMES)
    sizes = generator.integers(1, 6, shape)
    chance = generator.beta(0.6, 1.4, shape)  # of a game's repeats: they are far from independent
    rounds = np.tile(np.linspace(0.05, 0.95, 20), (runs, GAMES // 20, 1))
    shuffled = generator.permuted(rounds, axis=2).reshape(shape)
    cases: dict[str, tuple[float, np.ndarray, np.ndarray | float, float]] = {
        "success, .5": (0.5, generator.random(shape) < 0.5, 1.0, 1.0),
        "success, .02": (0.02, generator.random(shape) < 0.02, 1.0, 1.0),
        "success, .995": (0.995, generator.random(shape) < 0.995, 1.0, 1.0),
        "score, Beta(.2, .8)": (0.2, generator.beta(0.2, 0.8, shape), 1.0, 1.0),
        "score, Beta(5, 2)": (5 / 7, generator.beta(5, 2, shape), 1.0, 1.0),
        "score, .9 of them 0": (0.05, np.where(generator.random(shape) < 0.9, 0.0, 0.5), 1.0, 1.0),
        "1 to 5 repeats, alike": (0.3, generator.binomial(sizes, chance), sizes, 5.0),
        "rounds of 20 cells, .05 to .95": (0.5, generator.random(shape) < shuffled, 1.0, 1.0),
        "paired difference, .1": (
            0.55,
            (generator.choice([-1, 0, 1], p=[0.1, 0.7, 0.2], size=shape) + 1) / 2,
            1.0,
            1.0,
        ),
    }
    rows: list[tuple[Cell, ...]] = []
    for name, (mean, totals, size, largest) in cases.items():
        up, down = capital_paths(totals, mean, size, largest)
        missed = (np.maximum(up, down) >= LIMIT).any(axis=1)
        rows.append(("betting", name, _share(float((~missed).sum()), runs)))
    for name, draws, mean in (
        ("exponential", generator.exponential(1.0, shape), 1.0),
        ("log-normal", generator.lognormal(0.0, 1.0, shape), math.exp(0.5)),
    ):
        rows.append(("asymptotic, from 50 on", name, _share(_covered(draws, mean), runs)))
    return Table(
        "anytime_coverage",
        f"Runs whose 95 % interval holds the mean at all of {GAMES:,} times, of {runs:,}",
        ("interval", "observations", "covered at every time"),
        tuple(rows),
    )


def _covered(draws: npt.NDArray[np.float64], mean: float) -> int:
    times = np.arange(1, draws.shape[1] + 1)
    means = np.cumsum(draws, axis=1) / times
    squares = np.cumsum(draws**2, axis=1) / times
    errors = np.sqrt(np.maximum(squares - means**2, 0) / np.maximum(times - 1, 1))
    missed = np.zeros(len(draws), bool)
    for time in range(50, draws.shape[1], 10):
        low, high = asymptotic_sequence(0.0, 1.0, time + 1)
        missed |= np.abs(means[:, time] - mean) > high * errors[:, time]
        assert low == -high
    return int((~missed).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("published", "simulated", "coverage"))
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--picture", type=Path, help="draw the false alarms of peeking")
    options = parser.parse_args()
    if options.part == "simulated":
        show(list(simulated_tables(options.runs)))
    elif options.part == "coverage":
        show([coverage_table(options.runs)])
    elif options.checkout is None:
        parser.error("published: name a checkout of KUMO's repository")
    else:
        played = play(read_published(options.checkout), options.orders)
        show(list(published_tables(played, options.orders)))
        if options.picture:
            draw_peeking(played, options.picture)


if __name__ == "__main__":
    main()
