"""Files that are written whole or not at all, and errors of a disk that is full, say."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

_REFUSALS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG))


class WriteError(OSError):
    """A file cannot be written; the message names it."""

    def __str__(self) -> str:
        return f"{self.filename}: cannot be written: {self.strerror}"


def disk_refuses(error: BaseException) -> bool:
    """Whether a disk takes nothing more: it is full, say. The place that was named is not wrong then."""
    return isinstance(error, OSError) and error.errno in _REFUSALS


def exit_code(error: BaseException) -> int:
    """Of a command that ends with an error: 1 where the disk refuses, else 2, for bad input."""
    return 1 if disk_refuses(error) else 2


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path beside a file, to be written to; what was written becomes the file at the end, unless there was an error.

    Raises:
        WriteError: it cannot be written; what was there is still there.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        yield beside
        beside.replace(path)
    except WriteError:  # of another file, which it names
        raise
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        beside.unlink(missing_ok=True)
