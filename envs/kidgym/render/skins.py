"""User skins: a folder whose files ``NAME.svg`` or ``NAME.png`` replace the built-in sprites.

``python -m envs.kidgym.render.new_skin FOLDER`` writes the built-in sprites as PNG files, a complete skin to start from.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from envs.kidgym.catalogue import SPRITES
from envs.kidgym.frame import Frame, skin_digest
from envs.kidgym.render.sprites import builtin_drawing, skin_file, sprite

REQUIRED: Final[tuple[str, ...]] = (
    *(name for name in SPRITES if not name.startswith(("quarter/", "pile/"))),
    *(f"agent/{direction}" for direction in ("down", "right", "up", "left")),
    "arrow",
)
"""What a skin must draw. Quarters and piles are made of its animals, fruit and food unless it draws them too; a background
(``background/farm``) is replaced where the skin has one."""


@lru_cache(maxsize=16)
def check_skin(skin: str) -> None:
    """Reads every sprite of a skin once.

    Raises:
        ValueError: the folder does not exist, lacks sprites or holds unreadable ones; the message names folder and
            sprites.
    """
    if not Path(skin).is_dir():
        raise ValueError(f"skin {skin!r} is not a folder")
    missing = [name for name in REQUIRED if skin_file(skin, name) is None]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ValueError(
            f"skin {skin!r} has no sprite {', '.join(map(repr, missing[:5]))}{more}: expected a file {missing[0]}.svg or"
            f" {missing[0]}.png in that folder"
        )
    for name in SPRITES:
        sprite(name, 32, skin)


def check_frame_skin(frame: Frame) -> None:
    """Check that a frame's skin is complete and the one that the frame was made with.

    Raises:
        ValueError: it is not; the message names the folder.
    """
    if not frame.skin:
        return
    check_skin(frame.skin)
    if frame.skin_hash != skin_digest(frame.skin):
        raise ValueError(
            f"skin {frame.skin!r} has changed: it holds other drawings than when this frame was made (content hash"
            f" {skin_digest(frame.skin)}, the frame's is {frame.skin_hash})"
        )


def export_skin(folder: str, pixels: int = 192) -> int:
    """Writes the sprites that a skin must draw as PNG files, and returns how many."""
    for name in REQUIRED:
        path = Path(folder) / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        builtin_drawing(name, pixels).save(path)
    return len(REQUIRED)
