"""Questions on two panels, on rows and on the whole puzzle; and how any question gets its picture, setting and options."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass

from envs.picture import Picture
from envs.raven import Problem, one_row, puzzle, two_rows
from envs.raven.listing import twins
from evals.suites.multistar.questions import comparisons
from evals.suites.multistar.questions.options import Drawing, draw_options
from evals.suites.multistar.questions.question import Draft, Part, Question, QuestionAttribute, Stage, dice
from evals.suites.multistar.questions.rules import rule_draft
from evals.suites.multistar.questions.scene import Objects, Panels, as_drawn, of_part, scene
from evals.suites.multistar.questions.words import PART_WORD, PARTS, SETTINGS, suffix

ROW_STAGES: tuple[Stage, Stage] = ("1R", "2R")
CANDIDATES = tuple(str(number) for number in range(1, 9))

_FINAL = (
    "The matrix at the top is a puzzle of three rows and three columns whose last panel is missing. Along every row, from left "
    "to right, the panels follow the same rules. Which of the eight panels below it, numbered 1 to 8, is the missing one?",
    "In the matrix at the top, the last of nine panels is missing. Each attribute follows one rule from left to right, the "
    "same in every row. Which panel of the answer set, numbered 1 to 8, completes the matrix?",
    "Find the panel that belongs in place of the question mark: each row of the matrix, read from left to right, obeys the "
    "same rules. What is its number in the answer set, 1 to 8?",
    "Eight of the nine panels of the matrix are given; every row obeys the same rules from left to right. Which of the panels "
    "numbered 1 to 8 should replace the question mark?",
)


@dataclass(frozen=True)
class Sketch:
    """A question in its place, before its options are drawn."""

    name: str
    """Within the puzzle; the chain asks rows under the direct set's names."""
    stage: Stage
    attribute: QuestionAttribute | None
    part: Part | None
    picture: Picture
    draft: Draft


def posed(problem: Problem, seed: int, sketch: Sketch, drawing: Drawing) -> Question:
    """The question with its options."""
    draft, configuration = sketch.draft, problem.configuration
    if sketch.stage == "final":
        key, options = CANDIDATES.index(draft.truth), CANDIDATES
        counts, rates = draft.seen, (1 / len(CANDIDATES),) * len(CANDIDATES)
    else:
        drawn = draw_options(
            dice(problem, seed, f"{sketch.name} options"), configuration.name, sketch.name, draft, drawing
        )
        key, options, counts, rates = drawn.key, drawn.options, drawn.counts and draft.seen, drawn.rates
    return Question(
        sketch.name,
        sketch.stage,
        sketch.attribute,
        sketch.part,
        sketch.picture,
        SETTINGS[configuration.structure],
        draft.text,
        options,
        key,
        subject=draft.subject,
        counts=counts,
        rates=rates,
    )


def only_if_seen(draft: Draft, seen: Draft | None) -> Draft:
    """The draft, marked where what the picture shows would have another answer."""
    same = seen is not None and seen.truth == draft.truth
    return draft if same else dataclasses.replace(draft, seen=False)


def pair_draft(
    problem: Problem,
    seed: int,
    name: str,
    attribute: QuestionAttribute,
    panels: Panels,
    pair: tuple[int, int],
    part: Part | None,
    component: int | None,
) -> Draft:
    """A question that compares the first panel of a pair with the second; the lower number stands on the left."""
    sides = ("left", "right") if pair[0] < pair[1] else ("right", "left")
    within = f"the {PART_WORD[part]} of " if part else ""
    areas = f"{within}the {sides[0]} panel", f"{within}the {sides[1]} panel"

    def draft(shown: Panels) -> Draft:
        rng = dice(problem, seed, name)
        one, other = (of_part(shown[panel], component) for panel in pair)
        return _compared(rng, attribute, one, other, areas)

    asked = draft(panels)
    return only_if_seen(asked, draft(as_drawn(problem, panels))) if attribute == "size" else asked


def _compared(
    rng: random.Random, attribute: QuestionAttribute, one: Objects, other: Objects, areas: tuple[str, str]
) -> Draft:
    if attribute == "number":
        return comparisons.compare_numbers(rng, one, other, areas)
    if attribute == "position":
        return comparisons.compare_positions(rng, one, other, areas)
    return comparisons.compare_panels(rng, attribute, one, other, areas)


def row_sketch(
    problem: Problem, seed: int, stage: Stage, attribute: QuestionAttribute, part: Part | None, component: int
) -> Sketch:
    """The question on the rule of one row (the first) or two; the chain asks the same."""
    name = f"{stage}/{attribute}{suffix(part)}"
    where = f" in the {PART_WORD[part]}" if part else ""

    def draft(panels: Panels) -> Draft:
        shown = panels[:3] if stage == "1R" else panels[:6]
        return rule_draft(dice(problem, seed, name), problem, shown, attribute, component, where)

    panels = scene(problem)
    asked = draft(panels)
    if attribute == "size":
        asked = only_if_seen(asked, draft(as_drawn(problem, panels)))
    picture = one_row(problem) if stage == "1R" else two_rows(problem)
    return Sketch(name, stage, attribute, part, picture, asked)


def _has_twin(problem: Problem) -> bool:
    """Whether another candidate has the same pixels as the answer, which happens in the published drawing only."""
    if problem.source.render == "own":
        return False
    return any(problem.target + 1 in group for group in twins(problem))


def final_sketch(problem: Problem, seed: int, name: str) -> Sketch:
    """The whole puzzle; its options are the numbers of the candidates."""
    text = dice(problem, seed, name).choice(_FINAL)
    parts = [PART_WORD[part] for part, _ in PARTS[problem.configuration.structure] if part]
    if parts:
        text = f"{text} The {parts[0]} and the {parts[1]} each follow their own rules."
    truth = CANDIDATES[problem.target]
    others = tuple(number for number in CANDIDATES if number != truth)
    draft = Draft(text, truth, others, len(CANDIDATES), seen=not _has_twin(problem))
    return Sketch(name, "final", None, None, puzzle(problem), draft)
