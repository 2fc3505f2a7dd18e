"""Files that survive the death of anything: a reader sees all of the old content or all of the new.

All writes that a run relies on go through the functions of this module, each of whose system calls may be the last one
before a death.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from envs.disk import sync_directory
from envs.files import FileError, regular


def write_durably(path: Path, content: bytes, rights: int = 0o666) -> None:
    """Replace a file atomically; a link to a file is replaced itself, and what it leads to stays.

    Args:
        path: The file.
        content: All of it.
        rights: Of the file from its first byte on, as far as the user's umask lets them be.

    Raises:
        OSError: a folder, a device or a pipe is there, or it cannot be written; the old content is still there.
    """
    try:
        regular(path)
    except FileError as error:
        raise OSError(str(error)) from error
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write(beside, content, os.O_TRUNC, rights)
        beside.rename(path)
    except OSError as error:
        beside.unlink(missing_ok=True)  # half a file must not fill a disk that is full already
        raise _named(error, path) from error
    sync_directory(path.parent)


def is_unfinished(path: Path) -> bool:
    """Whether a file is what ``write_durably`` leaves when the process is killed: ``.NAME.0123abcd.tmp``."""
    return re.fullmatch(r"\..+\.[0-9a-f]{8}\.tmp", path.name, re.DOTALL) is not None


def is_scratch(path: Path) -> bool:
    """Whether a folder is one in which ``raycade doctor`` tries a file system: ``.doctor-0123abcd``.

    It is removed at the end, unless the process is killed.
    """
    return re.fullmatch(r"\.doctor-[0-9a-f]{8}", path.name) is not None


def create_durably(path: Path, content: bytes, rights: int = 0o666) -> None:
    """Create a file that must not be there yet; of several processes that try, one succeeds.

    Args:
        path: The file.
        content: All of it.
        rights: Of the file, as far as the user's umask lets them be.

    Raises:
        FileExistsError: it is there.
        OSError: it cannot be written, and is not there.
    """
    try:
        _write(path, content, os.O_EXCL, rights)
        sync_directory(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        path.unlink(missing_ok=True)  # half a file would stand for a whole one
        raise _named(error, path) from error


def _named(error: OSError, path: Path) -> OSError:
    """The error with the name of the file: one of an open file, such as that the disk is full, tells none."""
    return OSError(error.errno, error.strerror, str(path))


def _write(path: Path, content: bytes, mode: int, rights: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | mode, rights)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)
