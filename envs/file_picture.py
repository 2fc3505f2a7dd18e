"""A picture that a file holds: imported ones, and those of an environment that is not ours."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from envs.files import FileError, open_regular, read_bytes
from envs.picture import Picture

MOST_BYTES = 16 * 2**20
MOST_PIXELS = 4096
"""Of an edge: larger pictures are refused before they are decoded."""
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
"""First bytes of PNG and JPEG files."""


@dataclass(frozen=True)
class FilePicture(Picture):
    """A PNG or JPEG file, told by the hash of its content.

    Attributes:
        path: Where it lies; every machine that renders it must see it there.
        digest: Of its bytes (BLAKE2b, 16 bytes, hexadecimal).
        width: In pixels.
        height: In pixels.
    """

    path: str
    digest: str
    width: int
    height: int

    kind = "file"

    @classmethod
    def read(cls, path: Path) -> Self:
        """The picture in a file.

        Raises:
            ValueError: it is missing, too large, or no picture; the message names it.
        """
        content = picture_content(path)
        return cls(str(path), picture_digest(content), *_size(str(path), content))

    @classmethod
    def store(cls, content: bytes, folder: Path) -> Self:
        """Keep the bytes of a picture in a folder, under the name of their hash, once.

        Raises:
            ValueError: they are no picture, or too large.
        """
        size, digest = _size("picture", content), picture_digest(content)
        path = folder / f"{digest}.png"
        if not path.exists():
            handle, temporary = tempfile.mkstemp(dir=folder, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                Path(temporary).replace(path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
        return cls(str(path), digest, *size)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.width, self.height

    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (height, width, 3), RGB; what is transparent is white.

        Raises:
            ValueError: the file is missing, or is another one by now.
        """
        content = picture_content(Path(self.path))
        if picture_digest(content) != self.digest:
            raise ValueError(f"{self.path}: this picture is not the one that was stored")
        _size(self.path, content)
        with Image.open(io.BytesIO(content)) as image:
            pixels = image.convert("RGBA")
            return np.asarray(Image.alpha_composite(Image.new("RGBA", pixels.size, "white"), pixels).convert("RGB"))

    @cached_property
    def key(self) -> str:
        """The file's hash: the same pixels wherever it lies."""
        return self.digest

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The inverse of ``to_json``.

        Raises:
            TypeError, ValueError: a field is unknown, missing or of another type.
        """
        picture = cls(**fields)
        if not (isinstance(picture.path, str) and isinstance(picture.digest, str)):
            raise ValueError("path and digest must be texts")
        if not all(type(edge) is int and 0 < edge <= MOST_PIXELS for edge in picture.size):
            raise ValueError(f"width and height must be whole numbers from 1 to {MOST_PIXELS}")
        return picture


def picture_digest(content: bytes) -> str:
    """Hash of a picture's bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def picture_content(path: Path) -> bytes:
    """The bytes of a picture's file; of a file that does not begin as a picture no more is read.

    Raises:
        FileError: it cannot be read, is too large, or is no picture.
    """
    with open_regular(path, MOST_BYTES) as file:
        beginning = file.raw.read(max(map(len, _SIGNATURES)))  # type: ignore[attr-defined]
    if not beginning.startswith(_SIGNATURES):
        raise FileError(path, "no PNG or JPEG picture")
    return read_bytes(path, MOST_BYTES)


def _size(name: str, content: bytes) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
            width, height = image.size
            if max(width, height) > MOST_PIXELS:
                raise ValueError(
                    f"{name}: a picture of {width}x{height} pixels; at most {MOST_PIXELS} an edge are read"
                )
            image.load()
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise ValueError(f"{name}: no PNG or JPEG picture") from error
    return width, height
