"""Trackers publish the statistics of a run in progress; their failures never affect the run."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from pathlib import Path
from typing import Any, Literal, Protocol

from cluster.config.registry import build

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 20.0
"""How long the end of a run waits for an unresponsive tracker."""


class Tracker(Protocol):
    """Receives metrics during a run and tables at its end; methods may block or fail, the constructor must not."""

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """The run starts, or resumes under the same id."""
        ...

    def log(self, numbers: dict[str, float]) -> None:
        """Current metrics."""
        ...

    def finish(self, tables: list[dict[str, Any]]) -> None:
        """The run ends with these tables (``Table.to_json``)."""
        ...


class WandbTracker:
    """Weights & Biases, offline by default. raycade never reads the API key; wandb does."""

    def __init__(self, project: str, mode: Literal["offline", "online"] = "offline", entity: str | None = None) -> None:
        """Nothing is sent before ``start``."""
        self.project, self.mode, self.entity = project, mode, entity
        self._run: Any = None

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """Start a W&B run whose id is derived from the plan, so that a resumed run continues it."""
        import wandb

        self._run = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=self.mode,
            id=run_id,
            name=run_dir.name,
            dir=str(run_dir),
            resume="allow",
            config=config,
            settings=wandb.Settings(silent=True, console="off", init_timeout=60),
        )

    def log(self, numbers: dict[str, float]) -> None:
        """One step."""
        self._run.log(numbers)

    def finish(self, tables: list[dict[str, Any]]) -> None:
        """Tables as W&B tables, then close."""
        import wandb

        for table in tables:
            rows = [[_flat(cell) for cell in row] for row in table["rows"]]
            self._run.log({table["name"]: wandb.Table(columns=table["columns"], data=rows)})
        self._run.finish()


def _flat(cell: Any) -> Any:
    return cell["mean"] if isinstance(cell, dict) else cell


class Watcher:
    """Feeds a tracker from a separate thread: metrics that come too fast are dropped, the first error disables it."""

    def __init__(self, tracker: Tracker | None) -> None:
        """Without a tracker, all methods do nothing."""
        self._tracker = tracker
        self._queue: queue.Queue[tuple[str, tuple[Any, ...]]] = queue.Queue(maxsize=64)
        self._thread: threading.Thread | None = None
        self.trouble: str = ""
        """Why the tracker was disabled, if it was."""

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """Start the thread; returns at once."""
        if self._tracker is None:
            return
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._queue.put(("start", (run_dir, run_id, config)))
        self._thread.start()

    def log(self, numbers: dict[str, float]) -> None:
        """Queue metrics, or drop them if the tracker does not keep up."""
        if self._thread is not None and not self.trouble:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(("log", (numbers,)))

    def finish(self, tables: list[dict[str, Any]]) -> None:
        """Queue the tables and wait up to ``CLOSING_SECONDS`` for the tracker to finish."""
        if self._thread is None or self.trouble:
            return
        end = time.monotonic() + CLOSING_SECONDS
        with contextlib.suppress(queue.Full):
            self._queue.put(("finish", (tables,)), timeout=CLOSING_SECONDS)
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            self.trouble = f"did not finish within {CLOSING_SECONDS:.0f} s"

    def _work(self) -> None:
        while True:
            method, arguments = self._queue.get()
            try:
                getattr(self._tracker, method)(*arguments)
            except Exception as error:
                self.trouble = f"{type(error).__name__}: {error}"
                logger.warning("the tracker failed and is disabled for the rest of the run: %s", self.trouble)
                return
            if method == "finish":
                return


def make_tracker(config: dict[str, Any] | None) -> Tracker | None:
    """The tracker of a configuration's ``tracker`` section; None if it is empty.

    Raises:
        UserError: it is not registered.
    """
    if not config:
        return None
    tracker: Tracker = build("tracker", config)
    return tracker
