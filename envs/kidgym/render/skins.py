"""User skins: a folder whose files ``NAME.svg`` or ``NAME.png`` replace built-in sprites; the others stay as they are.

``python -m envs.kidgym.render.new_skin FOLDER`` writes the built-in sprites as PNG files, to start from.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from envs.files import shown_files
from envs.kidgym.catalog import BACKGROUNDS, SPRITES
from envs.kidgym.render.drawn_in_time import check_drawn_in_time
from envs.kidgym.render.sprites import backdrop, fitted, skin_file, sprite
from envs.kidgym.scene import Scene, skin_digest

DRAWN: Final[tuple[str, ...]] = (
    *(name for name in SPRITES if not name.startswith(("quarter/", "pile/"))),
    *(f"agent/{direction}" for direction in ("down", "right", "up", "left")),
    "arrow",
)
"""Sprites that are drawings of their own. Quarters and piles are made of the animals, fruit and food among them."""


def _has_drawings(folder: Path) -> bool:
    return any(path.suffix in (".svg", ".png") for path in shown_files(folder, "**/*"))


@lru_cache(maxsize=16)
def check_skin(skin: str) -> None:
    """Reads every drawing that a skin has for a built-in sprite or background once.

    Raises:
        ValueError: the folder does not exist, holds no drawing, or ones that are unreadable, empty or take too long to
            draw; the message names folder and sprite.
    """
    if not Path(skin).is_dir():
        raise ValueError(f"skin {skin!r} is not a folder")
    if not _has_drawings(Path(skin)):
        raise ValueError(
            f"skin {skin!r} holds no drawing: a sprite {DRAWN[0]!r} would be its file {DRAWN[0]}.svg or .png"
        )
    files = [skin_file(skin, name) for name in (*SPRITES, *DRAWN, *(f"background/{each}" for each in BACKGROUNDS))]
    drawings = dict.fromkeys(file for file in files if file is not None and file.suffix == ".svg")
    check_drawn_in_time(list(drawings))
    for name in (*SPRITES, *DRAWN):
        file = skin_file(skin, name)
        if file is not None and sprite(name, 32, skin).getchannel("A").getbbox() is None:
            raise ValueError(f"skin {skin!r}: sprite {name!r}: {file} draws nothing; text in an SVG must be outlines")
    for background in BACKGROUNDS:
        backdrop(background, 32, 32, skin)


def check_scene_skin(scene: Scene) -> None:
    """Check that a scene's skin can be read and is the one that the scene was made with.

    Raises:
        ValueError: it is not; the message names the folder.
    """
    if not scene.skin:
        return
    check_skin(scene.skin)
    if scene.skin_hash != skin_digest(scene.skin):
        raise ValueError(
            f"skin {scene.skin!r} has changed: it holds other drawings than when this frame was made (content hash"
            f" {skin_digest(scene.skin)}, the frame's is {scene.skin_hash})"
        )


def export_skin(folder: str, pixels: int = 192) -> int:
    """Writes the built-in sprites, quarters and piles apart, as PNG files, and returns how many.

    Args:
        folder: Where to write; files of the same names are replaced.
        pixels: The longer edge of each drawing.
    """
    for name in DRAWN:
        path = Path(folder) / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        fitted(name, pixels, pixels).save(path)
    return len(DRAWN)
