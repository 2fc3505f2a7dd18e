"""Draws SVG files in a process of its own first: filters or patterns within patterns may take for ever."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from envs.file_picture import MOST_BYTES
from envs.files import FileError, read_text
from envs.kidgym.render.sprites import read_svg

_SECONDS: Final = 60.0
"""For all drawings together, besides ``_SECONDS_EACH`` for each; ours take milliseconds."""
_SECONDS_EACH: Final = 0.5
_PIXELS: Final = 512
"""Edge of the drawings."""
_MAY_TAKE_LONG = re.compile(r"<(?:[\w-]+:)?(?:filter|pattern|mask|clipPath|marker|use)\b")
"""Elements that draw others again and again; all else is drawn once."""


def check_drawn_in_time(files: Sequence[Path]) -> None:
    """See that SVG files are drawn soon; what is wrong with them otherwise is said where they are used.

    Raises:
        ValueError: one is not; the message names it.
    """
    slow = [file for file in files if _may_take_long(file)]
    if not slow:
        return
    command = [sys.executable, "-m", __name__, *map(str, slow)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    limit = _SECONDS + _SECONDS_EACH * len(slow)
    try:
        subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limit)
    except subprocess.TimeoutExpired as expired:
        begun = len((expired.stdout or b"").splitlines())
        file = slow[max(0, begun - 1)]
        raise ValueError(
            f"{file}: takes too long to draw (filters, or patterns within patterns?); save the drawing as PNG"
        ) from None


def _may_take_long(file: Path) -> bool:
    try:
        return _MAY_TAKE_LONG.search(read_text(file, MOST_BYTES)) is not None
    except (FileError, OSError):  # said where the drawing is used
        return False


def _draw(files: list[str]) -> None:
    for number, file in enumerate(files):
        print(number, flush=True)
        try:
            read_svg(Path(file), _PIXELS, _PIXELS)
        except (OSError, ValueError):
            continue


if __name__ == "__main__":
    _draw(sys.argv[1:])
