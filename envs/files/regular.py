"""Regular files of a limited size: bytes, text, lines."""

from __future__ import annotations

import os
import stat
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MIB = 2**20
MOST_BYTES = 64 * MIB
"""Of a file that is read whole."""
MOST_LINES_BYTES = 4096 * MIB
"""Of a file that is read line by line."""
MOST_LINE_BYTES = 16 * MIB
_LONGEST_REASON = 400
"""Characters: a parser's message may repeat a value of the file."""


class FileError(ValueError):
    """A file cannot be read as what it should be.

    Attributes:
        place: The file, and the place in it where that is known ("tasks.jsonl, line 3").
        reason: What is wrong, on one line.
    """

    def __init__(self, place: object, reason: str) -> None:
        line = " ".join(reason.split())
        self.place = str(place)
        self.reason = line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"
        super().__init__(self.place, self.reason)  # both, so that the error can be pickled

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class MissingFileError(FileError):
    """There is no such file."""


def words_of(error: Exception) -> str:
    """What an error says; its kind where it has no text."""
    if isinstance(error, tokenize.TokenError):  # its text is a pair: what is wrong, and where
        return str(error.args[0])
    return str(error) or type(error).__name__


def is_hidden(path: Path) -> bool:
    """Whether a name begins with a dot: it is none of what a folder is read for.

    macOS, for one, lays ``._NAME`` beside each file on other file systems and in archives.
    """
    return path.name.startswith(".")


def shown_files(folder: Path, pattern: str) -> list[Path]:
    """What a folder holds of a pattern, as ``Path.glob`` takes it, in order and without what is hidden."""
    return sorted(path for path in folder.glob(pattern) if not is_hidden(path))


def regular(path: str | Path) -> Path:
    """The path, unless something other than a file lies there; for readers that open the file themselves.

    A missing file is left to the reader.

    Raises:
        FileError: a pipe, a device, a socket or a folder.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return Path(path)
    if not stat.S_ISREG(mode):
        raise FileError(path, _kind(mode))
    return Path(path)


def real_path(path: str | Path) -> Path:
    """The absolute path without links; of links that lead in a circle the path so far, where `Path.resolve` raises."""
    return Path(os.path.realpath(path))


def absolute_path(path: str, place: str) -> Path:
    """A path as it is in every working directory, ``~`` and ``~NAME`` written out.

    Args:
        path: What a user gave.
        place: The setting or variable with its value, for errors.

    Raises:
        FileError: it begins with the home of a user who has none.
    """
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise FileError(place, "there is no such home: write the whole path") from None


def home_folder() -> Path | None:
    """The user's home; None where neither ``HOME`` nor the machine's list of users names one, as in some containers."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def _kind(mode: int) -> str:
    return "is a folder" if stat.S_ISDIR(mode) else "is not a regular file"


def open_regular(path: str | Path, most_bytes: int = MOST_BYTES, flags: int = 0) -> BinaryIO:
    """A file, opened for reading in binary.

    Args:
        path: A regular file, or a link to one.
        most_bytes: A larger file is refused.
        flags: Further flags of `os.open`, such as ``os.O_NOFOLLOW``.

    Raises:
        FileError: it is missing (`MissingFileError`), no regular file, too large, or cannot be opened.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe waits until somebody writes into it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    except FileNotFoundError:
        raise MissingFileError(path, "there is no such file") from None
    except OSError as error:
        raise FileError(path, f"cannot be opened: {error.strerror}") from None
    except ValueError as error:  # a null character in the path
        raise FileError(repr(path), f"cannot be opened: {error}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise FileError(path, _kind(status.st_mode))
    if status.st_size > most_bytes:
        os.close(handle)
        raise FileError(path, _too_large(status.st_size, most_bytes))
    return os.fdopen(handle, "rb")


def _too_large(size: int, most: int) -> str:
    return f"has {size:,} bytes, where at most {most:,} are read"


def read_bytes(path: str | Path, most_bytes: int = MOST_BYTES, flags: int = 0) -> bytes:
    """The content of a file; arguments and errors as of `open_regular`."""
    pieces, size = list[bytes](), 0
    with open_regular(path, most_bytes, flags) as file:
        try:
            # Piece by piece: the size that was stated is 0 for files of /proc, and others may grow.
            while size <= most_bytes:
                piece = file.read(MIB)
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
                size += len(piece)
        except OSError as error:
            raise FileError(path, f"cannot be read: {error.strerror}") from None
    raise FileError(path, _too_large(size, most_bytes))


def read_text(path: str | Path, most_bytes: int = MOST_BYTES, flags: int = 0) -> str:
    """The text of a UTF-8 file, without a byte order mark; line ends become line feeds.

    Raises:
        FileError: as of `open_regular`, or it is no UTF-8.
    """
    return utf8_text(read_bytes(path, most_bytes, flags), path).replace("\r\n", "\n").replace("\r", "\n")


def utf8_text(content: bytes, place: object) -> str:
    """UTF-8 as text, without a byte order mark.

    Raises:
        FileError: it is another encoding; the place is named.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
        hint = "; it looks like UTF-16: save it as UTF-8" if utf16 else ""
        raise FileError(place, f"is not UTF-8 at byte {error.start}{hint}") from None


def read_lines(path: str | Path, most_bytes: int = MOST_LINES_BYTES) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file that are not blank, without line ends, each with its number from 1.

    The file is read as the lines are taken, so it may be larger than the memory.

    Raises:
        FileError: as of `open_regular`, a line is too long, or is no UTF-8.
    """
    with open_regular(path, most_bytes) as file:
        number = 0
        while line := file.readline(MOST_LINE_BYTES + 1):
            number += 1
            place = f"{path}, line {number}"
            if len(line) > MOST_LINE_BYTES:
                raise FileError(place, f"is longer than {MOST_LINE_BYTES:,} bytes")
            text = utf8_text(line, place).rstrip("\r\n")
            if text.strip():
                yield number, text
