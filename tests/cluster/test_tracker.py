import dataclasses
import fnmatch
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cluster.commands import upload as upload_module
from cluster.commands.upload import tracker_section
from cluster.errors import RunFailedError, UserError
from cluster.observe.run_statistics import PlayerStatistics, RunStatistics
from cluster.observe.tracker import FinalResults, Watcher, make_tracker, tracked_id
from cluster.observe.wandb_tracker import LIVE, PROGRESS, WandbTracker, _side_by_side, _text
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from envs.kidgym import make
from evals.analysis.samples import SampledTurn
from evals.conversation import Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.suite import ledger_columns, plan_for
from evals.tables import Table
from tests.cluster.conftest import ROOT
from tests.cluster.test_ledger import PLAN
from tests.toy import ToySuite
from tests.viewer_runs import write_run

PAGE = (ROOT / "docs/wandb.md").read_text()
RESULTS = FinalResults({"episodes/done": 2.0}, {"planned": 2, "tables": []}, (), lambda count: [])


class Recording:
    finish_seconds = 20.0

    def __init__(self, fails_at="", error=None):
        self.calls, self.fails_at, self.error = [], fails_at, error or ConnectionError("unreachable")

    def _note(self, name, *arguments):
        if name == self.fails_at:
            raise self.error
        self.calls.append((name, *arguments))

    def start(self, run_dir, run_id, config):
        self._note("start", run_id)

    def log(self, numbers):
        self._note("log", numbers)

    def finish(self, results):
        self._note("finish", results)

    def abandon(self):
        self._note("abandon")


def test_a_tracker_receives_the_whole_run(tmp_path):
    tracker = Recording()
    watcher = Watcher(tracker)
    watcher.start(tmp_path, "id", {})
    watcher.log({"episodes/done": 1.0})
    watcher.finish(RESULTS)
    assert tracker.calls == [("start", "id"), ("log", {"episodes/done": 1.0}), ("finish", RESULTS)]
    assert watcher.failure == ""
    idle = Watcher(tracker)
    idle.finish(RESULTS)
    assert len(tracker.calls) == 3 and idle.failure == "", "one that was not started"


@pytest.mark.parametrize("moment", ["start", "log", "finish"])
def test_a_failing_tracker_is_disabled_and_named(tmp_path, moment):
    watcher = Watcher(Recording(fails_at=moment))
    watcher.start(tmp_path, "id", {})
    for _ in range(200):
        watcher.log({})
    watcher.finish(RESULTS)
    assert watcher.failure == "ConnectionError: unreachable"


@pytest.mark.parametrize("error", [SystemExit(3), RuntimeError("\x1b[31m")], ids=repr)
@pytest.mark.parametrize("moment", ["start", "log", "finish", "abandon"])
def test_whatever_a_tracker_raises_is_told_in_plain_text_and_ends_no_run(tmp_path, moment, error):
    tracker = Recording(moment, error)
    if moment == "abandon":
        tracker.finish_seconds, tracker.start = 0.0, lambda *_: threading.Event().wait(5)
    watcher = Watcher(tracker)
    watcher.start(tmp_path, "id", {})
    watcher.log({})
    watcher.finish(RESULTS)
    assert ("did not finish" if moment == "abandon" else type(error).__name__) in watcher.failure
    assert "\x1b" not in watcher.failure


def test_a_tracker_without_the_methods_of_one_ends_no_run(tmp_path):
    watcher = Watcher(object())
    watcher.start(tmp_path, "id", {})
    watcher.finish(RESULTS)
    assert "AttributeError" in watcher.failure
    tracker = Recording()
    tracker.finish_seconds = "soon"
    watcher = Watcher(tracker)
    watcher.start(tmp_path, "id", {})
    watcher.finish(RESULTS)
    assert "TypeError" in watcher.failure


