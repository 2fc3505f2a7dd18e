"""How servers end: whoever still sends a request after some seconds is cut off, and no traceback tells of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import uvicorn
from uvicorn.config import WSProtocolType

GRACE_SECONDS: Final = 2
"""Without a limit, a client that never ends its request keeps the server running."""


def server_config(
    app: Any, grace_seconds: int = GRACE_SECONDS, ws: WSProtocolType = "none", **options: Any
) -> uvicorn.Config:
    """The configuration of a server for an application; ``options`` are those of uvicorn."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return uvicorn.Config(app, ws=ws, timeout_graceful_shutdown=grace_seconds, **options)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record says more than that the server's end has cut a request off."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    return "timeout graceful shutdown exceeded" not in record.getMessage()
