"""Whether the kind of a task decides success: the chi-square test of independence and Cramér's V (paper, Eq. 6 and 7).

With many kinds of few tasks each, as graph signatures are, both mislead: the test's distribution holds for large counts
only, and V is far above 0 where nothing is associated. So the p-value is also taken from permutations of the outcomes, over
all tasks and within strata such as domains. V is given with its mean over the permutations; corrected for its bias where
nothing is associated (Bergsma, Journal of the Korean Statistical Society 42, 2013), which makes it too small where rare
kinds are extreme; and as estimated from the spread within kinds, which is right in both cases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

DRAWS = 1_999
"""Permutations."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Association:
    """Between the kind of a task and success at it."""

    tasks: int
    kinds: int
    chi_square: float
    degrees: int
    p: float
    """Eq. 6."""
    p_permuted: float
    """Share of permutations of the outcomes whose statistic is as large."""
    p_within: float | None
    """Likewise, with permutations within strata only; None without strata that could tell."""
    v: float
    """Eq. 7."""
    v_by_chance: float
    """Mean of V over the permutations."""
    v_corrected: float
    """Bergsma's; 0 where V is no larger than chance makes it."""
    v_estimated: float | None
    """The root of an unbiased estimate of V squared, or 0 if that is below 0, over the kinds of at least two tasks; None if
    fewer than half of the tasks are of such kinds, or all of these have the same outcome."""


def associate(
    kinds: Sequence[Hashable],
    right: Sequence[bool],
    strata: Sequence[Hashable] | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Association | None:
    """The association between kinds and outcomes; None where no outcomes could tell one from chance.

    That is so if all kinds are the same, all outcomes are, or no two tasks are of one kind: then V is 1 and chi-square is the
    number of tasks, whatever the outcomes.

    Args:
        kinds: of each task.
        right: the outcome of each task.
        strata: of each task; the test within them does not see what differs between them.
        seed: of the permutations.
        draws: their number; a p-value of theirs is at least 1 / (draws + 1).
    """
    totals, hits = _counted(kinds, right)
    n, successes = int(totals.sum()), int(hits.sum())
    if not 2 <= len(totals) < n or not 0 < successes < n:
        return None
    rng = np.random.default_rng(seed)
    statistic = float(_statistic(totals, hits))
    drawn = _permuted(totals, successes, rng, draws)
    degrees = len(totals) - 1
    return Association(
        tasks=n,
        kinds=len(totals),
        chi_square=statistic,
        degrees=degrees,
        p=float(chi2.sf(statistic, degrees)),
        p_permuted=_share(drawn, statistic),
        p_within=None if strata is None else _within(kinds, right, strata, rng, draws),
        v=math.sqrt(statistic / n),
        v_by_chance=float(np.sqrt(drawn / n).mean()),
        v_corrected=corrected_v(statistic, n, len(totals)),
        v_estimated=_estimated(totals, hits),
    )


def corrected_v(chi_square: float, n: int, kinds: int) -> float:
    """Bergsma's corrected V of a table of so many kinds by two outcomes; kinds are two at least, and fewer than tasks."""
    square = max(0.0, chi_square / n - (kinds - 1) / (n - 1))
    rows, columns = kinds - (kinds - 1) ** 2 / (n - 1), 2 - 1 / (n - 1)
    least = min(rows, columns) - 1
    return math.sqrt(square / least)


def _estimated(totals: Counts, hits: Counts) -> float | None:
    tasks, successes = totals[totals > 1].sum(), hits[totals > 1].sum()
    if 2 * tasks < totals.sum() or successes in (0, tasks):
        return None
    return math.sqrt(max(0.0, estimated_square(totals, hits)))


def estimated_square(totals: Counts, hits: Counts) -> float:
    """V squared: the spread of the kinds' shares of success, less what is expected of it from the spread within kinds.

    Args:
        totals: tasks of each kind; kinds of one task are left out.
        hits: those with success.
    """
    several = totals > 1
    totals, hits = totals[several], hits[several]
    n, share = totals.sum(), hits.sum() / max(1, totals.sum())
    if not 0 < share < 1:
        return 0.0
    within = hits * (totals - hits) / (totals * (totals - 1))
    between = (totals * (hits / totals - share) ** 2).sum() - (within * (1 - totals / n)).sum()
    return float(between / (n * share * (1 - share)))


def _counted(kinds: Sequence[Hashable], right: Sequence[bool]) -> tuple[Counts, Counts]:
    """For each kind its tasks, and those with success."""
    counts: dict[Hashable, list[int]] = {}
    for kind, success in zip(kinds, right, strict=True):
        entry = counts.setdefault(kind, [0, 0])
        entry[0] += 1
        entry[1] += bool(success)
    totals, hits = np.array(list(counts.values()), np.int64).reshape(-1, 2).T
    return totals, hits


def _statistic(totals: Counts, hits: Counts) -> npt.NDArray[np.float64]:
    """Pearson's chi-square; the last axis of ``hits`` are the kinds."""
    n, share = totals.sum(), hits.sum(axis=-1, keepdims=True) / totals.sum()
    expected = totals * share
    statistic: npt.NDArray[np.float64] = ((hits - expected) ** 2 / (expected * (1 - share))).sum(axis=-1)
    return np.asarray(np.minimum(statistic, n), np.float64)


def _permuted(totals: Counts, successes: int, rng: np.random.Generator, draws: int) -> npt.NDArray[np.float64]:
    """The statistic where ``successes`` fall on the tasks by chance, for each draw."""
    return _statistic(totals, rng.multivariate_hypergeometric(totals, successes, draws, method="marginals"))


def _share(drawn: npt.NDArray[np.float64], statistic: float) -> float:
    return float((1 + (drawn >= statistic * (1 - 1e-9)).sum()) / (len(drawn) + 1))


def _within(
    kinds: Sequence[Hashable],
    right: Sequence[bool],
    strata: Sequence[Hashable],
    rng: np.random.Generator,
    draws: int,
) -> float | None:
    """The p-value of the statistic over all tasks if outcomes change places within strata only."""
    places = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
    counts: defaultdict[Hashable, Counts] = defaultdict(lambda: np.zeros((2, len(places)), np.int64))
    for kind, success, stratum in zip(kinds, right, strata, strict=True):
        counts[stratum][:, places[kind]] += (1, bool(success))
    drawn, telling = np.zeros((draws, len(places)), np.int64), False
    for totals, hits in counts.values():
        here = totals > 0
        successes = int(hits.sum())
        if 0 < successes < totals.sum() and here.sum() > 1:
            telling = True
            drawn[:, here] += rng.multivariate_hypergeometric(totals[here], successes, draws, method="marginals")
        else:
            drawn += hits
    if not telling:
        return None
    totals, hits = _counted(kinds, right)
    observed = float(_statistic(totals, hits))
    return _share(_statistic(totals, drawn), observed)
