"""The logical chain: every node of the graph as a question, always on the first rows of the puzzle."""

from __future__ import annotations

import dataclasses
import random

from envs.picture import Picture
from envs.raven import Problem, one_panel, puzzle, two_panels
from evals.multistar.questions import singles
from evals.multistar.questions.direct import pair_draft, row_question
from evals.multistar.questions.graph import Node, chain_nodes
from evals.multistar.questions.question import Question, dice
from evals.multistar.questions.scene import Objects, described, of_part, scene
from evals.multistar.questions.singles import Draft
from evals.multistar.questions.words import PART_WORD, PARTS, SETTINGS, places

CANDIDATES = tuple(str(number) for number in range(1, 9))

_FINAL = (
    "The matrix at the top is a puzzle of three rows and three columns whose last panel is missing. Along every row, from left "
    "to right, the panels follow the same rules. Which of the eight panels below it, numbered 1 to 8, is the missing one?",
    "In the matrix at the top the last of nine panels is missing. Each attribute follows one rule along the "
    "rows, the same rule in every row. Which numbered panel of the answer set, 1 to 8, completes the matrix?",
    "Find the panel that belongs in the place of the question mark: each row of the matrix, read from left to right, obeys the "
    "same rules. What is its number in the answer set, 1 to 8?",
    "Eight of the nine panels of the matrix are given; every row obeys the same rules from left to right. By which of the "
    "panels numbered 1 to 8 has the question mark to be replaced?",
)


def chain_questions(problem: Problem, seed: int) -> tuple[Question, ...]:
    """The questions of the chain, parents before children: 36 where panels have one part, 71 where they have two.

    Deterministic in both arguments.
    """
    panels = scene(problem)
    return tuple(_question(problem, seed, panels, node) for node in chain_nodes(problem.configuration))


def _question(problem: Problem, seed: int, panels: tuple[Objects, ...], node: Node) -> Question:
    if node.stage in ("1R", "2R") and node.attribute:
        asked = row_question(problem, seed, panels, node.stage, node.attribute, node.part, node.component)
        return dataclasses.replace(asked, node=node.name, parents=node.parents)
    picture, draft = _drafted(problem, seed, panels, node)
    setting = SETTINGS[problem.configuration.structure]
    return Question(
        node.name,
        node.stage,
        node.attribute,
        node.part,
        picture,
        setting,
        draft.text,
        draft.options,
        draft.key,
        node.parents,
        draft.subject,
    )


def _drafted(problem: Problem, seed: int, panels: tuple[Objects, ...], node: Node) -> tuple[Picture, Draft]:
    rng = dice(problem, seed, node.name)
    if node.stage == "1P":
        (panel,) = node.panels
        return one_panel(problem, panel), _single(problem, rng, panels[panel], node)
    if node.stage == "2P" and node.attribute:
        first, second = node.panels
        draft = pair_draft(rng, node.attribute, panels, (first, second), node.part, node.component)
        return two_panels(problem, first, second), draft
    text = rng.choice(_FINAL)
    parts = [PART_WORD[part] for part, _ in PARTS[problem.configuration.structure] if part]
    if parts:
        text = f"{text} The {parts[0]} and the {parts[1]} follow rules of their own."
    return puzzle(problem), Draft(text, CANDIDATES, problem.target)


def _single(problem: Problem, rng: random.Random, objects: Objects, node: Node) -> Draft:
    own = of_part(objects, node.component)
    area = f"the {PART_WORD[node.part]} of this panel" if node.part else "this panel"
    if node.attribute == "number":
        return singles.count(rng, own, area)
    if node.attribute == "shape":
        return singles.shape(rng, rng.choice(own))
    if node.attribute == "position":
        item, names = rng.choice(own), places(problem.configuration)
        inner = "inner part" if node.part == "in" and len(names) > 2 else ""
        return singles.position(rng, described(item, objects, inner), item.place, names, min(4, len(names)))
    assert node.attribute in ("size", "color")
    return singles.all_alike(rng, node.attribute, own, area)
