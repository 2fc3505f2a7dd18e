"""KidGym's pictures: the same pixels everywhere, every sprite there and unlike any other, labels that can be read."""

import contextlib
import dataclasses
import hashlib
import io
import itertools
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from envs.files import FileError
from envs.files.xml import references_in
from envs.kidgym import Frame, Hint, Item, contact_sheets, make
from envs.kidgym.catalog import BACKGROUNDS, ITEMS, PILED, QUARTERED, SPRITES, words
from envs.kidgym.render import check_skin, compose, drawn_in_time, export_skin, glyphs, layout, sprite
from envs.kidgym.render.compose import DIRECTIONS, label_plate, labeled
from envs.kidgym.render.sprites import backdrop, fitted, pile
from envs.kidgym.scene import RESOLUTIONS, skin_digest

DRAWN = (*SPRITES, *(f"agent/{direction}" for direction in DIRECTIONS), "arrow")
WHITE = (255, 255, 255, 255)

MAZE = Frame(
    "maze",
    ((0, 0, Item("wall")), (1, 2, Item("door/red", "4")), (2, 1, Item("key/blue", "0")), (4, 4, Item("diamond", "7"))),
    (2, 3, 2),
    (Item("key/red"), None, None, None),
    Hint("pairs", ((Item("key/blue"), Item("door/yellow")), (Item("key/red"), Item("door/blue")))),
)
GALLERY = Frame(
    "gallery",
    tuple((1 + x, 1 + y, Item(f"quarter/cat/{1 + x + 2 * y}")) for x in range(2) for y in range(2)),
    (3, 3, 0),
    (Item("quarter/dog/1"), Item("tile/2"), None, Item("quarter/pig/4")),
    Hint("box", ((Item("animal/cat"),),)),
)
FARM = Frame(
    "farm",
    ((0, 1, Item("animal/cow", "3")), (4, 0, Item("basket/green", "8"))),
    (2, 2, 1),
    hint=Hint("column", ((Item("animal/dog"),),), "top"),
)
PARK = Frame("park", ((3, 3, Item("toy/kite", "1")), (0, 0, Item("roman/8"))), (0, 4, 3))
CANTEEN = Frame(
    "canteen",
    ((0, 0, Item("pile/egg/3", "2")), (3, 2, Item("pile/sushi/2", "5"))),
    (2, 0, 0),
    (Item("pile/cake/3"),) * 4,
)
FRAMES = (MAZE, GALLERY, FARM, PARK, CANTEEN)
PINNED = (
    2,
    "710b63c2e19d993a",
    "41006ae733b87185",
    "718057f1b0129d93",
    "4224d781f093dad5",
    "1f0f7ad326659d9f",
    "9f0e4a42366cd5eb",
)
"""Version of the pictures, the digests of the frames above, and that of all sprites."""


def on_white(name, pixels=64):
    ground = Image.new("RGBA", (pixels, pixels), WHITE)
    ground.alpha_composite(sprite(name, pixels))
    return np.asarray(ground.convert("RGB")).astype(int)


def difference(first, second):
    """Share of pixels that differ visibly, by more than 40 of 255 in some channel."""
    return float((abs(first - second).max(axis=-1) > 40).mean())


@pytest.mark.parametrize("cell", [32, 64, 96])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_a_frame_is_nine_cells_square_at_every_resolution(background, cell):
    frame = Frame(background, (), (2, 2, 0), cell_pixels=cell)
    pixels = frame.render()
    assert pixels.shape == (9 * cell, 9 * cell, 3)
    assert pixels.dtype == np.uint8
    assert (pixels[:, : 2 * cell - 1] == 255).all(), "an unused hint block is blank"


def test_a_rendered_frame_is_the_callers_own():
    first = FARM.render()
    first[:] = 0
    assert FARM.render().any()


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_scenes_are_pale_and_tell_themselves_apart(background):
    pixels = {name: Frame(name, (), (2, 4, 0)).render()[:512, 128:].astype(int) for name in BACKGROUNDS}
    luminance = pixels[background] @ np.array([0.299, 0.587, 0.114])
    assert np.quantile(luminance, 0.05) > 120, "no large dark shapes that could pass for items"
    assert all(difference(pixels[background], other) > 0.1 for name, other in pixels.items() if name != background)


