"""The eight candidates of a problem, in two styles.

RAVEN's own: every wrong candidate changes one attribute of the answer, so that the answer is what most candidates share
and can be told without looking at the matrix. I-RAVEN's (Hu et al., "Stratified Rule-Aware Network for Abstract Visual
Reasoning", AAAI 2021): attribute bisection, three attributes each changed in exactly half of the candidates, which gives
nothing away.

One thing is stricter than upstream: a new assignment of levels to the entities of a panel is never a mere permutation of
the answer's, since where slots change along the row a permutation completes the matrix as well as the answer does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Protocol

from envs.raven.grammar import ENTITY_ATTRIBUTES, Attribute, Configuration, EntityAttribute, Layout
from envs.raven.matrix import EntitySampler, copies, moved, with_levels
from envs.raven.scene import Component, Edits, Entity, Panel, Rules, Style, is_noise

Candidate = tuple[Panel, Edits]


class _Change(Protocol):
    """One drawn change of one attribute."""

    def __call__(self, component: Component, *, moved_before: bool) -> Component: ...


class _Alternatives(Protocol):
    """All values that an attribute of the answer could be changed to, each given out once."""

    left: int

    def draw(self) -> _Change: ...


@dataclass
class _Changeable:
    """A component's attribute that candidates may differ in."""

    component: int
    attribute: Attribute
    alternatives: _Alternatives

    def apply(self, change: _Change, candidate: Candidate) -> Candidate:
        panel, edits = candidate
        components = list(panel.components)
        moved_before = (self.component, "Position") in edits
        components[self.component] = change(components[self.component], moved_before=moved_before)
        return Panel(tuple(components)), (*edits, (self.component, self.attribute))


class _Levels:
    """New levels of an entity attribute: one for all entities, or one for each, all unlike the answer's."""

    def __init__(
        self, rng: random.Random, layout: Layout, truth: Component, attribute: EntityAttribute, *, common: bool
    ) -> None:
        low, high = layout.levels(attribute)
        self.attribute = attribute
        self.left = high - low
        old = truth.levels(attribute)
        while True:
            shared = rng.sample(range(low, high + 1), high - low + 1)
            # For each entity the levels that are not its own: all in one order, or each in its own.
            columns = []
            for before in old:
                order = shared if common else rng.sample(shared, len(shared))
                columns.append([level for level in order if level != before])
            self.rows = list(zip(*columns, strict=True))
            if all(sorted(row) != sorted(old) for row in self.rows):
                return

    def draw(self) -> _Change:
        self.left -= 1
        levels = self.rows.pop()

        def change(component: Component, *, moved_before: bool) -> Component:
            return _with(component, with_levels(component.entities, self.attribute, levels))

        return change


class _Positions:
    """Other slot sets of the same size."""

    def __init__(self, rng: random.Random, layout: Layout, truth: Component) -> None:
        slots = range(len(layout.slots))
        sets = combinations(slots, truth.count)
        self.sets = [taken for taken in sets if set(taken) != truth.slots]
        self.left = len(self.sets)
        rng.shuffle(self.sets)

    def draw(self) -> _Change:
        self.left -= 1
        slots = self.sets.pop()
        return lambda component, *, moved_before: _with(component, moved(component.entities, slots))


class _Numbers:
    """Other numbers of entities, in slot sets of which none is used twice.

    ``fill`` makes the entities of a new number; ``spare`` asks for a second slot set, for candidates that have been moved
    before and must not become equal to those that have not.
    """

    def __init__(
        self,
        rng: random.Random,
        layout: Layout,
        truth: Component,
        fill: Callable[[Component, tuple[int, ...]], list[Entity]],
        *,
        spare: bool,
    ) -> None:
        self.rng, self.fill, self.spare = rng, fill, spare
        slots, (low, high) = range(len(layout.slots)), layout.number
        self.sets: dict[int, list[tuple[int, ...]]] = {}
        for count in range(low + 1, high + 2):
            sets = list(combinations(slots, count))
            if count != truth.count and len(sets) > spare:
                self.sets[count] = sets
        self.left = sum(map(len, self.sets.values()))
        for sets in self.sets.values():
            rng.shuffle(sets)

    def draw(self) -> _Change:
        self.left -= 1
        count = self.rng.choice([count for count, sets in self.sets.items() if len(sets) > self.spare])
        plain = self.sets[count].pop()
        other = self.sets[count].pop() if self.spare else plain

        def change(component: Component, *, moved_before: bool) -> Component:
            return _with(component, self.fill(component, other if moved_before else plain))

        return change


def _with(component: Component, entities: list[Entity]) -> Component:
    return Component(tuple(entities), component.uniformity)


def _cloned(component: Component, slots: tuple[int, ...]) -> list[Entity]:
    entities = component.entities
    return [copies(entities[index % len(entities)], (slot,))[0] for index, slot in enumerate(slots)]


