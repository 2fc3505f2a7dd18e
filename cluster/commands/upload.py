"""``raycade upload``: sends what a run has left to its tracker, whenever that is."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from omegaconf import OmegaConf

from cluster.commands.report import score_run
from cluster.config.compose import compose_config, plain_values
from cluster.config.plan import make_suite
from cluster.config.registry import check_section
from cluster.console import say
from cluster.errors import RunFailedError, UserError
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import final_results, make_tracker, tracked_id
from cluster.storage.lock import writer_of
from cluster.storage.stored_run import Run


def main(options: argparse.Namespace) -> None:
    """Send the run; the tracker may take as long as it needs."""
    upload(Run(options.run_dir), options.overrides)


def upload(run: Run, overrides: Sequence[str]) -> None:
    """Send a run.

    Raises:
        UserError: there is no run, a driver is at work there, or the overrides are no settings of a tracker.
        RunFailedError: the tracker fails.
    """
    section = tracker_section(run.config.get("tracker"), overrides)
    writer = writer_of(run.path)
    if writer is not None and writer.state == "at work":
        raise UserError(f"{run.path}: the run is still played ({writer.name}), and sends its results at its end")
    send(run, section)
    later = f"; send it by: wandb sync {shlex.quote(str(run.path))}/wandb/*" if section.get("mode") == "offline" else ""
    say(f"{run.path}: written for {section['type']}{later}")


def send(run: Run, section: Mapping[str, Any]) -> None:
    """Score a run and send it to the tracker of a ``tracker`` section.

    Raises:
        UserError: there is no such tracker.
        RunFailedError: the tracker fails.
    """
    results = score_run(run)
    stats = RunStatistics()
    stats.plan(run.plan)
    stats.resume(run.episodes())
    numbers = {name: value for name, value in stats.to_json().items() if name.startswith(("episodes/", "success/"))}
    tracker = make_tracker(dict(section))
    assert tracker is not None
    try:
        tracker.start(run.path, tracked_id(run), run.config)
        tracker.finish(final_results(run, make_suite(run.config["suite"]), numbers, results.summary, results.tables))
    except Exception as error:  # whatever a tracker raises
        raise RunFailedError(f"the tracker failed: {type(error).__name__}: {error}") from error


def sent_by_another_process(run_dir: Path, section: Mapping[str, Any], seconds: float) -> bool:
    """Whether a process that shares nothing with this one, where the tracker failed, sent a run within so many seconds."""
    process = multiprocessing.get_context("spawn").Process(target=_send_or_exit, args=(run_dir, section))
    process.start()
    process.join(seconds)
    if process.is_alive():
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.kill()
        process.join()
    return process.exitcode == 0


def _send_or_exit(run_dir: Path, section: Mapping[str, Any]) -> None:
    try:
        send(Run(run_dir), section)
    except (UserError, RunFailedError):  # the first failure was told
        sys.exit(1)


def _settings_named(overrides: Sequence[str]) -> set[str]:
    """The tracker's settings that are given; an empty name for the tracker itself, as tracker=NAME."""
    named = set()
    for override in overrides:
        key, _, _ = override.lstrip("+").partition("=")
        section, _, name = key.partition(".")
        if section != "tracker":
            raise UserError(f"{override}: only the tracker's settings can be given here, as tracker.KEY=VALUE")
        named.add(name)
    return named


def tracker_section(stored: Mapping[str, Any] | None, overrides: Sequence[str]) -> dict[str, Any]:
    """The tracker's settings: as named, else as the run had them, else as the tracker's file says.

    Raises:
        UserError: an override is none of a tracker's.
    """
    named = _settings_named(overrides)
    given = list(overrides)
    if "" not in named:
        given.insert(0, "tracker=wandb")
    composed = compose_config(given).tracker or OmegaConf.create()
    values = plain_values(composed)
    if not values:
        raise UserError("tracker=none: there is nothing to send to")
    settings = {str(name): value for name, value in values.items()}
    as_stored = stored or {}
    # Where another tracker is named, what the run's own was given says nothing.
    if "" in named and settings["type"] != as_stored.get("type"):
        as_stored = {}
    for name, value in as_stored.items():
        if name not in named:
            settings[name] = value
    check_section("tracker", settings)
    return settings
