"""The published environment through our loop: recorded, planned, played, cut off; here a tiny one with the same interface."""

import asyncio
import contextlib
import dataclasses
import errno
import io
import itertools
import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from cluster.cli import main
from envs.file_picture import FilePicture
from envs.picture import picture_from_description
from evals.players import RandomPlayer
from evals.suite import plan_for, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kidgym.published_environment.play import PublishedGameFailed, play_published, process_of
from evals.suites.kidgym.published_environment.process import (
    CannotStartError,
    EnvironmentProcess,
    PublishedEnvironmentError,
    PublishedGame,
    Seen,
    _EndedError,
    _LastLines,
)
from evals.suites.kidgym.published_environment.recording import (
    game_seed,
    read_recording,
    record_game,
    write_recording,
)
from evals.types import CannotPlayNow, PlayerError, Reply
from tests.golden import check_golden

FAKE = '''
import os, random, sys, time
import numpy as np
import gymnasium as gym
from gymnasium.envs.registration import register


DIGITS = list(range(10))  # shared and shuffled in place, like the list of pictures in the published PU


class Door(gym.Env):
    """Press the digit that is the goal; the wrong one is refused, three steps are the most."""

    observation_space = gym.spaces.Box(0, 255, (12, 16, 4), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, name):
        self.name, self.iter, self.max_steps = name, 0, 3
        self.memory = name.startswith("SE")

    def reset(self, *, seed=None, options=None):
        print("printing must not disturb anyone")
        self.iter += 1
        if self.name == "MA_L2" and self.iter == 2:
            while True:
                pass
        if self.name == "SO_L1":
            raise FileNotFoundError("Sorting_L1.json \\x1b[31m")
        self.steps, self.done = 0, False
        random.shuffle(DIGITS)
        self.digit = DIGITS[0] * 10 + int(np.random.randint(0, 10))
        self.goal = f"press {self.digit}"
        self.actions = ["continue"] if self.memory else self._list()
        return self.obs()

    def _list(self):
        found = [f"press {self.digit}", f"press {self.digit + 1}", "hang" if self.name == "CO_L1" else "wait"]
        random.shuffle(found)
        return found

    def obs(self):
        return np.full((12, 16, 4), (self.digit * 2 + self.steps) % 256, np.uint8)

    def step(self, index):
        self.steps += 1
        action = self.actions[index]
        if action == "hang":
            time.sleep(3600)
        good = action in (f"press {self.digit}", "continue")
        won = action == f"press {self.digit}"
        if good and not won:
            self.actions = self._list()
        return self.obs(), 0, won, self.steps >= self.max_steps, {"step_success": good, "task_success": won}


TASK_NAMES = [f"{task}_L{level}" for task in ("CL", "SE", "MA", "SO", "CO") for level in (1, 2, 3)]
for name in TASK_NAMES:
    if name not in gym.registry:
        register(id=name, entry_point="tasks:Door", kwargs={"name": name})
assert "SECRET_OF_THE_TEST" not in os.environ
'''


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "checkout" / "tasks").mkdir(parents=True)
    (tmp_path / "checkout" / "tasks" / "__init__.py").write_text(FAKE)
    return tmp_path / "checkout"


def record(checkout, out, *tasks, levels=("1",), episodes=3, seconds=1):
    with pytest.raises(SystemExit) as end:
        main(
            [
                *("kidgym", "record", str(checkout), str(out), "--tasks", *tasks, "--levels", *levels),
                *("--episodes", str(episodes), "--seconds", str(seconds)),
            ]
        )
    return end.value.code


def suite_of(checkout, out, *tasks, **settings):
    settings = {"levels": [1], "modes": ["zero_shot"], "episodes": 3, "environments": ["published"], **settings}
    return KidGymSuite(tasks=tasks, recording=str(out), checkout=str(checkout), python=sys.executable, **settings)


def play(suite, player, episodes=None):
    async def all_of_them():
        return await asyncio.gather(*(play_episode(suite, one, player) for one in episodes or suite.plan()))

    return asyncio.run(all_of_them())


