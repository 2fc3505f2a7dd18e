"""Which rule a row follows, or two rows do: the statements, when each is true, and the question.

A statement is judged by the rows that are shown and by nothing else; docs/multistar_questions.md holds the table. The key is
the puzzle's own rule where that is true of the rows (the generator sees to it), and else the plainest rule that is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from envs.raven import Problem
from evals.suites.multistar.questions.question import Draft, QuestionAttribute
from evals.suites.multistar.questions.scene import Objects, of_part
from evals.suites.multistar.questions.statements import (
    ONE_ROW,
    PLAIN,
    RULE_NOTES,
    STEPS,
    TWO_ROWS,
    WHAT,
    names,
    statement,
)

View = int | frozenset[int] | tuple[int, ...]
"""What a rule sees of a panel: a count, the occupied slots, or the sorted levels of all objects."""
Row = Sequence[View]


def rows_of(attribute: QuestionAttribute, panels: Sequence[Objects], component: int) -> list[list[View]]:
    """One attribute of one component as rows of three."""
    views = [_view(attribute, of_part(panel, component)) for panel in panels]
    return [views[start : start + 3] for start in range(0, len(views), 3)]


def _view(attribute: QuestionAttribute, objects: Objects) -> View:
    if attribute == "number":
        return len(objects)
    if attribute == "position":
        return frozenset(item.slot for item in objects)
    levels = {"shape": [item.shape for item in objects], "size": [item.size for item in objects]}
    return tuple(sorted(levels.get(attribute) or [item.color for item in objects]))


def true_statements(attribute: QuestionAttribute, rows: Sequence[Row], slots: int) -> dict[str, bool]:
    """For every statement whether it is true of one or two rows."""
    values = [[_value(view) for view in row] for row in rows]
    base = 1 if attribute == "size" else 0
    plain = {name: True for name in names(attribute, slots) if name in PLAIN}
    for row, common in zip(rows, values, strict=True):
        for name in plain:
            plain[name] &= _constant(row, common) if name == "constant" else _holds(name, common, base, slots)
    three = _three(values) and (len(rows) > 1 or not any(plain.values()))
    return {**plain, "three": three, "none": not three and not any(plain.values())}


def _value(view: View) -> int | frozenset[int] | None:
    """The one value of a panel; None where objects differ."""
    if isinstance(view, tuple):
        return view[0] if view[0] == view[-1] else None
    return view


def _constant(row: Row, values: Sequence[int | frozenset[int] | None]) -> bool:
    """One value throughout, or the same mixture in every panel."""
    first = values[0]
    if first is not None and all(value == first for value in values):
        return True
    return all(one == other for one, other in pairwise(row))


def _holds(name: str, values: Sequence[int | frozenset[int] | None], base: int, slots: int) -> bool:
    """Whether a step, sum or difference is true of a row's three values; never where objects of a panel differ."""
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == 3:
        return _holds_of_numbers(name, numbers, base)
    occupied = [value for value in values if isinstance(value, frozenset)]
    if len(occupied) == 3:
        return _holds_of_positions(name, occupied, slots)
    return False


def _holds_of_numbers(name: str, numbers: Sequence[int], base: int) -> bool:
    one, two, three = numbers
    if name in STEPS:
        return two - one == three - two == STEPS[name]
    # Levels count from 0. Sizes add as RAVEN's arithmetic adds them, from 1 (``base``).
    second = two + base if name == "sum" else -(two + base)
    return one + base + second == three + base


def _holds_of_positions(name: str, occupied: Sequence[frozenset[int]], slots: int) -> bool:
    first, then, last = occupied
    if name in STEPS:
        return [_moved(first, STEPS[name], slots), _moved(then, STEPS[name], slots)] == [then, last]
    # The sum is the union, and the difference what only the first panel occupies.
    combined = first | then if name == "sum" else first - then
    return last == combined


def _moved(places: frozenset[int], step: int, slots: int) -> frozenset[int]:
    return frozenset((place + step) % slots for place in places)


def _three(values: Sequence[Sequence[int | frozenset[int] | None]]) -> bool:
    """Three different values, and in a second row the same three in another order."""
    first = values[0]
    if None in first or len(set(first)) < 3:
        return False
    return all(set(row) == set(first) and list(row) != list(first) for row in values[1:])


def puzzle_rule(problem: Problem, attribute: QuestionAttribute, component: int) -> str | None:
    """The statement that names the puzzle's rule; None where the attribute merely follows from another or is random."""
    group = {"number": 0, "position": 0, "shape": 1, "size": 2, "color": 3}[attribute]
    rule = problem.rules[component][group]
    if group == 0 and rule.attribute not in (attribute.capitalize(), "Number/Position"):
        return None
    if rule.name == "Progression":
        return f"{rule.parameter:+d}"
    if rule.name == "Arithmetic":
        return "sum" if rule.parameter > 0 else "difference"
    return {"Constant": "constant", "Distribute_Three": "three"}[rule.name]


NEVER_TOGETHER = {"position": {"sum": "constant"}}
"""Positions that stay are their own union, so that the union is not offered beside them; nor are they beside the union."""


def rule_draft(
    rng: random.Random,
    problem: Problem,
    panels: Sequence[Objects],
    attribute: QuestionAttribute,
    component: int,
    where: str,
) -> Draft:
    """Which of four statements is true of the rows that the panels (3 or 6) form.

    Args:
        rng: chance.
        problem: whose rule is asked for.
        panels: objects of the panels shown.
        attribute: what of them.
        component: the part that is asked about.
        where: its words, " in the left part", or nothing.
    """
    slots = len(problem.configuration.layouts[component].slots)
    rows = rows_of(attribute, panels, component)
    holds = true_statements(attribute, rows, slots)
    true: list[str] = []
    false: list[str] = []
    for name, is_true in holds.items():
        if is_true:
            true.append(name)
        else:
            false.append(name)
    # Statements stand from the plainest on.
    own = puzzle_rule(problem, attribute, component)
    key = own if own in true else true[0]
    never = NEVER_TOGETHER.get(attribute, {}).get(key)
    untrue = tuple(name for name in false if name != never)
    say = {name: statement(attribute, name, rows=len(rows), slots=slots) for name in holds}
    templates = ONE_ROW if len(rows) == 1 else TWO_ROWS
    text = rng.choice(templates).format(what=WHAT[attribute], where=where)
    return Draft(text + RULE_NOTES[attribute], key, untrue, 4, say=say)
