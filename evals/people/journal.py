"""What one participant chose, as a file that is only ever appended to: JSON lines, each on the disk before it counts.

A process may die within a line. The next one finds half a line at the end, which no page was ever told of, and cuts it off.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from envs.disk import own_file, sync_directory
from envs.files import Bounds, FileError, open_regular, parse_json

MOST_BYTES: Final = 200_000_000
_LINE: Final = Bounds(size=1_000_000, depth=3)
"""Far more than an answer takes: what is chosen is written as its options are worded."""


@dataclass(frozen=True)
class Entry:
    """One answer, or the end of a game."""

    item: str
    """A page of text, a check, or the id of a game."""
    step: int
    """The turn that was answered, from 0; -1 for the end of a game."""
    choices: tuple[str, ...] = ()
    """The options as they are written, one for each thing that was asked."""
    visible: float = 0.0
    """Seconds while the page was in sight."""
    hidden: float = 0.0
    """Seconds while it was not."""
    ignored: int = 0
    """Clicks that came too soon to be meant for this question."""
    asked: tuple[str, ...] = ()
    """Keys of the criteria that the choices of a review are of; empty in games, and in journals of older versions."""

    @property
    def choice(self) -> str:
        """What was chosen where one thing was asked; empty where nothing was."""
        return self.choices[0] if self.choices else ""


ENDED: Final = -1
"""The step of an entry that says that a game is over."""


@dataclass
class Journal:
    """The entries of one participant, by item in the order in which items were begun."""

    path: Path
    items: dict[str, dict[int, Entry]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Read what is there; a line that a death has cut short is left out.

        Raises:
            FileError: a whole line is no entry.
        """
        journal = cls(path)
        for entry in _entries(path):
            journal._note(entry)
        return journal

    def add(self, entry: Entry) -> None:
        """Append an entry; when this returns it survives the death of anything. What was answered already stays.

        Raises:
            OSError: it cannot be written; then nothing of it counts.
        """
        if entry.step in self.items.get(entry.item, {}):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fields = asdict(entry)
        if not entry.asked:
            del fields["asked"]
        line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        with contextlib.closing(_Appended(self.path)) as file:
            file.write(line)
        self._note(entry)

    def _note(self, entry: Entry) -> None:
        self.items.setdefault(entry.item, {}).setdefault(entry.step, entry)


class _Appended:
    """A file that ends with a whole line when it is opened, and after each line that is written."""

    def __init__(self, path: Path) -> None:
        new = not path.exists()
        own_file(path)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._end = _whole_lines(self._file)
        os.ftruncate(self._file, self._end)
        if new:
            sync_directory(path.parent)

    def write(self, line: bytes) -> None:
        try:
            if os.pwrite(self._file, line, self._end) < len(line):
                raise OSError("the disk is full")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise

    def close(self) -> None:
        os.close(self._file)


def _whole_lines(file: int) -> int:
    """Where the last whole line of an open file ends; a line is far shorter than what is looked at."""
    size = os.fstat(file).st_size
    start = max(0, size - 2 * _LINE.size)
    return start + os.pread(file, size - start, start).rfind(b"\n") + 1


def _entries(path: Path) -> Iterator[Entry]:
    if not path.exists():
        return
    with open_regular(path, MOST_BYTES) as file:
        content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield _entry(parse_json(line, "line", _LINE))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise FileError(path, f"line {number} is no answer: {error}") from error


def _entry(value: Any) -> Entry:
    item, step = value["item"], value["step"]
    choices, asked = value["choices"], value.get("asked", [])
    visible, hidden = float(value["visible"]), float(value["hidden"])
    names_its_place = isinstance(item, str) and type(step) is int
    says_what_was_chosen = _is_list_of_texts(choices) and _is_list_of_texts(asked)
    if not names_its_place or not says_what_was_chosen:
        raise ValueError("an answer names its item, its step and what was chosen")
    if asked and len(asked) != len(choices):
        raise ValueError("a review answers each criterion once")
    if not 0 <= visible < math.inf or not 0 <= hidden < math.inf:
        raise ValueError("an answer takes 0 seconds or more")
    return Entry(item, step, tuple(choices), visible, hidden, int(value["ignored"]), tuple(asked))


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
