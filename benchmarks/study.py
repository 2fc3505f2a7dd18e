"""Does `raycade study` find why games were lost? Run: python -m benchmarks.study [studies] [games].

Simulated players with put-in weaknesses play KidGym from pictures and from text twins, through the same play loop as any
model. In some games a player cannot see colors: from pictures it draws among the actions, in words it plays perfectly. In
some it plans one step only, or none: from then on it draws among the actions, either way. And some replies are so badly
written that none can be read. Each game that is lost from pictures has one true cause, known from what was put in. Printed:
the true share of each cause beside the mean estimate, and how often the 95 % interval holds the share that is expected.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from benchmarks.arguments import whole_numbers
from evals.analysis.compare import Side
from evals.conversation import Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.study.conditions import conditions_of
from evals.study.split import Split, pairs_of, split, text_twins
from evals.suite import ledger_columns, plan_for, play_episode
from evals.suites.kidgym import KidGymSuite
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


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, studies=40, games=40)))
