"""`raycade play`: a person's games reach the ledger as any player's do, in the terminal and in the browser."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import httpx
import pytest

from cluster.commands import play as module
from cluster.commands.play import play_games, play_overrides
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.stop_signals import StoppedError
from cluster.stopping.watch import StopWatch
from cluster.storage.stored_run import Run
from evals.human import QuitError, browser
from evals.ledger.ledger import open_ledger
from evals.ledger.records import chat_of
from tests.cluster.conftest import EASY, ROOT
from tests.cluster.test_cli import run_here

KIDGYM = ["suite=kidgym", "suite.tasks=[SE,PL]", "suite.levels=[1]"]
OTHERS = {
    "kumo": EASY,
    "multistar": ["suite=multistar", "suite.configurations=[center_single]", "suite.attributes=[shape]"],
}


def rows_of(run_dir):
    ledger = open_ledger(run_dir)
    return ledger.table(ledger.schema.names).to_pylist()


@pytest.fixture
def type_in(monkeypatch):
    """Standard input has these lines, the last one again and again."""

    def script(*lines):
        left = list(lines)
        monkeypatch.setattr("builtins.input", lambda prompt="": left.pop(0) if len(left) > 1 else left[0])

    return script


def start(*arguments):
    """A process whose input and output are the test's."""
    command = [sys.executable, "-u", "-m", "cluster", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def shown_until(process, *expected):
    """What a process shows until these texts are shown, one after the other."""
    shown = ""
    for text in expected:
        before = len(shown)
        while text not in shown[before:]:
            more = process.stdout.read(1)
            assert more, f"{text!r} is not shown: {shown}"
            shown += more
    return shown


def answer(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


@pytest.mark.slow
def test_a_person_plays_in_the_terminal_is_stopped_and_goes_on(tmp_path, type_in, capsys):
    command = ["play", *KIDGYM, f"run_dir={tmp_path / 'run'}"]
    first = start(*command)
    began = shown_until(first, "1  A)", "> ")
    assert "Game 1 of 2" in began and re.search(r"\[picture: .*\.png\]", began)
    answer(first, "no option")
    shown_until(first, "number from 1 to")
    answer(first, "2")
    shown_until(first, "Game 2 of 2", "> ")
    first.send_signal(signal.SIGTERM)
    rest, _ = first.communicate(timeout=120)
    assert first.returncode == 75 and "same command" in rest
    [row] = rows_of(tmp_path / "run")
    assert (row["player"], row["task"], row["status"]) == ("human", "SE", "done")
    [turn] = row["turns"]
    assert turn["reply"] == "B" == turn["options"][1] and turn["seconds"] > 0 and turn["action"]

    type_in("1")
    code, out, _ = run_here(capsys, *command)
    assert code == 0 and "Game 1 of 1" in out and "KidGym: success" in out
    assert sorted(row["task"] for row in rows_of(tmp_path / "run")) == ["PL", "SE"]


@pytest.mark.slow
def test_quitting_keeps_finished_games_and_the_baselines_play_all_the_same(type_in, tmp_path, capsys):
    command = ["play", *KIDGYM, "baselines=[oracle]", f"run_dir={tmp_path / 'run'}"]
    type_in("1", ":quit")
    code, out, err = run_here(capsys, *command)
    assert code == 75 and "oracle" in out and "same command" in err
    played = [("human", "SE"), ("oracle", "PL"), ("oracle", "SE")]
    assert sorted((row["player"], row["task"]) for row in rows_of(tmp_path / "run")) == played
    type_in("1")
    assert run_here(capsys, *command)[0] == 0
    assert sorted((row["player"], row["task"]) for row in rows_of(tmp_path / "run")) == [("human", "PL"), *played]
    code, _, err = run_here(capsys, *command)
    assert code == 0 and "nothing to play" in err


@pytest.mark.slow
@pytest.mark.parametrize("suite", OTHERS)
def test_every_suite_can_be_played(suite, type_in, tmp_path, capsys):
    type_in("1")
    code, out, _ = run_here(
        capsys, "play", "--participant", "ann", *OTHERS[suite], "baselines=[random]", f"run_dir={tmp_path / 'run'}"
    )
    assert code == 0 and "human_ann" in out and "random" in out
    rows = [row for row in rows_of(tmp_path / "run") if row["player"] == "human_ann"]
    assert rows and all(row["status"] == "done" and row["cut_off"] == 0 for row in rows)
    for row in rows:
        assert all(turn["reply"] == turn["options"][0] and turn["action"] for turn in row["turns"])
        assert all(chat_of(row["turns"], number) for number in range(len(row["turns"])))


@pytest.mark.slow
def test_participants_play_the_same_games_as_players_of_their_own():
    anonymous, ann, bob = (load_settings(play_overrides(KIDGYM, name)) for name in ("", "ann", "bob"))
    assert [settings.model.name for settings in (anonymous, ann, bob)] == ["human", "human_ann", "human_bob"]
    assert len({settings.run_dir for settings in (anonymous, ann, bob)}) == 3
    for one, other in zip(ann.plan, bob.plan, strict=True):
        assert one.id != other.id and one.seed == other.seed
    assert {episode.player for episode in ann.plan} == {"human_ann"}


@pytest.mark.parametrize("suite", ["demo", "kumo_likely"])
def test_repeats_are_for_models(suite):
    plan = load_settings(play_overrides([f"suite={suite}"], "")).plan
    assert {episode.repeat for episode in plan} == {0}


@pytest.mark.slow
def test_by_default_each_game_is_played_once():
    for suite, planned in (("kidgym", 36), ("kumo", 10), ("kumo_likely", 5)):
        assert len(load_settings(play_overrides([f"suite={suite}"], "")).plan) == planned
    multistar = load_settings(play_overrides(OTHERS["multistar"], ""))
    assert multistar.suite.subtask == "direct" and multistar.suite.reply == "text"
    assert len(load_settings(play_overrides([*KIDGYM, "suite.episodes=3"], "")).plan) == 6, "own settings count"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "suite"),
        (["suite=chess"], "chess"),
        (["suite=kidgym", "model=oracle"], "model=oracle"),
        (["suite=kidgym", "model.name=me"], "model.name=me"),
        (["--participant", "Ann B.", "suite=kidgym"], "Ann B."),
        (["suite=kidgym", "baselines=[human]"], "baselines"),
        (["--browser", "--port", "99999", *KIDGYM, "run_dir={tmp}"], "--port=99999"),
    ],
)
def test_what_cannot_be_played_is_named(arguments, named, capsys, tmp_path):
    run_dir = tmp_path / "run"
    code, _, err = run_here(capsys, "play", *(each.format(tmp=run_dir) for each in arguments))
    assert not run_dir.exists(), "a failed start leaves no folder"
    assert code == 2 and named in err and "Traceback" not in err


