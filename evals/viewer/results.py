"""Results and comparisons of the runs that a viewer shows; a run is read again when its ledger has grown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from evals.results.entries import Outline, Reader, RunPart, outline_of
from evals.results.overview import Overview
from evals.viewer.difficulty import shown_curves
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ReadSoFar, ViewedRun
from evals.viewer.schema.results import DifficultyCurve

PAUSE: Final = 10
"""Times as long as reading took is waited before a growing run is read again."""


@dataclass(frozen=True)
class _Read:
    """A run as it was read."""

    seen: ReadSoFar
    part: RunPart
    outline: Outline
    titles: Mapping[str, str]
    curves: list[DifficultyCurve]
    again: float
    """When it may be read again, as ``time.monotonic`` counts."""


class Results:
    """The page of results, and comparisons of two of its rows."""

    def __init__(self, index: EpisodeIndex, shown: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict) -> None:
        """Read nothing yet.

        Args:
            index: The runs.
            shown: What of a run's configuration may be shown.
        """
        self._index = index
        self._shown = shown
        self._reader = Reader()
        self._known: dict[str, _Read] = {}
        self._trouble: dict[str, str] = {}
        self._overview: tuple[list[_Read], Overview] | None = None
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """The rows of the page."""
        return self._current().names()

    def results(self, baseline: str) -> dict[str, Any]:
        """As ``schema.Results``.

        Raises:
            ValueError: no row has the baseline's name.
        """
        found = self._current().results(baseline)
        return {**found, "trouble": [f"{run}: {reason}" for run, reason in self._trouble.items()]}

    def difficulty(self) -> list[DifficultyCurve]:
        """The curves of all runs that can be read."""
        self._current()
        return [curve for run in self._index.runs if run.name in self._known for curve in self._known[run.name].curves]

    def compare(self, first: str, second: str) -> dict[str, Any]:
        """As ``schema.Comparison``.

        Raises:
            ValueError: no row has one of the names.
        """
        found = self._current().compare(first, second)
        for suite in found["suites"]:
            sides = [(suite[side]["run"], suite[side]["player"]) for side in ("first", "second")]
            suite["outcomes"] = self._index.outcomes(sides[0], sides[1], suite["suite"])
        return found

    def _current(self) -> Overview:
        with self._lock:
            for run in self._index.runs:
                self._read(run)
            reads = [self._known[run.name] for run in self._index.runs if run.name in self._known]
            if self._overview is None or self._overview[0] != reads:
                titles = {suite: title for read in reads for suite, title in read.titles.items()}
                made = Overview([read.part for read in reads], [read.outline for read in reads], titles)
                self._overview = reads, made
            return self._overview[1]

    def _read(self, run: ViewedRun) -> None:
        seen, known = run.read_so_far, self._known.get(run.name)
        if known is not None and known.seen[0] != run.beginning:  # another run has taken its place
            known = None
            del self._known[run.name]
        if known is not None and (known.seen == seen or time.monotonic() < known.again):
            return
        start = time.monotonic()
        try:
            data, suite = run.data(), run.suite()
            part = self._reader.read(run.name, data, suite, data.plan, with_tables=False)
        except Exception as error:  # one run, which may be anybody's, must not hide the others
            self._trouble[run.name] = f"{type(error).__name__}: {error}"
            return
        self._trouble.pop(run.name, None)
        outline = outline_of(run.name, data.plan, self._shown(data.settings), suite)
        titles = {each.name: each.title or each.name for each in suite.parts}
        curves = shown_curves(run.name, data, suite)
        end = time.monotonic()
        self._known[run.name] = _Read(seen, part, outline, titles, curves, end + PAUSE * (end - start))
