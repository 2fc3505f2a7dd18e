"""Halves of a KUMO domain: unconnected, whole, balanced, and playable like any domain."""

import dataclasses

import pytest

from envs.kumo import domain_from, load_domain
from envs.kumo.domain import Action, Domain, DomainError, Noun, State
from envs.kumo.split import components, parse_part, split_of


def domain_of(groups, idle=0):
    """A domain of unconnected groups: for each its numbers of truths and of tests, whose outcomes chain the truths."""
    truths, actions = [], []
    for group, (size, tests) in enumerate(groups):
        own = [f"t{group}.{place}" for place in range(size)]
        truths += own
        for place in range(tests):
            pair = own[place % size], own[(place + 1) % size]
            states = State("a", (pair[0],)), State("b", (pair[1],)), State("c", ())
            actions.append(Action(f"a{group}.{place}", "str", states))
    actions += [Action(f"idle {place}", "str", (State("a", ()), State("b", ()))) for place in range(idle)]
    noun = Noun("thing", "things")
    order = sorted(range(len(actions)), key=lambda place: (place % 3, place))  # groups are not in one piece
    return Domain("made", "Made", "Find it.", noun, noun, tuple(truths), tuple(actions[place] for place in order))


def sizes(domain):
    return [(len(part.truths), len(part.tests)) for part in components(domain)]


def test_components_are_what_tests_connect_largest_first():
    assert sizes(domain_of([(4, 4), (9, 9), (6, 7)])) == [(9, 9), (6, 7), (4, 4)]
    assert sizes(domain_of([(5, 5)])) == [(5, 5)]


def test_a_test_that_rules_nothing_out_belongs_to_no_component():
    domain = domain_of([(7, 8), (7, 8)], idle=2)
    assert sizes(domain) == [(7, 8), (7, 8)]
    assert not any("idle" in action.name for part in split_of(domain) for action in part.actions)


def test_a_late_test_can_join_two_groups():
    domain = domain_of([(5, 5), (6, 6), (7, 7)])
    bridge = Action("bridge", "str", (State("a", ("t0.0",)), State("b", ("t2.1",))))
    joined = dataclasses.replace(domain, actions=(*domain.actions, bridge))
    assert sizes(joined) == [(12, 13), (6, 6)]


@pytest.mark.parametrize(
    ("groups", "parts"),
    [
        ([(10, 10), (9, 9)], (10, 9)),
        ([(12, 12), (8, 8), (7, 7), (6, 6)], (18, 15)),  # not the largest against the rest, nor one after the other
        ([(20, 20), (10, 10), (10, 10)], (20, 20)),
    ],
)
def test_parts_are_as_near_to_equal_as_components_allow(groups, parts):
    assert tuple(len(part.truths) for part in split_of(domain_of(groups))) == parts


@pytest.mark.parametrize("groups", [[(30, 30)], [(30, 30), (12, 12)], [(7, 7), (3, 6)], [(9, 9), (8, 5)]])
def test_there_are_no_parts_without_balance_or_with_too_little(groups):
    assert split_of(domain_of(groups)) is None


def test_three_tenths_of_the_truths_are_enough():
    assert split_of(domain_of([(28, 28), (12, 12)])) is not None


@pytest.mark.parametrize("name", ["reptiles", "seashells", "landforms", "bone_fractures"])
def test_parts_of_our_domains_share_nothing_and_lose_nothing(name):
    whole, larger, smaller = load_domain(name), domain_from(f"{name}@in"), domain_from(f"{name}@out")
    assert (larger.name, smaller.name) == (f"{name}@in", f"{name}@out")
    assert set(larger.truths).isdisjoint(smaller.truths) and {*larger.truths, *smaller.truths} == {*whole.truths}
    tests = [{action.name for action in part.actions} for part in (larger, smaller)]
    assert tests[0].isdisjoint(tests[1]) and tests[0] | tests[1] == {action.name for action in whole.actions}
    assert len(larger.truths) >= len(smaller.truths) >= 0.3 * len(whole.truths)
    for part in (larger, smaller):
        for action in part.actions:
            original = next(each for each in whole.actions if each.name == action.name)
            assert action == original, "no rule is cut"
            assert all(truth in part.truths for state in action.states for truth in state.rules_out)


def test_a_part_can_be_permuted():
    assert set(domain_from("permuted:0:reptiles@in").truths) == set(domain_from("reptiles@in").truths)


def test_a_connected_domain_has_no_parts_and_says_so():
    with pytest.raises(DomainError, match=str(len(load_domain("medical").truths))):
        domain_from("medical@in")
    with pytest.raises(DomainError, match="no domain 'nothing'"):
        domain_from("nothing@out")


def test_only_in_and_out_are_parts():
    assert parse_part("reptiles@in") == ("reptiles", "in")
    assert parse_part("a@b@out") == ("a@b", "out")
    assert [parse_part(name) for name in ("reptiles", "reptiles@up", "@in", "in")] == [None] * 4
