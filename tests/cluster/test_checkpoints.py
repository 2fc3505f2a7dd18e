"""`raycade watch-checkpoints`: which folders are complete, what is played once, and what the curve says."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.checkpoints import watch as watch_module
from cluster.checkpoints.curve import Point, curve_figure, curve_tables, points_of
from cluster.checkpoints.folder import CheckpointError, Folder, tensors_of
from cluster.checkpoints.watch import Options, Watch, balanced_part
from cluster.commands import watch_checkpoints as command
from cluster.config.model import ReplicaNeeds
from cluster.config.settings import ClusterSettings
from cluster.engines.base import Engine
from cluster.errors import RunFailedError, UserError
from cluster.storage.stored_run import Run
from evals.analysis.compare import LOOKED_AT
from evals.ledger.records import records_to_table
from evals.stats.intervals import Estimate
from evals.suite import ledger_columns, plan_for
from evals.summary.independent import pooled_estimate
from evals.summary.paired import Measure, Observation
from tests.cluster.conftest import EASY, settings_at
from tests.cluster.test_cli import run_here
from tests.runs import Often, records_of
from tests.small_runs import SUITES, small_run
from tests.toy import ToySuite
from tests.viewer_runs import write_run

PLAN = [*EASY, "suite.tasks_per_domain=6", "suite.repeats=1", "model=scripted", "decoding=choice"]
ENGINE = '''
import os, signal, struct, subprocess, time
from pathlib import Path
from cluster.engines.base import Capabilities, Engine, EngineDiedError
from evals.types import Reply

class Scripted(Engine):
    """Chooses the option that its one weight says; writes down what happens to it; dies or waits where a file says so."""

    reads_files = True

    def __init__(self, sampling, model: str = ""):
        self.model = model
        self.log = Path(os.environ["SCRIPTED_LOG"])

    @classmethod
    def capabilities(cls, settings):
        return Capabilities(options=True)

    def say(self, word):
        with self.log.open("a") as file:
            file.write(f"{word} {Path(self.model).name}\\n")

    def read(self):
        self.weight = int(struct.unpack("<f", (Path(self.model) / "model.safetensors").read_bytes()[-4:])[0])

    async def start(self):
        if self.log.with_name("kill").exists():
            self.log.with_name("child").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        self.read()
        self.say("start")

    async def load_weights(self, model):
        self.model = model
        self.read()
        self.say("load")
        return True

    async def complete(self, request):
        deaths = self.log.with_name("deaths")
        if deaths.exists() and len(self.log.read_text().splitlines()) >= 4:
            left = int(deaths.read_text()) - 1
            deaths.write_text(str(left)) if left else deaths.unlink()
            raise EngineDiedError("gone")
        if self.log.with_name("kill").exists() and self.log.read_text().count("ask") == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        self.say("ask")
        return Reply(request.options[self.weight % len(request.options)], prompt_tokens=1, completion_tokens=1)
'''


def write_checkpoint(home, weight, **config):
    """A checkpoint of one weight."""
    home.mkdir(parents=True)
    (home / "config.json").write_text(json.dumps({"architectures": ["Scripted"], **config}))
    (home / "model.safetensors").write_bytes(safetensors({"w": np.array([weight], np.float32)}))
    (home / "trainer_state.json").write_text("{}")
    return home


def safetensors(tensors):
    header, content = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        place = [len(content), len(content) + values.nbytes]
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": place}
        content += values.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


@pytest.fixture
def world(tmp_path, monkeypatch, plugins_in):
    """A folder for checkpoints, the scripted engine, and what it wrote down."""
    (tmp_path / "plugins.toml").write_text('["raycade.engines"]\nscripted = "scripted_engine:Scripted"\n')
    (tmp_path / "scripted_engine.py").write_text(ENGINE)
    plugins_in(tmp_path)
    monkeypatch.setenv("SCRIPTED_LOG", str(tmp_path / "log"))
    (tmp_path / "training").mkdir()
    return tmp_path


def said(world):
    path = world / "log"
    return path.read_text().splitlines() if path.exists() else []


def watch(world, capsys, *more):
    command = ["watch-checkpoints", str(world / "training"), *PLAN, "--out", str(world / "out"), "--settled", "0"]
    return run_here(capsys, *command, "--games", "4", *(more or ["--once"]))


def events(world):
    return [line for line in said(world) if not line.startswith("ask")]


# --- playing ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_are_played_in_order_on_the_same_games_by_one_engine_each_with_its_own_weights_and_only_once(world, capsys):
    for step in (20, 3, 100):
        write_checkpoint(world / "training" / f"checkpoint-{step}", step % 7)
    code, out, err = watch(world, capsys)
    assert code == 0, err
    assert events(world) == ["start checkpoint-3", "load checkpoint-20", "load checkpoint-100"]
    runs = [Run(world / "out" / f"checkpoint-{step}") for step in (3, 20, 100)]
    columns = [[run.planned[name].to_pylist() for name in ("task", "level", "seed")] for run in runs]
    games = [sorted(zip(*each, strict=True)) for each in columns]
    assert games[0] == games[1] == games[2] and len(games[0]) == 4
    for run in runs:
        assert run.planned["player"][0].as_py() == run.path.name
        assert (run.path / "summary.json").exists()
    files = {path.name for path in (world / "out").iterdir()}
    assert {"report.html", "checkpoints.svg", "tables"} <= files and "since first" in out
    before = said(world)
    write_checkpoint(world / "training" / "checkpoint-200", 1)
    shutil.rmtree(world / "training" / "checkpoint-3")  # as trainings do with old ones
    assert watch(world, capsys)[0] == 0
    new = said(world)[len(before) :]
    assert new[0] == "start checkpoint-200" and {*new[1:]} == {"ask checkpoint-200"}
    curve = json.loads((world / "out" / "tables" / "checkpoints_1.json").read_text())[0]
    assert [row[0] for row in curve["rows"]] == [3, 20, 100, 200]
    assert watch(world, capsys, "--once", "cluster.commit_seconds=.05")[0] == 0, "how it is played may change"
    code, _, err = watch(world, capsys, "--once", "suite.tasks_per_domain=5")
    assert code == 2 and "was begun with" in err, "one curve, one set of games"


@pytest.mark.slow
def test_another_config_gets_an_engine_of_its_own(world, capsys):
    write_checkpoint(world / "training" / "step-1", 1)
    write_checkpoint(world / "training" / "step-2", 1, hidden=3)
    assert watch(world, capsys)[0] == 0
    assert events(world) == ["start step-1", "start step-2"]


@pytest.mark.slow
def test_an_engine_that_dies_is_replaced_and_what_was_played_stays(world, capsys):
    write_checkpoint(world / "training" / "step-1", 1)
    (world / "deaths").write_text("1")
    code, _, err = watch(world, capsys)
    assert code == 0 and "trying again with a new engine" in err
    assert events(world) == ["start step-1", "start step-1"]


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_played_is_named_and_the_next_one_is_played(world, capsys, monkeypatch):
    write_checkpoint(world / "training" / "step-1", 1)
    (world / "deaths").write_text("2")
    write_checkpoint(world / "training" / "step-2", 1)
    code, _, err = watch(world, capsys)
    assert code == 1 and "step-1: cannot be played" in err
    assert (world / "out" / "step-2" / "summary.json").exists()
    code, _, _ = watch(world, capsys)
    assert code == 0 and (world / "out" / "step-1" / "summary.json").exists(), "tried again by the next command"
    write_checkpoint(world / "training" / "step-3", 1)
    (world / "deaths").write_text("2")
    monkeypatch.setattr(Watch, "_wait", lambda self, seconds: True)
    assert watch(world, capsys, "--until", "3")[0] == 1, "not waited for: its step was reached"


@pytest.mark.slow
def test_after_a_kill_only_what_is_missing_is_played(world, capsys, launch):
    for step in (1, 2):
        write_checkpoint(world / "training" / f"step-{step}", step)
    (world / "kill").write_text("")
    command = ["watch-checkpoints", str(world / "training"), *PLAN, "--out", str(world / "out"), "--games", "4"]
    process = launch(*command, "--once", "cluster.commit_seconds=.05", log=world / "output")
    assert process.wait(120) == -signal.SIGKILL, (world / "output").read_text()
    (world / "kill").unlink()
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int((world / "child").read_text())).wait(60)  # the engine's process ends with it
    kept = rows_of(world / "out" / "step-1")
    assert watch(world, capsys)[0] == 0
    assert kept <= rows_of(world / "out" / "step-1"), "what the first process wrote is not played again"
    for step in (1, 2):
        rows = rows_of(world / "out" / f"step-{step}")
        assert len(rows) == len({episode for episode, _ in rows}) == 4


def rows_of(run_dir):
    """Each episode with the session that played it."""
    return {
        (row["episode_id"], row["session"]) for row in Run(run_dir).ledger.table(["episode_id", "session"]).to_pylist()
    }


@pytest.mark.parametrize(
    ("summary", "played"),
    [('{"missing": 0}', True), ('{"missing": 2}', False), ("{}", False), ("[]", False), ('{"miss', False), ("", False)],
)
def test_a_checkpoint_is_played_when_its_scores_say_that_nothing_is_missing(summary, played, tmp_path):
    assert not watch_module._is_played(tmp_path)
    (tmp_path / "summary.json").write_text(summary)
    assert watch_module._is_played(tmp_path) is played


@pytest.mark.slow
def test_a_stopping_rule_cuts_each_checkpoint_s_plan(world, capsys):
    write_checkpoint(world / "training" / "step-1", 1)
    rule = ["suite.tasks_per_domain=150", "stop=precise", "precision=.3", "cluster.commit_seconds=.05"]
    assert watch(world, capsys, "--once", "--games", "0", *rule)[0] == 0
    run = Run(world / "out" / "step-1")
    assert len(run.ledger.table(["episode_id"])) < len(run.planned) == 150
    assert run.stopping is not None and run.stopping.stopped


class Recorder:
    finish_seconds = 5.0

    def __init__(self):
        self.starts, self.logged, self.finished = [], [], []

    def start(self, run_dir, run_id, config):
        self.starts.append((run_dir, run_id))

    def log(self, numbers):
        self.logged.append(numbers)

    def finish(self, results):
        self.finished.append(results)

    def abandon(self):
        raise AssertionError


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A folder of checkpoints whose runs are games of the toy suite: who was played by whom, and what was shown of them."""
    (tmp_path / "training").mkdir()
    suite, made = ToySuite(episodes=4), SimpleNamespace(ends={}, steps={})

    def settings_of(overrides):
        given = dict(each.split("=", 1) for each in overrides)
        made.steps[given["model.name"].strip('"')] = overrides
        model = SimpleNamespace(name=given["model.name"].strip('"'), engine={}, metered=False, replica=ReplicaNeeds())
        model.engine_class = Loads if "stays" not in given else Engine
        cluster = ClusterSettings(replicas=int(given.get("cluster.replicas", 1)), address=given.get("cluster.address"))
        tracker = {"type": "recorder"} if "tracker" in given else None
        plan = tuple(plan_for(suite, {model.name: ""}))
        return Made(model, cluster, plan, tracker, Path(given["run_dir"].strip('"')))

    def run(settings, play):
        assert settings.tracker is None, "the tracker gets the curve, not each run"
        made.asked.append(settings.model.name)
        made.hosted.append(play is not None)
        ends = made.ends.get(settings.model.name, [])
        end = ends.pop(0) if ends else 0
        if isinstance(end, Exception):
            raise end
        if end == 0:
            step = int(settings.model.name.rpartition("-")[2])
            records = records_of(suite, {settings.model.name: Often(step / 100, seed=1)})
            records = [each for each in records if each.episode in settings.plan]
            write_run(settings.run_dir, settings.plan, records_to_table(records, ledger_columns(suite)))
            (settings.run_dir / "summary.json").write_text('{"missing": 0}')
        return end, None

    def curve_files(points, title, status):
        made.shown.append(([(each.checkpoint, each.step) for each in points], title, status))
        return {}

    def wait(self, seconds):
        made.waits.append(seconds)
        return made.wait()

    for name, stub in (
        ("load_settings", settings_of),
        ("make_suite", lambda config: suite),
        ("curve_files", curve_files),
        ("check_environment", lambda settings: made.checked.append(settings.model.name)),
        ("show", lambda tables: None),
    ):
        monkeypatch.setattr(watch_module, name, stub)
    monkeypatch.setattr(Watch, "_wait", wait)
    close = watch_module.HostedEngine.close
    monkeypatch.setattr(watch_module.HostedEngine, "close", lambda host: made.closed.append(host) or close(host))

    def watch(*overrides, games=0, **more):
        folder = Folder(tmp_path / "training", settled=more.pop("settled", 0))
        made.watch = Watch(Options(folder, tmp_path / "out", overrides, games, **{"once": True, **more}), run)
        made.asked, made.hosted, made.shown, made.waits, made.checked, made.closed = [], [], [], [], [], []
        return made.watch.watch()

    made.play, made.folder, made.out = watch, tmp_path / "training", tmp_path / "out"
    return made


