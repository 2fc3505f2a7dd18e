"""Reading files of a checkout that nobody vouches for: regular files of a limited size that lie in it, and JSON in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

from envs import files
from envs.files import Bounds, FileError, MissingFileError

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
    try:
        return files.open_regular(_within(root, relative), limit, os.O_NOFOLLOW)
    except FileError as error:
        raise _named(relative, error) from None


def _named(relative: str, error: FileError) -> CheckoutError:
    """An error that names a file by its path in the checkout."""
    return CheckoutError(f"{relative}: {'is missing' if isinstance(error, MissingFileError) else error.reason}")


def read_text(root: Path, relative: str, limit: int) -> str:
    """The text of one file of a checkout; arguments as of ``open_file``.

    Raises:
        CheckoutError: as there, or it is no UTF-8.
    """
    try:
        return files.read_text(_within(root, relative), limit, os.O_NOFOLLOW)
    except FileError as error:
        raise _named(relative, error) from None


def exists(root: Path, relative: str) -> bool:
    """Whether there is something at this path of the checkout, of whatever kind."""
    return os.path.lexists(root / relative)


def parse_json(text: str) -> Any:
    """A JSON value.

    Raises:
        ValueError: it is no JSON, or nested too deeply; the message does not name the place.
    """
    try:
        return files.parse_json(text, "JSON", Bounds())
    except FileError as error:
        raise ValueError(error.reason) from None


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