@pytest.mark.slow
@pytest.mark.parametrize("pixels", [24, 46, 64, 96])
def test_every_sprite_draws_something_that_shows_at_every_size(pixels):
    for name in DRAWN:
        assert sprite(name, pixels).size == (pixels, pixels)
        assert (abs(255 - on_white(name, pixels)).max(axis=-1) > 60).mean() > 0.04, name


@pytest.mark.slow
def test_any_two_sprites_are_clearly_different():
    drawn = [on_white(name) for name in DRAWN]
    alike = [
        (DRAWN[a], DRAWN[b])
        for a in range(len(DRAWN))
        for b in range(a)
        if difference(drawn[a], drawn[b]) < 0.04
    ]  # fmt: skip
    assert not alike


@pytest.mark.parametrize("cell", [32, 64, 96])
def test_labels_can_be_told_apart(cell):
    plate = np.s_[44 * cell // 64 : 62 * cell // 64, 22 * cell // 64 : 42 * cell // 64]
    digits = [np.asarray(label_plate(str(n), cell).convert("L")).astype(int)[plate] for n in range(10)]
    ink = min((digit < 128).sum() for digit in digits)
    for a in range(10):
        for b in range(a):
            assert (abs(digits[a] - digits[b]) > 60).sum() > 0.15 * ink, f"{a} and {b} look alike at {cell} pixels"


@pytest.mark.parametrize("cell", [32, 64, 96])
def test_a_label_stands_in_full_at_the_bottom_center_of_its_cell(cell):
    plain, labeled = (
        dataclasses.replace(FARM, cells=((1, 1, Item("wall", label)),), cell_pixels=cell).render().astype(int)
        for label in ("", "5")
    )
    rows, columns = np.nonzero((abs(plain - labeled) > 0).any(axis=-1))
    left, top = (2 + 1 + 1) * cell, (3 + 1) * cell
    assert columns.min() >= left + cell // 4
    assert columns.max() < left + cell - cell // 4
    assert rows.min() >= top + cell // 2
    assert rows.max() < top + cell


def test_markers_and_slot_letters_can_be_told_apart_at_the_smallest_size():
    markers = [on_white(f"roman/{number}", 32) for number in range(1, 9)]
    assert all(difference(markers[a], markers[b]) > 0.03 for a in range(8) for b in range(a))
    strip = dataclasses.replace(FARM, cell_pixels=32).render()[256:, 64:].astype(int)
    slots = [strip[:, 56 * slot : 56 * slot + 22] for slot in range(4)]
    assert all(difference(slots[a], slots[b]) > 0.03 for a in range(4) for b in range(a))


@pytest.mark.parametrize("animal", QUARTERED)
def test_four_quarters_make_the_whole_animal(animal):
    assembled = Image.new("RGBA", (128, 128))
    for corner in range(1, 5):
        assembled.paste(sprite(f"quarter/{animal}/{corner}", 64), ((corner - 1) % 2 * 64, (corner - 1) // 2 * 64))
    whole = Image.new("RGBA", (128, 128), (255, 249, 232, 255))
    whole.alpha_composite(sprite(f"animal/{animal}", 128))
    seen, expected = np.asarray(assembled), np.asarray(whole)
    edges = [line for line in range(128) if line % 64 in (0, 63)]  # where the cuts show
    assert (np.delete(np.delete(seen == expected, edges, 0), edges, 1)).all()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("item", sorted({name.split("/")[1] for name in SPRITES if name.startswith("pile/")}))
def test_a_pile_shows_as_many_separate_things_as_its_number(item, count):
    from scipy.ndimage import label

    for drawn in (*(sprite(f"pile/{item}/{count}", pixels) for pixels in (26, 52, 78)), pile(item, count, 26, 16)):
        opaque = np.asarray(drawn)[..., 3] > 100
        parts, _ = label(opaque, np.ones((3, 3)))
        sizes = np.bincount(parts.ravel())[1:]
        assert (sizes > 0.2 * sizes.max()).sum() == count, f"parts of {sizes} pixels in {drawn.size}"


@pytest.mark.parametrize("animal", QUARTERED)
def test_left_and_right_pieces_of_an_animal_are_no_mirror_twins(animal):
    """Published animals differ from their mirror images by 21 to 56 of 255; faces seen from the front by 4 to 8."""
    for pixels in RESOLUTIONS:
        piece = [
            np.asarray(sprite(f"quarter/{animal}/{corner}", pixels).convert("RGB")).astype(int)
            for corner in range(1, 5)
        ]
        for left, right in ((0, 1), (2, 3)):
            assert abs(piece[left] - piece[right][:, ::-1]).mean() > 15
        left, right = np.vstack(piece[0::2]), np.vstack(piece[1::2])
        assert abs(left - right[:, ::-1]).mean() > 28


def silhouette(pattern, edge):
    """Which pixels of a square the four right triangles of a pattern cover, and which lie within a pixel of its outline."""
    x, y = np.meshgrid((np.arange(2 * edge) + 0.5) / edge, (np.arange(2 * edge) + 0.5) / edge)
    u, v = x % 1, y % 1
    inside = {"1": u + v < 1, "2": v < u, "3": u < v, "4": u + v > 1}
    covered = np.zeros((2 * edge, 2 * edge), dtype=bool)
    for place, corner in enumerate(pattern):
        covered |= inside[corner] & (x // 1 == place % 2) & (y // 1 == place // 2)
    around = np.stack([np.roll(covered, (down, right), (0, 1)) for down in (-1, 0, 1) for right in (-1, 0, 1)])
    return covered, around.any(0) & ~around.all(0)


@pytest.mark.parametrize("cell", RESOLUTIONS)
@pytest.mark.parametrize("pattern", [*itertools.permutations("1234")])
def test_the_puzzles_target_and_board_are_one_silhouette_without_seams(pattern, cell):
    tiles = [Item(f"tile/{corner}") for corner in pattern]
    board = tuple(sorted((1 + place % 2, 1 + place // 2, tile) for place, tile in enumerate(tiles)))
    hint = Hint("box", (tuple(tiles[:2]), tuple(tiles[2:])))
    pixels = Frame("gallery", board, (3, 3, 0), hint=hint, cell_pixels=cell).render()
    field = [edge + 64 for edge in layout.FIELD["gallery"]]
    first = layout.hint_layout(hint)[1]
    for x, y, edge in ((128 + field[0], field[1], 64), (first.x, first.y, first.edge)):
        x, y, edge = (length * cell // 64 for length in (x, y, edge))
        drawn = pixels[y : y + 2 * edge, x : x + 2 * edge].astype(int)
        covered, outline = silhouette(pattern, edge)
        assert (drawn[covered & ~outline] == (0xDC, 0x2F, 0x35)).all()
        ground = drawn[~covered & ~outline]
        assert (ground == ground[0]).all()
        assert ground.min() > 220


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("item", [*itertools.chain(*PILED.values())])
def test_two_clear_pixels_lie_between_the_things_in_a_pile_at_the_smallest_size(item, count):
    from scipy.ndimage import label

    drawn = np.asarray(labeled(f"pile/{item}/{count}", "1", 32, ""))[:20, :, 3] > 0
    widened = drawn | np.roll(drawn, 1, 0) | np.roll(drawn, 1, 1)
    assert label(widened)[1] == count


@pytest.mark.parametrize("item", [*itertools.chain(*PILED.values())])
def test_a_pile_of_three_lies_alike_at_every_resolution(item):
    def rows(cell):
        filled = np.asarray(labeled(f"pile/{item}/3", "1", cell, ""))[: 20 * cell // 32, :, 3].any(axis=1)
        return int((np.diff(filled.astype(int)) == 1).sum())

    assert rows(32) == rows(64) == rows(96)


@pytest.mark.parametrize("cell", RESOLUTIONS)
@pytest.mark.parametrize("item", [*itertools.chain(*PILED.values())])
def test_piles_labels_and_neighboring_piles_stand_apart(item, cell):
    """At 32 pixels a cell two clear pixels above and below a label, and six between piles side by side."""
    cells = tuple((x, y, Item(f"pile/{item}/{1 + (2 * x + y) % 3}", str(x + 2 * y))) for x in (0, 1) for y in (0, 1))
    frame = Frame("canteen", (), (4, 4, 0), cell_pixels=cell)
    drawn = (frame.render() != dataclasses.replace(frame, cells=cells).render()).any(axis=-1)
    left, top = (2 + 1) * cell, 3 * cell
    drawn = drawn[top : top + 2 * cell, left : left + 2 * cell]
    gap = 2 * cell // 32
    plate = (glyphs.PLATE_TOP - 1) * cell // 64
    assert drawn[plate + 1].any(), "a label"
    assert not drawn[plate - gap : plate].any(), "between pile and label"
    assert not drawn[cell : cell + gap].any(), "between label and the pile below"
    apart = drawn[: cell + plate, cell - 3 * cell // 32 : cell + 3 * cell // 32]
    assert not apart.any(), "between neighboring piles, three times as far as within a pile"


@pytest.mark.parametrize("name", [f"{kind}/{name}" for kind, names in ITEMS.items() for name in names])
def test_a_labeled_item_is_large_and_leaves_its_label_clear(monkeypatch, name):
    for cell in RESOLUTIONS:
        plate = label_plate("4", cell)
        opaque = np.asarray(plate)[..., 3] == 255
        with monkeypatch.context() as without_plate:
            assert (np.asarray(labeled(name, "4", cell, ""))[opaque] == np.asarray(plate)[opaque]).all()
            without_plate.setattr(compose, "label_plate", lambda text, edge: Image.new("RGBA", (edge, edge)))
            left, top, right, bottom = labeled(name, "4", cell, "").getchannel("A").getbbox()
        width, height = fitted(name, 60 * cell // 64, 44 * cell // 64).size
        assert right - left >= width - 2
        assert bottom - top >= height - 2
        assert max(width, height) >= 44 * cell // 64 - 1
        assert min(left, top) >= cell // 32
        slim = right - left < 40 * cell // 64
        assert bottom <= (47 if slim else 52) * cell / 64, "a slim thing is not hidden behind its label"


def test_texts_call_a_thing_by_what_is_drawn():
    assert words("toy/shuttlecock") == "shuttlecock"
    assert words("food/chicken_leg") == "chicken leg"
    assert words("toy/yo_yo") == "yo-yo"
    goals = [make("CL", 1, seed).goal for seed in range(200)]
    assert any("every shuttlecock" in goal for goal in goals)
    assert any("every pair of cherries" in goal for goal in goals)
    assert not any("_" in goal or "badminton" in goal for goal in goals)


def test_every_hint_stays_within_its_block():
    cat = Item("animal/cat")
    hints = [Hint("column", ((cat,),) * rows, place) for rows in range(1, 8) for place in ("top", "middle")]
    hints += [Hint("pairs", ((cat, cat),) * rows, place) for rows in range(1, 9) for place in ("top", "middle")]
    hints += [Hint("box", ((cat,) * n,) * n, place) for n in (1, 2, 3) for place in ("top", "middle")]
    for hint in hints:
        for placed in layout.hint_layout(hint):
            assert placed.x >= 0
            assert placed.x + placed.edge <= 128
            assert placed.y >= 0
            assert placed.y + placed.edge <= 576
            assert not any(length % 2 for length in (placed.x, placed.y, placed.edge)), "whole pixels at 32 a cell"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cell_pixels": 48}, ["48", "32, 64, 96"]),
        ({"background": "moon"}, ["moon", "farm"]),
        ({"cells": ((1, 1, Item("animal/unicorn")),)}, ["animal/unicorn"]),
        ({"cells": ((1, 1, Item("quarter/cat/5")),)}, ["quarter/cat/5"]),
        ({"cells": ((5, 1, Item("animal/cat")),)}, ["animal/cat", "(5, 1)"]),
        ({"cells": ((1, 1, Item("animal/cat", "x")),)}, ["'x'"]),
        ({"agent": (1, 1, 4)}, ["direction", "4"]),
        ({"hint": Hint("ladder", ())}, ["ladder"]),
        ({"skin": "/no/such/folder"}, ["/no/such/folder"]),
    ],
)
def test_what_cannot_be_drawn_is_named(change, words):
    with pytest.raises(ValueError) as raised:
        dataclasses.replace(FARM, **change).render()
    assert all(word in str(raised.value) for word in words)


@pytest.fixture(scope="module")
def skin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skin")
    export_skin(str(folder), pixels=64)
    return folder


def test_an_exported_skin_looks_like_the_built_in_one(skin):
    check_skin(str(skin))
    for name in ("animal/cat", "quarter/dog/3", "pile/egg/2", "door/red"):
        drawn, built_in = (
            np.asarray(sprite(name, 64, folder).convert("RGBA")).astype(int) for folder in (str(skin), "")
        )
        assert difference(drawn, built_in) < 0.1


def plain(color):
    return (
        f'<svg viewBox="0 0 8 8" xmlns="http://www.w3.org/2000/svg"><rect width="8" height="8" fill="{color}"/></svg>'
    )


def test_a_skin_may_hold_only_what_it_changes(tmp_path):
    drawings = {
        "animal/cow": "#ff00ff",
        "animal/unicorn": "#00ffff",
        "background/farm": "#123456",
        "food/egg": "#0000ff",
    }
    for name, color in drawings.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.svg").write_text(plain(color))
    check_skin(str(tmp_path))
    cells = (
        (0, 0, Item("animal/cow")), (1, 0, Item("animal/unicorn")), (2, 0, Item("animal/dog")),
        (3, 0, Item("pile/egg/1")), (4, 0, Item("quarter/cow/4")),
    )  # fmt: skip
    changed, built_in = (
        dataclasses.replace(FARM, cells=kept, hint=None, skin=folder).render()[192:256, 192:]
        for kept, folder in ((cells, str(tmp_path)), ((cells[2],), ""))
    )
    centers = [tuple(changed[32, 64 * x + 32]) for x in range(5)]
    assert (centers[0], centers[1], centers[3]) == ((255, 0, 255), (0, 255, 255), (0, 0, 255))
    assert tuple(changed[20, 64 * 4 + 20]) == (255, 0, 255), "pieces are made of the skin's own animals"
    assert (changed[:, 128:192] == built_in[:, 128:192]).all(), "the dog is the built-in one"
    assert tuple(dataclasses.replace(FARM, skin=str(tmp_path)).render()[10, 140]) == (0x12, 0x34, 0x56)
    with pytest.raises(ValueError, match="animal/dragon"):
        dataclasses.replace(FARM, cells=((0, 0, Item("animal/dragon")),), skin=str(tmp_path)).render()


@pytest.mark.parametrize("name", ["animal/dragon", "roman/9", "roman/12", "roman/", "roman/x"])
def test_a_sprite_that_is_not_there_is_named(name):
    with pytest.raises(ValueError, match=f"there is no sprite '{name}'"):
        sprite(name, 64)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["svg", "png"])
@pytest.mark.parametrize("size", [(20, 10), (10, 20), (7, 8), (31, 32)])
def test_a_skins_drawing_of_any_proportions_is_centred_and_a_scene_is_filled(tmp_path, end, size):
    (tmp_path / "background").mkdir()
    if end == "png":
        Image.new("RGB", size, "red").save(tmp_path / "kite.png")
        Image.new("RGB", size, "red").save(tmp_path / "background/kite.png")
    else:
        box = 'viewBox="0 0 {0} {1}" xmlns="http://www.w3.org/2000/svg"><rect width="{0}" height="{1}"'.format(*size)
        for name in ("kite", "background/kite"):
            (tmp_path / f"{name}.svg").write_text(f'<svg {box} fill="#f00"/></svg>')
    left, top, right, bottom = sprite("kite", 64, str(tmp_path)).getchannel("A").getbbox()
    assert max(right - left, bottom - top) == 60, "as large as fits within the margin"
    assert abs((right - left) / (bottom - top) - size[0] / size[1]) < 0.05
    assert abs(left - (64 - right)) <= 1
    assert abs(top - (64 - bottom)) <= 1
    for width, height in ((448, 512), (224, 256), (672, 768)):
        assert backdrop("kite", width, height, str(tmp_path)).size == (width, height)
        assert np.asarray(backdrop("kite", width, height, str(tmp_path)))[..., 3].min() > 250


def test_a_skins_drawing_of_many_pixels_is_refused(tmp_path):
    (tmp_path / "animal").mkdir()
    for size in ((9000, 9), (9, 2049)):
        Image.new("1", size).save(tmp_path / "animal/cat.png")
        with pytest.raises(ValueError, match=f"{size[0]}x{size[1]} pixels; at most 2048"):
            check_skin(str(tmp_path))


@pytest.mark.slow
def test_a_stored_frame_is_not_drawn_with_another_skin_of_the_same_place(tmp_path):
    export_skin(str(tmp_path), pixels=32)
    frame = dataclasses.replace(FARM, skin=str(tmp_path))
    program = (
        "import sys\nfrom envs.picture import picture_from_description as picture\n"
        "try: print(picture(sys.stdin.read()).render().shape)\nexcept ValueError as error: print(error)"
    )

    def elsewhere():
        command = [sys.executable, "-c", program]
        return subprocess.run(command, input=frame.description, check=True, capture_output=True, text=True).stdout

    assert elsewhere() == "(576, 576, 3)\n"
    (tmp_path / "animal/cow.png").write_bytes((tmp_path / "wall.png").read_bytes())
    assert f"skin {str(tmp_path)!r} has changed" in elsewhere()
    skin_digest.cache_clear()
    changed = dataclasses.replace(FARM, skin=str(tmp_path))
    assert changed.key != frame.key, "other pixels, other identity"


@pytest.mark.parametrize("name", ["toy/kite", "pile/egg/3", "agent/up", "background/farm"])
def test_a_skin_with_a_broken_drawing_is_refused(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / f"{name}.png").write_bytes(b"no picture")
    with pytest.raises(ValueError) as raised:
        check_skin(str(tmp_path))
    assert name in str(raised.value)
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize(
    ("drawing", "said"),
    [
        ('<image href="/elsewhere/x.png"/>', "refers to '/elsewhere/x.png'"),
        ('<filter id="f"><feImage xlink:href="x.png"/></filter>', "refers to 'x.png'"),
        ('<use href="file:///x.svg#a"/>', "refers to 'file:///x.svg#a'"),
        ("<image/", "is not well-formed XML"),
        ('<g id="a"/><use href="#a"/><image href="data:image/png;base64,"/>', ""),
    ],
)
def test_a_drawing_that_needs_a_file_outside_the_skin_is_refused(tmp_path, drawing, said):
    (tmp_path / "animal").mkdir()
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    (tmp_path / "animal/cat.svg").write_text(f'<!DOCTYPE svg><svg {namespaces} viewBox="0 0 9 9">{drawing}</svg>')
    refused = pytest.raises(ValueError, match=re.escape(said)) if said else contextlib.nullcontext()
    with refused:
        sprite("animal/cat", 32, str(tmp_path))


@pytest.mark.parametrize(("content", "shows"), [('<text y="8">cat</text>', False), ('<path d="M0 0h9v9z"/>', True)])
@pytest.mark.parametrize("name", ["animal/cat", "agent/up", "arrow"])
def test_a_drawing_that_shows_nothing_is_refused(tmp_path, name, content, shows):
    file = tmp_path / f"{name}.svg"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{content}</svg>')
    expected = contextlib.nullcontext() if shows else pytest.raises(ValueError, match=f"'{name}': .* draws nothing")
    with expected:
        check_skin(str(tmp_path))


@pytest.mark.slow
def test_a_drawing_that_takes_for_ever_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(drawn_in_time, "_SECONDS", 5.0)
    (tmp_path / "arrow.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0h9v9z"/></svg>'
    )
    slow = '<filter id="f"><feTurbulence numOctaves="2000000000" baseFrequency="0.1"/></filter>'
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "up.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{slow}<rect width="9" height="9" filter="url(#f)"/></svg>'
    )
    with pytest.raises(ValueError, match=r"up\.svg: takes too long to draw"):
        check_skin(str(tmp_path))


@pytest.mark.parametrize(
    ("drawing", "slow"),
    [
        ('<path d="M0 0h9v9z"/>', False),
        ('<linearGradient id="masked"/>', False),
        ('<filter id="f"/>', True),
        ('<s.v:use href="#a"/>', True),
        ('<image href="data:image/svg+xml;base64,"/>', True),
    ],
)
def test_what_may_take_long_is_drawn_apart(tmp_path, drawing, slow):
    file = tmp_path / "a.svg"
    file.write_text(f"<svg>{drawing}</svg>")
    assert drawn_in_time._may_take_long(file) == slow


@pytest.mark.parametrize(("code", "sound"), [(0, True), (1, False), (-9, False)])
def test_a_drawing_whose_process_fails_is_refused(tmp_path, monkeypatch, code, sound):
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        file.write_text("<svg><use/></svg>")
    done = SimpleNamespace(stdout=b"0\n1\n", returncode=code)
    monkeypatch.setattr(drawn_in_time.subprocess, "run", lambda *_, **__: done)
    expected = contextlib.nullcontext() if sound else pytest.raises(ValueError, match=r"b\.svg: takes too long")
    with expected:
        drawn_in_time.check_drawn_in_time(files)


@pytest.mark.parametrize(("told", "named"), [(None, "a.svg"), (b"0\n", "a.svg"), (b"0\n1\n2\n", "c.svg")])
def test_the_drawing_at_which_the_time_ends_is_named(tmp_path, monkeypatch, told, named):
    files = [tmp_path / f"{name}.svg" for name in "abcd"]
    for file in files:
        file.write_text("<svg><use/></svg>")
    files[3].write_text("<svg/>")  # which is drawn at once
    asked = []

    def run(command, **given):
        asked.append((command[1:], given["timeout"], given["env"]["PYTHONPATH"]))
        raise subprocess.TimeoutExpired(command, given["timeout"], told)

    monkeypatch.setattr(drawn_in_time.subprocess, "run", run)
    with pytest.raises(ValueError, match=f"{re.escape(named)}: takes too long"):
        drawn_in_time.check_drawn_in_time(files)
    words = ["-P", "-m", "envs.kidgym.render.drawn_in_time", *map(str, files[:3])]
    assert asked == [(words, 61.5, os.pathsep.join(filter(None, sys.path)))]
    drawn_in_time.check_drawn_in_time(files[3:])
    assert len(asked) == 1


def broken_png():
    file = io.BytesIO()
    Image.new("RGBA", (4, 4), "red").save(file, "PNG")
    return file.getvalue().replace(b"IDAT", b"I\1AT")


@pytest.mark.parametrize("content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", broken_png()])
def test_a_png_that_is_another_format_or_damaged_is_refused(tmp_path, content):
    (tmp_path / "arrow.png").write_bytes(content)
    with pytest.raises(ValueError, match=r"'arrow' cannot be read: arrow\.png is no PNG file, or damaged"):
        check_skin(str(tmp_path))


def test_two_drawings_of_one_sprite_are_refused(tmp_path):
    for end in ("svg", "png"):
        (tmp_path / f"arrow.{end}").touch()
    with pytest.raises(ValueError, match=r"'arrow' has two drawings, arrow.svg and arrow.png"):
        check_skin(str(tmp_path))


def test_an_entity_that_could_hide_a_reference_is_refused():
    with pytest.raises(FileError, match="declares entities"):
        references_in('<!DOCTYPE svg [<!ENTITY a "/x.png">]><svg><image href="&a;"/></svg>', "cat.svg")


def test_a_folder_without_drawings_is_no_skin(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing yet")
    with pytest.raises(ValueError) as raised:
        check_skin(str(tmp_path))
    assert str(tmp_path) in str(raised.value)


def test_pixels_change_only_with_the_version_of_the_picture():
    sprites = b"".join(sprite(name, pixels).tobytes() for name in DRAWN for pixels in (32, 64))
    drawn = [*(frame.render().tobytes() for frame in FRAMES), sprites]
    digests = [hashlib.sha256(pixels).hexdigest()[:16] for pixels in drawn]
    assert (Frame.version, *digests) == PINNED, "pixels changed: raise Frame.version, and note the new digests here"


@pytest.mark.slow
@pytest.mark.parametrize("task", ["CL", "MDE"])
def test_a_task_can_be_looked_at_on_a_contact_sheet(task):
    sheet = contact_sheets.task_sheet(task)
    assert sheet.width > 2 * 576 + 288 + 864
    assert sheet.height > 3 * 864


@pytest.mark.slow
def test_contact_sheets_of_a_broken_skin_say_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["contact_sheets", str(tmp_path / "out"), "--skin", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        contact_sheets.main()
    assert end.value.code == 2 and "animal/cat" in capsys.readouterr().err
