"""Any suite as a resources server of NeMo Gym, for its ``gymnasium_agent``; ``raycade environment nemo-gym`` writes the files.

The first prompt stands in the row of the data set, pictures included; the agent adds each reply, and the server says the next
message as text. So chats are those of an evaluation as long as they grow by texts (KUMO, one-question games of MultiStAR).
"""

from __future__ import annotations

import functools
import json
from typing import Any

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from pydantic import Field
from resources_servers.gymnasium import GymnasiumServer, extract_text

from evals.training.games import TrainingGames
from evals.training.nemo_gym_files import new_text
from evals.training.play import TrainingError, TrainingPlay, ending_of


class SuiteServerConfig(BaseResourcesServerConfig):
    """Which games."""

    suite: str
    """Registered name."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Of the suite and of ``evals.training.games.Options``."""


class SuiteServer(GymnasiumServer):
    """Plays the game that a row names (``game``: block and place)."""

    config: SuiteServerConfig

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> tuple[str | None, dict[str, Any]]:
        """Begin the row's game; its first prompt stands in the row."""
        games = _games(self.config.suite, json.dumps(self.config.settings, sort_keys=True))
        suite, episodes = games.block(int(metadata["game"]["block"]))
        play = TrainingPlay(games)
        if await play.begin_with(suite, episodes[int(metadata["game"]["place"])]) is None:
            raise TrainingError(f"{metadata['game']}: this game is not to be trained on")
        self.session_state[session_id] = play
        return None, {}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Reply to the turn."""
        play: TrainingPlay = self.session_state[session_id]
        assert play.turn is not None
        before = play.turn.chat
        step = await play.answer(extract_text(action))
        if step.turn is None:
            return None, step.reward, True, False, ending_of(step)
        return new_text(before, step.turn.chat), step.reward, False, False, {}

    async def close_session(self, session_id: str | None) -> None:
        """Give up the session's game."""
        play = self.session_state.pop(session_id, None)
        if play is not None:
            await play.close()


@functools.lru_cache(maxsize=4)
def _games(suite: str, settings: str) -> TrainingGames:
    return TrainingGames(suite, **json.loads(settings))
