"""What a question is, and the chance that words and options are drawn with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from envs.picture import Picture
from envs.raven import Generated, Problem

VERSION = 1
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


def dice(problem: Problem, seed: int, node: str) -> random.Random:
    """The chance behind one question; the same for both answer styles, which do not touch the context."""
    source = problem.source
    name = str(source.seed) if isinstance(source, Generated) else source.digest
    return random.Random(f"multistar {VERSION} {problem.configuration.name} {name} {seed} {node}")


def offered(rng: random.Random, truth: str, untrue: Sequence[str], count: int) -> tuple[tuple[str, ...], int]:
    """The truth and ``count - 1`` of the untrue statements (all, where there are fewer) in random order, with the key."""
    options = [truth, *rng.sample(untrue, min(count - 1, len(untrue)))]
    rng.shuffle(options)
    return tuple(options), options.index(truth)
