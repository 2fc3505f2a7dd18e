"""One episode as plain data: what was shown, replied, decoded and why; for a viewer that needs no suite code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Facts = Mapping[str, Any]
"""Names and JSON values, in the order in which they are to be read."""


@dataclass(frozen=True)
class StepView:
    """One turn of an episode."""

    shown: tuple[Mapping[str, Any], ...]
    """Messages that this turn added: role, and parts that are a text or a picture's description."""
    reply: str
    reasoning: str
    decoded: str | None
    rule: str
    """Name of the rule that read ``decoded`` out of the reply, or of why none could."""
    facts: Facts = field(default_factory=dict)
    """What else the suite knows of the step."""
    best: str | None = None
    """What perfect play would have decided here; None where that is not known."""
    regret: float | None = None
    """What ``decoded`` lost against it, in ``EpisodeView.regret_unit``; None where that is not known."""
    lost: bool = False
    """Whether the game could be won before the step and no longer after it."""
    after: str | None = None
    """Description of a picture of the game after the step."""
    remaining: tuple[str, ...] | None = None
    """Of ``EpisodeView.candidates``, those that are possible after the step; None where the step changes nothing."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Of the labels that the turn asked for, among all tokens."""


@dataclass(frozen=True)
class Question:
    """A node of a graph of questions that build on one another."""

    name: str
    stage: str
    answer: str | None
    key: str
    """The right answer."""
    parents: tuple[str, ...]
    """Names of the questions whose answers this one was told."""
    weights: tuple[float, ...]
    """Of the parents in the question's score; empty where they are not known."""
    turn: int
    """The step that asked it as it stands."""
    counts: bool = True
    """Whether it counts in the accuracy."""
    score: float | None = None
    """As a share of what perfect play scores."""


@dataclass(frozen=True)
class Rule:
    """A rule that the player was told: what an outcome of a test rules out."""

    test: str
    outcome: str
    rules_out: tuple[str, ...]
    used: int | None = None
    """The step that showed this outcome first; None where none did."""


@dataclass(frozen=True)
class EpisodeView:
    """An episode from its first turn to its outcome."""

    steps: tuple[StepView, ...]
    facts: Facts = field(default_factory=dict)
    regret_unit: str = "steps"
    candidates: tuple[str, ...] = ()
    """Among which the answer is to be found by elimination."""
    book: tuple[Rule, ...] = ()
    graph: tuple[Question, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        nested = {name: [dict(vars(each)) for each in getattr(self, name)] for name in ("steps", "book", "graph")}
        return {**vars(self), **nested}


def default_view(row: Mapping[str, Any]) -> EpisodeView:
    """An episode as its stored turns tell it.

    >>> turn = {"prompt": [], "reply": "<answer>A</answer>", "reasoning": "", "action": "A", "rule": "tag"}
    >>> ending = {"status": "done", "error": "", "success": True, "steps": 1, "budget": 3}
    >>> default_view({"turns": [turn], **ending}).steps[0].decoded
    'A'
    """
    return EpisodeView(
        tuple(
            StepView(tuple(turn["prompt"]), turn["reply"], turn.get("reasoning") or "", turn["action"], turn["rule"])
            for turn in row["turns"]
        ),
        {name: row[name] for name in ("status", "error", "success", "steps", "budget")},
    )