def test_a_hanging_tracker_delays_only_the_end_of_the_run(tmp_path):
    release = threading.Event()

    class Hanging(Recording):
        finish_seconds = 0.2

        def start(self, run_dir, run_id, config):
            release.wait()

    tracker = Hanging()
    watcher = Watcher(tracker)
    began = time.monotonic()
    watcher.start(tmp_path, "id", {})
    for _ in range(1000):
        watcher.log({})
    assert time.monotonic() - began < 5
    watcher.finish(RESULTS)
    assert "did not finish" in watcher.failure and tracker.calls == [("abandon",)]
    release.set()


def test_what_an_abandoned_tracker_still_says_is_not_told(tmp_path, caplog):
    class Hanging(Recording):
        finish_seconds = 0.0
        gone = threading.Event()

        def start(self, run_dir, run_id, config):
            self.gone.wait()
            raise ConnectionResetError

        def abandon(self):
            self.gone.set()

    watcher = Watcher(Hanging())
    watcher.start(tmp_path, "id", {})
    watcher.finish(RESULTS)
    watcher._thread.join()
    assert "did not finish" in watcher.failure and not caplog.records


@pytest.mark.parametrize("error", [ConnectionResetError(), SystemExit(1), None], ids=repr)
def test_an_abandoned_wandb_is_ended_unheard(error, monkeypatch):
    ends = []

    def teardown():
        ends.append("end")
        if error:
            raise error

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(teardown=teardown))
    monkeypatch.setattr("psutil.Process.children", lambda _: [])
    WandbTracker("project").abandon()
    assert ends == ["end"]


def test_no_tracker_is_no_trouble(tmp_path):
    watcher = Watcher(make_tracker({}))
    watcher.start(tmp_path, "id", {})
    watcher.log({})
    watcher.finish(RESULTS)
    assert watcher.failure == ""


# --- W&B, as far as it takes none of its processes -------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_live_numbers_stand_over_all_finished_episodes_which_only_grow(finished):
    tracker, logged = WandbTracker("p"), []
    tracker._run = SimpleNamespace(log=logged.append)
    done = failed = 0
    for more, more_failed in finished:
        done, failed = done + more, failed + more_failed
        tracker.log({"episodes/done": done, "episodes/failed": failed, "spent": 1.5})
        assert logged[-1] == {
            **{"episodes/done": done, "episodes/failed": failed, "spent": 1.5, PROGRESS: done + failed}
        }
    tracker.log({})
    assert logged[-1] == {PROGRESS: 0}


def test_every_live_number_has_finished_episodes_as_its_axis():
    """All that a run may tell: prices, GPUs, reasoning, a cache, a stopping rule, and replicas at work."""
    stats = RunStatistics(
        players={"m": PlayerStatistics(planned=3, done=1, failed=1)},
        stopping=SimpleNamespace(to_numbers=lambda: {"stopping/games": 1.0, "stopping/toy/mean": 0.5}),
        replicas_wanted=1,
        gpus=1.0,
        gpu_hour_price=2.0,
        spent_before=1.0,
    )
    use = {"replica-0.0": ReplicaUse(slot_seconds=2.0, busy_slot_seconds=1.0)}
    counts = PlayerCounts(turns=1, prompt_tokens=10, cached_tokens=5)
    stats.report("r", Report(None, room=0, running=1, counts=counts, use=use))
    told = stats.to_json()
    assert {"gpu_cost", "spent", "success/m", "prefix_cache_hit_rate", "slot_utilization/replica-0"} <= told.keys()
    without = [name for name in told if not any(fnmatch.fnmatchcase(name, pattern) for pattern in LIVE)]
    assert not without


@pytest.mark.parametrize("group", [*LIVE, "checkpoint/*"])
def test_every_group_of_metrics_stands_on_the_page(group):
    assert f"`{group}`" in PAGE


