"""Contact sheets: what every task and level looks like, for a person to judge.

``python -m envs.kidgym.contact_sheets [OUT]`` plays an episode of every level perfectly and writes one sheet a task (a row a
level, frames from left to right, with goal and actions beneath; at the end one of the frames at the other two resolutions),
and one sheet of all sprites.
"""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from envs.kidgym.catalog import BACKGROUNDS, ITEMS, QUARTERED, SPRITES
from envs.kidgym.frame import Frame
from envs.kidgym.oracle import plan
from envs.kidgym.registry import TASKS, VARIANTS, make
from envs.kidgym.render.compose import DIRECTIONS, labeled, render
from envs.kidgym.render.sprites import sprite
from envs.kidgym.scene import RESOLUTIONS, Hint, Item
from envs.kidgym.world import Variant, World

DEFAULT_FOLDER: Final = "docs/records/kidgym_contact_sheets"
LABELED_FAMILIES: Final = (*ITEMS, "pile", "basket", "key", "door", "chest", "diamond")
"""Families of sprites that tasks label."""
_SMALL, _LARGE, _LINE = 15, 22, 19
_GAP: Final = 24
_COLORS: Final = 256
"""Colors of a sheet: flat drawings need few, and sheets live in the repository."""


def task_sheet(task: str, seed: int = 1, skin: str = "", variant: Variant = "published") -> Image.Image:
    """All levels of a task, played perfectly; up to four frames each, the first and the last among them."""
    rows = []
    for level in TASKS[task].levels(variant):
        world = make(task, level, seed, skin=skin, variant=variant)
        frames, captions = [], []
        for chosen in (*(plan(world) or ()), None):
            frames.append(world.frame)
            captions.append([f"step {world.steps} of {world.budget}", *_standing(world, chosen)])
            if chosen is not None:
                world.step(chosen)
        last = len(frames) - 1
        shown = sorted({0, min(1, last), (last + 1) // 2, last})
        panels = [_panel(frames[number], captions[number]) for number in shown]
        # In the other resolutions, too: the first frame, or in memory tasks the second.
        number = int(world.memory)
        for cell in RESOLUTIONS:
            if cell != 64:
                resized = replace(frames[number], cell_pixels=cell)
                panels.append(_panel(resized, [f"step {number}, {cell} pixels a cell"]))
        rows.append(_titled(f"{task}  {TASKS[task].title}, level {level}, seed {seed}", _beside(panels)))
    return _below(rows)


def sprite_sheet(skin: str = "") -> Image.Image:
    """Every sprite by name at all resolutions, with a label and without; the labels, assembled quarters, empty scenes."""
    names = [*SPRITES, *(f"agent/{direction}" for direction in DIRECTIONS), "arrow"]
    sprites = [_sizes(name, skin) for name in names]
    digits = [_named(f"label {digit}", [labeled("animal/cat", str(digit), 64, skin)]) for digit in range(10)]
    quarters = [_panel(_assembled(name, skin), []) for name in QUARTERED]
    scenes = []
    for background in BACKGROUNDS:
        scene = Frame(background, (), (3, 3, 0), cell_pixels=32, skin=skin)
        scenes.append(_panel(scene, []))
    return _below(
        [
            _titled("sprites, 32, 64 and 96 pixels a cell", _grid(sprites, 9)),
            _titled("labels", _grid(digits, 16)),
            _titled("assembled quarters, 32 pixels a cell", _grid(quarters, 5)),
            _titled("scenes, 32 pixels a cell", _grid(scenes, 5)),
        ]
    )


def _assembled(name: str, skin: str) -> Frame:
    """The four quarters of a picture side by side, and the whole as the hint."""
    cells = []
    for x, y, number in ((1, 1, 1), (2, 1, 2), (1, 2, 3), (2, 2, 4)):
        cells.append((x, y, Item(f"quarter/{name}/{number}")))
    hint = Hint("box", ((Item(f"animal/{name}"),),))
    return Frame("gallery", tuple(cells), (3, 3, 0), hint=hint, cell_pixels=32, skin=skin)


def write_sheets(folder: Path, skin: str = "", variant: Variant = "published") -> list[Path]:
    """Writes all sheets as PNG files and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    sheets = {"sprites": sprite_sheet(skin), **{task: task_sheet(task, skin=skin, variant=variant) for task in TASKS}}
    paths = []
    for name, sheet in sheets.items():
        path = folder / f"{name}.png"
        sheet.quantize(_COLORS, dither=Image.Dither.NONE, kmeans=3).save(path, optimize=True)
        paths.append(path)
    return paths


# --- putting panels together -------------------------------------------------------------------------------------------


def _standing(world: World, chosen: int | None) -> list[str]:
    """How a game ended, or what can be done next."""
    if not world.done:
        return _caption(world.goal, world.actions, chosen)
    return ["won"] if world.success else ["lost"]


def _caption(goal: str, actions: tuple[str, ...], chosen: int | None) -> list[str]:
    lines = textwrap.wrap(f"Goal: {goal}", 78)
    for index, action in enumerate(actions):
        lines.append(f"{'>>' if index == chosen else '   '} {chr(ord('A') + index)}) {action}")
    return lines


def _panel(frame: Frame, lines: list[str]) -> Image.Image:
    picture = Image.fromarray(render(frame))
    panel = Image.new("RGB", (picture.width + 2, picture.height + 2 + _LINE * len(lines) + 8), "white")
    draw = ImageDraw.Draw(panel)
    draw.rectangle((0, 0, picture.width + 1, picture.height + 1), "#808080")
    panel.paste(picture, (1, 1))
    for number, line in enumerate(lines):
        color = "#b00000" if line.startswith(">>") else "#101010"
        draw.text((4, picture.height + 6 + number * _LINE), line, color, ImageFont.load_default(_SMALL))
    return panel


def _sizes(name: str, skin: str) -> Image.Image:
    """A sprite at all resolutions and, if tasks label it, with a label beneath."""
    pictures = [sprite(name, cell, skin) for cell in RESOLUTIONS]
    if name.partition("/")[0] in LABELED_FAMILIES:
        pictures += [labeled(name, "8", cell, skin) for cell in RESOLUTIONS]
    return _named(name, pictures)


def _in_rows(pictures: list[Image.Image], columns: int) -> list[list[Image.Image]]:
    return [pictures[start : start + columns] for start in range(0, len(pictures), columns)]


def _named(name: str, pictures: list[Image.Image]) -> Image.Image:
    """Up to three pictures in a row, the next three beneath, and a name."""
    rows = _in_rows(pictures, len(RESOLUTIONS))
    edge = max(picture.height for picture in pictures)
    widths = [sum(picture.width + 4 for picture in row) for row in rows]
    width = max(112, *widths)
    panel = Image.new("RGB", (width, (edge + 4) * len(rows) + 20), "#f1f7e4")
    y = 2
    for row, taken in zip(rows, widths, strict=True):
        x = (width - taken) // 2
        for picture in row:
            panel.paste(picture, (x, y), picture)
            x += picture.width + 4
        y += edge + 4
    draw = ImageDraw.Draw(panel)
    draw.text((width // 2, panel.height - 18), name, "#404040", ImageFont.load_default(12), anchor="ma")
    return panel


def _titled(title: str, picture: Image.Image) -> Image.Image:
    whole = Image.new("RGB", (picture.width, picture.height + 34), "white")
    ImageDraw.Draw(whole).text((2, 4), title, "#102040", ImageFont.load_default(_LARGE))
    whole.paste(picture, (0, 34))
    return whole


def _beside(pictures: list[Image.Image]) -> Image.Image:
    sheet = Image.new(
        "RGB",
        (sum(picture.width + _GAP for picture in pictures), max(picture.height for picture in pictures) + _GAP),
        "white",
    )
    x = _GAP // 2
    for picture in pictures:
        sheet.paste(picture, (x, _GAP // 2))
        x += picture.width + _GAP
    return sheet


def _below(pictures: list[Image.Image]) -> Image.Image:
    return _grid(pictures, 1)


def _grid(pictures: list[Image.Image], columns: int) -> Image.Image:
    """Pictures in rows of equal height and columns of equal width."""
    rows = _in_rows(pictures, columns)
    width = max(picture.width for picture in pictures) + _GAP
    heights = [max(picture.height for picture in row) + _GAP for row in rows]
    sheet = Image.new("RGB", (width * columns, sum(heights)), "white")
    y = 0
    for row, height in zip(rows, heights, strict=True):
        x = 0
        for picture in row:
            sheet.paste(picture, (x + _GAP // 2, y + _GAP // 2))
            x += width
        y += height
    return sheet


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m envs.kidgym.contact_sheets", description=__doc__)
    parser.add_argument(
        "out", nargs="?", default=DEFAULT_FOLDER, type=Path, metavar="OUT", help=f"default {DEFAULT_FOLDER}"
    )
    parser.add_argument("--skin", default="", help="folder of sprites that replace the built-in ones")
    parser.add_argument("--variant", choices=VARIANTS, default="published", help="how games are drawn")
    arguments = parser.parse_args()
    try:
        paths = write_sheets(arguments.out, arguments.skin, arguments.variant)
    except ValueError as error:
        parser.error(str(error))
    print(f"{len(paths)} sheets, {sum(path.stat().st_size for path in paths) / 1e6:.1f} MB, in {arguments.out}")


if __name__ == "__main__":
    main()
