"""The direct set: one question per template that a problem can bear, each standing for itself.

25 templates, 38 where panels have two parts, and the whole puzzle, the paper's sixth stage; a template that no panel satisfies
(no shape occurs just once, no panel holds two objects) is left out, as in the published set.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from envs.raven import Configuration, Problem, one_panel, two_panels
from evals.suites.multistar.questions import comparisons, singles
from evals.suites.multistar.questions.options import Drawing
from evals.suites.multistar.questions.question import (
    QUESTION_ATTRIBUTES,
    Draft,
    Part,
    Question,
    QuestionAttribute,
    Stage,
    dice,
)
from evals.suites.multistar.questions.scene import Objects, Panels, as_drawn, scene, unique_shapes
from evals.suites.multistar.questions.sketch import (
    ROW_STAGES,
    Sketch,
    final_sketch,
    only_if_seen,
    pair_draft,
    posed,
    row_sketch,
)
from evals.suites.multistar.questions.words import PARTS, places, suffix

FINAL = "final"
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
    """Names of all templates, 26 or 39, in the order of the questions; a problem need not bear every one."""
    parts = [suffix(part) for part, _ in PARTS[configuration.structure]]
    looks = [f"2P/{look}{part}" for look in _LOOKS for part in parts]
    rows = [
        f"{stage}/{attribute}{part}" for stage in ("1R", "2R") for part in parts for attribute in QUESTION_ATTRIBUTES
    ]
    return (*_ON_ONE_PANEL, "2P/number", *looks, "2P/position", *rows, FINAL)


def direct_questions(problem: Problem, seed: int, drawing: Drawing = "balanced") -> tuple[Question, ...]:
    """One question per template that the problem can bear; deterministic in all arguments.

    Args:
        problem: What is asked about.
        seed: Of the choice of panels, words and options.
        drawing: How options are drawn (``evals.suites.multistar.questions.options``); what does not count is left out.
    """
    asked = (posed(problem, seed, sketch, drawing) for sketch in direct_sketches(problem, seed))
    return tuple(question for question in asked if question.counts)


def direct_sketches(problem: Problem, seed: int) -> Iterator[Sketch]:
    """What the direct set would ask, before options are drawn."""
    panels = scene(problem)
    yield from _on_one_panel(problem, seed, panels)
    yield from _on_two_panels(problem, seed, panels)
    for stage in ROW_STAGES:
        for part, component in PARTS[problem.configuration.structure]:
            for attribute in QUESTION_ATTRIBUTES:
                yield row_sketch(problem, seed, stage, attribute, part, component)
    yield final_sketch(problem, seed, FINAL)


# --- one panel -------------------------------------------------------------------------------------------------------


def _on_one_panel(problem: Problem, seed: int, panels: Panels) -> Iterator[Sketch]:
    names = places(problem.configuration)
    templates: list[tuple[str, QuestionAttribute, Callable[[random.Random, Panels], _Drawn]]] = [
        ("1P-B/number", "number", _count),
        ("1P-B/shape", "shape", _shape),
        ("1P-B/position", "position", lambda rng, shown: _position(rng, shown, names)),
        *((f"1P-C/compare_{a}", a, lambda rng, shown, a=a: _compare(rng, shown, a)) for a in _LOOKS),
        ("1P-C/compare_position", "position", _relation),
        *((f"1P-C/same_{a}", a, lambda rng, shown, a=a: _same(rng, shown, a)) for a in _LOOKS),
    ]
    for node, attribute, template in templates:
        drawn = template(dice(problem, seed, node), panels)
        if not drawn:
            continue
        panel, draft = drawn
        if attribute == "size":
            again = template(dice(problem, seed, node), as_drawn(problem, panels))
            draft = only_if_seen(draft, again and again[1])
        stage: Stage = "1P-B" if "1P-B" in node else "1P-C"
        yield Sketch(node, stage, attribute, None, one_panel(problem, panel), draft)


def _first(rng: random.Random, panels: Panels, suits: Callable[[Objects], object]) -> int | None:
    """A random panel that suits."""
    return next((panel for panel in rng.sample(range(8), 8) if suits(panels[panel])), None)


def _count(rng: random.Random, panels: Panels) -> _Drawn:
    panel = rng.randrange(8)
    return panel, singles.count(rng, panels[panel], "this panel")


def _shape(rng: random.Random, panels: Panels) -> _Drawn:
    panel = rng.randrange(8)
    return panel, singles.shape(rng, rng.choice(panels[panel]))


def _absent_shapes(objects: Objects) -> list[str]:
    there = {item.shape_name for item in objects}
    return [name for name in singles.SHAPES if name not in there]


def _position(rng: random.Random, panels: Panels, names: tuple[str, ...]) -> _Drawn:
    """Where a shape that occurs once is; as often as any other option, where one is that does not occur at all."""
    panel = _first(rng, panels, unique_shapes)
    if panel is None:
        return None
    bare = _first(rng, panels, _absent_shapes)
    if bare is not None and rng.randrange(min(3, len(names)) + 1) == 0:
        return bare, singles.position_or_absent(rng, rng.choice(_absent_shapes(panels[bare])), None, names)
    item = rng.choice(unique_shapes(panels[panel]))
    return panel, singles.position_or_absent(rng, item.shape_name, item.place, names)


def _compare(rng: random.Random, panels: Panels, attribute: QuestionAttribute) -> _Drawn:
    panel = _first(rng, panels, lambda objects: len(objects) > 1)
    if panel is None:
        return None
    one, other = rng.sample(panels[panel], 2)
    return panel, comparisons.compare(rng, attribute, one, other)


def _relation(rng: random.Random, panels: Panels) -> _Drawn:
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


def _same(rng: random.Random, panels: Panels, attribute: QuestionAttribute) -> _Drawn:
    panel = _first(rng, panels, lambda objects: len(objects) > 1)
    return None if panel is None else (panel, comparisons.same_in_panel(rng, attribute, panels[panel]))


# --- two panels ------------------------------------------------------------------------------------------------------


def _on_two_panels(problem: Problem, seed: int, panels: Panels) -> Iterator[Sketch]:
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
            pair = dice(problem, seed, f"{node} panels").choice(_PAIRS)
            draft = pair_draft(problem, seed, node, attribute, panels, pair, part, component)
            yield Sketch(node, "2P", attribute, part, two_panels(problem, *sorted(pair)), draft)
