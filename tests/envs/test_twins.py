"""A picture told in words says what is drawn, and nothing that is not."""

import dataclasses
import itertools

import pytest

from envs.file_picture import FilePicture
from envs.kidgym import TASKS, Hint, Item, make, solve
from envs.kidgym.catalog import SPRITES
from envs.kidgym.render import sprite
from envs.kidgym.twin import changes, name_of, twin
from envs.page import PagePicture, Words
from envs.raven import (
    CONFIGURATIONS,
    Component,
    Entity,
    Generated,
    Panel,
    enlarged,
    generate,
    load,
    one_panel,
    one_row,
    puzzle,
    two_panels,
    two_rows,
)
from envs.raven.published_drawing import published_raster
from envs.raven.raster import entity_raster
from envs.raven.twin import _look
from tests.golden import check_golden, digest

DETAILS = ("grid", "prose", "json")


@pytest.mark.slow
def test_things_have_the_same_name_exactly_if_they_are_drawn_alike():
    drawn = {}
    for name in SPRITES:
        drawn.setdefault(sprite(name, 64, "").tobytes(), set()).add(name_of(name))
    assert len(drawn) == len(SPRITES) == len({name_of(name) for name in SPRITES})
    assert all(len(names) == 1 for names in drawn.values())


@pytest.mark.parametrize(
    ("sprite_name", "name"),
    [
        ("roman/12", "12 roman"),
        ("tile/half", "half tile"),
        ("quarter/dragon", "dragon quarter"),
        ("pile/egg", "egg pile"),
    ],
)
def test_what_only_a_skin_draws_is_told_by_its_name(sprite_name, name):
    assert name_of(sprite_name) == name


@pytest.mark.parametrize("detail", DETAILS)
def test_a_frame_is_told_as_it_is_drawn(detail):
    frame = make("MA", 2, 4).frame
    other = dataclasses.replace(
        frame, cells=tuple((x, y, item._replace(label="")) for x, y, item in frame.cells), cell_pixels=32
    )
    assert twin(frame, detail) != twin(other, detail)
    assert twin(frame, detail) == twin(dataclasses.replace(frame, cell_pixels=32), detail)
    x, y, direction = frame.agent
    covered = dataclasses.replace(frame, cells=((x, y, Item("diamond")), *frame.cells))
    assert twin(covered, detail) == twin(frame, detail), "the person hides what lies beneath him"
    assert twin(dataclasses.replace(frame, agent=(x, y, direction + 1)), detail) != twin(frame, detail)
    for hint in (Hint("column", ((Item("fruit/apple"),),)), Hint("box", ((Item("fruit/apple"),),), "top")):
        assert "apple" in twin(dataclasses.replace(frame, hint=hint), detail)


@pytest.mark.parametrize("task", TASKS)
def test_what_a_memory_task_hides_is_not_told(task):
    world = make(task, 3, 5)
    hidden = {"SE": "targets", "MDE": "answer", "MMA": "treasure", "MFI": "animal"}
    if task not in hidden:
        return
    world.step(0)
    other = world.copy()
    setattr(other, hidden[task], other.hidden[0][0] if task == "MMA" else ())
    assert [world.frame.twin(detail) for detail in DETAILS] == [other.frame.twin(detail) for detail in DETAILS]


def walk(task, level, seed):
    """A game of perfect play, picture by picture."""
    world = make(task, level, seed)
    yield world.frame
    for action in solve(world):
        world.take(action)
        yield world.frame


