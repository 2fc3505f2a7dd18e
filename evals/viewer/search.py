"""Text search through prompts, replies and reasoning: part after part of the ledger, in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.parts import LedgerChangedError, open_part
from evals.viewer.index import EpisodeIndex

TURN = "turns.list.element."
TEXTS = (TURN + "reply", TURN + "reasoning", TURN + "prompt.list.element.parts.list.element.text")
"""The leaves of the ledger that are searched."""
SEARCHES_KEPT = 6
CLOSE_SECONDS = 5.0


@dataclass
class Search:
    """One search and how far it has come."""

    number: int
    text: str
    parts: set[int] = field(default_factory=set)
    """Parts that were searched."""
    total: int = 0
    running: bool = False
    stopped: bool = False
    thread: threading.Thread | None = None


class TextSearches:
    """The latest searches; each goes on from where it was when parts arrive."""

    def __init__(self, index: EpisodeIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._searches: dict[str, Search] = {}
        self._count = 0

    def of(self, text: str) -> Search | None:
        """The search for a text, begun or continued; None for no text."""
        if not text:
            return None
        with self._lock:
            search = self._searches.pop(text, None)
            if search is None:
                self._count += 1
                search = Search(self._count, text)
            self._searches[text] = search
            while len(self._searches) > SEARCHES_KEPT:
                old = self._searches.pop(next(iter(self._searches)))
                old.stopped = True
                self._index.drop_hits(old.number)
            if not search.running and self._todo(search):
                search.running = True
                search.thread = threading.Thread(target=self._run, args=(search,), daemon=True)
                search.thread.start()
        return search

    @property
    def running(self) -> bool:
        """Whether any goes on."""
        with self._lock:
            return any(search.running for search in self._searches.values())

    def close(self) -> None:
        """Stop all searches, and wait for them."""
        with self._lock:
            searches = list(self._searches.values())
        for search in searches:
            search.stopped = True
            if search.thread is not None:
                search.thread.join(CLOSE_SECONDS)

    def _todo(self, search: Search) -> list[tuple[Path, int]]:
        parts = self._index.ledger_parts()
        search.total = len(parts)
        search.parts = {part for _, part in parts if part in search.parts}
        return [(path, part) for path, part in parts if part not in search.parts]

    def _run(self, search: Search) -> None:
        try:
            for path, part in self._todo(search):
                if search.stopped:
                    return
                try:
                    places = places_with(path, search.text)
                except (LedgerChangedError, OSError, pa.ArrowException):
                    places = np.zeros(0, np.int64)  # merged into another part, which is searched in its turn
                if len(places):
                    self._index.add_hits(search.number, self._index.ids_of(part, places))
                search.parts.add(part)
        finally:
            search.running = False
            if search.stopped:
                self._index.drop_hits(search.number)


def places_with(path: Path, text: str) -> npt.NDArray[np.int64]:
    """The rows of a part in whose prompts, replies or reasoning a text occurs, in upper or lower case.

    Raises:
        LedgerChangedError: it is no longer there.
        OSError, pyarrow.ArrowException: it cannot be read.
    """
    found, start = [], 0
    with open_part(path) as file:
        for group in range(file.num_row_groups):
            turns = file.read_row_group(group, columns=list(TEXTS))["turns"].combine_chunks()
            turns = pa.concat_arrays(turns.chunks) if isinstance(turns, pa.ChunkedArray) else turns
            for rows, texts in _leaves(turns):
                matches = np.asarray(pc.fill_null(pc.match_substring(texts, text, ignore_case=True), False))
                found.append(start + rows[matches])
            start += len(turns)
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _leaves(turns: pa.ListArray) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    """The texts of all turns' replies, reasoning and prompts, each with the row that it belongs to."""
    row_of_turn = np.asarray(turns.value_parent_indices())
    each = turns.flatten()
    yield row_of_turn, each.field("reply")
    yield row_of_turn, each.field("reasoning")
    messages = each.field("prompt")
    row_of_message = row_of_turn[np.asarray(messages.value_parent_indices())]
    parts = messages.flatten().field("parts")
    yield row_of_message[np.asarray(parts.value_parent_indices())], parts.flatten().field("text")
