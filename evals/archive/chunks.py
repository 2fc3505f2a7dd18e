"""Chunks: data for a page as script files, each a call with one base64 text."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

NAME = "raycadeChunk"
"""The function that the page defines before it loads a chunk (frontend/src/archive/chunks.ts)."""
BEST = 9
RAW = -15
"""Of zlib: deflate without a header, ``deflate-raw`` of the browsers' DecompressionStream."""


def pack_chunk(head: Any, tail: bytes = b"") -> str:
    """The content of a chunk as base64.

    It is the length of the head (4 bytes, little-endian), the head as JSON in ASCII (the only form of JSON that also carries
    half a surrogate pair), and the tail; all deflated.

    Args:
        head: JSON values.
        tail: Numbers or a picture.
    """
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode("ascii")
    packer = zlib.compressobj(BEST, zlib.DEFLATED, RAW)
    packed = packer.compress(len(text).to_bytes(4, "little") + text + tail) + packer.flush()
    return base64.b64encode(packed).decode()


def write_chunk(folder: Path, name: str, head: Any, tail: bytes = b"") -> int:
    """Write a chunk (see ``pack_chunk``) as ``NAME.js``; its name has letters, digits and ``-``. Returns its size in bytes."""
    script = f'{NAME}("{name}","{pack_chunk(head, tail)}")\n'
    (folder / f"{name}.js").write_text(script, encoding="ascii")
    return len(script)


def read_chunk(path: Path) -> tuple[Any, bytes]:
    """The head and the tail of a chunk of our own: what the page reads."""
    return unpack_chunk(path.read_text(encoding="ascii").split('"')[3])


def unpack_chunk(text: str) -> tuple[Any, bytes]:
    """The inverse of ``pack_chunk``."""
    content = zlib.decompress(base64.b64decode(text), RAW)
    end = 4 + int.from_bytes(content[:4], "little")
    return json.loads(content[4:end]), content[end:]
