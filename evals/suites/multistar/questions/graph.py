"""The logical chain: which question stands on the answers to which.

Per attribute and part, independent until the end (MultiStAR, figures 4 and 9):

    1P panels 1, 2 -> 2P 12        1P panels 2, 3 -> 2P 23        all five -> 1R -> 2R        all 2R -> final
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from envs.raven import Configuration
from evals.suites.multistar.questions.question import QUESTION_ATTRIBUTES, Part, QuestionAttribute, Stage
from evals.suites.multistar.questions.words import PARTS, suffix

PAIRS = ((1, 2), (2, 3))
_BEFORE_ROW = ("single_panel_1", "single_panel_2", "single_panel_3", "two_panels_1_2", "two_panels_2_3")
"""What the rule of one row stands on."""


@dataclass(frozen=True)
class Node:
    """One place in the chain."""

    name: str
    stage: Stage
    attribute: QuestionAttribute | None
    part: Part | None
    component: int
    panels: tuple[int, ...]
    """The panels of the picture, counted from 0; empty for the whole puzzle."""
    parents: tuple[str, ...]


def chain_nodes(configuration: Configuration) -> Iterator[Node]:
    """All nodes, parents before children: 36 where panels have one part, 71 where they have two."""
    parts, last = PARTS[configuration.structure], []
    for attribute in QUESTION_ATTRIBUTES:
        for panel in (1, 2, 3):
            for part, component in parts:
                name = f"{attribute}/single_panel_{panel}{suffix(part)}"
                yield Node(name, "1P", attribute, part, component, (panel - 1,), ())
        for first, second in PAIRS:
            for part, component in parts:
                end = suffix(part)
                name = f"{attribute}/two_panels_{first}_{second}{end}"
                parents = f"{attribute}/single_panel_{first}{end}", f"{attribute}/single_panel_{second}{end}"
                yield Node(name, "2P", attribute, part, component, (first - 1, second - 1), parents)
        for part, component in parts:
            end = suffix(part)
            of_row = tuple(f"{attribute}/{before}{end}" for before in _BEFORE_ROW)
            yield Node(f"{attribute}/one_row{end}", "1R", attribute, part, component, (0, 1, 2), of_row)
        for part, component in parts:
            name, one_row = f"{attribute}/two_rows{suffix(part)}", f"{attribute}/one_row{suffix(part)}"
            yield Node(name, "2R", attribute, part, component, (0, 1, 2, 3, 4, 5), (one_row,))
            last.append(name)
    yield Node("final", "final", None, None, 0, (), tuple(last))
