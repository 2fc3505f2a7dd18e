"""Generated problems: the same everywhere, solvable from their panels, with answer sets that give nothing away."""

import dataclasses
import itertools
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from envs.files.arrays import read_npz
from envs.picture import picture_from_description
from envs.raven import (
    CONFIGURATIONS,
    STYLES,
    Component,
    Difficulty,
    Entity,
    Panel,
    generate,
    is_noise,
    load,
    majority_vote,
    official,
    puzzle,
    render_problem,
    solve,
    write,
)
from envs.raven.answers import _Levels
from envs.raven.commands import check, check_lines, show
from envs.raven.generate import draw
from envs.raven.solve import judge
from tests.golden import check_golden, digest

SEEDS = range(25)
EVERY = [(name, style) for name in CONFIGURATIONS for style in STYLES]


@pytest.fixture(scope="module")
def problems():
    return {(name, style): [generate(name, seed, style) for seed in SEEDS] for name, style in EVERY}


@pytest.mark.parametrize(("name", "style"), EVERY)
def test_the_solver_finds_the_answer_from_the_panels_alone(problems, name, style):
    for problem in problems[name, style]:
        assert solve(problem).answers == (problem.target,)


@pytest.mark.parametrize("step", range(1, 9))
def test_entities_that_move_on_together_keep_each_its_own_size(step):
    """Of two candidates with the same places and sizes the one is right whose entities have not exchanged theirs."""

    def panel(number, sizes=(1, 4)):
        row, column = divmod(number, 3)
        slots = [(row + step * column + more) % 9 for more in (0, 1)]
        return Panel(
            (Component(tuple(Entity(slot, 2, size, 3, 0) for slot, size in zip(slots, sizes, strict=True)), 0),)
        )

    right, exchanged = panel(8), panel(8, (4, 1))
    verdict = judge(CONFIGURATIONS["distribute_nine"], [panel(number) for number in range(8)], [exchanged, right])
    assert verdict.answers == (1,)


@pytest.mark.parametrize("style", STYLES)
def test_every_number_that_a_layout_allows_is_a_wrong_answer_somewhere(problems, style):
    numbers = [[panel.components[0].count for panel in p.candidates] for p in problems["distribute_four", style]]
    targets = [problem.target for problem in problems["distribute_four", style]]
    wrong = {number for own, right in zip(numbers, targets, strict=True) for number in own if number != own[right]}
    assert wrong == {1, 2, 3, 4}


@pytest.mark.parametrize(("name", "style"), EVERY)
def test_no_two_candidates_have_the_same_pixels(problems, name, style):
    for problem in problems[name, style]:
        assert len({panel.tobytes() for panel in render_problem(problem)[8:]}) == 8


def expected_hits(problems):
    return sum((p.target in (vote := majority_vote(p))) / len(vote) for p in problems) / len(problems)


def test_a_vote_without_context_finds_the_answer_in_ravens_sets_and_only_by_chance_in_iravens(problems):
    assert expected_hits([p for name in CONFIGURATIONS for p in problems[name, "raven"]]) > 0.9
    assert expected_hits([p for name in CONFIGURATIONS for p in problems[name, "iraven"]]) == pytest.approx(
        0.125, abs=0.02
    )


def test_bisection_changes_each_of_three_attributes_in_half_of_the_candidates(problems):
    for problem in problems["left_center_single_right_center_single", "iraven"]:
        changed = Counter(edit for edits in problem.edits for edit in edits)
        assert sorted(changed.values()) == [4, 4, 4]
        assert problem.edits[problem.target] == ()


def changes(problem, candidate):
    """The (component, attribute) in which a candidate differs from the answer; a number has positions of its own."""
    found = []
    for index, (own, true) in enumerate(zip(candidate.components, problem.answer.components, strict=True)):
        if own.count != true.count:
            found.append((index, "Number"))
            continue
        if own.slots != true.slots:
            found.append((index, "Position"))
        found += [(index, a) for a in ("Type", "Size", "Color") if sorted(own.levels(a)) != sorted(true.levels(a))]
    return found


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_ravens_wrong_candidates_differ_in_one_attribute_each(problems, name):
    for problem in problems[name, "raven"]:
        for number, candidate in enumerate(problem.candidates):
            assert len(changes(problem, candidate)) == (number != problem.target)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_iravens_edits_are_what_was_changed(problems, name):
    for problem in problems[name, "iraven"]:
        for candidate, edits in zip(problem.candidates, problem.edits, strict=True):
            renumbered = {index for index, attribute in edits if attribute == "Number"}
            said = [edit for edit in edits if edit[1] == "Number" or edit[0] not in renumbered]
            assert set(changes(problem, candidate)) == set(said)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_attributes_that_no_rule_governs_are_left_alone_by_bisection(problems, name):
    for problem in problems[name, "iraven"]:
        for edits in problem.edits:
            for component, attribute in edits:
                if attribute in ("Type", "Size", "Color"):
                    uniform = problem.context[0].components[component].uniform
                    assert not is_noise(problem.rules[component], attribute, uniform=uniform)
                if attribute == "Position":
                    assert problem.rules[component][0].attribute != "Number"


