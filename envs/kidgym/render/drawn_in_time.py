"""Draws SVG files in a process of its own first: filters or patterns within patterns may take for ever."""

from __future__ import annotations

import os
import re
import resource
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
_MAY_TAKE_LONG = re.compile(r"<(?:[^\s<>/:]+:)?(?:filter|pattern|mask|clipPath|marker|use|image)\b")
"""Elements that draw others again and again, or another drawing; all else is drawn once."""
_LONG = 200_000
"""Characters of a drawing that may take long whatever it holds."""


def check_drawn_in_time(files: Sequence[Path]) -> None:
    """See that SVG files are drawn soon; what is wrong with them otherwise is said where they are used.

    Raises:
        ValueError: one is not; the message names it.
    """
    slow = [file for file in files if _may_take_long(file)]
    if not slow:
        return
    command = [sys.executable, "-P", "-m", __name__, *map(str, slow)]  # -P: no module of the working directory is run
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    limit = _SECONDS + _SECONDS_EACH * len(slow)
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limit, check=False
        )
        told, is_drawn = done.stdout, done.returncode == 0
    except subprocess.TimeoutExpired as expired:
        told, is_drawn = expired.stdout or b"", False
    if not is_drawn:
        file = slow[max(0, len(told.splitlines()) - 1)]
        raise ValueError(
            f"{file}: takes too long to draw, or ends the process that draws it (filters, or patterns within patterns?); "
            "save the drawing as PNG"
        )


def _may_take_long(file: Path) -> bool:
    try:
        text = read_text(file, MOST_BYTES)
    except (FileError, OSError):  # said where the drawing is used
        return False
    return len(text) > _LONG or _MAY_TAKE_LONG.search(text) is not None


def _draw(files: list[str]) -> None:
    # Whoever waits may have been killed: then nobody ends this process but this limit.
    seconds = int(_SECONDS + _SECONDS_EACH * len(files))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    for number, file in enumerate(files):
        print(number, flush=True)
        try:
            read_svg(Path(file), _PIXELS, _PIXELS)
        except (OSError, ValueError):
            continue


if __name__ == "__main__":
    _draw(sys.argv[1:])