@pytest.fixture
def wandb(monkeypatch):
    """What W&B's package is asked, in place of the package."""
    done = SimpleNamespace(begun=[], logged=[], axes=[], artifacts=[], ended=[])
    done.summary = {}

    class Artifact:
        def __init__(self, name, type, metadata):
            self.name, self.type, self.metadata, self.files = name, type, metadata, {}

        def add_file(self, path, name, policy, skip_cache):
            assert skip_cache and Path(path).is_file()
            self.files[name] = policy

    class Shown(SimpleNamespace):
        def add_data(self, *row):
            self.data = [*getattr(self, "data", []), row]

    run = SimpleNamespace(
        id="r",
        summary=done.summary,
        log=done.logged.append,
        log_artifact=done.artifacts.append,
        finish=lambda: done.ended.append("finish"),
        define_metric=lambda name, step_metric=None: done.axes.append((name, step_metric)),
    )
    package = SimpleNamespace(
        init=lambda **given: done.begun.append(given) or run,
        Settings=lambda **given: given,
        Artifact=Artifact,
        Table=Shown,
        Image=lambda pixels: pixels.shape,
        teardown=lambda: done.ended.append("teardown"),
    )
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.delenv("WANDB_SWEEP_ID", raising=False)
    return done


def test_a_run_of_w_and_b_is_begun_with_its_id_and_axes_but_under_a_sweep_without(wandb, tmp_path, monkeypatch):
    about = {"entity": "e", "group": "g", "job_type": "j", "notes": "why"}
    WandbTracker("p", mode="online", **about, tags=("a", "b")).start(tmp_path / "run", "the id", {"x": 1})
    (given,) = wandb.begun
    assert {
        "project": "p",
        "mode": "online",
        "id": "the id",
        "resume": "allow",
        "config": {"x": 1},
    }.items() <= given.items()
    assert {**about, "tags": ["a", "b"], "name": "run", "dir": str(tmp_path / "run")}.items() <= given.items()
    assert wandb.axes == [(PROGRESS, None), *((name, PROGRESS) for name in LIVE), ("checkpoint/*", "checkpoint/step")]
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    WandbTracker("p", name="n").start(tmp_path / "run", "the id", {})
    assert (wandb.begun[1]["id"], wandb.begun[1]["resume"], wandb.begun[1]["name"]) == (None, None, "n")


