"""Panels and question pictures as pixels."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.picture import picture_from_description
from envs.raven import (
    CONFIGURATIONS,
    Component,
    Entity,
    Panel,
    RavenPicture,
    configuration_named,
    generate,
    one_panel,
    one_row,
    puzzle,
    render_problem,
    two_panels,
    two_rows,
)
from envs.raven.raster import entity_raster
from envs.raven.render import render_panels


def ink_of(raster):
    return raster.top, raster.left, raster.ink.shape, raster.ink.tobytes()


@pytest.mark.parametrize(("extent", "sizes"), [(1, range(6)), (0.5, range(6)), (0.33, range(6)), (0.15, range(2, 6))])
def test_shapes_of_other_type_size_or_color_never_look_the_same(extent, sizes):
    for angle in (3, 0, 6):
        seen = {}
        for type_level, size, color in product(range(1, 6), sizes, range(10)):
            pixels = ink_of(entity_raster(type_level, size, color, angle, extent))
            assert pixels not in seen, (seen.get(pixels), (type_level, size, color))
            seen[pixels] = (type_level, size, color)


def panel_of(name, *components):
    form = configuration_named(name)
    return render_panels(form, [Panel(tuple(Component(tuple(entities), 0) for entities in components))])[0]


def test_a_black_square_covers_what_its_size_says():
    panel = panel_of("center_single", [Entity(0, 2, 0, 9, 3)])
    assert panel.shape == (160, 160)
    rows, columns = np.nonzero(panel < 255)
    # Half side 22 around the center pixel (80, 80), and one pixel more for the outline.
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (57, 103, 57, 103)
    assert panel[80, 80] == 0


def test_a_triangle_at_ninety_degrees_points_left():
    """The apex is up at 0 degrees, and angles turn counter-clockwise."""
    up = panel_of("center_single", [Entity(0, 1, 5, 9, 3)])
    left = panel_of("center_single", [Entity(0, 1, 5, 9, 5)])
    assert np.argmax((up < 255).any(axis=1)) == 80 - 72 - 1
    np.testing.assert_array_equal(np.rot90(up[1:, 1:]), left[1:, 1:])


def test_halves_are_parted_by_a_line():
    one = [Entity(0, 5, 0, 9, 3)]
    assert (panel_of("left_center_single_right_center_single", one, one)[:, 80] == 0).all()
    assert (panel_of("up_center_single_down_center_single", one, one)[80, :] == 0).all()


def test_entities_stand_in_their_slots():
    panel = panel_of("distribute_four", [Entity(2, 5, 0, 9, 3)])
    rows, columns = np.nonzero(panel < 255)
    assert (rows.mean(), columns.mean()) == pytest.approx((120, 40), abs=0.5)


def test_the_inner_entity_lies_on_the_outer_one():
    form = "in_distribute_four_out_center_single"
    outer = [Entity(0, 1, 3, 0, 3)]
    alone = panel_of(form, outer, [Entity(0, 5, 5, 5, 3)])
    assert alone[67, 67] == 112, "the fill of the inner circle is not covered by the outer triangle"


PICTURES = {
    (220, 220): (lambda p: one_panel(p, 4), 4, (30, 30)),
    (400, 220): (lambda p: two_panels(p, 6, 7), 6, (30, 30)),
    (580, 220): (lambda p: one_row(p), 0, (30, 30)),
    (580, 400): (lambda p: two_rows(p), 0, (30, 30)),
    (780, 1056): (lambda p: puzzle(p), 0, (68, 130)),
}


@pytest.mark.parametrize("size", PICTURES)
def test_question_pictures_have_the_published_sizes_and_begin_with_their_first_panel(size):
    problem = generate("distribute_nine", 2)
    compose, first, (top, left) = PICTURES[size]
    picture = compose(problem)
    pixels = picture.render()
    assert picture.size == size
    assert pixels.shape == (size[1], size[0], 3)
    shown = pixels[top : top + 160, left : left + 160, 0]
    np.testing.assert_array_equal(shown, render_problem(problem)[first])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(CONFIGURATIONS)),
    st.integers(-(2**63), 2**63),
    st.sampled_from(["iraven", "raven"]),
    st.lists(st.integers(0, 15), min_size=1, max_size=3),
)
def test_a_picture_survives_its_description(name, seed, style, panels):
    picture = RavenPicture(generate(name, seed, style).source, "panels", tuple(panels))
    again = picture_from_description(picture.description)
    assert again == picture
    assert again.key == picture.key
    assert len(picture.description) < 300
    np.testing.assert_array_equal(again.render(), picture.render())
