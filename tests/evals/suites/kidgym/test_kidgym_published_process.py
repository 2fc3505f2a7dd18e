"""What the process of the published environment, its worker and its recordings do, with stand-ins for what they start."""

import base64
import dataclasses
import io
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from envs.file_picture import FilePicture
from evals.suites.kidgym.published_environment import process, worker
from evals.suites.kidgym.published_environment.plan import planned_games
from evals.suites.kidgym.published_environment.process import EnvironmentProcess, PublishedEnvironmentError, Seen
from evals.suites.kidgym.published_environment.recording import (
    RecordedGame,
    Recording,
    checkout_digest,
    game_fingerprint,
    read_recording,
)
from tests.golden import check_golden, plain

READY = '{"ready": "kidgym", "python": "3.11", "gymnasium": "1.0", "more": 1}'
SEEN = {
    "goal": "Go.",
    "actions": ["left", "right"],
    "picture": base64.b64encode(b"png").decode(),
    "step": 1,
    "budget": 3,
}
ENDED = {"accepted": False, "success": True, "terminated": 1, "truncated": True}


def said_by(**changed):
    return json.dumps({name: value for name, value in {**SEEN, **changed}.items() if value is not None})


class Started:
    """Stands for a process that answers these lines; a number is the code that it ends with, None that it hangs."""

    def __init__(self, said, answers):
        self.said, self.answers, self.returncode = said, list(answers), None
        self.stdin = self.stdout = self
        self.stderr = io.BytesIO(b"first\n  the last\x1b words" + b"!" * 400 + b"\n \n")

    def write(self, line):
        self.said(f"asked: {line.decode()!r}")
        if self.answers[0] == "broken":
            self.answers.pop(0)
            raise BrokenPipeError

    def flush(self):
        self.said("flushed")

    def readline(self, most):
        assert most == 2**25
        return self.answers.pop(0).encode() if isinstance(self.answers[0], str) else b""

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        if timeout and self.answers[0] is None:
            raise subprocess.TimeoutExpired("worker", timeout)
        self.returncode = self.returncode or self.answers[0]
        self.said(f"waited {timeout}: {self.returncode}")

    def kill(self):
        self.said("killed")
        self.returncode = -9

    def close(self):
        self.said("closed")
        raise OSError


class Thread:
    """Runs at once what a thread or a timer would."""

    def __init__(self, target, daemon):
        self.start = target

    def join(self, timeout):
        pass


def timer(said):
    def after(seconds, function):
        said(f"{function.__name__} after {seconds:g} s")
        return SimpleNamespace(start=lambda: None, cancel=lambda: said("in time"))

    return after


def test_a_process_is_started_asked_and_ended_as_on_record(monkeypatch):
    parts = []
    starts = [
        FileNotFoundError(2, "No such file or directory"),
        ["?", 3],
        ["[1]", 0],
        ["", -signal.SIGPROF],
        ['{"ready": "other"}', None],
        [
            READY,
            said_by(),
            said_by(step=2, **ENDED),
            '{"error": "KeyError:\\u001b no %s"}' % ("x" * 400),
            said_by(),
            "{}",
            0,
        ],
        [READY, "1", -signal.SIGALRM],
        [READY, said_by(), "broken", -signal.SIGKILL],
        [READY, said_by(goal="Again."), said_by(step=2), 1],
        [READY, *(said_by(step=step) for step in (1, 2, 3)), "", 1],
        [READY, 1],
    ]

    def start(command, stdin, stdout, stderr, env, start_new_session):
        assert (stdin, stdout, stderr) == (subprocess.PIPE,) * 3 and start_new_session
        parts.append(f"start {command[0]} {Path(command[1]).name} {command[2:]} {env}")
        answers = starts.pop(0)
        if isinstance(answers, OSError):
            raise answers
        return Started(parts.append, answers)

    def tried(function, *given):
        try:
            parts.append(f"= {plain(function(*given))}")
        except PublishedEnvironmentError as error:
            parts.append(f"! {error}")

    found = {name: name.lower() for name in ("PATH", "HOME", "LANG", "TMPDIR", "OPENAI_API_KEY", "SDL_VIDEODRIVER")}
    monkeypatch.setattr(process, "os", SimpleNamespace(environ=found))
    monkeypatch.setattr(process, "_kill", Started.kill)
    monkeypatch.setattr(process.subprocess, "Popen", start)
    kept = {name: getattr(process.threading, name) for name in ("Lock", "Event")}
    threads = SimpleNamespace(Thread=Thread, Timer=timer(parts.append), **kept)
    monkeypatch.setattr(process, "threading", threads)
    environment = EnvironmentProcess("theirs", "py", 7)
    for _ in range(5):
        tried(environment.start)
    parts.append(
        "\n# Two games: the first is refused something, the second is slow at its first action and dies at its next"
    )
    first, second, third = (environment.game("MA", number, number + 40, number) for number in (1, 2, 3))
    tried(first.open)
    parts.append(f"{environment.about} {environment.starts}")
    tried(first.step, 1)
    tried(first.step, 0)
    tried(second.open)
    parts.append("\n# Closed, opened again by another start; it dies")
    first.close()
    environment.close()
    third.close()
    tried(second.step, 5)
    tried(second.step, 5)
    parts.append("\n# A game goes on in another start where it was, until its own action ends the process")
    tried(second.step, 6)
    environment.close()
    tried(second.step, 7)
    tried(second.step, 8)
    second.close()
    parts.append("\n# Answers that are none")
    environment.close()
    odd = (
        *({name: None} for name in SEEN),
        *(
            {"goal": 1},
            {"actions": "left"},
            {"actions": ["left", 1]},
            {"actions": []},
            {"picture": "?"},
            {"picture": 1},
        ),
        *({"step": "x"}, {"budget": "9"}, {"success": 1, "accepted": 0}),
    )
    starts[:] = [[READY, *(said_by(**each) for each in odd), 0]]
    for each in odd:
        parts.append(f"{each}")
        tried(environment.game("CL", 1, 0, 0).open)
    check_golden("kidgym_published_process", "\n".join(parts))


