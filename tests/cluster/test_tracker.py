import threading
import time

import pytest

from cluster.observe import tracker as module
from cluster.observe.tracker import Watcher, make_tracker


class Recording:
    def __init__(self, fails_at=""):
        self.calls, self.fails_at = [], fails_at

    def _note(self, name, *arguments):
        if name == self.fails_at:
            raise ConnectionError("unreachable")
        self.calls.append((name, *arguments))

    def start(self, run_dir, run_id, config):
        self._note("start", run_id)

    def log(self, numbers):
        self._note("log", numbers)

    def finish(self, tables):
        self._note("finish", tables)


def test_a_tracker_receives_the_whole_run(tmp_path):
    tracker = Recording()
    watcher = Watcher(tracker)
    watcher.start(tmp_path, "id", {})
    watcher.log({"episodes/done": 1.0})
    watcher.finish([])
    assert tracker.calls == [("start", "id"), ("log", {"episodes/done": 1.0}), ("finish", [])]
    assert watcher.trouble == ""


@pytest.mark.parametrize("moment", ["start", "log", "finish"])
def test_a_failing_tracker_is_disabled_and_named(tmp_path, moment):
    watcher = Watcher(Recording(fails_at=moment))
    watcher.start(tmp_path, "id", {})
    for _ in range(200):
        watcher.log({})
    watcher.finish([])
    assert watcher.trouble == "ConnectionError: unreachable"


def test_a_hanging_tracker_delays_only_the_end_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CLOSING_SECONDS", 0.2)
    release = threading.Event()

    class Hanging(Recording):
        def start(self, run_dir, run_id, config):
            release.wait()

    watcher = Watcher(Hanging())
    began = time.monotonic()
    watcher.start(tmp_path, "id", {})
    for _ in range(1000):
        watcher.log({})
    assert time.monotonic() - began < 5
    watcher.finish([])
    assert "did not finish" in watcher.trouble
    release.set()


def test_wandb_offline_writes_a_run_below_the_run_directory(tmp_path):
    watcher = Watcher(make_tracker({"type": "wandb", "project": "test", "mode": "offline"}))
    watcher.start(tmp_path, "abc123", {"suite": "toy"})
    watcher.log({"episodes/done": 3.0})
    watcher.finish([{"name": "toy", "columns": ["x"], "rows": [[{"mean": 1.0}]]}])
    assert watcher.trouble == ""
    assert list(tmp_path.glob("wandb/offline-run-*-abc123/*.wandb"))


def test_no_tracker_is_no_trouble(tmp_path):
    watcher = Watcher(make_tracker({}))
    watcher.start(tmp_path, "id", {})
    watcher.log({})
    watcher.finish([])
    assert watcher.trouble == ""
