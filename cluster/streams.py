"""Standard streams that are closed, whose reader has gone, or whose disk is full: no command and no run ends of that."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any


def open_closed_streams() -> None:
    """Open what the command was started without (``>&-``), on nothing: else the next files opened take their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def forget_sizes_of_nothing() -> None:
    """Drop a width or height of 0 columns from the environment, as some shells without a terminal set: it means unknown."""
    for name in ("COLUMNS", "LINES"):
        size = os.environ.get(name)
        if size is not None and not size.strip("0"):
            del os.environ[name]


def forget_windows() -> None:
    """Drop the matplotlib backend that the environment names: figures are written to files, and it may not be installed."""
    os.environ.pop("MPLBACKEND", None)


def give_up(stream: Any) -> None:
    """Send what is written to a stream from now on, and what waits in it, to nowhere."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def end(stream: Any) -> None:
    """Write what waits in a stream, or drop it: a failure at the interpreter's end would change the exit code."""
    try:
        stream.flush()
    except OSError:
        give_up(stream)


class Lasting:
    """Standard error, with all that it can do; words that cannot be written are lost, and nothing else is."""

    def __init__(self, stream: Any) -> None:
        """``stream`` is what is written to."""
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As of any stream, but raises nothing."""
        with self._tried():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Likewise."""
        with self._tried():
            self._stream.flush()

    @contextlib.contextmanager
    def _tried(self) -> Any:
        try:
            yield
        except BrokenPipeError:  # its reader does not come back; a full disk may have room again
            give_up(self._stream)
        except OSError:
            pass
