import contextlib
import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from cluster.config.compose import compose_config
from cluster.config.settings import Settings, settings_from_config
from cluster.storage.run_directory import RunDirectory
from evals.conversation import Record
from evals.ledger.records import records_to_table
from evals.suite import ledger_columns

ROOT = Path(__file__).resolve().parents[2]
EASY = ["suite=kumo", "suite.domains=[medical]", "suite.difficulties=[easy]"]
"""Easy games of one domain of KUMO."""

Launch = Callable[..., subprocess.Popen]


def raycade(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess:
    """Run the command line in a separate process and wait for it."""
    command = [sys.executable, "-m", "cluster", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture
def deaf_url() -> Iterator[str]:
    """An address that takes no connection: its queue is full."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = []
    for _ in range(4):
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            waiting[-1].connect(listening.getsockname())
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    for each in (*waiting, listening):
        each.close()


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Start the command line in a separate process group, which is killed at the end of the test."""
    started: list[subprocess.Popen] = []

    def start(*arguments: str, log: Path) -> subprocess.Popen:
        command = [sys.executable, "-m", "cluster", *arguments]
        with log.open("ab") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


@functools.cache
def _composed(overrides: tuple[str, ...]) -> DictConfig:
    return compose_config(overrides)


def settings_at(run_dir: Path, *overrides: str) -> Settings:
    """As ``load_settings`` with this run directory; equal overrides are composed once, since Hydra takes long for it."""
    return settings_from_config(OmegaConf.merge(_composed(overrides), {"run_dir": str(run_dir)}))


def begin(settings: Settings) -> RunDirectory:
    """Claim and begin the run directory of these settings, as a driver does."""
    directory = RunDirectory(settings.run_dir)
    directory.claim()
    directory.begin(settings.plan, {"config.yaml": settings.config})
    return directory


def leave(settings: Settings, records: Sequence[Record] = ()) -> None:
    """Leave a run of these settings in which these episodes are played."""
    directory = begin(settings)
    directory.commit(records_to_table(records, ledger_columns(settings.suite)))
    directory.release()


@pytest.fixture(autouse=True, scope="session")
def _quiet_ray() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
