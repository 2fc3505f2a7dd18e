"""Why a child process died, as far as its last lines tell."""

import subprocess
import sys

import pytest

from cluster.engines.child_log import KEPT, ChildLog

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
