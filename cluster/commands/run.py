"""One run from settings to tables: what ``raycade run`` does."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray
import yaml

from cluster import stop_signals, streams
from cluster.commands.commits import with_commit
from cluster.commands.report import Results, score_run, write_results
from cluster.commands.resume import Resume, first_of_retry, scan_resume
from cluster.commands.upload import sent_by_another_process
from cluster.config.model import ModelSettings
from cluster.config.settings import Settings, check_environment
from cluster.console import raycade, say, say_status, show_summary, warn
from cluster.driver.driver import Driver, plays_locally
from cluster.errors import BAD_INPUT, CONTINUE, RUN_FAILED, ResumableError, RunFailedError, UserError
from cluster.hosted.inline import check_inline, play_inline
from cluster.models.hardware import check_parallel
from cluster.observe.performance import note_session
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher, final_results, make_tracker, tracked_id, unscored_results
from cluster.ray_backend import actors, capacity
from cluster.stopping.begin import agreed_rule, read_by
from cluster.stopping.registration import keep
from cluster.stopping.watch import StopWatch
from cluster.storage.run_directory import RunDirectory
from cluster.storage.spending import check_journal
from cluster.storage.stored_run import Run
from envs.files import real_path
from envs.printable import printable
from evals.human import is_human
from evals.ledger.parts import LedgerDamagedError
from evals.types import Episode

SECOND_ATTEMPT_SECONDS = 120.0
"""How long a process that sends the results again, after the tracker failed, may take."""


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
        text = f"error: {error}\nWhat is in the ledger of {settings.run_dir} is kept; run the same command again to resume."
        if not settings.run_dir.exists():  # someone deleted or renamed it
            text = f"error: {error}"
        print(printable(text), file=sys.stderr)
        return code_of(error)
    show_results(settings, results)
    return code


def code_of(error: UserError | RunFailedError) -> int:
    """The exit code of a run that ended with an error."""
    if isinstance(error, UserError):
        return BAD_INPUT
    # It can be resumed, with a higher limit.
    if isinstance(error, ResumableError):
        return CONTINUE
    return RUN_FAILED


def show_results(settings: Settings, results: Results | None) -> None:
    """Print the headline tables, what makes them doubtful, and where everything is; for a stopped run, how to go on.

    Output that takes nothing more does not change what became of the run.
    """
    try:
        _show_results(settings, results)
        sys.stdout.flush()
    except OSError as error:
        streams.give_up(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            warn(
                f"the tables cannot be printed: {error.strerror or error}; `{raycade('report', settings.run_dir)}` shows them"
            )


def _show_results(settings: Settings, results: Results | None) -> None:
    if results is None:
        print(
            "stopped early; run the same command again to resume. "
            f"`{raycade('report', settings.run_dir)}` shows the tables so far",
            file=sys.stderr,
        )
        return
    if settings.stop is not None:
        say_status(results.status)
    show_summary(results.tables, results.written)
    results.warn()
    # The tables in short have no notes, and this one says what to set.
    for table in results.tables:
        if table.name == "performance":
            for hint in table.notes:
                warn(hint)
    if results.written:
        say(f"\nledger, tables and summary: {settings.run_dir}")
    else:
        say(f"\nledger: {settings.run_dir}; `{raycade('report', settings.run_dir)}` writes tables and summary")


def run(settings: Settings, play: Play | None = None) -> tuple[int, Results | None]:
    """Play what the run's ledger lacks, then score it; returns the exit code and the results.

    A run that was stopped is not scored, so that it ends within the seconds that a batch system leaves it: there are no
    results, and ``raycade report`` computes them when they are wanted.

    Args:
        settings: Of the run.
        play: How episodes are played; by default with the cluster (``play_on_cluster``).

    Raises:
        UserError: the run directory belongs to another plan or driver, or the cluster or the model is unavailable.
        RunFailedError: the run cannot continue.
    """
    if play is None and is_human(settings.model.name):
        raise UserError(f"model={settings.model.name}: a person plays with `raycade play`")
    # Most mistakes are found here, before the directory is claimed and before Ray and the model are started.
    # A game may change the working directory, which is the driver's as well where cluster=inline; and a link on the way may
    # be turned while the run plays.
    directory = RunDirectory(real_path(settings.run_dir))
    begun = directory.begun
    directory.check_plan(settings.plan)
    config: dict[str, Any] = yaml.safe_load(settings.config)
    if play is None:
        _check_machine(settings)
    _check_answering(settings.model, directory, config)
    settings = with_commit(settings, directory.sessions)
    needs = settings.model.replica
    wasted = check_parallel(settings.model.engine, needs.gpus * needs.nodes)
    if wasted:
        warn(wasted)
    watcher = Watcher(make_tracker(settings.tracker))
    as_it_is = _complete_as_it_is(settings, directory)
    if as_it_is is not None:
        return 0, as_it_is
    directory.claim()
    try:
        if directory.begun != begun:  # the checks above were of another state
            raise UserError(f"run_dir={directory.path}: another driver has just begun a run here; start this one again")
        _check_spending(settings.model, directory)
        directory.begin(settings.plan, {"config.yaml": settings.config})
        _warn_of_name(directory, config.get("name"))
        stats = _statistics(settings, directory)
        stopped = False
        try:
            rule = agreed_rule(directory, settings.stop, settings.model.name)
            if settings.preregistration is not None:
                keep(directory, settings.preregistration)
            # What the ledger lacks, and what of it is to be played again.
            resume = scan_resume(directory, settings.plan, stats, rule, settings.retry_failed, settings.model.commit)
            if resume.todo:
                _check_versions(resume, settings.strict)
            directory.remove(resume.replaced)
            progress = Progress(stats)
            with read_by(directory, rule, config["suite"]):
                _print_resume_status(directory, resume, progress, tracked=bool(settings.tracker))
                if resume.todo:
                    directory.begin_session(config, first_of_retry(resume.retry), settings.model.commit)
                    directory.attempts = resume.attempts
                    watcher.start(directory.path, tracked_id(directory), config)
                    with contextlib.chdir(Path.cwd()):  # back to it afterwards
                        stopped = (play or _player(settings))(
                            settings, resume.todo, directory, stats, progress, watcher
                        )
        except stop_signals.StoppedError:
            stopped = True
        except UserError:
            directory.discard()
            raise
        # A stopped run is not scored: a batch system leaves it seconds.
        if stopped:
            watcher.finish(unscored_results(stats.to_json()))
            return CONTINUE, None
        directory.keep_description()
        _complete(directory, resume)
        directory.refresh()
        results = _write_results(directory, score_run(directory))
        watcher.finish(final_results(directory, settings.suite, stats.to_json(), results.summary, results.tables))
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, or a file larger than is allowed
        raise RunFailedError(str(error)) from error
    finally:
        directory.release()
    if watcher.failure:
        _send_again(directory, settings.tracker or {}, watcher.failure)
    return _code(directory, results), results


def _statistics(settings: Settings, run: Run) -> RunStatistics:
    """Those that a session begins with."""
    replica = settings.model.replica
    return RunStatistics(
        gpus=replica.gpus * replica.nodes if settings.model.engine else 0.0,
        gpu_hour_price=settings.cluster.gpu_hour_price,
        spent_before=run.spent or 0.0,
    )


def _complete_as_it_is(settings: Settings, run: RunDirectory) -> Results | None:
    """The results of a complete run that may only be read; None for others, and where its rule or scoring is to change."""
    if not run.begun or not run.is_read_only:
        return None
    stats = _statistics(settings, run)
    rule = agreed_rule(run, settings.stop, settings.model.name)
    resume = scan_resume(run, settings.plan, stats, rule, settings.retry_failed, settings.model.commit)
    suite = yaml.safe_load(settings.config)["suite"]
    if resume.todo or run.rule != rule or run.config["suite"] != suite:
        return None
    if settings.preregistration is not None:
        keep(run, settings.preregistration)  # a run that has been played has it already, or is refused
    _print_resume_status(run, resume, Progress(stats), tracked=bool(settings.tracker))
    warn(f"{run.path}: cannot be written here; its tables and summary stay as they are")
    return dataclasses.replace(score_run(run), written=(run.path / "summary.json").exists())


def _code(run: Run, results: Results) -> int:
    """The exit code of a run that has played all it was to play: its results or episodes may lack nevertheless."""
    if not results.written:
        return RUN_FAILED
    missing = results.summary["missing"]
    decided = run.stopping is not None and run.stopping.stopped  # then the rest is not needed
    if not missing or decided:
        return 0
    warn(
        f"{run.path}: {missing:,} of {results.summary['planned']:,} episodes were played and are not in the ledger: files "
        "of it were deleted or changed meanwhile. The same command plays these again"
    )
    return RUN_FAILED


def _player(settings: Settings) -> Play:
    """How a run's episodes are played; built-in players alone need neither Ray nor an engine."""
    return play_on_cluster if settings.cluster.ray or plays_locally(settings) else play_inline


