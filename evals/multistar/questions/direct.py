"""The direct set: one question per template that a problem can bear, each standing for itself.

25 templates, 38 where panels have two parts; a template that no panel satisfies (no shape occurs just once, no panel holds two
objects) is left out, as in the published set.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from envs.picture import Picture
from envs.raven import Configuration, Problem, one_panel, one_row, two_panels, two_rows
from evals.multistar.questions import comparisons, singles
from evals.multistar.questions.question import (
    QUESTION_ATTRIBUTES,
    Part,
    Question,
    QuestionAttribute,
    Stage,
    dice,
)
from evals.multistar.questions.rules import rule_question
from evals.multistar.questions.scene import Objects, of_part, scene, unique_shapes
from evals.multistar.questions.singles import Draft
from evals.multistar.questions.words import PART_WORD, PARTS, SETTINGS, places, suffix

_LOOKS: tuple[QuestionAttribute, ...] = ("shape", "size", "color")
_PAIRS = tuple((a, b) for a in range(8) for b in range(8) if a != b and a // 3 == b // 3)
_Drawn = tuple[int, Draft] | None
"""The panel (0..7) and the question on it; None if no panel will do."""


_ON_ONE_PANEL = (
    *(f"1P-B/{attribute}" for attribute in ("number", "shape", "position")),
    *(f"1P-C/{kind}" for kind in (*(f"compare_{look}" for look in _LOOKS), "compare_position")),
    *(f"1P-C/same_{look}" for look in _LOOKS),
)


def direct_nodes(configuration: Configuration) -> tuple[str, ...]:
    """Names of all templates, 25 or 38, in the order of the questions; a problem need not bear every one."""
    parts = [suffix(part) for part, _ in PARTS[configuration.structure]]
    looks = [f"2P/{look}{part}" for look in _LOOKS for part in parts]
    rows = [
        f"{stage}/{attribute}{part}" for stage in ("1R", "2R") for part in parts for attribute in QUESTION_ATTRIBUTES
    ]
    return (*_ON_ONE_PANEL, "2P/number", *looks, "2P/position", *rows)


def direct_questions(problem: Problem, seed: int) -> tuple[Question, ...]:
    """One question per template that the problem can bear; deterministic in both arguments."""
    panels = scene(problem)
    return (
        *_on_one_panel(problem, seed, panels),
        *_on_two_panels(problem, seed, panels),
        *_on_rows(problem, seed, panels),
    )


def _question(
    problem: Problem,
    node: str,
    attribute: QuestionAttribute,
    part: Part | None,
    picture: Picture,
    draft: Draft,
) -> Question:
    stage: Stage = node.split("/")[0]  # type: ignore[assignment]
    setting = SETTINGS[problem.configuration.structure]
    return Question(
        node, stage, attribute, part, picture, setting, draft.text, draft.options, draft.key, subject=draft.subject
    )


# --- one panel -------------------------------------------------------------------------------------------------------


def _on_one_panel(problem: Problem, seed: int, panels: tuple[Objects, ...]) -> Iterator[Question]:
    names = places(problem.configuration)
    templates: list[tuple[str, QuestionAttribute, Callable[[random.Random], _Drawn]]] = [
        ("1P-B/number", "number", lambda rng: _count(rng, panels)),
        ("1P-B/shape", "shape", lambda rng: _shape(rng, panels)),
        ("1P-B/position", "position", lambda rng: _position(rng, panels, names)),
        *((f"1P-C/compare_{look}", look, lambda rng, look=look: _compare(rng, panels, look)) for look in _LOOKS),
        ("1P-C/compare_position", "position", lambda rng: _relation(rng, panels)),
        *((f"1P-C/same_{look}", look, lambda rng, look=look: _same(rng, panels, look)) for look in _LOOKS),
    ]
    for node, attribute, template in templates:
        drawn = template(dice(problem, seed, node))
        if drawn:
            yield _question(problem, node, attribute, None, one_panel(problem, drawn[0]), drawn[1])


def _first(rng: random.Random, panels: tuple[Objects, ...], suits: Callable[[Objects], object]) -> int | None:
    """A random panel that suits."""
    return next((panel for panel in rng.sample(range(8), 8) if suits(panels[panel])), None)


def _count(rng: random.Random, panels: tuple[Objects, ...]) -> _Drawn:
    panel = rng.randrange(8)
    return panel, singles.count(rng, panels[panel], "this panel")


def _shape(rng: random.Random, panels: tuple[Objects, ...]) -> _Drawn:
    panel = rng.randrange(8)
    return panel, singles.shape(rng, rng.choice(panels[panel]))


def _absent_shapes(objects: Objects) -> list[str]:
    return [name for name in singles.SHAPES if name not in {item.shape_name for item in objects}]


def _position(rng: random.Random, panels: tuple[Objects, ...], names: tuple[str, ...]) -> _Drawn:
    """Where a shape that occurs once is; as often as any other option, where one is that does not occur at all."""
    panel = _first(rng, panels, unique_shapes)
    if panel is None:
        return None
    size = min(3, len(names))
    bare = _first(rng, panels, _absent_shapes)
    if bare is not None and rng.randrange(size + 1) == 0:
        return bare, singles.position_or_absent(rng, rng.choice(_absent_shapes(panels[bare])), None, names, size)
    item = rng.choice(unique_shapes(panels[panel]))
    return panel, singles.position_or_absent(rng, item.shape_name, item.place, names, size)


def _compare(rng: random.Random, panels: tuple[Objects, ...], attribute: QuestionAttribute) -> _Drawn:
    panel = _first(rng, panels, lambda objects: len(objects) > 1)
    if panel is None:
        return None
    one, other = rng.sample(panels[panel], 2)
    return panel, comparisons.compare(rng, attribute, one, other)


def _relation(rng: random.Random, panels: tuple[Objects, ...]) -> _Drawn:
    """How two shapes stand that occur once each; in one of four questions one of them does not occur."""
    panel = _first(rng, panels, lambda objects: len(unique_shapes(objects)) > 1)
    if panel is None:
        return None
    lacking = _first(rng, panels, lambda objects: unique_shapes(objects) and _absent_shapes(objects))
    if lacking is not None and rng.randrange(4) == 0:
        there = rng.choice(unique_shapes(panels[lacking])).shape_name
        one, other = rng.sample([there, rng.choice(_absent_shapes(panels[lacking]))], 2)
        return lacking, comparisons.relation(rng, one, other, None)
    first, second = rng.sample(unique_shapes(panels[panel]), 2)
    return panel, comparisons.relation(rng, first.shape_name, second.shape_name, (first, second))


def _same(rng: random.Random, panels: tuple[Objects, ...], attribute: QuestionAttribute) -> _Drawn:
    panel = _first(rng, panels, lambda objects: len(objects) > 1)
    return None if panel is None else (panel, comparisons.same_in_panel(rng, attribute, panels[panel]))


# --- two panels and rows ---------------------------------------------------------------------------------------------


def _on_two_panels(problem: Problem, seed: int, panels: tuple[Objects, ...]) -> Iterator[Question]:
    """Number and position of whole panels, looks part by part."""
    parts = PARTS[problem.configuration.structure]
    whole: tuple[tuple[Part | None, int | None], ...] = ((None, None),)
    asked: list[tuple[QuestionAttribute, tuple[tuple[Part | None, int | None], ...]]] = [
        ("number", whole),
        *((look, parts) for look in _LOOKS),
        ("position", whole),
    ]
    for attribute, areas in asked:
        for part, component in areas:
            node = f"2P/{attribute}{suffix(part)}"
            rng = dice(problem, seed, node)
            pair = rng.choice(_PAIRS)
            draft = pair_draft(rng, attribute, panels, pair, part, component)
            yield _question(problem, node, attribute, part, two_panels(problem, *sorted(pair)), draft)


def pair_draft(
    rng: random.Random,
    attribute: QuestionAttribute,
    panels: tuple[Objects, ...],
    pair: tuple[int, int],
    part: Part | None,
    component: int | None,
) -> Draft:
    """A question that compares the first panel of a pair with the second; the lower number stands on the left."""
    one, other = (of_part(panels[panel], component) for panel in pair)
    sides = ("left", "right") if pair[0] < pair[1] else ("right", "left")
    within = f"the {PART_WORD[part]} of " if part else ""
    areas = f"{within}the {sides[0]} panel", f"{within}the {sides[1]} panel"
    if attribute == "number":
        return comparisons.compare_numbers(rng, one, other, areas)
    if attribute == "position":
        return comparisons.compare_positions(rng, one, other, areas)
    return comparisons.compare_panels(rng, attribute, one, other, areas)


def _on_rows(problem: Problem, seed: int, panels: tuple[Objects, ...]) -> Iterator[Question]:
    parts = PARTS[problem.configuration.structure]
    stages: tuple[Stage, Stage] = ("1R", "2R")
    for stage in stages:
        for part, component in parts:
            for attribute in QUESTION_ATTRIBUTES:
                yield row_question(problem, seed, panels, stage, attribute, part, component)


def row_question(
    problem: Problem,
    seed: int,
    panels: tuple[Objects, ...],
    stage: Stage,
    attribute: QuestionAttribute,
    part: Part | None,
    component: int,
) -> Question:
    """The question on the rule of one row (the first) or two; the chain asks the same."""
    node = f"{stage}/{attribute}{suffix(part)}"
    shown = panels[:3] if stage == "1R" else panels[:6]
    where = f" in the {PART_WORD[part]}" if part else ""
    draft = rule_question(dice(problem, seed, node), problem, shown, attribute, component, where)
    picture = one_row(problem) if stage == "1R" else two_rows(problem)
    return _question(problem, node, attribute, part, picture, draft)
