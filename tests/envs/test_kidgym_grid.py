"""Walking, reach and the backpack."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.kidgym import Item, make
from envs.kidgym import grid as grid_module
from envs.kidgym.grid import ALL, CELLS, NEIGHBORS, at, mask, members, nearest, region, scatter, within_reach

SETS = st.sets(st.sampled_from(list(CELLS)), max_size=14)


def distances(blocked, start):
    """Steps from the start to every cell within reach, cell by cell."""
    found, rim = {start: 0}, [start]
    for cell in rim:
        x, y = cell % 5, cell // 5
        for dx, dy in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            if 0 <= x + dx < 5 and 0 <= y + dy < 5:
                beside = at(x + dx, y + dy)
                if beside not in blocked and beside not in found:
                    found[beside] = found[cell] + 1
                    rim.append(beside)
    return found


@given(SETS, st.sampled_from(list(CELLS)), SETS)
def test_bitboards_agree_with_a_cell_by_cell_search(blocked, start, goals):
    blocked -= {start}
    known = distances(blocked, start)
    free = ALL & ~mask(blocked)
    assert set(members(region(free, start))) == set(known)
    found = nearest(free, start, mask(goals))
    reachable = {cell: known[cell] for cell in goals if cell in known}
    if found is None:
        assert not reachable
    else:
        assert known[found] == min(reachable.values())


@given(SETS, st.sampled_from(list(CELLS)))
def test_the_agent_walks_to_the_nearest_cell_beside_and_faces_the_target(blocked, target):
    world = make("PL", 1, 0)
    agent = next(cell for cell in CELLS if cell not in blocked and cell != target)
    world.scene = {cell: Item("wall") for cell in blocked | {target}}
    world.agent, world.facing = agent, grid_module.DOWN
    known = distances(set(world.scene), agent)
    beside = [known[cell] for cell in members(NEIGHBORS[target]) if cell in known]
    if world.walk_to(target):
        assert known[world.agent] == min(beside)
        assert world.agent + {0: 5, 1: 1, 2: -5, 3: -1}[world.facing] == target
    else:
        assert not beside
        assert (world.agent, world.facing) == (agent, grid_module.DOWN)


def test_an_unreachable_target_picks_up_nothing_else():
    # The agent starts facing down; the published code then takes whatever lies there instead of what was asked for.
    world = make("MA", 1, 0)
    world.agent, world.facing = at(0, 0), grid_module.DOWN
    world.scene = {at(0, 1): Item("key/blue", "0"), at(1, 0): Item("wall"), at(4, 4): Item("diamond", "1")}
    world.scene |= {cell: Item("wall") for cell in members(NEIGHBORS[at(4, 4)])}
    before = world.frame
    result = world.step(world.actions.index("obtain item with label 1"))
    assert not result.accepted
    assert world.backpack == []
    assert world.frame == before


def test_a_full_backpack_swallows_nothing():
    for task, level in (("CL", 3), ("CO", 3)):
        for seed in range(10):
            world = make(task, level, seed)
            things = len(world.scene)
            for _ in range(4):
                picks = [index for index, action in enumerate(world.ordered) if action.verb == "pick"]
                if world.done or not picks:
                    break
                world.step(picks[0])
            if len(world.backpack) == 4:
                cell = next(cell for cell, item in world.scene.items() if not item.sprite.startswith("basket/"))
                before = world.frame
                assert not world.pick_up(cell)
                assert world.frame == before
            assert len(world.scene) + len(world.backpack) == things


def test_classification_offers_no_pick_to_a_full_backpack():
    world = make("CL", 3, 0)
    for _ in range(4):
        world.step(next(index for index, action in enumerate(world.ordered) if action.verb == "pick"))
    assert {action.verb for action in world.ordered} == {"put"}


def test_taking_from_a_slot_moves_the_later_ones_up():
    world = make("SO", 2, 4)
    _, second, third = world.backpack
    index = next(i for i, text in enumerate(world.actions) if text.startswith("place animal from backpack A"))
    world.step(index)
    assert world.backpack == [second, third]
    assert world.frame.backpack == (second, third, None, None)


@given(st.integers(0, 12), st.integers(0, 10**6))
def test_scattered_objects_are_distinct_and_within_reach(count, seed):
    agent, cells = scatter(Random(seed), count)
    assert len({agent, *cells}) == count + 1
    assert within_reach(agent, cells)
    walkable = distances(set(cells), agent)
    assert all(any(beside in walkable for beside in members(NEIGHBORS[cell])) for cell in cells)


def test_scattering_ends_even_if_no_draw_ever_fits(monkeypatch):
    monkeypatch.setattr(grid_module, "within_reach", lambda agent, objects: False)
    for count in range(13):
        agent, cells = scatter(Random(count), count)
        assert len({agent, *cells}) == count + 1
        assert within_reach(agent, cells)  # the real one, imported above
    with pytest.raises(ValueError, match="13 objects"):
        scatter(Random(0), 13)
