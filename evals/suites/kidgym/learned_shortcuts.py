"""What learned players win without a sense that a task is about, from the search on file (``learned_shortcuts.yaml``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from evals.shortcut_search.record import SearchRecord, read_record
from evals.suites.kidgym.variants import task_and_variant

RECORD: Final = Path(__file__).with_name("learned_shortcuts.yaml")

ABOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "CL": ("kind", "color"),
    "SE": ("kind", "memory"),
    "SO": ("kind", "order"),
    "MA": ("position", "color"),
    "FI": ("kind", "side"),
    "PU": ("side",),
    "PL": ("position", "direction"),
    "CO": ("count",),
    "DMA": ("position", "color", "order"),
    "MMA": ("position", "color", "memory"),
    "MDE": ("kind", "order", "memory"),
    "MFI": ("kind", "side", "memory"),
}
"""By task the senses that it is about (``features.senses.SENSES``): who wins without one of them takes a shortcut."""

EITHER_WAY: Final = {("PL", "1"), ("PL", "2")}
"""Where a direction is about no way to turn: who knows it only coarsely lacks nothing."""


@functools.cache
def _record() -> SearchRecord:
    return read_record(RECORD)


def learned_shortcut(task: str, level: str) -> dict[str, float]:
    """The best learned player without a sense that the task is about, and what it wins; empty for other tasks."""
    drawn, _ = task_and_variant(task)
    about = ("position",) if (drawn, level) in EITHER_WAY else ABOUT.get(drawn, ())
    best = _record().best(task, level, about)
    return dict([best]) if best else {}
