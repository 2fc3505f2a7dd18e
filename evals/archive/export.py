"""Writes runs as static pages into a folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from evals.archive.answers import answers_of, stored_results
from evals.archive.chosen import chosen_rows, games_of
from evals.archive.chunks import write_chunk
from evals.archive.columns import pack
from evals.archive.episodes import Spool, chunk_size, spool_part, write_episodes
from evals.archive.licenses import licenses
from evals.archive.pictures import Tiles
from evals.exchange.public import places_of, public_error
from evals.viewer.index import EpisodeIndex
from evals.viewer.schema import VERSION
from evals.viewer.server import STATIC

NOT_LISTED: Final = ("seed", "part", "place", "id", "latest")
"""Columns of the index that the page's list does not need."""
NOWHERE: Final = 2**32 - 1
"""The place of an episode that is listed only."""


@dataclass(frozen=True)
class Written:
    """What an export has written."""

    files: int
    bytes: int
    bytes_of_columns: int
    listed: int
    """Episodes in the list, in all counts and comparisons."""
    opened: int
    """Those of them that can be opened."""
    tiles: int
    lost_pictures: int
    """Those that can no longer be rendered."""


def export(
    index: EpisodeIndex,
    settings: Sequence[Mapping[str, Any]],
    folder: Path,
    share: float = 1.0,
    failed: bool = False,
) -> Written:
    """Write the pages of some runs.

    Args:
        index: The runs, read.
        settings: The configuration of each run, to know which hosts no error may name.
        folder: A new or empty folder.
        share: Of the episodes of each cell that can be opened.
        failed: Only the failed episodes can be opened.

    Raises:
        OSError, ValueError, pyarrow.ArrowException, LedgerChangedError: a ledger cannot be read, or a file not be written.
    """
    data = folder / "data"
    data.mkdir(parents=True)
    hidden = [places_of(each) for each in settings]
    rows = index.table()
    chosen = np.flatnonzero(chosen_rows(rows, share, failed))
    games = games_of(rows)
    # Episodes of one game stand side by side: they share pictures, and two of them are opened with one chunk.
    order = chosen[np.argsort(games[chosen], kind="stable")]
    tiles = _write_episodes(index, rows, order, hidden, data)
    columns = _columns(rows, games, order, hidden)
    heads, numbers = pack(columns)
    head = {
        "version": VERSION,
        "rows": len(rows),
        "size": chunk_size(len(order)),
        "columns": heads,
        "answers": answers_of(index, hidden),
    }
    size = write_chunk(data, "columns", head, numbers)
    write_chunk(data, "results", stored_results(index))
    _write_page(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    return Written(len(files), total, size, len(rows), len(order), len(tiles), len(tiles.lost))


def _write_episodes(
    index: EpisodeIndex, rows: pa.Table, order: np.ndarray[Any, Any], hidden: Sequence[Sequence[str]], data: Path
) -> Tiles:
    """Write the chunks of episodes and the sheets of tiles; returns the tiles."""
    tiles = Tiles(lambda number, sheet: _write_sheet(data, number, sheet))
    parts = rows["part"].to_numpy()
    places, runs = rows["place"].to_numpy(), rows["run"].to_numpy()
    with Spool() as spool:
        for part in np.unique(parts[order]):
            here = order[parts[order] == part]
            run = int(runs[here[0]])
            wanted = {int(places[number]): int(number) for number in here}
            spool_part(spool, index.runs[run], index.part_path(int(part)), wanted, hidden[run])
        write_episodes(data, spool, order, tiles)
    tiles.close()
    return tiles


def _write_sheet(data: Path, number: int, sheet: bytes) -> None:
    write_chunk(data, f"tiles-{number}", {}, sheet)


def _columns(
    rows: pa.Table, games: np.ndarray[Any, Any], order: np.ndarray[Any, Any], hidden: Sequence[Sequence[str]]
) -> pa.Table:
    """What the page's list knows: errors without addresses, the game's number, and where the episode lies."""
    at = np.full(len(rows), NOWHERE, np.uint32)
    at[order] = np.arange(len(order))
    runs = rows["run"].to_pylist()
    errors = [
        public_error(text, hidden[run]) if text else ""
        for run, text in zip(runs, rows["error"].to_pylist(), strict=True)
    ]
    kept = rows.drop_columns([*NOT_LISTED, "error"])
    kept = kept.append_column("error", pa.array(errors, pa.string()))
    kept = kept.append_column("game", pa.array(games, pa.uint32()))
    return kept.append_column("at", pa.array(at, pa.uint32(), mask=at == NOWHERE))


def _write_page(folder: Path) -> None:
    """The page itself, its script and style, and the licenses of all that it is made of."""
    # Not shutil.copytree: its error is a list of all files, of which none tells that the disk is full.
    for path in sorted(STATIC.rglob("*")):
        copy = folder / "static" / path.relative_to(STATIC)
        if path.is_dir():
            copy.mkdir(parents=True)
        elif path.suffix != ".html":
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    shutil.copyfile(STATIC / "archive.html", folder / "index.html")
    (folder / "static" / "licenses.txt").write_text(licenses(), encoding="utf-8")