def test_frames_and_what_changes_in_them_are_told_as_on_record():
    parts = ["# Frames in words: task, level, detail; digests of the words of all frames of perfect play"]
    for task in TASKS:
        frames = list(walk(task, 3, 5))
        parts.append(
            f"{task} " + " ".join(digest("\n".join(frame.twin(detail) for frame in frames)) for detail in DETAILS)
        )
    for task, place in (("DMA", 0), ("SE", 0), ("MFI", -1), ("PU", 1)):
        frame = list(walk(task, 2, 7))[place]
        parts += [line for detail in DETAILS for line in ("", f"# {task}, {detail}", frame.twin(detail))]
    for task in ("CL", "MMA", "MFI"):
        frames = list(walk(task, 2, 7))
        parts += ["", f"# {task}: changes from picture to picture, and back from the last to the first"]
        parts += ["; ".join(changes(one, other)) for one, other in itertools.pairwise([*frames, frames[0]])]
    assert changes(frames[0], frames[0]) == []
    check_golden("kidgym_twins", "\n".join(parts))


# --- RAVEN -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("official", [False, True])
def test_objects_that_are_drawn_alike_are_told_alike(official):
    layouts = {layout.extent: layout for each in CONFIGURATIONS.values() for layout in each.layouts}
    for extent, layout in layouts.items():
        drawn = {}
        for shape, size, angle in itertools.product(range(1, 6), range(6), range(8)):
            levels = shape, size, 4, angle, extent
            raster = published_raster(*levels, (80, 80)) if official else entity_raster(*levels)
            key = raster.top, raster.left, raster.ink.tobytes()
            drawn.setdefault(key, set()).add(_look(layout, Entity(0, shape, size, 4, angle), official))
        assert all(len(looks) == 1 for looks in drawn.values())
        looks = set().union(*drawn.values())
        twins = 2 if official and layout.name == "In_Distribute_Four" else 0
        # Triangles and pentagons show eight angles, squares two, hexagons four, circles none; of six sizes each.
        assert len(looks) == 6 * (8 + 8 + 2 + 4 + 1) - twins


def reordered(problem):
    """The same drawing from a scene whose entities stand in another order."""
    turned = lambda panel: Panel(tuple(Component(c.entities[::-1], 0) for c in panel.components))  # noqa: E731
    return dataclasses.replace(
        problem, context=tuple(map(turned, problem.context)), candidates=tuple(map(turned, problem.candidates))
    )


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_puzzle_is_told_from_its_panels_alone(name, detail, monkeypatch):
    problem = generate(name, 3)
    told = puzzle(problem).twin(detail)
    blind = dataclasses.replace(reordered(problem), target=(problem.target + 1) % 8, rules=(), edits=(), style="raven")
    monkeypatch.setattr("envs.raven.compose.load", lambda _: blind)
    assert puzzle(blind).twin(detail) == told == enlarged(puzzle(problem), 2).twin(detail)


def test_panels_are_told_as_on_record():
    parts = ["# Pictures in words: digests of a panel, two panels, a row, two rows and the puzzle, for each detail"]
    for name in CONFIGURATIONS:
        for render in ("own", "official"):
            problem = load(Generated(name, 4, render=render))
            shown = (
                one_panel(problem, 8),
                two_panels(problem, 0, 1),
                one_row(problem),
                two_rows(problem),
                puzzle(problem),
            )
            for detail in DETAILS:
                parts.append(f"{name} {render} {detail} {' '.join(digest(each.twin(detail)) for each in shown)}")
    problem = load(Generated("in_distribute_four_out_center_single", 37, render="official"))
    divided = load(Generated("left_center_single_right_center_single", 1))
    for picture in (one_panel(problem, 8), two_panels(divided, 2, 5), one_row(problem), puzzle(divided)):
        for detail in DETAILS:
            parts += ["", f"# {picture.arrangement} {picture.panels}, {detail}", picture.twin(detail)]
    check_golden("raven_twins", "\n".join(parts))


def test_pages_are_told_with_their_figures_and_files_not_at_all():
    figure = one_panel(generate("center_single", 1), 0)
    page = PagePicture((Words("title", "Panels"), figure, Words("item", "A: one")))
    assert page.twin("grid") == f"Panels\n{figure.twin('grid')}\n- A: one"
    with pytest.raises(ValueError, match="pictures of kind 'file' cannot be told in words"):
        FilePicture("a.png", "", 1, 1).twin("grid")
