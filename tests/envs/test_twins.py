"""A picture told in words says what is drawn, and nothing that is not."""

import dataclasses
import itertools
import json

import pytest

from envs.file_picture import FilePicture
from envs.kidgym import TASKS, Hint, Item, make
from envs.kidgym.catalog import SPRITES
from envs.kidgym.render import sprite
from envs.kidgym.twin import changes, name_of, twin
from envs.page import PagePicture, Words
from envs.raven import CONFIGURATIONS, Component, Entity, Panel, enlarged, generate, one_panel, puzzle, two_panels
from envs.raven.published_drawing import published_raster
from envs.raven.raster import entity_raster
from envs.raven.twin import _look

DETAILS = ("grid", "prose", "json")


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


def test_the_three_details_of_a_frame():
    frame = make("DMA", 1, 2).frame
    fields = json.loads(frame.twin("json"))
    x, y, _ = frame.agent
    assert fields["person"] == {"row": y + 1, "column": x + 1, "looks": "down"}
    lines = frame.twin("grid").splitlines()
    for thing in fields["things"]:
        said = f"{thing['name']} [{thing['label']}]" if "label" in thing else thing["name"]
        row = next(line for line in lines if line.startswith(f"{thing['row']}: "))
        assert row.removeprefix(f"{thing['row']}: ").split(" | ")[thing["column"] - 1] == said
        label = f" with the label {thing['label']}" if "label" in thing else ""
        place = f"In row {thing['row']}, column {thing['column']} there is a {thing['name']}{label}."
        assert place in frame.twin("prose")
    assert lines[-1] == "Hint block: pairs at the middle: " + " / ".join(
        " -> ".join(item["name"] for item in row) for row in fields["hint"]["rows"]
    )


def test_changes_are_what_differs_between_two_pictures():
    world = make("CL", 1, 3)
    before = world.frame
    world.step(0)
    said = changes(before, world.frame)
    assert changes(before, before) == [] and any(" is gone from row" in clause for clause in said)
    assert any(clause.startswith("slot A of the backpack now holds") for clause in said)
    back = changes(world.frame, before)
    assert any("there is now" in clause for clause in back) and "slot A of the backpack is now empty" in back


# --- RAVEN -----------------------------------------------------------------------------------------------------------


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


def test_panels_have_the_names_that_questions_use():
    problem = generate("distribute_nine", 1)
    assert list(json.loads(two_panels(problem, 0, 1).twin("json"))) == ["panels"]
    assert [each["panel"] for each in json.loads(two_panels(problem, 0, 1).twin("json"))["panels"]] == [
        "Left panel",
        "Right panel",
    ]
    assert puzzle(problem).twin("grid").count("Answer ") == 8
    assert "Row 3, column 3 of the matrix: ?" in puzzle(problem).twin("grid")
    assert one_panel(problem, 8).twin("prose").startswith("Panel: ")
    divided = generate("left_center_single_right_center_single", 1)
    assert one_panel(divided, 0).twin("grid").startswith("A vertical line divides every panel.\nPanel:\n  left part: ")


def test_pages_are_told_with_their_figures_and_files_not_at_all():
    figure = one_panel(generate("center_single", 1), 0)
    page = PagePicture((Words("title", "Panels"), figure, Words("item", "A: one")))
    assert page.twin("grid") == f"Panels\n{figure.twin('grid')}\n- A: one"
    with pytest.raises(ValueError, match="pictures of kind 'file' cannot be told in words"):
        FilePicture("a.png", "", 1, 1).twin("grid")
