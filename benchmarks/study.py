"""Does `raycade study` find why games were lost? Run: python -m benchmarks.study [studies] [games].

Simulated players with put-in weaknesses play KidGym from pictures and from text twins, through the same play loop as any
model. In some games a player cannot see colors: from pictures it draws among the actions, in words it plays perfectly. In
some it plans one step only, or none: from then on it draws among the actions, either way. And some replies are so badly
written that none can be read. Each game that is lost from pictures has one true cause, known from what was put in. Printed:
the true share of each cause beside the mean estimate, and how often the 95 % interval holds the share that is expected. Then
the same for shares of variance, of values that are drawn with known components in a two by two of settings.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np

from benchmarks.arguments import whole_numbers
from evals.analysis.compare import Side
from evals.conversation import Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.study.conditions import Condition, conditions_of
from evals.study.split import Split, pairs_of, split, text_twins
from evals.study.variance import variance_shares
from evals.suite import ledger_columns, plan_for, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.summary.paired import Observation
from evals.types import Episode, Reply, Turn, stable_seed

PLAYER: Final = "weak"
CAUSES: Final = ("form", "seeing", "planning")
SETTINGS: Final = {"tasks": ("CL", "SO", "MA"), "levels": (1, 2), "modes": ("zero_shot",)}


@dataclass(frozen=True)
class Weakness:
    """How often what fails."""

    seeing: float
    """Share of games whose pictures it cannot make out."""
    planning: float
    """Share of games that it plays without a plan."""
    form: float
    """Chance of each reply that it cannot be read."""
    planned: int = 0
    """Steps that are still played perfectly in games without a plan."""


WEAKNESSES: Final = {
    "cannot see colors": Weakness(seeing=0.5, planning=0.0, form=0.0),
    "plans one step": Weakness(seeing=0.0, planning=0.8, form=0.0, planned=1),
    "writes badly": Weakness(seeing=0.0, planning=0.0, form=0.15),
    "all three": Weakness(seeing=0.3, planning=0.2, form=0.05),
    "none but luck": Weakness(seeing=0.0, planning=1.0, form=0.0),
}


@dataclass(frozen=True)
class WeakPlayer:
    """Plays perfectly but for its weaknesses; what it is weak in depends on the game, never on how the game is told."""

    weakness: Weakness
    from_pictures: bool
    study: int

    def flaws(self, episode: Episode) -> tuple[bool, bool]:
        """Whether it cannot see this game's pictures, and whether it plays it without a plan."""
        random = Random(stable_seed(self.study, episode.task, episode.level, episode.index))
        return random.random() < self.weakness.seeing, random.random() < self.weakness.planning

    async def reply(self, turn: Turn) -> Reply:
        """As the class says."""
        random = Random(stable_seed(self.study, turn.episode.id, turn.number))
        if random.random() < self.weakness.form:
            return Reply("I would rather not say.")
        blind, careless = self.flaws(turn.episode)
        lost_for_a_plan = careless and turn.number >= self.weakness.planned
        if lost_for_a_plan or (blind and self.from_pictures):
            return Reply(random.choice(turn.options))
        assert turn.oracle is not None
        return Reply(turn.oracle())


def condition(weakness: Weakness, modality: str, study: int, games: int) -> tuple[Side, list[Record]]:
    """All games of one condition."""
    seeds = f"training:{study}"
    suite = KidGymSuite(**SETTINGS, episodes=games, modality=modality, seeds=seeds)  # type: ignore[arg-type]
    player = WeakPlayer(weakness, modality == "picture", study)
    plan = plan_for(suite, {PLAYER: ""})

    async def play() -> list[Record]:
        return [await play_episode(suite, episode, player) for episode in plan]

    records = asyncio.run(play())
    settings = {"suite": {"name": "kidgym", "modality": modality}}
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(suite)), settings)
    return Side(modality, PLAYER, run, suite, modality), records


def causes(player: WeakPlayer, records: Sequence[Record]) -> Counter[str]:
    """The true cause of each lost game."""
    found = Counter[str]()
    for record in records:
        if record.outcome is None or record.outcome.success:
            continue
        blind, careless = player.flaws(record.episode)
        if record.turns[-1].action is None:
            found["form"] += 1
        else:
            found["planning" if careless else "seeing"] += 1
            assert careless or blind
    return found