@dataclasses.dataclass(frozen=True)
class Made:
    model: object
    cluster: ClusterSettings
    plan: tuple
    tracker: dict | None
    run_dir: Path
    config: str = "{}"


class Loads(Engine):
    async def complete(self, request):
        raise NotImplementedError

    async def load_weights(self, model):
        return True


def test_each_checkpoint_is_played_once_in_order_and_the_curve_keeps_those_that_are_gone(toy, capsys):
    for step in (20, 3, 100):
        write_checkpoint(toy.folder / f"check point-{step}", 1)
    assert toy.play("a=1", "b=2") == 0
    names = [f"check-point-{step}" for step in (3, 20, 100)]
    assert toy.asked == names and toy.hosted == [True] * 3
    assert [points for points, _, _ in toy.shown] == [
        [(name, int(name[12:])) for name in names[:most]] for most in (1, 2, 3)
    ]
    assert toy.shown[-1][1:] == ("Checkpoints of training", [])
    assert toy.steps[names[0]] == [
        *("a=1", "b=2", "model=hf", f'model.engine.model="{toy.folder}/check point-3"', f'model.name="{names[0]}"'),
        f'run_dir="{toy.out / names[0]}"',
    ]
    shutil.rmtree(toy.folder / "check point-3")
    (toy.out / names[1] / "summary.json").write_text('{"missing": 1}')
    toy.ends = {names[1]: [75]}
    write_checkpoint(toy.folder / "check point-200", 1)
    assert toy.play("b=2", "a=1") == 75 and toy.asked == [names[1]], "what is not whole is played on"
    assert [sorted(points) for points, _, _ in toy.shown] == [[(names[2], 100), (names[0], 3)]]


