"""Playing a task: a plain game for evaluations, and the same game as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded

from envs.kumo.domain import Observation
from envs.kumo.task import Task

BUDGET = 50
"""Steps after which the published evaluation stops a game."""


class Game:
    """One game of a task: take tests, then name a truth, once.

    Attributes:
        task: what is played.
        taken: the tests taken so far, in order, repeats included.
        named: the truth that was named, or None as long as the game is open.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.taken: list[str] = []
        self.named: str | None = None

    @property
    def steps(self) -> int:
        """Tests taken (repeats included), and the naming of a truth."""
        return len(self.taken) + (self.named is not None)

    @property
    def observed(self) -> Mapping[str, Observation]:
        """What each test taken has shown, in the order of first taking."""
        task = self.task
        return {name: task.observations[task.position(name)] for name in dict.fromkeys(self.taken)}

    @property
    def survivors(self) -> tuple[str, ...]:
        """The truths that nothing shown so far rules out; players are not told."""
        return self.task.survivors(self.observed)

    def test(self, name: str) -> str:
        """Take a test and return what it shows; taking it again shows the same and costs another step.

        Raises:
            KeyError: the task has no such test.
            ValueError: the game is over.
        """
        text = self.task.observation_text(name)
        self._require_open()
        self.taken.append(name)
        return text

    def predict(self, name: str) -> bool:
        """Name a truth, which ends the game; whether it is the valid one.

        Raises:
            KeyError: the task has no such truth.
            ValueError: the game is over.
        """
        if name not in self.task.truths:
            raise KeyError(f"{name!r} is not a truth of this task: {', '.join(self.task.truths)}")
        self._require_open()
        self.named = name
        return self.won

    @property
    def won(self) -> bool:
        """Whether the valid truth has been named, or any of several."""
        return self.named in self.task.winning_truths

    def _require_open(self) -> None:
        if self.named is not None:
            raise ValueError(f"the game is over: {self.named!r} has been named")


class KumoEnv(gymnasium.Env[dict[str, Any], np.int64]):
    """KUMO with A actions and T truths per task, each action with at most S outcomes.

    Action: an index into the task's actions (0 to A-1: take this test) and then its truths (A to A+T-1: name this one).

    Observation, a dictionary:

    - ``rules_out`` (A, S, T), 0 or 1: whether an outcome rules out a truth; what the knowledge book says.
    - ``outcome`` (A,), 0 to S: 0 for a test not taken, else 1 plus the outcome that it showed.
    - ``number`` (A,): the number that a test showed; 0 if not taken or if outcomes are names.

    Reward: 1 for naming the valid truth, else 0. The episode terminates when a truth is named and is truncated after
    ``budget`` steps. ``info`` holds the ``task`` and the ``text`` of what the last step showed.

    Args:
        tasks: all with the same numbers of truths and actions. ``reset(options={"index": i})`` plays the i-th; without an
            index the environment's seeded generator draws one.
        budget: most steps per episode.
        render_mode: ``"ansi"`` or None.

    Raises:
        ValueError: no tasks, or tasks of different sizes.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, tasks: Sequence[Task], budget: int = BUDGET, render_mode: str | None = None) -> None:
        sizes = {(len(task.truths), len(task.actions)) for task in tasks}
        if len(sizes) != 1:
            raise ValueError(f"tasks of one size are needed, not {sorted(sizes) or 'none'}")
        ((self._truths, self._actions),) = sizes
        self._states = max(len(action.states) for task in tasks for action in task.actions)
        self.tasks, self.budget, self.render_mode = tuple(tasks), budget, render_mode
        self.action_space = spaces.Discrete(self._actions + self._truths)
        self.observation_space = spaces.Dict(
            {
                "rules_out": spaces.MultiBinary((self._actions, self._states, self._truths)),
                "outcome": spaces.MultiDiscrete([self._states + 1] * self._actions),
                "number": spaces.Box(-np.inf, np.inf, (self._actions,), np.float64),
            }
        )
        self.game = Game(self.tasks[0])
        self._playing = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin a game; see the class for ``options``."""
        super().reset(seed=seed)
        index = (options or {}).get("index")
        if index is None:
            index = int(self.np_random.integers(len(self.tasks)))
        self.game = Game(self.tasks[index])
        self._playing = True
        return self._observation(), {"task": self.game.task, "text": ""}

    def step(self, action: np.int64) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take a test or name a truth.

        Raises:
            gymnasium.error.ResetNeeded: no episode has begun, or it is over.
            gymnasium.error.InvalidAction: no such test or truth.
        """
        task = self.game.task
        index = int(action)
        if not self._playing:
            raise ResetNeeded("no episode is being played: call reset() first")
        if not 0 <= index < self._actions + self._truths:
            raise InvalidAction(f"no action {index}: there are 0 to {self._actions + self._truths - 1}")
        if index < self._actions:
            text = self.game.test(task.action_names[index])
        else:
            self.game.predict(task.truths[index - self._actions])
            text = "right" if self.game.won else "wrong"
        over = self.game.named is not None
        truncated = not over and self.game.steps >= self.budget
        self._playing = not over and not truncated
        reward = float(self.game.won)
        return self._observation(), reward, over, truncated, {"task": task, "text": text}

    def render(self) -> str | None:  # type: ignore[override]
        """The game so far as text, one line per test taken."""
        if self.render_mode is None:
            return None
        task = self.game.task
        lines = [f"Truths: {', '.join(task.truths)}", f"Actions: {', '.join(task.action_names)}"]
        lines += [f"{name}: {task.observation_text(name)}" for name in self.game.taken]
        return "\n".join(lines + ([f"Named: {self.game.named}"] if self.game.named else []))

    def _observation(self) -> dict[str, Any]:
        task, observed = self.game.task, self.game.observed
        rules_out = np.zeros((self._actions, self._states, self._truths), np.int8)
        outcome, number = np.zeros(self._actions, np.int64), np.zeros(self._actions)
        for place, action in enumerate(task.actions):
            for rank, state in enumerate(action.states):
                rules_out[place, rank] = [truth in state.rules_out for truth in task.truths]
            if action.name not in observed:
                continue
            shown = observed[action.name]
            outcome[place] = 1 + action.states.index(action.state_of(shown))
            # Outcomes that are names have no number.
            if not isinstance(shown, str):
                number[place] = shown
        return {"rules_out": rules_out, "outcome": outcome, "number": number}
