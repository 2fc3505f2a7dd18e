"""What a session leaves on the record, and which settings a run directory keeps to."""

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.commands import run as module
from cluster.commands.resume import Resume
from cluster.commands.run import run
from cluster.config.settings import ClusterSettings, load_settings
from cluster.errors import CONTINUE, RUN_FAILED, RunFailedError, UserError
from cluster.hosted.inline import play_inline
from cluster.ray_backend import actors
from cluster.storage.stored_run import Run
from evals.ledger.records import records_to_table
from evals.suite import ledger_columns, play_episode
from evals.summary.cost import money
from tests.cluster.conftest import leave, settings_at
from tests.cluster.test_cli import SMALL
from tests.cluster.test_resume import world as world  # a fixture
from tests.small_runs import Random

CHAIN = [
    "suite=multistar",
    "suite.configurations=[center_single]",
    "suite.puzzles=1",
    "suite.priors=[none]",
    "suite.sweep=false",
]


def start(run_dir, *overrides, suite=SMALL):
    return run(settings_at(run_dir, *suite, "model=simulated", *overrides))[0]


@pytest.mark.parametrize(
    ("needed", "todo", "attempts", "stopped", "tracked", "said"),
    [
        (9, 9, 0, False, False, []),
        (9, 7, 0, False, False, ["2 of 9 episodes done; resuming"]),
        (9, 7, 3, False, False, ["2 of 9 episodes done, retrying 3 failed ones; resuming"]),
        (9, 0, 0, True, True, ["decided", "suite by suite"]),
        (9, 0, 0, False, False, ["complete, all 9 episodes are in the ledger; nothing to play"]),
        (9, 0, 0, False, True, ["complete, all 9 episodes are in the ledger; nothing to play", "`raycade upload run`"]),
        (6, 6, 0, False, False, []),
        (6, 4, 0, False, False, ["2 of 6 episodes that its stopping rule needs done; resuming"]),
        (6, 0, 0, False, False, ["complete, all 6 episodes that its stopping rule needs are in the ledger"]),
    ],
)
def test_a_session_says_what_is_done_already(needed, todo, attempts, stopped, tracked, said):
    spoken = []
    stopping = SimpleNamespace(stopped=stopped, lines=lambda: ["decided", "suite by suite"])
    run = SimpleNamespace(path="run", planned=range(9), stopping=stopping if stopped or todo else None)
    resume = Resume([None] * todo, dict.fromkeys(range(attempts), 1), (), (), (), needed)
    module._print_resume_status(run, resume, SimpleNamespace(say=spoken.append), tracked=tracked)
    assert len(spoken) == len(said) and all(each in line for each, line in zip(said, spoken, strict=True))


@pytest.mark.parametrize(
    ("written", "missing", "stopped", "code"),
    [(True, 0, False, 0), (True, 2, False, 1), (True, 2, True, 0), (False, 0, False, 1)],
)
def test_a_played_run_ends_with_1_where_results_or_episodes_lack(written, missing, stopped, code, capsys):
    results = SimpleNamespace(written=written, summary={"missing": missing, "planned": 9})
    run = SimpleNamespace(path="run", stopping=SimpleNamespace(stopped=stopped))
    assert module._code(run, results) == code
    assert ("2 of 9 episodes were played and are not in the ledger" in capsys.readouterr().err) == (missing and code)


def test_a_link_that_is_turned_while_a_run_plays_leads_nothing_elsewhere(tmp_path):
    link, real, other = (tmp_path / name for name in ("run", "real", "other"))
    for folder in (real, other):
        folder.mkdir()
    link.symlink_to(real)

    def turn_and_play(*given):
        link.unlink()
        link.symlink_to(other)
        return play_inline(*given)

    code, _ = run(settings_at(link, *SMALL, "model=simulated", "cluster=inline"), turn_and_play)
    assert code == 0 and not any(other.iterdir()) and Run(real).timings


