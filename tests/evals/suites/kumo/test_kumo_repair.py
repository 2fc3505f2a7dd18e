"""What is set right in a written domain without asking: its form, never what an outcome tells."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.kumo.properties import range_of
from evals.suites.kumo.lab.pipeline.repair import repaired, twins

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


@pytest.mark.parametrize(
    ("given_outcomes", "expected"),
    [
        ({"0 to 1": ["Fox"], "1 to 5": ["Crab"]}, {"0 to 1": ["Fox"], "2 to 5": ["Crab"]}),
        ({"0.0 to 0.5": ["Fox"], "0.5 to 2.5": []}, {"0.0 to 0.5": ["Fox"], "0.6 to 2.5": []}),
        ({"7 to 8": ["Fox"], "9 to 10": [], "0 to 6": ["Crab"]}, {"0 to 6": ["Crab"], "7 to 8": ["Fox"], "9 to 10": []}),
        ({"5 to 1": ["Fox"], "6 to 9": []}, {"1 to 5": ["Fox"], "6 to 9": []}),
        ({"0 to 50": ["Fox"], "25 to 75": []}, {"0 to 50": ["Fox"], "51 to 75": []}),
        ({"25 to 75": ["Fox"], "0 to 50": []}, {"0 to 24": [], "25 to 75": ["Fox"]}),
        ({"0 to 9": ["Fox"], "3 to 4": ["Crab"], "10 to 12": []}, {"0 to 9": ["Fox"], "10 to 12": []}),
        ({"low": ["Fox"], "Low.": ["Crab"], "high": []}, {"low": ["Fox", "Crab"], "high": []}),
        ({"low": ["fox", "Gnu"], "high": ["Crab", "Crab"]}, {"low": ["Fox"], "high": ["Crab"]}),
        ({"low": ["Fox", "Crab"], "high": ["Fox"]}, {"low": ["Crab"], "high": []}),
        ({"low": ["Fox"], "1 to 2": []}, {"low": ["Fox"], "1 to 2": []}),
    ],
)  # fmt: skip
def test_each_fault_of_form_is_set_right_and_told(given_outcomes, expected):
    new, notes = repaired(body(given_outcomes))
    assert list(outcomes_of(new).items()) == list(expected.items())
    assert bool(notes) == (list(given_outcomes.items()) != list(expected.items()))


def test_names_that_occur_twice_or_tell_nothing_are_left_out():
    other = {"fox": {"outcomes": {"a": [], "b": []}}, "Sniff": {"outcomes": {"always": ["Fox"]}}}
    data = body({"low": ["FOX"], "high": ["Öttér"]}, **other)
    data["truths"] |= {"Öttér": "The first one again.", "Gnat": "Nothing rules it out."}
    before = json.dumps(data)
    new, notes = repaired(data)
    assert tuple(new["truths"]) == TRUTHS and set(new["actions"]) == {"Look", "Ask"}
    assert len([note for note in notes if "left out" in note or "is the same" in note]) == 4
    assert json.dumps(data) == before, "what the model sent stays as it is"


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
