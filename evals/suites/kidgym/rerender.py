"""Playing a stored episode again: every picture is made anew and must be the one that the player was shown."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from envs.kidgym import Frame, World, make
from envs.kidgym.registry import MDE_DECOYS
from envs.picture import Detail
from evals.ledger.records import chat_of
from evals.suites.kidgym.offer import NOT_OFFERED
from evals.suites.kidgym.play import offered
from evals.suites.kidgym.user_tasks import load_user_tasks
from evals.suites.kidgym.variants import task_and_variant
from evals.types import Chat


@dataclass(frozen=True)
class RerenderedStep:
    """One step of a stored episode."""

    frame: Frame
    """What was seen before the step; ``frame.render()`` gives its pixels."""
    actions: tuple[str, ...]
    chosen: str | None
    """The action's text; None where the reply named none, which ended the episode."""
    forced: bool
    """Whether it was the only action and so was not asked."""
    accepted: bool
    """Whether the action could be performed."""
    world: World
    """The game before the step."""


@dataclass(frozen=True)
class RerenderedEpisode:
    """A stored episode, step by step."""

    steps: tuple[RerenderedStep, ...]
    final: Frame
    """What was to be seen after the last step."""
    end: World
    """The game after the last step."""
    success: bool


def rerender_episode(row: Mapping[str, Any]) -> RerenderedEpisode:
    """Play a row of the ledger again, failed ones as far as they got.

    Args:
        row: One row with its ``turns``, as ``table.to_pylist()`` gives it.

    Raises:
        ValueError: the row is not KidGym's, or does not follow from its seed: it was played by another version of the
            game, or edited. The message names the turn.
    """
    if row["suite"] != "kidgym":
        raise ValueError(f"episode {row['episode_id']} is of suite {row['suite']!r}, not of KidGym")
    load_user_tasks()
    for decoys in MDE_DECOYS[1:] if row["task"] == "MDE" else ():
        with contextlib.suppress(ValueError):
            return _rerender(row, decoys)
    return _rerender(row, MDE_DECOYS[0])


def _rerender(row: Mapping[str, Any], mde_decoys: str) -> RerenderedEpisode:
    turns = row["turns"]
    world = _world(row, mde_decoys)
    steps: list[RerenderedStep] = []
    asked = 0
    while not world.done:
        frame, actions = world.frame, world.actions
        forced = len(actions) == 1
        if not forced and asked == len(turns):
            break
        chosen: str | None = actions[0]
        if not forced:
            _compare(row, asked, world)
            chosen = turns[asked]["action"]
            asked += 1
        before = world.copy()
        accepted = chosen is not None and world.take(offered(world, chosen)).accepted
        steps.append(RerenderedStep(frame, actions, chosen, forced, accepted, before))
        if chosen is None:
            break
    if asked < len(turns):
        raise _error(row, asked, "was asked after the game had ended")
    if row["status"] == "done" and (row["success"], row["steps"]) != (world.success, world.steps):
        raise _error(row, asked - 1, f"ends with success {world.success} after {world.steps} steps, not as stored")
    return RerenderedEpisode(tuple(steps), world.frame, world, world.success)


def _world(row: Mapping[str, Any], mde_decoys: str) -> World:
    """The world at its beginning, in the resolution and skin of the first picture that was shown."""
    shown = _frames(chat_of(row["turns"], 0)) if row["turns"] else []
    cell_pixels, skin = (shown[-1].cell_pixels, shown[-1].skin) if shown else (64, "")
    task, variant = task_and_variant(row["task"])
    return make(
        task,
        int(row["level"]),
        row["seed"],
        cell_pixels=cell_pixels,
        skin=skin,
        mde_decoys=mde_decoys,
        variant=variant,
    )


def _compare(row: Mapping[str, Any], number: int, world: World) -> None:
    """Check a stored question against the world: pictures, offered actions, chosen action."""
    turn, chat = row["turns"][number], chat_of(row["turns"], number)
    if not _shows(chat, world.frame):
        raise _error(row, number, "shows other pictures than the game rendered again")
    if len(turn["options"]) != len(world.actions):
        raise _error(
            row, number, f"offers {len(turn['options'])} actions, the game rendered again {len(world.actions)}"
        )
    if turn["action"] is not None and turn["action"] not in world.actions and turn["rule"] != NOT_OFFERED:
        raise _error(row, number, f"chose {turn['action']!r}, which the game rendered again does not offer")


def _shows(chat: Chat, expected: Frame) -> bool:
    """Whether the last picture of a question is the expected one; or, where it has none, whether it is told in words."""
    if shown := _frames(chat):
        return shown[-1] == expected
    asked = "\n".join(part for part in chat[-1].parts if isinstance(part, str))
    return any(expected.twin(detail) in asked for detail in get_args(Detail))


def _frames(chat: Chat) -> list[Frame]:
    return [part for message in chat for part in message.parts if isinstance(part, Frame)]


def _error(row: Mapping[str, Any], number: int, what: str) -> ValueError:
    return ValueError(f"episode {row['episode_id']} cannot be rendered again: turn {number} {what}")
