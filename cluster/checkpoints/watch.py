"""Watches a folder: plays each complete checkpoint on the same games, one run each, and keeps the curve up to date."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from cluster import stop_signals
from cluster.checkpoints.curve import Point, curve_files, curve_tables, numbers, points_of
from cluster.checkpoints.folder import Checkpoint, Folder, step_of
from cluster.checkpoints.hosted import HostedEngine, can_host
from cluster.config.plan import make_suite
from cluster.config.settings import Settings, check_environment, load_settings
from cluster.console import show, warn
from cluster.errors import CONTINUE, RUN_FAILED, RunFailedError, UserError
from cluster.observe.tracker import FinalResults, Watcher, make_tracker
from cluster.storage.durable import write_durably
from cluster.storage.stored_run import Run, read_runs
from envs.files import FileError, MissingFileError, read_json, read_text, real_path
from evals.ledger.records import plan_to_table
from evals.stopping.order import games_in_order
from evals.types import Episode, stable_hash

RunOne = Callable[..., tuple[int, Any]]
"""Plays and scores one run, and returns its exit code and results: ``cluster.commands.run.run``."""
POLL_SECONDS: Final = 10.0
SIGNAL_SECONDS: Final = 0.2
TRIES: Final = 2
"""Engines that are started for one checkpoint."""
ASKED: Final = "watched.json"
"""What the checkpoints were asked, so that all are asked the same."""
TRACKED: Final = "tracked.txt"
"""Names of the checkpoints that the tracker has got."""


@dataclass(frozen=True)
class Options:
    """What to watch, and how long."""

    folder: Folder
    out: Path
    """Gets one run directory for each checkpoint, and the curve."""
    overrides: Sequence[str]
    games: int
    """Games of each checkpoint, in the balanced order; 0 for the whole plan."""
    once: bool = False
    until: int | None = None
    """The step after which it ends."""
    restart: bool = False
    """Start a new engine for each checkpoint."""


class Watch:
    """Plays what is there, and waits for more."""

    def __init__(self, options: Options, run: RunOne) -> None:
        """``run``: see ``RunOne``."""
        self.options, self._run = options, run
        self.host = HostedEngine()
        self._points: dict[str, list[Point]] = {}
        """Of each checkpoint that is played."""
        self._failed: dict[str, int] = {}
        """Steps of those that cannot be played."""
        self._said: dict[str, str] = {}
        self._tracker: Watcher | None = None

    def watch(self) -> int:
        """Watch until it is over; returns the exit code: 75 after a stop signal, 1 if a checkpoint could not be played.

        Raises:
            UserError: the folder or a run in it cannot be read.
        """
        if not self.options.folder.path.is_dir():
            raise UserError(f"{self.options.folder.path}: there is no such folder")
        self._check_same()
        # Checkpoints that the training has deleted since they were played are part of the curve.
        for run_dir in sorted(self.options.out.glob("*")):
            step = step_of(run_dir.name)
            if step is not None and _is_played(run_dir):
                self._read(run_dir.name, step, run_dir)
        if self._points:
            self._show()
        try:
            code = self._loop()
        finally:
            self.host.close()
        self._finish_tracker()
        if code:
            return code
        return RUN_FAILED if self._failed else 0

    def _loop(self) -> int:
        folder = self.options.folder
        while True:
            found, incomplete = folder.look()
            for checkpoint in found:
                if self._see(checkpoint) == CONTINUE:
                    return CONTINUE
            waiting = self._not_played(incomplete)
            if self._reached_until():
                return 0
            # What may still be written gets the time that it takes to tell.
            settling = folder.settling(waiting)
            is_last_look = self.options.once or folder.ended
            if is_last_look and not settling:
                for name, reason in waiting.items():
                    warn(f"{name}: not complete: {reason}")
                return 0
            self._say(waiting)
            pause = folder.settled if settling else POLL_SECONDS
            if self._wait(pause):
                return CONTINUE

    def _not_played(self, incomplete: Mapping[str, str]) -> dict[str, str]:
        """The incomplete checkpoints, with what they lack, but for those that were played or failed before."""
        known = {*self._points, *self._failed}
        found = {}
        for name, reason in incomplete.items():
            if _run_name(name) not in known:
                found[name] = reason
        return found

    def _check_same(self) -> None:
        """See that all runs of the curve are of the same games.

        Raises:
            UserError: the folder was begun with other settings.
        """
        path = self.options.out / ASKED
        answering = [each for each in self.options.overrides if not each.startswith(("tracker", "cluster", "strict"))]
        asked = {"games": self.options.games, "overrides": sorted(answering)}
        try:
            before = read_json(path)
        except MissingFileError:
            self.options.out.mkdir(parents=True, exist_ok=True)
            write_durably(path, json.dumps(asked).encode())
            return
        if before != asked:
            raise UserError(
                f"--out {self.options.out}: was begun with {before}, now it is {asked}; name another folder"
            )

    def _reached_until(self) -> bool:
        steps = [*self._failed.values(), *(points[0].step for points in self._points.values())]
        until = self.options.until
        return until is not None and max(steps, default=-1) >= until

    def _say(self, waiting: dict[str, str]) -> None:
        """Why something is not played yet, once."""
        for name, reason in waiting.items():
            if self._said.get(name) != reason:
                print(f"{name}: waiting: {reason}", flush=True)
        self._said = waiting

    def _wait(self, seconds: float) -> bool:
        """Whether a stop signal has arrived meanwhile."""
        end = time.monotonic() + seconds
        with stop_signals.counted():
            while time.monotonic() < end and not stop_signals.received:
                time.sleep(SIGNAL_SECONDS)
            return bool(stop_signals.received)

    # --- one checkpoint ---

    def _see(self, checkpoint: Checkpoint) -> int:
        """Play a checkpoint that has not been played, and add it to the curve; returns the exit code of its run."""
        name = _run_name(checkpoint.name)
        if name in self._points or name in self._failed:
            return 0
        print(f"playing {name}", flush=True)
        run_dir = self.options.out / name
        try:
            settings = self._settings(checkpoint, name, run_dir)
            code = self._play(settings)
        except (UserError, RunFailedError) as error:
            self._failed[name] = checkpoint.step
            warn(f"{name}: cannot be played: {error}")
            return 0
        if code == 0:
            self._read(name, checkpoint.step, run_dir)
            self._show()
            if settings.tracker is not None:
                self._track(settings, settings.tracker)
        return code

    def _settings(self, checkpoint: Checkpoint, name: str, run_dir: Path) -> Settings:
        """The settings of its run: as given, with this model, and of the plan the first games in the balanced order.

        Raises:
            UserError: they are wrong.
        """
        given = [*self.options.overrides]
        if not any(override.startswith("model=") for override in given):
            given.append("model=hf")
        own = {"model.engine.model": checkpoint.path, "model.name": name, "run_dir": run_dir}
        settings = load_settings([*given, *(f"{key}={_quoted(str(value))}" for key, value in own.items())])
        return dataclasses.replace(settings, plan=balanced_part(settings.plan, self.options.games))

    def _play(self, settings: Settings) -> int:
        """Play a run, with the engine that is there if it can take the weights; a new one where it dies."""
        untracked = dataclasses.replace(settings, tracker=None)
        if self.options.restart or not can_host(settings):
            return self._run(untracked, None)[0]
        check_environment(settings)
        for left in reversed(range(TRIES)):
            try:
                return self._run(untracked, self.host.play)[0]
            except RunFailedError as error:
                if not left:
                    raise
                warn(f"{settings.model.name}: trying again with a new engine: {error}")
        raise AssertionError("the last try returns or raises")

    # --- the curve ---

    def _read(self, name: str, step: int, run_dir: Path) -> None:
        run = Run(run_dir)
        suite = make_suite(run.config["suite"])
        self._points[name] = read_runs([run], lambda: points_of(name, step, run.data, suite))

    def _show(self) -> None:
        """Print the curve and write its files."""
        points = self._all_points()
        show(curve_tables(points))
        status = [f"{name} could not be played." for name in self._failed]
        title = f"Checkpoints of {real_path(self.options.folder.path).name}"
        for name, content in curve_files(points, title, status).items():
            path = self.options.out / name
            path.parent.mkdir(exist_ok=True)
            write_durably(path, content)

    def _track(self, settings: Settings, tracker: dict[str, Any]) -> None:
        """Send the points that the tracker has not got, each once, whoever watched before."""
        if self._tracker is None:
            self._tracker = Watcher(make_tracker(tracker))
            games = sorted((each.suite, each.task, each.level, each.mode, each.seed) for each in settings.plan)
            run_id = stable_hash(str(real_path(self.options.out)), games)[:16]
            self._tracker.start(self.options.out, run_id, yaml.safe_load(settings.config))
        journal = self.options.out / TRACKED
        known = list[str]()
        if journal.exists():
            known = read_text(journal).split("\n")
        for name, found in self._points.items():
            if name in known:
                continue
            if found:
                self._tracker.log(numbers(found))
        write_durably(journal, "\n".join(self._points).encode())

    def _all_points(self) -> list[Point]:
        return [point for found in self._points.values() for point in found]

    def _finish_tracker(self) -> None:
        if self._tracker is None:
            return
        self._tracker.finish(FinalResults({}, {}, curve_tables(self._all_points()), lambda count: ()))
        if self._tracker.failure:
            warn(f"the tracker failed (all runs are fine): {self._tracker.failure}")


def balanced_part(plan: Sequence[Episode], games: int) -> tuple[Episode, ...]:
    """The episodes of the first games in the balanced order, the same for every model; of all for 0."""
    if not games:
        return tuple(plan)
    kept = {episode for game in games_in_order(plan_to_table(plan))[:games] for episode in game.episodes}
    return tuple(episode for episode in plan if episode.id in kept)


def _run_name(checkpoint: str) -> str:
    """What a checkpoint's run directory and its player are called."""
    return re.sub(r"[^\w.-]+", "-", checkpoint)


def _is_played(run_dir: Path) -> bool:
    """Whether nothing is left to play and the scores are written."""
    try:
        summary = read_json(run_dir / "summary.json")
    except (FileError, OSError):
        return False
    return isinstance(summary, dict) and summary.get("missing") == 0


def _quoted(text: str) -> str:
    """A text as a value of an override."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
