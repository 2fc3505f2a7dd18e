"""Any suite as a Gymnasium environment: what a turn says as text, what it shows as picture, its options as actions."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from envs import plugins
from envs.picture import Picture
from envs.settings import Count, check_arguments, check_keys
from evals.sessions.session import BlockingLoop
from evals.training.games import SUITES, EvaluationGames, TrainingGames, training_keys
from evals.training.gymnasium_text import AnyText
from evals.training.play import TrainingPlay, ending_of, text_of
from evals.types import Turn


class SuiteEnv(gymnasium.Env[dict[str, Any], Any]):
    """The games of a suite (``evals.training.games``).

    Action: with ``action_form="option"`` the index of one of the turn's options; an index that ``action_mask`` does not allow
    is an empty reply, which no suite reads as an action. With ``"text"`` the reply itself.

    Observation, a dictionary:

    - ``text``: the chat so far, with ``[picture]`` where one stands.
    - ``picture`` (height, width, 3), uint8: the last picture of the chat, if the suite shows any and ``pictures`` is true;
      pictures smaller than the largest first one are padded with black.
    - ``action_mask`` (options,), int8: 1 for each option that there is; as ``action_space.sample`` takes it.

    Reward: as ``evals.training.reward`` has it. A game ends by ``terminated`` only: its budget of steps is part of its rules.

    Info: ``chat`` (``evals.types.Chat``, every picture as a value), ``options``, ``action_mask``, ``game`` (task, level, mode,
    and seed); at the end ``success``, ``credit``, ``steps`` and ``error``.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 2}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(
        self,
        suite: str,
        *,
        action_form: Literal["option", "text"] = "option",
        most_options: Count = 64,
        most_bytes: Count = 65536,
        pictures: bool = True,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """No game has begun.

        Args:
            suite: Its registered name.
            action_form: Whether actions are options by number, or texts.
            most_options: Size of the action space.
            most_bytes: Length of the longest text in UTF-8.
            pictures: Whether pictures are observed; drawing them takes most of a step's time.
            render_mode: ``"ansi"`` shows the chat.
            settings: Of the suite and of ``evals.training.games.Options``.

        Raises:
            ValueError: a setting is unknown or out of bounds.
        """
        own = {"action_form": action_form, "most_options": most_options, "most_bytes": most_bytes}
        check_arguments("environment", SuiteEnv, {**own, "pictures": pictures}, ("suite", "render_mode", "settings"))
        check_keys(suite, {*training_keys(suite), *own, "pictures"}, settings)
        self.render_mode = render_mode
        self._by_option, self._most_options, self._most_bytes = action_form == "option", most_options, most_bytes
        self._games = TrainingGames(suite, **settings)
        self._play = TrainingPlay(self._games)
        self._loop = BlockingLoop()
        self._picture_shape = self._largest_picture() if pictures and self._games.suite.needs.pictures else None
        parts: dict[str, spaces.Space[Any]] = {"text": AnyText(most_bytes)}
        if self._picture_shape:
            parts["picture"] = spaces.Box(0, 255, self._picture_shape, np.uint8)
        if self._by_option:
            parts["action_mask"] = spaces.Box(0, 1, (most_options,), np.int8)
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Discrete(most_options) if self._by_option else AnyText(most_bytes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the next game; with a seed the first one of the stream that belongs to it.

        Raises:
            TrainingError: there are no games to train on.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._play.restart(seed)
        turn = self._loop.run(self._play.begin())
        return self._observation(turn), self._info(turn)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Reply to the turn.

        Raises:
            gymnasium.error.ResetNeeded: no game is being played.
        """
        turn = self._play.turn
        if turn is None:
            raise ResetNeeded("no game is being played: call reset() first")
        reply = str(action)
        if self._by_option:
            offered = turn.options or turn.labels
            reply = offered[int(action)] if 0 <= int(action) < len(offered) else ""
        step = self._loop.run(self._play.answer(reply))
        info = {**self._info(step.turn), **ending_of(step)}
        return self._observation(step.turn), step.reward, step.turn is None, False, info

    def render(self) -> str | None:  # type: ignore[override]
        """The chat of the turn that waits for its reply."""
        turn = self._play.turn
        return None if self.render_mode is None or turn is None else text_of(turn.chat)

    def close(self) -> None:
        """Give up the game that is being played."""
        self._loop.close(self._play.close())

    def _observation(self, turn: Turn | None) -> dict[str, Any]:
        observation: dict[str, Any] = {"text": self._text(turn)}
        if self._picture_shape:
            observation["picture"] = self._picture(turn)
        if self._by_option:
            observation["action_mask"] = self._mask(turn)
        return observation

    def _text(self, turn: Turn | None) -> str:
        if turn is None:
            return ""
        # What a suite says may be no valid Unicode; a space of texts holds no other.
        content = text_of(turn.chat).encode(errors="replace")
        length = len(content)
        if length > self._most_bytes:
            raise ValueError(f"most_bytes={self._most_bytes}: a chat has {length:,}; set more")
        return content.decode()

    def _picture(self, turn: Turn | None) -> NDArray[np.uint8]:
        assert self._picture_shape is not None
        canvas = np.zeros(self._picture_shape, np.uint8)
        shown = _pictures(turn)
        if shown:
            pixels = shown[-1].render()
            height, width = pixels.shape[:2]
            if height > canvas.shape[0] or width > canvas.shape[1]:
                raise ValueError(f"a picture of {width}x{height} pixels is larger than any first one: {canvas.shape}")
            canvas[:height, :width] = pixels
        return canvas

    def _mask(self, turn: Turn | None) -> NDArray[np.int8]:
        mask = np.zeros(self._most_options, np.int8)
        if turn is not None:
            offered = turn.options or turn.labels
            if not offered:
                raise ValueError(f"{turn.episode.suite}: a turn offers no options; set action_form='text'")
            if len(offered) > self._most_options:
                raise ValueError(f"most_options={self._most_options}: a turn offers {len(offered):,}; set more")
            mask[: len(offered)] = 1
        return mask

    def _info(self, turn: Turn | None) -> dict[str, Any]:
        if turn is None:
            return {}
        episode = turn.episode
        info: dict[str, Any] = {"chat": turn.chat, "options": turn.options or turn.labels}
        if self._by_option:
            info["action_mask"] = self._mask(turn)
        info["game"] = {"task": episode.task, "level": episode.level, "mode": episode.mode, "seed": episode.seed}
        return info

    def _largest_picture(self) -> tuple[int, int, int]:
        """Height and width that hold the first pictures of all kinds of games, and three colors."""
        height = width = 1
        for turn in self._loop.run(EvaluationGames(self._games.suite).first_turns()):
            for picture in _pictures(turn):
                wide, high = picture.size
                height, width = max(height, high), max(width, wide)
        return height, width, 3


def _pictures(turn: Turn | None) -> list[Picture]:
    if turn is None:
        return []
    return [part for message in turn.chat for part in message.parts if isinstance(part, Picture)]


def register_suites() -> None:
    """Register each suite, of installed packages and plugin folders, as ``raycade/CLASS-v0``; none is imported.

    May be called again for a plugin folder that was added later. Where two suites have one class name, the later one
    takes the place of the other, with a warning of Gymnasium.
    """
    for name, place in plugins.registered(SUITES).items():
        class_name = place.rpartition(":")[2].removesuffix("Suite")
        id, arguments = f"raycade/{class_name}-v0", {"suite": name}
        known = gymnasium.registry.get(id)
        if known is None or known.kwargs != arguments:
            gymnasium.register(id=id, entry_point="evals.training.gymnasium_env:SuiteEnv", kwargs=arguments)
