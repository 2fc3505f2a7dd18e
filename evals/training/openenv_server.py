"""Any suite as an OpenEnv environment: ``raycade environment openenv kumo domains=[medical]`` serves it.

Each WebSocket is a session of its own. ``reset(seed=...)`` begins the stream of games of the seed, ``reset()`` the next
game; ``step({"text": ...})`` replies.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection
from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_app
from pydantic import Field

from evals.chat_json import chat_to_json
from evals.conversation import Record
from evals.serving import KnownHosts
from evals.sessions.session import BlockingLoop
from evals.training.games import TrainingGames
from evals.training.play import Step, TrainingPlay, ending_of
from evals.types import Turn


class TextAction(Action):
    """A reply as a model writes it."""

    text: str = Field(description="The reply to the last message.")


class TurnObservation(Observation):
    """What is asked; in the end nothing, and ``metadata`` says how the game went."""

    messages: list[dict[str, Any]] = Field(
        default_factory=list,
        description="The chat so far as OpenAI's chat completions have it, pictures as PNG data URLs.",
    )
    options: list[str] = Field(default_factory=list, description="Replies that are possible; empty for any text.")


class SuiteEnvironment(Environment[TextAction, TurnObservation, State]):
    """One session with the games of a suite."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, games: TrainingGames, seed: int, finished: Callable[[Record], None] | None = None) -> None:
        """No game has begun.

        Args:
            games: Shared by all sessions.
            seed: Of the stream of games where a client gives none.
            finished: Is told how each game ended.
        """
        super().__init__()
        self._play = TrainingPlay(games, seed)
        self._finished = finished
        self._state = State()
        self._alone = BlockingLoop()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> TurnObservation:
        """Begin the next game; with a seed the first one of its stream."""
        self._loop = asyncio.get_running_loop()
        if seed is not None:
            self._play.restart(seed)
        turn = await self._play.begin()
        self._state = State(episode_id=episode_id or turn.episode.id, step_count=0)
        return _observation(turn)

    async def step_async(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TurnObservation:
        """Reply to the turn."""
        step = await self._play.answer(action.text)
        self._state.step_count += 1
        if step.record is not None and self._finished is not None:
            self._finished(step.record)
        return _observation(step.turn, step)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> TurnObservation:
        """As ``reset_async``, for whoever uses the environment without its server."""
        return self._alone.run(self.reset_async(seed, episode_id))

    def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TurnObservation:
        """As ``step_async``, likewise."""
        return self._alone.run(self.step_async(action))

    @property
    def state(self) -> State:
        """The game's id, and how many replies there were."""
        return self._state

    def close(self) -> None:
        """Give up the game that is being played."""
        if self._loop is not None and self._loop.is_running():  # the server calls this from a thread
            asyncio.run_coroutine_threadsafe(self._play.close(), self._loop)
        else:
            self._alone.close(self._play.close())


def app_of(
    games: TrainingGames,
    sessions: int = 64,
    finished: Callable[[Record], None] | None = None,
    hosts: Collection[str] | None = None,
) -> Any:
    """The server as an ASGI application.

    Args:
        games: What is played.
        sessions: At the same time, most.
        finished: As of ``SuiteEnvironment``.
        hosts: Names by which it may be addressed, beside IP addresses; None takes any.
    """
    seeds = itertools.count()

    def environment() -> SuiteEnvironment:
        return SuiteEnvironment(games, next(seeds), finished)

    app = create_app(environment, TextAction, TurnObservation, env_name=games.suite.name, max_concurrent_envs=sessions)
    if hosts is not None:
        app.add_middleware(KnownHosts, hosts=hosts)
    return app


def _observation(turn: Turn | None, step: Step | None = None) -> TurnObservation:
    if turn is None:
        assert step is not None
        return TurnObservation(done=True, reward=step.reward, metadata=ending_of(step))
    episode = turn.episode
    return TurnObservation(
        messages=chat_to_json(turn.chat),
        options=[*(turn.options or turn.labels)],
        reward=None if step is None else step.reward,
        metadata={"task": episode.task, "level": episode.level, "mode": episode.mode},
    )
