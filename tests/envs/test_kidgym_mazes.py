"""MA, DMA and MMA: every maze can be solved, needs exactly its doors, and there is no end of mazes."""

from random import Random

import pytest

from envs.kidgym import Item, make, solve
from envs.kidgym import layout as layout_module
from envs.kidgym.grid import ALL, NEIGHBORS, mask, members, region
from envs.kidgym.layout import lay_out
from envs.kidgym.world import Action

MAZES = [(task, level) for task in ("MA", "DMA", "MMA") for level in (1, 2, 3)]


def reachable_through(layout, doors_open):
    """Whether the agent can stand beside the treasure with all keys taken and only these doors open."""
    shut = mask(door for door in layout.doors if door not in doors_open)
    free = layout.field & ~shut & ~(1 << layout.treasure)
    if layout.distractor is not None:
        free |= 1 << layout.distractor
    return bool(region(free, layout.agent) & NEIGHBORS[layout.treasure])


def check(layout, doors, walls, chests, distractor):
    places = [layout.agent, layout.treasure, *layout.doors, *layout.keys, *layout.walls, *layout.chests]
    places += [] if layout.distractor is None else [layout.distractor]
    assert len(set(places)) == len(places)
    assert (len(layout.doors), len(layout.keys)) == (doors, doors)
    assert (len(layout.walls), len(layout.chests)) == (walls, chests)
    assert (layout.distractor is not None) == distractor
    assert reachable_through(layout, layout.doors)
    for door in layout.doors:
        assert not reachable_through(layout, set(layout.doors) - {door})
    for place in [*layout.chests, *([layout.distractor] if distractor else [])]:
        assert region(layout.field & ~(1 << layout.treasure), layout.agent) & NEIGHBORS[place]
    # Every key can be taken while its own door and all later ones are still locked.
    for number, key in enumerate(layout.keys):
        shut = mask(layout.doors[number:])
        free = ALL & layout.field & ~shut & ~(1 << layout.treasure)
        assert region(free, layout.agent) >> key & 1


@pytest.mark.parametrize("doors", [1, 2, 3])
@pytest.mark.parametrize("walls", [3, 5, 7, 10])
@pytest.mark.parametrize(("chests", "distractor"), [(0, False), (2, False), (0, True)])
@pytest.mark.parametrize("attempts", [layout_module.ATTEMPTS, 0])
def test_layouts_need_every_door_and_no_more(doors, walls, chests, distractor, attempts, monkeypatch):
    monkeypatch.setattr(layout_module, "ATTEMPTS", attempts)  # without attempts it is the corridor that never fails
    for seed in range(40):
        check(lay_out(Random(seed), doors, walls, chests, distractor), doors, walls, chests, distractor)


def test_the_corridor_is_hardly_ever_needed(monkeypatch):
    used = []
    corridor = layout_module._corridor
    monkeypatch.setattr(layout_module, "_corridor", lambda *arguments: used.append(arguments) or corridor(*arguments))
    for task, level in MAZES:
        for seed in range(40):
            make(task, level, seed)
    assert not used


@pytest.mark.parametrize(("task", "level"), MAZES)
def test_the_shortest_plan_opens_each_stated_door_once(task, level):
    for seed in range(30):
        world = make(task, level, seed)
        doors = sum(item.sprite.startswith("door/") for item in world.scene.values())
        assert doors == level
        plan = solve(world)
        verbs = [action.verb for action in plan]
        assert verbs.count("unlock") == level
        assert verbs.count("obtain") == level + 1
        assert len(plan) == 2 * level + 1 + world.memory == world.budget - (task == "DMA")


@pytest.mark.parametrize(("task", "level"), MAZES)
def test_no_order_of_play_wins_with_a_door_left_locked(task, level):
    for seed in range(20):
        world = make(task, level, seed)
        for door in [cell for cell, item in world.scene.items() if item.sprite.startswith("door/")]:
            walled = world.copy()
            walled.scene[door] = Item("wall")
            assert solve(walled) is None


