"""A solver that sees panels only.

It knows which rules exist, not which were used: for every component and rule group it keeps the rules that rows 1 and 2
obey, and the candidate is the answer with which the third row goes on obeying one of them in most groups. Groups in which
no rule holds (noise) say nothing. The generator keeps only answer sets in which this settles on one candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from envs.raven.grammar import ATTRIBUTES, Attribute, Configuration, Layout
from envs.raven.rules import valid_rules
from envs.raven.scene import Component, Panel, Problem, Rule

Mixed = tuple[tuple[int, int], ...]
"""(slot, level) of every entity, by slot, where levels differ."""

View = int | frozenset[int] | Mixed
"""One attribute of one component as a rule sees it: a number of entities, slots, or the level that all entities share."""


def view(component: Component, attribute: Attribute) -> View:
    """What there is to see of an attribute."""
    if attribute == "Number":
        return component.count
    if attribute == "Position":
        return component.slots
    levels = component.levels(attribute)
    if levels.count(levels[0]) == len(levels):
        return levels[0]
    return tuple(sorted(zip((entity.slot for entity in component.entities), levels, strict=True)))


def rule_views(components: Sequence[Component], rule: Rule) -> list[View]:
    """What a rule sees of components."""
    attribute: Attribute = "Position" if rule.attribute == "Number/Position" else rule.attribute
    return [view(component, attribute) for component in components]


def holds(rule: Rule, rows: Sequence[Sequence[View]], slots: int) -> bool:
    """Whether rows of three views obey a rule; Distribute_Three also compares the rows with one another.

    Args:
        rule: the rule with its parameter.
        rows: one, two or three rows.
        slots: number of slots of the layout, at which positions wrap around.
    """
    if rule.name == "Distribute_Three":
        return _distributes(rows)
    if rule.name == "Constant":
        return all(_alike(first, second) and _alike(second, third) for first, second, third in rows)
    if rule.attribute == "Position":
        return all(_holds_for_slots(rule, row, slots) for row in rows)
    return all(_holds_for_levels(rule, row) for row in rows)


def _follows(one: View, other: View, step: int, slots: int) -> bool:
    """Whether every entity kept its level while all moved on by a step, so that each can be told from the others."""
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return one == other
    return {(slot + step) % slots: level for slot, level in one} == dict(other)


def _alike(one: View, other: View) -> bool:
    """Equal; or, where entities stand in other slots, mixed in the same proportion."""
    if one == other:
        return True
    if not isinstance(one, tuple) or not isinstance(other, tuple) or len(one) != len(other):
        return False
    if all(slot == there for (slot, _), (there, _) in zip(one, other, strict=True)):
        return False
    return sorted(level for _, level in one) == sorted(level for _, level in other)


def _distributes(rows: Sequence[Sequence[View]]) -> bool:
    first = list(rows[0])
    if len(set(first)) < 3 or any(isinstance(value, tuple) for value in first):
        return False
    turns = [first[turn:] + first[:turn] for turn in range(3)]
    found = {turns.index(list(row)) if list(row) in turns else -1 for row in rows}
    return -1 not in found and len(found) == len(rows)


def _holds_for_slots(rule: Rule, row: Sequence[View], slots: int) -> bool:
    first, second, third = row
    assert isinstance(first, frozenset) and isinstance(second, frozenset)
    step = rule.parameter
    if rule.name == "Progression":
        once, twice = (frozenset((slot + times * step) % slots for slot in first) for times in (1, 2))
        return second == once and third == twice
    if step > 0:
        return not second <= first and first | second == third
    return not first <= second and first - second == third


def _holds_for_levels(rule: Rule, row: Sequence[View]) -> bool:
    first, second, third = row
    if not (isinstance(first, int) and isinstance(second, int) and isinstance(third, int)):
        return False
    if rule.name == "Progression":
        return second - first == third - second == rule.parameter
    # Sizes count from 1; a number of entities is no level and needs no base.
    base = 1 if rule.attribute == "Size" else 0
    return first + base + rule.parameter * (second + base) == third + base


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

    Where two rules hold, the one that leaves less open is likelier to be meant: sizes that grow step by step may add up by
    accident, and so may the numbers of entities whose very positions add up.
    """
    return (rule.name == "Arithmetic") + 2 * (rule.attribute == "Number")


