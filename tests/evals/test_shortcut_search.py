"""Players that lack a sense are found, and what a cell needs is told from them."""

import dataclasses
import math
import re
from dataclasses import dataclass
from random import Random

import pytest

from envs.files import FileError
from envs.kidgym import make, solve
from envs.kidgym.tasks.placement import RING
from evals.shortcut_search import games
from evals.shortcut_search.classes import feature_classes
from evals.shortcut_search.games import NoFeaturesError, good_options, lessons, play
from evals.shortcut_search.learner import Learner, among
from evals.shortcut_search.record import CellRecord, Search, SearchRecord, read_record, write_record
from evals.shortcut_search.search import Found, _by_cell, needs_table, search
from evals.stats.intervals import Estimate
from evals.suite import Suite, plan_for
from evals.suites.kidgym.features import option_features
from evals.suites.kidgym.features.senses import COARSE_SENSES, SENSES
from evals.suites.kidgym.mistakes import Step
from evals.suites.kidgym.suite import KidGymSuite
from evals.types import Episode, OptionFeatures, Outcome, Turn, message

BOXES = ("open box A", "open box B", "open box C")


@dataclass(frozen=True)
class Boxes(Suite):
    """One box of three is right: the red one. Level ``plain``: it is the first one, too."""

    name = "boxes"
    first_seed: int = 0
    games: int = 25
    has_features: bool = True

    def plan(self):
        return [
            Episode("boxes", "boxes", level, "zero_shot", index, 0, self.first_seed + index, "", budget=1)
            for level in ("plain", "shuffled")
            for index in range(self.games)
        ]

    async def play(self, episode, conversation):
        colors = ["red", "blue", "green"]
        if episode.level == "shuffled":
            Random(episode.seed).shuffle(colors)

        def features():
            return [
                OptionFeatures(box, {"text: place": float(place), "color: of the box": color})
                for place, (box, color) in enumerate(zip(BOXES, colors, strict=True))
            ]

        played = await conversation.ask(
            (message("user", "Which box?"),),
            options=BOXES,
            oracle=lambda: BOXES[colors.index("red")],
            features=features if self.has_features else None,
        )
        return Outcome(success=played.reply.text == BOXES[colors.index("red")], steps=1)


def test_a_cell_has_all_its_games_whatever_the_order_of_the_plan(monkeypatch):
    plan = list(reversed(Boxes(games=3).plan()))
    plan += [dataclasses.replace(episode, task="bags") for episode in plan]
    monkeypatch.setattr(Boxes, "plan", lambda suite: plan)
    cells = {cell: [episode.index for episode in games] for cell, games in _by_cell(Boxes()).items()}
    assert cells == {(task, level): [0, 1, 2] for task in ("bags", "boxes") for level in ("plain", "shuffled")}


@pytest.mark.slow
def test_what_a_cell_needs_is_found_on_games_that_were_not_learned_from():
    found = list(search(Boxes(first_seed=1000), Boxes()))
    success = {(each.level, each.players): each.success.mean for each in found}
    assert success["plain", "text only"] == success["plain", "all but color"] == 1
    assert success["shuffled", "everything"] == 1 and 0.1 < success["shuffled", "all but color"] < 0.6
    table = needs_table("boxes", found)
    assert [(row[1], row[-1]) for row in table.rows] == [("plain", "none of these"), ("shuffled", "color")]


CLASSES = {each.name: each for each in feature_classes(["text: a", "color: b", "count: c", "coarse-count: d"])}


def found_in(task, level, learned_from, games, **success):
    """What each feature class (underscores for spaces) has won in a cell."""
    return [
        Found(task, level, CLASSES[name.replace("_", " ")], learned_from, Estimate(won, 0.0, 1.0, games))
        for name, won in success.items()
    ]