@pytest.mark.slow
def test_run_says_that_people_use_play(capsys, tmp_path):
    code, _, err = run_here(capsys, "run", *KIDGYM, "model=human", f"run_dir={tmp_path / 'run'}")
    assert code == 2 and "raycade play" in err and not (tmp_path / "run").exists()


def test_a_model_cannot_take_a_person_s_name():
    with pytest.raises(UserError, match="human_ann"):
        load_settings([*KIDGYM, "model=simulated", "model.name=human_ann"])


@pytest.mark.parametrize("defect", [ZeroDivisionError, asyncio.CancelledError, SystemExit])
async def test_a_game_with_a_defect_fails_alone(defect, monkeypatch, capsys):
    settings = load_settings(play_overrides(KIDGYM, ""))
    committed = []

    async def broken(suite, episode, player):
        if episode.task == "SE":
            raise defect("a defect")
        raise QuitError

    class Nobody:
        def begin(self, number, games):
            pass

    monkeypatch.setattr(module, "play_episode", broken)
    assert await play_games(settings, settings.plan, Nobody(), committed.append, StopWatch(None, None))
    [record] = committed
    assert not record.done and record.error_kind == "suite" and "a defect" in record.error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_while_the_page_waits_ends_the_games_and_leaves_no_row(number, monkeypatch):
    settings, committed = load_settings(play_overrides(KIDGYM, "")), []
    ask = browser.Browser.ask

    async def asked(page, question):
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
        return await ask(page, question)

    monkeypatch.setattr(browser.Browser, "ask", asked)
    monkeypatch.setattr(browser, "GOODBYE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_commit", lambda *given: committed.append(given))
    monkeypatch.setattr(module.StopWatch, "of", lambda directory, balanced: StopWatch(None, None))
    options = SimpleNamespace(browser=True, port=0)
    with pytest.raises(StoppedError, match=number.name):
        module._play(options, settings, list(settings.plan), None, None, None, None)
    assert committed == []


