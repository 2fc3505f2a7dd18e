"""Trackers publish a run, while it is played and when it has been scored; their failures never affect the run."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cluster.config.registry import make
from cluster.errors import UserError
from cluster.storage.stored_run import Run, read_runs
from envs.printable import printable
from evals.analysis.samples import SampledTurn, sample_turns
from evals.suite import Suite
from evals.tables import Table
from evals.types import stable_hash

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinalResults:
    """What a tracker receives at the end of a session."""

    numbers: Mapping[str, float]
    """The last statistics; those that were logged before may be some seconds old."""
    summary: Mapping[str, Any]
    """The content of ``summary.json``."""
    tables: Sequence[Table]
    """All tables, performance included."""
    samples: Callable[[int], Sequence[SampledTurn]]
    """The turns of so many episodes of the model, failed and lost ones first; reads the ledger when called."""


class Tracker(Protocol):
    """Receives metrics during a run and results at its end; methods may block or fail, the constructor must not."""

    finish_seconds: float
    """How long the end of a run waits for ``finish`` before it goes on without."""

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """The run starts, or resumes under the same id."""
        ...

    def log(self, numbers: Mapping[str, float]) -> None:
        """Current metrics."""
        ...

    def finish(self, results: FinalResults) -> None:
        """The session ends with these results."""
        ...

    def abandon(self) -> None:
        """``finish`` has not come to its end in time: let go of all that would keep the process from ending."""
        ...


class Watcher:
    """Feeds a tracker from a separate thread: metrics that come too fast are dropped, the first error disables it."""

    def __init__(self, tracker: Tracker | None) -> None:
        """Without a tracker, all methods do nothing."""
        self._tracker = tracker
        self._queue: queue.Queue[tuple[str, tuple[Any, ...]]] = queue.Queue(maxsize=64)
        self._thread: threading.Thread | None = None
        self.failure: str = ""
        """Why the tracker was disabled, if it was."""

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """Start the thread; returns at once."""
        if self._tracker is None:
            return
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._queue.put(("start", (run_dir, run_id, config)))
        self._thread.start()

    def log(self, numbers: Mapping[str, float]) -> None:
        """Queue metrics, or drop them if the tracker does not keep up."""
        if self._thread is not None and not self.failure:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(("log", (numbers,)))

    def finish(self, results: FinalResults) -> None:
        """Queue the results and wait for the tracker to finish, ``finish_seconds`` at most."""
        if self._tracker is None or self._thread is None or self.failure:
            return
        try:
            self._finish(self._tracker, self._thread, results)
        except (Exception, SystemExit) as error:
            self.failure = self.failure or _cause(error)

    def _finish(self, tracker: Tracker, thread: threading.Thread, results: FinalResults) -> None:
        seconds = tracker.finish_seconds
        end = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._queue.put(("finish", (results,)), timeout=seconds)
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            self.failure = f"did not finish within {seconds:.0f} s"
            tracker.abandon()

    def _work(self) -> None:
        while True:
            method, arguments = self._queue.get()
            try:
                getattr(self._tracker, method)(*arguments)
            except BaseException as error:  # SystemExit would end this thread without a word
                # What an abandoned tracker still says is a consequence of that.
                if self.failure:
                    return
                self.failure = _cause(error)
                logger.warning("the tracker failed and is disabled for the rest of the run: %s", self.failure)
                return
            if method == "finish":
                return


def _cause(error: BaseException) -> str:
    return printable(f"{type(error).__name__}: {error}")


def make_tracker(config: dict[str, Any] | None) -> Tracker | None:
    """The tracker of a configuration's ``tracker`` section; None if it is empty.

    Raises:
        UserError: it is not registered, or refuses its settings.
    """
    if not config:
        return None
    try:
        tracker: Tracker = make("tracker", config)
    except (UserError, ModuleNotFoundError):
        raise
    except Exception as error:  # of a class that may be anybody's
        raise UserError(f"tracker={config.get('type')}: {_cause(error)}") from error
    return tracker


def tracked_id(run: Run) -> str:
    """The id under which a tracker knows a run: a resumed or uploaded run has the one that it began with.

    Another run of the same plan, a repeat, has another one: it began with another session.
    """
    episodes = sorted(run.planned["episode_id"].to_pylist())
    first_session = run.sessions[0]["id"] if run.sessions else ""
    return stable_hash([*episodes, first_session])[:16]


def unscored_results(numbers: Mapping[str, float]) -> FinalResults:
    """The results of a session that was stopped: its statistics alone."""
    return FinalResults(numbers, {}, (), lambda count: ())


def final_results(
    run: Run, suite: Suite, numbers: Mapping[str, float], summary: Mapping[str, Any], tables: Sequence[Table]
) -> FinalResults:
    """The results of a run that has been scored; what it samples is read from the ledger when it is asked for."""

    def samples(count: int) -> list[SampledTurn]:
        return read_runs([run], lambda: sample_turns(suite, run.data, run.planned["player"][0].as_py(), count))

    return FinalResults(numbers, summary, tables, samples)