def _check_machine(settings: Settings) -> None:
    """See that this machine and process can play."""
    check_environment(settings)
    if not settings.cluster.ray:
        check_inline(settings)


def _check_answering(model: ModelSettings, run: Run, config: Mapping[str, Any]) -> None:
    """Refuse to resume with settings that may change the answers but are not part of the ids."""
    if not run.begun:
        return
    if model.engine is None:
        return
    stored = run.config.get("model") or {}
    began = stored.get("engine") or {}
    for name in model.engine_class.fixed_for_run:
        there = began.get(name)
        asked = config["model"]["engine"].get(name)
        if there != asked:
            raise UserError(
                f"model.engine.{name}={asked}: this run started with {there}, and another endpoint may serve another "
                f"model; use the original setting, or another run_dir than {run.path}"
            )


def _warn_of_name(run: Run, asked: str | None) -> None:
    """Say that a run keeps the name it began with."""
    name = run.config.get("name")
    if asked is not None and asked != name:
        began = f"is called {name}" if name else "began without a name"
        warn(f"name={asked}: has no effect, as {run.path} {began}; `report --names` gives other labels")


def _check_spending(model: ModelSettings, run: Run) -> None:
    """See that the run knows what it has spent.

    Only a metered engine keeps a journal of it; what a program tells of its costs stands in the rows alone.
    """
    if model.engine is not None and model.metered:
        check_journal(run.path, run.ledger_cost, capped=model.engine.get("spend_cap") is not None)


