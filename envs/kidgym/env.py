"""KidGym worlds as Gymnasium environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envs.kidgym.registry import make
from envs.kidgym.scene import GRID_CELLS
from envs.kidgym.world import World


class KidGymEnv(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """A task at one level; every reset makes a new episode.

    Observation: the rendered frame, uint8, shape (9 cells, 9 cells, 3), RGB; 576x576 at 64 pixels a cell.
    Action: an index into ``info["actions"]``. The space is as large as the longest list of the task's first three levels, or
        26 beyond them; ``info["action_mask"]`` (for ``action_space.sample``) says how much of it is in use, and an index
        beyond that wastes the step.
    Reward: 1 on the step that wins, else 0.
    Info: ``success``; ``actions``, the texts offered now; ``goal``, the task in words; ``steps`` and ``budget``;
        ``accepted``, whether the last action could be performed (absent after a reset); ``frame``, the picture as a value.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(
        self, task: str, level: int, *, cell_pixels: int = 64, skin: str = "", render_mode: str | None = None
    ) -> None:
        self.world: World = make(task, level, 0, cell_pixels=cell_pixels, skin=skin)
        self.render_mode = render_mode
        edge = GRID_CELLS * cell_pixels
        self.observation_space = spaces.Box(0, 255, (edge, edge, 3), np.uint8)
        self.action_space = spaces.Discrete(self.world.max_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin the episode ``make(task, level, seed)``; without a seed, one drawn from ``np_random``."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**62)) if seed is None else seed
        world = self.world
        self.world = make(world.name, world.level, drawn, cell_pixels=world.cell_pixels, skin=world.skin)
        return self.world.frame.render(), self._info()

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take the action with this index.

        Raises:
            ValueError: the episode is over.
        """
        result = self.world.step(int(action))
        info = {**self._info(), "accepted": result.accepted}
        return self.world.frame.render(), float(result.success), result.terminated, result.truncated, info

    def render(self) -> NDArray[np.uint8]:  # type: ignore[override]
        """The current frame once more; looking changes nothing."""
        return self.world.frame.render()

    def _info(self) -> dict[str, Any]:
        actions = () if self.world.done else self.world.actions
        mask = np.zeros(self.world.max_actions, np.int8)
        mask[: len(actions)] = 1
        return {
            "success": self.world.success,
            "actions": actions,
            "action_mask": mask,
            "goal": self.world.goal,
            "steps": self.world.steps,
            "budget": self.world.budget,
            "frame": self.world.frame,
        }
