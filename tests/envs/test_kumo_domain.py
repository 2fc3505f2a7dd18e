"""A domain file is read faithfully or refused with errors that name domain, action and outcome."""

import argparse
import copy
import re
from pathlib import Path

import pytest
import yaml

from envs.kumo import DomainError, load_domain
from envs.kumo.domain import Action, State
from envs.kumo.domain_file import parse_domain
from envs.kumo.names import words
from evals.suites.kumo import validate
from tests.envs.kumo_games import toy_yaml


def test_a_domain_keeps_what_its_file_says(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(yaml.safe_dump(toy_yaml(), sort_keys=False))
    domain = load_domain(path)
    assert load_domain(str(path)) == domain
    assert (domain.name, domain.truth.plural, domain.truths) == ("toy", "fruits", ("Apple", "Banana", "Cherry"))
    weight = domain.actions[1]
    assert (weight.unit, weight.states[1].value, weight.states[0].rules_out) == ("g", (50.0, 99.5), ("Apple", "Banana"))
    assert weight.states[1].text == "50.0 to 99.5"
    assert domain.rules_out == ((0b010, 0b100), (0b011, 0, 0b100))
    assert domain.definitions["Cherry"].startswith("A small stone fruit") and "Weight" in domain.definitions


def test_ranges_include_both_ends_and_nothing_between_them():
    weight = parse_domain(toy_yaml(), "toy").actions[1]
    assert [weight.state_of(x).value[0] for x in (1, 20, 50, 99.5, 100)] == [1, 1, 50, 50, 100]
    with pytest.raises(
        ValueError, match=r"'Weight' has no outcome 30; it has 1.0 to 20.0, 50.0 to 99.5, 100.0 to 200.0"
    ):
        weight.state_of(30)


def numbers(*ends, unit=""):
    return Action("a", "float", tuple(State(end, ()) for end in ends), unit)


def test_all_numbers_of_a_test_have_the_decimals_of_its_ranges():
    ranges = [((1.0, 2.0),), ((1.0, 2.5),), ((0.01, 0.2), (1.0, 3.0))]
    assert [numbers(*ends).decimals for ends in ranges] == [0, 1, 2]
    fine = numbers((0.01, 0.2), (1.0, 3.0))
    assert [state.text for state in fine.states] == ["0.01 to 0.20", "1.00 to 3.00"]
    assert [fine.number_text(x) for x in (3.0, -2.5, 0.00001, -0.0)] == ["3.00", "-2.50", "0.00001", "0.00"]
    assert [state.text for state in fine.restricted(()).states] == [state.text for state in fine.states]


def test_thousands_have_commas_but_not_the_years_among_plain_numbers():
    def texts(*ends, unit=""):
        return [state.text for state in numbers(*ends, unit=unit).states]

    assert texts((900, 999), (1000, 9000), unit="kg") == ["900 to 999", "1,000 to 9,000"]
    assert texts((-2500, -400), (1850, 9999)) == ["-2500 to -400", "1850 to 9999"]
    assert texts((500, 1000), (2000, 10000)) == ["500 to 1,000", "2,000 to 10,000"]
    assert texts((-10000, -9000)) == ["-10,000 to -9,000"]


def test_units_follow_one_in_the_singular():
    shown = [
        (1, "players"),
        (2, "players"),
        (1, "changes per minute"),
        (1, "inches"),
        (1, "mmHg"),
        (1, ""),
        (1, "glass"),
    ]
    assert [numbers((0, 9), unit=unit).measure_text(number) for number, unit in shown] == [
        *("1 player", "2 players", "1 change per minute", "1 inch", "1 mmHg", "1", "1 glass")
    ]


def damaged(change) -> list[str]:
    data = copy.deepcopy(toy_yaml())
    change(data)
    with pytest.raises(DomainError) as caught:
        parse_domain(data, "toy")
    assert isinstance(caught.value, ValueError)
    return list(caught.value.problems)


def color(data):
    return data["actions"]["Color"]


def weights(data):
    return data["actions"]["Weight"]["outcomes"]


def rename(mapping, old, new):
    items = [(new if key == old else key, value) for key, value in mapping.items()]
    mapping.clear()
    mapping.update(items)


def another(**fields):
    return {"definition": "One more way to look at the fruit.", "outcomes": {"a": ["Apple"], "b": []}, **fields}


CASES = {
    "unknown truth": (
        lambda d: color(d)["outcomes"]["red"].append("Bananna"),
        ["action 'Color'", "outcome 'red'", "'Bananna'", "did you mean 'Banana'"],
    ),
    "truth in another case": (
        lambda d: d["truths"].update(apple="The same fruit once more, in small letters."),
        ["duplicate name", "'apple'", "too much like 'Apple'"],
    ),
    "truth in other accents": (
        lambda d: d["truths"].update({"Chérry": "A fruit with an accent on one letter."}),
        ["duplicate name", "'Chérry'", "too much like 'Cherry'"],
    ),
    "truth in other punctuation": (
        lambda d: d["truths"].update({"Ban-ana": "One half of a name.", "Ban ana": "The other half of one."}),
        ["duplicate name", "'Ban ana'", "too much like 'Ban-ana'"],
    ),
    "action in British spelling": (
        lambda d: d["actions"].update(Colour=another()),
        ["duplicate name", "'Colour'", "too much like 'Color'"],
    ),
    "duplicate rule-out": (
        lambda d: color(d)["outcomes"]["red"].append("Banana"),
        ["action 'Color'", "outcome 'red'", "duplicate entry", "'Banana'"],
    ),
    "truth that is an action": (lambda d: d["actions"].update(Apple=another()), ["duplicate name", "'Apple'"]),
    "ruled out in every state": (
        lambda d: [gone.append("Apple") for gone in list(weights(d).values())[1:]],
        ["action 'Weight'", "every outcome rules out 'Apple'"],
    ),
    "overlapping ranges": (
        lambda d: rename(weights(d), "1 to 20", "1 to 60"),
        ["action 'Weight'", "1.0 to 60.0 and 50.0 to 99.5 overlap"],
    ),
    "touching ranges": (
        lambda d: rename(weights(d), "1 to 20", "1 to 50"),
        ["action 'Weight'", "1.0 to 50.0 and 50.0 to 99.5 overlap"],
    ),
    "descending ranges": (
        lambda d: d["actions"]["Weight"].update(outcomes=dict(reversed(weights(d).items()))),
        ["action 'Weight'", "50.0 to 99.5 stands after 100.0 to 200.0"],
    ),
    "reversed range": (
        lambda d: rename(weights(d), "50 to 99.5", "99.5 to 50"),
        ["action 'Weight'", "outcome '99.5 to 50'", "reversed"],
    ),
    "range among names": (
        lambda d: rename(weights(d), "50 to 99.5", "middling"),
        ["action 'Weight'", "outcome 'middling'", "ranges such as '0.5 to 12'"],
    ),
    "endless range": (
        lambda d: rename(weights(d), "100 to 200", f"100 to 1{'0' * 400}"),
        ["action 'Weight'", "finite"],
    ),
    "outcome that is not text": (
        lambda d: rename(color(d)["outcomes"], "red", True),
        ["action 'Color'", "outcome True", "put it in quotes"],
    ),
    "unit of names": (lambda d: color(d).update(unit="g"), ["action 'Color'", "outcomes that are numbers"]),
    "unit that does not follow a number": (
        lambda d: d["actions"]["Weight"].update(unit="per minute"),
        ["action 'Weight'", "unit 'per minute'", "after a number"],
    ),
    "unit that begins with a preposition": (
        lambda d: d["actions"]["Weight"].update(unit="in grams"),
        ["action 'Weight'", "unit 'in grams'", "after a number"],
    ),
    "unknown key": (lambda d: color(d).update(color=1), ["action 'Color'", "unknown key 'color'"]),
    "missing key": (lambda d: d.pop("goal"), ["domain 'toy'", "'goal' is missing"]),
    "rule-outs that are no list": (
        lambda d: color(d)["outcomes"].update(red="Banana"),
        ["action 'Color'", "outcome 'red'", "must be a list, not str"],
    ),
    "one outcome": (lambda d: color(d)["outcomes"].pop("red"), ["action 'Color'", "at least 2"]),
    "truths that are no mapping": (
        lambda d: d.update(truths=["Apple"]),
        ["truths must be a mapping of names, not list"],
    ),
    "action that is no mapping": (lambda d: d["actions"].update(Smell="sweet"), ["action 'Smell'", "mapping"]),
    "untouchable truth": (
        lambda d: d["truths"].update(Durian="A spiny fruit of Southeast Asia with a strong smell."),
        ["truth 'Durian'", "can be ruled out by no action"],
    ),
    "truth without a letter": (
        lambda d: d["truths"].update({"+/-": "Something that nobody can call by a name."}),
        ["truth '+/-'", "a letter or a digit"],
    ),
    "truth in a tag": (
        lambda d: d["truths"].update({"<Fig>": "A soft fruit with many small seeds."}),
        ["truth '<Fig>'", "neither < nor >"],
    ),
    "another name": (lambda d: d.update(name="fruit"), ["'fruit'", "'toy'"]),
    # definitions
    "truth without a definition": (
        lambda d: d["truths"].update(Apple=None),
        ["truth 'Apple'", "'definition' is missing"],
    ),
    "action without a definition": (
        lambda d: color(d).pop("definition"),
        ["action 'Color'", "'definition' is missing"],
    ),
    "definition that rules out": (
        lambda d: d["truths"].update(Apple="A round fruit that a red skin does not rule out."),
        ["truth 'Apple'", "ruling out"],
    ),
    "definition that names another": (
        lambda d: d["truths"].update(Apple="A round fruit, larger than a Cherry by far."),
        ["truth 'Apple'", "names 'Cherry'"],
    ),
    "definition that gives an outcome away": (
        lambda d: [
            d["truths"].update(Apple="A round fruit with a Bright Red skin."),
            rename(color(d)["outcomes"], "red", "bright red"),
        ],
        ["truth 'Apple'", "gives away the outcome 'bright red'"],
    ),
    "definition with marks": (
        lambda d: d["truths"].update(Apple='A round fruit, the "queen" of the orchard.'),
        ["truth 'Apple'", 'holds "'],
    ),
    "definition that is too short": (lambda d: d["truths"].update(Apple="A fruit."), ["truth 'Apple'", "8 characters"]),
    "definition without an end": (
        lambda d: d["truths"].update(Apple="A round fruit of the orchard"),
        ["truth 'Apple'", "end with a period"],
    ),
    "definition told twice": (
        lambda d: d["truths"].update(Apple=d["truths"]["Banana"]),
        ["truth 'Banana'", "same as that of 'Apple'"],
    ),
    "outcome with marks": (
        lambda d: rename(color(d)["outcomes"], "red", 'red; or "pink"'),
        ["action 'Color'", "holds one of"],
    ),
    "note that bears on a truth": (
        lambda d: d.update(notes=["Nobody has ever seen a blue Banana in this market."]),
        ["note", "names 'Banana'"],
    ),
    "phrasing without its marks": (
        lambda d: d.update(phrasings={"rules_out": ["A result of {outcome} says a lot."]}),
        ["phrasings", "{outcome} and {truths}"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named_with_its_place(case):
    change, wanted = CASES[case]
    problems = damaged(change)
    matching = [problem for problem in problems if all(word in problem for word in wanted)]
    assert matching, problems
    assert matching[0].startswith("domain 'toy'")


def test_a_word_that_is_also_a_name_may_stand_in_a_definition():
    data = toy_yaml()
    data["truths"]["Apple"] = "A round fruit whose weight and color vary with the sort."
    assert parse_domain(data, "toy").definitions["Apple"] == data["truths"]["Apple"]


def test_all_problems_are_listed_at_once():
    def change(data):
        data["truths"]["apple"] = "The same fruit once more, in small letters."
        rename(weights(data), "50 to 99.5", "99.5 to 50")
        color(data)["outcomes"]["red"].append("Fig")

    assert len(damaged(change)) == 3


# --- properties ------------------------------------------------------------------------------------------------------


def properties_yaml():
    data = toy_yaml()
    for name, skin, size in (
        ("Apple", ["red", "green"], "6 to 9"),
        ("Banana", "yellow", "15 to 25"),
        ("Cherry", "red", "2"),
    ):
        data["truths"][name] = {"definition": data["truths"][name], "skin": skin, "size": size}
    data["actions"]["Color"] = another(
        observes="skin", outcomes={"reddish": ["yellow"], "pale": ["red", "Apple"], "x": []}
    )
    ranges = {"1 to 2": [], "7 to 8": ["Cherry"], "12 to 20": ["Apple"]}
    data["actions"]["Weight"] = another(
        definition="It is held against a ruler.", observes="size", unit="cm", outcomes=ranges
    )
    return data


def test_properties_expand_to_the_truths_that_can_have_no_other_value():
    domain = parse_domain(properties_yaml(), "toy")
    color, weight = domain.actions
    assert [state.rules_out for state in color.states] == [("Banana",), ("Apple", "Cherry"), ()]
    assert [state.rules_out for state in weight.states] == [
        ("Apple", "Banana"),
        ("Banana", "Cherry"),
        ("Apple", "Cherry"),
    ]
    plain = toy_yaml()
    for action in domain.actions:
        entry = plain["actions"][action.name]
        entry["definition"] = domain.definitions[action.name]
        entry["outcomes"] = {state.text: list(state.rules_out) for state in action.states}
    plain["actions"]["Weight"]["unit"] = "cm"
    assert parse_domain(plain, "toy") == domain, "the same domain, whichever way it is written"


def test_a_value_of_several_rules_out_nothing_alone_and_a_truth_without_the_property_never():
    data = properties_yaml()
    data["actions"]["Color"]["outcomes"]["pale"] = ["red"]
    del data["truths"]["Cherry"]["size"]
    color, weight = parse_domain(data, "toy").actions
    assert color.states[1].rules_out == ("Cherry",), "an apple may be green"
    assert weight.states[0].rules_out == ("Apple", "Banana") and weight.states[2].rules_out == ("Apple",)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda d: d["actions"]["Color"].update(observes="hue"), ["observes 'hue'", "properties: size, skin"]),
        (lambda d: d["actions"]["Weight"].update(observes="skin"), ["skin of 'Apple' is neither a number nor a range"]),
        (
            lambda d: color(d)["outcomes"].update(x=["yelow"]),
            ["'yelow'", "nor a value of skin", "did you mean 'yellow'"],
        ),
        (lambda d: d["truths"]["Apple"].update(skin=7), ["truth 'Apple'", "skin must be a text"]),
    ],
)
def test_what_is_wrong_with_properties_is_named(change, wanted):
    data = properties_yaml()
    change(data)
    with pytest.raises(DomainError) as caught:
        parse_domain(data, "toy")
    assert any(all(word in problem for word in wanted) for problem in caught.value.problems), caught.value.problems


def test_the_example_of_the_documentation_passes(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "kumo_domains.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "pond.yaml").write_text(example, encoding="utf-8")
    assert check(str(tmp_path / "pond.yaml")) == 0, capsys.readouterr().err
    prints, scale, _ = load_domain(tmp_path / "pond.yaml").actions
    assert [state.rules_out for state in prints.states] == [("Otter", "Fox"), ("Heron",), ("Otter", "Heron", "Mallard")]
    assert scale.states[1].rules_out == ("Otter", "Mallard")


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("name: [toy", "is not YAML"),
        ("name: toy\nname: toy\n", "occurs twice"),
        ("", "expected a mapping"),
        ("\x00", "is not YAML"),
    ],
)
def test_damaged_files_are_refused(tmp_path, text, word):
    path = tmp_path / "toy.yaml"
    path.write_text(text)
    with pytest.raises(DomainError, match=word):
        load_domain(path)


