"""Quality of domains against direct counts, and near-duplicates."""

import itertools
import math
import random
import re

import networkx
import pytest

from envs.kumo import DIFFICULTIES, Action, OptimalSearch, State, available_domains, generate_tasks, load_domain
from envs.kumo.domain import Domain, Noun
from envs.kumo.domain_file import parse_domain
from envs.kumo.likeness import (
    Profile,
    likeness,
    near_duplicate,
    near_duplicates,
    shared,
    shared_rules,
    shipped_profiles,
    title_likeness,
)
from envs.kumo.names import fold, words
from envs.kumo.quality import counterfactual_share, possible_tasks, quality_of
from envs.kumo.split import components
from tests.envs.kumo_games import made_domain, toy_yaml
from tests.golden import check_golden


def a_domain(name, truths, table):
    """A domain of a table from test to outcome to truths ruled out."""
    actions = [
        Action(test, "str", tuple(State(outcome, tuple(gone)) for outcome, gone in outcomes.items()))
        for test, outcomes in table.items()
    ]
    noun = Noun("thing", "things")
    return Domain(name, "", "", noun, noun, tuple(truths), tuple(actions))


def renamed(domain, edits=0):
    """A copy under other names, in another order, with some rules changed."""
    rng = random.Random(edits)
    names = {truth: f"other {number}" for number, truth in enumerate(rng.sample(domain.truths, len(domain.truths)))}
    actions = rng.sample(domain.actions, len(domain.actions))
    table = {
        f"test {number}": {
            f"shows {place}": [names[truth] for truth in state.rules_out][number < edits :]
            for place, state in enumerate(rng.sample(action.states, len(action.states)))
        }
        for number, action in enumerate(actions)
    }
    return a_domain("copy", sorted(names.values()), table)


@pytest.mark.parametrize("edits", [0, 5])
def test_a_domain_that_has_only_other_names_is_a_near_duplicate_an_edited_one_too(edits):
    medical = load_domain("medical")
    copy = renamed(medical, edits)
    [(later, reason)] = near_duplicates([medical, load_domain("music"), copy])
    assert later is copy and "'medical'" in reason
    assert "rules" in reason and ("100%" in reason) == (edits == 0)


@pytest.mark.parametrize(("kept", "refused"), [(30, True), (20, True), (19, False)])
def test_a_domain_with_two_fifths_of_the_truths_is_a_near_duplicate_though_its_rules_are_others(kept, refused):
    medical = load_domain("medical")
    rng = random.Random(1)
    truths = [*medical.truths[:kept], *(f"other {number}" for number in range(50 - kept))]
    table = {f"test {number}": {"high": rng.sample(truths, 20 + number), "low": []} for number in range(30)}
    found = list(near_duplicates([medical, a_domain("other", truths, table)]))
    assert [why.partition("shares ")[2] for _, why in found] == [f"{kept * 2}% of the names of its truths"] * refused


@pytest.mark.slow
def test_no_two_domains_that_come_with_raycade_are_near_duplicates():
    pairs = itertools.combinations(map(Profile.of_domain, map(load_domain, available_domains())), 2)
    assert not [(one.name, two.name) for one, two in pairs if likeness(one, two)]


NEW = [
    ("Wine", []),
    ("Types of Wine", []),
    ("Wines of the World", []),
    ("Laptop Problems", []),
    ("Bird of Prey Identification", []),
    ("Fault", []),
    ("Raptors", ["Golden Eagle", "Ospreys", "peregrine falcon", "Something Else"]),
    ("Raptors", ["Golden Eagle", "Osprey", "A", "B", "C", "D"]),
    ("Raptors", ["Golden Eagle", "Osprey"]),
    ("Internal Ailments", ["Asthma", "Gout", "Heart Failure", "Influenza"]),
    ("Internal Ailments", ["ASTHMA", "Göut", "heart-failures", "a", "b", "c"]),
    ("Kites", ["Box Kite", "Delta"]),
]
SPELLINGS = """
    anaemia oesophagus colour colours metres metre fibre synthesised organisations analyse analysing travelling sulphate
    aluminium grey catalogues mould licences defence programmes hour our four greyhound tire centre theatre spectre oeuvre
    aerosol poem shoe does raise rises wise promise advise analyses calling called fuller dialogue vogue rogue ice once
    hence science comma commas programme's moulds shoulder smoulder boulder odour glamourous realise realised
""".split()  # noqa: SIM905
NAMES = (
    """
    A-|A|-1|1|C#|C++|C|!name|name|Rock 'n' Roll|rock “n” roll|R&B|R and B|Søren|soren
    Łódź|Æon|naïve|ﬁne|Ⅳ|½|x²|≠|=|a_b|a-b|a – b|a.b
    日本 語|カタカナ|東京タワー|Straße|STRASSE|İstanbul|ı|  two   words |…|·|50 %|€5|α-helix|Β|éclair|d̶
    Ot\u200bter\ufeff|soft\u00adly|❤\ufe0f
""".replace("\n    ", "|")
    .strip("|\n")
    .split("|")
)


