"""A summary as flat names and numbers, for trackers: each score with the ends of its interval."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

Number = int | float | bool

LONGEST_FLAT = 40
"""Rows of the longest table whose scores become names: a tracker has no use for thousands; its tables hold them all."""


def flat_summary(summary: Mapping[str, Any]) -> dict[str, Number]:
    """The counts, sums and main scores of ``summary.json``: estimates in headline tables that are not long.

    A score is called ``TABLE/ROW/COLUMN``, where ROW joins the texts that name the row (player, task, level; those before
    its first number) by slashes; an interval adds ``low`` and ``high``: ``kumo_success/tiny/easy/success/low``. Names depend
    on what was run, never on what came out, so that runs can be compared.
    """
    flat: dict[str, Number] = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    for table in summary.get("tables", ()):
        if table["section"] == "scores" and table["headline"] and len(table["rows"]) <= LONGEST_FLAT:
            flat.update(_scores(table))
    return flat


def _scores(table: Mapping[str, Any]) -> Iterator[tuple[str, Number]]:
    seen: set[str] = set()
    for number, row in enumerate(table["rows"]):
        keys = itertools.takewhile(lambda cell: isinstance(cell, str), row)
        label = "/".join(map(_clean, keys))
        if label in seen:
            label = f"{label}/{number}".strip("/")
        seen.add(label)
        for column, cell in zip(table["columns"], row, strict=True):
            if not isinstance(cell, Mapping):
                continue
            parts = (table["name"], label, _clean(column))
            name = "/".join(filter(None, parts))
            ends = {name: cell["mean"], f"{name}/low": cell["low"], f"{name}/high": cell["high"]}
            for key, value in ends.items():
                if value is not None:
                    yield key, value


def _clean(text: str) -> str:
    """Without the characters by which trackers nest names."""
    return text.replace("/", "_").replace(".", "_")