# --- the worker ------------------------------------------------------------------------------------------------------

LIMITS: list[str] = []
GAMES: list[worker.GameProcess] = []
"""Those that are open."""
PROCESSES: list[int] = []


class Counted(worker.GameProcess):
    """A game that is counted as long as it is open."""

    def __init__(self, *given):
        GAMES.append(self)
        super().__init__(*given)
        PROCESSES.append(self.process)

    def close(self):
        GAMES.remove(self)
        super().close()


def is_held(pipe):
    try:
        os.fstat(pipe)
    except OSError:
        return False
    return True


class Door:
    """A game whose goal tells how it was drawn and which limits were set; each action does something else."""

    max_steps = 4.0

    def __init__(self, name):
        self.name, self.unwrapped, self.actions = name, self, [1, "two"]
        if name != "CL_L1":
            self.iter = 5

    def reset(self):
        drawn = f"{random.randrange(1000)} {np.random.randint(1000)} {getattr(self, 'iter', None)}"
        held = [is_held(pipe) for game in GAMES for pipe in (game.requests, game.answers)]
        self.goal = f"{drawn}, pipes of the worker: {held}, {LIMITS}"
        picture = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
        return (picture, {}) if self.name == "SE_L1" else picture

    def step(self, action):
        self.goal = f"{LIMITS}"
        if action == 3:
            raise KeyError("gone")
        if action == 4:
            os._exit(3)
        if action == 5:
            os.kill(os.getpid(), signal.SIGPROF)
        info = {"step_success": np.bool_(action != 1), "task_success": int(action == 2)}
        return np.zeros((1, 1, 3), np.uint8), 0.5, action == 2, action == 1, info


class Noted(io.StringIO):
    """Keeps how often it was flushed."""

    flushed = 0

    def flush(self):
        self.flushed += 1


def request(what, name, *more):
    keys = {"open": ("task", "seed", "number"), "step": ("action",), "close": ()}[what]
    return json.dumps({what: name, **dict(zip(keys, more, strict=True))}) + "\n"


def test_the_worker_answers_as_on_record(monkeypatch):
    LIMITS[:], GAMES[:], PROCESSES[:] = [], [], []
    monkeypatch.setattr(worker, "GameProcess", Counted)
    limited = {"setitimer": lambda kind, seconds: LIMITS.append(f"{kind} {seconds}"), "alarm": LIMITS.append}
    numbers = {name: getattr(signal, name) for name in ("SIGALRM", "SIGPROF", "SIGKILL")}
    monkeypatch.setattr(worker, "signal", SimpleNamespace(ITIMER_PROF="cpu", **limited, **numbers))
    gymnasium = ModuleType("gymnasium")
    gymnasium.make, gymnasium.__version__ = Door, "1.0"
    for name, module in {"gymnasium": gymnasium, "tasks": ModuleType("tasks"), "tkinter": None}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    asked = [
        *(
            request("open", name, task, seed, number)
            for name, task, seed, number in (("0", "CL_L1", 2**33 - 5, 1), ("1", "MA_L2", 4, 250))
        ),
        *(request("step", "0", action) for action in (0, 1, 3, 2)),
        *(request("step", name, 0) for name in ("9", "1")),
        *(request("close", name) for name in ("9", "0")),
        request("step", "0", 0),
        request("open", "2", "SE_L1", 4, 99),
        request("step", "2", 5),
        request("step", "1", 4),
        request("close", "1"),
    ]
    answers = Noted()
    worker.serve("theirs", 7, asked, answers)
    parts = [f"{sys.path[0]} {sys.modules['tkinter'].N} {answers.flushed}"]
    for line, answer in zip(["", *asked], answers.getvalue().splitlines(), strict=True):
        told = json.loads(answer)
        if "picture" in told:
            image = Image.open(io.BytesIO(base64.b64decode(told["picture"])))
            told["picture"] = f"{image.format} {image.mode} {np.asarray(image).tolist()}"
        if "python" in told:
            told["python"] = told["python"] == sys.version.split()[0]
        parts += [f"-> {line.strip()}", f"<- {json.dumps(told)}"]
    assert not GAMES and len(PROCESSES) == 3
    for ended in PROCESSES:
        with pytest.raises(ChildProcessError):
            os.waitpid(ended, os.WNOHANG)
    check_golden("kidgym_published_worker", "\n".join(parts))


