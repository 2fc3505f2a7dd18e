"""What each task asks, offers, accepts and decides; mazes and sorting have files of their own."""

import itertools

import pytest

from envs.kidgym import Hint, Item, make, solve
from envs.kidgym.catalog import ITEMS, counted
from envs.kidgym.grid import at


def family(sprite):
    return sprite.partition("/")[0]


def take(world, **wanted):
    """Take the first option with the wanted fields."""
    return world.take(
        next(a for a in world.options if all(getattr(a, name) == value for name, value in wanted.items()))
    )


# --- CL ---------------------------------------------------------------------------------------------------------------


def test_the_wrong_basket_refuses_and_the_right_one_takes():
    world = make("CL", 1, 0)
    take(world, verb="pick")
    held = world.backpack[0].sprite
    for cell, item in list(world.scene.items()):
        if family(item.sprite) == "basket":
            attempt = world.copy()
            accepted = take(attempt, verb="put", cell=cell).accepted
            assert accepted == ((held, item.sprite) in world.belongs)
            assert len(attempt.backpack) == (0 if accepted else 1)
            assert attempt.steps == 2


# --- SE ---------------------------------------------------------------------------------------------------------------


def test_selection_hides_everything_but_the_targets_and_then_the_targets():
    for seed in range(60):
        for level in (1, 2, 3):
            world = make("SE", level, seed)
            assert world.frame.cells == ()
            assert world.hint.style == "column"
            targets = [item for (item,) in world.hint.rows]
            assert len(targets) == level
            world.step(0)
            assert world.hint is None
            sprites = [item.sprite for item in world.scene.values()]
            assert len(sprites) == len(set(sprites)) == 2 * level + 2
            assert {target.sprite for target in targets} <= set(sprites)
            assert len({family(sprite) for sprite in sprites}) == 1


def test_a_wrong_selection_goes_unremarked_until_the_last():
    world = make("SE", 3, 0)
    targets = {item.sprite for (item,) in world.hint.rows}
    world.step(0)
    wrong = [cell for cell, item in world.scene.items() if item.sprite not in targets]
    right = [cell for cell, item in world.scene.items() if item.sprite in targets]
    results = [take(world, cell=cell) for cell in (wrong[0], right[0], right[1])]
    assert [result.accepted for result in results] == [True] * 3
    assert [result.terminated for result in results] == [False, False, True]
    assert not world.success


def test_targets_may_be_selected_in_any_order():
    for backwards in (False, True):
        world = make("SE", 3, 1)
        targets = [item.sprite for (item,) in world.hint.rows]
        world.step(0)
        for sprite in targets[::-1] if backwards else targets:
            take(world, cell=next(cell for cell, item in world.scene.items() if item.sprite == sprite))
        assert world.success


# --- FI, MFI, PU ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["FI", "MFI", "PU"])
def test_blanks_are_numbered_in_reading_order_and_the_backpack_holds_what_is_missing(task):
    for seed in range(60):
        for level in (1, 2, 3):
            world = make(task, level, seed)
            if task == "MFI":
                assert world.backpack == []
                assert world.hint is not None
                world.step(0)
                assert world.hint is None
            reading = sorted(world.scene.items())
            assert [cell for cell, _ in reading] == [at(1, 1), at(2, 1), at(1, 2), at(2, 2)]
            romans = [item.sprite for _, item in reading if family(item.sprite) == "roman"]
            assert romans == [f"roman/{number}" for number in range(1, level + 1)]
            held = [item.sprite for item in world.backpack]
            assert len(set(held)) == 4
            assert set(world.missing) <= set(held)
            assert (world.agent, world.facing) == (at(3, 3), 0)


@pytest.mark.parametrize("task", ["FI", "MFI", "PU"])
def test_a_wrong_piece_is_accepted_and_loses_in_the_end(task):
    world = make(task, 2, 3)
    if world.watching:
        world.step(0)
    wrong = next(slot for slot, item in enumerate(world.backpack) if item.sprite not in world.missing)
    first = take(world, slot=wrong, cell=world.blanks[0])
    assert (first.accepted, first.terminated) == (True, False)
    last = take(world, cell=world.blanks[1])
    assert (last.terminated, last.success) == (True, False)


# --- PL ---------------------------------------------------------------------------------------------------------------

OPPOSITE = {"north": "south", "northeast": "southwest", "east": "west", "southeast": "northwest"}
OPPOSITE |= {there: here for here, there in OPPOSITE.items()}
CLOCKWISE = ["north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"]


def compass(cell):
    """The direction of a cell from the center, read off the screen."""
    x, y = cell % 5 - 2, cell // 5 - 2
    return {-1: "north", 0: "", 1: "south"}[y] + {-1: "west", 0: "", 1: "east"}[x]


