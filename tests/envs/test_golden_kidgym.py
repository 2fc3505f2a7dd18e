"""What KidGym's games, mazes, drawings and contact sheets are, on record."""

import itertools
import sys
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
import pytest
from PIL import Image, ImageDraw

from envs.kidgym import TASKS, Hint, Item, contact_sheets, make, play_randomly
from envs.kidgym.chance import chance_at, published_chance
from envs.kidgym.decoys import Decoys, behind_all_doors, mislead
from envs.kidgym.layout import lay_out, needs_all
from envs.kidgym.oracle import fewest_steps, plan
from envs.kidgym.render import layout
from envs.kidgym.tasks import ALL_TASKS
from tests.golden import check_golden, digest

GAMES = [(task, level, variant) for task in ALL_TASKS for variant in task.variants for level in task.levels(variant)]


def looks(world):
    """All that can be seen of a game."""
    actions = () if world.done else world.actions
    return repr((world.goal, actions, world.frame, world.backpack, world.watching, world.least_steps()))


def played(world, choose):
    """What each step of a game did, and a digest of what was seen on the way."""
    seen, steps = [looks(world)], ""
    while not world.done:
        result = world.step(choose(world))
        steps += "won" if result.success else "lost" if result.terminated else "+" if result.accepted else "-"
        seen.append(looks(world))
    return f"{steps}{' over' if world.truncated else ''} {digest(''.join(seen))}"


def test_games_are_what_they_were():
    """Of each task, level and variant: bounds, chance, ends of games by perfect play and by choices of many kinds."""
    parts = []
    for task, level, variant in GAMES:
        name, world = task.name, make(task.name, level, 11, variant=variant)
        chance = chance_at(name, level, variant)
        parts.append(f"{name} {level} {variant}: {world.budget} {world.max_actions} {chance:.6g} {world.least_steps()}")
        if level < 3:
            way = iter(plan(world))
            parts.append(f"    perfect: {fewest_steps(world)} {played(world.copy(), lambda _, way=way: next(way))}")
        for seed in range(4 if level == 1 else 1):
            rng = Random(seed)
            game = make(name, level, seed, variant=variant)
            parts.append(
                f"    {seed}: {played(game, lambda world, rng=rng: rng.randrange(len(world.actions) + (rng.random() < 0.2)))}"
            )
        chosen = play_randomly(world, 3)
        parts.append(f"    at random: {chosen.steps} {chosen.success} {digest(looks(chosen))}")
    for task, level in itertools.product(ALL_TASKS, (1, 2, 3)):
        parts.append(f"{task.name} {level} as published: {published_chance(task.name, level):.6g}")
    check_golden("kidgym_games", "\n".join(parts))


def test_mazes_are_what_they_were():
    parts = []
    for doors, walls, (chests, distractor) in itertools.product(
        (1, 2, 3), (3, 7, 10), ((0, False), (2, False), (0, True))
    ):
        for seed in range(2):
            maze = lay_out(Random(seed), doors, walls, chests, distractor)
            parts.append(f"{maze} {behind_all_doors(maze)} {needs_all(maze, maze.field)}")
    for doors, decoys in ((1, Decoys(1, 2)), (2, Decoys(2, 1, 1)), (1, Decoys(0, 0, 2)), (2, Decoys(0, 3))):
        parts.append(f"{doors} {decoys} {mislead(Random(5), doors, decoys)}")
    for doors, walls, chests, distractor in (
        (0, 3, 0, False),
        (4, 5, 0, False),
        (3, 2, 0, False),
        (1, 11, 1, True),
        (2, 1, 3, False),
    ):
        try:
            parts.append(str(lay_out(Random(0), doors, walls, chests, distractor)))
        except ValueError as error:
            parts.append(str(error))
    check_golden("kidgym_mazes", "\n".join(parts))


def test_hints_are_laid_out_as_on_record():
    one, other = Item("animal/cat"), Item("key/red")
    parts = []
    for place in ("top", "middle"):
        hints = [Hint("column", ((one,),) * rows, place) for rows in range(1, 8)]
        hints += [Hint("pairs", ((one, other),) * rows, place) for rows in range(1, 9)]
        hints += [Hint("box", ((one, other, one)[:n],) * n, place) for n in (1, 2, 3)]
        for hint in hints:
            placed = [f"{getattr(each.item, 'sprite', each.item)} {each[1:]}" for each in layout.hint_layout(hint)]
            parts.append(f"{hint.style} {len(hint.rows)} {place}: {'; '.join(placed)}")
    parts += [f"slot {slot}: {layout.slot_inside(slot)}" for slot in range(4)]
    check_golden("kidgym_hints", "\n".join(parts))


@pytest.fixture
def drawn(monkeypatch):
    """Sheets of plain squares in place of drawings; keeps what is written on them."""
    texts = []

    def square(edge, *what):
        shade = crc32(repr(what).encode())
        return Image.new("RGBA", (edge, edge), (shade & 255, shade >> 8 & 255, shade >> 16 & 255, 255))

    def text(self, xy, words, fill, font, anchor=None):
        texts.append(f"{xy} {words!r} {fill} {font.size} {anchor}")

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    monkeypatch.setattr(
        contact_sheets, "render", lambda frame: np.asarray(square(frame.cell_pixels, frame).convert("RGB"))
    )
    monkeypatch.setattr(contact_sheets, "sprite", lambda name, edge, skin="": square(edge, name, skin))
    monkeypatch.setattr(contact_sheets, "labeled", lambda name, label, edge, skin: square(edge + 2, name, label, skin))
    return texts


def test_contact_sheets_are_what_they_were(drawn, monkeypatch, tmp_path, capsys):
    parts = []
    for make_sheet in (
        lambda: contact_sheets.task_sheet("SE"),
        lambda: contact_sheets.task_sheet("PU", variant="balanced"),
        lambda: contact_sheets.sprite_sheet(""),
        lambda: contact_sheets._grid([Image.new("RGB", (n, 5 * n), "red") for n in (3, 9, 5)], 2),
    ):
        drawn.clear()
        sheet = make_sheet()
        parts += [f"# {sheet.size} {digest(sheet.tobytes())}", *drawn]
    for seed in range(4):
        world = make("PL", 1, seed)
        world.step(0)
        parts.append(f"{seed} {contact_sheets._standing(world, None)}")
    asked = []
    monkeypatch.setattr(contact_sheets, "TASKS", {name: TASKS[name] for name in ("MDE", "CL")})
    monkeypatch.setattr(
        contact_sheets, "task_sheet", lambda task, **told: asked.append((task, told)) or Image.new("RGB", (9, 9))
    )
    monkeypatch.setattr(contact_sheets, "sprite_sheet", lambda skin: asked.append(skin) or Image.new("RGB", (9, 9)))
    monkeypatch.chdir(tmp_path)
    for words in ([], ["out/there", "--skin", "own", "--variant", "balanced"]):
        monkeypatch.setattr(sys, "argv", ["contact_sheets", *words])
        contact_sheets.main()
        parts += [capsys.readouterr().out.strip(), *map(str, asked)]
        asked.clear()
    parts += sorted(path.as_posix() for path in Path().rglob("*.png"))
    check_golden("kidgym_contact_sheets", "\n".join(parts))
