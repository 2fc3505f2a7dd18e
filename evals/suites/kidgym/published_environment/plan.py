"""Episodes of the published environment, planned from a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envs.file_picture import FilePicture
from envs.kidgym import TASKS
from evals.suites.kidgym.prompts import Moment
from evals.suites.kidgym.published_environment.recording import (
    PICTURES,
    SUFFIX,
    RecordedGame,
    Recording,
    game_fingerprint,
)
from evals.types import Episode, stable_hash

_SIZE = (576, 576)
"""Pixels of a picture with its hint bar; what only decides an estimate."""


def recorded_games(recording: Recording, task: str, level: int, most: int) -> tuple[RecordedGame, ...]:
    """The first games of a cell.

    Raises:
        ValueError: there are fewer.
    """
    found = recording.games.get((task, level), ())
    if len(found) < most:
        raise ValueError(
            f"suite.recording={recording.folder} holds {len(found)} games of {task} level {level}, not {most}; record more "
            "(--episodes), or set suite.episodes"
        )
    return found[:most]


def planned_games(
    suite: str,
    recording: Recording,
    cell: tuple[str, int, str],
    most: int,
    calls: float,
    fingerprint: str,
    tokens: Callable[[Moment], float],
) -> Iterator[Episode]:
    """One episode per game, those included that cannot be made: they fail with their cause.

    Args:
        suite: Name of the suite that plays them.
        recording: With at least ``most`` games of the task and level.
        cell: Task, level and mode.
        most: Games.
        calls: Expected model calls of one.
        fingerprint: Hash of how games are asked.
        tokens: How many a first question has.
    """
    task, level, mode = cell
    for game in recorded_games(recording, task, level, most):
        yield Episode(
            suite=suite,
            task=task + SUFFIX,
            level=str(level),
            mode=mode,
            index=game.index,
            repeat=0,
            seed=game.seed,
            fingerprint=stable_hash(fingerprint, game_fingerprint(game, recording)),
            budget=game.budget or TASKS[task].budgets[level - 1],
            calls=1.0 if game.error else calls,
            prompt_tokens=0.0 if game.error else calls * tokens(_opening(game, recording)),
        )


def _opening(game: RecordedGame, recording: Recording) -> Moment:
    """What the first question of a game shows."""
    picture = FilePicture(str(recording.folder / PICTURES / f"{game.picture}.png"), game.picture, *_SIZE)
    return Moment(game.goal, game.actions, picture, 1, game.budget)