def test_the_endpoint_that_a_run_began_with_is_its_endpoint(tmp_path):
    class Paid:
        fixed_for_run = frozenset({"base_url"})

    def check(began, asked, begun=True, engine=True):
        run = SimpleNamespace(begun=begun, config={"model": {"engine": began}} if began is not None else {}, path="run")
        model = SimpleNamespace(engine=asked if engine else None, engine_class=Paid)
        module._check_answering(model, run, {"model": {"engine": asked}})

    one, other = {"base_url": "http://1", "timeout": 1}, {"base_url": "http://2", "timeout": 1}
    check(one, {**one, "timeout": 2})
    check(one, other, begun=False)
    check(one, other, engine=False)
    for began, asked in ((one, other), (one, {}), (None, one), ({}, one)):
        with pytest.raises(UserError, match=f"base_url={asked.get('base_url')}: this run started with"):
            check(began, asked)


@pytest.mark.parametrize(("began", "kept"), [("A", "is called A"), (None, "began without a name")])
def test_a_run_keeps_the_name_it_began_with(began, kept, tmp_path, capsys):
    def play(asked):
        name = [] if asked is None else [f"name={asked}"]
        run(load_settings([*SMALL, "model=random", f"run_dir={tmp_path / 'run'}", *name]))
        return capsys.readouterr().err

    assert "name=" not in play(began) + play(began) + play(None)
    assert f"name=B: has no effect, as {tmp_path / 'run'} {kept}" in play("B")
    assert Run(tmp_path / "run").config["name"] == began


@pytest.mark.slow
def test_built_in_players_alone_play_without_ray(monkeypatch, tmp_path):
    monkeypatch.setattr(module.actors, "start_ray", lambda cluster: pytest.fail("Ray was started"))
    settings = load_settings([*SMALL, "model=oracle", "baselines=[random]", f"run_dir={tmp_path / 'run'}"])
    code, _ = run(settings)
    rows = Run(tmp_path / "run").episodes(["player", "success", "status"]).to_pylist()
    assert code == 0 and len(rows) == len(settings.plan) and {row["status"] for row in rows} == {"done"}
    assert all(row["success"] for row in rows if row["player"] == "oracle")


def test_a_failed_start_leaves_no_folder_but_keeps_one_that_was_there(monkeypatch, tmp_path):
    def cannot(cluster):
        raise UserError("no cluster")

    monkeypatch.setattr(module.actors, "start_ray", cannot)
    there = tmp_path / "there"
    there.mkdir()
    for run_dir in (tmp_path / "new", there):
        with pytest.raises(UserError):
            start(run_dir)
    assert not (tmp_path / "new").exists() and there.exists()


def test_a_failed_start_leaves_what_another_driver_began_meanwhile(monkeypatch, tmp_path):
    settings = load_settings([*SMALL, "model=oracle", "baselines=[random]", f"run_dir={tmp_path / 'run'}"])

    def make_tracker(_):
        leave(settings)

    def agreed_rule(*_):
        raise UserError("no such rule")

    monkeypatch.setattr(module, "make_tracker", make_tracker)
    monkeypatch.setattr(module, "agreed_rule", agreed_rule)
    with pytest.raises(UserError):
        run(settings)
    assert Run(settings.run_dir).begun


@pytest.mark.parametrize(
    ("model", "keeps_journal"),
    [
        (("model=openai", "model.engine.model=m"), True),
        (("model=agent", "model.name=a", "model.engine.version=v1"), False),  # its client tells what an answer cost
    ],
)
def test_a_run_whose_spending_journal_was_removed_says_so(model, keeps_journal, tmp_path, capsys):
    settings = load_settings([*SMALL, *model, f"run_dir={tmp_path / 'run'}"])
    record = asyncio.run(play_episode(settings.suite, settings.plan[0], Random()))
    leave(settings, [record])
    assert run(settings, lambda *_: True) == (CONTINUE, None)
    cost = sum(turn.reply.cost for turn in record.turns)
    warned = f"spending.json: missing, though the ledger's episodes cost {money(cost)}" in capsys.readouterr().err
    assert cost and warned is keeps_journal


