"""Draws the atlas of glyphs that pages are set in, once, from a font file: how the files in ``glyphs`` were made.

Run: python -m envs.page.draw_glyphs REGULAR.ttf BOLD.ttf

The pixels of a font depend on the version of FreeType that draws it, those of an atlas on nothing. DejaVu Sans may be
shipped and changed under its license (glyphs/LICENSE).
"""

from __future__ import annotations

import json
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from envs.page.typeface import BASELINE, CHARACTERS, EM, FOLDER, HEIGHT, PADDING


def draw(path: str, name: str) -> None:
    """One weight: an image of all glyphs side by side, and their advances (EM to the em)."""
    font = ImageFont.truetype(path, EM, layout_engine=ImageFont.Layout.BASIC)
    widths = {character: round(font.getlength(character)) for character in CHARACTERS}
    cells = []
    for character, width in widths.items():
        cell = Image.new("L", (width + 2 * PADDING, HEIGHT))
        ImageDraw.Draw(cell).text((PADDING, BASELINE), character, fill=255, font=font, anchor="ls")
        cells.append(np.asarray(cell))
    Image.fromarray(np.concatenate(cells, axis=1)).save(FOLDER / f"{name}.png", optimize=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(widths) + "\n")


if __name__ == "__main__":
    for file, weight in zip(sys.argv[1:3], ("regular", "bold"), strict=True):
        draw(file, weight)
