"""A chat in the form of OpenAI's chat completions, which most programs read."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Callable
from typing import Any

from PIL import Image

from envs.picture import Picture
from evals.types import Chat, Part


def data_url(picture: Picture) -> str:
    """A picture as PNG within its own address."""
    return f"data:image/png;base64,{png(picture)}"


def chat_to_json(chat: Chat, url: Callable[[Picture], str] = data_url) -> list[dict[str, Any]]:
    """The chat's messages; ``url`` gives the addresses of pictures.

    >>> from evals.types import message
    >>> chat_to_json((message("user", "Which color?"),))
    [{'role': 'user', 'content': 'Which color?'}]
    """
    messages = []
    for message in chat:
        content: Any = [_part(part, url) for part in message.parts]
        # A single text stands as it is.
        if len(message.parts) == 1 and isinstance(message.parts[0], str):
            content = message.parts[0]
        messages.append({"role": message.role, "content": content})
    return messages


def _part(part: Part, url: Callable[[Picture], str]) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": url(part)}}


@functools.lru_cache(maxsize=512)
def png(picture: Picture) -> str:
    """A picture as PNG in base64."""
    out = io.BytesIO()
    Image.fromarray(picture.render()).save(out, format="PNG")
    return base64.b64encode(out.getvalue()).decode()
