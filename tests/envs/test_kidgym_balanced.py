"""Balanced games: what else than a task's skill might win them, and does not."""

import math
from collections import Counter
from itertools import combinations
from random import Random

import pytest

from envs.kidgym import TASKS, make, random_success, solve
from envs.kidgym.chance import BALANCED_CHANCE
from envs.kidgym.decoys import Decoys, mislead
from envs.kidgym.grid import NEIGHBORS, mask, region, spread
from envs.kidgym.oracle import fewest_steps
from envs.kidgym.tasks.sorting import SCALES

CELLS = [(task, level) for task in BALANCED_CHANCE for level in (1, 2, 3)]
EXACT = [(task, level) for task, level in CELLS if task not in ("MA", "DMA", "MMA") and (task, level) != ("CL", 3)]
FEWEST = {"CL": (4, 8, 12), "SO": (2, 3, 4), "MA": (3, 5, 7), "FI": (1, 2, 3), "PU": (1, 2, 3), "CO": (4, 5, 5)}
FEWEST |= {"DMA": (3, 5, 7), "MMA": (4, 6, 8), "MDE": (2, 2, 2), "MFI": (2, 3, 4)}


def balanced(task, level, seed):
    return make(task, level, seed, variant="balanced")


def begun(task, level, seed):
    """The game when there is something to choose."""
    world = balanced(task, level, seed)
    if world.watching:
        world.step(0)
    return world


def names(items):
    return [item.sprite for item in items]


def test_a_task_that_has_no_balanced_variant_is_drawn_as_published():
    assert {task for task in TASKS if "balanced" in TASKS[task].variants} == set(BALANCED_CHANCE)
    assert make("SE", 1, 0, variant="balanced").frame == make("SE", 1, 0).frame
    with pytest.raises(ValueError, match="unknown variant 'fair' of KidGym: there are published, balanced"):
        make("FI", 1, 0, variant="fair")


@pytest.mark.parametrize(("task", "level"), CELLS)
def test_balanced_games_are_won_in_the_fewest_steps_and_drawn(task, level):
    for seed in range(4):
        world = balanced(task, level, seed)
        assert world.frame == balanced(task, level, seed).frame != make(task, level, seed).frame
        way = solve(world)
        assert len(way) == FEWEST[task][level - 1] <= world.budget
        for action in way:
            assert len(world.actions) <= world.max_actions
            world.frame.render()
            world.take(action)
        assert world.success


@pytest.mark.parametrize(("task", "level"), EXACT)
def test_the_stored_chance_is_that_of_a_balanced_game(task, level):
    assert random_success(balanced(task, level, 7)) == pytest.approx(BALANCED_CHANCE[task][level - 1])


@pytest.mark.slow
@pytest.mark.parametrize("task", ["MA", "DMA", "MMA"])
def test_the_stored_chance_of_a_balanced_maze_is_about_the_mean(task):
    mean = sum(random_success(balanced(task, 1, seed)) for seed in range(60)) / 60
    assert mean == pytest.approx(BALANCED_CHANCE[task][0], rel=0.1)


@pytest.mark.parametrize("task", ["FI", "PU", "MFI"])
def test_the_frame_shows_positions_only_and_every_piece_is_wanted_as_often(task):
    first = Counter()
    for seed in range(200):
        hint = balanced(task, 2, seed).hint
        world = begun(task, 2, seed)
        assert {item.sprite for item in world.scene.values()} == {"roman/1", "roman/2"}
        shown = [item.sprite for row in hint.rows for item in row]
        assert sorted(names(world.backpack)) == sorted(shown)
        corners = [shown[(6, 7, 11, 12).index(cell)] for cell in world.blanks]
        assert tuple(corners) == world.missing
        first[names(world.backpack).index(world.missing[0])] += 1
        if task != "PU":
            _, animals, sides = zip(*(piece.split("/") for piece in shown), strict=True)
            assert sorted(Counter(animals).values()) == sorted(Counter(sides).values()) == [2, 2]
            assert set(sides) in ({"1", "2"}, {"3", "4"}), "they mirror each other"
    assert min(first.values()) > 30


