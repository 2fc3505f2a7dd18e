"""Trackers show a run while it goes on; they are fed from its stats and may fail without touching it."""

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
"""How long the end of a run waits for a tracker that does not answer."""


class Tracker(Protocol):
    """Takes numbers now and then, and tables at the end; every method may block and may fail, making one does neither."""

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """The run begins, or goes on under the same id."""
        ...

    def log(self, numbers: dict[str, float]) -> None:
        """The stats now."""
        ...

    def finish(self, tables: list[dict[str, Any]]) -> None:
        """The run ends with these tables (``Table.to_json``)."""
        ...


class WandbTracker:
    """Weights & Biases, offline by default. The key is wandb's own affair: it is never read here."""

    def __init__(self, project: str, mode: Literal["offline", "online"] = "offline", entity: str | None = None) -> None:
        """Nothing is begun before ``start``."""
        self.project, self.mode, self.entity = project, mode, entity
        self._run: Any = None

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """A W&B run whose id follows from the plan, so that a resumed run goes on in it."""
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
    """Feeds a tracker from a thread of its own: what it cannot take in time is dropped, what it raises is noted once."""

    def __init__(self, tracker: Tracker | None) -> None:
        """Without a tracker nothing happens."""
        self._tracker = tracker
        self._queue: queue.Queue[tuple[str, tuple[Any, ...]]] = queue.Queue(maxsize=64)
        self._thread: threading.Thread | None = None
        self.trouble: str = ""
        """Why the tracker was given up, if it was."""

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """Begin; returns at once."""
        if self._tracker is None:
            return
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._queue.put(("start", (run_dir, run_id, config)))
        self._thread.start()

    def log(self, numbers: dict[str, float]) -> None:
        """Pass numbers on if the tracker keeps up, drop them if not."""
        if self._thread is not None and not self.trouble:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(("log", (numbers,)))

    def finish(self, tables: list[dict[str, Any]]) -> None:
        """Pass the tables on and wait a while for the tracker to end."""
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
    """The tracker that a configuration's ``tracker`` section describes; none for an empty one.

    Raises:
        UserError: it is not registered.
    """
    if not config:
        return None
    tracker: Tracker = build("tracker", config)
    return tracker
