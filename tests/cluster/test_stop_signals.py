"""Stop signals: counted within a run, heeded at once outside of it, raised while a person plays, and put back at the end."""

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import stop_signals
from cluster.errors import CONTINUE
from cluster.stop_signals import SIGNALS, StoppedError


@pytest.fixture(autouse=True)
def handlers():
    """As they were before, whatever a test has done to them."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a run under nohup ignores it
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def left(monkeypatch):
    """The exit codes with which the process would have left."""
    codes, said = [], []

    def write(stream, text):
        said.append((stream, text))
        raise OSError("closed")

    monkeypatch.setattr(stop_signals.os, "_exit", codes.append)
    monkeypatch.setattr(stop_signals.os, "write", write)
    monkeypatch.setattr(stop_signals.os, "isatty", lambda descriptor: False)
    yield codes
    assert said == [(2, b"stopped; run the same command again to resume\n")] * len(codes)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("whose", ["nobody's", "own", "another's"])
def test_an_interrupt_that_a_library_sends_its_own_process_is_an_error_and_no_stop(whose):
    sends = {
        "nobody's": "",
        "own": "signal.raise_signal(signal.SIGINT)",
        "another's": "subprocess.run(['kill', '-INT', str(os.getpid())])",
    }
    program = f"""
import os, signal, subprocess
from cluster import stop_signals
stop_signals.leave_at_once()
with stop_signals.own_interrupts_are_errors():
    {sends[whose] or "pass"}
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    ends = {
        "nobody's": (0, ""),
        "own": (1, f"error: {stop_signals.NO_PROCESSES}\n"),
        "another's": (CONTINUE, "stopped; run the same command again to resume\n"),
    }
    assert (ended.returncode, ended.stderr) == ends[whose]


def now():
    return [signal.getsignal(number) for number in SIGNALS]


def swallowed():
    """As native code that prints an interrupt and goes on."""
    with contextlib.suppress(KeyboardInterrupt):
        send(signal.SIGINT)


def translated():
    """As the viewer's database does."""
    swallowed()
    raise RuntimeError("Query interrupted")


def test_an_interrupt_is_one_whatever_native_code_makes_of_it():
    before = now()
    for work in (lambda: send(signal.SIGINT), swallowed, translated):
        with pytest.raises(KeyboardInterrupt), stop_signals.sure_interrupts():
            work()
    with pytest.raises(ValueError, match="other"), stop_signals.sure_interrupts():
        raise ValueError("other")
    with concurrent.futures.ThreadPoolExecutor(1) as thread, stop_signals.sure_interrupts():
        thread.submit(stop_signals.sure_interrupts().__enter__).result()
    assert now() == before