def test_what_was_found_is_kept_and_each_cell_keeps_the_search_that_found_it_last(tmp_path):
    path = tmp_path / "found.yaml"
    first, second = Search("first", "2026-01-30", "training:0"), Search("second", "2026-01-31", "training:7")
    plain = found_in("boxes", "plain", 30, 20, everything=0.9876, text_only=0.25)
    shuffled = found_in("boxes", "2", 40, 50, everything=0.75, all_but_color=0.5)
    write_record(path, [*shuffled, *plain], first)
    kept = {
        ("boxes", "plain"): CellRecord(first, 30, 20, {"everything": 0.988, "text only": 0.25}),
        ("boxes", "2"): CellRecord(first, 40, 50, {"everything": 0.75, "all but color": 0.5}),
    }
    assert read_record(path) == SearchRecord(("color", "text"), kept)
    other = found_in("arrows", "1", 60, 70, only_a_coarse_count=0.125)
    write_record(path, [*found_in("boxes", "2", 41, 51, everything=0.5), *other], second)
    changed = {
        ("boxes", "2"): CellRecord(second, 41, 51, {"everything": 0.5}),
        ("arrows", "1"): CellRecord(second, 60, 70, {"only a coarse count": 0.125}),
    }
    assert read_record(path) == SearchRecord(("coarse-count", "color", "text"), {**kept, **changed})
    assert re.findall("task: ([a-z]+)", path.read_text()) == ["boxes", "arrows", "boxes"], "by search, then by task"
    write_record(path, [*plain, *shuffled, *other], second)
    assert "first" not in path.read_text(), "a search whose cells were all found again"


def test_the_best_player_that_lacks_what_a_task_is_about_stands_beside_scores():
    cell = CellRecord(
        Search("c", "d", "t"),
        *(3, 5),
        {"everything": 1.0, "text only": 0.2, "all but color": 0.6, "all but count": 0.5, "only a coarse count": 0.7},
    )
    record = SearchRecord(("coarse-count", "color", "count", "text"), {("a", "1"): cell})
    assert record.best("a", "1", ["color"]) == ("learned: all but color", 0.6)
    assert record.best("a", "1", ["count"]) == ("learned: only a coarse count", 0.7)
    assert record.best("a", "1", ["count", "color"]) == ("learned: only a coarse count", 0.7)
    assert record.best("a", "1", ["hue"]) == ("learned: text only", 0.2)
    assert record.best("a", "1", []) is None is record.best("a", "2", ["color"]) is record.best("b", "1", ["color"])


def test_a_cell_needs_the_senses_without_which_clearly_less_is_won():
    found = found_in("a", "1", 3, 5, everything=0.8, text_only=0.1, all_but_color=0.75, all_but_count=0.74)
    found += found_in("a", "2", 3, 5, everything=0.8, all_but_color=0.2, all_but_count=0.3, only_a_coarse_count=0.0)
    found += found_in("b", "1", 3, 5, everything=0.5, all_but_color=0.9)
    table = needs_table("s", found)
    assert table.columns == (
        *("task", "level", "everything", "text only", "all but color", "all but count", "only a coarse count", "needs"),
    )
    rows = [tuple(getattr(cell, "mean", cell) for cell in row) for row in table.rows]
    assert rows == [
        ("a", "1", 0.8, 0.1, 0.75, 0.74, None, "count"),
        ("a", "2", 0.8, None, 0.2, 0.3, 0.0, "color, count"),
        ("b", "1", 0.5, None, 0.9, None, None, "none of these"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("searches: 3", "no record of a search"),
        (
            "{senses: [text], searches: [{command: a, date: b, training: c, cells: "
            "[{task: a, level: 1, learned_from: 3, games: 2, success: {all but hue: 0.5}}]}]}",
            "'all but hue'; its senses have everything, text only",
        ),
        (
            "{senses: [text], searches: [{command: a, date: b, training: c, cells: ["
            "{task: a, level: 1, learned_from: 3, games: 2, success: {}}, "
            "{task: a, level: 1, learned_from: 4, games: 2, success: {}}]}]}",
            "the cell a 1 stands there twice",
        ),
    ],
)
def test_a_file_that_is_no_record_is_named(tmp_path, text, message):
    path = tmp_path / "found.yaml"
    path.write_text(text)
    with pytest.raises(FileError, match=re.escape(str(path)) + ".*" + message):
        read_record(path)