def test_a_game_that_changes_the_working_directory_takes_no_run_along(tmp_path, monkeypatch):
    def play(settings, todo, directory, stats, progress, watcher):
        os.chdir(elsewhere)
        records = [asyncio.run(play_episode(settings.suite, episode, Random())) for episode in todo]
        directory.commit(records_to_table(records, ledger_columns(settings.suite)))
        return False

    (here := tmp_path / "here").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(here)
    settings = load_settings([*SMALL, "model=random", "run_dir=runs/it"])
    assert run(settings, play)[0] == 0
    assert Path.cwd() == here and [*elsewhere.iterdir()] == []
    assert len(Run(here / "runs" / "it").ledger) == len(settings.plan)


def test_a_ray_that_does_not_start_here_is_told_in_one_line(monkeypatch):
    def timed_out(**options):
        raise RuntimeError("Timed out waiting for file gcs_server_port")

    monkeypatch.setattr(actors.ray, "init", timed_out)
    with pytest.raises(RunFailedError, match="Ray cannot be started on this machine: Timed out"):
        actors.start_ray(ClusterSettings())


def test_a_ray_that_refuses_the_connection_names_the_mode_in_which_a_token_is_sent(monkeypatch):
    def refuse(**_: object) -> None:
        raise ConnectionError("Failed to connect")

    monkeypatch.setattr(actors.ray, "init", refuse)
    for mode, named in (("disabled", True), ("token", False)):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        with pytest.raises(UserError, match="RAY_AUTH_TOKEN differs") as refused:
            actors.start_ray(ClusterSettings(address="auto"))
        assert ("export RAY_AUTH_MODE=token" in str(refused.value)) == named


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_while_ray_starts_stops_the_run_resumably(monkeypatch, tmp_path, number):
    usual = signal.signal(number, signal.SIG_DFL)  # nohup's tests would ignore SIGHUP, and so would the run

    def start_ray(cluster) -> None:
        signal.signal(number, signal.SIG_IGN)  # Ray installs handlers of its own while it starts
        os.kill(os.getpid(), number)

    monkeypatch.setattr(module.actors, "start_ray", start_ray)
    assert start(tmp_path / "run") == CONTINUE
    assert Run(tmp_path / "run").episodes().num_rows == 0
    signal.signal(number, usual)


@pytest.mark.parametrize("early", [True, False])
def test_native_handlers_that_ray_leaves_behind_neither_swallow_a_signal_nor_end_the_run(monkeypatch, tmp_path, early):
    native = ctypes.CDLL(None).signal
    native.argtypes = [ctypes.c_int, ctypes.c_void_p]

    def start_ray(cluster) -> None:
        if early:  # Abseil's handler calls ours, and sets an alarm whose handler aborts the process
            signal.alarm(1000)
            os.kill(os.getpid(), signal.SIGTERM)
        native(signal.SIGTERM, int(signal.SIG_IGN))

    monkeypatch.setattr(module.actors, "start_ray", start_ray)
    monkeypatch.setattr(module.capacity, "check_fit", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(module, "Driver", lambda *_, stopping: None)
    assert start(tmp_path / "run") == CONTINUE
    assert signal.alarm(0) == 0


@pytest.mark.ray
@pytest.mark.slow
def test_running_episodes_have_their_whole_grace_time_under_ray(launch, tmp_path):
    log = tmp_path / "log"
    longer = ["model.engine.step_seconds=0.1", "cluster.grace_seconds=6", f"run_dir={tmp_path / 'run'}"]
    process = launch("run", *SMALL, "model=simulated", *longer, log=log)
    while "up of 1" not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == CONTINUE, log.read_text()
    assert "running episodes were not finished" in log.read_text() and "SIGTERM received" not in log.read_text()


@pytest.mark.slow
def test_a_part_that_was_removed_meanwhile_is_missing_and_the_exit_code_says_so(world, tmp_path, monkeypatch, capsys):
    usual = module.play_on_cluster  # the fixture's

    def play(settings, todo, directory, *others):
        stopped = usual(settings, todo, directory, *others)
        next((directory.path / "episodes").glob("*.parquet")).unlink()
        return stopped

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(module, "play_on_cluster", play)
        assert start(tmp_path / "run") == RUN_FAILED
    assert "were played and are not in the ledger" in capsys.readouterr().err
    assert start(tmp_path / "run") == 0
    assert len(Run(tmp_path / "run").plan) == len(Run(tmp_path / "run").episodes())
