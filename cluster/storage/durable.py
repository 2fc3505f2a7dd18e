"""Writing a file so that it survives the death of anything."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader sees all of the old content or all of the new, even after a crash."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError:
        beside.unlink(missing_ok=True)  # half a file must not fill a disk that is full already
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make what was renamed or removed in a directory outlast a crash of the machine."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
