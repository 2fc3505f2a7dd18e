"""A solver that sees panels only.

It knows which rules exist, not which were used: for every component and rule group it keeps the rules that rows 1 and 2
obey, and the candidate is the answer with which the third row goes on obeying one of them in most groups. Groups in which
no rule holds (noise) say nothing. The generator keeps only answer sets in which this settles on one candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from envs.raven.grammar import ATTRIBUTES, ENTITY_ATTRIBUTES, Configuration, Layout
from envs.raven.rules import valid_rules
from envs.raven.scene import Component, Panel, Problem, Rule

Row = tuple[Component, Component, Component]


def holds(rule: Rule, rows: Sequence[Row], layout: Layout) -> bool:
    """Whether rows of one component obey a rule; Distribute_Three also compares the rows with one another."""
    if rule.name == "Distribute_Three":
        return _distributes([[_value(rule, component) for component in row] for row in rows])
    return all(_holds_in_row(rule, row, layout) for row in rows)


def _value(rule: Rule, component: Component) -> object:
    """What the rule is about: a number, a set of slots, or the level that all entities share (None if there is none)."""
    if rule.attribute == "Number":
        return component.count
    if rule.attribute in ("Position", "Number/Position"):
        return component.slots
    return component.common(rule.attribute)  # type: ignore[arg-type]


def _distributes(rows: list[list[object]]) -> bool:
    first = rows[0]
    if None in first or len(set(first)) < 3:
        return False
    turns = [first[turn:] + first[:turn] for turn in range(3)]
    found = [turns.index(row) if row in turns else -1 for row in rows]
    return -1 not in found and len(set(found)) == len(rows)


def _holds_in_row(rule: Rule, row: Row, layout: Layout) -> bool:
    if rule.name == "Constant" and rule.attribute in ENTITY_ATTRIBUTES:
        return _constant(rule, row)
    first, second, third = (_value(rule, component) for component in row)
    if rule.name == "Constant":
        return first == second == third
    if isinstance(first, frozenset) and isinstance(second, frozenset):
        step, total = rule.parameter, len(layout.slots)
        if rule.name == "Progression":
            shifted = [frozenset((slot + k * step) % total for slot in first) for k in (1, 2)]
            return shifted == [second, third]
        if step > 0:
            return not second <= first and first | second == third
        return not first <= second and first - second == third
    if not (isinstance(first, int) and isinstance(second, int) and isinstance(third, int)):
        return False
    if rule.name == "Progression":
        return second - first == third - second == rule.parameter
    base = 1 if rule.attribute == "Size" else 0  # sizes count from 1; counts are no levels and need no base
    return first + base + rule.parameter * (second + base) == third + base


def _constant(rule: Rule, row: Row) -> bool:
    attribute = rule.attribute
    assert attribute == "Type" or attribute == "Size" or attribute == "Color"
    if row[0].slots == row[1].slots == row[2].slots:
        one, two, three = ({entity.slot: entity.level(attribute) for entity in part.entities} for part in row)
    else:
        one, two, three = (Counter(component.levels(attribute)) for component in row)
    if one == two == three:
        return True
    common = [component.common(attribute) for component in row]
    return common[0] is not None and common[0] == common[1] == common[2]


@dataclass(frozen=True)
class Verdict:
    """What the solver found."""

    satisfied: tuple[int, ...]
    """Per candidate, the number of rule groups that it completes."""
    chance: tuple[int, ...]
    """Per candidate, how much the rules that it completes leave to chance; of equals the lowest is likeliest."""

    @property
    def answers(self) -> tuple[int, ...]:
        """The candidates that complete most groups; one, unless the problem is ambiguous."""
        best = max(self.satisfied)
        return tuple(index for index, count in enumerate(self.satisfied) if count == best)

    @property
    def answer(self) -> int:
        """The one of ``answers`` that leaves least to chance, 0..7."""
        return min(self.answers, key=lambda index: self.chance[index])


def _chance(rule: Rule) -> int:
    """How much of a row the rule leaves open once its first panel is known.

    Rows that progress from small to large may also add up, by accident; the reverse would be no accident.
    """
    return (rule.name == "Arithmetic") + (rule.attribute == "Number")


def judge(configuration: Configuration, context: Sequence[Panel], candidates: Sequence[Panel]) -> Verdict:
    """Count for every candidate the rule groups that it completes."""
    satisfied, chance = [0] * len(candidates), [0] * len(candidates)
    for index, layout in enumerate(configuration.layouts):
        parts = [panel.components[index] for panel in context]
        rows: list[Row] = [(parts[0], parts[1], parts[2]), (parts[3], parts[4], parts[5])]
        completed: list[Row] = [(parts[6], parts[7], panel.components[index]) for panel in candidates]
        for group in range(4):
            possible = [rule for rule, _ in valid_rules(layout, group) if holds(rule, rows, layout)]
            for number, row in enumerate(completed):
                kept = [
                    _chance(rule)
                    for rule in possible
                    if holds(rule, [*rows, row] if rule.name == "Distribute_Three" else [row], layout)
                ]
                if kept:
                    satisfied[number] += 1
                    chance[number] += min(kept)
    return Verdict(tuple(satisfied), tuple(chance))


def solve(problem: Problem) -> Verdict:
    """Judge a problem by its panels alone."""
    return judge(problem.configuration, problem.context, problem.candidates)


def majority_vote(problem: Problem) -> tuple[int, ...]:
    """The candidates that share most with the others, attribute by attribute, without a look at the matrix.

    More than one where they tie. On RAVEN's answer sets this finds the answer nearly always, on I-RAVEN's no more often
    than chance.
    """
    scores = [0] * len(problem.candidates)
    for index in range(len(problem.configuration.layouts)):
        parts = [panel.components[index] for panel in problem.candidates]
        for attribute in ATTRIBUTES:
            values = [_seen(component, attribute) for component in parts]
            shared = Counter(values)
            scores = [score + shared[value] for score, value in zip(scores, values, strict=True)]
    return tuple(number for number, score in enumerate(scores) if score == max(scores))


def _seen(component: Component, attribute: str) -> object:
    if attribute == "Number":
        return component.count
    if attribute == "Position":
        return component.slots
    levels = {entity.slot: entity.level(attribute) for entity in component.entities}  # type: ignore[arg-type]
    return tuple(levels[slot] for slot in sorted(levels))