def _print_resume_status(run: Run, resume: Resume, progress: Progress, *, tracked: bool) -> None:
    """Say what of the run is in the ledger already; nothing for a new one."""
    left, needed = len(resume.todo), resume.needed
    if left == needed:
        return
    episodes = "episodes"
    if needed < len(run.planned):
        episodes = "episodes that its stopping rule needs"
    if left:
        done = f"{needed - left} of {needed} {episodes} done"
        if resume.attempts:
            done += f", retrying {len(resume.attempts)} failed ones"
        progress.say(f"{run.path}: {done}; resuming")
        return
    # Nothing is left to play: because a stopping rule has decided, or because all is in the ledger.
    stopping = run.stopping
    if stopping is not None and stopping.stopped:
        for line in stopping.lines():
            progress.say(f"{run.path}: {line}")
        return
    progress.say(f"{run.path}: complete, all {needed} {episodes} are in the ledger; nothing to play")
    if tracked:
        progress.say(f"nothing was sent to the tracker; `{raycade('upload', run.path)}` sends a complete run")


def _check_versions(resume: Resume, strict: bool) -> None:
    """Warn, or fail if ``strict``, if the software versions differ from those of the rows in the ledger."""
    if not resume.changes:
        return
    found = f"software versions changed since this run's earlier episodes: {'; '.join(resume.changes)}"
    if strict:
        raise UserError(f"strict=true: {found}")
    warn(f"{found}. Each row records its session; strict=true makes this an error")


def _complete(directory: RunDirectory, resume: Resume) -> None:
    """Note that nothing is left to play, and merge the ledger's small parts."""
    if not resume.todo:
        if resume.retry:
            directory.complete_session(resume.retry[-1])
        return
    directory.complete_session(directory.session)
    try:
        directory.compact(everything=True)
    except (OSError, LedgerDamagedError) as error:
        warn(f"cannot merge the ledger's small parts, which are kept: {error}")


def _write_results(run: Run, results: Results) -> Results:
    """Write results; returns them with whether they are written."""
    try:
        write_results(run, results)
    except OSError as error:
        warn(f"cannot write the results: {error}; run `{raycade('report', run.path)}` to write them later")
        return dataclasses.replace(results, written=False)
    return results


def _send_again(run: Run, tracker: Mapping[str, Any], failure: str) -> None:
    """Give a tracker that failed one more chance, now that the run is over and its lock is free."""
    warn(f"the tracker failed (the run itself is fine): {failure}")
    if sent_by_another_process(run.path, tracker, SECOND_ATTEMPT_SECONDS):
        warn("another process has sent the results to the tracker")
    else:
        warn(f"a second attempt failed too; `{raycade('upload', run.path)}` sends the results later")


def play_on_cluster(
    settings: Settings,
    todo: list[Episode],
    directory: RunDirectory,
    stats: RunStatistics,
    progress: Progress,
    watcher: Watcher,
    stopping: StopWatch | None = None,
) -> bool:
    """Start Ray if needed, and play; returns whether the run was stopped early.

    ``stopping`` is that of the session, where a person or programs play in it too.
    """
    with progress, stop_signals.counted():
        try:
            if not plays_locally(settings):
                address = settings.cluster.address
                progress.at("starting Ray" if address is None else f"joining Ray at {address}")
                stop_signals.check()
                actors.start_ray(settings.cluster)
                stop_signals.heed_again()
                stop_signals.check()
                capacity.check_fit(settings.cluster, settings.model)
            driver = Driver(settings, todo, directory, stats, progress, watcher, stopping=stopping)
            progress.at("")
            stop_signals.check()
            asyncio.run(driver.run())
        finally:
            note_session(directory, stats)
            progress.at("")
            ray.shutdown()
        return bool(stop_signals.received)
