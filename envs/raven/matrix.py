"""The nine panels of one component under its four rules, three rows of three.

Rows draw their first panels independently; what a rule has drawn for itself (the three values of a Distribute_Three,
say) is shared by the rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from envs.raven.grammar import ANGLE_VALUES, ENTITY_ATTRIBUTES, EntityAttribute, Layout, Range
from envs.raven.rules import first_panel_layout
from envs.raven.scene import Component, Entity, Rule, Rules

Levels = tuple[int, int, int]
Slots = tuple[int, ...]
Row = tuple[Component, Component, Component]


class _LevelRule(Protocol):
    def row(self, start: int) -> Levels:
        """The levels of a row whose first panel was drawn with level ``start`` (which the rule may overrule)."""
        ...


class _Progression:
    def __init__(self, step: int) -> None:
        self.step = step

    def row(self, start: int) -> Levels:
        return start, start + self.step, start + 2 * self.step


class _DistributeThree:
    """Row 1 is (a, b, c); rows 2 and 3 are its two rotations in random order."""

    def __init__(self, rng: random.Random, levels: Range) -> None:
        self.rng, self.levels = rng, levels
        self.values: list[int] = []
        self.turns = _rotations(rng)

    def row(self, start: int) -> Levels:
        if not self.values:
            low, high = self.levels
            others = [level for level in range(low, high + 1) if level != start]
            self.values = [start, *self.rng.sample(others, 2)]
        turn = self.turns.pop()
        a, b, c = (self.values[(turn + column) % 3] for column in range(3))
        return a, b, c


class _Arithmetic:
    """Third level = first plus or minus second; numbers and sizes count from 1, colors from 0."""

    def __init__(self, rng: random.Random, rule: Rule, levels: Range, first: Range) -> None:
        self.rng, self.sign, self.levels, self.first = rng, rule.parameter, levels, first
        self.base = 0 if rule.attribute == "Color" else 1
        self.seconds: list[int] = []

    def row(self, start: int) -> Levels:
        low, high = self.levels
        adds = self.sign > 0
        least = low
        if self.base == 0 and self.seconds == [0]:
            # Adding or taking away white in rows 1 and 2 would leave open which of the two the rule does.
            no_room = self.first[1] if adds else 0
            while start == no_room:
                start = self.rng.randint(*self.first)
            least = max(low, 1)
        # What is added, or taken away, leaves the third panel within the levels.
        room = high - start if adds else start - low
        second = self.rng.randint(least, room - self.base)
        self.seconds.append(second)
        return start, second, start + self.sign * (second + self.base)


def _rotations(rng: random.Random) -> list[int]:
    """How far each row is rotated, last row first."""
    return [*rng.sample((1, 2), 2), 0]


def _level_rule(rng: random.Random, rule: Rule, levels: Range, first: Range) -> _LevelRule:
    if rule.name == "Progression":
        return _Progression(rule.parameter)
    if rule.name == "Arithmetic":
        return _Arithmetic(rng, rule, levels, first)
    return _DistributeThree(rng, levels)


class _PlaceRule:
    """The rule on Number or Position: which slots are taken, and whether entities are drawn anew."""

    def __init__(self, rng: random.Random, rule: Rule, layout: Layout, first: Layout) -> None:
        self.rng, self.rule, self.first, self.slots = rng, rule, first, range(len(layout.slots))
        self.redraws = rule.attribute == "Number" or (rule.attribute == "Position" and rule.name == "Arithmetic")
        self.counts = _level_rule(rng, rule, layout.number, first.number) if rule.attribute == "Number" else None
        self.trio: list[Slots] = []
        self.turns = _rotations(rng)

    def draw(self, count: int) -> Slots:
        """Distinct slots in random order."""
        return tuple(self.rng.sample(self.slots, count))

    def row(self) -> tuple[Slots, Slots, Slots]:
        """Slots of the three panels of the next row."""
        number = self.rng.randint(*self.first.number)
        if self.counts is not None:
            one, two, three = (self.draw(level + 1) for level in self.counts.row(number))
            return one, two, three
        start = self.draw(number + 1)
        match self.rule.name:
            case "Constant":
                return start, start, start
            case "Progression":
                return start, self._moved_on(start, 1), self._moved_on(start, 2)
            case "Arithmetic":
                return self._arithmetic(start)
            case _:
                return self._distribute_three(start)

    def _moved_on(self, start: Slots, times: int) -> Slots:
        steps = times * self.rule.parameter
        return tuple((slot + steps) % len(self.slots) for slot in start)

    def _arithmetic(self, start: Slots) -> tuple[Slots, Slots, Slots]:
        first = set(start)
        while True:
            drawn = self.draw(self.rng.randint(*self.first.number) + 1)
            second = set(drawn)
            if self.rule.parameter > 0 and not second <= first:
                return start, drawn, tuple(sorted(first | second))
            if self.rule.parameter < 0 and not first <= second:
                return start, drawn, tuple(sorted(first - second))

    def _distribute_three(self, start: Slots) -> tuple[Slots, Slots, Slots]:
        if not self.trio:
            self.trio = [start]
            while len(self.trio) < 3:
                drawn = self.draw(len(start))
                if all(set(drawn) != set(slots) for slots in self.trio):
                    self.trio.append(drawn)
        turn = self.turns.pop()
        one, two, three = (self.trio[(turn + column) % 3] for column in range(3))
        return one, two, three


class EntitySampler:
    """Draws the attributes of entities; entities of a uniform component are copies of one another."""

    def __init__(self, rng: random.Random, layout: Layout, *, uniform: bool) -> None:
        self.rng, self.layout, self.uniform = rng, layout, uniform

    def draw(self, slots: Slots) -> list[Entity]:
        """One entity per slot."""
        if self.uniform:
            return copies(self._one(slots[0]), slots)
        return [self._one(slot) for slot in slots]

    def _one(self, slot: int) -> Entity:
        layout, randint = self.layout, self.rng.randint
        angle = self.rng.randrange(len(ANGLE_VALUES))
        return Entity(slot, randint(*layout.type), randint(*layout.size), randint(*layout.color), angle)


def copies(entity: Entity, slots: Slots) -> list[Entity]:
    """The entity in each of the slots."""
    return [Entity(slot, entity.type, entity.size, entity.color, entity.angle) for slot in slots]


def moved(entities: Sequence[Entity], slots: Slots) -> list[Entity]:
    """The same entities, in order, in other slots."""
    return [
        Entity(slot, entity.type, entity.size, entity.color, entity.angle)
        for entity, slot in zip(entities, slots, strict=True)
    ]


def with_levels(entities: Sequence[Entity], attribute: EntityAttribute, levels: Sequence[int]) -> list[Entity]:
    """The same entities with new levels of one attribute."""
    if attribute == "Type":
        return [Entity(e.slot, level, e.size, e.color, e.angle) for e, level in zip(entities, levels, strict=True)]
    if attribute == "Size":
        return [Entity(e.slot, e.type, level, e.color, e.angle) for e, level in zip(entities, levels, strict=True)]
    return [Entity(e.slot, e.type, e.size, level, e.angle) for e, level in zip(entities, levels, strict=True)]


def sample_rows(rng: random.Random, layout: Layout, rules: Rules) -> tuple[Row, Row, Row]:
    """Three rows of one component, the last of which ends in the answer."""
    uniformity = rng.randrange(4)
    first = first_panel_layout(layout, rules)
    sampler = EntitySampler(rng, first, uniform=uniformity == 3)
    place = _PlaceRule(rng, rules[0], layout, first)
    level_rules = {
        attribute: _level_rule(rng, rule, layout.levels(attribute), first.levels(attribute))
        for attribute, rule in zip(ENTITY_ATTRIBUTES, rules[1:], strict=True)
        if rule.name != "Constant"
    }

    def row() -> Row:
        slots = place.row()
        panels = [sampler.draw(slots[0])]
        for taken in slots[1:]:
            if not place.redraws:
                panels.append(moved(panels[0], taken))
            elif sampler.uniform:
                panels.append(copies(panels[0][0], taken))
            else:
                panels.append(sampler.draw(taken))
        for attribute, rule in level_rules.items():
            # A rule that changes an attribute makes it the same for all entities of a panel.
            for column, level in enumerate(rule.row(panels[0][0].level(attribute))):
                panels[column] = with_levels(panels[column], attribute, [level] * len(panels[column]))
        one, two, three = (Component(tuple(entities), uniformity) for entities in panels)
        return one, two, three

    return row(), row(), row()
