"""One episode, step by step: ``begin`` gives the first turn, ``answer`` the next one, and in the end there is a record."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from evals.conversation import Conversation, PlayedTurn, Record
from evals.players import certain
from evals.suite import Suite, play_conversation
from evals.types import Episode, PlayerError, Reply, Turn

T = TypeVar("T")


class SessionError(Exception):
    """A session was used out of order: answered before it began or after it ended, or begun twice."""


class Session:
    """One episode that waits for its replies.

    It belongs to the event loop in which it begins.

    >>> from evals.questions import Question, QuestionSuite
    >>> class Capitals(QuestionSuite):
    ...     name = "capitals"
    ...
    ...     def questions(self):
    ...         return [Question("What is the capital of Peru?", "Lima")]
    >>> async def played():
    ...     session = Session(Capitals(), Capitals().plan()[0])
    ...     turn = await session.begin()
    ...     assert turn.chat[-1].parts == ("What is the capital of Peru?",)
    ...     assert await session.answer(Reply("Lima")) is None
    ...     return session.record.outcome.success
    >>> asyncio.run(played())
    True
    """

    def __init__(self, suite: Suite, episode: Episode) -> None:
        """Nothing is played yet.

        Args:
            suite: The part of a suite that planned the episode (``Suite.parts``).
            episode: Assigned to a player by its plan (``plan_for``), so that its record has the id of the plan.
        """
        self.episode = episode
        self.turn: Turn | None = None
        """What was asked last and waits for its reply; None before the first turn and after the last."""
        self.record: Record | None = None
        """How it ended; None while it is played."""
        self._suite = suite
        self._player = _Waiting()
        self._conversation = Conversation(episode, self._player)
        self._play: asyncio.Task[None] | None = None

    @property
    def played(self) -> Mapping[int, PlayedTurn]:
        """The turns that were answered, by number, with what the suite read out of each reply."""
        return self._conversation.turns

    async def begin(self) -> Turn | None:
        """Play up to the first turn.

        Returns:
            The turn; None where the episode ended without asking.

        Raises:
            SessionError: it has begun already.
        """
        if self._play is not None:
            raise SessionError("this episode has begun already")
        self._play = asyncio.create_task(self._played())
        return await self._next()

    async def answer(self, reply: Reply) -> Turn | None:
        """Reply to the turn and play up to the next one.

        Returns:
            The next turn; None where the episode has ended: ``record`` says how.

        Raises:
            SessionError: no turn waits for a reply.
        """
        self._replied().set_result(reply)
        return await self._next()

    async def fail(self, cause: PlayerError) -> Turn | None:
        """Let the player fail at this turn, as an engine would that cannot answer; returns and raises as ``answer``."""
        self._replied().set_exception(cause)
        return await self._next()

    async def close(self) -> None:
        """Give the episode up; nothing of it is recorded unless it has ended."""
        if self._play is not None:
            self._play.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._play
        self.turn = None

    def _replied(self) -> asyncio.Future[Reply]:
        if self.turn is None:
            raise SessionError("no turn waits for a reply: the episode has not begun, or has ended")
        return self._player.waiting.pop(self.turn.number)

    async def _next(self) -> Turn | None:
        turn = await self._player.asked.get()
        # Of turns that were asked at once, some may still wait when one of them has ended the episode.
        self.turn = turn if self.record is None else None
        return self.turn

    async def _played(self) -> None:
        try:
            self.record = await play_conversation(self._suite, self._conversation)
        except (Exception, SystemExit) as error:  # a suite may be anybody's
            self.record = Record.of_defect(self.episode, error)
        finally:
            self._player.asked.put_nowait(None)


class _Waiting:
    """A player whose replies come from outside. Turns that a suite asks at once are answered in their order."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Turn | None] = asyncio.Queue()
        self.waiting: dict[int, asyncio.Future[Reply]] = {}

    async def reply(self, turn: Turn) -> Reply:
        replied: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.waiting[turn.number] = replied
        self.asked.put_nowait(turn)
        return await replied


class BlockingLoop:
    """An event loop for code that is not asynchronous, also where another one runs already, as in notebooks."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine."""
        # Not Runner.run, which puts up a signal handler each time: that takes longer than most steps of a game.
        return _beside_loops(lambda: self._runner.get_loop().run_until_complete(coroutine))

    def close(self, last: Coroutine[Any, Any, object]) -> None:
        """Wait for a last coroutine and end the loop; nothing happens if it has ended."""
        if self._closed:
            last.close()
            return
        self._closed = True
        self.run(last)
        _beside_loops(self._runner.close)


def _beside_loops(call: Callable[[], T]) -> T:
    """Call a function that runs an event loop: where one runs already in another thread, as a thread can run only one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


class BlockingSession:
    """A session for code that is not asynchronous, with an event loop of its own."""

    def __init__(self, suite: Suite, episode: Episode) -> None:
        """As ``Session``."""
        self._session = Session(suite, episode)
        self._loop = BlockingLoop()

    @property
    def turn(self) -> Turn | None:
        """What was asked last and waits for its reply."""
        return self._session.turn

    @property
    def record(self) -> Record | None:
        """How the episode ended; None while it is played."""
        return self._session.record

    def begin(self) -> Turn | None:
        """As ``Session.begin``."""
        return self._loop.run(self._session.begin())

    def answer(self, reply: Reply) -> Turn | None:
        """As ``Session.answer``."""
        return self._loop.run(self._session.answer(reply))

    def close(self) -> None:
        """As ``Session.close``; also ends the event loop."""
        self._loop.close(self._session.close())


def text_reply(turn: Turn, text: str) -> Reply:
    """A text as the reply to a turn, as every program can give one.

    Raises:
        PlayerError: the turn asks for one of its labels, and the text is none of them.
    """
    if not turn.labels:
        return Reply(text)
    label = text.strip()
    if label not in turn.labels:
        raise PlayerError(f"this turn is answered with one of {', '.join(turn.labels)}")
    return Reply(label, label_scores=certain(turn.labels, label))
