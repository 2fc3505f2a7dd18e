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


def write_chunk(folder: Path, name: str, head: Any, tail: bytes = b"") -> int:
    """Write ``NAME.js``; returns its size in bytes.

    The content is the length of the head (4 bytes, little-endian), the head as JSON in ASCII (the only form of JSON that
    also carries half a surrogate pair), and the tail; all deflated.

    Args:
        folder: Where the chunks lie.
        name: Of the chunk: letters, digits and ``-``.
        head: JSON values.
        tail: Numbers or a picture.
    """
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode("ascii")
    packer = zlib.compressobj(BEST, zlib.DEFLATED, RAW)
    packed = packer.compress(len(text).to_bytes(4, "little") + text + tail) + packer.flush()
    script = f'{NAME}("{name}","{base64.b64encode(packed).decode()}")\n'
    (folder / f"{name}.js").write_text(script, encoding="ascii")
    return len(script)


def read_chunk(path: Path) -> tuple[Any, bytes]:
    """The head and the tail of a chunk of our own: what the page reads."""
    packed = base64.b64decode(path.read_text(encoding="ascii").split('"')[3])
    content = zlib.decompress(packed, RAW)
    end = 4 + int.from_bytes(content[:4], "little")
    return json.loads(content[4:end]), content[end:]
