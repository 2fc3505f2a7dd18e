"""KidGym's pictures: the same pixels everywhere, every sprite there and unlike any other, labels that can be read."""

import dataclasses
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from envs.kidgym import TASKS, Frame, Hint, Item
from envs.kidgym.catalogue import BACKGROUNDS, QUARTERED, ROMAN, SLOTS, SPRITES
from envs.kidgym.frame import skin_digest
from envs.kidgym.render import check_skin, contact_sheets, export_skin, glyphs, layout, sources, sprite
from envs.kidgym.render.compose import DIRECTIONS
from envs.kidgym.render.sprites import pile, rasterise, skin_drawing
from envs.picture import picture_from_description

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
FRAMES = (MAZE, GALLERY, FARM, PARK)
PINNED = (1, "c08a5686303d8d3d", "d2bf7d7ea58cb750", "85c3aaa651c7114f", "29689282330ba2aa")
"""Version of the pictures, and the digests of the frames above."""


def on_white(name, pixels=64):
    ground = Image.new("RGBA", (pixels, pixels), WHITE)
    ground.alpha_composite(sprite(name, pixels))
    return np.asarray(ground.convert("RGB")).astype(int)


def difference(first, second):
    """Share of pixels that differ visibly, by more than 40 of 255 in some channel."""
    return float((abs(first - second).max(axis=-1) > 40).mean())


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_same_description_gives_the_same_pixels_in_another_process(hash_seed):
    program = (
        "import sys, hashlib\nfrom envs.picture import picture_from_description as picture\n"
        "for line in sys.stdin: print(hashlib.sha256(picture(line).render().tobytes()).hexdigest())"
    )
    descriptions = [
        dataclasses.replace(frame, cell_pixels=cell).description for frame in FRAMES for cell in (32, 64, 96)
    ]
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(reversed(descriptions)),  # another order: what was drawn before must not matter
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    here = [hashlib.sha256(picture_from_description(text).render().tobytes()).hexdigest() for text in descriptions]
    assert elsewhere.stdout.split() == here[::-1]
    assert len(set(here)) == len(here)


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


@pytest.mark.parametrize("name", DRAWN)
def test_every_sprite_draws_something_that_shows_at_every_size(name):
    for pixels in (24, 46, 64, 96):
        drawn = sprite(name, pixels)
        assert drawn.size == (pixels, pixels)
        assert (abs(255 - on_white(name, pixels)).max(axis=-1) > 60).mean() > 0.04


def test_any_two_sprites_are_clearly_different():
    drawn = [on_white(name) for name in DRAWN]
    alike = [
        (DRAWN[a], DRAWN[b])
        for a in range(len(DRAWN))
        for b in range(a)
        if difference(drawn[a], drawn[b]) < 0.04
    ]  # fmt: skip
    assert not alike


def test_colours_differ_in_lightness_too():
    luminance = {}
    for colour, shades in sources.COLOURS.items():
        red, green, blue = (int(shades["main"][i : i + 2], 16) for i in (1, 3, 5))
        luminance[colour] = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    order = sorted(luminance, key=lambda colour: luminance[colour])
    assert order == ["red", "blue", "green", "yellow"] or order == ["blue", "red", "green", "yellow"]


