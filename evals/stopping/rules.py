"""Rules that say when enough games have been played: plain functions of the outcomes of games in their fixed order.

A rule looks after every game. Its evidence and its intervals are anytime-valid (``evals.stats.anytime``), so it may.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval

from envs.settings import Count, check_keys, check_values, settings_of
from evals.stats.anytime import (
    Capital,
    ConfidenceSequence,
    capital_paths,
    difference_capital,
    difference_sequence,
)
from evals.stats.intervals import Estimate

Fraction = Annotated[float, Interval(gt=0, lt=1)]
Kind = Literal["decided", "precise"]
By = Literal["run", "suite", "cell"]
FROM_0_TO_1 = ("success", "score")
"""Measures whose bounds need not be given."""
Verdict = Literal["first", "second", "tie", "precise", "maximum", "open"]
"""The player itself is better; the other is; no difference larger than delta; the interval is narrow enough; the maximum was
reached without any of these; none of these yet."""


@dataclass(frozen=True)
class StopRule:
    """What ends a run before its plan does. It is stated before the run begins.

    Raises:
        ValueError: a value is missing for the kind of rule, or the bounds are in the wrong order.
    """

    kind: Kind
    by: By = "run"
    """What each decision is about: the whole run, each suite, or each cell (suite, task, level and mode)."""
    precision: Fraction | None = None
    """For ``precise``: half the width of the interval that is narrow enough."""
    delta: Fraction | None = None
    """For ``decided``: a difference that does not matter. Once the interval lies between -delta and delta, it is a tie."""
    alpha: Fraction = 0.05
    """Chance that any of the run's decisions or intervals is wrong; shared equally where there are several."""
    most: Count | None = None
    """Most games of each decision; None for all that are planned."""
    measure: str = "success"
    """The column of the ledger that is measured."""
    bounds: tuple[float, float] | None = None
    """Least and largest value that the measure can have, known beforehand; success and score have 0 and 1."""
    against: str = ""
    """For ``decided``: the player, or the run, that is compared with."""

    def __post_init__(self) -> None:
        match self.kind:
            case "decided" if not self.against:
                raise ValueError("stop=decided: needs against=RUN or against=PLAYER, whom the model is compared with")
            case "precise" if self.precision is None:
                raise ValueError(
                    "stop=precise: needs precision, half the width of the interval to stop at, such as .02"
                )
        if self.bounds is None:
            if self.measure not in FROM_0_TO_1:
                raise ValueError(
                    f"stop.measure={self.measure}: needs stop.bounds=[LEAST,LARGEST], between which it lies, such as [0,50]"
                )
            object.__setattr__(self, "bounds", (0.0, 1.0))
        if not self.least < self.largest:
            raise ValueError(f"stop.bounds=[{self.least:g}, {self.largest:g}]: the first must be less than the second")

    @property
    def least(self) -> float:
        """The least value that the measure can have."""
        assert self.bounds is not None  # set above
        return self.bounds[0]

    @property
    def largest(self) -> float:
        """The largest value that the measure can have."""
        assert self.bounds is not None  # set above
        return self.bounds[1]

    def scaled(self, value: float) -> float:
        """A value of the measure from 0 (its least) to 1 (its largest); a value beyond counts as these."""
        within = min(max(value, self.least), self.largest)
        return (within - self.least) / (self.largest - self.least)

    def to_json(self) -> dict[str, Any]:
        """The rule as plain values."""
        return dataclasses.asdict(self) | {"bounds": [self.least, self.largest]}

    @classmethod
    def of_json(cls, values: Any) -> StopRule:
        """The rule that ``to_json`` wrote.

        Raises:
            ValueError: these are no values of a rule; the message names the one that is wrong.
        """
        kinds = {name: setting.kind for name, setting in settings_of(cls).items()}
        if not isinstance(values, dict) or "kind" not in values:
            raise ValueError("stop: not a stopping rule")
        check_keys("stop", kinds, values)
        return cls(**check_values("stop", kinds, values))


