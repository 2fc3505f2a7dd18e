"""Balanced games of the suite: names, settings, scores of both variants side by side, and what shortcuts still win."""

import re

import pytest

from envs.kidgym import make, solve
from envs.kidgym.chance import BALANCED_CHANCE
from evals.players import OraclePlayer
from evals.suites.kidgym import KidGymSuite
from evals.suites.kidgym.example import worked_example
from evals.suites.kidgym.features import option_features
from evals.suites.kidgym.mistakes import miscount
from evals.suites.kidgym.rerender import rerender_episode
from evals.suites.kidgym.shortcuts import APPLIES, shortcut_action
from evals.suites.kidgym.templates import load_templates
from evals.suites.kidgym.variants import chance_of, named
from tests.evals.suites.kidgym.test_kidgym_play import ScriptedPlayer, perfect, play, texts
from tests.evals.suites.kidgym.test_kidgym_rerender import ledger_rows
from tests.evals.suites.kidgym.test_kidgym_score import rows, tables

LEFT = {("right_kind", "FI"), ("right_kind", "MFI"), ("right_and_missing", "FI"), ("right_and_missing", "MFI")}
LEFT |= {(name, "MMA") for name in ("remembers_label", "skips_the_beginning")}
"""Shortcuts that still win more, as docs/validity_kidgym.md explains."""


def small(tasks, **settings):
    return KidGymSuite(**{"tasks": tasks, "levels": [1], "modes": ["zero_shot"], "episodes": 2, **settings})


def test_balanced_games_have_names_of_their_own_and_published_ones_keep_theirs():
    published, balanced, both = (
        {episode.id: (episode.task, episode.seed) for episode in small(["FI", "SE"], variant=variant).plan()}
        for variant in ("published", "balanced", ["published", "balanced"])
    )
    assert [name for name, _ in published.values()] == ["FI", "FI", "SE", "SE"]
    assert [name for name, _ in balanced.values()] == ["FI-balanced", "FI-balanced", "SE", "SE"]
    assert both == published | balanced
    seeds = [[seed for name, seed in games.values() if name != "SE"] for games in (published, balanced)]
    assert seeds[0] == seeds[1]


def test_games_are_planned_by_variant_task_level_mode_and_number_and_known_by_chance():
    suite = small(["SE", "FI"], levels=[2, 1], modes=["icl", "zero_shot"], variant=["balanced", "published"])
    plan = suite.plan()
    assert [(episode.task, episode.level, episode.mode, episode.index) for episode in plan] == [
        (task, level, mode, index)
        for task in ("SE", "FI-balanced", "FI")
        for level in ("2", "1")
        for mode in ("zero_shot", "icl")
        for index in (0, 1)
    ]
    assert len({episode.seed for episode in plan}) == 2 * 2 * 2, "modes and variants share games of a task"
    drawn = {name: dict(suite.known_success(name, "2")) for name in ("CL-balanced", "CL")}
    assert drawn == {name: {"chance": chance_of(name)[1], "perfect play": 1} for name in drawn}
    assert (
        drawn["CL"] != drawn["CL-balanced"] and not suite.known_success("CL", "x") and not suite.known_success("?", "1")
    )
    assert [suite.variant_of(name) for name in drawn] == ["balanced", "published"]


@pytest.mark.slow
def test_perfect_play_wins_balanced_games_and_they_are_rendered_again(tmp_path):
    suite = small([*BALANCED_CHANCE], variant="balanced", levels=[2])
    found = ledger_rows(tmp_path, suite, OraclePlayer())
    assert {row["task"] for row in found} == {f"{task}-balanced" for task in BALANCED_CHANCE}
    assert all(row["success"] and rerender_episode(row).success for row in found)


@pytest.mark.slow
def test_scores_of_both_variants_stand_side_by_side_and_are_not_mixed():
    suite = small(["CL", "PL"], levels=[1, 2, 3], variant=["published", "balanced"])
    found = tables(suite, {"oracle": OraclePlayer()})
    assert {row["task"] for row in rows(found["kidgym_success"])} == {"CL", "CL-balanced", "PL"}
    scores = {row["mode"]: row["execution"].n for row in rows(found["kidgym_capabilities"])}
    assert scores == {"zero_shot": 6, "zero_shot, balanced": 6}
    chance = {(row["task"], row["level"]): row["chance"] for row in rows(found["kidgym_reference"])}
    assert (chance["CL", "1"], chance["CL-balanced", "1"]) == (1 / 4, 1 / 16)


