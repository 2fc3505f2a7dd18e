"""What KidGym's games, mazes, drawings and contact sheets are, on record."""

import dataclasses
import itertools
import sys
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from envs.kidgym import TASKS, Hint, Item, contact_sheets, make, play_randomly, solve
from envs.kidgym import decoys as decoys_module
from envs.kidgym import layout as layout_module
from envs.kidgym.catalog import counted, words
from envs.kidgym.chance import chance_at, published_chance
from envs.kidgym.decoys import Decoys, behind_all_doors, mislead
from envs.kidgym.layout import lay_out, needs_all
from envs.kidgym.oracle import fewest_steps, plan
from envs.kidgym.render import glyphs, layout, new_skin, skins, sprites
from envs.kidgym.scene import skin_digest
from envs.kidgym.tasks import ALL_TASKS, memory_maze
from envs.kidgym.world import Action, World
from tests.envs.test_kidgym_pictures import FRAMES
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
        for seed in range(2 if level == 1 else 1):
            rng = Random(seed)
            game = make(name, level, seed, variant=variant)
            parts.append(
                f"    {seed}: {played(game, lambda world, rng=rng: rng.randrange(len(world.actions) + (rng.random() < 0.2)))}"
            )
        chosen = play_randomly(world, 3)
        parts.append(f"    at random: {chosen.steps} {chosen.success} {digest(looks(chosen))}")
        assert solve(chosen) is fewest_steps(chosen) is plan(game) is None, "both are over"
        if level == 1:
            world.step(99)
            parts.append(f"    a step later: {plan(world)} {fewest_steps(world)}")
    for level, seed in itertools.product((1, 2, 3), (0, 1)):
        world = make("MDE", level, seed, mde_decoys="published")
        parts.append(f"MDE {level} with published decoys: {played(world, lambda world: 0)}")
    for task, level in itertools.product(ALL_TASKS, (1, 2, 3)):
        parts.append(f"{task.name} {level} as published: {published_chance(task.name, level):.6g}")
    check_golden("kidgym_games", "\n".join(parts))


class Bare(World):
    """A task that draws nothing."""

    name, title, budgets, goal = "BARE", "Bare", (2, 2, 3, 4), "Wait."

    def build(self, rng):
        pass

    def choices(self):
        return [Action("wait", "wait"), Action("rest", "rest")]

    def perform(self, action):
        return action.verb == "rest"

    def verdict(self):
        return None


def test_a_task_s_defaults_and_refusals_are_those_on_record():
    parts = []
    for level in (1, 3, 4):
        world = Bare(level, 7)
        parts += [
            looks(world),
            f"{world.max_actions} {world.budget} {world.progress()} {world.success} {world.limit!r}",
        ]
    parts.append(f"{Bare.levels()} {Bare.levels('balanced')} {Bare.memory} {Bare.variants} {world.frame.to_json()}")
    world.scene = {cell: Item("wall", str(cell)) for cell in (1, 5, 24)}
    world.backpack = [Item("key/red"), Item("key/blue")]
    moves = (
        "world.pick_up(24)",
        "world.put_down(1, 24)",
        "world.pick_up(1)",
        "world.put_down(0, 5)",
        "world.walk_to(24)",
    )
    moves += ("world.pick_up(5)", "world.pick_up(24)", "world.put_down(2, 24)", "world.pick_up(24)")
    for move in moves:
        parts.append(f"{move}: {eval(move)} {world.agent} {world.facing} {world.backpack} {world.scene}")
    for index in (2, 1, 0, 1, 0):
        try:
            parts.append(f"{index}: {world.step(index)} {world.steps} {world.done}")
        except ValueError as error:
            parts.append(f"{index}: {error}")
    for task, level, more in (
        ("MA", 4, {}),
        ("CL", True, {}),
        ("MDE", 4, {"variant": "balanced"}),
        ("CL", 1, {"variant": "odd"}),
        ("CL", 1, {"mde_decoys": "odd"}),
        ("CL", 1, {"cell_pixels": 33}),
        ("CL", 1, {"cell_pixels": 64.0}),
        ("CL", 1, {"skin": "no/folder"}),
    ):
        try:
            make(task, level, 0, **more)
        except ValueError as error:
            parts.append(f"{task} {level} {more}: {error}")
    check_golden("kidgym_bare", "\n".join(parts))