class Presser:
    """Presses what the goal says."""

    async def reply(self, turn):
        text = "".join(part for part in turn.chat[-1].parts if isinstance(part, str))
        goal = text.split("Goal: ")[-1].splitlines()[0]
        line = next(line for line in text.splitlines() if line.endswith(f") {goal}"))
        return Reply(line[0])


@pytest.mark.slow
def test_games_are_recorded_planned_and_played_with_their_own_pictures_and_actions(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_TEST", "sk-1")
    assert record(checkout, tmp_path / "out", "CL", "SE") == 0
    suite = suite_of(checkout, tmp_path / "out", "CL", "SE")
    assert [(one.task, one.index, one.budget) for one in suite.plan()] == [
        (task, index, 3) for task in ("CL-published", "SE-published") for index in range(3)
    ]
    for record_ in play(suite, Presser()):
        memory = record_.episode.task.startswith("SE")
        assert record_.done and record_.outcome.success, record_.error
        assert (record_.outcome.steps, record_.outcome.extra["forced_steps"]) == ((2, 1) if memory else (1, 0))
        (turn,) = record_.turns
        pictures = [part for part in turn.turn.chat[-1].parts if isinstance(part, FilePicture)]
        assert len(pictures) == (2 if memory else 1)
        pixels = picture_from_description(pictures[-1].description).render()
        assert pixels.shape == (12, 16, 3) and turn.action.startswith("press ")
        assert "press" in "".join(part for part in turn.turn.chat[-1].parts if isinstance(part, str))


@pytest.mark.slow
def test_a_game_that_is_made_for_ever_is_cut_off_and_fails_alone(checkout, tmp_path, capsys):
    start = time.monotonic()
    assert record(checkout, tmp_path / "out", "MA", "SO", levels=("2",), episodes=3) == 1
    games = read_recording(str(tmp_path / "out")).games["MA", 2]
    assert [bool(game.error) for game in games] == [False, True, False] and "within 1 seconds" in games[1].error
    suite = suite_of(checkout, tmp_path / "out", "MA", levels=[2])
    records = play(suite, Presser())
    assert [record_.done for record_ in records] == [True, False, True]
    assert (records[1].error_kind, "within 1 seconds" in records[1].error) == ("suite", True)
    assert time.monotonic() - start < 60
    printed = capsys.readouterr()
    assert "recorded 5 of 6 games" in printed.out and "MA level 2, game 2" in printed.err


async def test_a_game_that_is_stopped_does_not_wait_for_an_environment_that_hangs(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"ready": "kidgym"}\'\nsleep 30\n')
    python.chmod(0o755)
    process = EnvironmentProcess(str(tmp_path), str(python), seconds=100)
    process.start()
    hanging = process._process
    assert os.getsid(hanging.pid) == hanging.pid, "Ctrl-C in a terminal does not reach it"
    game = SimpleNamespace(error="", task="SE", level=1, seed=1, index=0)
    # One asks, and the others wait for it to be answered.
    playing = [asyncio.create_task(play_published(game, None, process, None, None, None)) for _ in range(3)]
    await asyncio.sleep(0.1)
    for each in playing:
        each.cancel()
    ends = await asyncio.gather(*playing, return_exceptions=True)
    assert {type(end) for end in ends} == {asyncio.CancelledError}
    assert hanging.wait(10) == -signal.SIGKILL
    process.kill()  # one that was started for a game which was given up a moment later


def test_a_killed_environment_is_told_as_such_and_none_is_started_to_close_a_game(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"ready": "kidgym"}\'\nsleep 30\n')
    python.chmod(0o755)
    process = EnvironmentProcess(str(tmp_path), str(python), seconds=100)
    process.forget("0", 0)
    assert process.starts == 0, "the game has died with its process"
    process.start()
    threading.Timer(0.1, process.kill).start()  # as the system does that lacks memory
    with pytest.raises(PublishedEnvironmentError, match="was killed, perhaps for want of memory"):
        process.ask({"open": "1"})


