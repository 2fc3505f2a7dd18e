"""Which episodes can be opened in static pages; all of them are listed and counted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evals.types import stable_hash

OF_A_GAME: Final = ("suite", "task", "level", "index", "seed")
CELL: Final = ("run", "suite", "task", "level", "mode", "player", "repeat")


def games_of(rows: pa.Table) -> NDArray[np.uint32]:
    """The number of each row's game, in the order of suites, tasks, levels and indices."""
    names = [f"game_{name}" for name in OF_A_GAME]
    games = pa.table({new: rows[name] for new, name in zip(names, OF_A_GAME, strict=True)})
    known = games.group_by(names).aggregate([]).sort_by([(name, "ascending") for name in names])
    number_of = {tuple(game.values()): number for number, game in enumerate(known.select(names).to_pylist())}
    numbers = [number_of[tuple(game.values())] for game in games.to_pylist()]
    return np.array(numbers, np.uint32)


def chosen_rows(rows: pa.Table, share: float, failed: bool) -> NDArray[np.bool_]:
    """The rows whose episodes can be opened.

    Of each cell (run, player, task, level, mode, repeat) it is the same share, rounded up, and in all cells of a task the
    same games, so that they can be compared. The games are drawn by a hash: the same ones in each export.

    Args:
        rows: Of the list.
        share: Above 0, up to 1.
        failed: The failed ones only.
    """
    if failed:
        is_failed: NDArray[np.bool_] = pc.equal(rows["status"], "failed").to_numpy()
        return is_failed
    if share >= 1:
        return np.ones(len(rows), np.bool_)
    found = np.zeros(len(rows), np.bool_)
    for places in _as_drawn(rows):
        count = math.ceil(share * len(places))
        found[places[:count]] = True
    return found


def _as_drawn(rows: pa.Table) -> Iterator[list[int]]:
    """Of each cell the places of its rows, in the order in which their games are drawn."""
    cells: defaultdict[tuple[Any, ...], list[tuple[str, int]]] = defaultdict(list)
    for place, row in enumerate(rows.select([*{*CELL, *OF_A_GAME}]).to_pylist()):
        drawn = stable_hash([row[name] for name in OF_A_GAME])
        cells[tuple(row[name] for name in CELL)].append((drawn, place))
    for drawn_rows in cells.values():
        yield [place for _, place in sorted(drawn_rows)]