BRITISH = """
    anaemia:anemia oesophagus:esophagus colour:color colours:colors realise:realize realised:realized realises:realizes
    realising:realizing organisation:organization organisations:organizations analyse:analyze analysed:analyzed
    analyser:analyzer analyses:analyzes analysing:analyzing centre:center centres:centers theatre:theater fibre:fiber
    louvre:louver travelled:traveled traveller:traveler travelling:traveling sulphur:sulfur aluminium:aluminum grey:gray
    greyhound:grayhound catalogue:catalog catalogues:catalogs mould:mold moulds:molds mouldy:moldy moulder:molder
    smoulder:smolder licence:license licences:licenses defence:defense programme:program programmes:programs
""".split()  # noqa: SIM905


@pytest.mark.parametrize("pair", BRITISH)
def test_a_british_and_an_american_spelling_are_one_name(pair):
    british, american = pair.split(":")
    assert words(british) == words(american)


def test_words_that_only_look_british_keep_their_difference():
    different = (
        "hour/hor our/or wise/wize rise/rize tire/tier ice/ise once/onse fence/fens call/cal hill/hil comma/coma"
    )
    for pair in different.split():
        one, other = pair.split("/")
        assert words(one) != words(other), pair


@pytest.mark.slow
def test_spellings_and_likeness_of_domains_are_as_on_record():
    parts = [f"{name!r}: {fold(name)!r} {words(name)}" for name in NAMES]
    parts += ["", " ".join(f"{word}:{'_'.join(words(word))}" for word in SPELLINGS)]
    for title, truths in NEW:
        fresh = Profile.of("new", title, truths, [])
        cosines = sorted((title_likeness(fresh, other), other.name) for other in shipped_profiles())[-2:]
        parts += [f"{title} {truths}: {near_duplicate(fresh, shipped_profiles()) or 'like none'}"]
        parts += [f"    {', '.join(f'{name} {cosine:.6f}' for cosine, name in cosines)}"]
    one, two = made_domain(1), made_domain(2)
    tests = Profile.of("x", "Odd", [], ["action 1", "action 2", "actions 3"])
    for first, other in ((one, one), (one, two), (renamed(one, 3), one), (renamed(one, 9), one)):
        mine, theirs = Profile.of_domain(first), Profile.of_domain(other)
        rules = f"{shared_rules(mine, theirs):.6f} {shared(mine.truths, theirs.truths):.6f}"
        parts.append(f"{first.name} {other.name}: {rules} {likeness(mine, theirs)}")
        parts.append(f"    {list(near_duplicates([first, other, first]))[-1][1]}; {likeness(tests, theirs)}")
    names = [
        Profile.of(name, title, truths, []) for name, title, truths in (("a", "Kites", "abc"), ("a", "Toys", "xyz"))
    ]
    parts += [likeness(*names), near_duplicate(names[0], []) or "like none"]
    for domain in (one, renamed(two, 2), parse_domain(toy_yaml(), "toy")):
        figures = str(vars(quality_of(domain, 2)))
        parts.append(re.sub(r"\d+\.\d{7,}", lambda found: f"{float(found[0]):.6f}", figures))
        parts.append(f"    {[(part.truths, part.tests) for part in components(domain)]}")
    check_golden("kumo_likeness", "\n".join(parts))


def test_components_are_the_truths_that_tests_connect():
    for name in ("medical", "ancient_civilizations"):
        domain = load_domain(name)
        graph = networkx.Graph()
        graph.add_nodes_from(domain.truths)
        for action in domain.actions:
            reach = [truth for state in action.states for truth in state.rules_out]
            graph.add_edges_from(itertools.pairwise(reach))
        found = [tuple(domain.truths[place] for place in part.truths) for part in components(domain)]
        assert {frozenset(group) for group in found} == set(map(frozenset, networkx.connected_components(graph)))
        assert [len(group) for group in found] == sorted(map(len, found), reverse=True)
    assert len(found) == 3


