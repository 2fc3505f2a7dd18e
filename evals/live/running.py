"""The episodes that the lines of a live log, up to here, tell of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from evals.live.lines import Began, Ended, Gone, Line, Numbers, PlayedLine

MOST_EPISODES: Final = 1_000
"""Further ones are passed over: no driver follows so many."""


@dataclass
class RunningEpisode:
    """An episode that is being played."""

    began: Began
    turns: list[PlayedLine] = field(default_factory=list)
    """Those that the log still holds, in the order in which they were noted."""
    ended: bool = False

    @property
    def played(self) -> int:
        """Turns that were played so far, those included that the log no longer holds."""
        return max((each.turn + 1 for each in self.turns), default=0)


class RunningEpisodes:
    """Episodes by id, in the order in which they began; and the run's numbers."""

    def __init__(self) -> None:
        self.episodes: dict[str, RunningEpisode] = {}
        self.numbers: Numbers | None = None

    def add(self, line: Line) -> None:
        """Take in the next line."""
        match line:
            case Began():
                self.episodes.pop(line.episode, None)
                if len(self.episodes) < MOST_EPISODES:
                    self.episodes[line.episode] = RunningEpisode(line)
            case PlayedLine() if line.episode in self.episodes:
                self.episodes[line.episode].turns.append(line)
            case Ended() if line.episode in self.episodes:
                self.episodes[line.episode].ended = True
            case Gone():
                for episode in line.episodes:
                    self.episodes.pop(episode, None)
            case Numbers():
                self.numbers = line

    def trim(self, most: int) -> None:
        """Forget the oldest turns, so that those left take at most so many bytes."""
        newest_first = sorted(
            (turn for episode in self.episodes.values() for turn in episode.turns),
            key=lambda turn: turn.at,
            reverse=True,
        )
        sizes = itertools.accumulate(turn.size for turn in newest_first)
        kept = {id(turn) for turn, size in zip(newest_first, sizes, strict=True) if size <= most}
        for episode in self.episodes.values():
            episode.turns = [turn for turn in episode.turns if id(turn) in kept]

    def lines(self) -> Iterator[Line]:
        """Lines that tell the same, for a log that begins anew."""
        for episode in self.episodes.values():
            yield episode.began
            yield from episode.turns
            if episode.ended:
                yield Ended(episode.began.episode)
        if self.numbers is not None:
            yield self.numbers
