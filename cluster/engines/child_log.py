"""Captures the last lines of child processes, to report why one died."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from types import TracebackType

COLOR = re.compile(r"\x1b\[[\d;]*m")
PREFIX = re.compile(r"^(\(\w+ pid=\d+\)\s*)?([A-Z]+ [\d-]+ [\d:.]+ \[[\w./]+:\d+\] ?)?")
"""What vLLM's processes write before each line: ``(Worker_TP0 pid=71) ERROR 11-23 10:02:01 [multiproc_executor.py:953] ``."""
ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt)\b(: .*)?$")
"""The line of a traceback that names the error."""
CONSEQUENCE = re.compile(
    "WorkerProc initialization failed|Engine core initialization failed|EngineDeadError|See stack trace"
)
"""Errors that only say that another process failed."""
KEPT = 200
"""Lines."""


class ChildLog:
    """Processes started within the ``with`` block write as usual; the last lines of their stdout and stderr are kept here.

    vLLM's workers log their errors to stdout, and Python writes tracebacks to stderr.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._originals: dict[int, int] = {}
        self._copiers: list[threading.Thread] = []

    def __enter__(self) -> ChildLog:
        sys.stdout.flush()
        for stream in (1, 2):
            reading, writing = os.pipe()
            original = os.dup(stream)
            os.dup2(writing, stream)
            os.close(writing)
            self._originals[stream] = original
            copier = threading.Thread(target=self._copy, args=(reading, os.dup(original)), daemon=True)
            copier.start()
            self._copiers.append(copier)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout.flush()
        for stream, original in self._originals.items():
            os.dup2(original, stream)
            os.close(original)
        self._originals.clear()

    def lines(self) -> list[str]:
        """The last lines, oldest first."""
        return list(self._lines)

    def cause(self) -> str:
        """The last error line that is no mere consequence of another one, else the last one, or an empty text."""
        for copier in self._copiers:
            copier.join(0.5)  # it ends with the children; wait for their last lines
        stripped = [PREFIX.sub("", line) for line in self._lines]
        errors = [line for line in stripped if ERROR.match(line)]
        causes = [line for line in errors if not CONSEQUENCE.search(line)]
        return (causes or errors or [""])[-1]

    def _copy(self, reading: int, original: int) -> None:
        with os.fdopen(reading, "rb") as source, os.fdopen(original, "wb", buffering=0) as target:
            for line in source:
                target.write(line)
                self._lines.append(COLOR.sub("", line.decode(errors="replace")).strip())
