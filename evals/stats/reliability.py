"""How reliable a player is over repeats of a game, and what repeats cost: pass^k, pass@k, standard errors of plans."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evals.stats.anytime import success_sequence
from evals.stats.power import games_needed


def pass_power_k(successes: int, repeats: int, k: int) -> float:
    """Chance that k runs of a game all succeed (pass^k), estimated without bias from ``repeats`` runs of it.

    Of all choices of k of the runs, the share without a failure (Yao et al., tau-bench, arXiv 2406.12045).

    Raises:
        ValueError: there are fewer than k runs.
    """
    _check(successes, repeats, k)
    return math.comb(successes, k) / math.comb(repeats, k)


def pass_at_k(successes: int, repeats: int, k: int) -> float:
    """Chance that at least one of k runs of a game succeeds (pass@k), estimated without bias from ``repeats`` runs of it.

    One minus the share of choices of k runs that hold failures only (Chen et al., arXiv 2107.03374).

    Raises:
        ValueError: there are fewer than k runs.
    """
    _check(successes, repeats, k)
    return 1 - math.comb(repeats - successes, k) / math.comb(repeats, k)


def _check(successes: int, repeats: int, k: int) -> None:
    if not 1 <= k <= repeats or not 0 <= successes <= repeats:
        raise ValueError(f"{k} runs of {repeats}, of which {successes} succeeded")


def design_effect(correlation: float, repeats: float) -> float:
    """By how much repeats of games widen the variance of a mean, against as many games that are played once."""
    return 1 + (repeats - 1) * correlation


@dataclass(frozen=True)
class Buys:
    """What a plan of games and repeats buys."""

    games: int
    repeats: int
    error: float
    """Standard error of the mean success."""
    once: int
    """Games, played once each, with the same standard error."""

    @property
    def saved(self) -> float:
        """The share of episodes that they save."""
        return 1 - self.once / (self.games * self.repeats)


def what_a_plan_buys(games: int, repeats: int, correlation: float, success: float = 0.5) -> Buys:
    """The standard error of a mean over games and repeats, and the plan without repeats that is as precise.

    Args:
        games: Different games.
        repeats: Runs of each.
        correlation: Intraclass correlation of the runs of one game.
        success: The mean; one half, where the error is largest, unless it is known better.
    """
    effect = design_effect(correlation, repeats)
    error = math.sqrt(success * (1 - success) * effect / (games * repeats))
    return Buys(games, repeats, error, math.ceil(games * repeats / effect - 1e-9))


def games_for_precision(precision: float, success: float = 0.5) -> int:
    """Games, once each, until the anytime-valid interval reaches ``precision`` to either side in the mean.

    Args:
        precision: Half the width of the interval.
        success: The mean; one half, where most games are needed, unless it is known better.
    """

    def narrow(games: int) -> bool:
        interval = success_sequence(round(success * games), games)
        return interval.high - interval.low <= 2 * precision

    most = 1
    while not narrow(most):
        most *= 2
    least = most // 2
    while most - least > max(1, least // 200):
        middle = (least + most) // 2
        if narrow(middle):
            most = middle
        else:
            least = middle
    return most


def games_to_detect(difference: float, discordant: float) -> int:
    """Games, once each, of a fixed plan whose paired test finds a difference with the power of ``games_needed``.

    Args:
        difference: Of the two players' success.
        discordant: Share of the games that exactly one of them wins.
    """
    error = math.sqrt(max(discordant, abs(difference)) - difference**2)
    return games_needed(error, 1, difference)
