"""The published environment through our loop: recorded, planned, played, cut off; here a tiny one with the same interface."""

import asyncio
import contextlib
import dataclasses
import json
import sys
import time

import pytest

from cluster.cli import main
from envs.file_picture import FilePicture
from envs.picture import picture_from_description
from evals.players import RandomPlayer
from evals.suite import plan_for, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kidgym.published_environment.process import EnvironmentProcess, PublishedEnvironmentError
from evals.suites.kidgym.published_environment.recording import read_recording
from evals.types import Outcome, Reply

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
def test_refused_steps_are_counted_and_the_budget_ends_the_game(checkout, tmp_path, capsys):
    assert record(checkout, tmp_path / "out", "CL", episodes=1) == 0
    _, row, recorded, play_them = capsys.readouterr().out.splitlines()
    assert row.split() == ["CL", "1", "1", "0"] and recorded.startswith(f"recorded 1 of 1 games in {tmp_path}/out;")
    assert f"suite.recording={tmp_path}/out suite.checkout={checkout} suite.python={sys.executable} " in play_them

    class Wrong:
        async def reply(self, turn):
            text = "".join(part for part in turn.chat[-1].parts if isinstance(part, str))
            return Reply(next(line[0] for line in text.splitlines() if line.endswith(") wait")))

    (lost,) = play(suite_of(checkout, tmp_path / "out", "CL", episodes=1), Wrong())
    extra = {"invalid": False, "terminated": False, "truncated": True, "forced_steps": 0}
    assert lost.outcome == Outcome(False, 3, extra={**extra, "refused_steps": 3, "mistake": None})


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"modes": ["icl"]}, "leave out icl"),
        ({"tasks": ["PL"]}, "holds 0 games of PL level 1, not 3"),
        ({"episodes": 4}, "holds 3 games of CL level 1, not 4"),
        ({"recording": "nowhere"}, "suite.recording: .*nowhere holds no recording"),
        ({"checkout": ""}, "suite.checkout must be"),
        ({"environments": ["old"]}, "must be one of own, published"),
        ({"environments": ["own"]}, "suite.recording is set, but suite.environments has no published"),
    ],
)
def test_wrong_settings_are_refused_by_name(checkout, tmp_path, settings, named):
    record(checkout, tmp_path / "out", "CL")
    good = suite_of(checkout, tmp_path / "out", "CL")
    with pytest.raises(ValueError, match=named):
        dataclasses.replace(good, **settings).plan()


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


def test_pictures_are_told_by_content_and_refused_by_name(tmp_path):
    import io

    import numpy as np
    from PIL import Image

    def png(value, size=(4, 3)):
        file = io.BytesIO()
        Image.fromarray(np.full((size[1], size[0], 3), value, np.uint8)).save(file, format="PNG")
        return file.getvalue()

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
