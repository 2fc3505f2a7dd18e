"""Plays the published environment in a process of its own, by the interpreter that the user has it installed in.

Run as ``python worker.py CHECKOUT SECONDS`` by ``process.py``; needs Python 3.9 and what the checkout needs. Requests and
answers are lines of JSON; a picture is the base64 of a PNG file.

    -> {"open": "7", "task": "MA_L2", "seed": 1, "number": 12}      <- {"goal": ..., "actions": [...], "picture": ..., ...}
    -> {"step": "7", "action": 0}                                   <- the same, with "accepted", "success", "over"
    -> {"close": "7"}                                               <- {}

A request that takes more than SECONDS of processor time, or four times that by the clock, ends the process (some of the
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


class Games:
    """Open games by name; each keeps the state of the global generators, so that games do not disturb one another."""

    def __init__(self) -> None:
        self.games: dict[str, list[Any]] = {}

    def open(self, name: str, task: str, seed: int, number: int) -> dict[str, Any]:
        """Begin a game."""
        import gymnasium
        import numpy

        game = gymnasium.make(task).unwrapped
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        if hasattr(game, "iter"):
            game.iter = number % LAYOUTS
        picture = first(game.reset())
        self.games[name] = [game, 0, None]
        self._keep(name)
        return self._seen(name, picture)

    def step(self, name: str, action: int) -> dict[str, Any]:
        """Take an action."""
        import numpy

        game, steps, (python, arrays) = self.games[name]
        random.setstate(python)
        numpy.random.set_state(arrays)
        picture, _, terminated, truncated, info = game.step(action)
        self.games[name][1] = steps + 1
        self._keep(name)
        answer = self._seen(name, picture)
        answer["accepted"], answer["success"] = bool(info["step_success"]), bool(info["task_success"])
        answer["terminated"], answer["truncated"] = bool(terminated), bool(truncated)
        return answer

    def _keep(self, name: str) -> None:
        import numpy

        self.games[name][2] = (random.getstate(), numpy.random.get_state())

    def _seen(self, name: str, picture: Any) -> dict[str, Any]:
        game, steps, _ = self.games[name]
        return {
            "goal": str(game.goal),
            "actions": [str(action) for action in game.actions],
            "picture": base64.b64encode(png(picture)).decode("ascii"),
            "step": steps + 1,
            "budget": int(game.max_steps),
        }


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
    """End the process after so many seconds from now; 0 for never."""
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
    games = Games()

    def tell(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    signal.alarm(60)
    import gymnasium
    import tasks  # type: ignore[import-not-found]  # noqa: F401 - of the checkout: registers the environments

    signal.alarm(0)
    tell({"ready": "kidgym", "python": sys.version.split()[0], "gymnasium": gymnasium.__version__})
    for line in requests:
        request = json.loads(line)
        limit(seconds)
        try:
            if "open" in request:
                answer = games.open(request["open"], request["task"], request["seed"], request["number"])
            elif "step" in request:
                answer = games.step(request["step"], request["action"])
            else:
                games.games.pop(request["close"], None)
                answer = {}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        limit(0)
        tell(answer)


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).resolve().parent)]
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the environment prints; only answers go to the pipe
    serve(sys.argv[1], int(sys.argv[2]), sys.stdin, own)