def _changeable(
    configuration: Configuration, rules: tuple[Rules, ...], answer: Panel
) -> list[tuple[int, Attribute, int]]:
    """What may be changed: (component, attribute, number of alternatives)."""
    found: list[tuple[int, Attribute, int]] = []
    for index, (layout, own, truth) in enumerate(zip(configuration.layouts, rules, answer.components, strict=True)):
        total, count = len(layout.slots), truth.count
        same_number = comb(total, count)
        options: list[tuple[Attribute, int]] = [("Number", 2**total - 1 - same_number)]
        if own[0].attribute != "Number":
            options.append(("Position", same_number - 1))
        for attribute in ENTITY_ATTRIBUTES:
            if is_noise(own, attribute, uniform=truth.uniform):
                continue
            low, high = layout.levels(attribute)
            options.append((attribute, high - low))
        found += [(index, attribute, ways) for attribute, ways in options if ways > 0]
    return found


def raven_candidates(
    rng: random.Random, configuration: Configuration, rules: tuple[Rules, ...], answer: Panel
) -> list[Candidate]:
    """The answer and seven candidates that each differ from it in one attribute."""
    pool: list[_Changeable] = []
    for index, attribute, _ in _changeable(configuration, rules, answer):
        layout, truth = configuration.layouts[index], answer.components[index]
        alternatives: _Alternatives
        if attribute == "Number":
            sampler = EntitySampler(rng, layout, uniform=truth.uniform)
            alternatives = _Numbers(rng, layout, truth, lambda _, slots, s=sampler: s.draw(slots), spare=False)  # type: ignore[misc]
        elif attribute == "Position":
            alternatives = _Positions(rng, layout, truth)
        else:
            alternatives = _Levels(rng, layout, truth, attribute, common=False)
        pool.append(_Changeable(index, attribute, alternatives))
    candidates: list[Candidate] = [(answer, ())]
    while len(candidates) < 8:
        pool = [each for each in pool if each.alternatives.left > 0]
        chosen = rng.choice(pool)
        candidates.append(chosen.apply(chosen.alternatives.draw(), (answer, ())))
    return candidates


def iraven_candidates(
    rng: random.Random, configuration: Configuration, rules: tuple[Rules, ...], answer: Panel
) -> list[Candidate]:
    """The answer and seven candidates by attribute bisection."""
    pairs = _changeable(configuration, rules, answer)
    chosen = rng.sample(pairs, min(3, len(pairs)))
    # Number comes last, since its entities are copies of those that the other changes have made.
    chosen.sort(key=lambda pair: pair[1] == "Number")
    names = [(index, attribute) for index, attribute, _ in chosen]
    spare = len(chosen) == 3  # with fewer, no candidate is both moved and given another number
    changes = []
    for index, attribute, _ in chosen:
        layout, truth = configuration.layouts[index], answer.components[index]
        alternatives: _Alternatives
        if attribute == "Number":
            alternatives = _Numbers(rng, layout, truth, _cloned, spare=spare and (index, "Position") in names)
        elif attribute == "Position":
            alternatives = _Positions(rng, layout, truth)
        else:
            rule = rules[index][ENTITY_ATTRIBUTES.index(attribute) + 1]
            common = truth.uniform or rule.name != "Constant"
            alternatives = _Levels(rng, layout, truth, attribute, common=common)
        changes.append(_Changeable(index, attribute, alternatives))
    return _bisected(changes, (answer, ()))


def _bisected(changes: list[_Changeable], truth: Candidate) -> list[Candidate]:
    """Eight candidates as I-RAVEN's attribute bisection tree makes them: each level changes one attribute of half of them."""
    candidates = [truth]
    match changes:
        case [_, _, _]:
            for each in changes:
                change = each.alternatives.draw()
                candidates += [each.apply(change, candidate) for candidate in candidates]
            return candidates
        case [only]:  # seven values of the only attribute
            draws = [only.alternatives.draw() for _ in range(7)]
            return candidates + [only.apply(change, truth) for change in draws]
    # One value more of the first attribute, and three of the second for each of both.
    first, second = changes
    candidates.append(first.apply(first.alternatives.draw(), truth))
    if (first.attribute, second.attribute) == ("Position", "Number"):
        # Another number comes with positions of its own.
        for _ in range(6):
            change = second.alternatives.draw()
            candidates.append(second.apply(change, truth))
        return candidates
    for _ in range(3):
        change = second.alternatives.draw()
        candidates += [second.apply(change, candidate) for candidate in candidates[:2]]
    return candidates


CANDIDATES: dict[Style, Callable[[random.Random, Configuration, tuple[Rules, ...], Panel], list[Candidate]]] = {
    "iraven": iraven_candidates,
    "raven": raven_candidates,
}
