"""What a provider wants back of earlier replies: thoughts with their signatures, exactly as they came.

Chats hold words only, so the engine that received a reply keeps the rest of it. A resumed run plays unfinished episodes from
their beginning, so nothing of this needs to survive the engine.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from cluster.engines.base import Request
from evals.types import Chat, PlayerError


class Thoughts:
    """Replies as they came, by episode, chat and words."""

    def __init__(self, episodes: int) -> None:
        """Keeps those of the latest ``episodes``; more than are ever alive at once."""
        self._most = episodes
        self._kept: OrderedDict[str, dict[tuple[Chat, str], Any]] = OrderedDict()

    def keep(self, request: Request, text: str, reply: Any) -> None:
        """Remember a reply.

        Args:
            request: what it answers.
            text: its words, as the chat will repeat them.
            reply: what is to be sent in their place; JSON.
        """
        self._of(request)[request.chat, text] = reply

    def _has_lost(self, request: Request) -> bool:
        """Whether a chat goes on whose earlier replies this engine has not received."""
        episode, _, number = request.id.rpartition("-")
        is_later_turn = number.isdigit() and int(number) > 0
        # A chat that begins anew in each turn needs no earlier reply.
        holds_reply = any(message.role == "assistant" for message in request.chat)
        return is_later_turn and holds_reply and episode not in self._kept

    def earlier(self, request: Request) -> list[Any | None]:
        """For each message of a chat the reply as it came; None for messages that are no reply of this episode.

        Raises:
            PlayerError: another engine has received the replies, so their signatures are lost.
        """
        if self._has_lost(request):
            raise PlayerError(
                "the thoughts of this episode's earlier turns are lost, since the engine was started anew meanwhile; "
                "retry_failed=true plays it again",
                kind="endpoint",
            )
        kept = self._of(request)
        found: list[Any | None] = []
        for place, message in enumerate(request.chat):
            words = message.parts[0] if len(message.parts) == 1 else None
            if message.role == "assistant" and isinstance(words, str):
                found.append(kept.get((request.chat[:place], words)))
            else:
                found.append(None)
        return found

    def _of(self, request: Request) -> dict[tuple[Chat, str], Any]:
        """The replies of a request's episode."""
        episode = request.id.rpartition("-")[0]
        kept = self._kept.setdefault(episode, {})
        self._kept.move_to_end(episode)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return kept
