"""Who plays which episode: sessions by random ids, turns that can be repeated, games that are given back.

Independent of the protocol: the HTTP and the MCP interface call ``open``, ``answer``, ``find`` and ``give_back``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from cluster.engines.api_answer import read_usage
from cluster.serve.limits import LIMITS, Limits
from cluster.serve.taken import Answer
from envs.picture import Picture
from evals.conversation import Record
from evals.sessions.session import Session, text_reply
from evals.suite import Suite
from evals.types import Episode, PlayerError, Reply, Turn

T = TypeVar("T")

WAIT_SECONDS: Final = 20.0
"""How long a client that wants a game waits while all that are left are being played by others; it may ask again."""
KEPT_SECONDS: Final = 600.0
"""How long the end of a game can be asked for again."""
MOST_SESSIONS: Final = 10_000
"""Games at once."""


class RefusedError(Exception):
    """A request that does not fit; ``status`` is what HTTP calls it."""

    def __init__(self, status: int, message: str) -> None:
        """``message`` is for the client's author."""
        super().__init__(message)
        self.status = status


@dataclass
class Game:
    """One session of a client: an episode in play."""

    session: Session
    opened: float
    heard: float
    """When the client last named this session."""
    pictures_by_address: bool = False
    """Whether the client wants addresses of pictures, not the pictures themselves."""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """Random: who does not know it cannot name the session."""
    turns: list[Turn] = field(default_factory=list)
    """All that were asked; the last one waits unless the game is over. A turn's number is its place."""
    answers: list[str] = field(default_factory=list)
    """What was answered so far."""
    pictures: list[Picture] = field(default_factory=list)
    """Those that have an address, which is their place."""
    asked: float = 0.0
    """When the last turn was asked."""
    over: bool = False
    """Whether it has ended and is in the ledger."""
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the game moves on."""

    @property
    def episode(self) -> Episode:
        """What is played."""
        return self.session.episode

    def turn(self, number: int) -> Turn | None:
        """The turn of a number; None where the game ended before, or at this turn without an answer."""
        unanswered = number >= self.waiting
        if number >= len(self.turns) or (self.over and unanswered):
            return None
        return self.turns[number]

    @property
    def waiting(self) -> int:
        """The number of the turn that waits for an answer; behind the last one where the game is over."""
        return len(self.answers)

    def address(self, picture: Picture) -> int:
        """The number under which the client can fetch a picture of this game."""
        if picture not in self.pictures:
            self.pictures.append(picture)
        return self.pictures.index(picture)


class Games:
    """The episodes of a run that programs play."""

    def __init__(
        self,
        suite: Suite,
        todo: Sequence[Episode],
        commit: Callable[[Record], Awaitable[None]],
        limits: Limits = LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is begun.

        Args:
            suite: What is played.
            todo: The episodes that the ledger lacks, in the order of the queue.
            commit: Returns when an episode is in the ledger.
            limits: When a game goes back into the queue.
            clock: In seconds.
        """
        self._places = {episode.id: place for place, episode in enumerate(todo)}
        self._free = {episode.id: episode for episode in todo}
        self._parts = {part.name: part for part in suite.parts}
        self._commit, self._limits, self._clock = commit, limits, clock
        self._games: dict[str, Game] = {}
        self._begun = 0
        """Games that are being played."""
        self._left = Counter[str]()
        """How often each episode was left by its client."""
        self._needed: Collection[str] | None = None
        self._changed = asyncio.Event()
        self._steps: set[asyncio.Task[Any]] = set()
        self.draining = False
        """No game is begun any more."""
        self.finished = 0
        """Games that have ended since this began."""

    # --- what clients do ---

    async def open(self, episode_id: str = "", pictures_by_address: bool = False) -> Game | None:
        """Begin the next game, or a named one.

        Returns:
            None where no game is left to begin now: ``over`` says whether any may come back.

        Raises:
            RefusedError: the named episode is not left to play, or no game may begin.
        """
        is_named = bool(episode_id)
        if not is_named:
            await self._wait_for_one()
        if self.draining:
            raise RefusedError(503, "the run is being stopped; ask again when it is resumed")
        if self._begun >= MOST_SESSIONS:
            raise RefusedError(503, f"{MOST_SESSIONS} games are being played; finish some of them first")
        if is_named:
            episode = self._free.pop(episode_id, None)
            if episode is None:
                raise RefusedError(409, "this episode is not among those left to play (GET /v1/episodes lists them)")
        else:
            if not self._free:
                return None
            next_id = next(iter(self._free))
            episode = self._free.pop(next_id)
        return await self._whole(self._begin(episode, pictures_by_address))

    def find(self, session: str) -> Game:
        """The game of a session.

        Raises:
            RefusedError: there is none of this id.
        """
        game = self._games.get(session)
        if game is None:
            raise RefusedError(
                404, "no such session: it ended long ago, was silent for too long, or the server was started anew"
            )
        game.heard = self._clock()
        return game

    async def answer(self, session: str, number: int, answer: Answer) -> Game:
        """Answer a turn; an answer that is repeated changes nothing.

        Returns:
            The game, whose turn after ``number`` is the client's next one.

        Raises:
            RefusedError: no such turn waits, it was answered otherwise, or the text is none of its labels.
        """
        game = self.find(session)
        await self._whole(self._answered(game, number, answer))
        return game

    async def give_back(self, session: str) -> None:
        """End a game without its end: it is played again, from its beginning.

        Raises:
            RefusedError: there is no such session.
        """
        game = self.find(session)
        await self._whole(self._leave(game, "its client gave it back"))

    # --- what the server does ---

    @property
    def left(self) -> int:
        """Episodes that nobody plays yet."""
        return len(self._free)

    @property
    def playing(self) -> int:
        """Games in play."""
        return self._begun

    @property
    def over(self) -> bool:
        """Whether all is played."""
        return not self._free and not self._begun

    def open_episodes(self, most: int) -> list[Episode]:
        """The next episodes of the queue."""
        return [episode for episode, _ in zip(self._free.values(), range(most), strict=False)]

    def keep(self, needed: Collection[str]) -> None:
        """Drop all episodes but these (ids); those in play may finish."""
        self._needed = needed
        self._free = {name: episode for name, episode in self._free.items() if name in needed}
        self._change()

    def drain(self) -> None:
        """Begin no more games."""
        self.draining = True
        self._change()

    async def sweep(self) -> None:
        """Give back the games whose clients are gone, and forget games that ended long ago."""
        now = self._clock()
        for game in list(self._games.values()):
            silent, played = now - game.heard, now - game.opened
            if game.over:
                if silent > KEPT_SECONDS:
                    del self._games[game.id]
                continue
            # Its client is being answered.
            if game.busy.locked():
                continue
            if silent > self._limits.turn_seconds:
                silence = f"its client was silent for {self._limits.turn_seconds:g} s at turn {game.waiting}"
                await self._whole(self._leave(game, silence))
            elif played > self._limits.episode_seconds:
                await self._whole(self._leave(game, f"it took more than {self._limits.episode_seconds:g} s"))

    # --- steps ---

    async def _whole(self, step: Coroutine[Any, Any, T]) -> T:
        """Let a step come to its end although its client hangs up: half a step would lose the game."""
        task = asyncio.create_task(step)
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)
        return await asyncio.shield(task)

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_for_one(self) -> None:
        """Return when a game can be begun, none ever can, or after ``WAIT_SECONDS``."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not self._free and self._begun and not self.draining:
                    await self._changed.wait()
        except TimeoutError:
            return

    async def _begin(self, episode: Episode, pictures_by_address: bool) -> Game:
        self._begun += 1
        now = self._clock()
        game = Game(Session(self._parts[episode.suite], episode), now, now, pictures_by_address)
        self._games[game.id] = game
        async with game.busy:
            await self._asked(game, await game.session.begin())
        return game

    async def _answered(self, game: Game, number: int, answer: Answer) -> None:
        async with game.busy:
            if number < game.waiting:
                if game.answers[number] != answer.text:
                    raise RefusedError(409, f"turn {number} was answered already, with another text")
                return
            turn = game.session.turn
            if turn is None:
                raise RefusedError(409, "this game is over")
            if number != turn.number:
                raise RefusedError(409, f"turn {number} was not asked; turn {turn.number} waits for its answer")
            try:
                reply = text_reply(turn, answer.text)
            except PlayerError as error:
                raise RefusedError(422, str(error)) from error
            game.answers.append(answer.text)
            complete = _with_usage(reply, answer, self._clock() - game.asked)
            await self._asked(game, await game.session.answer(complete))

    async def _asked(self, game: Game, turn: Turn | None) -> None:
        """Note what is asked next, or that the game has ended; then it is in the ledger."""
        if turn is not None:
            game.turns.append(turn)
            game.asked = game.heard = self._clock()
            return
        record = game.session.record
        assert record is not None
        await self._commit(record)
        game.over = True
        self._begun -= 1
        self.finished += 1
        self._change()

    async def _leave(self, game: Game, why: str) -> None:
        """Put the episode back into the queue; if it was left too often, it has failed."""
        async with game.busy:
            if game.over or self._games.get(game.id) is not game:
                return
            episode = game.episode
            self._left[episode.id] += 1
            if self._left[episode.id] >= self._limits.attempts:
                cause = PlayerError(f"left {self._left[episode.id]} times, the last time because {why}", "endpoint")
                turn = game.session.turn
                while turn is not None:  # a suite may have asked several turns at once
                    turn = await game.session.fail(cause)
                await self._asked(game, None)
                return
            await game.session.close()
            del self._games[game.id]
            self._begun -= 1
            if self._needed is None or episode.id in self._needed:
                self._put_back(episode)
            self._change()

    def _put_back(self, episode: Episode) -> None:
        """Offer an episode in its place again, before those behind it: a stopping rule waits for the first ones."""
        free = [*self._free.values(), episode]
        free.sort(key=lambda each: self._places[each.id])
        self._free = {each.id: each for each in free}


def _with_usage(reply: Reply, answer: Answer, seconds: float) -> Reply:
    """The reply with what the client says about it."""
    usage = read_usage({"usage": answer.usage})
    return dataclasses.replace(
        reply,
        finish=answer.finish,
        prompt_tokens=usage.prompt or 0,
        completion_tokens=usage.completion or 0,
        cached_tokens=usage.cached,
        reasoning_tokens=usage.reasoning,
        reasoning=answer.reasoning,
        cost=answer.cost,
        seconds=seconds,
    )
