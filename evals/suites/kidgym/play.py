"""One game of KidGym as a conversation, and perfect play beside it."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import pyarrow as pa

from envs.kidgym import Action, World, fewest_steps, solve
from evals.conversation import Conversation
from evals.suite import Column
from evals.suites.kidgym.features import option_features
from evals.suites.kidgym.feedback import Acted
from evals.suites.kidgym.mistakes import BLOCKED, FULL, MISFIT, UNOFFERED, Step, miscount, refusal, slip
from evals.suites.kidgym.prompts import Dialogue, Moment
from evals.suites.kidgym.reading import Decoder
from evals.suites.kidgym.shortcuts import SHORTCUTS, shortcut_action
from evals.suites.kidgym.turn import FORCED, choose
from evals.types import Outcome

COLUMNS: Mapping[str, Column] = {
    "invalid": Column(pa.bool_(), "Whether a reply that names no action ended the episode."),
    "terminated": Column(pa.bool_(), "Whether the task was won or lost."),
    "truncated": Column(pa.bool_(), "Whether the budget ran out before that."),
    "refused_steps": Column(pa.int32(), "Steps whose action could not be performed.", unit="steps", better="lower"),
    "refused_blocked": Column(pa.int32(), "Of these, steps to which no way led.", unit="steps", better="lower"),
    "refused_misfit": Column(
        pa.int32(), "Of these, steps with a key or a basket that did not fit.", unit="steps", better="lower"
    ),
    "refused_full": Column(
        pa.int32(), "Of these, steps for which the backpack had no room.", unit="steps", better="lower"
    ),
    "forced_steps": Column(pa.int32(), "Steps that offered a single action and were not asked.", unit="steps"),
    "lost_step": Column(
        pa.int32(), "The step after which the game could not be won any more, from 1; null if it never came."
    ),
    "mistake": Column(
        pa.string(), "What kind of mistake that step was, or why a reply could not be read; null in won games."
    ),
    "miscount": Column(
        pa.int32(), "CO: declared and in the backpack, less what was asked for; null without a declaration."
    ),
}


class Guide:
    """Perfect play in one world, from wherever the player has led it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[Hashable, Action] = {}

    def action(self) -> Action:
        """The next action on a shortest way to win, or the first one if there is no way any more."""
        world = self._world
        if _moment(world) not in self._known:
            here = world.copy()
            for action in solve(world) or ():
                self._known[_moment(here)] = action
                here.take(action)
        return self._known.get(_moment(world)) or world.ordered[0]


def remaining(world: World, action: str | None = None) -> float:
    """Steps of the shortest way to win, or of the one that begins with an action; infinite if there is none."""
    taken = 0
    if action is not None:
        world = world.copy()
        world.take(offered(world, action))
        taken = 1
        if world.success:
            return taken
    steps = fewest_steps(world)
    return math.inf if steps is None else taken + steps


def offered(world: World, text: str) -> Action | None:
    """The offered action of a text; None, which wastes a step, if there is none."""
    return world.ordered[world.actions.index(text)] if text in world.actions else None


def _moment(world: World) -> Hashable:
    return world.steps, world.state(), tuple(world.backpack)


async def play_world(
    world: World, dialogue: Dialogue, conversation: Conversation, decoder: Decoder = "lenient"
) -> Outcome:
    """Play to the end, or to the first reply that names no action (as published).

    Steps that offer a single action are taken without asking.
    """
    answers = _Answers(world, dialogue)
    shortcuts = {name: functools.partial(answers.shortcut, name) for name in SHORTCUTS}
    feedback = dialogue.presentation.feedback
    opening = world.frame
    steps: list[Step] = []
    forced = 0
    unread = ""
    while not world.done:
        here, moment = world.copy(), dialogue.moment(world)
        answers.moment = moment
        choice = await choose(
            conversation,
            dialogue,
            moment,
            tuple(action.text for action in moment.offered),
            decoder,
            oracle=answers.oracle,
            shortcuts=shortcuts,
            remaining=functools.partial(remaining, here),
            features=functools.partial(option_features, here, moment.offered, opening, tuple(steps)),
        )
        if choice.option is None:
            unread = choice.rule
            break
        forced += choice is FORCED
        step = Step(world.copy(), (*moment.offered, UNOFFERED)[choice.option], accepted=False)
        steps.append(step._replace(accepted=world.take(step.taken).accepted))
        if feedback and not world.done:
            dialogue.acted(_acted(steps[-1], moment, world, "reward" in feedback))
    return Outcome(
        success=world.success,
        steps=world.steps,
        extra={
            "invalid": bool(unread),
            "terminated": world.terminated,
            "truncated": world.truncated and not unread,
            "forced_steps": forced,
            **_mistakes(world, steps, unread),
        },
    )


class _Answers:
    """What players who look at the game itself reply, at the moment that is asked about."""

    moment: Moment

    def __init__(self, world: World, dialogue: Dialogue) -> None:
        self._world, self._dialogue, self._guide = world, dialogue, Guide(world)

    def oracle(self) -> str:
        """Perfect play's reply."""
        return self._to_take(self._guide.action())

    def shortcut(self, name: str) -> str:
        """The reply of a shortcut player."""
        return self._to_take(shortcut_action(name, self._world))

    def _to_take(self, action: Action) -> str:
        return self._dialogue.choices(self.moment)[self.moment.offered.index(action)]


def _acted(step: Step, moment: Moment, after: World, rewarded: bool) -> Acted:
    """What a step did, in the words of the prompt."""
    text = moment.actions[moment.offered.index(step.action)] if step.taken else "one that the game does not offer here"
    left = (remaining(step.world), remaining(after)) if rewarded else (0.0, 0.0)
    return Acted(text, step.accepted, step.world.frame, after.frame, *left)


def _mistakes(world: World, steps: Sequence[Step], unread: str) -> dict[str, object]:
    """The columns that say why a game was lost, and what its player was refused."""
    causes = Counter(refusal(step.world, step.action) for step in steps if not step.accepted)
    lost_step, mistake = None, f"unread reply: {unread}" if unread else None
    lost = None if world.success else slip(steps)
    if lost:
        lost_step, mistake = lost.step, lost.kind
    return {
        "refused_steps": causes.total(),
        "refused_blocked": causes[BLOCKED],
        "refused_misfit": causes[MISFIT],
        "refused_full": causes[FULL],
        "lost_step": lost_step,
        "mistake": mistake,
        "miscount": miscount(world),
    }
