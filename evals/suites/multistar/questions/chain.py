"""The logical chain: every node of the graph as a question, always on the first rows of the puzzle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envs.raven import Problem, one_panel, two_panels
from evals.suites.multistar.questions import singles
from evals.suites.multistar.questions.graph import Node, chain_nodes
from evals.suites.multistar.questions.options import Drawing
from evals.suites.multistar.questions.question import Draft, Question, dice
from evals.suites.multistar.questions.scene import Panels, as_drawn, described, of_part, scene
from evals.suites.multistar.questions.sketch import Sketch, final_sketch, only_if_seen, pair_draft, posed, row_sketch
from evals.suites.multistar.questions.words import PART_WORD, places


def chain_questions(problem: Problem, seed: int, drawing: Drawing = "balanced") -> tuple[Question, ...]:
    """The questions of the chain, parents before children: 36 where panels have one part, 71 where they have two.

    Args:
        problem: What is asked about.
        seed: Of the choice of words and options.
        drawing: How options are drawn (``evals.suites.multistar.questions.options``); what does not count
            (``Question.counts``) is asked all the same, as a link.
    """
    nodes = chain_nodes(problem.configuration)
    return tuple(
        dataclasses.replace(posed(problem, seed, sketch, drawing), node=node.name, parents=node.parents)
        for node, sketch in zip(nodes, chain_sketches(problem, seed), strict=True)
    )


def chain_sketches(problem: Problem, seed: int) -> Iterator[Sketch]:
    """The nodes of the chain before options are drawn."""
    panels = scene(problem)
    for node in chain_nodes(problem.configuration):
        yield _sketch(problem, seed, panels, node)


def _sketch(problem: Problem, seed: int, panels: Panels, node: Node) -> Sketch:
    if node.attribute is None:
        return final_sketch(problem, seed, node.name)
    if node.stage in ("1R", "2R"):
        return row_sketch(problem, seed, node.stage, node.attribute, node.part, node.component)
    if node.stage == "2P":
        first, second = node.panels
        draft = pair_draft(problem, seed, node.name, node.attribute, panels, (first, second), node.part, node.component)
        return Sketch(node.name, "2P", node.attribute, node.part, two_panels(problem, first, second), draft)
    (panel,) = node.panels
    draft = _single(problem, seed, panels, node)
    if node.attribute in ("size", "position"):
        seen = _single(problem, seed, as_drawn(problem, panels), node)
        # The words for an object ("smallest square") count only if they would be the same for what the picture shows.
        same_words = seen.text == draft.text
        draft = only_if_seen(draft, seen if same_words else None)
    return Sketch(node.name, "1P", node.attribute, node.part, one_panel(problem, panel), draft)


def _single(problem: Problem, seed: int, panels: Panels, node: Node) -> Draft:
    rng, objects = dice(problem, seed, node.name), panels[node.panels[0]]
    own = of_part(objects, node.component)
    area = f"the {PART_WORD[node.part]} of this panel" if node.part else "this panel"
    match node.attribute:
        case "number":
            return singles.count(rng, own, area)
        case "shape":
            return singles.shape(rng, rng.choice(own))
        case "position":
            item, names = rng.choice(own), places(problem.configuration)
            inner = "inner part" if node.part == "in" and len(names) > 2 else ""
            return singles.position(rng, described(item, objects, inner), item.place, names)
        case "size" | "color":
            return singles.all_alike(rng, node.attribute, own, area)
        case None:
            raise AssertionError("the final question has no single panel")