def test_all_checkpoints_of_a_folder_are_asked_the_same(toy):
    write_checkpoint(toy.folder / "step-3", 1)
    assert toy.play("a=1", "b=2", games=2) == 0
    assert len(Run(toy.out / "step-3").planned) == 2, "the first games in the balanced order"
    write_checkpoint(toy.folder / "step-4", 1)
    assert toy.play("b=2", "cluster.replicas=2", "a=1", "strict=true", games=2) == 0, "how it is played may change"
    assert toy.asked == ["step-4"] and toy.hosted == [False]
    for overrides, games in ((["a=1", "b=2"], 3), (["a=1"], 2), (["a=1", "b=3"], 2)):
        with pytest.raises(UserError, match="was begun with"):
            toy.play(*overrides, games=games)
    with pytest.raises(UserError, match="no such folder"):
        shutil.rmtree(toy.folder)
        toy.play("a=1", "b=2", games=2)


def test_a_checkpoint_that_cannot_be_played_is_named_and_tried_again_by_the_next_command(toy, capsys):
    for step in (1, 2, 3, 4):
        write_checkpoint(toy.folder / f"step-{step}", 1)
    died = RunFailedError("it died")
    toy.ends = {"step-1": [died], "step-2": [died, died], "step-3": [UserError("wrong")]}
    assert toy.play() == 1
    assert toy.asked == ["step-1", "step-1", "step-2", "step-2", "step-3", "step-4"], (
        "an engine that dies is replaced once"
    )
    err = " ".join(capsys.readouterr().err.split())
    assert err.count("trying again with a new engine: it died") == 2
    assert "step-2: cannot be played: it died" in err and "step-3: cannot be played: wrong" in err
    assert toy.shown[-1][2] == ["step-2 could not be played.", "step-3 could not be played."]
    assert toy.play() == 0 and toy.asked == ["step-2", "step-3"]
    toy.ends = {"step-5": [died]}
    write_checkpoint(toy.folder / "step-5", 1)
    assert toy.play("cluster.address=x") == 1 and toy.asked == ["step-5"], "the cluster replaces engines itself"


