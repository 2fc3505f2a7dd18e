"""How servers end: whoever still sends a request after some seconds is cut off, and no traceback tells of it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import Any, Final

import uvicorn
from uvicorn.config import WSProtocolType

GRACE_SECONDS: Final = 2
"""Without a limit, a client that never ends its request keeps the server running."""
TOLD_EVERY: Final = 60.0
"""Seconds after which it is said again that no connection can be opened; asyncio would say so thousands of times a second."""


def server_config(
    app: Any, grace_seconds: int = GRACE_SECONDS, ws: WSProtocolType = "none", **options: Any
) -> uvicorn.Config:
    """The configuration of a server for an application; ``options`` are those of uvicorn."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    logging.getLogger("asyncio").addFilter(_OUT_OF_HANDLES)
    return uvicorn.Config(app, ws=ws, timeout_graceful_shutdown=grace_seconds, **options)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record says more than that the server's end has cut a request off."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    return "timeout graceful shutdown exceeded" not in record.getMessage()


class _OutOfHandles(logging.Filter):
    """Says in one line, now and then, that this process may open no more files."""

    def __init__(self) -> None:
        super().__init__()
        self._told = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "_start_serving" in message:  # what was to be tried again, after the end of the server
            return False
        if "accept() out of system resource" not in message:
            return True
        record.msg, record.args, record.exc_info = (
            "too many connections: new ones wait (ulimit -n bounds them)",
            (),
            None,
        )
        since = time.monotonic() - self._told
        if since >= TOLD_EVERY:
            self._told = time.monotonic()
        return since >= TOLD_EVERY


_OUT_OF_HANDLES = _OutOfHandles()
