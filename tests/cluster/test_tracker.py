import threading
import time

import pytest

from cluster.observe.tracker import FinalResults, Watcher, make_tracker

RESULTS = FinalResults({"episodes/done": 2.0}, {"planned": 2, "tables": []}, (), lambda count: [])


class Recording:
    finish_seconds = 20.0

    def __init__(self, fails_at="", error=None):
        self.calls, self.fails_at, self.error = [], fails_at, error or ConnectionError("unreachable")

    def _note(self, name, *arguments):
        if name == self.fails_at:
            raise self.error
        self.calls.append((name, *arguments))

    def start(self, run_dir, run_id, config):
        self._note("start", run_id)

    def log(self, numbers):
        self._note("log", numbers)

    def finish(self, results):
        self._note("finish", results)

    def abandon(self):
        self._note("abandon")


def test_a_tracker_receives_the_whole_run(tmp_path):
    tracker = Recording()
    watcher = Watcher(tracker)
    watcher.start(tmp_path, "id", {})
    watcher.log({"episodes/done": 1.0})
    watcher.finish(RESULTS)
    assert tracker.calls == [("start", "id"), ("log", {"episodes/done": 1.0}), ("finish", RESULTS)]
    assert watcher.failure == ""


@pytest.mark.parametrize("moment", ["start", "log", "finish"])
def test_a_failing_tracker_is_disabled_and_named(tmp_path, moment):
    watcher = Watcher(Recording(fails_at=moment))
    watcher.start(tmp_path, "id", {})
    for _ in range(200):
        watcher.log({})
    watcher.finish(RESULTS)
    assert watcher.failure == "ConnectionError: unreachable"


@pytest.mark.parametrize("error", [SystemExit(3), RuntimeError("\x1b[31m")], ids=repr)
@pytest.mark.parametrize("moment", ["start", "log", "finish", "abandon"])
def test_whatever_a_tracker_raises_is_told_in_plain_text_and_ends_no_run(tmp_path, moment, error):
    tracker = Recording(moment, error)
    if moment == "abandon":
        tracker.finish_seconds, tracker.start = 0.0, lambda *_: threading.Event().wait(5)
    watcher = Watcher(tracker)
    watcher.start(tmp_path, "id", {})
    watcher.log({})
    watcher.finish(RESULTS)
    assert ("did not finish" if moment == "abandon" else type(error).__name__) in watcher.failure
    assert "\x1b" not in watcher.failure


def test_a_tracker_without_the_methods_of_one_ends_no_run(tmp_path):
    watcher = Watcher(object())
    watcher.start(tmp_path, "id", {})
    watcher.finish(RESULTS)
    assert "AttributeError" in watcher.failure


def test_a_hanging_tracker_delays_only_the_end_of_the_run(tmp_path):
    release = threading.Event()

    class Hanging(Recording):
        finish_seconds = 0.2

        def start(self, run_dir, run_id, config):
            release.wait()

    tracker = Hanging()
    watcher = Watcher(tracker)
    began = time.monotonic()
    watcher.start(tmp_path, "id", {})
    for _ in range(1000):
        watcher.log({})
    assert time.monotonic() - began < 5
    watcher.finish(RESULTS)
    assert "did not finish" in watcher.failure and tracker.calls == [("abandon",)]
    release.set()


def test_no_tracker_is_no_trouble(tmp_path):
    watcher = Watcher(make_tracker({}))
    watcher.start(tmp_path, "id", {})
    watcher.log({})
    watcher.finish(RESULTS)
    assert watcher.failure == ""