def test_mazes_are_what_they_were(monkeypatch):
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
    monkeypatch.setattr(memory_maze, "ATTEMPTS", 0)
    for level in (1, 2, 3):
        world = make("MMA", level, 5)
        parts.append(
            f"MMA {level} whose chests stand anywhere: {len(world.scene)} {world.hidden} {digest(looks(world))}"
        )
    monkeypatch.setattr(layout_module, "ATTEMPTS", 0)
    for doors, walls, chests, distractor in ((1, 3, 0, False), (3, 5, 2, False), (2, 9, 0, True), (3, 12, 0, False)):
        parts.append(f"without attempts: {lay_out(Random(3), doors, walls, chests, distractor)}")
    monkeypatch.setattr(decoys_module, "ATTEMPTS", 2)
    with pytest.raises(
        ValueError, match=r"no maze of 3 doors was found with room for Decoys\(keys=9, doors=9, chests=0\)"
    ):
        mislead(Random(0), 3, Decoys(9, 9))
    world = make("CL", 1, 0)
    basket = next(cell for cell, item in world.scene.items() if item.sprite == world.belongs[0][1])
    world.scene = {cell: Item("wall") for cell in range(25) if cell != world.agent} | {basket: world.scene[basket]}
    world.backpack = [Item(world.belongs[0][0])]
    put = Action("", "put", basket, 0)
    parts.append(f"a basket: {world.perform(put)} {world.backpack}")
    world.scene = {basket: world.scene[basket]}
    parts.append(f"with a way: {world.perform(put)} {world.backpack} {world.verdict()}")
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
        texts.append(f"{xy} {words!r} {fill} {font} {anchor}")

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    monkeypatch.setattr(ImageFont, "load_default", lambda size: size)
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
    for given in ([], ["out/there", "--skin", "own", "--variant", "balanced"]):
        monkeypatch.setattr(sys, "argv", ["contact_sheets", *given])
        contact_sheets.main()
        parts += [capsys.readouterr().out.strip(), *map(str, asked)]
        asked.clear()
    parts += sorted(path.as_posix() for path in Path().rglob("*.png"))
    check_golden("kidgym_contact_sheets", "\n".join(parts))


def test_a_small_frame_and_signs_are_what_they_were():
    parts = []
    small = dataclasses.replace(FRAMES[0], cell_pixels=32)
    parts.append(f"{small.background} {small.size} {digest(small.render().tobytes())}")
    for shown in ("7", "10", "ABCD", "0123456789"):
        parts += [f"{shown} {glyphs.width(shown)}", glyphs.label(shown), glyphs.line(shown, (3, 5), 7, 2, "red")]
    parts += [glyphs.marker(number) for number in range(1, 9)]
    for name, number in itertools.product(("fruit/lemon", "fruit/strawberry", "food/chicken_leg"), (0, 1, 2)):
        parts.append(f"{words(name)}: {counted(number, name)}")
    for name, rows in itertools.product(("fruit/apple", "food/pizza"), ((3,), (1, 2))):
        parts.append(f"{name} in rows of {rows}: {sprites._largest(name, 52, 32, '', rows):.4g}")
    check_golden("kidgym_drawings", "\n".join(parts))


def test_skins_are_read_and_written_as_on_record(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("animal/cat.svg", "own/animal/cat.svg", "own/wall.png", "own/notes.txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"this is {name}")
    parts = [
        f"{skin!r} {skin_digest.__wrapped__(skin)} {sprites.skin_file(skin, 'animal/cat')}"
        for skin in ("", "own", "none")
    ]
    asked = []
    monkeypatch.setattr(skins, "fitted", lambda *given: asked.append(given) or Image.new("RGBA", (3, 3)))
    for given in (["new"], ["new/other", "--pixels", "40"]):
        monkeypatch.setattr(sys, "argv", ["new_skin", *given])
        new_skin.main()
        parts += [capsys.readouterr().out.strip(), str(asked[0]), str(asked[-1])]
        asked.clear()
    parts += sorted(path.as_posix() for path in Path("new").rglob("*.png") if "other" not in path.parts)
    Image.new("RGB", (9, 9)).save("own/wall.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    with pytest.raises(ValueError, match=r"sprite 'wall' cannot be read from wall\.png: Image size"):
        sprites.sprite("wall", 32, "own")
    check_golden("kidgym_skins", "\n".join(parts))