def test_a_suite_without_features_is_named():
    with pytest.raises(NoFeaturesError, match="'boxes'"):
        lessons(Boxes(has_features=False), plan_for(Boxes(has_features=False), {"search": ""}))


def test_each_sense_is_left_out_once_and_a_value_needs_all_its_senses():
    classes = {each.name: each for each in feature_classes(["text: a", "color position: b", "label: c"])}
    assert {f"all but {sense}" for sense in ("color", "label", "position")} < classes.keys()
    values = {"text: a": 1.0, "color position: b": 2.0, "label: c": 3.0}
    assert classes["all but color"].reduced(values).keys() == {"text: a", "label: c"}
    assert classes["text and positions"].reduced(values).keys() == {"text: a"}
    assert classes["everything"].reduced(values) == values


def test_a_coarse_sense_goes_without_the_fine_one_and_is_lacked_with_it():
    values = {"text: a": 1.0, "count: b": 3.0, "coarse-count position: c": "several", "position: d": 2.0}
    classes = {each.name: each for each in feature_classes(values)}
    reduced = {name: list(each.reduced(values)) for name, each in classes.items()}
    assert reduced["only a coarse count"] == ["text: a", "coarse-count position: c", "position: d"]
    assert reduced["all but count"] == ["text: a", "position: d"] == reduced["text and positions"]
    assert "only a coarse position" not in classes and "all but coarse-count" not in classes
    assert classes["only a coarse count"].lacks("count") and not classes["only a coarse count"].lacks("position")
    assert classes["text only"].lacks("count") and not classes["everything"].lacks("count")


def _row_of(world, action):
    """What of a piece and its place is told without telling left from right."""
    _, *kind, side = world.backpack[action.slot].sprite.split("/")
    return action.cell, *kind, side in "12"


def _way_to(world, action):
    """How far a position is from the right one and its mirror image."""
    ring = list(RING.values())
    turn = ring.index(action.cell) - ring.index(RING[world.direction])
    return min(turn % 8, -turn % 8)


def _is_several(world, action):
    return action.cell in world.scene and world.scene[action.cell].sprite[-1] in "23"


@pytest.mark.parametrize(
    ("task", "level", "sense", "group"),
    [("CO", 1, "count", _is_several), ("FI", 3, "side", _row_of), ("PL", 3, "direction", _way_to)],
)
def test_a_coarse_sense_does_not_tell_two_from_three_left_from_right_or_which_way_to_turn(task, level, sense, group):
    for seed in range(20):
        world = make(task, level, seed)
        told = {}
        for action, option in zip(world.ordered, option_features(world, world.ordered, world.frame, ()), strict=True):
            coarse = {name: value for name, value in option.values.items() if f"coarse-{sense}" in name}
            if coarse and action.verb != "declare":
                told.setdefault(group(world, action), []).append(coarse)
        assert all(each == alike[0] for alike in told.values() for each in alike)
        assert len({str(alike[0]) for alike in told.values()}) > 1


def test_several_may_be_two_or_three():
    world = make("CO", 1, seed=0)
    options = zip(world.ordered, option_features(world, world.ordered, world.frame, ()), strict=True)
    several = next(option.values for action, option in options if _is_several(world, action))
    ends = [several[f"coarse-count: carried and this at {end}, less what is asked for"] for end in ("least", "most")]
    assert ends == [2 - world.target, 3 - world.target]


def test_options_are_told_apart_by_how_they_stand_to_each_other():
    first, second, third = among([{"x: n": 1.0, "x: k": "a"}, {"x: n": 2.0, "x: k": "a"}, {"x: k": "b"}])
    assert first["x: n, least"] and not first["x: n, most"] and second["x: n, most"]
    assert first["x: k, how many share it"] == 2 and third["x: k, how many share it"] == 1
    assert "x: n, least" not in third