def test_both_styles_ask_the_same_matrix():
    for seed in range(20):
        assert (
            generate("distribute_nine", seed, "raven").solution == generate("distribute_nine", seed, "iraven").solution
        )


def test_answers_are_spread_over_all_eight_places(problems):
    targets = Counter(p.target for name in CONFIGURATIONS for p in problems[name, "iraven"])
    assert len(targets) == 8
    assert min(targets.values()) > 8


def test_no_wrong_candidate_has_the_answers_levels_in_another_order():
    """Where entities change places such a candidate would complete the matrix, too."""
    small, large = Entity(0, 1, 1, 1, 0), Entity(1, 1, 2, 1, 0)
    for seed in range(50):
        levels = _Levels(
            random.Random(seed),
            SimpleNamespace(levels=lambda attribute: (0, 5)),
            Component((small, large), 0),
            "Size",
            common=False,
        )
        assert len(levels.rows) == levels.left == 5
        for row in levels.rows:
            assert sorted(row) != [1, 2] and row[0] != 1 and row[1] != 2


def test_an_answer_set_that_leaves_two_answers_open_is_drawn_again():
    open_ones = [seed for seed in range(300) if len(solve(draw("Center", seed, "raven", redraw=False)[0]).answers) > 1]
    assert open_ones, "without drawing again there are some"
    for seed in open_ones:
        problem, tries = draw("Center", seed, "raven")
        assert tries > 1
        assert solve(problem).answers == (problem.target,)


def test_another_seed_gives_another_problem():
    assert len({generate("center_single", seed) for seed in range(50)}) == 50


def test_an_unknown_style_is_named():
    with pytest.raises(ValueError, match=r"'fair'.*iraven"):
        generate("center_single", 0, "fair")


LEVELS = [Difficulty(changing, values) for changing in (None, 1, 2, 4) for values in (None, 4, 6)][1:]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["center_single", "distribute_four", "in_distribute_four_out_center_single"])
def test_a_difficulty_sets_how_much_changes_and_how_many_values_there_are(name, level):
    for seed in range(4):
        problem = generate(name, seed, "iraven", level)
        assert solve(problem).answers == (problem.target,)
        for layout, rules in zip(CONFIGURATIONS[name].layouts, problem.rules, strict=True):
            able = (
                1 + (len(layout.slots) > 1) + 2 * (layout.color != (0, 0))
            )  # outer objects are white, and three sizes
            able += layout.color == (0, 0)
            if level.changing:
                assert sum(rule.name != "Constant" for rule in rules) == min(level.changing, able)
        if level.values:
            entities = [
                one
                for panel in (*problem.context, *problem.candidates)
                for part in panel.components
                for one in part.entities
            ]
            assert max(entity.type for entity in entities) <= level.values
            assert max(entity.color for entity in entities) < level.values


def test_a_picture_of_another_difficulty_travels_and_has_another_identity():
    plain, hard = generate("center_single", 1), generate("center_single", 1, "iraven", Difficulty(4, 5))
    assert "difficulty" not in puzzle(plain).description and "difficulty" not in repr(plain.source)
    assert picture_from_description(puzzle(hard).description) == puzzle(hard)
    assert repr(hard.source) != repr(plain.source) and load(hard.source) == hard


@pytest.mark.parametrize("wrong", [{"changing": 0}, {"changing": 5}, {"values": 3}, {"values": 11}])
def test_a_difficulty_that_there_is_not_is_refused(wrong):
    with pytest.raises(ValueError, match="must be from"):
        Difficulty(**wrong)


def test_problems_are_as_on_record(tmp_path):
    parts = [
        "# Problem: target, what solves it, what a vote is for; digests of its scene, pixels, files and description"
    ]
    for (name, style), level in itertools.product(EVERY, (None, Difficulty(2, 5))):
        problem = generate(name, 6, style, level)
        verdict, render = solve(problem), "own" if style == "raven" else "official"
        picture = puzzle(load(dataclasses.replace(problem.source, render=render)))
        write(official(problem), tmp_path / "problem")
        arrays = read_npz(tmp_path / "problem.npz")
        stored = b"".join(name.encode() + array.tobytes() for name, array in sorted(arrays.items()))
        scene = digest(repr(problem)), digest(picture.render().tobytes()), digest(stored)
        files = digest((tmp_path / "problem.xml").read_bytes()), digest(picture.description)
        satisfied = "".join(map(str, verdict.satisfied))
        changed = "" if level is None else " 2 5"
        parts.append(
            f"{name} {style}{changed}: {problem.target} {verdict.answers} {satisfied} {majority_vote(problem)} "
            f"{' '.join(scene + files)}"
        )
    parts += check_lines(check(generate(name, seed, style) for name, style in EVERY[:6] for seed in range(3)))
    for name, style in EVERY[-2:]:
        parts += show(generate(name, 2, style), None)
    check_golden("raven_problems", "\n".join(parts))