def test_signals_are_counted_in_their_order_whoever_installs_handlers_meanwhile():
    before = now()
    with stop_signals.counted():
        stop_signals.check()
        handler = signal.getsignal(signal.SIGUSR1)
        assert signal.signal(signal.SIGUSR1, signal.SIG_DFL) is handler, "as Ray does while it starts"
        with concurrent.futures.ThreadPoolExecutor(1) as thread, pytest.raises(ValueError, match="main thread"):
            thread.submit(signal.signal, signal.SIGUSR1, signal.SIG_DFL).result()
        signal.signal(signal.SIGUSR2, lambda *_: None)
        assert signal.getsignal(signal.SIGUSR2) is not signal.SIG_DFL, "other signals are others' own"
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.alarm(1000)
            send(number)
            assert signal.alarm(0) == 0, "the alarm of Abseil's handler"
        assert stop_signals.received == [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
        with pytest.raises(StoppedError, match="SIGUSR1"):
            stop_signals.check()
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert now() == before and stop_signals.received == [] and signal.signal.__name__ == "signal"


def test_handlers_that_native_code_has_replaced_are_taken_back():
    with stop_signals.counted():
        stop_signals._install(signal.SIGUSR1, signal.SIG_IGN)
        stop_signals.heed_again()
        send(signal.SIGUSR1)
        assert stop_signals.received == [signal.SIGUSR1]


def test_a_command_that_was_started_to_outlive_its_terminal_heeds_no_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_signals.counted():
        send(signal.SIGHUP)
        assert stop_signals.received == []
    stop_signals.leave_at_once()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_person_s_game_that_was_started_to_outlive_its_terminal_heeds_no_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_signals.raised():
        send(signal.SIGHUP)
        now()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_where_nobody_looks_at_the_count_the_process_leaves_at_once(left):
    with stop_signals.counted():
        with stop_signals.leaving():
            send(signal.SIGUSR1)
            assert left == [CONTINUE] and stop_signals.received == [signal.SIGUSR1]
        send(signal.SIGUSR1)
        assert left == [CONTINUE]
        with pytest.raises(StoppedError), stop_signals.leaving():
            pytest.fail("a signal has arrived before")
    stop_signals.leave_at_once()
    for number in SIGNALS:
        send(number)
    assert left == [CONTINUE] * 5


@pytest.mark.parametrize(("sent", "noticed", "leaves"), [(1, 0, True), (1, 1, False), (2, 1, True), (2, 2, False)])
def test_a_run_that_does_not_notice_a_signal_since_a_game_holds_it_is_ended(sent, noticed, leaves, left, monkeypatch):
    waiting = []

    class Timer:
        def __init__(self, seconds, leave, given):
            assert seconds == stop_signals.NOTICE_SECONDS
            self.leave = lambda: leave(*given)

        def start(self):
            assert self.daemon, "it keeps no process alive"
            waiting.append(self.leave)

    monkeypatch.setattr(stop_signals.threading, "Timer", Timer)
    with stop_signals.counted():
        send(signal.SIGINT)
        stop_signals.received.clear()
        with stop_signals.looking():
            for number in range(sent):
                send(signal.SIGTERM)
                if number < noticed:
                    assert stop_signals.seen() == number + 1
            assert len(waiting) == sent and left == []
            for leave in waiting:
                leave()
            assert left == [CONTINUE] * leaves
        for leave in waiting:  # whoever looked has ended
            leave()
        send(signal.SIGTERM)
    assert left == [CONTINUE] * leaves and len(waiting) == sent


def test_a_run_counts_signals_though_the_process_would_leave_at_them_before(left):
    stop_signals.leave_at_once()
    with stop_signals.counted():
        for number in SIGNALS:
            send(number)
        assert stop_signals.received == list(SIGNALS) and left == []


def test_while_a_person_plays_signals_are_raised():
    before = now()
    for number in SIGNALS:
        with pytest.raises(StoppedError, match=number.name), stop_signals.raised():
            send(number)
    assert now() == before


@pytest.mark.parametrize("ends", ["by itself", "cancelled", "as the signal comes"])
async def test_work_is_cancelled_by_a_signal_and_a_second_one_leaves_at_once(ends, left):
    before = now()

    async def work():
        if ends != "by itself":
            send(signal.SIGTERM)
            assert left == []
            send(signal.SIGINT)
        if ends == "cancelled":
            await asyncio.sleep(60)
        return "done"

    if ends == "by itself":
        assert await stop_signals.unless_stopped(work()) == "done" and left == []
    else:
        with pytest.raises(StoppedError, match="SIGTERM"):
            await stop_signals.unless_stopped(work())
        assert left == [CONTINUE]
    assert now() == before


async def test_work_that_is_cancelled_without_a_signal_is_cancelled():
    async def work():
        asyncio.current_task().cancel()
        await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        await stop_signals.unless_stopped(work())


def test_ctrl_c_is_silent_while_modules_are_imported_and_else_what_somebody_else_has_set():
    for handler, silent in ((signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)):
        signal.signal(signal.SIGINT, handler)
        stop_signals.silent_interrupts()
        assert signal.getsignal(signal.SIGINT) is silent
        stop_signals.interruptible()
        assert signal.getsignal(signal.SIGINT) is handler


def test_handlers_are_installed_before_anything_that_takes_time_is_imported():
    checked = "import sys, cluster.stop_signals; sys.exit(len({'asyncio', 'ray', 'numpy', 'yaml'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-S", "-c", checked], cwd=Path(__file__).parents[2], env={})
    assert done.returncode == 0, "Ctrl-C meanwhile would show a traceback, and a stop signal would not be heeded"


def test_a_second_ctrl_c_does_not_disturb_the_end_of_a_command():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with stop_signals.ignored_interrupts():
        send(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)
        now()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_who_leaves_at_once_shows_the_cursor_of_a_terminal_and_speaks_where_the_user_reads(is_terminal, monkeypatch):
    said = []
    monkeypatch.setattr(stop_signals.os, "_exit", lambda code: said.append(code))
    monkeypatch.setattr(stop_signals.os, "isatty", lambda asked: is_terminal and asked == descriptor)
    monkeypatch.setattr(stop_signals.os, "write", lambda descriptor, text: said.append((descriptor, text)))
    words = b"stopped; run the same command again to resume\n"
    for usual in (False, True):
        said.clear()
        descriptor = 2 if usual else 7
        if usual:
            stop_signals._leave(signal.SIGTERM, None)
        else:
            with stop_signals.words_go_to(7):
                stop_signals._leave(signal.SIGTERM, None)
        cursor = [(descriptor, b"\x1b[?25h\n")] if is_terminal else []
        assert said == [*cursor, (descriptor, words), CONTINUE]


def test_a_failure_within_puts_everything_back():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before, install = now(), signal.signal
    for entered in (stop_signals.counted, stop_signals.ignored_interrupts, stop_signals.raised):
        with pytest.raises(KeyError), entered():
            assert now() != before
            raise KeyError
        assert now() == before and signal.signal is install, entered.__name__
    for entered, name in ((stop_signals.leaving, "_leaving"), (lambda: stop_signals.words_go_to(7), "_errors")):
        usual = getattr(stop_signals, name)
        with pytest.raises(KeyError), entered():
            assert getattr(stop_signals, name) != usual
            raise KeyError
        assert getattr(stop_signals, name) == usual


def test_places_of_words_are_nested():
    with stop_signals.words_go_to(7):
        with stop_signals.words_go_to(8):
            assert stop_signals._errors == 8
        assert stop_signals._errors == 7
    assert stop_signals._errors == 2


def test_a_count_begins_with_none(monkeypatch):
    monkeypatch.setattr(stop_signals, "received", [signal.SIGTERM])
    with stop_signals.counted():
        stop_signals.check()
        assert stop_signals.received == []


@pytest.mark.parametrize("signaled", [False, True])
async def test_work_that_fails_says_why_also_after_a_signal(signaled, left):
    before = now()

    async def work():
        if signaled:
            send(signal.SIGTERM)
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        await stop_signals.unless_stopped(work())
    assert now() == before and left == []