SAID = {"CL": "every .*, every ", "SO": " than the ", "FI": "made of four", "PU": "of four pieces", "CO": "of a thing"}
SAID |= {"MFI": "made of four", "MDE": "The table pairs (.* with .*){4}. I remember"}
SAID |= dict.fromkeys(("MA", "DMA", "MMA"), "Each key unlocks one door")


@pytest.mark.parametrize("task", BALANCED_CHANCE)
def test_the_worked_example_is_a_balanced_game(task):
    player = ScriptedPlayer(perfect)
    play(small([task], variant="balanced", modes=["icl"]), player)
    example = "".join(part for part in worked_example(f"{task}-balanced", load_templates("")) if isinstance(part, str))
    assert re.search(SAID[task], example) and example.splitlines()[0] in texts(player.turns[0].chat)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), [(name, task) for name, tasks in APPLIES.items() for task in tasks])
def test_listed_shortcuts_win_little_more_than_chance(name, task):
    if task not in BALANCED_CHANCE or (name, task) in LEFT:
        return
    games = 60
    for level in (1, 2, 3):
        won = 0
        for seed in range(games):
            world = make(task, level, seed, variant="balanced")
            while not world.done:
                world.take(shortcut_action(name, world))
            won += world.success
        chance = chance_of(named(task, "balanced"))[level - 1]
        assert won <= games * (chance + 0.05) + 3 * (games * max(chance, 0.05)) ** 0.5


@pytest.mark.slow
def test_what_is_left_is_one_guess():
    """A kind or a side tells two pieces of four; a forgotten place is one of the chests."""
    for name, task, share in (("right_kind", "FI", 1 / 2), ("skips_the_beginning", "MMA", 1 / 5)):
        won = 0
        for seed in range(100):
            world = make(task, 1, seed, variant="balanced")
            while not world.done:
                world.take(shortcut_action(name, world))
            won += world.success
        assert abs(won / 100 - share) < 0.15


def test_who_remembers_the_label_opens_the_chest_that_has_it_now_if_any_has():
    opened = []
    for seed in range(10):
        world = make("MMA", 1, seed, variant="balanced")
        label = world.scene[world.treasure].label
        world.step(0)
        chests = {cell: world.scene[cell].label for cell in (world.treasure, *dict(world.hidden))}
        while not world.done:
            action = shortcut_action("remembers_label", world)
            world.take(action)
        if label in chests.values():
            opened.append(chests[action.cell] == label)
    assert len(opened) > 2 and all(opened)


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("FI", {"position kind side: hint block shows the carried piece here": True}),
        ("PU", {"position side: hint block shows its side here": True}),
        ("MFI", {"memory position kind side: hint block shows the carried piece here": True}),
        ("SO", {"kind order: its rank is the place's number": True}),
    ],
)
def test_right_actions_are_told_by_what_is_seen(task, values):
    for seed in range(20):
        world = make(task, 2, seed, variant="balanced")
        opening = world.frame
        if world.watching:
            world.step(0)
        best = solve(world)[0].text
        told = {each.action: each.values for each in option_features(world, world.ordered, opening, ())}
        assert values.items() <= told[best].items()
        placed = best.rpartition(" ")[2]
        others = [action for action in told if action != best and action.endswith(f" {placed}")]
        assert others and not any(values.items() <= told[action].items() for action in others)


def test_counts_of_each_thing_are_told_of_its_piles():
    world = make("CO", 2, 3, variant="balanced")
    for action in solve(world):
        told = {each.action: each.values for each in option_features(world, world.ordered, world.frame, ())}
        if action.verb == "pick":
            assert told[action.text]["count kind: missing of it after this"] >= 0
        else:
            assert told[action.text]["count kind: things whose number is not right"] == 0
        world.take(action)
    assert world.success and miscount(world) is None


def test_settings_of_published_games_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"suite\.mde_decoys=published is for suite\.variant=published"):
        small(["MDE"], variant="balanced", mde_decoys="published").plan()
    for name, text in (("goals", "goals: {SO: 'Sort them: $premise.'}\n"), ("list", "list: {separator: ' '}\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "words.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"words\.yaml are for suite\.variant=published"):
        small(["SO"], variant="balanced", templates=str(tmp_path / "goals")).plan()
    assert small(["SO"], variant="balanced", templates=str(tmp_path / "list")).plan()