def test_a_run_that_was_stopped_stops_the_watch(toy):
    for step in (1, 2, 3):
        write_checkpoint(toy.folder / f"step-{step}", 1)
    toy.ends = {"step-2": [75]}
    assert toy.play() == 75 and toy.asked == ["step-1", "step-2"]
    assert len(toy.closed) == 1, "no engine is left behind"
    assert toy.play() == 0 and toy.asked == ["step-2", "step-3"] and len(toy.closed) == 1


@pytest.mark.parametrize(
    ("override", "more", "hosted"),
    [
        ("a=1", {}, True),
        ("a=1", {"restart": True}, False),
        ("stays=1", {}, False),
        ("cluster.replicas=2", {}, False),
        ("cluster.address=auto", {}, False),
    ],
)
def test_one_replica_of_this_machine_that_takes_weights_is_hosted(toy, override, more, hosted):
    write_checkpoint(toy.folder / "step-1", 1)
    assert toy.play(override, **more) == 0 and toy.hosted == [hosted]
    assert toy.checked == (["step-1"] if hosted else []), "a driver of its own checks the environment itself"


def test_it_waits_until_a_step_is_played_or_the_training_is_over_or_it_is_stopped(toy, capsys):
    write_checkpoint(toy.folder / "step-1", 1)
    arrivals = iter(["step-2", "step-3"])
    toy.wait = lambda: write_checkpoint(toy.folder / next(arrivals), 1) is None
    assert toy.play(once=False, until=2) == 0
    assert toy.asked == ["step-1", "step-2"] and toy.waits == [watch_module.POLL_SECONDS]
    toy.wait = lambda: (toy.folder / "DONE").touch()
    assert toy.play(once=False, until=100) == 0
    assert toy.asked == [] and len(toy.waits) == 1
    (toy.folder / "DONE").unlink()
    half = write_checkpoint(toy.folder / "step-9", 1)
    (half / "trainer_state.json").unlink()
    toy.wait = lambda: True
    assert toy.play(once=False, settled=7.0) == 75 and toy.waits == [7.0]
    assert "step-9: waiting: changed less than 7 s ago" in capsys.readouterr().out
    (half / "config.json").unlink()
    assert toy.play(settled=7.0) == 0 and toy.waits == []
    assert "step-9: not complete: config.json" in " ".join(capsys.readouterr().err.split())


