"""One note: a tag, a text or both, on one episode."""

from __future__ import annotations

import dataclasses
import getpass
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

LONGEST_TAG: Final = 60
LONGEST_TEXT: Final = 4_000
LONGEST_AUTHOR: Final = 80
"""Characters."""
_ID = re.compile(r"[0-9a-f]{16}")
_EPISODE = re.compile(r"[0-9A-Za-z_-]{1,64}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_ON_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*")
_ON_SEVERAL = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]*")
"""Without control characters, and without halves of characters, which UTF-8 has no bytes for."""


class NoteError(ValueError):
    """A note is not what a note must be, or cannot be written; the message says why."""


@dataclass(frozen=True)
class Note:
    """A note as it is stored.

    Raises:
        NoteError: a field is too long, empty, or of another form; it is named.
    """

    id: str
    """16 hexadecimal digits."""
    episode: str
    """The episode's id."""
    tag: str
    """What notes are counted by; may be empty where there is a text."""
    text: str
    author: str
    time: str
    """When it was written, in UTC: ``2026-01-31T12:00:00Z``."""

    def __post_init__(self) -> None:
        for name in FIELDS:
            if not isinstance(getattr(self, name), str):
                raise NoteError(f"{name}: is a text")
        _check("id", self.id, _ID, "is 16 hexadecimal digits")
        _check("episode", self.episode, _EPISODE, "is an episode's id")
        _check("time", self.time, _TIME, "is a time in UTC, such as 2026-01-31T12:00:00Z")
        _check("tag", self.tag, _ON_ONE_LINE, "stands on one line", LONGEST_TAG)
        _check("author", self.author, _ON_ONE_LINE, "stands on one line", LONGEST_AUTHOR)
        _check("text", self.text, _ON_SEVERAL, "has no control characters", LONGEST_TEXT)
        if not self.author:
            raise NoteError("author: is empty; a note says who wrote it")
        if not (self.tag or self.text):
            raise NoteError("tag, text: both are empty; a note has at least one of them")

    def to_json(self) -> dict[str, str]:
        """Its fields by name."""
        return dataclasses.asdict(self)


FIELDS: Final = tuple(each.name for each in dataclasses.fields(Note))


def new_note(episode: str, tag: str, text: str, author: str) -> Note:
    """A note that is written now.

    Raises:
        NoteError: see ``Note``.
    """
    tag, text, author = (given.strip() for given in (tag, text, author))
    return Note(secrets.token_hex(8), episode, tag, text, author, now())


def note_of(given: Mapping[str, Any]) -> Note:
    """The note of stored fields; others are left aside.

    Raises:
        NoteError: a field is missing, or see ``Note``.
    """
    missing = [name for name in FIELDS if name not in given]
    if missing:
        raise NoteError(f"{', '.join(missing)}: missing")
    return Note(**{name: given[name] for name in FIELDS})


def now() -> str:
    """The time as notes say it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def user_name() -> str:
    """Who writes notes here, unless something else is said: the user's name, as the system gives it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return f"user {os.getuid()}"


def is_note_id(given: object) -> bool:
    """Whether this can be a note's id."""
    return isinstance(given, str) and bool(_ID.fullmatch(given))


def _check(name: str, given: str, form: re.Pattern[str], what: str, longest: int = 0) -> None:
    if longest and len(given) > longest:
        raise NoteError(f"{name}: has {len(given):,} characters, where at most {longest:,} are kept")
    if not form.fullmatch(given):
        raise NoteError(f"{name}: {given[:40]!r}: {what}")
