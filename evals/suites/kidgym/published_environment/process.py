"""The published environment in a process of its own: its games as values, whatever happens to the process."""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evals.suites.kidgym.published_environment.worker import PATIENCE

WORKER: Final = Path(__file__).with_name("worker.py")
_MOST_ANSWER: Final = 32 * 2**20
"""Bytes of one line."""
_GRACE: Final = 15.0
"""Seconds that an answer may be late before the process is ended from outside."""
_START: Final = 60.0
_READ_OUT: Final = 2.0
"""Seconds that an ended process's last words may take to be read; its games may hold the pipe."""
_TRIES: Final = 4
"""Of an action whose process ends meanwhile, though not by this action."""
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "VIRTUAL_ENV")
"""Of the environment variables: the checkout's code sees no keys."""


class PublishedEnvironmentError(Exception):
    """The published environment cannot be started, refuses a request, or gives no answer in time."""


class CannotStartError(PublishedEnvironmentError):
    """The process does not start: what it needs of this machine is missing."""


class _EndedError(PublishedEnvironmentError):
    """The process is gone, and all its games with it."""

    def __init__(self, message: str, ended_by: int = 0) -> None:
        """``ended_by``: the signal, 0 where it ended by itself or is not asked any more."""
        super().__init__(message)
        self.ended_by = ended_by


@dataclass(frozen=True)
class Seen:
    """What the environment shows at one step."""

    goal: str
    actions: tuple[str, ...]
    picture: bytes
    """A PNG file."""
    step: int
    """From 1."""
    budget: int
    accepted: bool = True
    """Whether the last action could be performed."""
    success: bool = False
    terminated: bool = False
    truncated: bool = False

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        return self.terminated or self.truncated


