"""What a change does, told on identical games: differences with clustered intervals, exact p-values, Holm's correction."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import RunData
from evals.stats.intervals import (
    UNBOUNDED,
    Bounds,
    Estimate,
    cluster_sums,
    clustered_error,
    mean_estimate,
    student_quantile,
)
from evals.tables import Cell, Table
from evals.types import stable_hash

DRAWS = 9_999
"""Random permutations where the exact distribution would be too large; p is then at least 1 / (DRAWS + 1)."""
EXACT_TOTAL = 20_000
"""Largest sum of games' differences whose distribution is computed exactly if the games differ by several sizes."""


class Observation(NamedTuple):
    """One value that may be compared with its twin."""

    cell: tuple[str, ...]
    """Where effects are reported, such as task and level; in ``effects_tables`` the player stands first."""
    game: Hashable
    """The game that it is of: the cluster, since values of one game are not independent."""
    unit: Hashable
    """Tells the observations of one game apart: the repeat, or the question."""
    value: float


@dataclass(frozen=True)
class Measure:
    """A quantity of one player's run, such as its success, to be compared with another's."""

    name: str
    """Such as ``success`` or ``accuracy``."""
    dimensions: tuple[str, ...]
    """What the parts of each observation's cell are called."""
    observations: Sequence[Observation]
    better: Literal["higher", "lower"] = "higher"
    bounded: bool = False
    """Whether no value can lie outside 0 to 1, seen or not: anytime-valid evidence needs it."""


@dataclass(frozen=True)
class Effect:
    """The difference first minus second in one cell."""

    cell: tuple[str, ...]
    first: float
    second: float
    difference: Estimate
    """Its n counts pairs, or for independent games the observations of both sides."""
    p: float
    """Two-sided."""
    games: int
    left_out: int
    """Observations without a twin."""
    error: float = math.nan
    """Standard error of the difference between pairs; nan for a single game, or independent games."""


def paired_effects(first: Iterable[Observation], second: Iterable[Observation], span: int = 1) -> list[Effect]:
    """Mean difference over pairs of the same cell, game and unit; cells in the order of the first side.

    Values from 0 to ``span`` are taken for successes or scores, or for sums of so many of them, which no value can leave.

    The interval is clustered by game. p is exact under "which side is which does not matter in any game" (a sign-flip test
    of the games' summed differences; with one pair of successes a game it is McNemar's exact test).
    """
    others = {(one.cell, one.game, one.unit): one.value for one in second}
    pairs: defaultdict[tuple[str, ...], list[tuple[float, float, Hashable]]] = defaultdict(list)
    # Observations whose twin is missing, of either side.
    alone = defaultdict[tuple[str, ...], int](int)
    for one in first:
        twin = others.pop((one.cell, one.game, one.unit), None)
        if twin is None:
            alone[one.cell] += 1
        else:
            pairs[one.cell].append((one.value, twin, one.game))
    for cell, *_ in others:
        alone[cell] += 1
    return [_paired(cell, found, alone[cell], span) for cell, found in pairs.items()]


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979): below alpha with family-wise error at most alpha."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def effects_tables(
    name: str,
    title: str,
    dimensions: Sequence[str],
    sides: tuple[str, str],
    effects: Sequence[Effect],
    notes: Sequence[str] = (),
) -> Iterator[Table]:
    """A table of effects for each player, its p-values corrected for its number of rows.

    Args:
        name: Start of ``Table.name``; the player follows.
        title: As in ``Table.title``; the player and what else is the same in all cells is added.
        dimensions: What the parts of ``Effect.cell`` after the first, the player, are called; those that do not vary are
            hidden.
        sides: What first and second are called.
        effects: One for each row.
        notes: What else the reader should know.
    """
    for player in dict.fromkeys(effect.cell[0] for effect in effects):
        mine = [effect for effect in effects if effect.cell[0] == player]
        varying, constant = _varying(mine, len(dimensions))
        rows = list[tuple[Cell, ...]]()
        for effect, corrected in zip(mine, holm([effect.p for effect in mine]), strict=True):
            cell = [effect.cell[place + 1] for place in varying]
            rows.append((*cell, effect.first, effect.second, effect.difference, effect.p, corrected))
        yield Table(
            name=f"{name}_{file_stem(player)}",
            title=f"{title}, {', '.join([player, *constant])}",
            columns=(*(dimensions[place] for place in varying), *sides, "difference", "p", "Holm p"),
            rows=tuple(rows),
            notes=(*_effects_notes(mine), *notes),
            section="diagnostics",
        )


def _varying(effects: Sequence[Effect], dimensions: int) -> tuple[list[int], list[str]]:
    """Which of the dimensions, the player aside, differ between the cells, and what all cells have in the others."""
    varying, constant = list[int](), list[str]()
    for place in range(dimensions):
        values = {effect.cell[place + 1] for effect in effects}
        if len(values) > 1:
            varying.append(place)
        else:
            constant.append(effects[0].cell[place + 1])
    return varying, constant


