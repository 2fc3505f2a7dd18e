"""Problems from a configuration, a seed and an answer style; nothing else has a say, not even the hash seed."""

from __future__ import annotations

import itertools
import random

from envs.raven.answers import CANDIDATES
from envs.raven.grammar import Configuration, configuration_named, with_values
from envs.raven.matrix import sample_rows
from envs.raven.rules import sample_rules
from envs.raven.scene import STYLES, Difficulty, Generated, Panel, Problem, Rules, Style
from envs.raven.solve import judge

VERSION = 1
"""Raised whenever the same seed would give another problem or other pixels."""


_ANSWER_SETS = 20
"""Answer sets tried on one matrix; a matrix that stays ambiguous (about one 2x2 grid in 1,000) is given up."""


def generate(configuration: str, seed: int, style: Style = "iraven", difficulty: Difficulty | None = None) -> Problem:
    """The problem of a seed.

    An answer set in which a wrong candidate completes the matrix as well as the answer, by some other rule that the
    context happens to obey, is drawn again. But for matrices that are given up, the matrix does not depend on the style.

    Args:
        configuration: folder name or paper title of a configuration.
        seed: any integer.
        style: ``iraven`` or ``raven``.
        difficulty: None as published.

    Raises:
        ValueError: unknown configuration or style.
    """
    return draw(configuration, seed, style, difficulty)[0]


def draw(
    configuration: str,
    seed: int,
    style: Style = "iraven",
    difficulty: Difficulty | None = None,
    *,
    redraw: bool = True,
) -> tuple[Problem, int]:
    """As ``generate``, with the number of answer sets drawn; ``redraw=False`` takes the first one as it is."""
    level = difficulty or Difficulty()
    form = with_values(configuration_named(configuration), level.values)
    if style not in STYLES:
        raise ValueError(f"unknown answer style {style!r}: known are {', '.join(STYLES)}")
    matrix_rng = random.Random(f"raven {VERSION} matrix {form.name} {seed}")
    answer_rng = random.Random(f"raven {VERSION} answers {form.name} {seed} {style}")
    source = Generated(form.name, seed, style, difficulty=difficulty)
    for tries in itertools.count(1):
        # A matrix that stays ambiguous so often is given up for another one.
        if tries % _ANSWER_SETS == 1:
            rules, matrix = _sample_matrix(matrix_rng, form, level.changing)
        candidates = CANDIDATES[style](answer_rng, form, rules, matrix[8])
        if not redraw:
            break
        # An answer set will do if it settles on one candidate.
        offered = [panel for panel, _ in candidates]
        verdict = judge(form, matrix[:8], offered)
        if len(verdict.answers) == 1:
            break
    order = answer_rng.sample(range(8), 8)
    panels, edits = zip(*(candidates[index] for index in order), strict=True)
    known = edits if style == "iraven" else ()  # as the official formats have it
    return Problem(form, matrix[:8], panels, order.index(0), rules, style, source, known), tries


def _sample_matrix(
    rng: random.Random, form: Configuration, changing: int | None
) -> tuple[tuple[Rules, ...], tuple[Panel, ...]]:
    """Rules and nine panels."""
    rules = tuple(sample_rules(rng, layout, changing) for layout in form.layouts)
    parts = [sample_rows(rng, layout, own) for layout, own in zip(form.layouts, rules, strict=True)]
    panels = []
    for row in range(3):
        for column in range(3):
            panels.append(Panel(tuple(part[row][column] for part in parts)))
    return rules, tuple(panels)