class EnvironmentProcess:
    """A process that plays many games, one request at a time; started when it is needed, and again when it has died.

    Args:
        checkout: The published repository.
        python: Interpreter in which the packages that the checkout needs are installed.
        seconds: Processor time for one request at most.
    """

    def __init__(self, checkout: str, python: str, seconds: int) -> None:
        self.checkout, self.python, self.seconds = checkout, python, seconds
        self.about: dict[str, str] = {}
        """Versions that the process runs with, once it has started."""
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._names = itertools.count()

    def game(self, task: str, level: int, seed: int, number: int) -> PublishedGame:
        """A game that is not open yet; ``number`` chooses the layout of mazes."""
        return PublishedGame(self, f"{task}_L{level}", seed, number, str(next(self._names)))

    def ask(
        self, request: dict[str, Any], start: int | None = None, given_up: threading.Event | None = None
    ) -> tuple[dict[str, Any], int]:
        """The answer to a request, and by which start of the process it was given.

        Args:
            request: See ``worker.py``.
            start: The start that the request's game was opened in.
            given_up: Set once nobody waits for the answer any more.

        Raises:
            PublishedEnvironmentError: the environment refuses, or is too slow, or died; or it was started again since.
        """
        with self._lock:
            runs = self._process is not None and self._process.poll() is None
            if not runs:
                self._check_wanted(given_up)
                self._start()
            self._check_wanted(given_up)
            # The games of an earlier start died with its process.
            if start is not None and start != self.starts:
                raise _EndedError(f"{self.checkout}: the environment was started again")
            line = json.dumps(request).encode() + b"\n"
            answer = self._exchange(line, PATIENCE * self.seconds + _GRACE)
        if "error" in answer:
            said = _printable(str(answer["error"])[:300])
            raise PublishedEnvironmentError(f"{self.checkout}: {said}")
        return answer, self.starts

    def _check_wanted(self, given_up: threading.Event | None) -> None:
        if given_up is not None and given_up.is_set():
            raise _EndedError(f"{self.checkout}: the game was given up")

    def start(self) -> None:
        """Start the process now.

        Raises:
            PublishedEnvironmentError: it cannot be started (``CannotStartError``), or is ended meanwhile.
        """
        with self._lock:
            self._start()

    def forget(self, name: str, start: int) -> None:
        """Close a game, unless its process has ended; see ``ask``."""
        with self._lock:
            runs = self._process is not None and self._process.poll() is None
            if runs and start == self.starts:
                self._exchange(json.dumps({"close": name}).encode() + b"\n", PATIENCE * self.seconds + _GRACE)

    def kill(self) -> None:
        """End the process at once, also while a thread waits for its answer; open games can be played again."""
        process = self._process
        if process is not None:
            _kill(process)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._end()
        try:
            self._process = subprocess.Popen(
                [self.python, str(WORKER), self.checkout, str(self.seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**variables, "PYTHONHASHSEED": "0", "SDL_VIDEODRIVER": "dummy"},
                start_new_session=True,  # Ctrl-C in a terminal stops the run, which lets the games in play finish
            )
        except OSError as error:
            raise CannotStartError(f"{self.python}: cannot be run ({error.strerror})") from error
        self._complaints = _LastLines(self._process)
        self.starts += 1
        try:
            ready = self._exchange(b"", _START + _GRACE)
        except _EndedError as error:
            if error.ended_by:
                raise
            raise CannotStartError(str(error)) from error
        if ready.get("ready") != "kidgym":
            self._end()
            raise CannotStartError(f"{self.python}: is no Python interpreter")
        self.about = {name: str(ready.get(name)) for name in ("python", "gymnasium")}

    def _exchange(self, request: bytes, seconds: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin and process.stdout
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            _kill(process)

        late = threading.Timer(seconds, end)
        late.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            line = process.stdout.readline(_MOST_ANSWER)
            answer = json.loads(line) if line else None
        except (OSError, ValueError, RecursionError):
            answer = None
        finally:
            late.cancel()
        if isinstance(answer, dict):
            return answer
        ended_by = self._end()
        if is_late.is_set() or ended_by in (signal.SIGALRM, signal.SIGPROF):
            raise _EndedError(f"{self.checkout}: no answer within {self.seconds} seconds", ended_by or signal.SIGKILL)
        if ended_by == signal.SIGKILL:
            raise _EndedError(f"{self.checkout}: the environment was killed, perhaps for want of memory", ended_by)
        said = self._complaints.last_line()
        because = f" ({said})" if said else ""
        raise _EndedError(f"{self.checkout}: the environment ended{because}; run by {self.python}", ended_by)

    def _end(self) -> int:
        """End the process; returns the signal that had ended it before, 0 if none had."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()
            return 0
        return max(0, -process.returncode)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process together with its games, which are processes of its session and hold its pipes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _LastLines:
    """Reads what a process writes to its standard error, so that it never waits, and keeps the last line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._last = ""
        self._process = process
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def last_line(self) -> str:
        """The last line of a process that has ended: all is read first, unless another process keeps the pipe open."""
        self._reader.join(_READ_OUT)
        return self._last

    def _read(self) -> None:
        assert self._process.stderr
        with self._process.stderr as pipe:
            while line := pipe.readline(4096):
                if text := line.decode(errors="replace").strip():
                    self._last = "".join(c for c in text if c.isprintable())[:300]


class PublishedGame:
    """One game; it survives the death of its process, since it can be played again up to where it was."""

    def __init__(self, process: EnvironmentProcess, task: str, seed: int, number: int, name: str) -> None:
        self._process, self._name = process, name
        self._opening = {"open": name, "task": task, "seed": seed, "number": number}
        self._taken: list[int] = []
        self._start: int | None = None
        self._given_up = threading.Event()

    def open(self) -> Seen:
        """Begin.

        Raises:
            PublishedEnvironmentError: there is no such game, or it cannot be made in time.
        """
        answer, self._start = self._process.ask(self._opening, given_up=self._given_up)
        return _seen(answer)

    def step(self, action: int) -> Seen:
        """Take an action.

        Raises:
            PublishedEnvironmentError: the environment fails or takes too long.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                answer, _ = self._process.ask({"step": self._name, "action": action}, self._start, self._given_up)
                break
            except _EndedError:
                # This very action ended it, or others end it again and again.
                if self._process.starts == self._start or not tries_left:
                    raise
            with contextlib.suppress(_EndedError):  # another game has ended it once more
                self._play_again()
        self._taken.append(action)
        return _seen(answer)

    def _play_again(self) -> None:
        """In a process that was started again, up to where the game was."""
        self.open()
        for taken in self._taken:
            self._process.ask({"step": self._name, "action": taken}, self._start, self._given_up)

    def give_up(self) -> None:
        """End the wait of a thread that plays the game, with the process, in which other games can be played again."""
        self._given_up.set()
        self._process.kill()

    def close(self) -> None:
        """Forget the game."""
        with contextlib.suppress(PublishedEnvironmentError):
            if self._start is not None:
                self._process.forget(self._name, self._start)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _seen(answer: dict[str, Any]) -> Seen:
    """An answer of the worker, checked: it comes from code that is not ours."""
    try:
        goal, actions = answer["goal"], answer["actions"]
        are_texts = isinstance(actions, list) and all(isinstance(one, str) for one in actions)
        if not isinstance(goal, str) or not are_texts:
            raise ValueError("goal and actions must be texts")
        flags = {name: bool(answer.get(name, False)) for name in ("success", "terminated", "truncated")}
        return Seen(
            goal,
            tuple(actions),
            base64.b64decode(answer["picture"], validate=True),
            int(answer["step"]),
            int(answer["budget"]),
            bool(answer.get("accepted", True)),
            **flags,
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise PublishedEnvironmentError(f"the environment's answer has not the expected form ({error!r})") from error
