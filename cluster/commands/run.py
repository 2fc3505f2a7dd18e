"""One run from settings to tables: what ``raycade run`` does."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray
import yaml

from cluster.commands.report import Results, score_run, write_results
from cluster.commands.resume import Resume, look_through
from cluster.commands.upload import sent_by_another_process
from cluster.config.settings import Settings
from cluster.console import show_summary, warn
from cluster.driver.driver import SIGNALS, Driver, plays_locally
from cluster.errors import CONTINUE, RUN_FAILED, RunFailedError, UserError
from cluster.observe.performance import note_session
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher, final_results, make_tracker, tracked_id
from cluster.ray_backend import actors, capacity
from cluster.storage.durable import write_durably
from cluster.storage.provenance import begin_session, complete_session
from cluster.storage.run_directory import RunDirectory
from cluster.storage.spending import read_spent
from cluster.storage.stored_run import read_config
from evals.human import is_human
from evals.ledger.ledger import LedgerDamagedError
from evals.types import Episode

SECOND_ATTEMPT_SECONDS = 120.0
"""How long a process that sends the results again, after the tracker failed, may take."""


class StoppedError(BaseException):
    """A stop signal arrived while the driver's own handlers were not in place. No ``except Exception`` may swallow it."""


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raise ``StoppedError`` on stop signals until the driver installs its own handlers.

    Python's own handlers would end the process at once, with a different exit code than a stopped run.
    """

    def stop(number: int, frame: object) -> None:
        raise StoppedError(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Play = Callable[[Settings, list[Episode], RunDirectory, RunStatistics, Progress, Watcher], bool]
"""Plays episodes and commits them; returns whether it was stopped early."""


def run_and_show(settings: Settings, play: Play | None = None) -> int:
    """Run, print the headline tables and say where everything is; returns the exit code.

    Raises:
        UserError: see ``run``.
    """
    try:
        code, results = run(settings, play)
    except RunFailedError as error:
        text = (
            f"error: {error}\nFinished episodes are saved in {settings.run_dir}; run the same command again to resume."
        )
        print(text, file=sys.stderr)
        return RUN_FAILED
    show_results(settings, results)
    if code == CONTINUE:
        print("stopped early; run the same command again to resume", file=sys.stderr)
    return code


def show_results(settings: Settings, results: Results) -> None:
    """Print the headline tables, what makes them doubtful, and where everything is."""
    show_summary(results.tables)
    results.warn()
    print(f"\nledger, tables and summary: {settings.run_dir}")


def run(settings: Settings, play: Play | None = None) -> tuple[int, Results]:
    """Play what the run's ledger lacks, then score it; returns the exit code and the results.

    Args:
        settings: Of the run.
        play: How episodes are played; by default with the cluster (``play_on_cluster``).

    Raises:
        UserError: the run directory belongs to another plan or driver, or the cluster or the model is unavailable.
        RunFailedError: the run cannot continue.
    """
    if play is None and is_human(settings.model.name):
        raise UserError(f"model={settings.model.name}: a person plays with `raycade play`")
    directory = RunDirectory(settings.run_dir)
    directory.check_plan(settings.plan)
    config: dict[str, Any] = yaml.safe_load(settings.config)
    _check_answering(settings, config)
    new = not settings.run_dir.exists()
    directory.claim()
    try:
        directory.begin(settings.plan, {"config.yaml": settings.config})
        _keep_scoring(directory, config)
        stats = RunStatistics(
            gpus=settings.model.replica.gpus * settings.model.replica.nodes if settings.model.engine else 0.0,
            gpu_hour_price=settings.cluster.gpu_hour_price,
            spent_before=read_spent(settings.run_dir),
        )
        resume = look_through(settings.run_dir, settings.plan, stats, settings.retry_failed)
        directory.remove(resume.replaced)
        progress = Progress(stats)
        watcher = Watcher(make_tracker(settings.tracker))
        _say_where_it_stands(settings, resume, progress)
        stopped = False
        if resume.todo:
            _check_versions(resume, settings.strict)
            session = begin_session(settings.run_dir, config, "".join(resume.retry[:1]))
            directory.session, directory.attempts = session, resume.attempts
            watcher.start(settings.run_dir, tracked_id(settings.plan), config)
            try:
                stopped = (play or play_on_cluster)(settings, resume.todo, directory, stats, progress, watcher)
            except StoppedError:
                stopped = True
            except UserError:
                if new and not any(directory.episodes.iterdir()):
                    shutil.rmtree(settings.run_dir)  # ours, and nothing was played: a failed start leaves no folder
                raise
            if not stopped:
                complete_session(settings.run_dir, session)
                _compact(directory)
        elif resume.retry:
            complete_session(settings.run_dir, resume.retry[-1])
        results = score_run(settings.run_dir)
        try:
            write_results(settings.run_dir, results)
        except OSError as error:
            warn(f"cannot write the results: {error}; run `raycade report` to write them later")
        watcher.finish(
            final_results(settings.run_dir, settings.suite, stats.to_json(), results.summary, results.tables)
        )
    finally:
        directory.release()
    if watcher.failure:
        _send_again(settings, watcher.failure)
    return (CONTINUE if stopped else 0), results


def _send_again(settings: Settings, failure: str) -> None:
    """Give a tracker that failed one more chance, now that the run is over and its lock is free."""
    warn(f"the tracker failed (the run itself is fine): {failure}")
    if sent_by_another_process(settings.run_dir, settings.tracker or {}, SECOND_ATTEMPT_SECONDS):
        warn("another process has sent the results to the tracker")
    else:
        warn(f"a second attempt failed too; `raycade upload {settings.run_dir}` sends the results later")


def _say_where_it_stands(settings: Settings, resume: Resume, progress: Progress) -> None:
    planned, left = len(settings.plan), len(resume.todo)
    if not left:
        progress.say(f"{settings.run_dir}: complete, all {planned} episodes are in the ledger; nothing to play")
        if settings.tracker:
            progress.say(f"nothing was sent to the tracker; `raycade upload {settings.run_dir}` sends a complete run")
    elif left < planned:
        again = f", retrying {len(resume.attempts)} failed ones" if resume.attempts else ""
        progress.say(f"{settings.run_dir}: {planned - left} of {planned} episodes done{again}; resuming")


def _check_versions(resume: Resume, strict: bool) -> None:
    """Warn, or fail if ``strict``, if the software versions differ from those of the rows in the ledger."""
    if not resume.changes:
        return
    found = f"software versions changed since this run's earlier episodes: {'; '.join(resume.changes)}"
    if strict:
        raise UserError(f"strict=true: {found}")
    warn(f"{found}. Each row records its session; strict=true makes this an error")


def _compact(directory: RunDirectory) -> None:
    try:
        directory.compact(everything=True)
    except (OSError, LedgerDamagedError) as error:
        warn(f"cannot merge the ledger's small parts, which are kept: {error}")


def _check_answering(settings: Settings, config: Mapping[str, Any]) -> None:
    """Refuse to resume with settings that may change the answers but are not part of the ids."""
    if not (settings.run_dir / "plan.parquet").exists():
        return
    began = read_config(settings.run_dir).get("model") or {}
    for name in settings.model.engine_class.fixed_for_run if settings.model.engine else ():
        there, asked = ((model.get("engine") or {}).get(name) for model in (began, config["model"]))
        if there != asked:
            raise UserError(
                f"model.engine.{name}={asked}: this run started with {there}, and another endpoint may serve another "
                f"model; use the original setting, or another run_dir than {settings.run_dir}"
            )


def _keep_scoring(directory: RunDirectory, config: Mapping[str, Any]) -> None:
    """Store the suite's current scoring settings, which are part of no id, so that `raycade report` uses the same."""
    stored = read_config(directory.path)
    if stored["suite"] != config["suite"]:
        text = yaml.safe_dump({**stored, "suite": config["suite"]}, sort_keys=False, allow_unicode=True)
        write_durably(directory.path / "config.yaml", text.encode())


def play_on_cluster(
    settings: Settings,
    todo: list[Episode],
    directory: RunDirectory,
    stats: RunStatistics,
    progress: Progress,
    watcher: Watcher,
) -> bool:
    """Start Ray if needed, and play; returns whether the run was stopped early."""
    with progress, stop_on_signals():
        try:
            if not plays_locally(settings):
                address = settings.cluster.address
                progress.at("starting Ray" if address is None else f"joining Ray at {address}")
                actors.start_ray(settings.cluster)
                capacity.check_fit(settings.cluster, settings.model)
            driver = Driver(settings, todo, directory, stats, progress, watcher)
            progress.at("")
            asyncio.run(driver.run())
        finally:
            note_session(settings.run_dir, stats)
            progress.at("")
            ray.shutdown()
    return driver.stopped