def judge(configuration: Configuration, context: Sequence[Panel], candidates: Sequence[Panel]) -> Verdict:
    """Count for every candidate the rule groups that it completes."""
    satisfied = [0] * len(candidates)
    chance = [0] * len(candidates)
    for index, layout in enumerate(configuration.layouts):
        given = [panel.components[index] for panel in context]
        offered = [panel.components[index] for panel in candidates]
        for group in range(4):
            least_chances = _least_chances(layout, group, given, offered)
            for number, least in enumerate(least_chances):
                # None: the candidate completes no rule of the group.
                if least is not None:
                    satisfied[number] += 1
                    chance[number] += least
    return Verdict(tuple(satisfied), tuple(chance))


def _least_chances(
    layout: Layout, group: int, given: Sequence[Component], offered: Sequence[Component]
) -> list[int | None]:
    """For every candidate the least that a rule which it completes leaves to chance, None if it completes none."""
    found: list[int | None] = [None] * len(offered)
    slots = len(layout.slots)
    seen: dict[str, list[View]] = {}
    for rule, _ in valid_rules(layout, group):
        if rule.attribute not in seen:
            seen[rule.attribute] = rule_views(given, rule)
        views = seen[rule.attribute]
        rows = [views[0:3], views[3:6]]
        if not holds(rule, rows, slots):
            continue
        chance = _chance(rule)
        # A Constant holds of entities that move, too, if those of the third row move as those above do.
        steps = _shared_steps(rows, given, slots) if rule.name == "Constant" else []
        if steps:
            for number, candidate in enumerate(offered):
                row = [*views[6:8], rule_views([candidate], rule)[0]]
                if _constant_on_the_way(rule, row, [*given[6:8], candidate], steps, slots):
                    found[number] = chance
            continue
        # The three levels of Distribute_Three are those of the rows above.
        earlier = rows if rule.name == "Distribute_Three" else []
        for number, last in enumerate(rule_views(offered, rule)):
            third = [*views[6:8], last]
            if not holds(rule, [*earlier, third], slots):
                continue
            before = found[number]
            found[number] = chance if before is None else min(before, chance)
    return found


def _shared_steps(rows: Sequence[Sequence[View]], given: Sequence[Component], slots: int) -> list[int]:
    """The steps by which all entities of rows 1 and 2 move on from panel to panel, keeping what is constant."""
    places = [component.slots for component in given]
    shared = []
    for step in range(1, slots):
        moving = Rule("Progression", "Position", step)
        if not all(_holds_for_slots(moving, places[start : start + 3], slots) for start in (0, 3)):
            continue
        if all(_follows(one, other, step, slots) for row in rows for one, other in pairwise(row)):
            shared.append(step)
    return shared


def _constant_on_the_way(
    rule: Rule, row: Sequence[View], components: Sequence[Component], steps: Sequence[int], slots: int
) -> bool:
    """Whether a row keeps its levels: each entity its own, where all move by one of the steps; else all together."""
    places = [component.slots for component in components]
    moving = [step for step in steps if _holds_for_slots(Rule("Progression", "Position", step), places, slots)]
    if moving:
        return any(all(_follows(one, other, step, slots) for one, other in pairwise(row)) for step in moving)
    return holds(rule, [row], slots)


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
            values = [_in_full(part, attribute) for part in parts]
            shared = Counter(values)
            scores = [score + shared[value] for score, value in zip(scores, values, strict=True)]
    return tuple(number for number, score in enumerate(scores) if score == max(scores))


def _in_full(component: Component, attribute: Attribute) -> View | tuple[int, ...]:
    """As ``view``, but with the levels of all entities, wherever they stand."""
    if attribute == "Number" or attribute == "Position":
        return view(component, attribute)
    return tuple(sorted(component.levels(attribute)))
