"""A summary as flat names and numbers, for trackers: each score with the ends of its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Number = int | float | bool


def flat_summary(summary: Mapping[str, Any]) -> dict[str, Number]:
    """The counts and all score tables of ``summary.json``.

    A cell is called ``TABLE/ROW/COLUMN``, where ROW joins the row's texts (player, task, level) by slashes; an interval adds
    ``low`` and ``high``: ``kumo_success/tiny/easy/success/low``. Empty cells are left out.
    """
    flat: dict[str, Number] = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    for table in summary["tables"]:
        if table["section"] == "scores":
            flat.update(_cells(table))
    return flat


def _cells(table: Mapping[str, Any]) -> Iterator[tuple[str, Number]]:
    seen: set[str] = set()
    for number, row in enumerate(table["rows"]):
        label = "/".join(_clean(cell) for cell in row if isinstance(cell, str))
        if label in seen:
            label = f"{label}/{number}".strip("/")
        seen.add(label)
        for column, cell in zip(table["columns"], row, strict=True):
            name = "/".join(part for part in (table["name"], label, _clean(column)) if part)
            if isinstance(cell, Mapping):
                ends = {name: cell["mean"], f"{name}/low": cell["low"], f"{name}/high": cell["high"]}
                yield from ((key, value) for key, value in ends.items() if value is not None)
            elif isinstance(cell, int | float):
                yield name, cell


def _clean(text: str) -> str:
    """Without the characters by which trackers nest names."""
    return text.replace("/", "_").replace(".", "_")
