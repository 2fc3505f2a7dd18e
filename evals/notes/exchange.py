"""Notes as CSV or JSON lines, for spreadsheets and other programs, and back."""

from __future__ import annotations

import bisect
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
LONGEST_SHOWN: Final = 40
"""Characters of a wrong id that an error repeats."""
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

    ``episode`` may be the beginning of an id, as tables print it, where only one begins so. A note without an id of its own
    gets one from what it says, so that a file that is read twice adds nothing.

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
    in_order = sorted(episodes)
    for number, row in rows:
        try:
            episode = _whole_id(row.get("episode"), in_order)
            found.append(_note({**row, "episode": episode}, author))
        except NoteError as error:
            raise NoteError(f"{path}, line {number}: {error}") from error
    return found


def _whole_id(start: object, in_order: Sequence[str]) -> str:
    """The id, of those in alphabetical order, that begins so."""
    if not isinstance(start, str) or not start:
        raise NoteError("episode: is the id of an episode, or its beginning")
    first = bisect.bisect_left(in_order, start)
    # Two are enough to know that it is not the only one.
    found = [each for each in in_order[first : first + 2] if each.startswith(start)]
    if not found:
        raise NoteError(f"the run has no episode {start[:LONGEST_SHOWN]!r}")
    is_whole = found[0] == start
    if len(found) > 1 and not is_whole:
        raise NoteError(f"several episodes of the run begin with {start!r}: {found[0]}, {found[1]}")
    return found[0]


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
