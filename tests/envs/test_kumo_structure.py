"""Drawn domains have the structure asked for, mean nothing, and depend on their seed only; permuted ones mislead."""

import itertools
import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.kumo import GenerationError, OptimalSearch, available_domains, generate_tasks, load_domain
from envs.kumo import structure as module
from envs.kumo.split import split_of
from envs.kumo.structure import (
    Measured,
    Structure,
    _cells,
    domain_from,
    draw_domain,
    measure,
    permuted,
    structured_sources,
)
from tests.envs.kumo_games import toy_yaml
from tests.golden import check_golden, digest, plain

SMALL = {"truths": 20, "actions": 12}


def rows(domain):
    """For each truth the states that rule it out."""
    states = [(a.name, s) for a in domain.actions for s in a.states]
    return [{(name, s.value) for name, s in states if truth in s.rules_out} for truth in domain.truths]


@pytest.mark.parametrize(
    "settings",
    [
        {"density": 0.12},
        {"density": 0.06, "states": 5},
        {"density": 0.2, "overlap": 0.25, "names": "nonsense"},
        {"density": 0.15, "overlap": 0.4},
        {"density": 0.2, "steps": [1.9, 2.4]},
    ],
    ids=str,
)
def test_what_is_drawn_is_what_was_asked_for(settings):
    wanted = Structure.parse({**SMALL, **settings})
    domain = draw_domain(wanted, seed=3)
    assert (len(domain.truths), len(domain.actions)) == (20, 12)
    assert {len(action.states) for action in domain.actions} == {wanted.states}
    ours = rows(domain)
    got = measure(domain)
    cells = 12 * wanted.states * 20
    assert sum(map(len, ours)) == round(wanted.density * cells)
    assert got.density == pytest.approx(sum(map(len, ours)) / cells)
    pairs = [len(one & two) / len(one | two) for one, two in itertools.combinations(ours, 2)]
    assert got.overlap == pytest.approx(sum(pairs) / len(pairs))
    if wanted.overlap:
        assert got.overlap == pytest.approx(wanted.overlap, abs=0.01)
    steps = [OptimalSearch(task).expected_steps for task in generate_tasks(domain, count=20)]
    assert got.steps == pytest.approx(sum(steps) / 20)
    if wanted.steps:
        assert wanted.steps[0] <= got.steps <= wanted.steps[1]
    for task in generate_tasks(domain, 8, 10, count=3):
        assert task.survivors(dict(zip(task.action_names, task.observations, strict=True))) == (task.valid_truth,)


SHARES = st.sampled_from((0.0, 0.1, 0.6, 1.0))


@given(st.integers(4, 12), st.integers(2, 4), SHARES, SHARES, SHARES, st.integers())
@settings(max_examples=25)
def test_each_truth_can_be_ruled_out_and_by_no_action_for_sure(truths, states, dense, blank, copied, seed):
    wanted = truths + round(dense * truths * (6 * (states - 1) - 1))
    structure = Structure(density=wanted / (truths * 6 * states), truths=truths, actions=6, states=states)
    table = _cells(structure, blank, copied, random.Random(seed))
    assert sum(len(gone) for outcomes in table for gone in outcomes) == wanted
    assert set().union(*itertools.chain(*table)) == set(range(truths))
    assert not any(set.intersection(*outcomes) for outcomes in table)


REFUSED = [
    *({"density": share} for share in (0, 1, 0.7, 0.002, True, "x")),
    *({"overlap": share} for share in (0, 1.5)),
    *({"steps": steps} for steps in ([3, 2], [2, 2], [-1, 2], [1, 2, 3])),
    *({"truths": 3}, {"actions": 5}, {"actions": True}, {"states": 1}, {"names": "french"}, {"densty": 0.1}),
    *({"truths": 4, "actions": 6, "states": 2, "density": density} for density in (0.07, 0.52)),
]
REFUSED_SOURCES = [
    *({"names": "permuted", "density": 0.1, "actions": 6}, {"sise": 3}, {"names": 3}),
    *({"domains": count} for count in (0, 6, True, 2.0)),
]
TINY = {"truths": 5, "actions": 6, "states": 2}
DRAWN = [
    ({**TINY, "density": 0.1}, 0, 0),
    ({**TINY, "density": 0.5, "names": "nonsense"}, 0, 0),
    ({**TINY, "density": 0.3}, 1, 0),
    ({**TINY, "density": 0.3, "overlap": 0.4}, 0, 1),
    ({**TINY, "density": 0.2, "steps": [1.2, 1.5]}, 2, 0),
    ({**SMALL, "density": 0.25, "states": 4, "overlap": 0.2}, 2, 3),
]


def test_structures_are_drawn_and_refused_as_on_record(monkeypatch):
    monkeypatch.setattr("envs.kumo.structure.MOST_DOMAINS", 5)
    parts = []
    for asked, seed, index in DRAWN:
        domain = draw_domain(Structure.parse(asked), seed, index)
        got = measure(domain, 5)
        parts += [f"# {asked} {seed} {index}", f"{domain.name}: {got.density:.6f} {got.overlap:.6f} {got.steps:.6f}"]
        for action in domain.actions[:6]:
            parts.append(f"{action.name}: {[(state.text, *state.rules_out) for state in action.states]}")
        first = (domain.truths[0], domain.actions[0].name)
        parts += [digest(repr(domain.actions)), *(domain.definitions[name] for name in first), ""]
    parts += [f"{domain.title}: {domain.goal} {plain([domain.truth, domain.action])}", ""]
    dense = Structure.parse({**TINY, "density": 0.5})
    for blank, copied in ((0.0, 0.0), (0.6, 0.0), (0.6, 1.0), (1.0, 0.5)):
        table = _cells(dense, blank, copied, random.Random(1))
        parts.append(f"cells, {blank} blank and {copied} copied: {[[sorted(gone) for gone in row] for row in table]}")
    for refuse, cases in (
        (Structure.parse, REFUSED),
        (lambda each: structured_sources(each, ["medical"]), REFUSED_SOURCES),
    ):
        for asked in cases:
            with pytest.raises(ValueError) as error:
                refuse(asked)
            parts.append(f"{asked}: {error.value}")
    for asked in ({**TINY, "density": 0.1}, {**TINY, "density": 0.5}):
        parts.append(f"{asked}: {Structure.parse(asked)}")
    parts += ["", "# Sources"]
    for asked in ({**TINY, "overlap": 0.5}, {"domains": 1}, {"names": "nonsense"}, {"names": "permuted"}):
        parts += structured_sources(asked, ["music", "medical"], 7)
    check_golden("kumo_structures", "\n".join(parts))