STARTS = '#!/bin/sh\necho \'{"ready": "kidgym"}\'\n'
ENDS = f"{STARTS}sed -u 's/.*/no answer/'\n"
WORDS = {
    "no such interpreter": ("", CannotPlayNow, "cannot be run (No such file or directory)"),
    "an interpreter that lacks a package": ("#!/bin/sh\necho no gymnasium >&2\n", CannotPlayNow, "(no gymnasium)"),
    "another program": ("#!/bin/sh\necho '{}'\n", CannotPlayNow, "is no Python interpreter"),
    "a start that is killed": ("#!/bin/sh\nkill -9 $$\n", PublishedGameFailed, "was killed"),
    "a game that ends its process": (ENDS, PublishedGameFailed, "the environment ended"),
}


@pytest.mark.parametrize(("script", "kind", "cause"), WORDS.values(), ids=WORDS)
async def test_what_the_machine_lacks_is_told_apart_from_a_game_that_fails(tmp_path, script, kind, cause):
    python = tmp_path / "python"
    if script:
        python.write_text(script)
        python.chmod(0o755)
    process = EnvironmentProcess(str(tmp_path), str(python), seconds=100)
    game = SimpleNamespace(error="", task="SE", level=1, seed=1, index=0)
    with pytest.raises(PlayerError, match=re.escape(cause)) as caught:
        await play_published(game, None, process, None, None, None)
    assert type(caught.value) is kind and caught.value.kind == "suite"
    process.close()


