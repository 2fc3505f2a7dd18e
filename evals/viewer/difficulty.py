"""Success over difficulty in the viewer: the curves of all runs, read again when their ledgers have grown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from evals.stats.intervals import Estimate
from evals.summary.difficulty import BUILT_IN, Curve, curves_of
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun
from evals.viewer.schema import DifficultyCurve, Interval


class Difficulties:
    """The curves of the runs that a viewer shows."""

    def __init__(self, index: EpisodeIndex) -> None:
        """Nothing is read yet."""
        self._index = index
        self._known: dict[str, tuple[frozenset[str], list[DifficultyCurve]]] = {}

    def curves(self) -> list[DifficultyCurve]:
        """Those of all runs that can be read; results say why others cannot."""
        return [curve for run in self._index.runs for curve in self._of_run(run)]

    def _of_run(self, run: ViewedRun) -> list[DifficultyCurve]:
        parts = frozenset(run.parts)
        if run.name not in self._known or self._known[run.name][0] != parts:
            try:
                self._known[run.name] = parts, list(_read(run))
            except Exception:  # one run, which may be anybody's, must not hide the others
                self._known[run.name] = parts, []
        return self._known[run.name][1]


def _read(run: ViewedRun) -> Iterator[DifficultyCurve]:
    data, suite = run.data(), run.suite()
    for part in suite.parts:
        for curve in curves_of(data.of(part.name), part.difficulty_of, part.known_success):
            yield _shown(run.name, part.title or part.name, curve)


def _shown(run: str, title: str, curve: Curve) -> DifficultyCurve:
    return {
        "run": run,
        "title": title,
        "task": curve.title,
        "player": curve.player,
        "mode": curve.mode,
        "reference": curve.player in BUILT_IN,
        "levels": list(curve.levels),
        "success": [_interval(value) for value in curve.success],
    }


def _interval(value: Estimate | float | None) -> Interval | None:
    """As the page draws it: ends that are not known are null."""
    if value is None:
        return None
    if not isinstance(value, Estimate):
        return {"mean": value, "low": None, "high": None, "n": 0}
    low, high = (end if math.isfinite(end) else None for end in (value.low, value.high))
    return {"mean": value.mean, "low": low, "high": high, "n": value.n}
