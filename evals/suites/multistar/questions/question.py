"""What a question is, and the chance that words and options are drawn with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from envs.picture import Picture
from envs.raven import Generated, Problem

VERSION = 2
"""Raised whenever the same problem and seed would give other questions."""

Stage = Literal["1P-B", "1P-C", "1P", "2P", "1R", "2R", "final"]
"""One panel (basic and comparing; in the chain just 1P), two panels, one row, two rows, the whole puzzle."""

QuestionAttribute = Literal["number", "position", "shape", "color", "size"]
QUESTION_ATTRIBUTES: tuple[QuestionAttribute, ...] = ("number", "position", "shape", "color", "size")

Part = Literal["left", "right", "top", "bottom", "in", "out"]


@dataclass(frozen=True)
class Question:
    """One multiple-choice question on one picture, exactly one of whose options is true."""

    node: str
    """Unique within the puzzle: in the chain ``number/single_panel_1_left``, in the direct set the template's name."""
    stage: Stage
    attribute: QuestionAttribute | None
    """None for the final stage."""
    part: Part | None
    """The part of a two-part configuration that the question is restricted to."""
    picture: Picture
    setting: str
    """What the parts of a panel are; empty for one-part configurations."""
    text: str
    options: tuple[str, ...]
    key: int
    """Index of the true option."""
    parents: tuple[str, ...] = ()
    """Chain nodes whose answers are this question's prior information, in order."""
    subject: str = ""
    """The words by which the question singles out one object: its place (shape questions) or its looks (position)."""
    counts: bool = True
    """Whether it counts in accuracy. A link of the chain whose answer its words give away too often does not: it is asked so
    that later questions can build on it."""
    said: tuple[str, ...] = ()
    """The options as later questions are told them, where that is not as they are offered."""
    rates: tuple[float, ...] = field(default=(), compare=False)
    """Of each option, how often it is true where such a question is asked: all that can be known without the picture."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question whose options have not been drawn."""

    text: str
    truth: str
    untrue: tuple[str, ...]
    """What may be offered beside the truth: answers that are false here."""
    count: int
    """Most options to offer."""
    subject: str = ""
    fixed: str = ""
    """An answer that stands among the options in any case when they are drawn uniformly; empty for none."""
    hint: str = ""
    """What in the words makes some answers likelier; their rates are kept apart by it."""
    counts: bool = True
    """False where the words alone give too much away."""
    seen: bool = True
    """False where the picture does not show which answer is true: such a question is not asked, or does not count."""
    say: Mapping[str, str] = field(default_factory=dict)
    """Answers in words, where ``truth`` and ``untrue`` are names."""


def dice(problem: Problem, seed: int, node: str) -> random.Random:
    """The chance behind one question; the same for both answer styles, which do not touch the context."""
    source = problem.source
    name = str(source.seed) if isinstance(source, Generated) else source.digest
    return random.Random(f"multistar {VERSION} {problem.configuration.name} {name} {seed} {node}")
