"""``raycade show``: one episode in the terminal, turn by turn, as its suite shows it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cluster.config.plan import make_suite
from cluster.console import raycade, say, show, warn
from cluster.errors import UserError
from cluster.observe.episode_text import Pictures, print_episode
from cluster.storage.stored_run import Run, read_runs
from envs.printable import printable
from envs.suggest import did_you_mean
from evals.analysis.compare import SHORT_ID
from evals.ledger.run_data import RunData
from evals.notes import NotesFile
from evals.notes.exchange import chosen
from evals.report.terminal import Output
from evals.suite import Suite
from evals.tables import Cell, Table

LISTED = 20
"""Episodes that are listed where none is named."""
LONGEST_CAUSE = 60
"""Characters of a failure's cause in the list."""
_SUGGESTED_FROM = 10_000
"""Ids that a misspelled one is compared with, at most."""


def main(options: argparse.Namespace) -> None:
    """Print an episode, or the list of them."""
    run = Run(options.run_dir)
    notes = NotesFile(run.path).read()
    for what in notes.damage:
        warn(f"left out: {what}")
    if options.episode is None:
        tagged = None
        if options.tag:
            tagged = {note.episode for note in chosen(notes.notes, options.tag)}
        show([read_runs([run], lambda: list_episodes(run.data, only=tagged))])
        return
    suite, row = read_runs([run], lambda: read_episode(run, options.episode))
    console = Output() if sys.stdout.isatty() else Output(width=100)
    pictures: Pictures = options.pictures
    print_episode(console, suite, row, pictures, full=options.full)
    for note in notes.by_episode().get(row["episode_id"], ()):
        tag = f"[{note.tag}]" if note.tag else ""
        said = " ".join(filter(None, (tag, note.text)))
        say(f"note {note.id} by {note.author}, {note.time}: {said}")


def list_episodes(run: RunData, most: int = LISTED, only: Collection[str] | None = None) -> Table:
    """The first episodes: the model's before other players', and of each failed, then cut off, then lost ones.

    Args:
        run: Whose episodes.
        most: How many.
        only: Ids of those that are listed; all where none are given.
    """
    names = ("episode_id", "player", "suite", "task", "level", "mode", "status", "success", "steps", "error", "cut_off")
    played = run.episodes(names)
    rows = played if only is None else played.filter(pc.is_in(played["episode_id"], pa.array([*only], pa.string())))
    model = run.plan["player"][0].as_py() if len(run.plan) else ""  # the model is planned first
    others = pc.not_equal(rows["player"], model)
    done = pc.equal(rows["status"], "done")
    whole = pc.equal(rows["cut_off"], 0)
    rank = pa.table({"others": others, "done": done, "whole": whole, "won": pc.fill_null(rows["success"], False)})
    numbers = rank.append_column("place", pa.array(range(len(rank))))
    order = pc.sort_indices(numbers, [(name, "ascending") for name in numbers.column_names])
    listed = rows.take(order[:most]).to_pylist()
    return Table(
        name="episodes",
        title="Episodes",
        columns=("episode", "player", "suite", "task", "level", "mode", "outcome", "steps"),
        rows=tuple(_listed(row) for row in listed),
        notes=(f"{len(listed)} of {len(rows):,} {_what(only)} ({len(run.plan):,} planned).",),
    )


def _what(only: Collection[str] | None) -> str:
    return "finished episodes" if only is None else "finished episodes with the tag"


def _listed(row: dict[str, Any]) -> tuple[Cell, ...]:
    names = ("player", "suite", "task", "level", "mode")
    return (row["episode_id"][:SHORT_ID], *(row[name] for name in names), _outcome(row), row["steps"])


def _outcome(row: Mapping[str, Any]) -> str:
    """How an episode ended: the cause of a failure, not the name of its exception."""
    if row["status"] == "failed":
        kind, _, cause = row["error"].partition(": ")
        return f"failed: {textwrap.shorten(cause or kind, LONGEST_CAUSE, placeholder=' ...')}"
    won = "won" if row["success"] else "lost"
    return f"{won}, reply cut off" if row["cut_off"] else won


def read_episode(run: Run, episode: str) -> tuple[Suite, dict[str, Any]]:
    """An episode's row, its suite's own columns under their short names, and the suite.

    Raises:
        UserError: there is no such episode, there are several, or it has not been played.
    """
    name = whole_id(run, episode.lower())
    rows = run.data.find([name])
    if not rows:
        raise UserError(f"{run.path}: episode {name} is planned, but not played yet")
    suite = make_suite(run.config["suite"])
    part = next(part for part in suite.parts if part.name == rows[0]["suite"])
    return part, {name.removeprefix(f"{part.name}."): value for name, value in rows[0].items()}


def whole_id(run: Run, start: str) -> str:
    """The id of the planned episode whose id begins so.

    Raises:
        UserError: there is none, or there are several.
    """
    if not start.isascii():
        raise UserError(f"{run.path}: no episode begins with {printable(start)}")
    ids = run.planned["episode_id"]
    found: list[str] = []
    if start:
        found = ids.filter(pc.starts_with(ids, start)).to_pylist()
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(found[:3])
        rest = " ..." if len(found) > 3 else ""
        raise UserError(f"{run.path}: {len(found)} episodes begin with {start}: {listed}{rest}")
    # Of a long plan, only ids with the same two letters in front are compared with a misspelled one.
    near = ids
    if len(ids) > _SUGGESTED_FROM:
        near = ids.filter(pc.starts_with(ids, start[:2]))
    length = max(len(start), SHORT_ID)
    known = [name[:length] for name in near.slice(0, _SUGGESTED_FROM).to_pylist()]
    raise UserError(
        f"{run.path}: no episode begins with {start}{did_you_mean(start, known)}\n`{raycade('show', run.path)}` lists episodes"
    )
