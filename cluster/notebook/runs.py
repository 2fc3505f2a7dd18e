"""A run directory as an object of a notebook; it only reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from cluster.commands.list_runs import find_runs, list_runs
from cluster.commands.report import score_run
from cluster.commands.show_episode import read_episode
from cluster.config.plan import make_suite
from cluster.notebook.frames import Frame, as_frame, episodes_table, turns_table
from cluster.notebook.html import Picture, ShownFigure, ShownTable, episode_html, pictures_of
from cluster.storage.stored_run import Run, read_runs
from evals.notes import Note, NotesFile
from evals.suite_results import suite_figures, suite_view
from evals.view import EpisodeView


def run(path: str | Path) -> NotebookRun:
    """A run directory, finished or running.

    Raises:
        UserError: there is no run.
    """
    stored = Run(Path(path))
    stored.check_begun()
    return NotebookRun(stored)


def runs(folder: str | Path = "runs") -> NotebookRuns:
    """The runs in a folder and the folders below it.

    Raises:
        UserError: there is no such folder, or no run in it.
    """
    list_runs(Path(folder))
    return NotebookRuns(Path(folder))


class EpisodeOfRun:
    """One episode, as its suite shows it."""

    def __init__(self, row: Mapping[str, Any], view: EpisodeView) -> None:
        """``row`` is that of the ledger, with ``turns``."""
        self.row = row
        self.view = view
        """Its steps, with what was shown, decoded and best."""

    @property
    def pictures(self) -> list[Picture]:
        """What the player saw, in order."""
        return pictures_of(self.view)

    def _repr_html_(self) -> str:
        row = self.row
        title = " · ".join(str(row[name]) for name in ("player", "suite", "task", "level", "mode"))
        ending = "won" if row["success"] else "lost"
        if row["status"] == "failed":
            ending = "failed"
        return episode_html(f"{title} · game {row['index']}", ending, self.view)


class NotebookRun:
    """One run. What has been read stays as it was; ``raycade.run`` reads again."""

    def __init__(self, stored: Run) -> None:
        """Nothing is read yet."""
        self._run = stored

    @property
    def path(self) -> Path:
        """Its directory."""
        return self._run.path

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved configuration."""
        return self._run.config

    def episodes(self, columns: Sequence[str] | None = None, frame: Frame = "pandas") -> Any:
        """A row for each finished episode that counts, as ``pandas``, ``polars`` or ``arrow``.

        Args:
            columns: Stored names (docs/ledger.md); all but ``turns`` where none are given.
            frame: The library.

        Raises:
            ImportError: the library is not installed.
            UserError: the ledger is damaged.
            ValueError: there is no such column.
        """
        return as_frame(read_runs([self._run], lambda: episodes_table(self._run.data, columns)), frame)

    def turns(self, columns: Sequence[str] | None = None, frame: Frame = "pandas") -> Any:
        """A row for each turn: what names its episode, ``turn`` from 0, and the turn's columns (docs/ledger.md).

        Args:
            columns: Of the turn; others are not read. All where none are given, prompts included.
            frame: As of ``episodes``.

        Raises:
            ImportError, UserError, ValueError: as of ``episodes``.
        """
        return as_frame(read_runs([self._run], lambda: turns_table(self._run.data, columns)), frame)

    @cached_property
    def tables(self) -> dict[str, ShownTable]:
        """All tables of ``raycade report`` by name."""
        return {table.name: ShownTable(table) for table in score_run(self._run).tables}

    @cached_property
    def figures(self) -> dict[str, ShownFigure]:
        """All figures by name."""
        suite = make_suite(self._run.config["suite"])
        found = read_runs([self._run], lambda: suite_figures(suite, self._run.data))
        return {figure.name: ShownFigure(figure) for figure in found}

    def episode(self, start: str) -> EpisodeOfRun:
        """An episode by its id, or the beginning of that.

        Raises:
            UserError: there is none, there are several, or it was not played yet.
        """
        suite, row = read_runs([self._run], lambda: read_episode(self._run, start))
        return EpisodeOfRun(row, suite_view(suite, row))

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes on its episodes."""
        return NotesFile(self.path).read().notes

    def __repr__(self) -> str:
        return f"raycade.run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        headlines = [shown for shown in self.tables.values() if shown.table.headline]
        return "".join(shown._repr_html_() for shown in headlines)


class NotebookRuns(Sequence[NotebookRun]):
    """The runs of a folder, the latest first."""

    def __init__(self, folder: Path) -> None:
        """See ``runs``."""
        self._folder = folder
        self._found = [NotebookRun(stored) for stored in find_runs(folder)]

    @overload
    def __getitem__(self, place: int) -> NotebookRun: ...
    @overload
    def __getitem__(self, place: slice) -> list[NotebookRun]: ...
    def __getitem__(self, place: int | slice) -> NotebookRun | list[NotebookRun]:
        """A run by its place."""
        return self._found[place]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._found)

    def __iter__(self) -> Iterator[NotebookRun]:
        """The runs in their order."""
        return iter(self._found)

    def __repr__(self) -> str:
        return f"raycade.runs({str(self._folder)!r}): {', '.join(each.path.name for each in self)}"

    def _repr_html_(self) -> str:
        return ShownTable(list_runs(self._folder))._repr_html_()
