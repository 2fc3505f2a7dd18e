"""Why a child process died, as far as its last lines tell."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from cluster.engines.child_log import KEPT, ChildLog
from cluster.engines.hub_answers import HubAnswer, hub_answer

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
