"""Scores that travelled inside a file, beside those that the suite gives the replies beside them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from envs.files import FileError
from evals.analysis.recorded import RecordedPlayer
from evals.conversation import Record
from evals.ledger.sound_rows import checked_rows
from evals.suite import Suite, ledger_columns, play_episode
from evals.types import Episode

SCORES: Final = ("success", "score", "steps")
"""What every suite says of an episode; a suite's own columns come besides."""
CLOSE: Final = 1e-5
"""Numbers that differ by less, in relation to them, are equal: stored probabilities have fewer digits than computed ones."""
LEAST_CHECKED: Final = 1000
"""Games of each kind that are compared in any file; one of few episodes that claims a higher number is anybody's."""


def check_scores(suite: Suite, episodes: Sequence[Episode], rows: pa.Table, place: str, games: int) -> int:
    """Play the replies of carried rows through the suite, and compare what it says of them with what the rows say.

    Failed episodes have no scores.

    Args:
        suite: With the settings that they were played with.
        episodes: One for each row.
        rows: As a ledger has them, with turns (``ledger_rows``).
        place: Where they are from, for errors.
        games: The number of games of a kind that the file can be of; a suite may have to draw all games before one.

    Returns:
        The number of episodes that could not be compared: the suite asks them otherwise here, cannot play them, or would
        have to draw more games than the file can be of.

    Raises:
        FileError: replies have other scores than their row says; the message names the episode and the column.
    """
    columns = ledger_columns(suite)
    names = (*SCORES, *columns)
    unknown = 0
    for episode, row in zip(episodes, rows.to_pylist(), strict=True):
        if row["status"] != "done":
            continue
        if episode.index >= games:
            unknown += 1
            continue
        scores = _scores_here(suite, episode, row, place)
        if scores is None:
            unknown += 1
            continue
        for name in names:
            if not _same(row[name], scores[name]):
                raise FileError(
                    place,
                    f"episode {episode.id}: {name} is {row[name]!r}, where its replies have {scores[name]!r}: "
                    "changed since raycade wrote it",
                )
    return unknown


def _scores_here(suite: Suite, episode: Episode, row: Mapping[str, Any], place: str) -> dict[str, Any] | None:
    """The row that stored replies make; None where the suite asks otherwise here, or cannot play them.

    Raises:
        FileError: the game goes on after the last reply.
    """
    player = RecordedPlayer(row)
    record = _played_again(suite, episode, player)
    if record is None:
        return None
    if not player.diverged:
        return _scores_of(suite, record)
    if len(record.turns) == len(row["turns"]):
        raise FileError(place, f"episode {episode.id}: its replies do not end the game: changed since raycade wrote it")
    return None


def _played_again(suite: Suite, episode: Episode, player: RecordedPlayer) -> Record | None:
    """The episode with its replies; None where what the suite needs is elsewhere."""
    try:
        return asyncio.run(play_episode(suite, episode, player))
    except Exception:  # of a suite that may be anybody's
        return None


def _scores_of(suite: Suite, record: Record) -> dict[str, Any] | None:
    """The row that a record makes; None where it has failed here."""
    if not record.done:
        return None
    try:
        [row] = checked_rows([record], ledger_columns(suite)).to_pylist()
    except Exception:  # a value of a suite of anybody
        return None
    return dict(row)


def _same(carried: Any, computed: Any) -> bool:
    if isinstance(carried, float) and isinstance(computed, float):
        both_nan = math.isnan(carried) and math.isnan(computed)
        return both_nan or math.isclose(carried, computed, rel_tol=CLOSE, abs_tol=CLOSE)
    if isinstance(carried, list) and isinstance(computed, list):
        return len(carried) == len(computed) and all(map(_same, carried, computed))
    if isinstance(carried, dict) and isinstance(computed, dict):
        return carried.keys() == computed.keys() and all(_same(carried[name], computed[name]) for name in carried)
    return bool(carried == computed)
