"""Episodes as chunks: those of one game side by side, with their pictures."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from envs.picture import render_description
from evals.archive.chunks import write_chunk
from evals.archive.pictures import Grid, Tiles, steps_between
from evals.exchange.public import public_error
from evals.ledger.parts import check_values, open_part
from evals.viewer.episode import ROWS_AT_ONCE, for_the_page, show_episode
from evals.viewer.runs import ViewedRun

OF_A_CHUNK: Final = 64
MOST_CHUNKS: Final = 1_000
"""Of larger exports a chunk holds more episodes, so that the files can still be copied and uploaded."""


def chunk_size(count: int) -> int:
    """Episodes of a chunk, for so many in all."""
    return max(OF_A_CHUNK, -(-count // MOST_CHUNKS))


class Spool:
    """Episodes on a temporary file: written in the order of the ledger, read in another one."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._places: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def put(self, number: int, episode: Mapping[str, Any]) -> None:
        """Keep an episode under its number."""
        content = zlib.compress(json.dumps(episode).encode("ascii"), 1)
        self._places[number] = self._file.tell(), len(content)
        self._file.write(content)

    def get(self, number: int) -> dict[str, Any]:
        """The episode of a number."""
        start, length = self._places[number]
        self._file.seek(start)
        episode: dict[str, Any] = json.loads(zlib.decompress(self._file.read(length)))
        return episode


def spool_part(spool: Spool, run: ViewedRun, path: Path, wanted: Mapping[int, int], hidden: Sequence[str]) -> None:
    """Keep the wanted episodes of a part.

    Args:
        spool: Where they go.
        run: Their run.
        path: The part.
        wanted: The number of each wanted episode by its row of the part.
        hidden: Hosts that no error may name (``evals.exchange.public.places_of``).

    Raises:
        OSError, pyarrow.ArrowException, LedgerChangedError: the part cannot be read.
        ValueError: its turns are damaged.
    """
    for place, row in _rows(path, wanted):
        row["error"] = public_error(row["error"], hidden)
        spool.put(wanted[place], show_episode(run, row, public=True))


def _rows(path: Path, wanted: Mapping[int, int]) -> Iterator[tuple[int, dict[str, Any]]]:
    first = 0
    with open_part(path) as file:
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
            here = [place for place in range(len(batch)) if first + place in wanted]
            if here:
                found = pa.Table.from_batches([batch]).take(here)
                check_values(found)
                for place, row in zip(here, found.to_pylist(), strict=True):
                    yield first + place, row
            first += len(batch)


def write_episodes(folder: Path, spool: Spool, order: NDArray[np.int64], tiles: Tiles) -> None:
    """Write all episodes in this order (their numbers)."""
    size = chunk_size(len(order))
    for number, start in enumerate(range(0, len(order), size)):
        episodes = [spool.get(int(each)) for each in order[start : start + size]]
        write_chunk(folder, f"episodes-{number}", *chunk_of(episodes, tiles))


def chunk_of(episodes: Sequence[dict[str, Any]], tiles: Tiles) -> tuple[dict[str, Any], bytes]:
    """One chunk: ``pictures`` has the sizes of its pictures, the tail their tiles; an episode names them by number.

    Args:
        episodes: As ``evals.viewer.episode.show_episode`` gives them.
        tiles: Where their pictures go.
    """
    numbers: dict[str, str] = {}
    sizes: list[tuple[int, int]] = []
    grids: list[Grid] = []
    shown = []
    for episode in episodes:
        for key, known in episode["pictures"].items():
            if key in numbers:
                continue
            pixels = _rendered(known)
            known["error"] = public_error(known["error"])
            numbers[key] = str(len(numbers))
            size, grid = (0, 0), np.zeros(0, np.uint32)
            if pixels is None:
                tiles.lost.add(key)
            else:
                size, grid = (known["width"], known["height"]), tiles.grid(pixels)
            sizes.append(size)
            grids.append(grid)
        shown.append(_with_numbers(for_the_page(episode), numbers))
    return {"episodes": shown, "pictures": sizes}, steps_between(grids).tobytes()


def _rendered(known: dict[str, Any]) -> NDArray[np.uint8] | None:
    """The pixels of a picture; None where it cannot be rendered any more, which is noted with it."""
    if known["error"]:
        return None
    try:
        return render_description(known["description"])[1]
    except ValueError as error:
        known["error"] = str(error)
        return None


def _with_numbers(episode: dict[str, Any], numbers: Mapping[str, str]) -> dict[str, Any]:
    """The episode with short numbers in place of its pictures' hashes."""
    for step in episode["steps"]:
        step["after"] = numbers[step["after"]] if step["after"] else None
        for message in step["shown"]:
            for part in message["parts"]:
                if "picture" in part:
                    part["picture"] = numbers[part["picture"]]
    return {**episode, "pictures": {numbers[key]: known for key, known in episode["pictures"].items()}}
