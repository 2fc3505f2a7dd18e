"""Which rules a component may have, and how each narrows the levels of a row's first panel.

A component draws one rule per group: an entry uniformly, then its parameter uniformly. Upstream draws the rules of a
whole problem blindly and throws everything away when a layout cannot bear one of them. Whether a rule can be borne
depends on its own group and layout only, so drawing each rule among the bearable ones, with the same weights, gives the
same distribution.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import accumulate

from envs.raven.grammar import Layout, Range
from envs.raven.scene import Rule, RuleName, Rules

_STEPS = (-2, -1, 1, 2)
_SIGNS = (1, -1)
_NONE = (0,)

RULE_GROUPS: tuple[tuple[tuple[RuleName, str, tuple[int, ...]], ...], ...] = (
    (
        ("Progression", "Number", _STEPS),
        ("Progression", "Position", _STEPS),
        ("Arithmetic", "Number", _SIGNS),
        ("Arithmetic", "Position", _SIGNS),
        ("Distribute_Three", "Number", _NONE),
        ("Distribute_Three", "Position", _NONE),
        ("Constant", "Number/Position", _NONE),
    ),
    (
        ("Progression", "Type", _STEPS),
        ("Distribute_Three", "Type", _NONE),
        ("Constant", "Type", _NONE),
    ),
    *(
        (
            ("Progression", attribute, _STEPS),
            ("Arithmetic", attribute, _SIGNS),
            ("Distribute_Three", attribute, _NONE),
            ("Constant", attribute, _NONE),
        )
        for attribute in ("Size", "Color")
    ),
)
"""Groups of (name, attribute, parameters): Number and Position, Type, Size, Color."""


def narrowed(layout: Layout, rule: Rule) -> Layout | None:
    """The layout with the levels that a row's first panel may take under a rule, or None if there are none."""
    if rule.name == "Constant":
        return layout
    if rule.attribute in ("Number", "Position", "Number/Position"):
        number = _narrowed_position(layout, rule) if rule.attribute == "Position" else _narrowed(layout.number, rule)
        return replace(layout, number=number) if number and number[0] <= number[1] else None
    field = {"Type": "type", "Size": "size", "Color": "color"}[rule.attribute]
    levels = _narrowed(getattr(layout, field), rule)
    return replace(layout, **{field: levels}) if levels and levels[0] <= levels[1] else None  # type: ignore[arg-type]


def _narrowed(levels: Range, rule: Rule) -> Range | None:
    """The levels of a row's first panel that leave room for those of the other two."""
    low, high = levels
    step = rule.parameter
    if rule.name == "Progression":  # the third panel is two steps on
        if step > 0:
            return low, high - 2 * step
        return low - 2 * step, high
    if rule.name == "Distribute_Three":  # three different levels
        if high - low < 2:
            return None
        return levels
    # Arithmetic: the third is the sum, or the difference, of the first and second. Colors add from 0, numbers and sizes
    # from 1.
    least = 1
    if rule.attribute == "Color":
        least = 0
        if high - low < 1:
            return None
    if step > 0:
        return low, high - low - least
    return 2 * low + least, high


def _narrowed_position(layout: Layout, rule: Rule) -> Range | None:
    low, high = layout.number
    if rule.name == "Progression":
        return low, high - 2 * abs(rule.parameter)
    if rule.name == "Distribute_Three":
        return (low, high - 1) if len(layout.slots) >= 3 else None
    return (low, high - 1) if rule.parameter > 0 else ((high + 2) // 2 - 1, high - 1)


@cache
def valid_rules(layout: Layout, group: int) -> tuple[tuple[Rule, float], ...]:
    """The rules of a group (0..3) that a layout can bear, with their weights under uniform drawing (not normalized)."""
    found = []
    for name, attribute, parameters in RULE_GROUPS[group]:
        for parameter in parameters:
            rule = Rule(name, attribute, parameter)  # type: ignore[arg-type]
            if narrowed(layout, rule) is not None:
                found.append((rule, 1.0 / len(parameters)))
    return tuple(found)


@cache
def _wheel(layout: Layout, group: int, changing: bool | None) -> tuple[tuple[Rule, ...], tuple[float, ...]]:
    """The valid rules of a group with their cumulated weights; with ``changing`` only those that change something, or not."""
    valid = []
    for rule, weight in valid_rules(layout, group):
        changes = rule.name != "Constant"
        if changing is None or changes == changing:
            valid.append((rule, weight))
    rules, weights = zip(*valid, strict=True)
    return rules, tuple(accumulate(weights))


def _can_change(layout: Layout, group: int) -> bool:
    """Whether a rule of the group changes something."""
    return any(rule.name != "Constant" for rule, _ in valid_rules(layout, group))


def sample_rules(rng: random.Random, layout: Layout, changing: int | None = None) -> Rules:
    """One valid rule from each group; ``changing`` of them, as far as the layout can bear it, change something."""
    kinds: list[bool | None] = [None] * 4
    if changing is not None:
        able = [group for group in range(4) if _can_change(layout, group)]
        chosen = rng.sample(able, min(changing, len(able)))
        kinds = [group in chosen for group in range(4)]
    drawn = []
    for group, kind in enumerate(kinds):
        rules, weights = _wheel(layout, group, kind)
        drawn.append(rng.choices(rules, cum_weights=weights)[0])
    return drawn[0], drawn[1], drawn[2], drawn[3]


def first_panel_layout(layout: Layout, rules: Rules) -> Layout:
    """The layout narrowed by all four rules.

    Raises:
        ValueError: the layout cannot bear one of them.
    """
    for rule in rules:
        result = narrowed(layout, rule)
        if result is None:
            raise ValueError(f"layout {layout.name} cannot bear {rule.name} of {rule.attribute} by {rule.parameter}")
        layout = result
    return layout
