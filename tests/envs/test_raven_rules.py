"""Which rules a layout can bear, how often each is drawn, and what a row looks like under it."""

import random
from collections import Counter
from itertools import product

import pytest
from scipy.stats import chisquare

from envs.raven.grammar import CONFIGURATIONS, Layout, configuration_named
from envs.raven.matrix import sample_rows
from envs.raven.rules import RULE_GROUPS, narrowed, sample_rules, valid_rules
from envs.raven.scene import Rule
from envs.raven.solve import holds, rule_views

LAYOUTS = {layout.name: layout for form in CONFIGURATIONS.values() for layout in form.layouts}


def drawn_blindly(rng: random.Random, layouts: tuple[Layout, ...]) -> tuple[Rule, ...] | None:
    """Upstream's way: draw the rules of all components, and give up when a layout cannot bear one of them."""
    rules = []
    for layout in layouts:
        for group in RULE_GROUPS:
            name, attribute, parameters = rng.choice(group)
            rule = Rule(name, attribute, rng.choice(parameters))
            if narrowed(layout, rule) is None:
                return None
            rules.append(rule)
    return tuple(rules)


@pytest.mark.parametrize("name", ["distribute_four", "in_distribute_four_out_center_single"])
def test_rules_are_distributed_as_by_drawing_blindly_and_rejecting(name):
    layouts = configuration_named(name).layouts
    rng, direct, blind = random.Random(5), Counter(), Counter()
    while blind.total() < 10_000:
        if rules := drawn_blindly(rng, layouts):
            blind.update(dict.fromkeys(enumerate(rules), 1))
    while direct.total() < blind.total():
        rules = [rule for layout in layouts for rule in sample_rules(rng, layout)]
        direct.update(dict.fromkeys(enumerate(rules), 1))
    assert set(direct) == set(blind)
    for place in range(4 * len(layouts)):
        group, layout = place % 4, layouts[place // 4]
        weights = valid_rules(layout, group)
        total = sum(weight for _, weight in weights)
        for counts in (direct, blind):
            seen = [counts[place, rule] for rule, _ in weights]
            expected = [sum(seen) * weight / total for _, weight in weights]
            assert chisquare(seen, expected).pvalue > 1e-4 if len(seen) > 1 else seen == expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_first_panels_have_exactly_the_levels_from_which_a_row_can_go_on(name):
    layout = LAYOUTS[name]
    for group, field in ((0, "number"), (1, "type"), (2, "size"), (3, "color")):
        levels = range(getattr(layout, field)[0], getattr(layout, field)[1] + 1)
        for rule_name, attribute, parameters in RULE_GROUPS[group]:
            if rule_name not in ("Progression", "Arithmetic") or attribute == "Position" or len(levels) == 1:
                continue  # of one level, constant
            for parameter in parameters:
                rule = Rule(rule_name, attribute, parameter)
                # Views of numbers are counts, one more than levels; those of the other attributes are levels.
                more = 1 if field == "number" else 0
                possible = {
                    first
                    for first, second, third in product(levels, repeat=3)
                    if holds(rule, [[first + more, second + more, third + more]], len(layout.slots))
                }
                left = narrowed(layout, rule)
                assert possible == (set(range(getattr(left, field)[0], getattr(left, field)[1] + 1)) if left else set())


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_rows_obey_every_rule_that_a_layout_can_bear(name):
    layout, rng = LAYOUTS[name], random.Random(1)
    constant = [Rule("Constant", attribute) for attribute in ("Number/Position", "Type", "Size", "Color")]
    for group in range(4):
        for rule, _ in valid_rules(layout, group):
            rules = (*constant[:group], rule, *constant[group + 1 :])
            for _ in range(10):
                rows = sample_rows(rng, layout, rules)
                views = rule_views([component for row in rows for component in row], rule)
                assert holds(rule, [views[0:3], views[3:6], views[6:9]], len(layout.slots)), (rule, views)


def test_rows_stay_within_their_layout():
    rng = random.Random(2)
    for layout in LAYOUTS.values():
        for _ in range(40):
            for component in [part for row in sample_rows(rng, layout, sample_rules(rng, layout)) for part in row]:
                assert len(component.slots) == component.count
                assert component.slots <= set(range(len(layout.slots)))
                assert layout.number[0] <= component.count - 1 <= layout.number[1]
                for attribute in ("Type", "Size", "Color"):
                    low, high = layout.levels(attribute)
                    assert all(low <= level <= high for level in component.levels(attribute))
                if component.uniform:
                    assert len({(e.type, e.size, e.color, e.angle) for e in component.entities}) == 1


@pytest.mark.slow
def test_white_is_not_added_in_both_of_the_first_rows():
    layout, rng = LAYOUTS["Center_Single"], random.Random(3)
    whites = Counter()
    for sign in (1, -1):
        rules = (Rule("Constant", "Number/Position"), Rule("Constant", "Type"), Rule("Constant", "Size"))
        for _ in range(2000):
            rows = sample_rows(rng, layout, (*rules, Rule("Arithmetic", "Color", sign)))
            whites[tuple(row[1].common("Color") == 0 for row in rows[:2])] += 1
    assert whites[True, True] == 0
    assert min(whites[True, False], whites[False, True]) > 100


def test_an_unknown_configuration_is_named_with_those_that_exist():
    with pytest.raises(ValueError, match=r"'five_by_five'.*distribute_nine"):
        configuration_named("five_by_five")


def test_three_values_are_distributed_where_each_stands_once_in_every_row_and_column():
    rule = Rule("Distribute_Three", "Color")
    rows = [*product(range(3), repeat=3)]
    for square in product(rows, repeat=3):
        lines = [*square, *zip(*square, strict=True)]
        assert holds(rule, square, 1) == all(len({*line}) == 3 for line in lines), square
    for first, second in product(rows, repeat=2):
        columns = [{*column} for column in zip(first, second, strict=True)]
        apart = len({*first}) == len({*second}) == 3 and all(len(column) == 2 for column in columns)
        assert holds(rule, (first, second), 1) == apart, (first, second)