@pytest.mark.parametrize("cell", [32, 64, 96])
def test_labels_can_be_told_apart(cell):
    plate = np.s_[45 * cell // 64 : 63 * cell // 64, 22 * cell // 64 : 42 * cell // 64]
    digits = [
        np.asarray(rasterise(glyphs.label(str(n)), cell, cell).convert("L")).astype(int)[plate] for n in range(10)
    ]
    ink = min((digit < 128).sum() for digit in digits)
    for a in range(10):
        for b in range(a):
            assert (abs(digits[a] - digits[b]) > 60).sum() > 0.15 * ink, f"{a} and {b} look alike at {cell} pixels"


@pytest.mark.parametrize("cell", [32, 64, 96])
def test_a_label_stands_in_full_at_the_bottom_centre_of_its_cell(cell):
    plain, labelled = (
        dataclasses.replace(FARM, cells=((1, 1, Item("wall", label)),), cell_pixels=cell).render().astype(int)
        for label in ("", "5")
    )
    rows, columns = np.nonzero((abs(plain - labelled) > 0).any(axis=-1))
    left, top = (2 + 1 + 1) * cell, (3 + 1) * cell
    assert columns.min() >= left + cell // 4
    assert columns.max() < left + cell - cell // 4
    assert rows.min() >= top + cell // 2
    assert rows.max() < top + cell


def test_the_signs_are_the_sixteen_that_frames_show():
    assert sorted(glyphs.STROKES) == sorted("0123456789ABCDIV")
    texts = [*map(str, range(10)), *SLOTS, *ROMAN]
    assert {sign for text in texts for sign in text} == set(glyphs.STROKES)


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

    for drawn in (*(sprite(f"pile/{item}/{count}", pixels) for pixels in (26, 52, 78)), pile(item, count, 32, 25)):
        opaque = np.asarray(drawn)[..., 3] > 100
        parts, _ = label(opaque, np.ones((3, 3)))
        sizes = np.bincount(parts.ravel())[1:]
        assert (sizes > 0.2 * sizes.max()).sum() == count, f"parts of {sizes} pixels in {drawn.size}"


def test_pictures_stand_in_the_gallerys_frame():
    pixels = dataclasses.replace(GALLERY, cells=()).render()
    x, y = (edge + 64 for edge in layout.FIELD["gallery"])
    assert (pixels[y : y + 128, 128 + x : 128 + x + 128] == (255, 249, 232)).all()


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


def test_an_exported_skin_is_complete_and_looks_like_the_built_in_one(skin):
    check_skin(str(skin))
    for name in ("animal/cat", "quarter/dog/3", "pile/egg/2", "door/red"):
        drawn, built_in = (
            np.asarray(sprite(name, 64, folder).convert("RGBA")).astype(int) for folder in (str(skin), "")
        )
        assert difference(drawn, built_in) < 0.1


def test_a_skin_replaces_sprites_and_backgrounds(skin, tmp_path):
    for source in skin.rglob("*.png"):
        copy = tmp_path / source.relative_to(skin)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    (tmp_path / "animal/cow.png").unlink()
    plain = '<svg viewBox="0 0 8 8" xmlns="http://www.w3.org/2000/svg"><rect width="8" height="8" fill="{}"/></svg>'
    (tmp_path / "animal/cow.svg").write_text(plain.format("#ff00ff"))
    (tmp_path / "animal/unicorn.svg").write_text(plain.format("#00ffff"))
    (tmp_path / "background").mkdir()
    (tmp_path / "background/farm.svg").write_text(plain.format("#123456"))
    frame = dataclasses.replace(
        FARM, cells=((0, 0, Item("animal/cow")), (1, 0, Item("animal/unicorn"))), skin=str(tmp_path)
    )
    pixels = frame.render()
    assert tuple(pixels[3 * 64 + 32, 3 * 64 + 32]) == (255, 0, 255)
    assert tuple(pixels[3 * 64 + 32, 4 * 64 + 32]) == (0, 255, 255)
    assert tuple(pixels[10, 140]) == (0x12, 0x34, 0x56)


@pytest.mark.parametrize("end", ["svg", "png"])
@pytest.mark.parametrize("size", [(20, 10), (10, 20), (7, 8), (31, 32)])
def test_a_skins_drawing_of_any_proportions_is_centred_and_a_scene_is_filled(tmp_path, end, size):
    if end == "png":
        Image.new("RGB", size, "red").save(tmp_path / "kite.png")
    else:
        box = 'viewBox="0 0 {0} {1}" xmlns="http://www.w3.org/2000/svg"><rect width="{0}" height="{1}"'.format(*size)
        (tmp_path / "kite.svg").write_text(f'<svg {box} fill="#f00"/></svg>')
    left, top, right, bottom = skin_drawing("kite", 64, 64, str(tmp_path)).getchannel("A").getbbox()
    assert max(right - left, bottom - top) == 64, "as large as fits"
    assert abs((right - left) / (bottom - top) - size[0] / size[1]) < 0.05
    assert abs(left - (64 - right)) <= 1
    assert abs(top - (64 - bottom)) <= 1
    for width, height in ((448, 512), (224, 256), (672, 768)):
        assert np.asarray(skin_drawing("kite", width, height, str(tmp_path), fill=True))[..., 3].min() > 250


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


@pytest.mark.parametrize("fault", ["missing", "unreadable"])
def test_a_skin_with_a_missing_or_broken_sprite_is_refused(skin, tmp_path, fault):
    for source in skin.rglob("*.png"):
        copy = tmp_path / source.relative_to(skin)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    victim = tmp_path / "toy/kite.png"
    if fault == "missing":
        victim.unlink()
    else:
        victim.write_bytes(b"no picture")
    with pytest.raises(ValueError) as raised:
        check_skin(str(tmp_path))
    assert "toy/kite" in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_pixels_change_only_with_the_version_of_the_picture():
    digests = [hashlib.sha256(frame.render().tobytes()).hexdigest()[:16] for frame in FRAMES]
    assert (Frame.version, *digests) == PINNED, "pixels changed: raise Frame.version, and note the new digests here"


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_task_can_be_looked_at_on_a_contact_sheet(task):
    sheet = contact_sheets.task_sheet(task, cell_pixels=32)
    assert sheet.width > 2 * 288
    assert sheet.height > 3 * 288


def test_contact_sheets_of_a_broken_skin_say_what_is_wrong(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "envs.kidgym.render.contact_sheets", str(tmp_path / "out"), "--skin", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "animal/cat" in done.stderr
    assert "Traceback" not in done.stderr
