"""Follows some of a runner's episodes, and says what is new in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from evals.conversation import Conversation
from evals.live import Began, Ended, Line, PlayedLine

EPISODES = 32
"""That a run follows at a time, over all its runners."""
BYTES_PER_SECOND = 16 * 2**10
"""That a run notes in the mean, over all its runners: about a megabyte a minute."""
BURST_SECONDS = 8.0
"""So long it may have noted nothing and catch up at once."""


@dataclass
class _Followed:
    conversation: Conversation
    noted: int = 0
    """Turns that were noted; the conversation holds its turns in the order of their replies."""
    ended: bool = False


class Listener:
    """Follows up to ``episodes`` of a runner's episodes at a time, the first that begin while there is room.

    While more was noted than ``rate`` allows, no further episode is followed, and turns are noted without their texts.
    """

    def __init__(
        self, share: float = 1.0, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        """Follow nothing yet.

        Args:
            share: Of what a run may follow and note; the runners of a run share it.
            clock: Seconds that only ever go up.
            now: Seconds since 1970.
        """
        self._most = max(1, round(EPISODES * share))
        self._rate = BYTES_PER_SECOND * share
        self._clock, self._now = clock, now
        self._followed: dict[str, _Followed] = {}
        self._lines: list[Line] = []
        self._left = self._rate * BURST_SECONDS
        """Bytes that may be noted; below 0 after a large turn."""
        self._looked: float | None = None
        """When ``_left`` was last counted; the clock is that of the process that plays, which need not be this one."""

    def began(self, conversation: Conversation) -> None:
        """An episode begins; it is followed if there is room."""
        self._earn()
        playing = sum(not each.ended for each in self._followed.values())
        if playing < self._most and self._left > 0:
            episode = conversation.episode
            self._followed[episode.id] = _Followed(conversation)
            self._lines.append(Began.of(episode, self._now()))

    def ended(self, episode_id: str) -> None:
        """An episode has ended, whether it is followed or not."""
        if episode_id in self._followed:
            self._followed[episode_id].ended = True

    def news(self) -> tuple[Line, ...]:
        """What has happened since the last call."""
        self._earn()
        for episode_id, followed in list(self._followed.items()):
            self._note(followed)
            if followed.ended:
                self._lines.append(Ended(episode_id))
                del self._followed[episode_id]
        lines, self._lines = tuple(self._lines), []
        return lines

    def _note(self, followed: _Followed) -> None:
        turns = followed.conversation.turns
        for number in list(turns)[followed.noted :]:
            line = PlayedLine.of(turns[number], turns.get(number - 1), self._now(), bare=self._left <= 0)
            self._left -= line.size
            self._lines.append(line)
            followed.noted += 1

    def _earn(self) -> None:
        now = self._clock()
        earned = self._rate * (now - self._looked) if self._looked is not None else 0.0
        self._left = min(self._left + earned, self._rate * BURST_SECONDS)
        self._looked = now