def test_a_structure_that_is_not_found_is_refused_with_what_came_instead():
    with pytest.raises(GenerationError, match=r"overlap 0\.\d+"):
        draw_domain(Structure(density=0.4, overlap=0.05, **SMALL))


@pytest.fixture
def tried(monkeypatch):
    """What is told of each domain that is drawn, in place of measuring it; and the share of blank states of each."""
    answers, blanks, draw = [], [], module._draw

    def drawn(structure, blank, rng):
        blanks.append(blank)
        return draw(structure, blank, rng)

    def told(domain):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Measured(0.2, 0.1, answer)

    monkeypatch.setattr(module, "_draw", drawn)
    monkeypatch.setattr(module, "measure", told)
    return answers, blanks


@pytest.mark.parametrize("end", [1.5, 2.5])
def test_domains_are_drawn_until_their_steps_lie_in_the_band_ends_included(tried, end):
    answers, blanks = tried
    answers += [1.4999, 2.5001, GenerationError("no tasks"), end, 2.0]
    wanted = Structure.parse({**TINY, "density": 0.2, "steps": [1.5, 2.5]})
    domain = draw_domain(wanted, 4)
    assert len(blanks) == 4 and answers == [2.0] and len(domain.truths) == 5
    assert draw_domain(wanted, 4) != domain, "which drew once"


def test_a_search_for_steps_tries_blank_states_of_all_shares_and_says_how_near_it_came(tried):
    answers, blanks = tried
    answers += [3.456, GenerationError("a domain yields no tasks"), 1.25]
    wanted = Structure.parse({**TINY, "density": 0.2, "steps": [1.5, 2.5]})
    with pytest.raises(GenerationError) as refused:
        draw_domain(wanted)
    assert str(refused.value) == (
        f"no domain of {wanted} in 60 tries; among those drawn: a domain yields no tasks, expected steps 3.46"
    )
    assert blanks[0] == 0 and sorted(set(blanks[1:])) == [0, 0.15, 0.3, 0.45, 0.6]
    del blanks[:]
    with pytest.raises(GenerationError, match=r"among those drawn: overlap 0\.\d\d\d, overlap 0\.\d\d\d$"):
        draw_domain(Structure.parse({**TINY, "density": 0.5, "overlap": 0.05}))
    assert blanks == [0] * 60, "where no steps are asked for"


def test_a_permuted_domain_is_the_same_game_under_names_that_mislead():
    real = load_domain("medical")
    other = permuted(real, seed=2)
    assert permuted(real, seed=2) == other and permuted(real, seed=3) != other and other.name != real.name
    assert other.truths == real.truths
    ours, theirs = rows(real), rows(other)
    assert sorted(map(len, ours)) == sorted(map(len, theirs))
    assert {frozenset(row) for row in ours} == {frozenset(row) for row in theirs}
    for one, two in zip(real.actions, other.actions, strict=True):
        assert [(s.value, len(s.rules_out)) for s in one.states] == [(s.value, len(s.rules_out)) for s in two.states]


@pytest.mark.slow
@given(st.sampled_from(available_domains()), st.integers(0, 10_000))
@settings(max_examples=25)
def test_no_permuted_truth_keeps_its_name(name, seed):
    real = load_domain(name)
    for before, after in zip(ours := rows(real), rows(permuted(real, seed)), strict=True):
        assert before != after or ours.count(before) > 1, "only a truth that has a twin may look the same"


def test_sources_stand_for_drawn_or_permuted_domains():
    drawn = structured_sources({"density": 0.15, "domains": 3, **SMALL}, ["medical"], seed=4)
    wanted = Structure(density=0.15, **SMALL)
    assert [domain_from(source) for source in drawn] == [draw_domain(wanted, 4, index) for index in range(3)]
    counterfactual = structured_sources({"names": "permuted"}, ["medical", "music"], seed=4)
    assert [domain_from(source) for source in counterfactual] == [
        permuted(load_domain(name), 4) for name in ("medical", "music")
    ]
    assert domain_from("music") == load_domain("music")


def test_sources_may_be_parts_of_domains_files_and_permuted_ones_again(tmp_path):
    assert [domain_from(f"reptiles@{part}") for part in ("in", "out")] == list(split_of(load_domain("reptiles")))
    assert domain_from("permuted:3:reptiles@out") == permuted(domain_from("reptiles@out"), 3)
    assert domain_from("permuted:2:permuted:3:music") == permuted(permuted(load_domain("music"), 3), 2)
    path = tmp_path / "a:b.yaml"
    path.write_text(yaml.safe_dump({**toy_yaml(), "name": "a:b"}, sort_keys=False))
    assert domain_from(f"permuted:1:{path}") == permuted(load_domain(path), 1)