# --- recordings ------------------------------------------------------------------------------------------------------

GAME = {
    "task": "CL",
    "level": 1,
    "index": 0,
    "seed": 5,
    "goal": "Go.",
    "actions": ["a", "b"],
    "picture": "d1",
    "budget": 3,
}
GAME |= {"error": ""}
ABOUT = {"checkout": "c0", "seconds": 7, "versions": {}}


def test_recordings_are_read_told_apart_and_refused_as_on_record(tmp_path):
    parts = []
    cases = [
        (ABOUT, [{**GAME, "index": 2}, {**GAME, "level": 2}, {**GAME, "index": 1, "error": "slow", "actions": []}]),
        (None, []),
        ({"seconds": 7}, []),
        ({"checkout": "c0"}, []),
        ({**ABOUT, "seconds": "x"}, []),
        ([], []),
        (ABOUT, None),
        *((ABOUT, [GAME, {key: value for key, value in GAME.items() if key != name}]) for name in GAME),
        *(
            (ABOUT, [{**GAME, name: value}])
            for name, value in (("goal", 1), ("actions", ["a", 1]), ("seed", "5"), ("level", True))
        ),
    ]
    for number, (about, games) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        if about is not None:
            (folder / "recording.json").write_text(json.dumps(about))
        if games is not None:
            (folder / "games.jsonl").write_text("".join(json.dumps(game) + "\n" for game in games))
        try:
            found = read_recording(str(folder))
            parts.append(f"{found.folder.name} {found.checkout} {found.seconds}")
            parts += [f"{cell}: {plain(of_cell)}" for cell, of_cell in found.games.items()]
        except ValueError as error:
            parts.append(str(error).replace(str(folder), "FOLDER"))
    game = RecordedGame(**GAME | {"actions": ("a", "b")})
    seen, picture = Seen("Go.", ("a", "b"), b"", 1, 3), FilePicture("", "d1", 4, 3)
    others = [
        Seen("Go!", ("a", "b"), b"", 1, 3),
        Seen("Go.", ("b", "a"), b"", 1, 3),
        Seen("Go.", ("a", "b"), b"", 1, 4),
    ]
    parts.append(f"{game.is_of(seen, picture)} {[game.is_of(other, picture) for other in others]}")
    parts.append(
        f"{game.is_of(Seen('Go.', ('a', 'b'), b'x', 2, 3), picture)} {game.is_of(seen, FilePicture('', 'd2', 4, 3))}"
    )
    parts.append(game_fingerprint(game, read_recording(str(tmp_path / "0"))))
    home = tmp_path / "checkout"
    for name in (
        "src/a.py",
        "src/deep/b.py",
        "tasks/c.py",
        "assets/jsons/d.json",
        "src/a.json",
        "assets/e.json",
        "README.md",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
        parts.append(f"{name}: {checkout_digest(str(home))}")
    (home / "src/a.py").rename(home / "src/z.py")
    parts.append(f"renamed: {checkout_digest(str(home))}")
    check_golden("kidgym_published_recordings", "\n".join(parts))


def test_an_episode_is_of_its_game_and_its_checkout_wherever_the_recording_lies():
    game = RecordedGame(**GAME | {"actions": ("a", "b")})

    def planned(game=game, **of_recording):
        of_recording = {"folder": Path("here"), "checkout": "c0", "seconds": 7} | of_recording
        recording = Recording(games={("CL", 1): (game,)}, **of_recording)
        (episode,) = planned_games("kidgym", recording, ("CL", 1, "cot"), 1, 2.0, "asked", lambda moment: 1.0)
        return episode.id

    assert planned(folder=Path("elsewhere"), seconds=8) == planned()
    others = {"goal": "Stay.", "actions": ("b", "a"), "picture": "d2", "seed": 6, "budget": 4, "error": "slow"}
    changed = {planned(dataclasses.replace(game, **{name: value})) for name, value in others.items()}
    assert len({planned(), planned(checkout="c1")} | changed) == 2 + len(others)
