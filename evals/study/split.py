"""Why games were lost: seeing, planning or form; from the same games played from pictures and from their text twins.

A lost game counts as lost by

- **form** if it ended with a reply that could not be read;
- **seeing** if the same player wins it when the pictures are told in words;
- **planning** otherwise: it is lost although everything is told.

Luck goes both ways: a game may be won in words, or lost from pictures, by chance. So the games that were won from pictures and
lost in words are taken off again: where only chance differs, both kinds are equally frequent and seeing is zero in expectation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evals.stats.intervals import FEWEST_CLUSTERS, Estimate, clustered_error, student_quantile
from evals.study.conditions import Condition, matched
from evals.tables import Table

MODALITY: Final = "modality"
PICTURE, TEXT = "picture", "text"
PICTURES_ONLY: Final = "won from pictures only"
_COLUMNS: Final = (
    "episode_id",
    "player",
    "suite",
    "task",
    "level",
    "mode",
    "index",
    "repeat",
    "seed",
    "status",
    "success",
    "turns.action",
)


class Played(NamedTuple):
    """How one game went."""

    won: bool
    readable: bool
    """Whether its last reply could be read."""


class _Key(NamedTuple):
    """What tells one game from the others, in both conditions."""

    suite: str
    task: str
    level: str
    mode: str
    index: int  # type: ignore[assignment]
    repeat: int
    seed: int


class Pair(NamedTuple):
    """One game from pictures and in words."""

    cell: tuple[str, str]
    """Task and level."""
    game: Hashable
    picture: Played
    text: Played
    episode: str = ""
    """Id of the one that was played from pictures."""

    @property
    def cause(self) -> str:
        """Why it was lost from pictures; empty where it was won either way, or its twin tells nothing."""
        if self.picture.won:
            return PICTURES_ONLY if self.text.readable and not self.text.won else ""
        if not self.picture.readable:
            return "form"
        if not self.text.readable:
            return ""
        return "seeing" if self.text.won else "planning"


@dataclass(frozen=True)
class Split:
    """The lost games of some pairs, by cause."""

    games: int
    lost: int
    form: Estimate
    seeing: Estimate
    planning: Estimate
    won_in_words_only: int
    won_from_pictures_only: int


def text_twins(conditions: Sequence[Condition]) -> list[tuple[Condition, Condition]]:
    """The conditions that show pictures, each with the one that differs only in telling them in words."""
    if MODALITY not in conditions[0].levels:
        return []
    return list(matched(conditions, MODALITY, PICTURE, TEXT))


def pairs_of(picture: Condition, text: Condition) -> list[Pair]:
    """All games that both conditions have finished, of the suites that one of them shows and the other tells in words."""
    suites = _told_in_words(picture, text)
    in_words = {key: played for key, _, played in _played(text, suites)}
    return [
        Pair(
            (key.task, key.level), (key.suite, key.task, key.level, key.index, key.seed), played, in_words[key], episode
        )
        for key, episode, played in _played(picture, suites)
        if key in in_words
    ]


def _told_in_words(picture: Condition, text: Condition) -> set[str]:
    """Names of the suites that have pictures in one condition and words in the other; of all where no suite says so.

    A bundle may hold suites whose games are the same in both.
    """
    shown = {part.name for part in picture.side.suite.parts if getattr(part, MODALITY, "") == PICTURE}
    told = {part.name for part in text.side.suite.parts if getattr(part, MODALITY, "") == TEXT}
    return shown & told or {part.name for part in picture.side.suite.parts}


def _played(condition: Condition, suites: Collection[str]) -> Iterator[tuple[_Key, str, Played]]:
    """How each finished game of some suites went in a condition, with its episode's id."""
    names = pa.array([*suites], pa.string())
    for rows in condition.side.run.batches(list(_COLUMNS)):
        mine = pc.and_(pc.equal(rows["player"], condition.side.player), pc.is_in(rows["suite"], names))
        finished = rows.filter(pc.and_(mine, pc.equal(rows["status"], "done")))
        keys = zip(*(finished[name].to_pylist() for name in _Key._fields), strict=True)
        episodes, won = finished["episode_id"].to_pylist(), finished["success"].to_pylist()
        for key, episode, has_won, readable in zip(keys, episodes, won, _readable(finished), strict=True):
            yield _Key(*key), episode, Played(bool(has_won), readable)


