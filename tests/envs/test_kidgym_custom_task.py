"""A user's own task, items and scene: the worked example of the documentation, run as it stands there."""

import importlib.util
import re
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from PIL import Image

from envs.kidgym import TASKS, Action, Item, World, make, plan, random_success, register_task
from envs.kidgym.render import export_skin
from envs.kidgym.testing import check_task

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kidgym_new_task.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The module that the page's code block is, imported once; its task is forgotten afterwards."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path_factory.mktemp("user") / "odd_one_out.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("odd_one_out", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["odd_one_out"] = module
    spec.loader.exec_module(module)
    yield module
    del TASKS["ODD"], sys.modules["odd_one_out"]
    for level in (1, 2, 3):
        del gymnasium.registry[f"raycade/KidGym-ODD-L{level}-v0"]


@pytest.fixture(scope="module")
def skin(tmp_path_factory):
    """The built-in drawings with three toys and a scene more."""
    folder = tmp_path_factory.mktemp("skin")
    export_skin(str(folder), 32)
    for name, color in (("robot", "navy"), ("rocket", "crimson"), ("drum", "orange")):
        Image.new("RGB", (40, 40), color).save(folder / "toy" / f"{name}.png")
    (folder / "background").mkdir(exist_ok=True)
    Image.new("RGB", (448, 512), "black").save(folder / "background" / "space.png")
    return str(folder)


def test_the_example_is_a_task_like_the_twelve(example):
    for level in (1, 2, 3):
        for seed in range(20):
            world = make("ODD", level, seed)
            assert random_success(world) == pytest.approx(1 / (level + 3))
            (index,) = plan(world)
            assert world.step(index).success
            assert [item.sprite for item in world.backpack] == [world.odd]


def test_its_items_and_scene_come_from_a_skin(example, skin):
    frame = make("ODD", 2, 0, skin=skin).frame
    pixels = frame.render()
    colors = {tuple(color) for color in pixels.reshape(-1, 3)[::7]}
    assert {(0, 0, 0)} < colors
    assert {(0, 0, 128), (220, 20, 60), (255, 165, 0)} & colors
    with pytest.raises(ValueError, match=r"toy/|space"):
        make("ODD", 2, 0).frame.render()


def test_check_task_accepts_it_with_its_drawings_and_names_what_is_missing_without(example, skin):
    check_task("ODD", skin=skin)
    with pytest.raises(
        AssertionError,
        match=r"ODD, level 1, seed 0: its picture after 0 steps cannot be drawn: unknown background 'space'",
    ):
        check_task("ODD")


def test_check_task_finds_a_game_that_cannot_be_won(example, skin, monkeypatch):
    monkeypatch.setattr(example.OddOneOut, "verdict", lambda self: False if self.backpack else None)
    with pytest.raises(AssertionError, match="ODD, level 1, seed 0: nothing wins within 1 steps"):
        check_task("ODD", skin=skin)


def test_check_task_looks_at_each_level_and_at_all_that_a_game_shows(example, skin, monkeypatch):
    task, last = example.OddOneOut, len(example.OddOneOut.budgets)
    verdict, choices = task.verdict, task.choices
    with monkeypatch.context() as patch:
        patch.setattr(task, "verdict", lambda self: None if self.level == last else verdict(self))
        with pytest.raises(AssertionError, match=f"ODD, level {last}, seed 0: nothing wins"):
            check_task("ODD", skin=skin)
    made = iter(range(10**6))
    with monkeypatch.context() as patch:
        patch.setattr(task, "choices", lambda self: choices(self)[:: 1 if next(made) % 2 else -1])
        with pytest.raises(AssertionError, match="ODD, level 1, seed 0: made twice, it shows two different games"):
            check_task("ODD", skin=skin)


def test_gymnasium_knows_it_and_is_content(example, skin):
    env = gymnasium.make("raycade/KidGym-ODD-L1-v0", skin=skin, render_mode="rgb_array")
    check_env(env.unwrapped)
    observation, info = env.reset(seed=3)
    assert np.array_equal(observation, make("ODD", 1, 3, skin=skin).frame.render())
    assert info["goal"].startswith("One toy")


def test_a_task_without_budgets_or_with_a_taken_name_is_refused():
    class Empty(World):
        build = goal = choices = perform = verdict = None

    with pytest.raises(ValueError, match="task class Empty has no name"):
        register_task(Empty)
    Empty.name, Empty.title = "CL", "Mine"
    with pytest.raises(ValueError, match="task class Empty has no budgets"):
        register_task(Empty)
    Empty.budgets = (1,)
    with pytest.raises(ValueError, match="'CL' of Empty is taken by Classification"):
        register_task(Empty)
    Empty.name = "A-B"
    with pytest.raises(ValueError, match="letters and digits"):
        register_task(Empty)


@pytest.mark.parametrize("count", [0, 17])
def test_a_task_that_offers_nothing_or_too_much_is_named(count):
    class Wide(World):
        """So many ways to wait."""

        name, title, budgets, goal = "WIDE", "Wide", (2,), "Wait."

        def build(self, rng):
            pass

        def choices(self):
            return [Action(f"wait {number}", "wait") for number in range(count)]

        def perform(self, action):
            return True

        def verdict(self):
            return None

    with pytest.raises(ValueError, match=f"task WIDE, level 1, offers {count} actions at step 1: .* at most 16"):
        _ = Wide(1, 0).actions
    Wide.max_actions = 17
    if count:
        assert len(Wide(1, 0).actions) == 17


def test_what_a_task_counts_besides_the_scene_is_seen_by_the_oracle():
    class Knocks(World):
        """A door opens at the third knock."""

        name, title, budgets = "KNOCK", "Knocks", (4,)

        def build(self, rng):
            self.scene = self.scatter(rng, [Item("door/red")])
            self.knocks = 0

        goal = "Knock three times."

        def choices(self):
            return [Action("knock", "knock", next(iter(self.scene))), Action("wait", "wait")]

        def perform(self, action):
            self.knocks += action.verb == "knock"
            return action.verb == "wait" or self.walk_to(action.cell)

        def verdict(self):
            return True if self.knocks == 3 else None

        def progress(self):
            return self.knocks

    world = Knocks(1, 0)
    assert len(plan(world)) == 3
    assert random_success(world) == pytest.approx(5 / 16)