def main(studies: int = 40, games: int = 40) -> int:
    print(f"{studies} studies of {len(SETTINGS['tasks']) * len(SETTINGS['levels']) * games} games each")
    print(f"{'player':20}{'cause':10}{'true share':>12}{'estimate':>10}{'interval holds it':>20}")
    for name, weakness in WEAKNESSES.items():
        results: list[tuple[Counter[str], Split]] = []
        for study in range(studies):
            picture, records = condition(weakness, "picture", study, games)
            text, _ = condition(weakness, "text", study, games)
            ((shown, told),) = text_twins(conditions_of([picture, text]))
            truth = causes(WeakPlayer(weakness, True, study), records)
            results.append((truth, split(pairs_of(shown, told))))
        _print(name, results)
    _print_variance(studies, games=len(SETTINGS["tasks"]) * len(SETTINGS["levels"]) * games)
    return 0


def _print(name: str, results: Sequence[tuple[Counter[str], Split]]) -> None:
    lost = sum(truth.total() for truth, _ in results)
    for cause in CAUSES:
        share = sum(truth[cause] for truth, _ in results) / max(1, lost)
        estimates = [getattr(each, cause) for _, each in results]
        known = [estimate.mean for estimate in estimates if not math.isnan(estimate.mean)]
        mean = f"{sum(known) / len(known):.3f}" if known else "–"
        told = [estimate for estimate in estimates if estimate.has_interval]
        held = f"{sum(one.low <= share <= one.high for one in told)} of {len(told)}" if told else "no interval"
        print(f"{name:20}{cause:10}{share:12.3f}{mean:>10}{held:>20}", flush=True)


# --- shares of variance ----------------------------------------------------------------------------------------------

COMPONENTS: Final = {
    "game": 0.04,
    "a": 0.01,
    "game by a": 0.02,
    "b": 0.0025,
    "game by b": 0.01,
    "a by b": 0.0025,
    "chance and the rest": 0.03,
}
"""Variances that are put in; of a setting, the square of what each of its two values adds or takes off."""


def expected_shares() -> dict[str, float]:
    """The shares to be found: what a game has in common at both values of a setting counts as of the game."""
    components = dict(COMPONENTS)
    for name in ("game by a", "game by b"):
        components[name] /= 2
        components["game"] += components[name]
    total = sum(components.values())
    return {name: value / total for name, value in components.items()}


def drawn_study(
    games: int, generator: np.random.Generator
) -> tuple[list[Condition], dict[int, dict[str, list[Observation]]]]:
    """Conditions of a two by two, and a value of each game in each."""
    spread = {name: math.sqrt(value) for name, value in COMPONENTS.items()}
    of_game = generator.normal(0, spread["game"], games)
    by_a, by_b = (generator.normal(0, spread[f"game by {name}"], (2, games)) for name in "ab")
    conditions, observations = [], {}
    for place, (a, b) in enumerate(itertools.product((0, 1), repeat=2)):
        fixed = (2 * a - 1) * spread["a"] + (2 * b - 1) * spread["b"] + (2 * a - 1) * (2 * b - 1) * spread["a by b"]
        rest = generator.normal(0, spread["chance and the rest"], games)
        values = of_game + by_a[a] + by_b[b] + fixed + rest
        conditions.append(Condition(None, {"a": str(a), "b": str(b)}))
        observations[place] = {"value": [Observation((), game, None, float(each)) for game, each in enumerate(values)]}
    return conditions, observations


def _print_variance(studies: int, games: int) -> None:
    generator = np.random.default_rng(0)
    found = [variance_shares(*drawn_study(games, generator), "value") for _ in range(studies)]
    print(f"{'source of variance':30}{'true share':>12}{'estimate':>10}{'interval holds it':>20}")
    for name, share in expected_shares().items():
        estimates = [each[name] for each in found]
        mean = sum(estimate.mean for estimate in estimates) / len(estimates)
        held = sum(estimate.low <= share <= estimate.high for estimate in estimates)
        print(f"{name:30}{share:12.3f}{mean:10.3f}{f'{held} of {studies}':>20}", flush=True)


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, studies=40, games=40)))