@pytest.mark.parametrize(("task", "level"), MAZES)
def test_there_is_no_end_of_mazes(task, level):
    # The published code has a hundred layouts a level, in order, and then fails; or loops for ever on some of them.
    layouts = {tuple(sorted(make(task, level, seed).scene.items())) for seed in range(60)}
    assert len(layouts) > 55


def test_a_key_of_the_wrong_color_is_refused_and_kept():
    refused = 0
    for seed in range(40):
        world = make("MA", 3, seed)
        for action in solve(world):
            if action.verb == "unlock":
                held = world.backpack[action.slot].sprite.partition("/")[2]
                for other, item in world.scene.items():
                    if item.sprite.startswith("door/") and item.sprite != f"door/{held}":
                        attempt = world.copy()
                        assert not attempt.take(Action("", "unlock", other, action.slot)).accepted
                        assert attempt.backpack == world.backpack
                        assert attempt.scene == world.scene
                        refused += 1
            world.take(action)
    assert refused > 20


def test_decoding_follows_the_hint_and_never_the_color():
    codes = set()
    for seed in range(60):
        for level in (1, 2, 3):
            world = make("DMA", level, seed)
            rows = [(key.sprite.partition("/")[2], door.sprite.partition("/")[2]) for key, door in world.hint.rows]
            assert len(rows) == level
            assert all(key != door for key, door in rows)
            assert world.hint == make("DMA", level, seed).hint
            codes |= set(rows)
            for action in solve(world):
                if action.verb == "unlock":
                    pair = (world.backpack[action.slot].sprite[4:], world.scene[action.cell].sprite[5:])
                    assert pair in rows
                world.take(action)
            assert world.success
            assert world.hint is not None
    assert len(codes) == 6  # both codes occur, so the hint has to be read


def test_the_first_decode_maze_has_a_key_of_the_doors_color_that_opens_nothing():
    for seed in range(40):
        world = make("DMA", 1, seed)
        sprites = {item.sprite: cell for cell, item in world.scene.items()}
        ((key, door),) = world.hint.rows
        trap = door.sprite.replace("door", "key")
        assert {key.sprite, door.sprite, trap} <= set(sprites)
        world.scene.pop(sprites[trap])
        world.backpack.append(door._replace(sprite=trap))
        assert not world.take(Action("", "unlock", sprites[door.sprite], 0)).accepted


def test_the_diamond_hides_in_a_chest_of_the_same_label_and_decoys_appear():
    for seed in range(20):
        for level in (1, 2, 3):
            world = make("MMA", level, seed)
            before = dict(world.scene)
            diamond = next(cell for cell, item in before.items() if item.sprite == "diamond")
            assert "chest" not in {item.sprite for item in before.values()}
            assert world.hint is None
            world.step(0)
            chests = [cell for cell, item in world.scene.items() if item.sprite == "chest"]
            assert len(chests) == 3
            assert diamond in chests
            assert world.scene[diamond].label == before[diamond].label
            assert not {"diamond"} & {item.sprite for item in world.scene.values()}
            assert all(world.scene[cell] == item for cell, item in before.items() if cell != diamond)


def test_a_decoy_loses_at_once():
    for seed in range(20):
        world = make("MMA", 1, seed)
        for action in solve(world)[:-1]:
            world.take(action)
        for cell in members(mask(cell for cell, _ in world.hidden)):
            attempt = world.copy()
            result = attempt.take(next(action for action in attempt.options if action.cell == cell))
            assert (result.accepted, result.success, result.terminated) == (True, False, True)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_no_chest_can_be_opened_before_all_doors_so_that_only_its_place_tells_the_right_one(level):
    for seed in range(20):
        world = make("MMA", level, seed)
        actions = solve(world)
        world.take(actions[0])
        chests = {cell for cell, item in world.scene.items() if item.sprite == "chest"}
        for action in actions[1:-1]:
            for chest in chests:
                attempt = world.copy()
                assert not attempt.take(next(option for option in attempt.options if option.cell == chest)).accepted
            world.take(action)
        for chest in chests:
            attempt = world.copy()
            assert attempt.take(next(option for option in attempt.options if option.cell == chest)).accepted
