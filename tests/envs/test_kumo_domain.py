"""A domain file is read faithfully or refused with errors that name domain, action and outcome."""

import argparse
import re
from pathlib import Path

import pytest
import yaml

from envs.kumo import DomainError, load_domain
from envs.kumo.domain import Action, State
from envs.kumo.domain_file import parse_domain
from evals.suites.kumo import validate
from tests.envs.kumo_games import toy_yaml
from tests.golden import check_golden


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


def problems_of(data, change):
    if change:
        change(data)
    try:
        parse_domain(data, "toy")
    except DomainError as error:
        return error.problems
    return ["nothing"]


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


def truths(**changed):
    return lambda d: d["truths"].update(changed)


def ruled_out_everywhere(d):
    for gone in list(weights(d).values())[1:]:
        gone.append("Apple")


def true_of(action, table):
    """Of the domain with properties."""
    return lambda d: d["actions"][action].update(true_of=table)


DAMAGE = {
    "unknown truth": lambda d: color(d)["outcomes"]["red"].append("Bananna"),
    "in another case": truths(apple="The same fruit once more, in small letters."),
    "in other accents": truths(**{"Chérry": "A fruit with an accent on one letter."}),
    "in other punctuation": truths(**{"Ban-ana": "One half of a name.", "Ban ana": "The other half of one."}),
    "in British spelling": lambda d: d["actions"].update(Colour=another()),
    "duplicate rule-out": lambda d: color(d)["outcomes"]["red"].append("Banana"),
    "truth that is an action": lambda d: d["actions"].update(Apple=another()),
    "ruled out everywhere": ruled_out_everywhere,
    "ruled out by both": lambda d: color(d)["outcomes"].update(red=["Banana", "Cherry"]),
    "overlapping ranges": lambda d: rename(weights(d), "1 to 20", "1 to 60"),
    "touching ranges": lambda d: rename(weights(d), "1 to 20", "1 to 50"),
    "descending ranges": lambda d: d["actions"]["Weight"].update(outcomes=dict(reversed(weights(d).items()))),
    "reversed range": lambda d: rename(weights(d), "50 to 99.5", "99.5 to 50"),
    "range of one number": lambda d: rename(weights(d), "50 to 99.5", "50"),
    "range among names": lambda d: rename(weights(d), "50 to 99.5", "middling"),
    "endless range": lambda d: rename(weights(d), "100 to 200", f"100 to 1{'0' * 400}"),
    "endless low end": lambda d: rename(weights(d), "1 to 20", f"-1{'0' * 400} to 20"),
    "range of no list": lambda d: weights(d).update({"50 to 99.5": None}),
    "outcome that is not text": lambda d: rename(color(d)["outcomes"], "red", True),
    "outcome with spaces": lambda d: rename(color(d)["outcomes"], "red", " red"),
    "unit of names": lambda d: color(d).update(unit="g"),
    "unit without numbers": lambda d: color(d).update(unit=""),
    "unit per": lambda d: d["actions"]["Weight"].update(unit="per minute"),
    "unit in": lambda d: d["actions"]["Weight"].update(unit="in grams"),
    "unit of numbers": lambda d: d["actions"]["Weight"].update(unit=5),
    "unit inches": lambda d: d["actions"]["Weight"].update(unit="inches"),
    "unknown keys": lambda d: (color(d).update(color=1), d.update(extra=1)),
    "missing keys": lambda d: (d.pop("goal"), d.pop("truth"), color(d).pop("outcomes")),
    "missing lists": lambda d: (d.pop("truths"), d.pop("actions")),
    "empty texts": lambda d: d.update(goal=" ", title=5, truth={"singular": "fruit", "plural": None}),
    "noun that is no mapping": lambda d: d.update(action="check"),
    "rule-outs that are no list": lambda d: color(d)["outcomes"].update(red="Banana"),
    "one outcome": lambda d: color(d)["outcomes"].pop("red"),
    "outcomes that are a list": lambda d: color(d).update(outcomes=["red", "yellow"]),
    "truths that are no mapping": lambda d: d.update(truths=["Apple"]),
    "one truth, no action": lambda d: d.update(truths={"Apple": d["truths"]["Apple"]}, actions={}),
    "action that is no mapping": lambda d: d["actions"].update(Smell="sweet"),
    "untouchable truth": truths(Durian="A spiny fruit of Southeast Asia with a strong smell."),
    "untouchable last truth": lambda d: weights(d).update({"100 to 200": []}) or color(d)["outcomes"].update(yellow=[]),
    "truth without a letter": truths(**{"+/-": "Something that nobody can call by a name."}),
    "truth in a tag": truths(**{"<Fig>": "A soft fruit with many small seeds."}),
    "names that are no names": lambda d: d["truths"].update({7: "A number and no name.", "": "No name.", "A  b": "Wide."}),
    "another name": lambda d: d.update(name="fruit"),
    "truth without a definition": truths(Apple=None),
    "truth with properties only": truths(Apple={"skin": "red"}),
    "odd properties": truths(Apple={"definition": "The round fruit of an orchard tree.", "a": 7, "b": [], "c": ["x", ""]}),
    "action without a definition": lambda d: color(d).pop("definition"),
    "definition that rules out": truths(Apple="A round fruit that a red skin does not rule out."),
    "definition that excludes": truths(Apple="A round fruit, Excluding none. Impossible to strike off."),
    "definition that names others": truths(Apple="A round fruit, larger than a Cherry by far, of some Weight."),
    "definition that gives an outcome away": lambda d: (
        truths(Apple="A round fruit with a Bright Red skin.")(d),
        rename(color(d)["outcomes"], "red", "bright red"),
        color(d).update(definition="Whether the skin is bright red in daylight."),
    ),
    "definition with marks": truths(Apple='A round fruit, the "queen" of the [whole] orchard.'),
    "definition that is too short": truths(Apple="A fruit."),
    "definition without an end": truths(Apple="a round fruit of the orchard"),
    "definition that begins with a number": truths(Apple="7 of them are a meal for a horse."),
    "definition told twice": lambda d: truths(Apple=d["truths"]["Banana"], Cherry=d["truths"]["Banana"])(d),
    "outcome with marks": lambda d: rename(color(d)["outcomes"], "red", 'red; or "pink"'),
    "notes": lambda d: d.update(
        notes=["Nobody has ever seen a blue Banana in this market.", "Short.", "No Color at all is here."]
    ),
    "notes that are no texts": lambda d: d.update(notes=["A note of more than twenty letters.", ""]),
    "phrasing without its marks": lambda d: d.update(
        phrasings={"rules_out": ["A result of {outcome} says a lot."], "nothing": ["{outcome} {outcome}", "{outcome} is {", 5]}
    ),
    "phrasings with other marks": lambda d: d.update(phrasings={"nothing": ["{truths} and {outcome}", "{}"], "all": []}),
    "phrasings with more marks": lambda d: d.update(
        phrasings={"nothing": ["{outcome} {outcome}", "{outcome} is {", "{outcome} is }"]}
    ),
    "wrong category": lambda d: d.update(category=["biology"]),
    "all at once": lambda d: (
        truths(apple="The same fruit once more, in small letters.")(d),
        rename(weights(d), "50 to 99.5", "99.5 to 50"),
        color(d)["outcomes"]["red"].append("Fig"),
    ),
    "no mapping": None,
}  # fmt: skip
OF_PROPERTIES = {
    "unknown property": lambda d: color(d).update(observes="hue"),
    "no properties at all": lambda d: (color(d).update(observes="hue"), d.update(truths=toy_yaml()["truths"])),
    "property that is no text": lambda d: color(d).update(observes=3),
    "property of words": lambda d: d["actions"]["Weight"].update(observes="skin"),
    "unknown value": lambda d: color(d)["outcomes"].update(x=["yelow", "Appel"]),
    "odd value": lambda d: d["truths"]["Apple"].update(skin=7),
    "true of a list": true_of("Color", ["red"]),
    "true of no outcome": true_of("Color", {"blue": ["Apple"], "x": "Apple", "pale": [1]}),
    "true of no truth": true_of("Color", {"reddish": ["Fig", "red"], "x": "others"}),
    "true of what it rules out": true_of("Color", {"reddish": ["Banana", "Cherry"], "pale": ["Apple"], "x": []}),
    "true of words": true_of("Weight", "skin"),
    "names true of numbers": true_of("Color", "size"),
    "true of an unknown property": true_of("Weight", "width"),
}
TRUE_OF = {
    "numbers": true_of("Weight", "size"),
    "numbers, without one": lambda d: (d["truths"]["Cherry"].pop("size"), true_of("Weight", "size")(d)),
    "others": true_of("Color", {"reddish": ["Cherry"], "x": "others"}),
    "values": true_of("Color", {"reddish": ["red"], "pale": ["yellow"], "x": ["green"]}),
    "not all values": true_of("Color", {"reddish": ["red"], "pale": ["yellow"], "x": []}),
    "named although of values": true_of("Color", {"reddish": ["red"], "x": ["green", "Cherry"]}),
    "unknown": true_of("Color", {"unknown": ["Banana"], "x": "others"}),
    "nothing": true_of("Color", {}),
}