def test_an_unknown_domain_is_named_beside_the_nearest_or_else_all():
    with pytest.raises(DomainError, match=r"no domain 'medicine'") as caught:
        load_domain("medicine")
    assert "medical" in str(caught.value) and "volcanoes" not in str(caught.value)
    with pytest.raises(DomainError, match=r"no domain 'qqq'.*medical.*volcanoes"):
        load_domain("qqq")


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


@pytest.fixture(autouse=True)
def no_other_domains(monkeypatch):
    """Files are not compared with the domains that come with raycade, which takes seconds."""
    monkeypatch.setattr(validate, "available_domains", lambda: ())


def check(*names):
    parser = argparse.ArgumentParser()
    validate.add_arguments(parser)
    return validate.main(parser.parse_args([*names, "--easy", "0"]))


def test_checking_files_ends_with_exit_code_two_for_bad_ones(tmp_path, capsys):
    good, bad = tmp_path / "toy.yaml", tmp_path / "bad.yaml"
    good.write_text(yaml.safe_dump(toy_yaml(), sort_keys=False))
    truths = {name: text for name, text in toy_yaml()["truths"].items() if name != "Cherry"}
    bad.write_text(yaml.safe_dump({**toy_yaml(), "name": "bad", "truths": truths}, sort_keys=False))
    assert check(str(good)) == 0
    out = capsys.readouterr().out
    assert "1 of 1 domains valid" in out and "toy" in out
    assert check(str(good), str(bad)) == 2
    problems = capsys.readouterr().err.splitlines()
    assert len(problems) == 2 and all(p.startswith(f"{bad}: domain 'bad'") and "'Cherry'" in p for p in problems)


