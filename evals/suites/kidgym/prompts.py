"""What a player of KidGym is told: the paper's structure (appendix B.7) in our own words, which stand in ``templates/``.

The system message holds the rules. A user message holds, in this order, the worked example (mode ``icl``), the goal, the
picture, the lettered actions and the form of the answer: first what stays the same, so that a prefix cache serves it.

- Tasks without memory ask every step afresh, as published: the system message and one user message with the present
  picture. Episodes of a task share all that stands before their goal, steps of an episode all that stands before the picture.
- Memory tasks are one growing chat, so that each question extends the one before it and all its pictures are cached. The
  published harness sends all pictures so far, but not what was answered; a chat has to put something between two user
  messages, and we put the bare letter of the answer there. The reasoning of earlier steps is left out: a player
  remembers by its pictures, as published, not by notes of its own, and prompts have the same length in all modes.
- A step with only one action (``continue``, the last free position, the diamond when all doors are open) is not asked: the
  published harness asks and ignores the reply. In a memory task its picture begins the next user message.
- A user's ``chat.yaml`` replaces all of this: every step is then asked afresh with the messages that it lists, and in memory
  tasks with all pictures so far.
- Modes: ``zero_shot`` wants the letter alone; ``cot`` reasoning before it; ``icl`` the letter alone, after an example with all
  its pictures, actions and reasons.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from envs.kidgym import World
from envs.picture import Picture
from evals.suites.kidgym.templates import Templates, Value, joined
from evals.types import Chat, Message, Part, message

LETTERS: Final = string.ascii_uppercase
"""Letters of the actions (the longest list of the twelve tasks has 16)."""

Mode = Literal["zero_shot", "cot", "icl"]
MODES: Final[tuple[Mode, ...]] = ("zero_shot", "cot", "icl")


def letters_of(actions: Sequence[str]) -> tuple[str, ...]:
    """One letter for each action.

    Raises:
        ValueError: there are more actions than letters.
    """
    if len(actions) > len(LETTERS):
        raise ValueError(f"{len(actions)} actions are offered, but there are letters for {len(LETTERS)} only")
    return tuple(LETTERS[: len(actions)])


@dataclass(frozen=True)
class Moment:
    """A game at one step, as its player is told of it."""

    goal: str
    actions: tuple[str, ...]
    frame: Picture
    step: int
    """From 1."""
    budget: int


class Dialogue:
    """The chat of one episode as it grows."""

    def __init__(self, templates: Templates, mode: Mode, memory: bool, example: tuple[Part, ...] = ()) -> None:
        """Begin; ``example`` is what in-context learning shows first."""
        self._templates, self._memory, self._example = templates, memory, example
        self._answer = "answer_cot" if mode == "cot" else "answer"
        self._rules = templates.text("rules", view=templates.text("view_memory" if memory else "view"))
        self._past: Chat = (message("system", self._rules),)
        self._pending: tuple[Part, ...] = (*example, "\n\n") if example else ()
        self._seen: tuple[Picture, ...] = ()

    def moment(self, world: World) -> Moment:
        """The present step of a game, in the words of these templates."""
        wording = self._templates.wording
        return Moment(wording.goal(world), wording.texts(world), world.frame, world.steps + 1, world.budget)

    def question(self, moment: Moment) -> Chat:
        """The chat that asks for the next action."""
        wording, letters = self._templates.wording, letters_of(moment.actions)
        fields: dict[str, Value] = {
            "goal": moment.goal,
            "frame": moment.frame,
            "actions": wording.listed(letters, moment.actions),
            "answer": self._templates.text(self._answer, letters=wording.letters.join(letters)),
            "step": str(moment.step),
            "budget": str(moment.budget),
        }
        if self._templates.chat:
            return self._templates.asked_afresh(
                {**fields, "rules": self._rules, "example": self._example}, (*self._seen, moment.frame)
            )
        step = self._templates.fill("step", **fields)
        return (*self._past, message("user", *joined([*self._pending, *step])))

    def forced(self, moment: Moment) -> None:
        """Note a step that offers a single action, before it is taken."""
        if self._memory:
            self._seen += (moment.frame,)
            step = self._templates.fill(
                "forced",
                goal=moment.goal,
                frame=moment.frame,
                action=moment.actions[0],
                step=str(moment.step),
                budget=str(moment.budget),
            )
            self._pending = joined([*self._pending, *step, "\n\n"])

    def answered(self, moment: Moment, question: Chat, letter: str, reasoning: str = "") -> None:
        """Note the answer to the latest question, and what was thought before it."""
        if self._memory:
            self._seen += (moment.frame,)
            self._past = (
                *question,
                Message("assistant", (self._templates.text("answered", letter=letter),), reasoning),
            )
            self._pending = ()
