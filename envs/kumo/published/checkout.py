"""Reading files of a checkout that nobody vouches for: regular files of a limited size that lie in it, and JSON in them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

KIB = 1024


class CheckoutError(ValueError):
    """A file of the checkout is missing, not what it must be, or refused; the message names it."""


def open_file(root: Path, relative: str, limit: int) -> BinaryIO:
    """One file of a checkout, opened for reading.

    Args:
        root: The checkout.
        relative: The file's path in it.
        limit: Bytes that it may have.

    Raises:
        CheckoutError: it is missing, lies elsewhere, is no regular file, or too large.
    """
    path = _within(root, relative)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # never waits at a named pipe
    except FileNotFoundError:
        raise CheckoutError(f"{relative}: is missing") from None
    except OSError as cause:
        raise CheckoutError(f"{relative}: cannot be opened: {cause.strerror}") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
        os.close(handle)
        size = f"has {found.st_size:,} bytes, where at most {limit:,} are read"
        raise CheckoutError(f"{relative}: {size if stat.S_ISREG(found.st_mode) else 'is not a regular file'}")
    return os.fdopen(handle, "rb")


def read_text(root: Path, relative: str, limit: int) -> str:
    """The text of one file of a checkout; arguments as of ``open_file``.

    Raises:
        CheckoutError: as there, or it is no UTF-8.
    """
    with open_file(root, relative, limit) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise CheckoutError(f"{relative}: has more than {limit:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise CheckoutError(f"{relative}: is not UTF-8 at byte {cause.start}") from None


def exists(root: Path, relative: str) -> bool:
    """Whether there is something at this path of the checkout, of whatever kind."""
    return os.path.lexists(root / relative)


def parse_json(text: str) -> Any:
    """A JSON value, whatever its nesting.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"holds {constant}, which is no JSON number")


def _within(root: Path, relative: str) -> Path:
    """The path, if no part of it climbs out of the checkout or is a symbolic link."""
    parts = Path(relative).parts
    if Path(relative).is_absolute() or ".." in parts or "\0" in relative:
        raise CheckoutError(f"{relative!r}: lies outside the checkout")
    path = root
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise CheckoutError(f"{relative}: {part} is a symbolic link, which is not followed")
    return path