def _effects_notes(effects: Sequence[Effect]) -> list[str]:
    games = sorted({effect.games for effect in effects})
    left_out = sum(effect.left_out for effect in effects)
    between = f"{games[0]}"
    if len(games) > 1:
        between += f" to {games[-1]}"
    notes = [
        f"{between} games a row. Brackets: 95 % confidence, clustered by game. "
        f"Holm p: corrected for the table's {len(effects)} rows."
    ]
    if left_out:
        notes.append(f"{left_out:,} observations without a twin are left out.")
    return notes


def file_stem(player: str) -> str:
    """A player's name as part of a file's: short, and different for different players."""
    stem = re.sub(r"[^A-Za-z0-9.-]+", "_", player)[:80]
    return stem if stem == player else f"{stem}-{stable_hash(player)[:8]}"


def success_observations(
    run: RunData,
    cell: Sequence[str],
    where: Mapping[str, str] | None = None,
    game: Sequence[str] = ("task", "level", "index"),
) -> list[Observation]:
    """The success of each episode; a failed one has none, as in the tables of results.

    Args:
        run: One suite's part of a run.
        cell: Ledger columns that make the cell.
        where: What other columns must hold, such as ``{"mode": "cot"}``.
        game: Ledger columns that make a game.
    """
    wanted = where or {}
    columns = dict.fromkeys([*cell, *wanted, *game, "repeat", "success"])
    rows = run.episodes(list(columns))
    for name, value in wanted.items():
        rows = rows.filter(pc.equal(rows[name], value))
    if not len(rows):
        return []
    values = {name: rows[name].to_pylist() for name in rows.column_names}
    cells = zip(*(map(str, values[name]) for name in cell), strict=True)
    games = zip(*(values[name] for name in game), strict=True)
    return list(map(Observation, cells, games, values["repeat"], map(float, map(bool, values["success"]))))


def failure_notes(run: RunData) -> tuple[str, ...]:
    """How ``success_observations`` counts failed episodes; nothing where none failed."""
    failed = pc.any(pc.equal(run.episodes(["status"])["status"], "failed")).as_py()
    return ("A failed episode counts as no success.",) if failed else ()


def column_measure(run: RunData, player: str, column: str = "success") -> Measure:
    """A column of the ledger, such as ``success``, by task, level and mode; games are told apart by their seed, too.

    A failed episode has no success and no score, as in the tables of results; of other columns it is left out.

    Args:
        run: One suite's part of a run.
        player: Whose episodes.
        column: A number or a truth value.
    """
    names = ("task", "level", "mode", "index", "repeat", "seed", "player", "status", column)
    counts_failed = column in ("success", "score")
    observations = []
    table = run.episodes(list(dict.fromkeys(names)))
    bounded = counts_failed or pa.types.is_boolean(table.schema.field(column).type)
    for row in table.to_pylist():
        if row["player"] != player:
            continue
        # A failed episode counts as no success, but has no other value.
        counts_anyway = counts_failed and row["status"] == "failed"
        if row[column] is None and not counts_anyway:
            continue
        observations.append(_observation(row, column))
    dimensions = ("task", "level", "mode")
    cells = zip(*(run.plan[name].to_pylist() for name in dimensions), strict=True)
    order = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    ordered = sorted(observations, key=lambda one: order[one.cell])
    return Measure(column, dimensions, ordered, bounded=bounded)


# --- pairs -----------------------------------------------------------------------------------------------------------


def _paired(cell: tuple[str, ...], pairs: Sequence[tuple[float, float, Hashable]], left_out: int, span: int) -> Effect:
    firsts, seconds, games = zip(*pairs, strict=True)
    differences = [first - second for first, second in zip(firsts, seconds, strict=True)]
    values = list(itertools.chain.from_iterable(zip(firsts, seconds, strict=True)))
    are_within = min(values) >= 0 and max(values) <= span
    if are_within and all(value.is_integer() for value in values):
        estimate, error = _share_difference([each / span for each in differences], games)
        mean, low, high = (span * end for end in (estimate.mean, estimate.low, estimate.high))
        estimate, error = Estimate(mean, low, high, estimate.n), span * error
    else:
        # Scores differ by at most their span; of other measures no bound is known.
        bounds = (float(-span), float(span)) if are_within else UNBOUNDED
        estimate, error = _mean_difference(differences, games, bounds)
    return Effect(
        cell,
        math.fsum(firsts) / len(pairs),
        math.fsum(seconds) / len(pairs),
        estimate,
        sign_flip_p(cluster_sums(differences, games)),
        len(set(games)),
        left_out,
        error,
    )