@dataclass(frozen=True)
class Decision:
    """What a rule says of a sequence of games."""

    verdict: Verdict
    games: int
    """Games that the decision took; all that were looked at while it is open."""
    estimate: Estimate
    """The measure, or the paired difference, over these games, with the anytime-valid interval."""
    e_value: float | None = None
    """Evidence of a difference; None where none is tested."""

    @property
    def open(self) -> bool:
        """Whether more games are needed."""
        return self.verdict == "open"


def decide(differences: Sequence[float], alpha: float, delta: float | None, most: int | None) -> Decision:
    """The better of two players, or that no difference larger than ``delta`` is left: after the first game that shows it.

    Args:
        differences: Of each game in the fixed order, first minus second, in [-1, 1]; the mean over the pairs of a game.
        alpha: Chance of a wrong decision.
        delta: The difference that does not matter; None to go on until one side is better.
        most: Most games.
    """
    looked = np.asarray(differences[:most], np.float64)
    limit = math.log(2 / alpha)
    # The intervals' ends need not be found at every look: an end has passed a value once that value is refuted.
    above, below = capital_paths((looked + 1) / 2, 0.5)
    shown = (above >= limit) | (below >= limit)
    if delta is not None:
        more_than_minus, _ = capital_paths((looked + 1) / 2, (1 - delta) / 2)
        _, less_than_plus = capital_paths((looked + 1) / 2, (1 + delta) / 2)
        shown |= (more_than_minus >= limit) & (less_than_plus >= limit)
    found = np.flatnonzero(shown)
    games = int(found[0]) + 1 if len(found) else len(looked)
    taken = looked[:games].tolist()
    evidence = difference_capital(taken) if taken else Capital(0.0, 0.0)
    verdict: Verdict = "open"
    if len(found):
        verdict = _shown(evidence, limit)
    elif most is not None and games >= most:
        verdict = "maximum"
    return Decision(verdict, games, difference_sequence(taken, alpha), evidence.e_value)


def _shown(evidence: Capital, limit: float) -> Verdict:
    """Who is better by this evidence; a tie where it shows neither."""
    if evidence.up >= limit - 1e-9:
        return "first"
    if evidence.down >= limit - 1e-9:
        return "second"
    return "tie"


def measure_precisely(
    totals: Sequence[float],
    sizes: Sequence[int],
    largest: int,
    alpha: float,
    precision: float,
    most: int | None,
    looked: int = 0,
) -> Decision:
    """The mean of a measure in [0, 1], once its interval reaches ``precision`` to either side in the mean.

    Looks are after each of the first 100 games and then after every hundredth part more: to find the ends of an interval
    takes longer than to test one value.

    Args:
        totals: Of each game in the fixed order, the sum of its observations.
        sizes: Observations of each game.
        largest: Most observations of a game in the plan.
        alpha: Chance that the interval ever misses the mean.
        precision: Half the width of the interval.
        most: Most games.
        looked: Games up to which earlier looks have shown that it is not precise yet.
    """
    count = len(totals) if most is None else min(most, len(totals))
    sequence = ConfidenceSequence(totals, alpha, sizes, largest)
    for games in looks(count):
        if games <= looked:
            continue
        # Not even a measure that never varies can be known so well after fewer games.
        if games < math.log(2 / alpha) / 4 / precision:
            continue
        found = sequence.after(games)
        if found.high - found.low <= 2 * precision:
            return Decision("precise", games, found)
    found = sequence.after(count)
    if most is not None and count >= most:
        return Decision("maximum", count, found)
    return Decision("open", count, found)


def looks(count: int) -> list[int]:
    """After how many games a look is taken, up to ``count``: the same numbers whatever the count is, and the last."""
    found, games = [], 1
    while games <= count:
        found.append(games)
        games += max(1, games // 100)
    return found
