"""One episode in progress: asks the player and keeps the record of every turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from evals.contracts import Chat, Episode, Outcome, Player, PlayerError, Reply, Suite, Turn


@dataclass
class PlayedTurn:
    """A turn with its reply and what the suite read out of it."""

    turn: Turn
    reply: Reply
    action: str | None = None
    rule: str = ""
    """Name of the decoding rule that read ``action`` out of the reply, or of why none could."""


@dataclass
class Conversation:
    """Asks one episode's player and records what was said.

    Several turns may be asked at once (``asyncio.gather``); they are recorded in the order in which they were asked.
    """

    episode: Episode
    player: Player
    turns: dict[int, PlayedTurn] = field(default_factory=dict)
    _asked: int = 0

    async def ask(
        self,
        chat: Chat,
        *,
        options: tuple[str, ...] = (),
        labels: tuple[str, ...] = (),
        oracle: Callable[[], str] | None = None,
    ) -> PlayedTurn:
        """Ask one turn and record it; set ``action`` and ``rule`` on what comes back once the reply is decoded.

        Raises:
            PlayerError: the player cannot answer.
        """
        turn = Turn(self.episode, self._asked, chat, options, labels, oracle)
        self._asked += 1
        played = PlayedTurn(turn, await self.player.reply(turn))
        self.turns[turn.number] = played
        return played


@dataclass(frozen=True)
class Record:
    """A finished episode, done or failed, ready for the ledger."""

    episode: Episode
    outcome: Outcome | None
    error: str
    """Cause of failure; empty when done."""
    turns: tuple[PlayedTurn, ...]
    seconds: float

    @property
    def done(self) -> bool:
        """Whether the episode was played to its end."""
        return self.outcome is not None


async def play_episode(suite: Suite, episode: Episode, player: Player) -> Record:
    """Play one episode; a player's error becomes a failed record that keeps the turns played so far."""
    conversation = Conversation(episode, player)
    start = time.monotonic()
    outcome, error = None, ""
    try:
        outcome = await suite.play(episode, conversation)
    except PlayerError as cause:
        error = f"{type(cause).__name__}: {cause}"
    turns = tuple(conversation.turns[number] for number in sorted(conversation.turns))
    return Record(episode, outcome, error, turns, time.monotonic() - start)