def test_every_order_of_animals_is_drawn_and_told_by_comparing_every_two():
    as_known = 0
    for seed in range(300):
        world = balanced("SO", 2, seed)
        order = [name.removeprefix("animal/") for name in world.answer]
        as_known += order == [name for name in SCALES[world.asked] if name in order]
        more, less = ("heavier", "lighter") if world.asked == "weight" else ("faster", "slower")
        assert len(world.comparisons) == 3
        for first, second in combinations(order, 2):
            either = (f"the {first} is {more} than the {second}", f"the {second} is {less} than the {first}")
            assert sum(comparison in either for comparison in world.comparisons) == 1
        assert all(comparison in world.goal for comparison in world.comparisons)
    assert 25 < as_known < 80, "one in six"


def test_things_are_sorted_into_four_baskets_of_which_any_may_stay_empty():
    empty = Counter()
    for seed in range(100):
        world = balanced("CL", 1, seed)
        assert len({item for item, _ in world.belongs}) == len({basket for _, basket in world.belongs}) == 4
        assert len(set(world.things)) == len(world.things) == 2
        empty.update(item for item in range(4) if world.belongs[item][0] not in world.things)
        assert len(set(balanced("CL", 2, seed).things)) >= 3
        assert len(set(balanced("CL", 3, seed).things)) == 4
    assert min(empty.values()) > 30, "whatever its place in the goal"


def test_all_things_to_choose_from_were_partners():
    for level in (1, 2, 3):
        world = begun("MDE", level, 3)
        assert sorted(names(world.scene.values())) == sorted(right for _, right in world.table)
        assert len(world.table) == len({right for _, right in world.table}) == 2 * level + 2


def test_one_choice_of_piles_makes_up_each_number():
    for level in (1, 2, 3):
        for seed in range(60):
            world = balanced("CO", level, seed)
            piles = [name.removeprefix("pile/").split("/") for name in names(world.scene.values())]
            for name, number in world.wanted:
                sizes = [int(size) for of, size in piles if of == name]
                ways = [way for n in range(1, 4) for way in combinations(sizes, n) if sum(way) == number]
                assert len(ways) == 1
            assert len(piles) <= 10


@pytest.mark.parametrize(("level", "share"), [(1, 1 / 12), (2, 1 / 12), (3, 1 / 16)])
def test_who_sees_one_or_several_or_sees_no_kinds_guesses_among_many_choices_of_piles(level, share):
    """A choice for each thing of as many single and other piles as are right; or, of all piles, of as many of each size."""
    for seed in range(40):
        world = balanced("CO", level, seed)
        piles = [name.removeprefix("pile/").split("/") for name in names(world.scene.values())]
        one_or_several, right = 1, Counter()
        for name, number in world.wanted:
            sizes = [int(size) for of, size in piles if of == name]
            (way,) = (way for n in range(1, 4) for way in combinations(sizes, n) if sum(way) == number)
            singles, taken = sizes.count(1), way.count(1)
            one_or_several *= math.comb(singles, taken) * math.comb(len(sizes) - singles, len(way) - taken)
            right.update(way)
        of_size = Counter(int(size) for _, size in piles)
        no_kinds = math.prod(math.comb(of_size[size], count) for size, count in right.items())
        assert 1 / one_or_several == share and no_kinds >= 18


@pytest.mark.parametrize("level", [1, 2, 3])
def test_decoys_hide_no_way_round_a_door(level):
    for seed in range(20):
        world = balanced("MA", level, seed)
        walls = mask(cell for cell, item in world.scene.items() if item.sprite == "wall")
        for gate in world.gates:
            reached = region((1 << 25) - 1 & ~walls & ~(1 << gate), world.agent)
            assert not reached & (NEIGHBORS[world.treasure] & ~walls & ~(1 << gate))
        colors = Counter(name for name in names(world.scene.values()) if name.startswith("key/"))
        assert set(colors.values()) == {2}


