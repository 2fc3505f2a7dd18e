"""One game of KidGym as a conversation, and perfect play beside it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pyarrow as pa

from envs.kidgym import Action, World, solve
from evals.conversation import Conversation
from evals.kidgym.decode import decode
from evals.kidgym.prompts import Dialogue, letters_of
from evals.suite import Column
from evals.types import Outcome

COLUMNS: Mapping[str, Column] = {
    "invalid": Column(pa.bool_(), "Whether a reply that names no action ended the episode."),
    "terminated": Column(pa.bool_(), "Whether the task was won or lost."),
    "truncated": Column(pa.bool_(), "Whether the budget ran out before that."),
    "refused_steps": Column(pa.int32(), "Steps whose action could not be performed."),
    "forced_steps": Column(pa.int32(), "Steps that offered a single action and were not asked."),
}


class Guide:
    """Perfect play in one world, from wherever the player has led it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[Hashable, Action] = {}

    def letter(self) -> str:
        """The letter of the next action on a shortest way to win, or of the first one if there is no way any more."""
        world = self._world
        if _moment(world) not in self._known:
            here = world.copy()
            for action in solve(world) or ():
                self._known[_moment(here)] = action
                here.take(action)
        best = self._known.get(_moment(world))
        return letters_of(world.actions)[world.ordered.index(best) if best else 0]


def _moment(world: World) -> Hashable:
    return world.steps, world.state(), tuple(world.backpack)


async def play_world(world: World, dialogue: Dialogue, conversation: Conversation) -> Outcome:
    """Play to the end, or to the first reply that names no action (as published).

    Steps that offer a single action are taken without asking.
    """
    guide = Guide(world)
    refused = forced = 0
    invalid = False
    while not world.done:
        index = 0
        if len(world.actions) == 1:
            dialogue.forced(world)
            forced += 1
        else:
            letters, chat = letters_of(world.actions), dialogue.question(world)
            played = await conversation.ask(chat, options=letters, oracle=guide.letter)
            choice = decode(played.reply.text, world.actions)
            played.rule = choice.rule
            if choice.index is None:
                invalid = True
                break
            index = choice.index
            played.action = world.actions[index]
            dialogue.answered(chat, letters[index])
        refused += not world.step(index).accepted
    return Outcome(
        success=world.success,
        steps=world.steps,
        extra={
            "invalid": invalid,
            "terminated": world.terminated,
            "truncated": world.truncated and not invalid,
            "refused_steps": refused,
            "forced_steps": forced,
        },
    )
