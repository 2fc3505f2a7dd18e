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
- ``Presentation`` changes any of this (docs/presentation.md). With a history, tasks without memory are a growing chat, too.
- Modes: ``zero_shot`` wants the letter alone; ``cot`` reasoning before it; ``icl`` the letter alone, after an example with all
  its pictures, actions and reasons.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from envs.kidgym import Action, World
from envs.picture import Picture
from evals.presentation import Presentation, Value, told
from evals.suites.kidgym.feedback import Acted, feedback
from evals.suites.kidgym.offer import form_of, forms_ahead, in_order
from evals.suites.kidgym.past import past_of
from evals.suites.kidgym.presentation import DEFAULT, FORMS, answer_form, rules_text, shown_history, view_text
from evals.suites.kidgym.templates import Templates
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
    offered: tuple[Action, ...] = ()
    """What ``actions`` are the words of, in a game of ours."""
    forms: tuple[str, ...] = ()
    """Of all actions that the game may offer, where they are not listed."""


class Dialogue:
    """The chat of one episode as it grows."""

    def __init__(
        self,
        templates: Templates,
        mode: Mode,
        memory: bool,
        example: tuple[Part, ...] = (),
        presentation: Presentation = DEFAULT,
    ) -> None:
        """Begin; ``example`` is what in-context learning shows first."""
        self.presentation = presentation
        self._templates, self._example, self._mode = templates, example, mode
        view = view_text(presentation, templates.text("view_memory" if memory else "view"))
        self._rules = rules_text(presentation, templates.text("rules", view=view))
        beginning = [*example, "\n\n"] if example else []
        history = shown_history(presentation, memory)
        self._past = past_of(presentation, history, message("system", self._rules), beginning)
        self._memory = memory
        self._seen: tuple[Picture, ...] = ()
        """Pictures of earlier steps, for a user's ``chat.yaml``."""
        self._feedback = ""
        self._forms: dict[str, None] = {}

    def moment(self, world: World) -> Moment:
        """The present step of a game, in the words of these templates."""
        wording, shown = self._templates.wording, self.presentation
        offered = in_order(world, shown.option_order)
        texts = tuple(wording.action(world, action) for action in offered)
        if not shown.list_actions:
            # Looked ahead for once only: later on, fewer forms would tell that the game is lost.
            self._forms = self._forms or dict.fromkeys(forms_ahead(world))
            self._forms |= dict.fromkeys(map(form_of, world.actions))
        goal = wording.goal(world)
        return Moment(goal, texts, world.frame, world.steps + 1, world.budget, offered, tuple(self._forms))

    def choices(self, moment: Moment) -> tuple[str, ...]:
        """What a player may reply: the letters of the actions, or their texts where they are not listed."""
        return letters_of(moment.actions) if self.presentation.list_actions else moment.actions

    def question(self, moment: Moment) -> Chat:
        """The chat that asks for the next action."""
        fields = self._fields(moment)
        if self._templates.chat:
            shown = self.presentation
            chat = self._templates.asked_afresh(
                {**fields, "rules": self._rules, "example": self._example}, (*self._seen, moment.frame)
            )
            return tuple(Message(said.role, told(said.parts, shown.modality, shown.detail)) for said in chat)
        return self._past.asking([*self._opening(), *self._templates.fill("step", **fields)])

    def forced(self, moment: Moment) -> None:
        """Note a step that offers a single action, before it is taken."""
        self._seen += (moment.frame,) if self._memory else ()
        step = self._templates.fill(
            "forced",
            goal=moment.goal,
            frame=moment.frame,
            action=moment.actions[0],
            step=str(moment.step),
            budget=str(moment.budget),
        )
        self._past.forced([*self._opening(), *step])

    def answered(self, moment: Moment, choice: str, reply: str, reasoning: str = "") -> None:
        """Note the answer to the latest question: what was chosen, what was written, and what was thought before it."""
        self._seen += (moment.frame,) if self._memory else ()
        text = self._templates.text("answered", letter=choice)
        if self.presentation.past_reasoning == "kept":
            # Without tags: templates of models that reason take out what stands between them.
            text, reasoning = "\n\n".join(said for said in (reasoning, reply) if said), ""
        if not self._templates.chat:
            self._past.answered(Message("assistant", (text,), reasoning))

    def acted(self, acted: Acted) -> None:
        """Note what an action did, for the next question."""
        self._feedback = feedback(acted, self.presentation.feedback)

    def _fields(self, moment: Moment) -> dict[str, Value]:
        wording, letters = self._templates.wording, letters_of(moment.actions)
        if self.presentation.list_actions:
            actions = wording.listed(letters, moment.actions)
            form = "answer_cot" if self._mode == "cot" else "answer"
            answer = self._templates.text(form, letters=wording.letters.join(letters))
        else:
            actions = "\n".join([FORMS, *(f"- {form}" for form in moment.forms)])
            answer = answer_form(reasoned=self._mode == "cot")
        return {
            "goal": moment.goal,
            "frame": moment.frame,
            "actions": actions,
            "answer": answer,
            "step": str(moment.step),
            "budget": str(moment.budget),
        }

    def _opening(self) -> tuple[Part, ...]:
        """What stands before a step: feedback on the one before it."""
        return (f"{self._feedback}\n\n",) if self._feedback else ()