def test_a_tracker_gets_one_run_with_each_point_once_whoever_watches(toy, monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(watch_module, "make_tracker", lambda config: recorder)
    write_checkpoint(toy.folder / "step-1", 1)
    toy.play()
    for step in (2, 5):
        write_checkpoint(toy.folder / f"step-{step}", 1)
        toy.play("tracker=recorder")
    assert [each["checkpoint/step"] for each in recorder.logged] == [1, 2, 5]
    assert recorder.starts[0] == recorder.starts[1] and recorder.starts[0][0] == toy.out
    assert [len(each.tables[0].rows) for each in recorder.finished] == [2, 3]


def test_a_stop_signal_ends_the_wait(world, capsys, monkeypatch):
    monkeypatch.setattr(watch_module.time, "sleep", lambda seconds: os.kill(os.getpid(), signal.SIGTERM))
    assert watch(world, capsys, "--until", "5")[0] == 75


def test_options_are_checked_and_what_a_checkpoint_decides_itself_cannot_be_set(tmp_path, monkeypatch, capsys):
    watched = []
    monkeypatch.setattr(command, "Watch", lambda asked, run: watched.append(asked) or SimpleNamespace(watch=lambda: 75))
    (tmp_path / "training").mkdir()
    (tmp_path / "link").symlink_to("training")

    def called(*words):
        return run_here(capsys, "watch-checkpoints", str(tmp_path / "link"), *words)

    for override in ("run_dir=x", "model.name=x", "model.engine.model=x", "shard=1/2"):
        code, _, err = called(override)
        assert code == 2 and override.partition("=")[0] in err
    for option, value in (("--settled", "nan"), ("--settled", "-1"), ("--settled", "inf"), ("--games", "-1")):
        code, _, err = called(option, value)
        assert code == 2 and option in err
    assert watched == []
    assert called("a=1", "--games", "0", "--settled", "0", "--until", "9", "--restart", "--once")[0] == 75
    (asked,) = watched
    assert (asked.folder.path, asked.folder.settled) == (tmp_path / "link", 0) and asked.out == Path("runs/training")
    assert (asked.overrides, asked.games, asked.once, asked.until, asked.restart) == (["a=1"], 0, True, 9, True)
    assert called("--out", "there")[0] == 75 and watched[1].out == Path("there")
    assert (watched[1].once, watched[1].until, watched[1].restart) == (False, None, False)


@pytest.mark.slow
def test_part_of_a_plan_is_balanced_and_the_same_for_every_model(tmp_path):
    plans = [
        settings_at(
            tmp_path, "suite=kumo", "suite.domains=[medical,music]", "suite.tasks_per_domain=9", f"model={model}"
        )
        for model in ("oracle", "random")
    ]
    parts = [balanced_part(each.plan, 8) for each in plans]
    games = [sorted({(one.task, one.level, one.seed) for one in part}) for part in parts]
    assert games[0] == games[1] and len(games[0]) == 8
    strata = [(task, level) for task, level, _ in games[0]]
    assert {strata.count(each) for each in strata} <= {1, 2, 3} and len({*strata}) == 4
    assert balanced_part(plans[0].plan, 0) == plans[0].plan


# --- which folders are complete --------------------------------------------------------------------------------------


CONTENT = safetensors({"a": np.zeros((2, 3), np.float32), "b": np.ones(5, np.float32)})


@given(st.integers(0, len(CONTENT) + 3))
@settings(max_examples=60, deadline=None)
def test_a_file_of_weights_counts_only_at_its_exact_length(tmp_path_factory, length):
    home = tmp_path_factory.mktemp("c")
    (home / "config.json").write_text("{}")
    (home / "model.safetensors").write_bytes((CONTENT + b"xyz")[:length])
    if length == len(CONTENT):
        assert tensors_of(home) == {"a": ("F32", [2, 3]), "b": ("F32", [5])}
    else:
        with pytest.raises(CheckpointError):
            tensors_of(home)


def test_a_checkpoint_of_one_size_that_is_still_written_is_not_taken(tmp_path, monkeypatch):
    now = 50.0
    monkeypatch.setattr("cluster.checkpoints.folder.time.monotonic", lambda: now)
    weights = tmp_path / "checkpoint-5" / "model.safetensors"
    weights.parent.mkdir()
    (weights.parent / "config.json").write_text("{}")
    weights.write_bytes(CONTENT)
    folder = Folder(tmp_path, settled=2)
    assert folder.look()[0] == []
    os.utime(weights, (7, 7))
    now = 52.0
    assert folder.look() == ([], {"checkpoint-5": "changed less than 2 s ago"})
    now = 54.0
    assert [each.step for each in folder.look()[0]] == [5]
    with pytest.raises(RunFailedError, match="cannot be read anymore"):
        Folder(tmp_path / "renamed").look()


def test_a_named_pipe_in_place_of_weights_is_refused_and_not_waited_for(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        tensors_of(tmp_path)


# --- the curve -------------------------------------------------------------------------------------------------------


def point(step, wins, **more):
    observations = [Observation((), number, 0, float(won)) for number, won in enumerate(wins)]
    estimate = Estimate(sum(wins) / len(wins), 0.1, 0.9, len(wins))
    return Point(f"c-{step}", step, "toy: success", estimate, observations, len(wins), len(wins), 0, (), **more)


def test_changes_are_of_identical_games_since_the_first_and_the_previous_one():
    [table] = curve_tables([point(30, [1] * 18 + [0] * 2), point(10, [0] * 20), point(20, [1] * 9 + [0] * 11)])
    assert [row[0] for row in table.rows] == [10, 20, 30]
    first, previous = (
        [row[table.columns.index(name)] for row in table.rows] for name in ("since first", "since previous")
    )
    assert first[0] is previous[0] is None
    assert [each.mean for each in first[1:]] == pytest.approx([0.45, 0.9])
    assert [each.mean for each in previous[1:]] == pytest.approx([0.45, 0.45])
    # Of 18 games that all changed in one direction: 2 / 2^18; of 9: 2 / 2^9, times 2 and 1 by Holm, of equals times 2 both.
    p, p_previous = ([row[table.columns.index(name)] for row in table.rows][1:] for name in ("p", "p previous"))
    assert p == pytest.approx([2 / 2**9, 2 * 2 / 2**18])
    assert p_previous == pytest.approx([2 * 2 / 2**9] * 2)


def test_a_point_is_the_model_s_measure_over_all_games_with_what_was_planned_played_and_failed():
    run, suite = small_run("kumo", ("model", "oracle"), failed=3, missing=2), SUITES["kumo"]
    (found,) = points_of("c-7", 7, run, suite)
    (measure,) = suite.measures(run, "model")
    own = [one._replace(cell=(), unit=(one.cell, one.unit)) for one in measure.observations]
    with run.intervals():
        estimate = pooled_estimate(own, shares=True)
    assert found == Point("c-7", 7, "kumo: success", estimate, own, 16, 14, 3, ())
    apart = dataclasses.replace(run, stopping=("decided",), cells_stop=True)
    (joined,) = points_of("c-7", 7, apart, suite)
    assert not joined.estimate.has_interval, (
        "cells that stopped apart, of a plan that is not known, have no joined interval"
    )
    unseen = SimpleNamespace(name="kumo", measures=lambda *given: [Measure("none", (), []), measure])
    assert points_of("c-7", 7, run, SimpleNamespace(parts=[unseen])) == [found], "a measure of nothing has no point"
    assert estimate.mean == sum(one.value for one in own) / 14 and len({(one.unit, one.game) for one in own}) == 14
    (table,) = curve_tables([found])
    assert (
        table.rows[0][:5] == (7, "c-7", 14, 3, estimate) and "c-7 is partial: 14 of 16 episodes played." in table.notes
    )
    whole = dataclasses.replace(found, planned=14, stopping=("decided",), checkpoint="c-8", step=8)
    (table,) = curve_tables([whole, found])
    assert [row[0] for row in table.rows] == [7, 8] and table.notes[-1] == LOOKED_AT
    assert table.notes[1] == "c-7 is partial: 14 of 16 episodes played."
    other = dataclasses.replace(found, measure="kumo: score", step=9, checkpoint="c-9")
    figure = curve_figure([other, whole, found], "T")
    assert [(one.name, one.x) for one in figure.series] == [("kumo: success", ("7", "8")), ("kumo: score", ("9",))]
    assert figure.series[0].y == (estimate, estimate) and [each.title for each in curve_tables([other, found])] == [
        *("kumo: success", "kumo: score")
    ]
