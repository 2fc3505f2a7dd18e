"""Standard streams that are closed, full, or whose reader has gone: runs go on, and exit codes stay what they are."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cluster.commands import run
from cluster.storage.stored_run import Run
from tests.cluster.conftest import EASY, ROOT

PLAYED = [*EASY, "suite.tasks_per_domain=2", "suite.repeats=1"]
MODELS = {
    "oracle": ["model=oracle"],
    "simulated": ["model=simulated", "decoding=free", "cluster=inline", "model.engine.step_seconds=0.001"],
}


def shell(line: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run a line of bash in which RAYCADE stands for the command with these arguments; it prints the exit code last."""
    command = 'RAYCADE() { "$@"; }; set -o pipefail; ' + line.replace("RAYCADE", 'RAYCADE "$@"')
    words = ["bash", "-c", command, "bash", sys.executable, "-m", "cluster", *arguments]
    # Buffered, as it is by default: what waits in a stream is written when the command ends.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=300, env=environment)


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("RAYCADE <&- >&- 2>&-", "simulated"),
        ("RAYCADE 2>&1 >/dev/null | true", "oracle"),
        pytest.param("RAYCADE 2>/dev/full", "oracle", marks=SLOW),
        pytest.param("RAYCADE >/dev/full", "oracle", marks=SLOW),
        pytest.param("RAYCADE >&-", "simulated", marks=SLOW),
        pytest.param("RAYCADE 2>&-", "simulated", marks=SLOW),
        pytest.param("RAYCADE 2>&1 | true", "simulated", marks=SLOW),
        pytest.param("RAYCADE | head -c 1", "oracle", marks=SLOW),
    ],
)
def test_a_run_needs_nobody_who_reads_what_it_says(tmp_path, line, model):
    ended = shell(line, "run", *PLAYED, *MODELS[model], f"run_dir={tmp_path / 'run'}")
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    run = Run(tmp_path / "run")
    assert len(run.episodes()) == len(run.planned) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "arguments", "code"),
    [
        ("RAYCADE | true", ["plan", "suite=kumo", "model=oracle"], 0),
        ("RAYCADE 2>&1 >/dev/null | true", ["report", "nowhere"], 2),
        ("RAYCADE 2>/dev/full", ["report", "nowhere"], 2),
        ("RAYCADE 2>&-", ["nonsense"], 2),
        ("RAYCADE >/dev/full", ["plan", "suite=kumo", "model=oracle"], 1),
    ],
)
def test_exit_codes_do_not_depend_on_readers(line, arguments, code):
    assert shell(line, *arguments).returncode == code


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("stop_signals.leave_at_once(); os.kill(os.getpid(), signal.SIGTERM)", 75),
        ("stop_signals.silent_interrupts(); os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_a_signal_while_nothing_is_imported_ends_the_process_without_a_traceback(script, code):
    reader, writer = os.pipe()
    os.close(reader)
    # Tests that run in the background of a shell are begun with SIGINT ignored, and so are their processes.
    usual = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    text = f"import os, signal; {usual}; from cluster import stop_signals; {script}"
    for stderr in (writer, subprocess.PIPE):
        ended = subprocess.run([sys.executable, "-c", text], cwd=ROOT, stderr=stderr, stdout=stderr)
        assert ended.returncode == code and b"Traceback" not in (ended.stderr or b"")
    os.close(writer)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(), ""),
        (
            OSError(28, "No space left on device"),
            "the tables cannot be printed: No space left on device; `raycade report RUN`",
        ),
    ],
)
@pytest.mark.parametrize("printing", ["lines", "the rest"])
def test_results_that_cannot_be_printed_are_told_and_change_no_exit_code(error, said, printing, monkeypatch, capsys):
    def fails(*given):
        raise error

    given_up = []
    if printing == "lines":
        monkeypatch.setattr(run, "show_summary", fails)
    else:  # what the stream has kept so far is written at last
        monkeypatch.setattr(run, "_show_results", lambda *given: None)
        monkeypatch.setattr(run.sys, "stdout", SimpleNamespace(flush=fails))
    monkeypatch.setattr(run.streams, "give_up", given_up.append)
    results = SimpleNamespace(tables=[], written=True)
    monkeypatch.setattr(run, "run", lambda settings, play: (75, results))
    assert run.run_and_show(SimpleNamespace(run_dir="RUN", stop=None)) == 75
    shown = " ".join(capsys.readouterr().err.split())
    assert said in shown if said else not shown
    assert given_up == [sys.stdout]


def test_a_backend_for_windows_is_not_asked_for_and_ctrl_c_at_the_end_is_silent():
    script = (
        "import os, signal, sys; sys.argv = ['raycade', '--version']; import cluster.__main__ as command\n"
        "try: command.main()\n"
        "finally: print(signal.getsignal(signal.SIGINT) is signal.SIG_DFL, 'MPLBACKEND' in os.environ)"
    )
    variables = {**os.environ, "MPLBACKEND": "no such backend"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("True False\n"), done.stderr


@pytest.mark.parametrize(
    ("leave", "code"), [("sys.exit(75)", 75), ("sys.exit()", 0), ("sys.exit('words')", 1), ("1 / 0", 1)]
)
def test_a_command_ends_with_its_code_though_a_game_has_left_a_thread(leave, code):
    script = (
        "import sys, threading, time; import cluster.__main__ as command; command.END_SECONDS = 0.05\n"
        "def run():\n"
        "    threading.Thread(target=time.sleep, args=[60]).start()\n"
        f"    {leave}\n"
        "command.run_command = run\n"
        "command.main()"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=40)
    assert done.returncode == code and "a thread that a game has left" in done.stderr
