"""A domain file is read faithfully or refused with errors that name domain, action and state."""

import argparse
import copy

import pytest
import yaml

from envs.kumo import DomainError, available_domains, commands, load_domain
from envs.kumo.domain import parse_domain
from tests.envs.kumo_games import toy_yaml


def test_a_domain_keeps_what_its_file_says(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(yaml.safe_dump(toy_yaml()))
    domain = load_domain(path)
    assert load_domain(str(path)) == domain
    assert (domain.name, domain.truth.plural, domain.truths) == ("toy", "fruits", ("Apple", "Banana", "Cherry"))
    weight = domain.actions[1]
    assert (weight.unit, weight.states[1].value, weight.states[0].rules_out) == ("g", (50.0, 99.5), ("Apple", "Banana"))
    assert weight.states[1].text == "50 to 99.5"
    assert domain.rules_out == ((0b010, 0b100), (0b011, 0, 0b100))


def test_ranges_include_both_ends_and_nothing_between_them():
    weight = parse_domain(toy_yaml(), "toy").actions[1]
    assert [weight.state_of(x).value[0] for x in (1, 20, 50, 99.5, 100)] == [1, 1, 50, 50, 100]
    with pytest.raises(ValueError, match=r"'Weight' has no outcome 30; it has 1 to 20, 50 to 99.5, 100 to 200"):
        weight.state_of(30)


def damaged(change) -> list[str]:
    data = copy.deepcopy(toy_yaml())
    change(data)
    with pytest.raises(DomainError) as caught:
        parse_domain(data, "toy")
    assert isinstance(caught.value, ValueError)
    return list(caught.value.problems)


def colour(data):
    return data["actions"][0]


def weight_states(data):
    return data["actions"][1]["states"]


CASES = {
    "unknown truth": (
        lambda d: colour(d)["states"][0]["rules_out"].append("Bananna"),
        ["action 'Colour'", "state 'red'", "'Bananna'", "did you mean 'Banana'"],
    ),
    "duplicate truth": (lambda d: d["truths"].append("apple"), ["duplicate name", "'apple'"]),
    "duplicate action": (lambda d: d["actions"].append(copy.deepcopy(colour(d))), ["duplicate name", "'Colour'"]),
    "duplicate state": (
        lambda d: colour(d)["states"].append({"state": "red", "rules_out": []}),
        ["action 'Colour'", "duplicate state", "'red'"],
    ),
    "duplicate rule-out": (
        lambda d: colour(d)["states"][0]["rules_out"].append("Banana"),
        ["action 'Colour'", "state 'red'", "duplicate entry of rules_out", "'Banana'"],
    ),
    "truth that is an action": (lambda d: colour(d).update(name="Apple"), ["duplicate name", "'Apple'"]),
    "ruled out in every state": (
        lambda d: [s["rules_out"].append("Apple") for s in weight_states(d)[1:]],
        ["action 'Weight'", "every state rules out 'Apple'"],
    ),
    "overlapping ranges": (
        lambda d: weight_states(d)[0].update(state=[1, 60]),
        ["action 'Weight'", "[1.0, 60.0] and [50.0, 99.5] overlap"],
    ),
    "touching ranges": (
        lambda d: weight_states(d)[0].update(state=[1, 50]),
        ["action 'Weight'", "[1.0, 50.0] and [50.0, 99.5] overlap"],
    ),
    "descending ranges": (
        lambda d: weight_states(d).reverse(),
        ["action 'Weight'", "[50.0, 99.5] stands after [100.0, 200.0]"],
    ),
    "reversed range": (
        lambda d: weight_states(d)[1].update(state=[99.5, 50]),
        ["action 'Weight'", "state [99.5, 50]", "reversed"],
    ),
    "range of one number": (lambda d: weight_states(d)[1].update(state=50), ["action 'Weight'", "state 50", "range"]),
    "endless range": (
        lambda d: weight_states(d)[2].update(state=[100, float("inf")]),
        ["action 'Weight'", "state [100, inf]", "finite"],
    ),
    "state that is not text": (
        lambda d: colour(d)["states"][0].update(state=True),
        ["action 'Colour'", "state True", "put it in quotes"],
    ),
    "unknown outcome type": (lambda d: colour(d).update(outcome="int"), ["action 'Colour'", "'int'", "str or float"]),
    "unit of names": (lambda d: colour(d).update(unit="g"), ["action 'Colour'", "unit"]),
    "unknown key": (lambda d: colour(d).update(colour=1), ["action 'Colour'", "unknown key 'colour'"]),
    "missing key": (lambda d: d.pop("goal"), ["domain 'toy'", "'goal' is missing"]),
    "missing rule-outs": (
        lambda d: colour(d)["states"][0].pop("rules_out"),
        ["action 'Colour'", "state 'red'", "'rules_out' is missing"],
    ),
    "one state": (lambda d: colour(d)["states"].pop(), ["action 'Colour'", "at least 2"]),
    "truths that are no list": (lambda d: d.update(truths="Apple"), ["truths must be a list, not str"]),
    "action that is no mapping": (lambda d: d["actions"].append("Smell"), ["action number 3", "mapping"]),
    "untouchable truth": (lambda d: d["truths"].append("Durian"), ["truth 'Durian' can be ruled out by no action"]),
    "truth without a letter": (lambda d: d["truths"].append("+/-"), ["truth '+/-'", "a letter or a digit"]),
    "truth in a tag": (lambda d: d["truths"].append("<Fig>"), ["truth '<Fig>'", "neither < nor >"]),
    "action without a letter": (lambda d: colour(d).update(name="???"), ["action '???'", "a letter or a digit"]),
    "another name": (lambda d: d.update(name="fruit"), ["'fruit'", "'toy'"]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named_with_its_place(case):
    change, words = CASES[case]
    problems = damaged(change)
    matching = [problem for problem in problems if all(word in problem for word in words)]
    assert matching, problems
    assert matching[0].startswith("domain 'toy'")


def test_all_problems_are_listed_at_once():
    def change(data):
        data["truths"].append("apple")
        weight_states(data)[1].update(state=[99.5, 50])
        colour(data)["states"][0]["rules_out"].append("Fig")

    assert len(damaged(change)) == 3


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("name: [toy", "damaged YAML"),
        ("name: toy\nname: toy\n", "occurs twice"),
        ("", "expected a mapping"),
        ("\x00", "damaged YAML"),
    ],
)
def test_damaged_files_are_refused(tmp_path, text, word):
    path = tmp_path / "toy.yaml"
    path.write_text(text)
    with pytest.raises(DomainError, match=word):
        load_domain(path)


def test_an_unknown_domain_is_named_beside_those_that_exist():
    with pytest.raises(DomainError, match=r"no domain 'medicine'; available: .*medical"):
        load_domain("medicine")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope.yaml", "no file 'nope.yaml'"),
        ("sub/nope", "no file 'sub/nope'"),
        ("folder", "'folder' is a folder, not the YAML file of a domain"),
        ("./folder", "'./folder' is a folder, not the YAML file of a domain"),
    ],
)
def test_a_path_that_is_no_file_is_said_to_be_none(name, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert check(name) == 2
    assert capsys.readouterr().err == f"{message}\n"


def check(*names):
    parser = argparse.ArgumentParser()
    commands.add_arguments(parser)
    return commands.main(parser.parse_args(["check", *names]))


def test_checking_files_ends_with_exit_code_two_for_bad_ones(tmp_path, capsys):
    good, bad = tmp_path / "toy.yaml", tmp_path / "bad.yaml"
    good.write_text(yaml.safe_dump(toy_yaml()))
    bad.write_text(yaml.safe_dump({**toy_yaml(), "name": "bad", "truths": ["Apple", "Banana"]}))
    assert check(str(good)) == 0
    assert "ok, 3 truths, 2 actions" in capsys.readouterr().out
    assert check(str(good), str(bad)) == 2
    problems = capsys.readouterr().err.splitlines()
    assert len(problems) == 2 and all(p.startswith(f"{bad}: domain 'bad'") and "'Cherry'" in p for p in problems)


@pytest.mark.parametrize("name", ["chemical", "education", "fantasy", "medical", "music"])
def test_the_five_domains_are_large_and_of_both_outcome_types(name):
    assert name in available_domains()
    domain = load_domain(name)
    assert len(domain.truths) >= 50
    assert len(domain.actions) >= 30
    assert {action.outcome for action in domain.actions} == {"str", "float"}
