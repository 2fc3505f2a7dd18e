"""The file of a run's notes: JSON lines that are only ever added; each adds a note, or says that one was removed."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from envs.disk import own_file, sync_directory
from envs.files import Bounds, FileError, MissingFileError, parse_json, read_bytes
from evals.notes.note import Note, NoteError, is_note_id, note_of, now

FILE: Final = "notes.jsonl"
MOST_BYTES: Final = 64 * 2**20
"""Of the file: about 200,000 notes."""
LOCK_SECONDS = 5.0
"""How long a note waits for another process that writes one; that takes far less, so whoever holds the lock longer is stuck."""
_LINE = Bounds(size=32 * 2**10, depth=2, nodes=100)


@dataclass(frozen=True)
class Notes:
    """What a file of notes says."""

    notes: tuple[Note, ...] = ()
    """Those that were not removed, in the order in which they were added."""
    removed: frozenset[str] = frozenset()
    """Ids of the others, also of notes that this file has not got."""
    damage: tuple[str, ...] = ()
    """What could not be read, with its place."""

    def by_episode(self) -> dict[str, list[Note]]:
        """The notes of each episode that has any."""
        found: dict[str, list[Note]] = {}
        for note in self.notes:
            found.setdefault(note.episode, []).append(note)
        return found


class NotesFile:
    """The notes of one run directory; any number of processes may read and add at once."""

    def __init__(self, run: Path) -> None:
        """Nothing is read or created yet."""
        self.path = run / FILE

    def read(self) -> Notes:
        """The notes as they are now; lines that cannot be read are damage, and the others count."""
        try:
            content = read_bytes(self.path, MOST_BYTES)
        except MissingFileError:
            return Notes()
        except FileError as error:
            return Notes(damage=(str(error),))
        notes: dict[str, Note] = {}
        removed, damage = set[str](), list[str]()
        for number, line in enumerate(content.split(b"\n"), 1):
            place = f"{self.path}, line {number}"
            if not line.strip():
                continue
            try:
                event = _event(line, place)
            except FileError as error:
                damage.append(str(error))
            except NoteError as error:
                damage.append(f"{place}: {error}")
            else:
                if isinstance(event, Note):
                    notes.setdefault(event.id, event)
                else:
                    removed.add(event)
        # whichever line comes first: files are joined in any order
        left = tuple(note for name, note in notes.items() if name not in removed)
        return Notes(left, frozenset(removed), tuple(damage))

    def add(self, notes: Sequence[Note]) -> int:
        """Add the notes that are not there yet, and were not removed; returns how many these are.

        Raises:
            NoteError: they cannot be written, and none is.
        """
        there = self.read()
        known = {note.id for note in there.notes} | there.removed
        new = {note.id: note for note in notes if note.id not in known}
        self._append(note.to_json() for note in new.values())
        return len(new)

    def remove(self, note: str, author: str) -> None:
        """Remove a note by its id; the file goes on saying that there was one, and who removed it.

        Raises:
            NoteError: there is none of this id, or this cannot be written.
        """
        if note not in {each.id for each in self.read().notes}:
            raise NoteError(f"{self.path}: there is no note {note[:40]!r}")
        self._append([_removal(note, author)])

    def add_from(self, other: NotesFile) -> int:
        """Add what another run's file says and this one does not; returns how many notes came.

        Raises:
            NoteError: they cannot be written.
        """
        theirs, ours = other.read(), self.read()
        self._append(_removal(note, "merge") for note in sorted(theirs.removed - ours.removed))
        return self.add(theirs.notes)

    def why_not_writable(self) -> str:
        """Why no notes can be added; empty where they can."""
        place = self.path if self.path.exists() else self.path.parent
        return "" if os.access(place, os.W_OK) else f"{place} is not writable"

    def _append(self, events: Iterable[dict[str, str]]) -> None:
        """Add lines: all of them, on disk when this returns, or none."""
        content = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)
        if not content:
            return
        try:
            file = self._open()
            try:
                self._append_to(file, content)
            finally:
                os.close(file)
        except OSError as error:
            raise NoteError(f"{self.path}: cannot be written: {error.strerror or error}") from error

    def _open(self) -> int:
        """The file, locked; no other folder's, which may share it by a hard link."""
        # O_NONBLOCK: a named pipe would be waited for
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            file = os.open(self.path, flags, 0o666)
            try:
                self._lock(file)
                own_file(self.path)
                if os.path.samestat(os.fstat(file), self.path.lstat()):
                    return file
            except BaseException:
                os.close(file)
                raise
            # This process, or the one that held the lock before, has put a copy in its place: that one is this folder's.
            os.close(file)

    def _append_to(self, file: int, content: bytes) -> None:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NoteError(f"{self.path}: is not a regular file")
        # a death may have left half a line: it stays one line, and takes none of the new ones with it
        if status.st_size and os.pread(file, 1, status.st_size - 1) != b"\n":
            content = b"\n" + content
        if status.st_size + len(content) > MOST_BYTES:
            raise NoteError(f"{self.path}: is full: it may hold {MOST_BYTES:,} bytes")
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, status.st_size)
            raise
        if not status.st_size:
            sync_directory(self.path.parent)

    def _lock(self, file: int) -> None:
        """Wait until no other process writes; closing the file releases it."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NoteError(
                        f"{self.path}: another process holds its lock; end that one, or try again"
                    ) from None
                time.sleep(0.02)
            except OSError:
                return  # a file system without locks: one call writes a note there, too


def _event(line: bytes, place: str) -> Note | str:
    """What a line says: a note, or the id of one that was removed.

    Raises:
        FileError: it is no JSON.
        NoteError: it says something else.
    """
    given: Any = parse_json(line, place, _LINE)
    if not isinstance(given, dict):
        raise NoteError("is not a JSON object")
    if "removed" not in given:
        return note_of(given)
    if not is_note_id(given["removed"]):
        raise NoteError("removed: is not a note's id")
    return str(given["removed"])


def _removal(note: str, author: str) -> dict[str, str]:
    return {"removed": note, "author": author, "time": now()}
