"""Any suite as a verifiers environment: ``vf-eval raycade --env.taskset.suite kumo --model ...``.

The harness plays the game in this process and asks the model through verifiers' endpoint, with the very chat of each turn,
pictures included. So rollouts have the prompts of an evaluation, whether a suite's chat grows or begins anew with each turn.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import verifiers.v1 as vf
from pydantic import Field

from evals.chat_json import chat_to_json
from evals.sessions.session import BlockingLoop
from evals.training.games import TrainingGames
from evals.training.play import TrainingError, TrainingPlay, ending_of, text_of


class GameData(vf.TaskData):
    """Which game: place ``place`` of block ``block``."""

    suite: str
    settings: dict[str, Any]
    block: int
    place: int


class GameTask(vf.Task[GameData]):
    """One game; its reward is what the harness was given for its replies."""


class GamesConfig(vf.TasksetConfig):
    """The settings of the taskset."""

    suite: str = ""
    """Registered name."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Of the suite and of ``evals.training.games.Options``, such as ``{"domains": ["medical"], "reward": "regret"}``."""
    first_block: int = 0
    """Where the endless row of games begins."""


class RaycadeTaskset(vf.Taskset[GameTask, GamesConfig]):
    """The games to train on, without end."""

    INFINITE = True

    def load(self) -> Iterator[GameTask]:
        """Games in blocks; those of the evaluation are left out."""
        config = self.config
        games = games_of(config.suite, json.dumps(config.settings, sort_keys=True))
        play, loop = TrainingPlay(games), BlockingLoop()
        for block in itertools.count(config.first_block):
            suite, episodes = games.block(block)
            for place, episode in enumerate(episodes):
                turn = loop.run(play.begin_with(suite, episode))
                if turn is None:
                    continue
                loop.run(play.close())
                name = f"{episode.task} {episode.level} {block}/{place}"
                data = GameData(
                    name=name,
                    prompt=text_of(turn.chat),  # for people; the harness asks with the chat itself
                    suite=config.suite,
                    settings=config.settings,
                    block=block,
                    place=place,
                )
                yield GameTask(data, config.task)


class RaycadeHarnessConfig(vf.HarnessConfig):
    """It has no settings of its own."""


class RaycadeHarness(vf.Harness[RaycadeHarnessConfig]):
    """Plays a game of ``RaycadeTaskset`` with the model behind verifiers' endpoint."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    APPENDS_SYSTEM_PROMPT = True

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: GameData,
    ) -> vf.ProgramResult:
        """Play the game to its end, or until verifiers stops the rollout."""
        games = games_of(data.suite, json.dumps(data.settings, sort_keys=True))
        suite, episodes = games.block(data.block)
        play = TrainingPlay(games)
        turn = await play.begin_with(suite, episodes[data.place])
        if turn is None:
            raise TrainingError(f"{data.name}: is not to be trained on")
        rewards: list[float] = []
        step = None
        try:
            async with httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=None) as client:
                while turn is not None:
                    request = {"model": ctx.model, "messages": chat_to_json(turn.chat)}
                    response = await client.post(f"{endpoint}/chat/completions", json=request)
                    if trace.stop_condition is not None:  # a limit of the rollout, say
                        break
                    response.raise_for_status()
                    said = response.json()["choices"][0]["message"]
                    step = await play.answer(said.get("content") or "")
                    rewards.append(step.reward)
                    turn = step.turn
        finally:  # an endpoint that fails leaves no game behind
            await play.close()
        trace.record_reward(games.options.reward, sum(rewards))
        trace.info["turn_rewards"] = rewards
        if step is not None and step.record is not None:
            ending = ending_of(step)
            trace.info["game"] = ending
            trace.record_metrics({"success": ending["success"], "steps": ending["steps"]})
        return vf.ProgramResult(0, "", "")


class RaycadeEnvConfig(vf.EnvConfig):
    """One agent; nothing that it says is executed, so it needs no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class RaycadeEnv(vf.Env[RaycadeEnvConfig]):
    """One game with one agent."""

    async def run(self, task: GameTask, agents: vf.Agents) -> None:
        """Let the harness play."""
        await agents.agent.run(task)


@functools.lru_cache(maxsize=16)
def games_of(suite: str, settings: str) -> TrainingGames:
    """The games of a suite with settings as JSON, made once for all rollouts of this process."""
    return TrainingGames(suite, **json.loads(settings))
