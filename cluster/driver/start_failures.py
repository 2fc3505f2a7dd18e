"""What a failed start of a replica means: for the run, for its GPU, for the next try.

A start may fail for everyone (an unknown model), for one GPU (a broken one), or for a while (memory that the job before has
not freed yet, a hub with too many requests, a port that was taken in between). Only the first kind ends the run.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from typing import Literal

from cluster.engines.base import EngineDefectError, EngineSettingsError, HubBusyError
from cluster.ray_backend.actors import Place

START_FAILURES = 3
"""A GPU is given up, and a run without any replica fails, after this many failed starts in a row."""
PASSING_SECONDS = 900.0
"""How long a slot is retried whose failures are of a passing kind, before they count like others."""
LONGEST_PASSING_BACKOFF = 30.0
LONGEST_BACKOFF = 300.0
"""Seconds between tries to start a replica: 2, 4, 8 and so on until these, or as long as a busy hub asks for.

What passes is over within minutes, and GPUs wait for it: so it is tried often, but not more often than a hub counts requests
(it counts them over some minutes, and each start makes a dozen). What does not pass needs a person.
"""

PASSING = re.compile(
    r"\b(429|500|502|503|504)\b|too many requests|rate.?limit|timed? ?out|temporarily|try again"
    r"|address already in use|EADDRINUSE|connection (reset|refused|aborted)|couldn't connect|name resolution"
    r"|out of memory|(free|available) memory on|insufficient memory|device.* busy"
    r"|stale (NFS )?file handle|input/output error",
    re.IGNORECASE,
)
"""Causes that may be gone at the next try, in the words of CUDA, vLLM, the hub and the operating system."""
PROVEN = re.compile(
    r"not a valid model identifier|repository not found|gated repo|is greater than the derived max_model_len"
    r"|no chat template|unrecognized (arguments?|model)|not supported for now|does not exist",
    re.IGNORECASE,
)
"""Causes that are the same wherever a replica starts."""

Verdict = Literal["fatal", "give up the GPU", "retry"]


def _passes(reason: BaseException) -> bool:
    """Whether it passes by itself, such as a busy hub or a port that is taken; wrong settings do not."""
    if isinstance(reason, HubBusyError):
        return True
    if isinstance(reason, EngineSettingsError):
        return False
    return PASSING.search(str(reason)) is not None


class StartFailures:
    """Failed starts in a row, by slot and by GPU, and which causes were seen where."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self.counted: dict[str, int] = {}
        """Of each slot, without those of a passing kind."""
        self._tries: Counter[str] = Counter()
        self._since: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        """Seconds that a busy hub asked to wait, by slot."""
        self._on_gpu: Counter[str] = Counter()
        self._places: defaultdict[str, set[str]] = defaultdict(set)
        self._any_started = False

    def started(self, slot: str, place: Place) -> None:
        """A start succeeded."""
        self._any_started = True
        self.counted[slot] = self._tries[slot] = self._on_gpu[place.device] = 0
        self._since.pop(slot, None)

    def _blames_model(self, reason: BaseException, alike: str) -> bool:
        """Whether an error tells that it will be the same on every GPU; ``alike`` is its text without numbers."""
        cause = str(reason)
        if isinstance(reason, EngineSettingsError | EngineDefectError) or PROVEN.search(cause):
            return True
        # One broken GPU says nothing about the model, two that fail alike do.
        several = len(self._places[alike]) > 1
        return several and bool(cause) and not _passes(reason)

    def failed(self, slot: str, place: Place | None, reason: BaseException) -> Verdict:
        """A start failed.

        Args:
            slot: Which one.
            place: Where; None if that is not known, as the process died at once.
            reason: The engine's error.
        """
        cause = str(reason)
        passing = _passes(reason)
        self._tries[slot] += 1
        self._asked[slot] = reason.retry_after if isinstance(reason, HubBusyError) else 0.0
        # What passes by itself counts only once it has lasted.
        if passing and self._seconds_since_first(slot) < PASSING_SECONDS:
            return "retry"
        self.counted[slot] = self.counted.get(slot, 0) + 1
        where, on_gpu = slot, False
        if place is not None and place.gpus:
            where, on_gpu = place.device, True
        alike = re.sub(r"\d+", "0", cause)  # ports, sizes and process numbers differ from try to try
        self._places[alike].add(where)
        # Nothing has started yet: the model or its settings may be at fault, and then no further try helps.
        if not self._any_started and self._blames_model(reason, alike):
            return "fatal"
        # Else the place is at fault, and is given up after some failures in a row.
        self._on_gpu[where] += 1
        # As long as nothing has started anywhere, the model may be at fault, and not the GPU.
        if not self._any_started:
            return "retry"
        worn_out = self._on_gpu[where] >= START_FAILURES
        if on_gpu and worn_out:
            return "give up the GPU"
        return "retry"

    def _seconds_since_first(self, slot: str) -> float:
        """Since the slot's first failure of a passing kind."""
        now = time.monotonic()
        return now - self._since.setdefault(slot, now)

    def backoff(self, slot: str) -> float:
        """Seconds until the next try."""
        longest = LONGEST_PASSING_BACKOFF if slot in self._since else LONGEST_BACKOFF
        return max(min(2.0 ** min(self._tries[slot], 16), longest), self._asked.get(slot, 0.0))
