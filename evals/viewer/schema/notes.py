"""Notes on an episode."""

from typing import TypedDict


class Note(TypedDict):
    """A note on an episode; see ``evals.notes.note.Note``."""

    id: str
    episode: str
    tag: str
    text: str
    author: str
    time: str


class NotesAnswer(TypedDict):
    """An episode's notes, the tags that there are, why none can be written (or nothing), and who would write one."""

    notes: list[Note]
    tags: list[str]
    refusal: str
    author: str
