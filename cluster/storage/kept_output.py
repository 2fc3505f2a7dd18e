"""The end of a failed replica's output, kept in the run directory: other copies of it may go with the job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cluster.storage.durable import write_durably
from cluster.storage.surroundings import SECRET

LINES = 200
"""Of its output, and as many of its errors."""
BYTES = 2**18


def last_lines(paths: Sequence[str]) -> str:
    """The end of files with a process's output; values of secret environment variables are left out."""
    return "\n".join(map(_tail, paths))


def _tail(path: str) -> str:
    with Path(path).open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - BYTES))
        text = file.read(BYTES).decode(errors="replace")
    secret = [value for name, value in os.environ.items() if SECRET.search(name) and len(value) >= 8]
    for value in secret:
        text = text.replace(value, "***")
    return "\n".join(text.splitlines()[-LINES:]) + "\n"


def keep_output(path: Path, text: str) -> None:
    """Write what befell a replica, and the end of its output; the folder is made if it is not there.

    Raises:
        OSError: it cannot be written; the disk may be full.
    """
    path.parent.mkdir(exist_ok=True)
    write_durably(path, text.encode())
