"""Many games at once, step by step, by whoever chooses options; any suite whose turns have features."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from evals.sessions.session import BlockingLoop, Session, text_reply
from evals.suite import Suite
from evals.types import Episode, OptionFeatures, Turn

Choose = Callable[[Sequence[Turn], Sequence[Sequence[OptionFeatures]]], Sequence[int]]
"""Takes turns and the features of their options; gives the option to take in each."""


class NoFeaturesError(Exception):
    """A suite's turns have no features, so that nothing can be learned of them."""


@dataclass(frozen=True)
class Lesson:
    """A turn to learn from."""

    options: Sequence[OptionFeatures]
    good: Sequence[bool]
    """Which options perfect play could take."""


def play(suite: Suite, episodes: Sequence[Episode], choose: Choose) -> list[float]:
    """Play episodes side by side.

    Returns:
        The credit of each (1 for a won game).

    Raises:
        NoFeaturesError: a turn has no features.
        RuntimeError: an episode failed.
    """
    loop = BlockingLoop()
    try:
        return loop.run(_play(suite, episodes, choose))
    finally:
        loop.close(asyncio.sleep(0))


async def _play(suite: Suite, episodes: Sequence[Episode], choose: Choose) -> list[float]:
    sessions = [Session(suite, episode) for episode in episodes]
    turns = {number: await session.begin() for number, session in enumerate(sessions)}
    while waiting := {number: turn for number, turn in turns.items() if turn is not None}:
        options = [features_of(turn) for turn in waiting.values()]
        chosen = choose(list(waiting.values()), options)
        for (number, turn), option in zip(waiting.items(), chosen, strict=True):
            reply = (turn.labels or turn.options)[option]
            turns[number] = await sessions[number].answer(text_reply(turn, reply))
    return [_credit(session) for session in sessions]


def features_of(turn: Turn) -> Sequence[OptionFeatures]:
    """The features of a turn's options.

    Raises:
        NoFeaturesError: it has none.
    """
    if turn.features is None:
        raise NoFeaturesError(f"turns of the suite {turn.episode.suite!r} have no features (Turn.features)")
    return turn.features()


def lessons(suite: Suite, episodes: Sequence[Episode], seed: int = 0) -> list[Lesson]:
    """Turns to learn from: games of a player that plays perfectly in half of its steps and at random in the others.

    So lessons tell what to do on the way to winning as well as after a mistake; where a game is lost already, there is
    nothing to learn.
    """
    found = list[Lesson]()
    random = Random(seed)

    def choose(turns: Sequence[Turn], options: Sequence[Sequence[OptionFeatures]]) -> list[int]:
        chosen = []
        for turn, offered in zip(turns, options, strict=True):
            good = good_options(turn, offered)
            if any(good):
                found.append(Lesson(offered, good))
            best = [number for number, each in enumerate(good) if each]
            chosen.append(random.choice(best) if best and random.random() < 0.5 else random.randrange(len(offered)))
        return chosen

    play(suite, episodes, choose)
    return found


def good_options(turn: Turn, options: Sequence[OptionFeatures]) -> list[bool]:
    """Which options perfect play could take: those that leave the fewest steps, or else the oracle's reply."""
    if turn.remaining is not None:
        left = [turn.remaining(option.action) for option in options]
        least = min(left)
        return [math.isfinite(each) and math.isclose(each, least) for each in left]
    best = turn.oracle() if turn.oracle is not None else None
    return [reply == best for reply in turn.labels or turn.options]


def _credit(session: Session) -> float:
    record = session.record
    if record is None or record.outcome is None:
        raise RuntimeError(f"episode {session.episode.id} failed: {record.error if record else 'it has not ended'}")
    return record.outcome.credit
