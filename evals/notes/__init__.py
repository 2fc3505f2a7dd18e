"""Tags and notes on episodes: kept beside the ledger with author and time, counted, exported, shown in the viewer.

A run's notes stand in ``notes.jsonl`` of its directory. Lines are only ever added, so that a death loses at most the note
that was being written, and two files are joined by joining their lines (``NotesFile.add_from``).
"""

from evals.notes.counts import notes_table
from evals.notes.note import Note, NoteError, new_note, user_name
from evals.notes.store import FILE, Notes, NotesFile

__all__ = ["FILE", "Note", "NoteError", "Notes", "NotesFile", "new_note", "notes_table", "user_name"]
