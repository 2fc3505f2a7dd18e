"""Files and folders that settings name, by their content: what they are called and where they lie decides no answer.

Names of models on the hub and files of other machines stay as they are:

    >>> by_content({"model": "Qwen/Qwen3-8B", "dtype": "auto"})
    {'model': 'Qwen/Qwen3-8B', 'dtype': 'auto'}
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cluster.errors import UserError
from cluster.models.hub import CONFIG, TINY

READ = frozenset(
    {".bin", ".gguf", ".jinja", ".json", ".model", ".pt", ".pth", ".py", ".safetensors", ".tiktoken", ".txt"}
)
"""Suffixes of what is read of a model's folder."""
WHOLE = 64 * 2**20
"""Bytes of a file that is hashed as a whole; of a longer one, weights, as many pieces as ``PIECES``, which no training
leaves as they were."""
PIECES = 64
PIECE = 4096
LONGEST = 250
"""Characters of a name in a path; a setting with a longer one is a text."""


def by_content(value: Any) -> Any:
    """Settings with the hash of its content in place of each file or folder that is on this machine.

    Raises:
        UserError: one of them cannot be read.
    """
    if isinstance(value, Mapping):
        return {key: by_content(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [by_content(each) for each in value]
    path = local_path(value)
    if path is None:
        return value
    # It has the form of a path, but there is nothing.
    if not path.exists():
        return value
    try:
        return {"content": _hash(tuple(_listing(path)))}
    except OSError as error:
        raise UserError(f"{value}: cannot be read: {error.strerror}") from error


def missing_path(section: str, value: Any) -> str:
    """The first setting that names a file or folder by an absolute path where nothing is; empty if none does."""
    if isinstance(value, Mapping):
        return next(filter(None, (missing_path(f"{section}.{key}", each) for key, each in value.items())), "")
    path = local_path(value)
    if path is None or not path.is_absolute():
        return ""
    return "" if path.exists() else f"{section}={value}"


def local_path(value: Any) -> Path | None:
    """The path that a setting may be; None for a word or a text."""
    if not isinstance(value, str) or value == TINY or not value or "\0" in value:
        return None
    if any(len(name) > LONGEST for name in value.split("/")):
        return None
    # Without a slash only a model's folder is meant: ``auto`` and ``fp8`` are no names of files.
    if "/" in value or Path(value, CONFIG).exists():
        return Path(value)
    return None


def _listing(path: Path) -> Iterator[tuple[str, str, int, int]]:
    """Of each file that counts: its name in the folder, place, size and time of change (for the cache alone)."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        within = file.suffix in READ and not file.name.startswith((".", "LICENSE", "README"))
        if file.is_file() and (within or file == path):
            stat = file.stat()
            yield (file.name if file != path else "", str(file), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _hash(files: tuple[tuple[str, str, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, place, size, _ in files:
        digest.update(f"{name}\0{size}\0".encode())
        with Path(place).open("rb") as file:
            if size <= WHOLE:
                digest.update(file.read())
                continue
            for number in range(PIECES):
                file.seek((size - PIECE) * number // (PIECES - 1))
                digest.update(file.read(PIECE))
    return digest.hexdigest()
