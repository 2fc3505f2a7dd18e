"""Plays the published environment in a process of its own, by the interpreter that the user has it installed in.

Run as ``python worker.py CHECKOUT SECONDS`` by ``process.py``; needs Python 3.9 and what the checkout needs. Requests and
answers are lines of JSON; a picture is the base64 of a PNG file.

    -> {"open": "7", "task": "MA_L2", "seed": 1, "number": 12}      <- {"goal": ..., "actions": [...], "picture": ..., ...}
    -> {"step": "7", "action": 0}                                   <- the same, with "accepted", "success", "over"
    -> {"close": "7"}                                               <- {}

A request that takes more than SECONDS of processor time, or four times that by the clock, ends its game (some of the
published mazes are generated for ever).
"""

from __future__ import annotations

import base64
import io
import json
import os
import random
import signal
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

PATIENCE = 4
"""By the clock, for each second of processor time: the machine may be busy."""
LAYOUTS = 100
"""The published mazes: the n-th reset of a task uses the n-th layout."""


class Game:
    """One open game, in a process of its own; every method is called there but those of ``GameProcess``."""

    def __init__(self) -> None:
        self.steps = 0
        self.environment: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open the game, or take an action in it."""
        if "open" in request:
            return self._open(request["task"], request["seed"], request["number"])
        return self._step(request["action"])

    def _open(self, task: str, seed: int, number: int) -> dict[str, Any]:
        import gymnasium
        import numpy

        self.environment = gymnasium.make(task).unwrapped
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        if hasattr(self.environment, "iter"):
            self.environment.iter = number % LAYOUTS
        return self._seen(first(self.environment.reset()))

    def _step(self, action: int) -> dict[str, Any]:
        picture, _, terminated, truncated, info = self.environment.step(action)
        self.steps += 1
        return {
            **self._seen(picture),
            "accepted": bool(info["step_success"]),
            "success": bool(info["task_success"]),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
        }

    def _seen(self, picture: Any) -> dict[str, Any]:
        return {
            "goal": str(self.environment.goal),
            "actions": [str(action) for action in self.environment.actions],
            "picture": base64.b64encode(png(picture)).decode("ascii"),
            "step": self.steps + 1,
            "budget": int(self.environment.max_steps),
        }


class GameProcess:
    """A copy of this process, made before any game was played in it, which plays one game.

    The published code shuffles lists that its modules share, so a game depends on the games before it in the same process.
    A copy for each game makes a game depend on its seed alone, and a game that hangs or dies costs only itself.

    Args:
        seconds: See the module.
        others: The open games, whose pipes the copy must not hold.
    """

    def __init__(self, seconds: int, others: Iterable[GameProcess]) -> None:
        self.seconds = seconds
        theirs, self.requests = os.pipe()
        self.answers, ours = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            inherited = [self.requests, self.answers]
            for other in others:
                inherited += [other.requests, other.answers]
            for pipe in inherited:
                os.close(pipe)
            play(seconds, os.fdopen(theirs), os.fdopen(ours, "w"))
            os._exit(0)
        os.close(theirs)
        os.close(ours)
        self.lines = os.fdopen(self.answers)

    def ask(self, line: str) -> str:
        """The answer to a request as a line; one with an error if the game has ended."""
        try:
            os.write(self.requests, line.encode())
            answer = self.lines.readline()
        except BrokenPipeError:
            answer = ""
        return answer or json.dumps({"error": f"the game ended: {self._cause()}"}) + "\n"

    def _cause(self) -> str:
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        code = os.waitstatus_to_exitcode(status)
        timed_out = -code in (signal.SIGALRM, signal.SIGPROF)
        return f"no answer within {self.seconds} seconds" if timed_out else f"exit code {code}"

    def close(self) -> None:
        """End the game's process."""
        os.close(self.requests)
        self.lines.close()
        if self.process:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def play(seconds: int, requests: Iterable[str], answers: TextIO) -> None:
    """Answer the requests of one game."""
    game = Game()
    for line in requests:
        limit(seconds)
        try:
            answer = game.answer(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        limit(0)
        tell(answers, json.dumps(answer) + "\n")


def tell(answers: TextIO, line: str) -> None:
    """Write an answer at once."""
    answers.write(line)
    answers.flush()


def first(returned: Any) -> Any:
    """What a reset shows: some versions return it alone, some with a dictionary."""
    return returned[0] if isinstance(returned, tuple) else returned


def png(pixels: Any) -> bytes:
    """The file of an array of pixels, in the environment's own colors and transparency."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


def limit(seconds: int) -> None:
    """End this process after so many seconds from now; 0 for never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(PATIENCE * seconds)


def serve(checkout: str, seconds: int, requests: Iterable[str], answers: TextIO) -> None:
    """Answer requests until there are no more."""
    sys.path.insert(0, checkout)
    try:
        import tkinter  # noqa: F401 - the published code imports a name from it that it does not use
    except ImportError:
        stand_in = types.ModuleType("tkinter")
        stand_in.__dict__["N"] = "n"
        sys.modules["tkinter"] = stand_in
    signal.alarm(60)
    import gymnasium
    import tasks  # type: ignore[import-not-found]  # noqa: F401 - of the checkout: registers the environments

    signal.alarm(0)
    ready = {"ready": "kidgym", "python": sys.version.split()[0], "gymnasium": gymnasium.__version__}
    tell(answers, json.dumps(ready) + "\n")
    games: dict[str, GameProcess] = {}
    for line in requests:
        request = json.loads(line)
        if "close" in request:
            closed = games.pop(request["close"], None)
            if closed is not None:
                closed.close()
            tell(answers, "{}\n")
            continue
        if "open" in request:
            games[request["open"]] = GameProcess(seconds, games.values())
        name = request.get("open", request.get("step"))
        unknown = json.dumps({"error": f"there is no open game {name}"}) + "\n"
        tell(answers, games[name].ask(line) if name in games else unknown)
    for game in games.values():
        game.close()


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).resolve().parent)]
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the environment prints; only answers go to the pipe
    serve(sys.argv[1], int(sys.argv[2]), sys.stdin, own)
