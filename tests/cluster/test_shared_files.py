"""Shared memory of engines that died is removed; that of others, or of living processes, is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.engines.shared_files import SHARED_MEMORY, SharedFiles

pytestmark = pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="no POSIX shared memory here")
HOLDER = """
import os, sys
from multiprocessing import resource_tracker, shared_memory
memory = shared_memory.SharedMemory(create=True, size=64)
resource_tracker.unregister(memory._name, "shared_memory")
print(memory.name, flush=True)
sys.stdin.read()
os._exit(1)
"""


@pytest.fixture
def holder():
    """Starts processes that each hold a piece of shared memory until their input ends, and never remove it."""
    started, paths = [], []

    def start():
        process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        paths.append(SHARED_MEMORY / process.stdout.readline().decode().strip())
        return process, paths[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for path in paths:
        path.unlink(missing_ok=True)


def test_what_dead_processes_left_since_the_start_is_removed(holder, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("cluster.engines.shared_files.CHILDREN_SECONDS", 0.2)
    old, old_path = holder()
    old.communicate()
    files = SharedFiles()
    dead, dead_path = holder()
    dead.communicate()
    _, living_path = holder()
    (tmp_path / "vllm_dist_0123").write_text("")
    (tmp_path / "notes").write_text("")
    removed = files.remove_left()
    assert {dead_path, tmp_path / "vllm_dist_0123"} <= {*removed}
    assert not dead_path.exists() and old_path.exists() and living_path.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_nothing_new_leaves_everything():
    assert SharedFiles().remove_left() == [] or Path("/dev/shm").is_dir()