def test_the_last_words_of_a_process_are_read_before_its_end_is_told(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no gymnasium >&2\n")
    python.chmod(0o755)
    read = _LastLines._read

    def read_late(self):
        self._process.wait()
        time.sleep(0.1)  # another thread goes first
        read(self)

    monkeypatch.setattr(_LastLines, "_read", read_late)
    process = EnvironmentProcess(str(tmp_path), str(python), seconds=100)
    with pytest.raises(CannotStartError, match=re.escape("the environment ended (no gymnasium)")):
        process.start()


async def test_a_picture_that_cannot_be_stored_is_no_fault_of_its_game(tmp_path, monkeypatch):
    picture = io.BytesIO()
    Image.new("RGB", (4, 4)).save(picture, "PNG")
    seen = Seen("open", ("left",), picture.getvalue(), 1, 5)
    process = SimpleNamespace(game=lambda *_: SimpleNamespace(open=lambda: seen, close=lambda: None))
    game = SimpleNamespace(error="", task="SE", level=1, seed=1, index=0)
    recording = SimpleNamespace(folder=tmp_path)
    cause = "pictures: a picture cannot be stored (No such file or directory)"
    with pytest.raises(CannotPlayNow, match=re.escape(cause)):
        await play_published(game, recording, process, None, None, None)

    def full(self, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    (tmp_path / "pictures").mkdir()
    with pytest.raises(CannotPlayNow, match="No space left on device"):
        await play_published(game, recording, process, None, None, None)
    assert not list((tmp_path / "pictures").iterdir()), "half a file is left"


class Dying:
    """A process that others end before it answers, ``deaths`` times; one game's actions are counted."""

    def __init__(self, deaths):
        self.deaths, self.starts, self.done = deaths, 1, []

    def ask(self, request, start=None, given_up=None):
        if "open" in request:
            self.done = []
        elif self.deaths or start != self.starts:
            self.starts += self.deaths > 0
            self.deaths = max(0, self.deaths - 1)
            raise _EndedError("the environment was started again")
        else:
            self.done.append(request["action"])
        seen = {"goal": "", "actions": ["a"], "picture": "", "step": len(self.done) + 1, "budget": 9}
        return seen, self.starts


@pytest.mark.parametrize(("deaths", "plays_on"), [(0, True), (1, True), (3, True), (9, False)])
def test_a_game_is_played_again_as_often_as_others_end_its_process(deaths, plays_on):
    process = Dying(0)
    game = PublishedGame(process, "SE_L1", 1, 0, "0")
    game.open()
    for action in (2, 0):
        game.step(action)
    process.deaths = deaths
    expected = contextlib.nullcontext() if plays_on else pytest.raises(_EndedError)
    with expected:
        assert game.step(1).step == 4
        assert process.done == [2, 0, 1]


@pytest.mark.slow
def test_a_step_that_hangs_costs_one_game_and_the_others_go_on_where_they_were(checkout, tmp_path):
    record(checkout, tmp_path / "out", "CO", "SE")

    class Slow(Presser):
        """Hangs the environment in CO while games of SE are between their steps."""

        async def reply(self, turn):
            if turn.episode.task.startswith("CO") and turn.episode.index == 0:
                return Reply("hang")
            await asyncio.sleep(0.3 * turn.episode.index)
            return await super().reply(turn)

    suite = suite_of(checkout, tmp_path / "out", "CO", "SE", decoder="paper")
    records = play(suite, Slow())
    assert [one.done for one in records] == [False, True, True, True, True, True]
    assert [one.outcome.steps for one in records[3:]] == [2, 2, 2]
    assert all(one.outcome.success for one in records[1:]) and "within 1 seconds" in records[0].error


@pytest.mark.slow
def test_a_game_depends_on_its_seed_alone_though_the_code_changes_what_its_games_share(checkout, tmp_path):
    def begin(process, index):
        game = process.game("CL", 1, 100 + index, index)
        seen = game.open()
        game.close()
        return seen.goal, seen.actions, seen.picture

    with contextlib.closing(EnvironmentProcess(str(checkout), sys.executable, 1)) as process:
        forwards = [begin(process, index) for index in range(6)]
        backwards = [begin(process, index) for index in reversed(range(6))]
    assert forwards == backwards[::-1] and len(set(forwards)) > 1


@pytest.mark.slow
def test_another_version_of_the_checkout_is_refused(checkout, tmp_path):
    record(checkout, tmp_path / "out", "CL")
    suite = suite_of(checkout, tmp_path / "out", "CL")
    source = checkout / "tasks" / "__init__.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert {"record it again" in one.error for one in play(suite, Presser())} == {True}


@pytest.mark.slow
def test_a_game_that_begins_otherwise_than_recorded_fails(checkout, tmp_path):
    record(checkout, tmp_path / "out", "CL")
    index = tmp_path / "out" / "games.jsonl"
    lines = index.read_text().splitlines()
    changed = {**json.loads(lines[1]), "goal": "press nothing"}
    index.write_text("\n".join([lines[0], json.dumps(changed), lines[2]]))
    read_recording.cache_clear()
    assert [one.done for one in play(suite_of(checkout, tmp_path / "out", "CL"), Presser())] == [True, False, True]


@pytest.mark.slow
def test_a_run_whose_interpreter_is_away_stops_and_plays_all_games_once_it_is_back(checkout, tmp_path, capsys):
    record(checkout, tmp_path / "out", "CL")
    python = tmp_path / "python"
    settings = f"tasks=[CL] levels=[1] modes=[zero_shot] episodes=3 environments=[published] checkout={checkout}"
    run = ["run", "suite=kidgym", "model=random", "cluster=inline", f"run_dir={tmp_path / 'run'}"]
    run += [f"suite.{each}" for each in settings.split()]
    run += [f"suite.recording={tmp_path / 'out'}", f"suite.python={python}"]
    with pytest.raises(SystemExit) as end:
        main(run)
    assert end.value.code == 75 and "cannot be run (No such file or directory)" in capsys.readouterr().err
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.raises(SystemExit) as end:
        main(run)
    assert not end.value.code and "random 3/3 success" in capsys.readouterr().err


@pytest.mark.slow
def test_both_environments_in_one_run_are_compared(checkout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(checkout, tmp_path / "out", "CL", "SE")
    suite = suite_of(checkout, tmp_path / "out", "CL", environments=["own", "published"])
    tables = {table.name: table for table in scored(suite, "random")}
    capabilities = tables["kidgym_capabilities"]
    assert [row[1] for row in capabilities.rows] == ["zero_shot", "zero_shot, published environment"]
    effect = tables["kidgym_environment_effect_random"]
    assert (effect.columns[:2], len(effect.rows)) == (("own", "published"), 1)
    notes = {name: " ".join(tables[f"kidgym_published{name}_random"].notes) for name in ("", "_environment")}
    assert "own sprites" in notes[""] and "own sprites" not in notes["_environment"]


def scored(suite, player):
    from evals.ledger.records import plan_to_table, records_to_table
    from evals.ledger.run_data import RunData
    from evals.suite import ledger_columns
    from evals.suite_results import suite_results

    episodes = plan_for(suite, {player: ""})
    records = play(suite, RandomPlayer(), episodes)
    data = RunData.of_tables(plan_to_table(episodes), records_to_table(records, ledger_columns(suite)))
    return [
        table for section in ("scores", "diagnostics", "performance") for table in suite_results(suite, data, section)
    ]


@pytest.mark.parametrize(
    ("python", "named"),
    [
        ("/no/such/python", "cannot be run"),
        ("/bin/cat", "ended|no Python"),
        ("/bin/true", "ended"),
        ("/usr/bin/yes", "ended|no Python"),
    ],
)
def test_what_is_no_interpreter_is_refused_by_name(checkout, tmp_path, capsys, python, named):
    process = EnvironmentProcess(str(checkout), python, 1)
    with pytest.raises(PublishedEnvironmentError, match=named) as error:
        process.start()
    assert python in str(error.value)


def test_a_checkout_that_cannot_be_loaded_or_is_none_is_refused(checkout, tmp_path, capsys):
    assert record(tmp_path, tmp_path / "out", "CL") == 2
    assert "no checkout of KidGym" in capsys.readouterr().err
    (checkout / "tasks" / "__init__.py").write_text("import there_is_no_such_package")
    assert record(checkout, tmp_path / "out", "CL") == 2
    assert "there_is_no_such_package" in capsys.readouterr().err


@pytest.mark.slow
def test_what_the_environment_says_reaches_no_terminal_as_it_is(checkout, tmp_path, capsys):
    assert record(checkout, tmp_path / "out", "SO") == 1
    printed = capsys.readouterr()
    assert "Sorting_L1.json" in printed.err and "\x1b" not in printed.err + printed.out


# --- without a process of its own ------------------------------------------------------------------------------------


def png(value, size=(4, 3)):
    file = io.BytesIO()
    Image.fromarray(np.full((size[1], size[0], 3), value, np.uint8)).save(file, format="PNG")
    return file.getvalue()


CLOSED = Counter()


class Scripted:
    """A game, and the process that plays it: the right digit is the game's number; memory tasks begin with one action."""

    def __init__(self, checkout, python="", seconds=0, task="", level=0, seed=0, number=0):
        self.checkout, self.python, self.seconds, self.about = checkout, python, seconds, {"python": "3"}
        self.task, self.level, self.number, self.taken = task, level, number, 0

    def start(self):
        if "broken" in self.python:
            raise PublishedEnvironmentError("broken: cannot be run")

    def close(self):
        CLOSED[f"{self.task}{self.level}" or "process"] += 1

    def game(self, task, level, seed, number):
        assert seed == game_seed(task, level, number)
        return Scripted(self.checkout, self.python, self.seconds, task, level, seed, number)

    def seen(self, **more):
        actions = tuple(f"press {digit}" for digit in range(self.number, self.number + 3))
        if self.task == "SE" and not self.taken:
            actions = ("continue",)
        if self.task == "FI" and self.taken:
            actions = tuple(map(str, range(27)))
        goal = f"press {self.number}" + ("!" if self.python == "changed" else "")
        return Seen(goal, actions, png(self.number * 8 + self.taken), self.taken + 1, 3, **more)

    def open(self):
        if self.task == "MA" and self.number % 2:
            raise PublishedEnvironmentError(f"{self.checkout}: took more than {self.seconds} s")
        return self.seen()

    def step(self, option):
        action, self.taken = self.seen().actions[option], self.taken + 1
        if self.task == "CO" and self.taken == 2:
            raise PublishedEnvironmentError("died")
        right = action in (f"press {self.number}", "continue")
        won, lost = right and action != "continue", action.endswith(str(self.number + 2))
        return self.seen(accepted=right, success=won, terminated=won or lost, truncated=self.taken > 2)


class Pressing:
    """Presses these of the offered actions, one after the other; of none it says a word that names none."""

    def __init__(self, *places):
        self.places = places

    async def reply(self, turn):
        place = self.places[turn.number % len(self.places)]
        return Reply("Hm." if place is None else turn.options[place])


def test_what_is_recorded_planned_and_played_is_as_on_record(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evals.suites.kidgym.published_environment.process.EnvironmentProcess", Scripted)
    (tmp_path / "theirs" / "tasks").mkdir(parents=True)
    (tmp_path / "theirs" / "tasks" / "__init__.py").touch()
    CLOSED.clear()
    parts = []
    for line in (
        "theirs out --tasks CL SE MA CO --levels 1 2 --episodes 3 --seconds 7 --python py",
        "theirs odd --tasks FI --levels 1 --episodes 1 --python py",
        "theirs broken --tasks CL --python broken",
        "none out",
    ):
        with pytest.raises(SystemExit) as end:
            main(["kidgym", "record", *line.split()])
        out, err = capsys.readouterr()
        parts += [
            f"$ raycade kidgym record {line}",
            f"{out}{err}exit code {end.value.code}".replace(str(tmp_path), ""),
            "",
        ]
    parts += [Path("out/recording.json").read_text(), Path("out/games.jsonl").read_text()]
    players = {
        "right": Pressing(0),
        "late": Pressing(1, 1, 0),
        "refused": Pressing(1),
        "lost": Pressing(2),
        "mute": Pressing(None),
    }
    for tasks, folder, python in (
        (("CL", "SE", "MA", "CO"), "out", "py"),
        (("FI",), "odd", "py"),
        (("CL",), "out", "changed"),
        (("CL",), "out", "later"),
    ):
        process_of.cache_clear()
        if python == "later":
            Path("theirs/tasks/new.py").touch()
        monkeypatch.setattr("evals.suites.kidgym.published_environment.play.EnvironmentProcess", Scripted)
        settings = {
            "levels": 1,
            "modes": "zero_shot",
            "episodes": 1 if folder == "odd" else 2,
            "option_order": "shuffled",
        }
        files = {"recording": folder, "checkout": "theirs", "python": python}
        suite = KidGymSuite(tasks=tasks, environments="published", **settings, **files)
        for (name, player), episode in itertools.product(players.items(), suite.plan()):
            told = (
                f"{name} {episode.task} {episode.index} {episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}"
            )
            record_ = asyncio.run(play_episode(suite, episode, player))
            acted = [(turn.action, turn.rule) for turn in record_.turns]
            pictures = [
                [one.render()[0, 0, 0] for one in turn.turn.chat[-1].parts if isinstance(one, FilePicture)]
                for turn in record_.turns
            ]
            error = record_.error.replace(str(tmp_path), "")
            parts.append(
                f"{told}: {acted} {[list(map(int, each)) for each in pictures]} {record_.outcome} {error} {record_.error_kind}"
            )
    process_of.cache_clear()
    parts.append(f"closed: {dict(CLOSED)}")
    both = dataclasses.replace(
        suite, tasks=("MA", "SE"), levels=(2, 1), modes=("zero_shot", "cot"), environments=("own", "published")
    )
    for one in both.plan():
        first = asyncio.run(both.first_turn(one))
        parts.append(
            f"{one.task} {one.level} {one.mode} {one.index} {one.budget} {one.calls:g} {one.prompt_tokens:.0f} {first is None}"
        )
    parts.append(str(both.needs))
    for wrong in ({"tasks": ["PL"]}, {"episodes": 4}):
        with pytest.raises(ValueError) as error:
            dataclasses.replace(suite, **wrong).plan()
        parts.append(str(error.value))
    told = "\n".join(parts).replace(str(tmp_path), "")
    check_golden("kidgym_published_environment", re.sub(r"\b[0-9a-f]{32}\b", "DIGEST", told))


def test_pictures_are_told_by_content_and_refused_by_name(tmp_path):
    one, again, other = (FilePicture.store(png(value), tmp_path) for value in (1, 1, 2))
    assert one == again and one.key != other.key and one.size == (4, 3)
    assert (one.render() == 1).all()
    (tmp_path / f"{one.digest}.png").write_bytes(png(9))
    with pytest.raises(ValueError, match="not the one that was stored"):
        one.render()
    for bad, named in ((b"GIF89a", "no PNG"), (png(0, (5000, 1)), "5000x1 pixels"), (png(0)[:40], "no PNG")):
        with pytest.raises(ValueError, match=named):
            FilePicture.store(bad, tmp_path)
    with pytest.raises(ValueError, match="there is no such file"):
        FilePicture.read(tmp_path / "absent.png")


@pytest.mark.parametrize(
    ("name", "value", "sound"),
    [
        *(("budget", 3, True), ("budget", 2**31, False), ("index", -1, False), ("level", True, False)),
        *(("seed", 2**63 - 1, True), ("seed", 2**63, False), ("seconds", 0, False), ("seconds", 10**30, False)),
    ],
)
def test_numbers_of_a_recording_are_bounded(tmp_path, name, value, sound):
    game = {
        "task": "CL",
        "level": 1,
        "index": 0,
        "seed": 1,
        "goal": "g",
        "actions": [],
        "picture": "",
        "error": "",
        "budget": 3,
    }
    about = {"checkout": "c", "seconds": 2}
    (about if name == "seconds" else game)[name] = value
    (tmp_path / "recording.json").write_text(json.dumps(about))
    (tmp_path / "games.jsonl").write_text(json.dumps(game) + "\n")
    expected = contextlib.nullcontext() if sound else pytest.raises(ValueError, match=name)
    with expected:
        read_recording(str(tmp_path))


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ({"budget": -4}, "budget is no whole number"),
        ({"budget": 10**12}, "budget is no whole number"),
        ({"goal": "x" * 17_000_000}, "more than 16,777,216 characters"),
        ({"goal": "to \ud800"}, "half a character"),
    ],
)
def test_a_game_that_no_recording_can_hold_is_kept_with_its_cause_and_harms_no_other(tmp_path, shown, said):
    opened = [
        Seen("go", ("press",), png(0), 1, 3),
        Seen(**{"goal": "go", "budget": 3, **shown}, actions=(), picture=png(0), step=1),
    ]
    game = SimpleNamespace(open=lambda: opened.pop(0), close=lambda: None)
    (tmp_path / "pictures").mkdir()
    process = SimpleNamespace(game=lambda *given: game, checkout=str(tmp_path), seconds=2, about={})
    games = [record_game(process, tmp_path, "CL", 1, index) for index in range(2)]
    write_recording(tmp_path, process, games)
    sound, odd = read_recording(str(tmp_path)).games["CL", 1]
    assert (sound.goal, sound.error) == ("go", "") and said in odd.error


def test_a_recording_is_not_replaced_by_one_with_fewer_games(checkout, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "recording.json").write_text(json.dumps({"checkout": "c", "seconds": 2}))
    game = {"task": "CL", "level": 1, "seed": 1, "budget": 3, "goal": "g", "actions": [], "picture": "", "error": ""}
    (out / "games.jsonl").write_text("".join(json.dumps({**game, "index": index}) + "\n" for index in range(3)))
    for task, levels, episodes, lost in (("SE", ("1",), 3, 3), ("CL", ("2",), 3, 3), ("CL", ("1",), 2, 1)):
        assert record(checkout, out, task, levels=levels, episodes=episodes) == 2
        assert f"holds {lost} games that this recording would remove" in capsys.readouterr().err


def test_files_of_others_are_not_recorded_over(checkout, tmp_path, capsys):
    for name in ("games.jsonl", "recording.json"):
        mine = tmp_path / f"mine {name}"
        mine.mkdir()
        (mine / name).write_text('{"mine": 1}\n')
        assert record(checkout, mine, "CL") == 2 and (mine / name).read_text() == '{"mine": 1}\n'
        assert f"its {name} was not written by this command" in capsys.readouterr().err