def test_chests_are_kept_by_all_doors_and_no_label_tells_the_diamond():
    kept = 0
    for seed in range(30):
        world = balanced("MMA", 2, seed)
        before = world.scene[world.treasure].label
        world.step(0)
        assert sum(item.sprite == "chest" for item in world.scene.values()) == 4
        labels = sorted(int(item.label) for item in world.scene.values() if item.label)
        assert labels == list(range(len(labels)))
        kept += world.scene[world.treasure].label == before
    assert kept < 10


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_any_chest_could_hold_the_diamond(level):
    """Each can be opened in the fewest steps, so that no player rules one out without having seen the diamond."""
    for seed in range(15):
        world = begun("MMA", level, seed)
        for chest in [cell for cell, item in world.scene.items() if item.sprite == "chest"]:
            believed = world.copy()
            believed.treasure = chest
            assert fewest_steps(believed) == FEWEST["MMA"][level - 1] - 1


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_neither_the_way_to_a_chest_nor_the_room_around_it_tells_the_diamond(level):
    games = 300
    most_room = nearest = 0.0
    for seed in range(games):
        world = begun("MMA", level, seed)
        walls = mask(cell for cell, item in world.scene.items() if item.sprite in ("wall", "chest"))
        chests = [cell for cell, item in world.scene.items() if item.sprite == "chest"]
        room = {chest: (NEIGHBORS[chest] & ~walls).bit_count() for chest in chests}
        way = {chest: steps_beside(~walls, world.agent, chest) for chest in chests}
        most_room += share_of(world.treasure, [chest for chest in chests if room[chest] == max(room.values())])
        nearest += share_of(world.treasure, [chest for chest in chests if way[chest] == min(way.values())])
    guess = 1 / len(chests)
    deviation = (guess * (1 - guess) / games) ** 0.5
    assert abs(most_room / games - guess) < 3 * deviation and abs(nearest / games - guess) < 3 * deviation


def share_of(right, guesses):
    """How often one of these, drawn at random, is the right one."""
    return (right in guesses) / len(guesses)


def steps_beside(free, start, cell):
    """Steps from a cell through free ones to a neighbor of another."""
    reached, steps = 1 << start, 0
    while not reached & NEIGHBORS[cell]:
        reached |= spread(reached) & free
        steps += 1
    return steps


@pytest.mark.slow
def test_a_maze_without_room_for_its_decoys_is_refused():
    with pytest.raises(ValueError, match="no maze of 3 doors was found with room for"):
        mislead(Random(0), 3, Decoys(9, 9))


@pytest.mark.slow
def test_empty_chests_are_out_of_reach_while_the_last_door_is_locked():
    for seed in range(10):
        maze = mislead(Random(seed), 2, Decoys(2, 1, 3))
        layout = maze.layout
        assert not {*maze.keys, *maze.doors, *layout.chests} & set(layout.walls)
        open_ways = layout.field & ~(1 << layout.treasure)
        locked, opened = (region(ways, layout.agent) for ways in (open_ways & ~(1 << layout.doors[-1]), open_ways))
        assert all(NEIGHBORS[chest] & opened and not NEIGHBORS[chest] & locked for chest in layout.chests)
        first = region(open_ways & ~mask([*layout.doors, *layout.keys, *maze.keys, *maze.doors]), layout.agent)
        assert all(NEIGHBORS[key] & first for key in maze.keys)


def test_dma_codes_are_drawn_of_all_six_and_no_step_is_spare():
    codes = Counter(balanced("DMA", 1, seed).fitting for seed in range(120))
    assert len(codes) == math.factorial(3)
    assert balanced("DMA", 2, 0).budget == 5 != make("DMA", 2, 0).budget
    assert len(balanced("DMA", 1, 0).hint.rows) == 3