def test_options_that_lead_to_the_fewest_steps_are_good_and_lost_games_teach_nothing():
    episode = Boxes().plan()[0]
    offered = [OptionFeatures(name, {}) for name in "abc"]
    steps = {"a": 2.0, "b": 3.0, "c": 2.0 + 1e-12}
    turn = Turn(episode, 0, (), options=("a", "b", "c"), remaining=lambda action: steps[action])
    assert good_options(turn, offered) == [True, False, True]
    lost = Turn(episode, 0, (), options=("a", "b", "c"), remaining=lambda action: float("inf"))
    assert good_options(lost, offered) == [False] * 3


def test_a_turn_that_no_option_wins_is_no_lesson(monkeypatch):
    offered = [OptionFeatures(name, {}) for name in BOXES]
    won, lost = (
        Turn(
            Boxes().plan()[0],
            0,
            (),
            BOXES,
            remaining=lambda action, best=best: best if action == BOXES[1] else math.inf,
        )
        for best in (1.0, math.inf)
    )
    monkeypatch.setattr(games, "play", lambda suite, episodes, choose: choose([lost, won], [offered] * 2))
    [lesson] = lessons(Boxes(), ())
    assert lesson.good == [False, True, False]


@pytest.mark.slow
def test_equal_options_are_drawn():
    learner = Learner(feature_classes(["text: a"])[1])
    offered = [OptionFeatures(name, {"text: a": 1.0}) for name in "abc"]
    learner.learn([offered] * 20, [[True, False, False]] * 20)
    assert set(learner.choose([offered] * 60)) == {0, 1, 2}


@pytest.mark.parametrize("task", ["CL", "SO", "FI", "DMA", "CO", "PL", "MDE", "MMA", "PU"])
def test_values_of_kidgym_depend_on_what_is_seen_only_and_name_their_senses(task):
    world = make(task, 2, seed=5)
    opening = world.frame
    if world.watching:
        world.step(0)
    offered = option_features(world, world.ordered, opening, ())
    assert [each.action for each in offered] == list(world.actions)
    for each in offered:
        assert all(set(name.partition(":")[0].split()) <= {*SENSES, *COARSE_SENSES} for name in each.values)
    # Looking changes nothing, and a copy tells the same.
    assert option_features(world.copy(), world.ordered, opening, ()) == offered


@pytest.mark.parametrize("accepted", [(), (False,), (True,), (False, True), (True, False), (True, True, False)])
def test_refused_and_done_before_are_told_of_the_very_actions_that_were(accepted):
    world = make("CL", 1, seed=3)
    first, *others = world.ordered
    offered = option_features(world, world.ordered, world.frame, [Step(world, first, each) for each in accepted])
    for action, option in zip((first, *others), offered, strict=True):
        mine = accepted if action == first else ()
        assert option.values["text: refused before"] is (False in mine)
        assert option.values["text: done before with this target"] == sum(mine)
        assert option.values["text: last action refused"] is (accepted[-1:] == (False,))
        assert option.values.get(f"text: done before: {first.verb}", 0) == len(accepted)


def test_the_right_piece_is_told_by_its_kind_and_its_corner_together():
    for seed in range(30):
        world = make("FI", 2, seed)
        best = solve(world)[0].text
        values = {each.action: each.values for each in option_features(world, world.ordered, world.frame, ())}[best]
        assert values["position side: carried belongs in this corner"] and values["kind: carried, in the hint block"]


@pytest.mark.slow
def test_a_game_is_played_by_who_learned_it():
    suite = KidGymSuite(tasks=("SO",), levels=(1,), modes=("zero_shot",), episodes=60, seeds="training:0")
    held_out = KidGymSuite(tasks=("SO",), levels=(1,), modes=("zero_shot",), episodes=40)
    taught = lessons(suite, plan_for(suite, {"search": ""}))
    names = {name for lesson in taught for option in lesson.options for name in option.values}
    learner = Learner(next(each for each in feature_classes(names) if each.name == "everything"))
    learner.learn([lesson.options for lesson in taught], [lesson.good for lesson in taught])
    won = play(held_out, plan_for(held_out, {"search": ""}), lambda _, options: learner.choose(options))
    assert sum(won) / len(won) > 0.8
