"""A player that reads text twins only wins what perfect play wins, and no constant of a twin gives the answer away.

    python -m benchmarks.text_twins kidgym --games 1000 --details grid
    python -m benchmarks.text_twins kidgym --variant balanced
    python -m benchmarks.text_twins raven --games 1000
    python -m benchmarks.text_twins constants --games 400

``constants`` learns, on half of the games, the best rule of the form "take the option whose value is the k-th smallest" for
values that twins have beside what they tell (the place in the list, labels, slots, the text's length), and measures it on
the other half beside chance; and so for the learner of ``evals.shortcut_search``, which knows all of these values together.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.twin_reader.panels import PanelReader
from benchmarks.twin_reader.worlds import PICTURE, TwinReader
from cluster.console import show
from envs.kidgym.registry import VARIANTS
from envs.raven import CONFIGURATIONS
from evals.shortcut_search.classes import FeatureClass
from evals.shortcut_search.learner import Learner
from evals.suite import Suite, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.multistar import MultiStarSuite
from evals.tables import Table
from evals.types import Episode, OptionFeatures, Player, Turn

DETAILS = ("grid", "prose", "json")
Values = Mapping[str, float]
Cells = Counter[tuple[str, str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("kidgym", "raven", "constants"))
    parser.add_argument("--games", type=int, default=100, help="of each cell (default 100)")
    parser.add_argument("--details", nargs="+", choices=DETAILS, default=DETAILS)
    parser.add_argument(
        "--tasks", nargs="+", default=["all"], help="of KidGym, or configurations of RAVEN (default all)"
    )
    parser.add_argument(
        "--variant", choices=VARIANTS, default="published", help="of KidGym's games (default published)"
    )
    asked = parser.parse_args()
    if asked.part == "constants":
        show([Table("constants", "Constants of twins", CONSTANTS, tuple(constants(asked.games, asked.tasks)))])
        return 0
    lost = 0
    settings = {"variant": asked.variant} if asked.part == "kidgym" else {}
    for detail in asked.details:
        suite, episodes, player = (kidgym if asked.part == "kidgym" else raven)(
            asked.games, asked.tasks, detail, **settings
        )
        played, won = asyncio.run(count_wins(suite, episodes, player))
        rows = [(*cell, detail, played[cell], won[cell]) for cell in played]
        rows.append(("all", "", detail, played.total(), won.total()))
        show([Table("twins", "A reader of text twins", ("task", "level", "detail", "games", "won"), tuple(rows))])
        lost += played.total() - won.total()
    return int(lost > 0)


def kidgym(
    games: int, tasks: Sequence[str], detail: str, variant: str = "published"
) -> tuple[Suite, Sequence[Episode], Player]:
    suite = KidGymSuite(
        tasks=tasks, modes=["zero_shot"], episodes=games, modality="text", detail=detail, variant=variant
    )
    return suite, suite.plan(), TwinReader()


def raven(games: int, tasks: Sequence[str], detail: str) -> tuple[Suite, Sequence[Episode], Player]:
    suite = MultiStarSuite(
        subtask="direct", configurations=tasks, attributes=["number"], puzzles=games, modality="text", detail=detail
    )
    return suite, [episode for episode in suite.plan() if episode.level == "final"], PanelReader()


async def count_wins(suite: Suite, episodes: Iterable[Episode], player: Player) -> tuple[Cells, Cells]:
    played, won = Cells(), Cells()
    for episode in episodes:
        record = await play_episode(suite, episode, player)
        cell = episode.task, episode.level
        played[cell] += 1
        won[cell] += bool(record.outcome and record.outcome.success)
        if not (record.outcome and record.outcome.success):
            print(f"lost: {cell} {episode.index} {record.error}", file=sys.stderr)
    return played, won


# --- constants -------------------------------------------------------------------------------------------------------

CONSTANTS = ("task", "level", "value", "games", "chance", "constant", "standard errors above")

LEARNED = "all of these, learned"


def constants(games: int, tasks: Sequence[str]) -> Iterator[tuple[object, ...]]:
    ours = [task for task in tasks if task not in CONFIGURATIONS]
    theirs = [task for task in tasks if task == "all" or task in CONFIGURATIONS]
    cells = [*(_kidgym_choices(games, ours) if ours else ()), *(_raven_choices(games, theirs) if theirs else ())]
    for task, level, choices in cells:
        names = sorted({name for options, _ in choices for values in options for name in values})
        found = {name: _held_out(choices, name) for name in names} | {LEARNED: _learned(choices)}
        for name, (chance, reached, error) in found.items():
            above = (reached - chance) / error if error else 0.0
            yield task, level, name, len(choices), round(chance, 3), round(reached, 3), round(above, 1)


Choice = tuple[Sequence[Values], Sequence[bool]]
"""The values of each option, and which of them are right."""


def _held_out(choices: Sequence[Choice], name: str) -> tuple[float, float, float]:
    """Chance, what the constant that is best on the first half reaches on the second, and the standard error of that."""
    half = len(choices) // 2
    learned = Counter[int]()
    for options, right in choices[:half]:
        for rank, place in enumerate(_ranked(options, name)):
            learned[rank] += right[place]
    best = learned.most_common(1)[0][0]
    hits = chance = spread = 0.0
    for options, right in choices[half:]:
        order = _ranked(options, name)
        rate = sum(right[place] for place in order) / len(order)
        hits += right[order[min(best, len(order) - 1)]]
        chance, spread = chance + rate, spread + rate * (1 - rate)
    count = len(choices) - half
    return chance / count, hits / count, math.sqrt(spread) / count


def _learned(choices: Sequence[Choice]) -> tuple[float, float, float]:
    """The same for a learner of all constants together."""
    half = len(choices) // 2
    offered = [[_told_of(values) for values in options] for options, _ in choices]
    learner = Learner(FeatureClass("text only", only=frozenset({"text"})))
    learner.learn(offered[:half], [right for _, right in choices[:half]])
    chosen = learner.choose(offered[half:])
    rates = [sum(right) / len(right) for _, right in choices[half:]]
    hits = sum(right[place] for (_, right), place in zip(choices[half:], chosen, strict=True))
    spread = math.sqrt(sum(rate * (1 - rate) for rate in rates))
    return sum(rates) / len(rates), hits / len(rates), spread / len(rates)


def _told_of(values: Values) -> OptionFeatures:
    return OptionFeatures("", {f"text: {name}": float(value) for name, value in values.items()})


def _ranked(options: Sequence[Values], name: str) -> list[int]:
    """The places of the options that have the value, by it."""
    return sorted((place for place, values in enumerate(options) if name in values), key=lambda at: options[at][name])


class _First:
    """Keeps the first question that the game asks, and ends it."""

    def __init__(self) -> None:
        self.turn: Turn | None = None

    async def reply(self, turn: Turn) -> None:
        self.turn = turn
        raise RuntimeError("seen")


def _first(suite: Suite, episode: Episode) -> Turn:
    player = _First()
    with contextlib.suppress(RuntimeError):
        asyncio.run(play_episode(suite, episode, player))
    assert player.turn is not None
    return player.turn


def _asked(turn: Turn) -> str:
    return "".join(part for part in turn.chat[-1].parts if isinstance(part, str))


def _told(turn: Turn) -> dict[str, Any]:
    """The twin of the present picture."""
    told: dict[str, Any] = json.loads(PICTURE.findall(_asked(turn))[-1])
    return told


def _kidgym_choices(games: int, tasks: Sequence[str]) -> Iterator[tuple[str, str, list[Choice]]]:
    suite, episodes, _ = kidgym(games, tasks, "json")
    cells = defaultdict(list)
    for episode in episodes:
        turn = _first(suite, episode)
        told, offers = _told(turn), re.findall(r"^[A-Z]\) (.*)$", _asked(turn), re.MULTILINE)
        left = [turn.remaining(offer) for offer in offers]
        options = [_values(offer, place, told) for place, offer in enumerate(offers)]
        cells[episode.task, episode.level].append((options, [each == min(left) for each in left]))
    for (task, level), choices in cells.items():
        yield task, level, choices


def _values(offer: str, place: int, told: dict[str, Any]) -> Values:
    """What a twin has of an offered action besides what it tells."""
    values = {"letter": place}
    if label := re.search(r"label (\d+)", offer):
        values["label"] = int(label[1])
        values["place in the list"] = [thing.get("label") for thing in told["things"]].index(label[1])
    if slot := re.search(r"backpack ([A-D])", offer):
        values["slot"] = ord(slot[1])
    return values


def _raven_choices(games: int, tasks: Sequence[str]) -> Iterator[tuple[str, str, list[Choice]]]:
    suite, episodes, _ = raven(games, tasks, "json")
    cells = defaultdict(list)
    for episode in episodes:
        turn = _first(suite, episode)
        told = _told(turn)
        options = [
            {"number": place, "length of the text": len(json.dumps(panel)), "objects": len(panel["objects"])}
            for place, panel in enumerate(told["answers"])
        ]
        right = turn.labels.index(turn.oracle())
        cells[episode.task].append((options, [place == right for place in range(8)]))
    for task, choices in cells.items():
        yield task, "final", choices


if __name__ == "__main__":
    sys.exit(main())
