"""What a child process said on stderr before it died: the cause that its parent is not told."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from types import TracebackType

ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt)\b(: .*)?$")
"""The line of a traceback that names the error."""


class ChildLog:
    """Processes started within the ``with`` block write to stderr as ever, and their last lines are remembered here."""

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
        """The last error that was written, or nothing."""
        self._copier.join(0.5)  # ends when the children have; what they wrote last is on its way
        return next((line for line in reversed(self._lines) if ERROR.match(line)), "")

    def _copy(self, reading: int, stderr: int) -> None:
        with os.fdopen(reading, "rb") as said, os.fdopen(stderr, "wb", buffering=0) as heard:
            for line in said:
                heard.write(line)
                self._lines.append(line.decode(errors="replace").strip())