def _readable(rows: pa.Table) -> list[bool]:
    """Whether the last reply of each row was read; a game without replies counts as readable."""
    if not len(rows):
        return []
    turns = rows["turns"].combine_chunks()
    unread = np.asarray(pc.is_null(turns.flatten().field("action")))
    ends = np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(turns), 0)))
    lengths = np.diff(ends, prepend=0)
    return [not (length and unread[end - 1]) for end, length in zip(ends, lengths, strict=True)]


def split(pairs: Sequence[Pair]) -> Split:
    """The causes of the games that were lost from pictures.

    What the twin of a lost game says counts where its last reply could be read; else it tells neither seeing nor planning.
    """
    from_pictures = np.array([pair.picture for pair in pairs], bool)
    in_words = np.array([pair.text for pair in pairs], bool)
    won, readable = from_pictures.T
    won_in_words, readable_in_words = in_words.T
    lost = ~won
    form = lost & ~readable
    others = lost & readable
    compared = others & readable_in_words
    words_only = compared & won_in_words
    pictures_only = won & ~won_in_words & readable_in_words
    seeing = words_only.astype(float) - pictures_only
    planning = compared - seeing
    games = [pair.game for pair in pairs]
    everything = np.ones(len(pairs))
    return Split(
        games=len(set(games)),
        lost=int(lost.sum()),
        form=_share(form, lost, everything, everything, games),
        seeing=_share(others, lost, seeing, compared, games),
        planning=_share(others, lost, planning, compared, games),
        won_in_words_only=int(words_only.sum()),
        won_from_pictures_only=int(pictures_only.sum()),
    )


def _share(
    parts: NDArray[np.generic],
    wholes: NDArray[np.generic],
    parts_of_parts: NDArray[np.generic],
    compared: NDArray[np.generic],
    games: Sequence[Hashable],
) -> Estimate:
    """The share that the parts are of the wholes, times the share that parts of these are of those that could be compared.

    All arrays have one value a pair. Both factors are ratios of sums over pairs; the interval is that of their product,
    linearized and clustered by game.
    """
    part, whole, within, base = (np.asarray(each, float) for each in (parts, wholes, parts_of_parts, compared))
    count = int(whole.sum())
    if not count or not base.sum():
        return Estimate(math.nan, math.nan, math.nan, 0)
    outer, inner = part.sum() / whole.sum(), within.sum() / base.sum()
    share = float(np.clip(outer * inner, 0, 1))
    influences = inner * (part - outer * whole) / whole.mean() + outer * (within - inner * base) / base.mean()
    _, error, clusters = clustered_error(influences.tolist(), games)
    if clusters < FEWEST_CLUSTERS or not error > 0:
        return Estimate(share, math.nan, math.nan, count)
    margin = student_quantile(0.975, clusters - 1) * error
    low, high = np.clip([outer * inner - margin, outer * inner + margin], 0, 1).tolist()
    return Estimate(share, low, high, count)


def splits_of(pairs: Sequence[Pair]) -> list[tuple[tuple[str, str], Split]]:
    """The split of all pairs, then, where they are of several, of those of each task and level."""
    ordered = sorted(pairs, key=lambda pair: pair.cell)
    cells = [(cell, split(list(group))) for cell, group in groupby(ordered, key=lambda pair: pair.cell)]
    return [(("all", ""), split(pairs)), *(cells if len(cells) > 1 else ())]


def split_table(picture: Condition, pairs: Sequence[Pair]) -> Table:
    """The split of all lost games of one condition, then of those of each task and level."""
    others = ", ".join(f"{name} {value}" for name, value in picture.others(MODALITY))
    return Table(
        "study_split" + "".join(f"_{name}-{value}" for name, value in picture.others(MODALITY)),
        "Why games were lost" + (f": {others}" if others else ""),
        ("task", "level", "games", "lost", "form", "seeing", "planning", "won in words only", "won from pictures only"),
        tuple(
            (
                *(task, level, one.games, one.lost, one.form, one.seeing, one.planning),
                *(one.won_in_words_only, one.won_from_pictures_only),
            )
            for (task, level), one in splits_of(pairs)
        ),
        notes=(
            "Shares of the games lost from pictures. form: the last reply could not be read. seeing: lost from pictures, won "
            "when they are described in words; games won from pictures only are subtracted, since luck goes both ways. "
            "planning: the others. Losses whose text version ended in an unread reply are divided as the rest. "
            "Brackets: 95 % confidence, clustered by game.",
        ),
        headline=True,
    )