def test_what_is_wrong_is_named_with_its_place_and_what_is_true_is_read():
    parts = []
    for case, change in DAMAGE.items():
        data = toy_yaml() if change else ["toy"]
        parts += ["", f"# {case}", *problems_of(data, change)]
    for case, change in OF_PROPERTIES.items():
        parts += ["", f"# {case}", *problems_of(properties_yaml(), change)]
    for case, change in TRUE_OF.items():
        data = properties_yaml()
        change(data)
        read = parse_domain(data, "toy").true_of
        parts += ["", f"# True of {case}", *(f"{name}: {[sorted(each) for each in of]}" for name, of in read.items())]
    check_golden("kumo_domain_problems", "\n".join(parts))


def test_a_word_that_is_also_a_name_may_stand_in_a_definition():
    data = toy_yaml()
    data["truths"]["Apple"] = "A round fruit whose weight and color vary with the sort."
    assert parse_domain(data, "toy").definitions["Apple"] == data["truths"]["Apple"]


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


@pytest.mark.parametrize("name", ["toy.yml", "toy.yaml"])
def test_a_domain_of_one_s_own_is_named_by_its_file(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text(yaml.safe_dump(toy_yaml(), sort_keys=False))
    monkeypatch.chdir(tmp_path)
    assert load_domain(name).truths == load_domain(tmp_path / name).truths
    with pytest.raises(DomainError, match=r"no file 'other\.yml'"):
        load_domain("other.yml")


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ("A small stone fruit of autumn.", True),
        ("7 fruits that are named in autumn.", True),
        ("a small stone fruit of autumn.", False),
        ("A small stone fruit of autumn", False),
        ("-A small stone fruit of autumn.", False),
    ],
)
def test_definitions_begin_with_a_capital_and_end_with_a_period(said, allowed):
    data = toy_yaml()
    data["truths"]["Apple"] = said
    if allowed:
        assert parse_domain(data, "toy").definitions["Apple"] == said
    else:
        with pytest.raises(DomainError, match="must begin with a capital and end with a period"):
            parse_domain(data, "toy")


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
