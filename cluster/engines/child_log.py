"""Captures the last stderr lines of child processes, to report why one died."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from types import TracebackType

ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt)\b(: .*)?$")
"""The line of a traceback that names the error."""


class ChildLog:
    """Processes started within the ``with`` block write to stderr as usual; their last lines are kept here."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=100)
        self._stderr = -1

    def __enter__(self) -> ChildLog:
        reading, writing = os.pipe()
        self._stderr = os.dup(2)
        os.dup2(writing, 2)
        os.close(writing)
        self._copier = threading.Thread(target=self._copy, args=(reading, os.dup(self._stderr)), daemon=True)
        self._copier.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.dup2(self._stderr, 2)
        os.close(self._stderr)

    def cause(self) -> str:
        """The last error line, or an empty text."""
        self._copier.join(0.5)  # it ends with the children; wait for their last lines
        return next((line for line in reversed(self._lines) if ERROR.match(line)), "")

    def _copy(self, reading: int, stderr: int) -> None:
        with os.fdopen(reading, "rb") as source, os.fdopen(stderr, "wb", buffering=0) as target:
            for line in source:
                target.write(line)
                self._lines.append(line.decode(errors="replace").strip())