def _mean_difference(differences: Sequence[float], games: Sequence[Hashable], bounds: Bounds) -> tuple[Estimate, float]:
    """Mean of differences with its clustered interval, and its standard error."""
    _, error, _ = clustered_error(differences, games)
    return mean_estimate(differences, games, bounds=bounds), error


def _share_difference(differences: Sequence[float], games: Sequence[Hashable]) -> tuple[Estimate, float]:
    """Mean of differences of successes with a clustered interval that keeps its doubt where few differ, or none; its error.

    The variance is taken after adding one game of gains and one of losses, both of the mean size (after Agresti and Min,
    Statistics in Medicine 24, 2005), as ``proportion_estimate`` adds successes and failures.
    """
    n, sums = len(differences), cluster_sums(differences, games)
    mean, size = math.fsum(differences) / n, n / len(sums)
    if len(sums) < 2:
        return Estimate(mean, math.nan, math.nan, n), math.nan
    sizes = [*cluster_sums([1.0] * n, games), size, size]
    total = n + 2 * size
    center = math.fsum(sums) / total
    squares = math.fsum((gain - many * center) ** 2 for gain, many in zip([*sums, size, -size], sizes, strict=True))
    error = math.sqrt(squares) / total
    margin = student_quantile(0.975, len(sums) - 1) * error
    return Estimate(mean, max(-1.0, center - margin), min(1.0, center + margin), n), error


def _observation(row: Mapping[str, Any], column: str) -> Observation:
    cell = (row["task"], row["level"], row["mode"])
    game = puzzle_of(row["task"], row["level"], row["index"], row["seed"])
    unit = (row["level"], row["index"], row["mode"], row["repeat"])
    return Observation(cell, game, unit, float(row[column] or 0))


def puzzle_of(task: str, level: str, index: int, seed: int) -> Hashable:
    """What an episode is about: several questions on one puzzle have its seed, and so are one cluster of an interval."""
    return (task, seed) if seed else (task, level, index)


def sign_flip_p(sums: Sequence[float]) -> float:
    """Two-sided p-value of games' summed differences if each could as well have had the other sign.

    Exact where all are whole numbers (up to ``EXACT_TOTAL`` where their sizes differ); else by ``DRAWS`` seeded draws.
    """
    # In the order of size: the same numbers are drawn for each, whatever the order of the games.
    sizes = sorted(abs(each) for each in sums if each)
    counts = Counter(sizes)
    observed = abs(math.fsum(sums))
    if not counts:
        return 1.0
    total = math.fsum(size * count for size, count in counts.items())
    if _can_be_exact(counts, total):
        return _exact_p(counts, observed, total)
    return _drawn_p(counts, observed)


def _can_be_exact(counts: Mapping[float, int], total: float) -> bool:
    """Whether all are whole numbers, and of one size or few together."""
    if not all(size.is_integer() for size in counts):
        return False
    return len(counts) == 1 or total <= EXACT_TOTAL


def _exact_p(counts: Mapping[float, int], observed: float, total: float) -> float:
    """Sums of whole numbers: the distribution is a convolution of binomials, one for each size of difference."""
    if len(counts) == 1:
        # of one size, however large, only the number of positive ones matters
        [(size, count)] = counts.items()
        counts, observed, total = {1.0: count}, observed / size, total / size
    positive = _positive_sums({int(size): count for size, count in counts.items()})
    extreme = np.abs(2 * np.arange(len(positive)) - total) >= observed - 1e-9
    return float(min(1.0, positive[extreme].sum()))


def _drawn_p(counts: Mapping[float, int], observed: float) -> float:
    generator = np.random.default_rng(0)
    drawn = np.zeros(DRAWS)
    for size, count in counts.items():  # games of equal size are alike: only how many are positive is drawn
        # Heads minus tails among the games of this size.
        drawn += size * (2.0 * generator.binomial(count, 0.5, DRAWS) - count)
    extreme = np.abs(drawn) >= observed * (1 - 1e-9)
    return float((1 + extreme.sum()) / (DRAWS + 1))


def _positive_sums(counts: Mapping[int, int]) -> npt.NDArray[np.float64]:
    """Probability of each sum of the games whose sign is plus, games being counted by size."""
    positive: npt.NDArray[np.float64] = np.ones(1)
    for size, count in counts.items():
        of_size: npt.NDArray[np.float64] = np.zeros(size * count + 1)
        of_size[::size] = _fair_binomial(count)
        positive = np.asarray(np.convolve(positive, of_size), np.float64) if len(counts) > 1 else of_size
    return positive


def _fair_binomial(n: int) -> npt.NDArray[np.float64]:
    """Probability of 0 to n successes at a chance of one half."""
    if n < 1000:
        return np.array([math.comb(n, k) / 2**n for k in range(n + 1)])
    logs = np.array([math.lgamma(k + 1) for k in range(n + 1)])
    probabilities: npt.NDArray[np.float64] = np.exp(logs[-1] - n * math.log(2) - logs - logs[::-1])
    return probabilities
