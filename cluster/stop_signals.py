"""Stop signals: whenever one arrives in a run, the process leaves with the exit code of a stopped run.

In a run, no handler raises an exception: one that is raised within a destructor, a callback or the release of a lock is
lost, and the run would go on. Before a run has processes to end, and after it has ended them, a signal ends this process at
once, which the run directory withstands at any moment. In between, signals are counted, and the run looks at the count; a run
that no longer can, since a game holds it, is ended some seconds later.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from cluster.errors import CONTINUE, RUN_FAILED

T = TypeVar("T")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)

NO_PROCESSES = "out of processes: this user or container may have no more of them (`ulimit -u`, a limit of pids)"

SHOW_CURSOR = b"\x1b[?25h\n"
"""For a terminal on which a live display has hidden it; what the display shows is left above."""
_errors = 2
"""The descriptor of standard error, also while others write to something else in its place; see ``words_go_to``."""

received: list[int] = []
"""Signals within ``counted``."""
NOTICE_SECONDS = 10.0
"""So long whoever looks for signals may not notice one."""
_looking = False
"""Whether somebody looks at the count all the time; see ``looking``."""
_seen = 0
"""How many of the signals have been noticed."""
_install = signal.signal
"""As it is before ``counted`` replaces it."""
_leaving = False
"""Whether a signal within ``counted`` ends this process at once; see ``leaving``."""


class StoppedError(BaseException):
    """A stop signal has arrived before the driver began to play, or in a person's game."""


def leave_at_once() -> None:
    """From now on, end this process when a stop signal arrives."""
    for number in _heeded():
        signal.signal(number, _leave)


@contextmanager
def own_interrupts_are_errors() -> Iterator[None]:
    """Within it, a SIGINT that a library sends this process is no stop: OpenBLAS does so where it can start no threads.

    One of somebody else counts as soon as it is left.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
        waiting = signal.sigtimedwait({signal.SIGINT}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if waiting is None:
        return
    if waiting.si_pid != os.getpid():
        os.kill(os.getpid(), signal.SIGINT)
        return
    with suppress(OSError):
        os.write(_errors, f"error: {NO_PROCESSES}\n".encode())
    os._exit(RUN_FAILED)


def silent_interrupts() -> None:
    """Have Ctrl-C end this process without words until ``interruptible`` is called; imports would show a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def interruptible() -> None:
    """From now on, Ctrl-C raises ``KeyboardInterrupt`` again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Do not heed Ctrl-C while a command ends that Ctrl-C has ended: people press it twice."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def sure_interrupts() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at the latest at the end if Ctrl-C was pressed within.

    Native code may turn it into an error of its own (the viewer's database), or print it and go on.
    """
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_heeded or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = threading.Event()

    def press(number: int, frame: FrameType | None) -> None:
        pressed.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, press)
    try:
        yield
    except Exception:
        if pressed.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed.is_set():
        raise KeyboardInterrupt


@contextmanager
def counted() -> Iterator[None]:
    """Only count stop signals; nobody else can install handlers for them meanwhile, as Ray does while it starts."""
    real = signal.signal

    def install(number: int, handler: Any) -> Any:
        if number in SIGNALS and threading.current_thread() is threading.main_thread():
            return signal.getsignal(number)
        return real(number, handler)

    received.clear()
    before = {number: real(number, _count) for number in _heeded()}
    signal.signal = install  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = real
        received.clear()
        for number, handler in before.items():
            real(number, handler)


def heed_again() -> None:
    """Within ``counted``, take back the handlers that native code has replaced, which Python does not see.

    Ray's, from Abseil, prints a stack on SIGTERM, calls ours, and aborts the process three seconds later.
    """
    for number in _heeded():
        _install(number, _count)


@contextmanager
def leaving() -> Iterator[None]:
    """Within ``counted``, end this process when a stop signal arrives, as nobody looks at the count for a while.

    Raises:
        StoppedError: a signal has arrived before.
    """
    global _leaving
    check()
    _leaving = True
    try:
        yield
    finally:
        _leaving = False


@contextmanager
def looking() -> Iterator[None]:
    """Within ``counted``: the caller asks ``seen`` several times a second.

    If it does not, since a game holds the thread of its event loop, this process ends some seconds after a signal.
    """
    global _looking, _seen
    _looking, _seen = True, 0
    try:
        yield
    finally:
        _looking = False


def seen() -> int:
    """How many signals have arrived, for one who is ``looking``."""
    global _seen
    _seen = len(received)
    return _seen


@contextmanager
def raised() -> Iterator[None]:
    """Raise ``StoppedError`` on stop signals: only while a person plays, or a file system is tried, to end a long wait."""

    def stop(number: int, frame: object) -> None:
        raise StoppedError(signal.Signals(number).name)

    with _handled_by(stop):
        yield


async def unless_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Await work and cancel it on a stop signal; a second one ends this process at once.

    An exception that a handler raises can be lost in the event loop, and its tasks would be cancelled in any order.
    The loop notices a signal when it next wakes, which a server makes it do ten times a second.

    Raises:
        StoppedError: a signal has arrived, and the work has ended.
    """
    import asyncio  # not above: handlers are installed before anything that takes time is imported

    loop = asyncio.get_running_loop()
    working = loop.create_task(work)
    names: list[str] = []

    def stop(number: int, frame: object) -> None:
        if names:
            _leave(number, frame)
        names.append(signal.Signals(number).name)
        loop.call_soon_threadsafe(working.cancel)

    with _handled_by(stop):
        await asyncio.wait([working])
    if working.cancelled() and names:
        raise StoppedError(names[0])
    result = working.result()
    # The work was ending when the signal came.
    if names:
        raise StoppedError(names[0])
    return result


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _heeded()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _heeded() -> list[signal.Signals]:
    """The stop signals; not SIGHUP where the command was started to outlive its terminal (``nohup``)."""
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in SIGNALS if number != signal.SIGHUP or not outlives]


def check() -> None:
    """See that no stop signal has arrived.

    Raises:
        StoppedError: one has.
    """
    if received:
        raise StoppedError(signal.Signals(received[0]).name)


@contextmanager
def words_go_to(descriptor: int) -> Iterator[None]:
    """Say that the process ends on this descriptor: what an engine prints while it starts is not shown."""
    global _errors
    before, _errors = _errors, descriptor
    try:
        yield
    finally:
        _errors = before


def _leave(number: int, frame: object) -> None:
    with suppress(OSError):  # its reader may have been stopped, too
        if os.isatty(_errors):
            os.write(_errors, SHOW_CURSOR)
        os.write(_errors, b"stopped; run the same command again to resume\n")
    os._exit(CONTINUE)


def _count(number: int, frame: object) -> None:
    received.append(number)
    signal.alarm(0)  # that of Abseil's handler, if the signal came before ``heed_again``
    if _leaving:
        _leave(number, frame)
    if _looking:
        watch = threading.Timer(NOTICE_SECONDS, _leave_unless_seen, [len(received), number])
        watch.daemon = True
        with suppress(RuntimeError):  # out of processes: no handler raises an exception
            watch.start()


def _leave_unless_seen(count: int, number: int) -> None:
    if _looking and _seen < count:
        _leave(number, None)
