"""What is set right in a written domain without asking: its form, never what an outcome tells."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.kumo.properties import range_of
from evals.suites.kumo.lab.pipeline.repair import repaired, twins
from tests.golden import check_golden

TRUTHS = ("Otter", "Heron", "Fox", "Crab")


def body(outcomes, truths=TRUTHS, **more):
    """A domain with one test of these outcomes, and one that rules out every truth somewhere."""
    every = {f"only {truth}": [other for other in truths if other != truth] for truth in truths}
    actions = {"Look": {"outcomes": outcomes}, "Ask": {"outcomes": every}, **more}
    return {"truths": dict.fromkeys(truths, "It lives there."), "actions": actions}


def outcomes_of(new):
    return new["actions"]["Look"]["outcomes"]


ends = st.integers(0, 30).map(lambda number: number / 2)
ranges = st.lists(st.tuples(ends, ends, st.sets(st.sampled_from(TRUTHS), max_size=3)), min_size=2, max_size=5)


@given(ranges)
def test_ranges_ascend_share_no_number_and_lie_within_those_that_were_listed(listed):
    given_ranges = {f"{low} to {high}": sorted(gone) for low, high, gone in listed}
    new, _ = repaired(body(given_ranges))
    again, notes = repaired(new)
    assert again == new and not notes
    if "Look" not in new["actions"]:
        return  # one range held all others
    parted = [(range_of(outcome), set(gone)) for outcome, gone in outcomes_of(new).items()]
    assert all(one[1] < two[0] for (one, _), (two, _) in itertools.pairwise(parted))
    assert not set.intersection(*(gone for _, gone in parted))
    for (low, high), gone in parted:
        of = [held for text, held in given_ranges.items() if bounds(text)[0] <= low and high <= bounds(text)[1]]
        assert any(gone <= set(held) for held in of), "nothing is ruled out that was not"


def bounds(text):
    return sorted(map(float, text.split(" to ")))


OUTCOMES = [
    {"0 to 1": ["Fox"], "1 to 5": ["Crab"]},
    {"0.0 to 0.5": ["Fox"], "0.5 to 2.5": []},
    {"0 to 0.25": ["Fox"], "0.2 to 2.5": []},
    {"7 to 8": ["Fox"], "9 to 10": [], "0 to 6": ["Crab"]},
    {"5 to 1": ["Fox"], "6 to 9": []},
    {"0 to 50": ["Fox"], "25 to 75": []},
    {"25 to 75": ["Fox"], "0 to 50": []},
    {"0 to 9": ["Fox"], "3 to 4": ["Crab"], "10 to 12": []},
    {"3 to 4": ["Crab"], "0 to 9": ["Fox"], "10 to 12": []},
    {"5": ["Fox"], "5 to 6": [], "6": ["Crab"]},
    {"10 to 20": ["Fox"], "5 to 30": ["Crab"], "0 to 7": []},
    {"20 to 30": [], "10 to 25": ["Fox"], "0 to 12": ["Crab"], "40 to 50": []},
    {"8 to 9": [], "7 to 8": ["Fox"], "0 to 20": ["Crab"]},
    {"0 to 9": ["Fox"], "0 to 4": ["Crab"], "10 to 12": []},
    {"7 to 8": [], "2 to 30": ["Fox"], "2 to 4": ["Crab"], "2 to 3": [], "3": []},
    {"low": ["Fox"], "Low.": ["Crab", "Fox"], "high": []},
    {"low": ["fox", "Gnu", "Yak"], "high": ["Crab", "Crab"]},
    {"low": ["Fox", "Crab"], "high": ["Fox"]},
    {"low": ["Fox", "Crab"], "mid": ["Crab", "Fox", "Otter"], "high": ["Otter", "Fox", "Crab"]},
    {"low": ["Fox"], "1 to 2": [], "1.0 to 2": ["Crab"]},
    {"low": [["Fox"], {"Crab": 1}, None, 7], True: ["Crab"], "high": []},
    {"low": "Fox", "high": []},
    {"low": ["Fox"]},
    {},
]


def test_each_fault_of_form_is_set_right_and_told():
    parts = []
    for listed in OUTCOMES:
        data = body(listed)
        before = json.dumps(data)
        new, notes = repaired(data)
        assert json.dumps(data) == before, "what the model sent stays as it is"
        kept = [name for name in TRUTHS if name in new["truths"]]
        parts += [f"{listed}", f"  {new['actions'].get('Look')} {list(new['actions'])} {kept}"]
        parts += [f"  {note}" for note in notes]
    other = {"fox": {"outcomes": {"a": [], "b": []}}, "Sniff": {"outcomes": {"always": ["Fox"]}}, "Nap": "long"}
    for more in ({}, other):
        data = body({"low": ["FOX"], "high": ["Öttér"]}, **more)
        data["truths"] |= {"Öttér": "The first one again.", "Gnat": "Nothing rules it out.", 1984: "A number."}
        new, notes = repaired(data)
        parts += [f"{list(new['truths'])} {list(new['actions'])}", *(f"  {note}" for note in notes)]
    data = body({"low": ["Fox", "Crab", 7], "high": [7, "Otter"]})
    data["truths"] |= {7: "A number."}
    new, notes = repaired(data)
    parts += [f"{new['actions']['Look']}", *(f"  {note}" for note in notes)]
    three = {"truths": dict.fromkeys("abcd"), "actions": {"A": {"outcomes": {"p": ["a", "b", "c"], "q": []}}}}
    parts += list(twins(three))
    check_golden("kumo_repair", "\n".join(parts))


def test_twins_are_told_and_stay():
    data = body({"low": ["Fox", "Crab"], "high": []})
    data["actions"]["Ask"]["outcomes"] = {"a": ["Otter"], "b": ["Heron"]}
    new, notes = repaired(data)
    assert new == data and not notes
    assert list(twins(new)) == ["truths 'Fox' and 'Crab' are ruled out by just the same outcomes: no game has both"]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"truths": []},
        {"truths": {}, "actions": {"x": 1}},
        {"truths": {"a": 1}, "actions": {"x": {"outcomes": {"a": 1, "b": 2}}}},
    ],
)
def test_what_has_another_shape_is_left_to_the_checks(data):
    assert repaired(data) == (data, [])
