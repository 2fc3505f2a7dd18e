"""Problems from a configuration, a seed and an answer style; nothing else has a say, not even the hash seed."""

from __future__ import annotations

import random

from envs.raven.answers import CANDIDATES
from envs.raven.grammar import configuration_named
from envs.raven.matrix import sample_rows
from envs.raven.rules import sample_rules
from envs.raven.scene import STYLES, Generated, Panel, Problem, Style
from envs.raven.solve import judge

VERSION = 1
"""Raised whenever the same seed would give another problem or other pixels."""


def generate(configuration: str, seed: int, style: Style = "iraven") -> Problem:
    """The problem of a seed.

    The matrix does not depend on the style. Answer sets in which a wrong candidate completes the matrix as well as the
    answer, by some other rule that rows 1 and 2 happen to obey, are drawn again.

    Args:
        configuration: folder name or paper title of a configuration.
        seed: any integer.
        style: ``iraven`` or ``raven``.

    Raises:
        ValueError: unknown configuration or style.
    """
    return draw(configuration, seed, style)[0]


def draw(configuration: str, seed: int, style: Style = "iraven", *, redraw: bool = True) -> tuple[Problem, int]:
    """As ``generate``, with the number of answer sets drawn; ``redraw=False`` takes the first one as it is."""
    form = configuration_named(configuration)
    if style not in STYLES:
        raise ValueError(f"unknown answer style {style!r}: known are {', '.join(STYLES)}")
    source = Generated(form.name, seed, style)
    rng = random.Random(f"raven {VERSION} matrix {form.name} {seed}")
    rules = tuple(sample_rules(rng, layout) for layout in form.layouts)
    parts = [sample_rows(rng, layout, own) for layout, own in zip(form.layouts, rules, strict=True)]
    matrix = [Panel(tuple(part[row][column] for part in parts)) for row in range(3) for column in range(3)]
    context, answer = tuple(matrix[:8]), matrix[8]

    rng = random.Random(f"raven {VERSION} answers {form.name} {seed} {style}")
    tries = 0
    while True:
        tries += 1
        candidates = CANDIDATES[style](rng, form, rules, answer)
        if not redraw or len(judge(form, context, [panel for panel, _ in candidates]).answers) == 1:
            break
    order = rng.sample(range(8), 8)
    panels, edits = zip(*(candidates[index] for index in order), strict=True)
    return Problem(form, context, panels, order.index(0), rules, style, source, edits), tries
