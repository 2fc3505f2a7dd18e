import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]

Launch = Callable[..., subprocess.Popen]


def raycade(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess:
    """Run the command line in a separate process and wait for it."""
    command = [sys.executable, "-m", "cluster", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


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


def descendants(pid: int) -> list[psutil.Process]:
    """All living processes below one."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.fixture(autouse=True, scope="session")
def _quiet_ray() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
