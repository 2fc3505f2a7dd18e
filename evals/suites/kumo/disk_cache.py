"""What searches have found, kept for a user: one small file per question, safe for any number of writers and readers.

The folder is ``RAYCADE_CACHE`` if that is set, else ``raycade`` in ``XDG_CACHE_HOME``, else ``~/.cache/raycade``. A file is
written beside and renamed, so it is there whole or not at all, also on network file systems. What is read is checked
against a hash; an entry that is damaged or belongs to something else counts as missing. No failure of the file system gets
out of here: without a cache, answers are searched again.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from envs.files import read_json
from envs.kumo.search import VERSION
from evals.types import stable_hash

PER_FOLDER = 400
"""Entries that each of the 256 folders holds at most: 100,000 in all. The oldest make room."""


def cache_folder() -> Path | None:
    """Where results are kept for this user; None if there is no such place."""
    given = os.environ.get("RAYCADE_CACHE")
    try:
        base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raycade"
    except RuntimeError:  # nobody knows the user's home
        return None
    return base / "kumo" / f"search-{VERSION}"


def recall(key: str) -> list[int] | None:
    """The moves that are kept under a key (a hexadecimal hash), or None."""
    path = _path(key)
    if path is None:
        return None
    try:
        entry = read_json(path)
        moves = entry["moves"]
        if entry["check"] != _check(key, moves):
            return None
        if not all(type(move) is int for move in moves):
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # As good as none; it is searched and written anew.
        return None
    return list(moves) if moves else None


def keep(key: str, moves: Sequence[int]) -> None:
    """Keep moves under a key; nothing happens where they cannot be written."""
    path = _path(key)
    if path is None:
        return
    beside = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _make_room(path.parent)
        beside.write_text(json.dumps({"moves": list(moves), "check": _check(key, moves)}), encoding="utf-8")
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return folder / key[:2] / f"{key}.json" if folder is not None else None


def _check(key: str, moves: Sequence[int]) -> str:
    return stable_hash("kumo-cache", VERSION, key, list(moves))


def _make_room(folder: Path) -> None:
    """Remove the oldest entries until one more fits; files that a dead writer left beside count too."""
    entries = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another writer may have removed it
            entries.append((path.stat().st_mtime, path))
    for _, path in sorted(entries)[: max(0, len(entries) - PER_FOLDER + 1)]:
        with contextlib.suppress(OSError):
            path.unlink()