@pytest.mark.parametrize("whole", [True, False])
def test_the_end_of_a_run_has_tables_samples_summary_and_files_of_the_ledger_and_the_report(wandb, tmp_path, whole):
    run_dir = tmp_path / "a run"
    for name in (
        "plan.parquet",
        "episodes/part-1.parquet",
        "summary.json",
        "report/a.svg",
        "tables/t.csv",
        "report/sub/x",
        "other",
    ):
        (run_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (run_dir / name).write_text("x")
    tracker = WandbTracker("p", episodes=5 if whole else 0, artifacts=whole)
    tracker.start(run_dir, "id", {})
    frame = make("SE", 1, 3).frame.description
    fields = (
        "id",
        "suite",
        "task",
        "level",
        "mode",
        "lost",
        "why",
        3,
        (frame,),
        "prompt",
        "thought",
        "reply",
        None,
        "rule",
    )
    tables = [Table("t", "T", ("a",), ((1,),)), Table("empty", "E", ("a",), ())]
    asked = []
    results = FinalResults(
        {"episodes/done": 4, "episodes/failed": 3},
        {"planned": 7, "tables": []},
        tables,
        lambda count: (
            asked.append(count)
            or [SampledTurn(*fields), dataclasses.replace(SampledTurn(*fields), pictures=(), decoded="d")]
        ),
    )
    tracker.finish(results)
    live, shown, *samples = wandb.logged
    assert live == {"episodes/done": 4, "episodes/failed": 3, PROGRESS: 7}
    assert [*shown] == ["tables/t"] and wandb.summary == {"planned": 7} and wandb.ended == ["finish", "teardown"]
    assert asked == [5] * whole and len(samples) == whole
    if whole:
        row = (
            "id",
            "lost",
            "why",
            "suite",
            "task",
            "level",
            "mode",
            3,
            (576, 584, 3),
            "prompt",
            "thought",
            "reply",
            None,
            "rule",
        )
        assert samples[0]["episodes"].data == [row, (*row[:8], None, *row[9:12], "d", "rule")]
    told = [(each.name, each.type, each.metadata, each.files) for each in wandb.artifacts]
    ledger = {"plan.parquet": "immutable", "summary.json": "mutable", "episodes/part-1.parquet": "immutable"}
    report = {"report/a.svg": "mutable", "tables/t.csv": "mutable"}
    found = [("a-run-ledger", "ledger", {"run": "r"}, ledger), ("a-run-report", "report", {"run": "r"}, report)]
    assert told == (found if whole else [])


def test_pictures_of_a_turn_stand_side_by_side():
    world = make("SE", 1, 3)
    frame = world.frame.description
    pixels = _side_by_side([frame, frame])
    assert pixels.shape == (576, 2 * 584, 3) and (pixels[:, 576:584] == 255).all()
    assert (pixels[:, 584 : 584 + 576] == world.frame.render()).all()
    assert _side_by_side([]) is None and _side_by_side(['{"kind": "gone", "version": 1}']) is None


def test_texts_are_harmless_and_not_endless():
    assert _text("\x1b[31m") == "\\x1b[31m"
    assert len(_text("x" * 1_000_000)) < 21_000 and "980,000 more" in _text("x" * 1_000_000)
    assert _text("x" * 20_000) == "x" * 20_000


def test_a_tracker_to_upload_to_is_as_named_else_as_the_run_had_it_else_as_its_file_says():
    stored = {"type": "wandb", "project": "ours", "episodes": 3}
    found = tracker_section(stored, ["tracker.project=theirs", "tracker.tags=[a]"])
    assert (found["project"], found["episodes"], found["tags"], found["mode"]) == ("theirs", 3, ["a"], "offline")
    assert tracker_section(None, ["tracker.project=theirs"])["episodes"] == 24, "as its file says"
    for wrong, named in (
        ("model.name=x", "model.name=x: only the tracker's settings"),
        ("tracke=wandb", "tracke=wandb: only the tracker's"),
        ("tracker.projekt=x", "projekt"),
        ("tracker=none", "nothing to send to"),
    ):
        with pytest.raises(UserError, match=named):
            tracker_section(stored, [wrong])


@pytest.mark.parametrize(
    ("stored", "episodes"), [("mine", 3), ("wandb", 7)], ids=["the same tracker", "another tracker"]
)
def test_what_a_run_s_tracker_was_given_is_not_given_to_another_one(stored, episodes, monkeypatch):
    named = OmegaConf.create({"tracker": {"type": "mine", "episodes": 7}})
    monkeypatch.setattr(upload_module, "compose_config", lambda overrides: named)
    monkeypatch.setattr(upload_module, "check_section", lambda group, settings: None)
    found = tracker_section({"type": stored, "episodes": 3}, ["tracker=mine"])
    assert found == {"type": "mine", "episodes": episodes}


def test_nothing_is_uploaded_of_a_run_that_is_played(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(upload_module, "send", lambda run, section: sent.append(section["type"]))
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    directory.begin(PLAN, {"config.yaml": "suite: {type: toy}\nmodel: {name: fake}\n"})
    with pytest.raises(UserError, match="still played"):
        upload_module.upload(Run(directory.path), [])
    directory.release()
    upload_module.upload(Run(directory.path), [])
    assert sent == ["wandb"]


def test_an_upload_tells_what_was_played_and_no_speed(tmp_path, monkeypatch):
    plan = [*PLAN[:3], *(dataclasses.replace(each, player="other") for each in PLAN[:2])]
    tracker, suite = Recording(), ToySuite()
    rows = records_to_table([Record(plan[0], None, "X: no", (), 1.0, "model")], {})
    run = SimpleNamespace(path=tmp_path, plan=plan, config={"suite": {"type": "toy"}}, episodes=lambda: rows)
    run.planned, run.sessions = plan_to_table(plan), []
    results = SimpleNamespace(summary={"planned": 5}, tables=["table"])
    monkeypatch.setattr(upload_module, "score_run", lambda run: results)
    monkeypatch.setattr(upload_module, "make_suite", lambda config: suite)
    monkeypatch.setattr(upload_module, "make_tracker", lambda section: tracker)
    monkeypatch.setattr(upload_module, "final_results", lambda *given: given)
    tracker.start = lambda *given: tracker.calls.append(("start", *given))
    upload_module.send(run, {"type": "recording"})
    (start, *began), (finish, told) = tracker.calls
    assert (start, began, finish) == ("start", [tmp_path, tracked_id(run), run.config], "finish")
    assert told[:2] == (run, suite) and told[3:] == ({"planned": 5}, ["table"])
    player, failed = plan[0].player, {"episodes/done": 0, "episodes/failed": 1}
    assert {name: told[2][name] for name in failed} == failed and told[2][f"success/{player}"] == 0
    assert all(name.startswith(("episodes/", "success/")) for name in told[2])
    tracker.fails_at = "finish"
    with pytest.raises(RunFailedError, match="the tracker failed: ConnectionError: unreachable"):
        upload_module.send(run, {"type": "recording"})


@pytest.mark.parametrize(("ends", "code", "sent"), [(True, 0, True), (True, 1, False), (False, None, False)])
def test_another_process_that_takes_too_long_is_ended_with_its_children(ends, code, sent, tmp_path, monkeypatch):
    done = []

    class Process:
        pid, exitcode = 7, code

        def __init__(self, target, args):
            assert target is upload_module._send_or_exit and args == (tmp_path, {"type": "x"})

        def start(self):
            done.append("start")

        def join(self, seconds=None):
            done.append(f"join {seconds}")

        def is_alive(self):
            return not ends

        def kill(self):
            done.append("kill")

    def gone():
        raise upload_module.psutil.NoSuchProcess(8)

    children = [SimpleNamespace(kill=gone), SimpleNamespace(kill=lambda: done.append("kill child"))]
    monkeypatch.setattr(upload_module.multiprocessing, "get_context", lambda how: SimpleNamespace(Process=Process))
    monkeypatch.setattr(
        upload_module.psutil,
        "Process",
        lambda pid: SimpleNamespace(children=lambda recursive: children if recursive else []),
    )
    assert upload_module.sent_by_another_process(tmp_path, {"type": "x"}, 5.0) is sent
    assert done == ["start", "join 5.0", *([] if ends else ["kill child", "kill", "join None"])]
    for error in (RunFailedError("no"), UserError("no")):
        monkeypatch.setattr(upload_module, "send", lambda run, section, error=error: (_ for _ in ()).throw(error))
        with pytest.raises(SystemExit) as left:
            upload_module._send_or_exit(tmp_path, {})
        assert left.value.code == 1


def test_a_repeat_of_a_plan_is_another_run_to_a_tracker_and_a_resumed_run_the_same(tmp_path):
    suite = ToySuite(episodes=2)
    plan = plan_for(suite, {"oracle": ""})
    ids = []
    for name in ("one", "two"):
        write_run(tmp_path / name, plan, records_to_table([], ledger_columns(suite)))
        for session in ("first", "second"):
            directory = RunDirectory(tmp_path / name)
            directory.claim()
            directory.begin_session({})
            directory.release()
            ids.append(tracked_id(directory))
            assert tracked_id(Run(tmp_path / name)) == ids[-1], session
    assert ids[0] == ids[1] != ids[2] == ids[3]
