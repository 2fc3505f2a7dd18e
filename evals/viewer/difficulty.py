"""Success over difficulty as the viewer shows it."""

from __future__ import annotations

import math

from evals.ledger.run_data import RunData
from evals.stats.intervals import Estimate
from evals.suite import Suite
from evals.suite_results import difficulty_curves
from evals.summary.difficulty import Curve
from evals.viewer.schema.results import DifficultyCurve, Interval


def shown_curves(run: str, data: RunData, suite: Suite) -> list[DifficultyCurve]:
    """The curves of a run; none where its suite, which may be anybody's, fails on its rows."""
    try:
        with data.intervals():
            return [
                _shown(run, part.title or part.name, curve)
                for part in suite.parts
                for curve in difficulty_curves(part, data)
            ]
    except Exception:  # the results beside it say what is wrong
        return []


def _shown(run: str, title: str, curve: Curve) -> DifficultyCurve:
    return {
        "run": run,
        "title": title,
        "task": curve.title,
        "player": curve.player,
        "mode": curve.mode,
        "reference": curve.is_reference,
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
