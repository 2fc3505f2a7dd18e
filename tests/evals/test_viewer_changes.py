"""A live viewer while the folder that it shows is copied, moved, restored, deleted or played anew."""

import dataclasses
import math
import shutil
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.conversation import Record
from evals.ledger.records import records_to_table
from evals.notes.note import new_note
from evals.notes.store import NotesFile
from evals.notes.web import ViewerNotes
from evals.suite import ledger_columns
from evals.types import Episode, Outcome
from evals.viewer.filters import filter_of
from evals.viewer.index import EpisodeIndex
from evals.viewer.server import Viewer
from tests.evals.test_viewer import with_columns
from tests.toy import ToySuite
from tests.viewer_runs import add_part, viewed, write_run


class ChangingFolder:
    """A run's folder with which happens what happens to files; ``can`` says what may come next."""

    def __init__(self, folder):
        self.path, self.aside = folder / "run", folder / "aside"
        self.number = 1
        """Counts what has happened, and numbers the parts."""
        self.half = b""
        """The whole content of a part of which half is there."""

    def can(self, what):
        is_there, parts = self.path.exists(), self.parts()
        if what in ("play", "play the same games"):
            return True
        if what == "come back":
            return self.aside.exists() and not is_there
        if what == "finish the copy":
            return is_there and bool(self.half)
        return is_there and (what not in ("merge", "move a part out") or len(parts) > 1) and not self.half

    def parts(self):
        return sorted((self.path / "episodes").glob("*.parquet"))

    def rows(self, indices, won):
        records = [Record(self.plan[index], Outcome(won, 1, extra={"right": 1}), "", (), 0.5) for index in indices]
        return records_to_table(records, ledger_columns(ToySuite()))

    def play(self, player=""):
        shutil.rmtree(self.path, ignore_errors=True)
        self.half = b""
        player = player or f"player {self.number}"
        self.plan = [Episode("toy", "colors", "easy", "icl", index, 0, 7, "", 1, player=player) for index in range(6)]
        write_run(self.path, self.plan, self.rows([0], self.number % 2 == 0))

    def do(self, what):
        self.number += 1
        if what == "play":
            self.play()
        elif what == "play the same games":
            self.play("the same")
        elif what == "go away":
            shutil.rmtree(self.aside, ignore_errors=True)
            self.path.rename(self.aside)
        elif what == "come back":
            self.aside.rename(self.path)
        elif what == "copy half a part":
            part = add_part(self.path, self.number, self.rows([4, 5], True))
            self.half = part.read_bytes()
            part.write_bytes(self.half[: len(self.half) // 2])
        elif what == "finish the copy":
            self.parts()[-1].write_bytes(self.half)
            self.half = b""
        elif what == "play on":
            rows = self.rows([1, 0], True)
            add_part(self.path, self.number, with_columns(rows, attempt=[self.number, self.number]))
        elif what == "merge":
            old = self.parts()
            tables = [pq.read_table(part) for part in old]
            add_part(self.path, self.number, pa.concat_tables(tables), [part.name for part in old])
            for part in old:
                part.unlink()
        elif what == "move a part out":
            self.parts()[-1].unlink()
        elif what == "note":
            episode = self.plan[0].id
            NotesFile(self.path).add([new_note(episode, f"tag {self.number}", "why?", "ada")])


CHANGES = (
    *("play", "play the same games", "go away", "come back", "copy half a part", "finish the copy"),
    *("play on", "merge", "move a part out", "note"),
)


def viewer_with_notes(path):
    listing = EpisodeIndex([dataclasses.replace(viewed(path), suite=ToySuite)])
    notes = ViewerNotes(listing, "ada")
    viewer = Viewer(listing, also=notes.refresh)
    viewer.refresh()
    return viewer


def all_shown(viewer):
    """What a viewer says of its only run, but for the numbers of rows, and the latest attempt at its first game."""
    listing, everything = viewer.index, filter_of([])
    table = listing.table().drop_columns(["id", "part"]).sort_by("episode_id")
    first = [row for row in listing.page(everything, None, "index", 0, 1)["rows"] if row["index"] == 0]
    opened = [viewer.episodes.open(listing.runs[0], row)["row"] for row in first]
    return listing.status(), table.to_pylist(), opened, listing.values(), listing.cells(everything, None)


def check_changes(parent, changes):
    """See that a viewer shows after each change what one shows that is started then."""
    folder = ChangingFolder(parent)
    folder.play("the same")
    viewer = viewer_with_notes(folder.path)
    viewer.results.results(""), all_shown(viewer)  # what was opened is kept
    for what in filter(folder.can, changes):
        folder.do(what)
        viewer.refresh()
        if not folder.path.exists():
            assert "no longer in" in " ".join(viewer.index.status()[0]["damage"]), what
            continue
        fresh = viewer_with_notes(folder.path)
        assert all_shown(viewer) == all_shown(fresh), what
        # Of a part that cannot be read, the page of results tells when it is read again.
        with mock.patch("evals.viewer.results.time.monotonic", lambda: math.inf):
            assert folder.half or viewer.results.results("") == fresh.results.results(""), what


@pytest.mark.parametrize(
    "changes",
    [
        ["play"],
        ["play the same games"],
        ["go away", "come back"],
        ["copy half a part", "finish the copy"],
        ["note", "play on", "move a part out"],
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_a_viewer_shows_what_has_become_of_a_folder(tmp_path, changes):
    check_changes(tmp_path, changes)


@pytest.mark.slow
@settings(max_examples=15, derandomize=True)
@given(st.lists(st.sampled_from(CHANGES), min_size=3, max_size=8))
def test_whatever_becomes_of_a_folder_a_viewer_shows_what_one_that_is_started_then_shows(tmp_path_factory, changes):
    check_changes(tmp_path_factory.mktemp("changing"), changes)