def test_a_domain_s_quality_is_what_its_table_says():
    domain = parse_domain(toy_yaml(), "toy")
    quality = quality_of(domain, easy=0)
    assert (quality.truths, quality.actions, quality.numeric, quality.outcomes, quality.components) == (3, 2, 1, 5, 1)
    # Five outcomes rule out five of fifteen truths; Apple is ruled out by one test, Banana and Cherry by two.
    assert (quality.density, quality.idle, quality.fewest) == (5 / 15, 1 / 5, 1)
    # Apple/Banana share one of two outcomes, Apple/Cherry none of three, Banana/Cherry none of four.
    assert quality.overlap == pytest.approx((1 / 2) / 3)
    # Of the two tests, each truth is left by two of two outcomes or by one, and by three of three or by two.
    lefts = [[sum(truth not in s.rules_out for s in a.states) for truth in domain.truths] for a in domain.actions]
    assert quality.counterfactual == pytest.approx(sum(1 - 1 / n for row in lefts for n in row) / 6)
    sure = a_domain("sure", "xy", {"t": {"a": "x", "b": "y"}})
    assert counterfactual_share(sure) == 0, "an outcome that the right truth leaves no choice of is true"
    knots = load_domain("knots")
    assert quality_of(knots, easy=0).numeric == sum(isinstance(a.states[0].value, tuple) for a in knots.actions) > 1
    assert quality.steps == {"easy": None, "hard": None} and quality.tasks["easy"] == -math.inf


def test_expected_tests_are_means_over_the_first_tasks_of_each_difficulty():
    domain = load_domain("knots")
    quality = quality_of(domain, easy=3, hard=1)
    for difficulty, count in (("easy", 3), ("hard", 1)):
        tasks = generate_tasks(domain, *DIFFICULTIES[difficulty], count=count)
        expected = sum(OptimalSearch(task).expected_steps for task in tasks) / count
        assert quality.steps[difficulty] == pytest.approx(expected)


def all_tasks(domain, truths, actions):
    """Every task there is, by going through all choices."""
    found = 0
    for sample in itertools.combinations(domain.truths, truths):
        related = {a.name for a in domain.actions if any({*sample} & {*s.rules_out} for s in a.states)}
        for chosen in itertools.combinations(domain.actions, actions):
            if len(related & {action.name for action in chosen}) < min(actions, len(related)):
                continue  # unrelated tests only fill up
            for states in itertools.product(*(action.states for action in chosen)):
                left = {*sample} - {truth for state in states for truth in state.rules_out}
                if len(left) == 1 and any(left & {*state.rules_out} for a in chosen for state in a.states):
                    found += 1
    return found


@pytest.mark.parametrize(("seed", "truths", "actions"), [(1, 3, 2), (2, 4, 3), (3, 3, 4)])
def test_the_number_of_possible_tasks_is_about_that_of_all_choices(seed, truths, actions):
    domain = made_domain(seed, truths=8, actions=5)
    assert 10 ** possible_tasks(domain, truths, actions) == pytest.approx(all_tasks(domain, truths, actions), rel=0.25)


def test_tests_that_touch_no_truth_of_a_task_fill_it_up():
    table = {"a": {"1": "v", "2": "w"}, "b": {"1": "x", "2": "y"}, "c": {"1": "z", "2": ""}, "d": {"1": "y", "2": "w"}}
    table |= {"e": {"1": "vx", "2": "z"}, "f": {"1": "", "2": "z", "3": "x"}}
    domain = a_domain("sparse", "vwxyz", table)
    assert 10 ** possible_tasks(domain, 2, 4) == pytest.approx(all_tasks(domain, 2, 4), rel=0.1)
    # Each test rules out one truth: two of any sample are related, and the others can be chosen in several ways.
    names = "vwxyz"
    apart = a_domain("apart", names, {f"of {name}": {"1": name, "2": ""} for name in names})
    for actions in (3, 4, 5):
        assert 10 ** possible_tasks(apart, 2, actions) == pytest.approx(all_tasks(apart, 2, actions))


def test_where_no_choice_leaves_one_truth_there_is_no_task():
    domain = a_domain("none", "xyz", {"t": {"a": "xy", "b": ""}})
    assert possible_tasks(domain, 2, 1) == -math.inf
    assert possible_tasks(domain, 4, 1) == -math.inf and possible_tasks(domain, 2, 2) == -math.inf


def test_hyphens_and_dashes_of_any_form_are_one_sign():
    assert {fold(f"alpha{dash}1") for dash in "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"} == {"alpha-1"}
