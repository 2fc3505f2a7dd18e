"""All settings of a presentation in one value."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, Literal

from envs.picture import Detail
from evals.presentation.history import History
from evals.presentation.pictures import Modality

PastPictures = Literal["kept", "text"]
PastReasoning = Literal["kept", "dropped"]
OptionOrder = Literal["listed", "shuffled"]
Feedback = Literal["none", "legal", "changed", "reward"]

VERSION: Final = 1
"""Raised whenever the same presentation would tell a game in other words; part of the ids of all but the defaults."""


@dataclass(frozen=True)
class Presentation:
    """How a game is told.

    Attributes:
        modality: What stands where a picture belongs.
        detail: How pictures are told in words.
        history: How many earlier turns are shown; ``published`` stands for what a suite's paper shows.
        past_pictures: Whether pictures of earlier turns are shown, or told in words.
        past_reasoning: Whether earlier answers stand with the reasoning that led to them.
        feedback: What is said of the latest action; empty for nothing.
        option_order: In which order options stand.
        tell_budget: Whether the number of steps that a game allows is told.
        list_actions: Whether the actions offered are listed.
    """

    modality: Modality = "picture"
    detail: Detail = "grid"
    history: History | Literal["published"] = "all"
    past_pictures: PastPictures = "kept"
    past_reasoning: PastReasoning = "kept"
    feedback: tuple[Feedback, ...] = ()
    option_order: OptionOrder = "listed"
    tell_budget: bool = True
    list_actions: bool = True

    def changes(self, default: Presentation) -> dict[str, Any]:
        """What differs from a suite's default, by the name of the setting."""
        own, others = (dataclasses.asdict(one) for one in (self, default))
        return {name: value for name, value in own.items() if value != others[name]}

    def identity(self, default: Presentation) -> tuple[object, ...]:
        """What an episode's fingerprint holds of it: nothing where it is the suite's default."""
        changed = self.changes(default)
        return (("presentation", VERSION, changed),) if changed else ()


def in_words(changed: dict[str, Any]) -> str:
    """Changed settings as one phrase, for notes beside published figures; empty where there are none.

    >>> in_words({"modality": "text", "tell_budget": False})
    'modality text, tell_budget false'
    """
    said = []
    for name, value in changed.items():
        shown = "+".join(value) if isinstance(value, tuple) else str(value)
        said.append(f"{name} {shown.lower() if isinstance(value, bool) else shown}")
    return ", ".join(said)
