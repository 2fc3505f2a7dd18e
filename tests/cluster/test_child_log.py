"""Why a child process died, as far as its last lines tell."""

import contextlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cluster.engines.base import HubBusyError
from cluster.engines.child_log import KEPT, ChildLog
from cluster.engines.hub_answers import HubAnswer, fetch_small_files, hub_answer

WORKER = "\x1b[0;36m(Worker_TP0 pid=71)\x1b[0;0m ERROR 11-23 10:02:01 [multiproc_executor.py:953] "


def logged(*lines: str, stream: str = "stderr") -> ChildLog:
    program = f"import sys; sys.{stream}.write({chr(10).join(lines) + chr(10)!r})"
    with ChildLog() as log:
        subprocess.run([sys.executable, "-c", program], check=True)
    return log


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            ["Traceback (most recent call last):", "MemoryError: no room for 7 blocks"],
            "MemoryError: no room for 7 blocks",
        ),
        (["ValueError: first", "RuntimeError: last"], "RuntimeError: last"),
        (
            [
                f"{WORKER}Traceback (most recent call last):",
                f"{WORKER}safetensors_rust.SafetensorError: incomplete metadata",
                "(EngineCore pid=70) Exception: WorkerProc initialization failed due to an exception. See stack trace.",
                "RuntimeError: Engine core initialization failed.",
            ],
            "safetensors_rust.SafetensorError: incomplete metadata",
        ),
        (["RuntimeError: Engine core initialization failed."], "RuntimeError: Engine core initialization failed."),
        (["INFO nothing of note"], ""),
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_cause_is_the_last_error_that_is_no_consequence_of_another(lines, cause, stream):
    assert logged(*lines, stream=stream).cause() == cause


def test_the_last_lines_are_kept_in_order():
    log = logged(*(f"line {number}" for number in range(KEPT + 50)))
    log.cause()
    assert log.lines() == [f"line {number}" for number in range(50, KEPT + 50)]


def test_what_a_server_answered_is_found_below_what_a_library_says_instead():
    error = OSError("We couldn't connect to the hub to load the files")
    error.__cause__ = middle = ValueError("cannot find the file")
    middle.__context__ = answered = RuntimeError("429 Client Error: Too Many Requests")
    assert hub_answer(error) is None
    answered.response = SimpleNamespace(status_code=429)
    assert hub_answer(error) == HubAnswer("429 Client Error: Too Many Requests", busy=True)
    answered.__context__ = error
    answered.response = None
    assert hub_answer(error) is None


REFUSED = "HTTP Error 429 thrown while requesting HEAD https://hub/m"
BUSY = HubAnswer("429 for HEAD https://hub/m", busy=True)


@pytest.mark.parametrize(
    ("printed", "answer"),
    [
        ([REFUSED], BUSY),
        ([REFUSED, "Retrying in 1s [Retry 1/5]."], None),
        ([REFUSED, "Rate limited. Waiting 9s", REFUSED, "something else"], BUSY),
        ([REFUSED.replace("429", "404")], HubAnswer("404 for HEAD https://hub/m", busy=False)),
        (["something else"], None),
    ],
)
def test_the_last_request_that_was_refused_and_not_made_again_is_what_a_hub_said(printed, answer):
    assert hub_answer(OSError("no such file"), printed) == answer


@pytest.mark.parametrize(("status", "busy"), [(429, True), (503, True), (404, False), (0, False)])
def test_small_files_of_a_model_on_the_hub_are_fetched_and_only_a_busy_hub_is_waited_for(status, busy, monkeypatch):
    asked = []

    def download(model, revision, ignore_patterns):
        asked.append((model, revision, "*.safetensors" in ignore_patterns))
        error = RuntimeError("refused")
        error.response = SimpleNamespace(status_code=status or None, headers={"Retry-After": "7"})
        raise error

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=download))
    for elsewhere in ("/a/folder", "tiny", "a/b/c"):
        fetch_small_files(elsewhere, None)
    assert asked == []
    with pytest.raises(HubBusyError, match="org/m cannot be read") if busy else contextlib.nullcontext() as raised:
        fetch_small_files("org/m", "r")
    assert asked == [("org/m", "r", True)] and (not busy or raised.value.retry_after == 7.0)
