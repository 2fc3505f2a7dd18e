"""Game after game, step by step, with rewards: what all adapters are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from evals.conversation import Record
from evals.sessions.session import Session, SessionError, text_reply
from evals.suite import Suite
from evals.training.games import TrainingGames
from evals.training.reward import Rewards
from evals.types import Chat, Episode, PlayerError, Turn

TRIES: Final = 1000
"""Games in a row that are left out before the suite counts as one that has no others than those of the evaluation."""


class TrainingError(RuntimeError):
    """There is no game to train on, or the suite has a defect."""


@dataclass(frozen=True)
class Step:
    """What came of a reply."""

    turn: Turn | None
    """What is asked next; None if the game has ended."""
    reward: float
    record: Record | None
    """How the game ended; None while it goes on."""


class TrainingPlay:
    """One game after the other. It belongs to the event loop in which it is used."""

    def __init__(self, games: TrainingGames, seed: int = 0) -> None:
        """No game has begun."""
        self.games = games
        self._stream: Iterator[tuple[Suite, Episode]] = games.stream(seed)
        self._session: Session | None = None
        self._rewards: Rewards | None = None
        self._left_out = 0
        """Games in a row that were not to be trained on."""

    def restart(self, seed: int) -> None:
        """Go on with the stream of games that belongs to this seed.

        Raises:
            ValueError: it is no integer from 0 up.
        """
        self._stream = self.games.stream(seed)

    @property
    def turn(self) -> Turn | None:
        """What was asked last and waits for its reply."""
        return None if self._session is None else self._session.turn

    async def begin(self) -> Turn:
        """Begin the next game; one that is being played is given up.

        Raises:
            TrainingError: the suite has no games to train on, or a defect.
            NoRewardError: it cannot be rewarded like this.
            ValueError: it cannot be planned.
        """
        turn = None
        while turn is None:
            turn = await self.begin_with(*next(self._stream))
        return turn

    async def begin_with(self, suite: Suite, episode: Episode) -> Turn | None:
        """Begin a certain game; one that is being played is given up.

        Returns:
            None where the game is not to be trained on, or asks nothing.

        Raises:
            TrainingError: the suite has a defect, or no game was to be trained on for a long time.
            NoRewardError: it cannot be rewarded like this.
        """
        await self.close()
        session = Session(suite, episode)
        turn = await session.begin()
        if session.record is not None and session.record.error:
            raise TrainingError(f"{episode.suite}, {episode.task}: {session.record.error}")
        rewards = None
        try:
            if turn is not None:  # a game may end without asking, where no step leaves a choice
                rewards = await self._rewards_of(suite, episode, turn)
        finally:
            if rewards is None:
                await session.close()
        if rewards is None:
            self._count_left_out()
            return None
        self._session, self._rewards, self._left_out = session, rewards, 0
        return turn

    async def _rewards_of(self, suite: Suite, episode: Episode, opening: Turn) -> Rewards | None:
        """The rewards of a game; None where it is not to be trained on."""
        rewards = Rewards(self.games.options.reward, opening)  # a game that cannot be rewarded is not written down
        if not await self.games.admits(suite, episode, opening):
            return None
        await rewards.asked(opening)
        return rewards

    def _count_left_out(self) -> None:
        self._left_out += 1
        if self._left_out < TRIES:
            return
        self._left_out = 0
        raise TrainingError(
            f"{self.games.suite.name}: {TRIES} games in a row are games of the evaluation. A suite with a setting `seeds` "
            "draws others, and so does one whose play follows the episode's seed; else name other data for the evaluation "
            "(evaluation={...}), or train on its games (evaluation_games=True)"
        )

    async def answer(self, text: str) -> Step:
        """Reply to the turn; a text that is none of its labels, where it asks for one, fails the game.

        Raises:
            SessionError: no turn waits for a reply.
            TrainingError: the suite has a defect.
        """
        session, rewards = self._session, self._rewards
        if session is None or session.turn is None or rewards is None:
            raise SessionError("no turn waits for a reply: begin a game first")
        asked = session.turn
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is read as replies of engines are
        following = await _replied(session, asked, text)
        record = session.record
        if record is not None and record.error_kind == "suite":
            raise TrainingError(f"{record.episode.suite}, {record.episode.task}: {record.error}")
        reward = 0.0
        if asked.number in session.played:
            reward = await rewards.answered(session.played[asked.number], following, record)
        return Step(following, reward, record)

    async def close(self) -> None:
        """Give up the game that is being played."""
        if self._session is not None:
            await self._session.close()
        self._session = None


async def _replied(session: Session, asked: Turn, text: str) -> Turn | None:
    """The turn after a reply; none where the text is no reply to it, which fails the game."""
    try:
        reply = text_reply(asked, text)
    except PlayerError as error:
        following = await session.fail(error)
        while following is not None:  # other turns that the suite has asked at once
            following = await session.fail(error)
        return None
    return await session.answer(reply)


def ending_of(step: Step) -> dict[str, Any]:
    """How the game ended with a step, as plain values; nothing while it goes on."""
    if step.record is None:
        return {}
    outcome = step.record.outcome
    return {
        "success": outcome is not None and outcome.success,
        "credit": 0.0 if outcome is None else outcome.credit,
        "steps": 0 if outcome is None else outcome.steps,
        "error": step.record.error,
    }


def text_of(chat: Chat) -> str:
    """A chat as plain text, ``[picture]`` for each picture."""
    said = []
    for message in chat:
        parts = [part if isinstance(part, str) else "[picture]" for part in message.parts]
        said.append(f"{message.role}: {' '.join(parts)}")
    return "\n\n".join(said)
