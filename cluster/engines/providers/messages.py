"""A chat as providers take it that have a place of its own for what the system says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evals.types import Chat, Part


def system_texts(chat: Chat) -> list[str]:
    """What the system messages of a chat say, for a provider that takes them apart from the others."""
    texts = list[str]()
    for said in chat:
        if said.role == "system":
            texts += [str(part) for part in said.parts]
    return texts


def messages_of(
    chat: Chat, earlier: Sequence[Any | None], block: Callable[[Part], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The messages of a chat but for the system's, in blocks, for a provider that refuses empty texts.

    An empty reply is left out, and what was asked before and after it is one message: Bedrock takes roles by turns only.

    Args:
        chat: What is sent.
        earlier: For each message the blocks of the reply as it came, where they are sent in place of its words.
        block: How a part is written.
    """
    messages: list[dict[str, Any]] = []
    for said, kept in zip(chat, earlier, strict=True):
        parts = [part for part in said.parts if not isinstance(part, str) or part.strip()]
        content = kept or [block(part) for part in parts]
        if said.role == "system" or not content:
            continue
        if messages and messages[-1]["role"] == said.role:
            content = [*messages.pop()["content"], *content]
        messages.append({"role": said.role, "content": content})
    return messages
