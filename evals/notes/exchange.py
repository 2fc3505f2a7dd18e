"""Notes as CSV or JSON lines, for spreadsheets and other programs, and back."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from envs.files import read_json_lines, read_text
from evals.notes.note import FIELDS, Note, NoteError, note_of, now
from evals.notes.store import MOST_BYTES

FORMATS: Final = (".csv", ".jsonl")
_FORMULA = ("=", "+", "-", "@", "\t")
"""What a spreadsheet takes for a formula; an apostrophe before it makes it a text."""


def notes_as_text(notes: Iterable[Note], path: Path) -> str:
    """Notes in the format that a file's name says.

    Raises:
        NoteError: it says another one.
    """
    rows = [note.to_json() for note in notes]
    if _format(path) == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows([_harmless(row[name]) for name in FIELDS] for row in rows)
    return out.getvalue()


def read_notes(path: Path, episodes: Collection[str], author: str) -> list[Note]:
    """The notes of a file, which a person may have written: ``episode``, and ``tag`` or ``text`` are enough.

    A note without an id gets one from what it says, so that a file that is read twice adds nothing.

    Args:
        path: CSV or JSON lines.
        episodes: Ids that notes may be on.
        author: Who wrote the notes that do not say it.

    Raises:
        FileError: the file cannot be read.
        NoteError: a line is no note, or on no such episode; it is named.
    """
    found = []
    rows = _json_rows(path) if _format(path) == ".jsonl" else _csv_rows(path)
    for number, row in rows:
        try:
            note = _note(row, author)
        except NoteError as error:
            raise NoteError(f"{path}, line {number}: {error}") from error
        if note.episode not in episodes:
            raise NoteError(f"{path}, line {number}: the run has no episode {note.episode!r}")
        found.append(note)
    return found


def _format(path: Path) -> str:
    if path.suffix not in FORMATS:
        raise NoteError(f"{path}: notes are written and read as {' or '.join(FORMATS)}")
    return path.suffix


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, row in read_json_lines(path):
        if not isinstance(row, dict):
            raise NoteError(f"{path}, line {number}: is not a JSON object")
        yield number, row


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(read_text(path, MOST_BYTES), newline=""), strict=True)
    try:
        if "episode" not in (reader.fieldnames or ()):
            raise NoteError(f"{path}, line 1: names no column episode")
        for row in reader:
            yield reader.line_num, {name: _as_written(value or "") for name, value in row.items() if name in FIELDS}
    except csv.Error as error:
        raise NoteError(f"{path}, line {reader.reader.line_num}: {error}") from error


def _note(row: Mapping[str, Any], author: str) -> Note:
    given = {name: row.get(name) or "" for name in FIELDS}
    said = json.dumps([given[name] for name in FIELDS if name != "id"])
    given["id"] = given["id"] or hashlib.blake2b(said.encode(errors="replace"), digest_size=8).hexdigest()
    given["author"] = given["author"] or author
    given["time"] = given["time"] or now()
    return note_of(given)


def _harmless(text: str) -> str:
    # One more than there are already: reading takes one away.
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def _as_written(text: str) -> str:
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(_FORMULA) else text


def chosen(notes: Sequence[Note], tag: str) -> list[Note]:
    """The notes with a tag; all where none is named."""
    return [note for note in notes if not tag or note.tag == tag]