async def test_an_interface_that_is_gone_before_a_game_leaves_no_row():
    class Gone:
        def begin(self, number, games):
            raise QuitError

    settings, committed = load_settings(play_overrides(KIDGYM, "")), []
    assert await play_games(settings, settings.plan, Gone(), committed.append, StopWatch(None, None)) is True
    assert committed == []


async def test_games_that_are_cancelled_leave_no_row():
    settings, committed = load_settings(play_overrides(KIDGYM, "")), []
    page = browser.Browser()
    playing = asyncio.create_task(play_games(settings, settings.plan, page, committed.append, StopWatch(None, None)))
    while not page._question:
        await asyncio.sleep(0)
    playing.cancel()
    await asyncio.wait([playing], timeout=5)
    assert playing.cancelled() and committed == []


@pytest.mark.parametrize(
    ("rule", "all_games"),
    [(["stop=precise", "precision=.35"], False), (["stop=decided", "against=oracle"], True)],
    ids=["precise", "decided"],
)
def test_a_person_is_asked_no_game_that_the_rule_does_not_need(rule, all_games, type_in, tmp_path, capsys):
    run_dir = tmp_path / "run"
    games = ["suite=kidgym", "suite.tasks=[CL]", "suite.levels=[1]", "suite.modality=text", "suite.episodes=30"]
    command = ["play", *games, "baselines=[oracle]", *rule, f"run_dir={run_dir}"]
    type_in("1")
    assert run_here(capsys, *command)[0] == 0
    stopping = Run(run_dir).stopping
    taken = stopping.groups[0].decision.games
    assert stopping.stopped and taken < 30
    played = Counter(row["player"] for row in rows_of(run_dir))
    assert played == {"human": taken, "oracle": 30 if all_games else taken}


def test_each_game_of_a_person_who_quits_counts_for_the_rule(type_in, tmp_path, capsys):
    games = ["suite=kidgym", "suite.tasks=[CL]", "suite.levels=[1]", "suite.modality=text", "suite.episodes=30"]
    type_in(*["1"] * 9, ":quit")
    run_dir = tmp_path / "run"
    assert run_here(capsys, "play", *games, "stop=precise", "precision=.35", f"run_dir={run_dir}")[0] == 75
    assert 0 < len(rows_of(run_dir)) == Run(run_dir).stopping.groups[0].decision.games


@pytest.mark.slow
def test_a_person_plays_in_the_browser(tmp_path):
    command = [sys.executable, "-m", "cluster", "play", "--browser", *KIDGYM, f"run_dir={tmp_path / 'run'}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://\S+", process.stdout.readline())[0]
            known, answered = -1, 0
            while True:
                state = httpx.get(f"{address}state", params={"known": known}).json()
                if state["phase"] == "over":
                    break
                known = state["key"]
                if state["phase"] == "question":
                    posted = httpx.post(f"{address}answer", json={"key": known, "choices": [1]})
                    answered += posted.status_code == 200
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert answered == 2
    assert [(row["player"], row["status"]) for row in rows_of(tmp_path / "run")] == [("human", "done")] * 2
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["planned"], summary["done"]) == (2, 2)


@pytest.mark.parametrize("suite", [KIDGYM, *OTHERS.values()], ids=lambda suite: suite[0])
def test_who_quits_in_the_first_game_gets_empty_tables(suite, type_in, tmp_path, capsys):
    type_in(":quit")
    code, out, _ = run_here(capsys, "play", *suite, f"run_dir={tmp_path / 'run'}")
    assert code == 75 and "Episodes" in out