def test_checking_reads_books_back_so_that_a_phrasing_nobody_understands_is_refused(tmp_path, capsys):
    path = tmp_path / "toy.yaml"
    phrasings = {"rules_out": ["A result of {outcome} is bad news for {truths}."]}
    path.write_text(yaml.safe_dump({**toy_yaml(), "phrasings": phrasings}, sort_keys=False))
    assert check(str(path)) == 2
    assert "cannot be read back" in (told := capsys.readouterr().err) and "bad news" in told


def test_a_category_is_one_of_those_known():
    assert parse_domain(toy_yaml(), "toy").category == ""
    assert parse_domain({**toy_yaml(), "category": "biology"}, "toy").category == "biology"
    for wrong in ("botany", 7, ["biology"]):
        with pytest.raises(DomainError) as raised:
            parse_domain({**toy_yaml(), "category": wrong}, "toy")
        assert str(wrong) in str(raised.value) and "biology" in str(raised.value)


SPELLINGS = {
    **{"anaemia": "anemia", "oesophagus": "esophagus", "colour": "color", "colours": "colors", "metres": "meters"},
    **{"metre": "meter", "fibre": "fiber", "synthesised": "synthesized", "organisations": "organizations"},
    **{"analyse": "analyze", "analysing": "analyzing", "travelling": "traveling", "sulphate": "sulfate"},
    **{"aluminium": "aluminum", "grey": "gray", "catalogues": "catalogs", "mould": "mold", "licences": "licenses"},
    **{"defence": "defense", "programmes": "programs"},
}


@pytest.mark.parametrize("british", SPELLINGS)
def test_british_and_american_spelling_are_one_name(british):
    assert words(british) == words(SPELLINGS[british].upper())


@pytest.mark.parametrize("name", ["toy.yml", "toy.yaml"])
def test_a_domain_of_one_s_own_is_named_by_its_file(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text(yaml.safe_dump(toy_yaml(), sort_keys=False))
    monkeypatch.chdir(tmp_path)
    assert load_domain(name).truths == load_domain(tmp_path / name).truths
    with pytest.raises(DomainError, match=r"no file 'other\.yml'"):
        load_domain("other.yml")


@pytest.mark.parametrize(("length", "allowed"), [(19, False), (20, True), (400, True), (401, False)])
def test_definitions_have_as_many_characters_as_are_allowed(length, allowed):
    said = "A" + "b" * (length - 2) + "."
    data = toy_yaml()
    data["truths"]["Apple"] = said
    if allowed:
        assert parse_domain(data, "toy").definitions["Apple"] == said
    else:
        with pytest.raises(DomainError, match=f"has {length} characters, where 20 to 400 are allowed"):
            parse_domain(data, "toy")
