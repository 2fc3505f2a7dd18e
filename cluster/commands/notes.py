"""``raycade notes``: tags and notes on the episodes of a run, written, listed, exported and imported."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cluster.commands.show_episode import whole_id
from cluster.console import say, show, warn
from cluster.errors import UserError, cannot_write
from cluster.storage.durable import write_durably
from cluster.storage.stored_run import Run, read_runs
from evals.analysis.compare import SHORT_ID
from evals.notes import NoteError, Notes, NotesFile, new_note, notes_table, user_name
from evals.notes.exchange import chosen, notes_as_text, read_notes
from evals.tables import Table

SHORT_NOTE = 8
"""Digits of a note's id in the list; ``--remove`` takes as few as tell it from others."""
DATE = len("2026-01-31")
LISTED = 40
"""Notes that are listed, the latest first."""


def main(options: argparse.Namespace) -> None:
    """Do what is asked, or list the notes.

    Raises:
        UserError: there is no run, no such episode or note, or the notes cannot be read or written.
    """
    run = Run(options.run_dir)
    run.check_begun()
    file = NotesFile(run.path)
    author = options.author or user_name()
    try:
        if options.episode is not None:
            note = new_note(whole_id(run, options.episode.lower()), options.tag, options.text, author)
            file.add([note])
            say(f"note {note.id} on episode {note.episode}")
        elif options.remove is not None:
            removed = _the_note(file, options.remove)
            file.remove(removed, author)
            say(f"removed note {removed}")
        elif options.import_ is not None:
            given = read_notes(options.import_, frozenset(run.planned["episode_id"].to_pylist()), author)
            new = file.add(given)
            say(f"{new:,} notes added, {len(given) - new:,} were there or had been removed")
        elif options.export is not None:
            _export(file.read(), options.tag, options.export)
        else:
            _show(run, file.read(), options.tag)
    except NoteError as error:
        raise UserError(str(error)) from error


def _export(found: Notes, tag: str, path: Path) -> None:
    _warn_of_damage(found)
    notes = chosen(found.notes, tag)
    content = notes_as_text(notes, path).encode()
    if os.path.lexists(path):
        raise UserError(f"--export {path}: is there already; remove it, or name another file")
    try:
        write_durably(path, content)
    except OSError as error:
        raise cannot_write(path, error) from error
    say(f"{path}: {len(notes):,} notes")


def _the_note(file: NotesFile, start: str) -> str:
    """The id of the note whose id begins so.

    Raises:
        UserError: there is none, or there are several.
    """
    ids = [note.id for note in file.read().notes if note.id.startswith(start.lower())]
    if len(ids) == 1 and start:
        return ids[0]
    raise UserError(
        f"--remove {start}: {len(ids) or 'no'} notes begin so; `raycade notes {file.path.parent}` lists them"
    )


def _warn_of_damage(found: Notes) -> None:
    for what in found.damage:
        warn(f"left out: {what}")


def _show(run: Run, found: Notes, tag: str) -> None:
    _warn_of_damage(found)
    notes = chosen(found.notes, tag)
    counts = read_runs([run], lambda: notes_table(run.data, notes))
    if counts is None:
        say(f"{run.path}: no notes{f' with the tag {tag}' if tag else ''}; add one with --on EPISODE --tag TAG")
        return
    latest = sorted(notes, key=lambda note: note.time, reverse=True)[:LISTED]
    listed = Table(
        name="all_notes",
        title="Latest notes",
        columns=("note", "episode", "tag", "text", "author", "date"),
        rows=tuple(
            (note.id[:SHORT_NOTE], note.episode[:SHORT_ID], note.tag, note.text, note.author, note.time[:DATE])
            for note in latest
        ),
        notes=(f"{len(latest)} of {len(notes):,} notes.",),
    )
    show([counts, listed])
