"""One episode in progress: asks the player and keeps the record of every turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from evals.replies.reasoning import separate_reasoning
from evals.types import Chat, Episode, ErrorKind, OptionFeatures, Outcome, Player, Reply, Turn


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

    >>> import asyncio
    >>> from evals.players import RandomPlayer
    >>> from evals.types import message
    >>> game = Episode("toy", "colors", "easy", "zero_shot", index=0, repeat=0, seed=7, fingerprint="", budget=1)
    >>> conversation = Conversation(game, RandomPlayer())
    >>> played = asyncio.run(conversation.ask((message("user", "Which color?"),), options=("red",)))
    >>> played.reply.text, list(conversation.turns)
    ('red', [0])
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
        shortcuts: Mapping[str, Callable[[], str]] | None = None,
        schema: str = "",
        remaining: Callable[[str | None], float] | None = None,
        features: Callable[[], Sequence[OptionFeatures]] | None = None,
    ) -> PlayedTurn:
        """Ask one turn and record it, its reasoning kept apart.

        Set ``action`` and ``rule`` on what comes back once the reply is decoded.

        Raises:
            PlayerError: the player cannot answer.
        """
        turn = Turn(
            self.episode, self._asked, chat, options, labels, oracle, shortcuts or {}, schema, remaining, features
        )
        self._asked += 1
        played = PlayedTurn(turn, separate_reasoning(await self.player.reply(turn)))
        self.turns[turn.number] = played
        return played


@dataclass(frozen=True)
class Record:
    """A finished episode, done or failed, ready for the ledger."""

    episode: Episode
    outcome: Outcome | None
    error: str
    """Cause of failure; empty when done."""
    turns: tuple[PlayedTurn, ...] = field(repr=False)  # asyncio.run writes its result down, which is long
    seconds: float
    error_kind: ErrorKind | Literal[""] = ""
    """Whose failure it was."""

    @classmethod
    def of_defect(cls, episode: Episode, error: BaseException) -> Record:
        """The failed record of an episode whose suite raised an error that it should not."""
        return cls(episode, None, cause_of(error), (), 0.0, "suite")

    @property
    def done(self) -> bool:
        """Whether the episode was played to its end."""
        return self.outcome is not None


LONGEST_CAUSE: Final = 2000
"""Characters of an error that are kept: it may hold a whole reply, and tables show it."""


def cause_of(error: BaseException) -> str:
    """An error as the cause of a failure: its kind, then what it says, as text that can be stored."""
    try:
        said = str(error)
    except Exception:  # text of somebody's own error class
        said = "its text cannot be made"
    cause = f"{type(error).__name__}: {said[:LONGEST_CAUSE]}"
    return cause.encode("utf-8", "backslashreplace").decode()
