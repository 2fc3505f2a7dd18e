"""Checkpoints in a folder: Hugging Face folders that are wholly written, in the order of their steps."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster.checkpoints import SETTLED
from cluster.errors import RunFailedError
from envs.files import Bounds, FileError, open_regular, parse_json, read_bytes, read_json, real_path
from evals.types import stable_hash

CONFIG: Final = "config.json"
INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
WRITTEN_LAST: Final = "trainer_state.json"
"""Hugging Face's trainer writes it after all else that a model needs."""
END: Final = "DONE"
"""A file of this name in the folder says that no further checkpoint will come."""
_LONGEST_HEADER: Final = 100 * 2**20
"""Bytes of a header of safetensors, as its own reader bounds it."""
_BOUNDS: Final = Bounds(_LONGEST_HEADER, 32, 10_000_000)
_OF_A_TOKENIZER: Final = frozenset({".jinja", ".json", ".model", ".tiktoken", ".txt"})
_OF_THE_TRAINER: Final = frozenset({INDEX, WRITTEN_LAST})


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint that is complete."""

    name: str
    """Of its folder."""
    step: int
    path: Path


class CheckpointError(Exception):
    """A folder holds no complete checkpoint, at least not yet; the message says what is missing."""


class Folder:
    """Looks for checkpoints, again and again."""

    def __init__(self, path: Path, settled: float = SETTLED) -> None:
        """``settled``: seconds for which a folder must not change."""
        self.path, self.settled = path, settled
        self._seen: dict[str, tuple[str, float]] = {}

    @property
    def ended(self) -> bool:
        """Whether the training says that it is over."""
        return (self.path / END).exists()

    def settling(self, waiting: Mapping[str, str]) -> bool:
        """Whether one of those that are not complete has changed so lately that it may be."""
        return any(reason == self._too_new for reason in waiting.values())

    @property
    def _too_new(self) -> str:
        return f"changed less than {self.settled:g} s ago"

    def look(self) -> tuple[list[Checkpoint], dict[str, str]]:
        """Complete checkpoints in the order of their steps, and why each other folder with a step is not complete yet.

        Raises:
            RunFailedError: the folder is not there anymore, or cannot be read.
        """
        found, waiting = [], {}
        try:
            paths = list(self.path.iterdir())
        except OSError as error:
            gone = f"{self.path}: cannot be read anymore ({error.strerror}); once it can, the same command goes on"
            raise RunFailedError(gone) from error
        for path in paths:
            step = step_of(path.name)
            if step is None or not path.is_dir():
                continue
            try:
                tensors_of(path)
                self._check_settled(path)
                found.append(Checkpoint(path.name, step, real_path(path)))
            except CheckpointError as error:
                waiting[path.name] = str(error)
            except OSError as error:  # it is being deleted, or renamed
                waiting[path.name] = f"cannot be read: {error.strerror}"
        return sorted(found, key=lambda each: (each.step, each.name)), waiting

    def _check_settled(self, path: Path) -> None:
        """See that nothing is written anymore.

        Raises:
            CheckpointError: it was seen for the first time, or has changed since.
        """
        if (path / WRITTEN_LAST).exists():
            return
        contents = []
        for file in sorted(path.iterdir()):
            stat = file.stat()
            contents.append((file.name, stat.st_size, stat.st_mtime_ns))
        state = stable_hash(contents)
        before, since = self._seen.get(path.name, ("", 0.0))
        now = time.monotonic()
        if state != before:
            self._seen[path.name] = (state, now)
            since = now
        if now - since < self.settled:
            raise CheckpointError(self._too_new)


def step_of(name: str) -> int | None:
    """The step that a folder's name ends with; None for one that is hidden, temporary, or has none.

    >>> [step_of(name) for name in ("checkpoint-1500", "global_step_20", "epoch3", "tmp-checkpoint-5", "final")]
    [1500, 20, 3, None, None]
    """
    found = re.search(r"(\d{1,18})$", name)
    if found is None or name.startswith((".", "tmp")):
        return None
    return int(found[1])


def tensors_of(path: Path) -> dict[str, Any]:
    """Of each tensor type and shape, read from the headers of files whose sizes are exactly what their headers say.

    Raises:
        CheckpointError: a file is missing, cut short, or not what its name says.
    """
    _read(path / CONFIG)
    places = _places(path)
    tensors: dict[str, Any] = {}
    for name in sorted({*places.values()}) or [SINGLE]:
        tensors |= _header(path / name)
    if not places.keys() <= tensors.keys():
        raise CheckpointError(f"{INDEX}: names tensors that no file holds")
    return tensors


def _places(path: Path) -> Mapping[str, str]:
    """Which file of a folder holds which tensor, as its index says; empty where it has no index.

    Raises:
        CheckpointError: the index says something else.
    """
    if not (path / INDEX).exists():
        return {}
    wrong = CheckpointError(f"{INDEX}: does not say which file of the folder holds which tensor")
    places = _read(path / INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise wrong
    for name in places.values():
        if not isinstance(name, str):
            raise wrong
        # No name may lead out of the folder.
        if Path(name).name != name:
            raise wrong
    return places


def _read(path: Path) -> Mapping[str, Any]:
    try:
        value = read_json(path, _BOUNDS)
    except FileError as error:
        raise CheckpointError(f"{path.name}: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path.name}: is no mapping")
    return value


def _header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file: eight bytes with its length, JSON, then the tensors one after the other."""
    try:
        size = path.stat().st_size
        with open_regular(path, size) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(size, _LONGEST_HEADER):
                raise CheckpointError(f"{path.name}: is not written to its end")
            header = parse_json(file.read(length).decode(), path.name, _BOUNDS)
        tensors = {name: value for name, value in header.items() if name != "__metadata__"}
        end = max((int(value["data_offsets"][1]) for value in tensors.values()), default=0)
        found = {name: (value["dtype"], value["shape"]) for name, value in tensors.items()}
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.name}: is missing") from error
    except (
        struct.error,
        UnicodeDecodeError,
        FileError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
    ) as error:
        raise CheckpointError(f"{path.name}: is no safetensors file, or not written to its end") from error
    if size != 8 + length + end:
        raise CheckpointError(f"{path.name}: has {size:,} of {8 + length + end:,} bytes")
    return found


def likeness(path: Path) -> str:
    """Equal for checkpoints that differ in the values of their tensors only: same config, tokenizer, names and shapes.

    Raises:
        CheckpointError: see ``tensors_of``.
        FileError: a file cannot be read.
    """
    texts = []
    for file in sorted(path.iterdir()):
        of_tokenizer = file.suffix in _OF_A_TOKENIZER
        if of_tokenizer and file.name not in _OF_THE_TRAINER:
            texts.append((file.name, read_bytes(file).hex()))
    return stable_hash(texts, json.dumps(tensors_of(path), sort_keys=True))