def test_placement_wants_the_opposite_and_at_level_three_one_further():
    given = {1: set(), 2: set(), 3: set()}
    for seed in range(300):
        for level in (1, 2, 3):
            world = make("PL", level, seed)
            direction = world.goal.split(" is ")[1].split(".")[0]
            expected = CLOCKWISE.index(OPPOSITE[direction])
            turn = 0
            if level == 3:
                turn = -1 if "counterclockwise" in world.goal else 1
            given[level].add((direction, turn))
            (action,) = solve(world)
            assert compass(action.cell) == CLOCKWISE[(expected + turn) % 8]
            won = [action for action in world.options if world.copy().take(action).success]
            assert won == [action]
    assert [len(seen) for seen in given.values()] == [4, 8, 16]


# --- CO ---------------------------------------------------------------------------------------------------------------


def test_a_declaration_decides_and_a_full_backpack_with_too_few_loses():
    world = make("CO", 1, 0)
    wrong = world.copy()
    result = take(wrong, verb="declare")
    assert (result.terminated, result.success) == (True, False)
    world = make("CO", 3, next(seed for seed in range(60) if make("CO", 3, seed).target > 5))
    for size, ended in (("/1", False), ("/1", False), ("/1", False), ("/2", True)):  # five in four piles
        cell = next(cell for cell, item in world.scene.items() if item.sprite.endswith(size))
        result = take(world, verb="pick", cell=cell)
        assert (result.accepted, result.terminated, result.success) == (True, ended, False)


def test_a_full_backpack_with_the_right_number_still_wins():
    def piles(world):
        return {cell: int(item.sprite.rpartition("/")[2]) for cell, item in world.scene.items()}

    places = 4
    fitting = (
        (make("CO", 3, seed), cells)
        for seed in range(60)
        for cells in itertools.combinations(piles(make("CO", 3, seed)), places)
        if sum(piles(make("CO", 3, seed))[cell] for cell in cells) == make("CO", 3, seed).target
    )
    world, cells = next(fitting)
    for cell in cells:
        assert not take(world, verb="pick", cell=cell).terminated
    assert not world.has_room
    assert take(world, verb="declare").success is True


def test_too_many_do_not_end_counting():
    world = make("CO", 1, next(seed for seed in range(30) if make("CO", 1, seed).target == 1))
    cell = next(cell for cell, item in world.scene.items() if item.sprite.endswith("/3"))
    assert not take(world, verb="pick", cell=cell).terminated
    assert take(world, verb="declare").success is False


# --- MDE --------------------------------------------------------------------------------------------------------------


def test_memory_decode_shows_the_table_then_one_entry_where_the_text_says():
    for seed in range(60):
        for level in (1, 2, 3):
            world = make("MDE", level, seed)
            assert world.frame.cells == ()
            table = world.hint
            assert (table.style, len(table.rows)) == ("pairs", level)
            sprites = [item.sprite for row in table.rows for item in row]
            assert len(set(sprites)) == 2 * level
            assert len({family(left.sprite) for left, _ in table.rows}) == 1
            assert len({family(right.sprite) for _, right in table.rows}) == 1
            world.step(0)
            # The published picture has the entry in the middle of the left edge, its text says upper left.
            assert "upper-left corner" in world.goal
            assert world.hint == Hint("box", ((Item(world.query),),), "top")
            partner = {left.sprite: right.sprite for left, right in table.rows}[world.query]
            shown = [item.sprite for item in world.scene.values()]
            assert len(set(shown)) == len(shown) == 2 * level + 2
            assert partner in shown
            assert world.query not in shown
            assert [world.scene[action.cell].sprite for action in solve(world)] == [partner]


def test_decoys_are_the_other_partners_and_things_of_their_type():
    for seed in range(60):
        for level in (1, 2, 3):
            world = make("MDE", level, seed)
            world.step(0)
            shown = [item.sprite for item in world.scene.values()]
            assert {right for _, right in world.table} <= set(shown)
            kind = family(world.answer)
            left = [name for name, _ in world.table if family(name) == kind]
            assert all(family(sprite) == kind for sprite in shown) or len(ITEMS[kind]) - len(left) < len(shown)


def test_the_published_decoys_are_any_things():
    missing = 0
    for seed in range(60):
        world = make("MDE", 3, seed, mde_decoys="published")
        assert world.hint == make("MDE", 3, seed).hint, "the table is the same"
        world.step(0)
        shown = {item.sprite for item in world.scene.values()}
        assert len(shown) == 8 and world.answer in shown and world.query not in shown
        missing += not {right for _, right in world.table} <= shown
    assert missing > 30
    with pytest.raises(ValueError, match="there are table, published"):
        make("MDE", 1, 0, mde_decoys="none")


@pytest.mark.parametrize(
    ("number", "item", "text"),
    [(1, "strawberry", "1 strawberry"), (5, "fruit/strawberry", "5 strawberries"), (2, "apple", "2 apple(s)")],
)
def test_a_number_of_items_is_written_with_its_plural(number, item, text):
    assert counted(number, item) == text
