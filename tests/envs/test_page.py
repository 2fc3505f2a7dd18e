"""The typeface of pages: how its files are drawn from a font."""

import json
import runpy
import sys
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

from envs.page import typeface

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def test_the_files_of_the_typeface_are_drawn_from_the_fonts_named_in_their_order(tmp_path, monkeypatch):
    shipped = typeface.FOLDER
    monkeypatch.setattr(typeface, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["draw_glyphs", str(FONTS / "DejaVuSans.ttf"), str(FONTS / "DejaVuSans-Bold.ttf")])
    runpy.run_module("envs.page.draw_glyphs", run_name="__main__")
    for weight in ("regular", "bold"):
        widths = json.loads((tmp_path / f"{weight}.json").read_text())
        assert widths == json.loads((shipped / f"{weight}.json").read_text())
        width = sum(widths.values()) + 2 * typeface.PADDING * len(widths)
        drawn, kept = (np.asarray(Image.open(folder / f"{weight}.png"), np.float64) for folder in (tmp_path, shipped))
        assert drawn.shape == kept.shape == (typeface.HEIGHT, width)
        # Another FreeType shades some pixels otherwise, and moves no letter.
        assert np.abs(drawn - kept).mean() < 1 < kept.mean()
