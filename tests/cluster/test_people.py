"""`raycade people`: a study from its folder to a ledger, tables and pay; the server may be killed at any moment."""

import asyncio
import csv
import dataclasses
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from cluster.errors import UserError
from cluster.people import command, export, folder
from cluster.people.folder import add_participants
from cluster.storage.stored_run import Run
from evals.ledger.ledger import open_ledger
from evals.people.games import Games
from evals.people.study import Participant, Plan, Study
from evals.players import BUILT_IN_PLAYERS
from evals.suite import play_episode
from tests.cluster.conftest import ROOT
from tests.cluster.test_cli import run_here
from tests.toy import ToySuite

KIDGYM = ["suite=kidgym", "suite.tasks=[SE,PL]", "suite.levels=[1]"]


def people_of(study):
    return json.loads((study / "participants.json").read_text())["participants"]


def answer_all(study, person, choose, steps=(0, -1)):
    """Writes the journal of a person who plays all games with the option that ``choose`` names; each has one turn."""
    (study / "answers").mkdir(exist_ok=True)
    lines = []
    for item, step, choices in [("consent", 0, ["agreed"]), ("instructions", 0, ["agreed"])] + [
        (game, step, [] if step else [choose]) for game in person["games"] for step in steps
    ]:
        entry = {"item": item, "step": step, "choices": choices, "visible": 2.0, "hidden": 1.0, "ignored": 0}
        lines.append(json.dumps(entry))
    (study / "answers" / f"{person['person']}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def study(tmp_path, capsys):
    folder = tmp_path / "study"
    code, out, _ = run_here(capsys, "people", "new", str(folder), *KIDGYM, "--players", "2", "--games", "1")
    assert code == 0 and "2 games, 4 participants" in out
    return folder


def test_a_new_study_is_a_folder_to_be_edited_whose_links_are_secret(study, capsys):
    plan = yaml.safe_load((study / "study.yaml").read_text())
    assert plan["settings"].count("suite=kidgym") == 1 and "suite.modes=[zero_shot]" in plan["settings"]
    people = people_of(study)
    assert len({each["token"] for each in people}) == 4 == len({each["code"] for each in people})
    assert (study / "participants.json").stat().st_mode & 0o077 == 0
    assert all(len(each["token"]) >= 32 and each["person"].startswith("person-") for each in people)
    code, _, err = run_here(capsys, "people", "new", str(study), *KIDGYM)
    assert code == 2 and "not empty" in err


def test_each_game_of_a_person_is_a_row_once_however_often_it_is_exported(tmp_path, monkeypatch):
    suite, asked = ToySuite(episodes=3), []

    def load(overrides):
        asked.append(overrides)
        return SimpleNamespace(config="suite: {}\nmodel: {name: x}\n", suite=suite)

    monkeypatch.setattr(export, "load_settings", load)
    games, run_dir = Games.of(suite), tmp_path / "run"
    opened = SimpleNamespace(
        study=SimpleNamespace(plan=SimpleNamespace(settings=("suite=toy",))),
        games=games,
        settings=SimpleNamespace(run_dir=run_dir),
    )
    first, second, third = games.by_id

    def taken(person, assigned, ended):
        episodes = [games.for_person(game, person) for game in ended]
        records = [asyncio.run(play_episode(suite, each, BUILT_IN_PLAYERS["oracle"])) for each in episodes]
        return SimpleNamespace(participant=Participant(person, "t", "c", assigned), records=records)

    early = [taken("person-b", (second, first), [second]), taken("person-a", (third,), [])]
    late = [taken("person-b", (second, first), [second, first]), taken("person-a", (third,), [third])]
    late.append(taken("person-c", (third,), []))
    of_all = [("person-a", 2), ("person-b", 0), ("person-b", 1)]
    for begun, rows in ((early, [("person-b", 1)]), (early, [("person-b", 1)]), (late, of_all)):
        export.write_run(opened, begun)
        run = Run(run_dir)
        found = run.episodes(["player", "index", "session"]).to_pylist()
        assert sorted((row["player"], row["index"]) for row in found) == rows
        assert {row["session"] for row in found} == {each["id"] for each in run.sessions}
        planned = [(each.participant.person, game) for each in begun for game in each.participant.games]
        assert run.planned["episode_id"].to_pylist() == [games.for_person(game, person).id for person, game in planned]
        assert all(each["complete"] for each in run.sessions)
    assert len(run.sessions) == 2
    assert asked[0] == ["suite=toy", "model=human", "model.name=person-b", f"run_dir={run_dir}"]


@pytest.mark.slow
def test_answers_become_a_run_beside_models_and_more_can_come(study, tmp_path, capsys):
    people = people_of(study)
    for person in people[:3]:
        answer_all(study, person, "A")
    other = tmp_path / "oracle"
    assert (
        run_here(
            capsys, "run", *KIDGYM, "suite.modes=[zero_shot]", "suite.episodes=1", "model=oracle", f"run_dir={other}"
        )[0]
        == 0
    )
    code, out, err = run_here(capsys, "people", "export", str(study), "--against", str(other))
    assert code == 0, err
    assert "People and models on identical games" in out and "oracle: oracle" in out
    run = study / "results" / "run"
    rows = open_ledger(run).table(["player", "status", "seconds"]).to_pylist()
    assert {row["player"] for row in rows} == {each["person"] for each in people[:3]}
    assert all(row["status"] == "done" for row in rows) and len(rows) == 3
    answer_all(study, people[3], "B")
    for _ in range(2):
        assert run_here(capsys, "people", "export", str(study))[0] == 0
        assert len(open_ledger(run).table(["player"])) == 4, "each game once, however often it is exported"
    with (study / "results" / "people_participants.csv").open() as file:
        found = {row["person"]: row for row in csv.DictReader(file)}
    assert {row["code"] for row in found.values()} == {each["code"] for each in people}
    code, out, _ = run_here(capsys, "report", str(run))
    assert code == 0 and people[0]["person"] in out


def test_results_are_not_written_through_a_link_out_of_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_games", lambda settings: Games.of(ToySuite(episodes=1)))
    study = folder.new_study(tmp_path / "study", KIDGYM, "play", 1, 1, "Study")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (study.folder / "results").symlink_to(elsewhere)

    async def nobody(opened):
        return []

    monkeypatch.setattr(export, "_all_taken", nobody)
    opened = folder.Opened(study, None, Games.of(ToySuite(episodes=1)), None)
    with pytest.raises(UserError, match="is a link out of the study"):
        export.export(opened, [])
    assert not list(elsewhere.iterdir())
    (study.folder / "results").unlink()
    (study.folder / "results").write_text("mine")
    with pytest.raises(UserError, match="results: cannot be written"):
        export.export(opened, [])
    (study.folder / "results").unlink()
    (study.folder / "results" / "people_participants.csv").mkdir(parents=True)
    with pytest.raises(UserError, match=r"people_participants\.csv: cannot be written"):
        export.export(opened, [])


@pytest.mark.parametrize(("kind", "ended", "begun"), [("play", (0, -1), (0,)), ("review", (0,), ())])
def test_new_participants_get_the_games_that_the_fewest_have_ended(tmp_path, monkeypatch, kind, ended, begun):
    games = ("a", "b", "c")
    plan = Plan(kind=kind, settings=(), players_per_game=1, games_per_participant=2)
    people = tuple(Participant(f"person-{name}", name * 16, name, (name, "c")) for name in "abb")
    study = Study(tmp_path, plan, people)
    monkeypatch.setattr(
        folder,
        "open_study",
        lambda path: SimpleNamespace(study=study, games=SimpleNamespace(different=games)),
    )
    for person in people:
        answer_all(tmp_path, person.to_json(), "A", ended if person.code == "a" else begun)
    more = add_participants(tmp_path, 5)
    assert more.participants[:3] == people and people_of(tmp_path) == [each.to_json() for each in more.participants]
    new = more.participants[3:]
    assert "b" in new[0].games and [sum(game in each.games for each in new) for game in games] == [3, 4, 3]
    for field in ("person", "token", "code"):
        assert len({getattr(each, field) for each in new}) == 5
    assert not {each.code.lower() for each in new} & {each.person.removeprefix("person-") for each in new}
    assert (tmp_path / "participants.json").stat().st_mode & 0o077 == 0
    with pytest.raises(UserError), folder.locked(tmp_path):
        add_participants(tmp_path, 1)


def test_a_study_is_read_under_its_lock_when_people_are_added(tmp_path, monkeypatch):
    def opened(path):
        with pytest.raises(UserError, match="another process"), folder.locked(path):
            pytest.fail("another process could add people meanwhile, who would be lost")
        raise UserError("read")

    monkeypatch.setattr(folder, "open_study", opened)
    with pytest.raises(UserError, match="read"):
        add_participants(tmp_path, 1)


def test_a_lock_that_is_a_link_or_a_pipe_is_refused_and_what_it_leads_to_stays(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("mine")
    for name, make in (("link", lambda path: path.symlink_to(kept)), ("pipe", os.mkfifo)):
        (tmp_path / name).mkdir()
        make(tmp_path / name / ".lock")
        with pytest.raises(UserError, match="cannot be written"):
            add_participants(tmp_path / name, 1)
    assert kept.read_text() == "mine"


def test_a_study_that_could_not_be_written_can_be_made_later(tmp_path, monkeypatch):
    real, written = folder.write_durably, []

    def full(path, *given, **named):
        if len(written) == files:
            raise OSError(28, "No space left on device")
        written.append(path.name)
        real(path, *given, **named)

    monkeypatch.setattr(folder, "_games", lambda settings: Games.of(ToySuite(episodes=1)))
    monkeypatch.setattr(folder, "write_durably", full)
    for count in range(5):
        files = count
        written.clear()
        with pytest.raises(OSError, match="No space"):
            folder.new_study(tmp_path / "study", KIDGYM, "play", 1, 1, "Study")
        assert {path.name for path in (tmp_path / "study").iterdir()} == {".lock"}
    files = -1
    folder.new_study(tmp_path / "study", KIDGYM, "play", 1, 1, "Study")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BlockingIOError(errno.EAGAIN, "busy"), "another process serves or changes this study"),
        (OSError(errno.ENOLCK, "No locks available"), "does not support file locking"),
    ],
)
def test_a_study_that_cannot_be_locked_says_whether_another_process_has_it(tmp_path, monkeypatch, error, said):
    def refused(*_):
        raise error

    monkeypatch.setattr("fcntl.flock", refused)
    with pytest.raises(UserError, match=said), folder.locked(tmp_path):
        pass


def test_secret_links_are_never_readable_by_others(tmp_path, monkeypatch):
    real, seen = Path.rename, []

    def rename(path, target):
        seen.append((target.name, path.stat().st_mode & 0o777))
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(folder, "_games", lambda settings: Games.of(ToySuite(episodes=1)))
    before = os.umask(0)
    try:
        study = folder.new_study(tmp_path / "study", KIDGYM, "play", 1, 1, "Study")
        folder.write_links(study, "http://here")
    finally:
        os.umask(before)
    secret = {"participants.json", "links.csv"}
    assert {name: mode for name, mode in seen if name in secret} == dict.fromkeys(secret, 0o600)
    assert {mode for name, mode in seen if name not in secret} == {0o666}


def test_a_study_that_was_made_meanwhile_is_not_written_over(tmp_path, monkeypatch):
    study = tmp_path / "study"

    def planned(settings):
        study.mkdir()
        (study / "study.yaml").write_text("theirs")
        return Games.of(ToySuite(episodes=1))

    monkeypatch.setattr(folder, "_games", planned)
    with pytest.raises(UserError, match="not empty"):
        folder.new_study(study, KIDGYM, "play", 1, 1, "Study")
    assert (study / "study.yaml").read_text() == "theirs"


def test_damaged_answers_are_told_when_a_study_is_served(tmp_path, capsys):
    plan = Plan(settings=(), players_per_game=1, games_per_participant=1)
    study = Study(tmp_path, plan, tuple(Participant(f"person-{name}", name * 16, name, ()) for name in "ab"))
    path = study.answers_of(study.participants[1])
    path.parent.mkdir()
    path.write_text("{\n")
    command._warn_of_damage(study)
    err = capsys.readouterr().err
    assert err.count("warning") == 1 and f"{path}" in err and "line 1" in err and "person-b" in err


@pytest.mark.parametrize("setting", ["shard=1/2", "stop=precise", "stop.most=5", "+baselines=[random]", "model=oracle"])
def test_settings_without_effect_on_a_study_are_refused(tmp_path, setting):
    with pytest.raises(
        UserError, match=f"^{re.escape(setting.partition('=')[0].lstrip('+'))}: has no effect on a study"
    ):
        folder.new_study(tmp_path / "study", [*KIDGYM, setting], "play", 1, 1, "Study")
    assert not (tmp_path / "study").exists()


def test_a_study_gives_the_repeats_of_a_game_to_nobody(tmp_path, monkeypatch):
    plan = ToySuite(episodes=4).plan()
    again = [dataclasses.replace(game, repeat=1) for game in plan]
    monkeypatch.setattr(ToySuite, "plan", lambda suite: [*plan, *again])
    monkeypatch.setattr(folder, "_games", lambda settings: Games.of(ToySuite()))
    study = folder.new_study(tmp_path / "study", [*KIDGYM, "name=people"], "play", 2, 2, "Study")
    assert "name=people" in study.plan.settings
    games = Games.of(ToySuite()).by_id
    given = Counter((games[game].index, games[game].repeat) for each in study.participants for game in each.games)
    assert given == {(index, 0): 2 for index in range(4)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "nowhere"], "there is no such file"),
        (["serve", "nowhere"], "there is no such folder"),
        (["serve", "{study}", "--public", "study.example.org"], "https://"),
        (["serve", "{study}", "--public", "http://["], "https://"),
        (["serve", "{study}", "--public", "ftp://study.example.org"], "https://"),
        (["add", "{study}", "0"], "from 1 to"),
        (["new", "{study}2", "--players", "0", *KIDGYM], "1 at least"),
        (["new", "{study}2", "suite.tasks=[SE]"], "suite: is missing"),
    ],
)
def test_what_is_wrong_is_named(study, capsys, words, said):
    code, _, err = run_here(capsys, "people", *(word.format(study=study) for word in words))
    assert code == 2 and said in err


def test_games_that_have_changed_since_are_not_played(study, capsys):
    path = study / "study.yaml"
    path.write_text(path.read_text().replace("[SE,PL]", "[SE]"))
    code, _, err = run_here(capsys, "people", "export", str(study))
    assert code == 2 and "have changed" in err


def serving(study):
    command = [sys.executable, "-u", "-m", "cluster", "people", "serve", str(study), "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    process.stdout.readline()
    return process


def link_of(study):
    with (study / "links.csv").open() as file:
        return next(csv.DictReader(file))["link"]


@pytest.mark.slow
def test_a_server_that_is_killed_after_each_answer_loses_none(study):
    answers = 0
    while True:
        process = serving(study)
        try:
            link = link_of(study)
            state = httpx.get(f"{link}state", timeout=60).json()
            if state["phase"] == "over":
                break
            sent = {"key": state["key"], "choices": [0], "visible": 1.0, "hidden": 0.0, "ignored": 0}
            assert httpx.post(f"{link}answer", json=sent, timeout=60).status_code == 200
            answers += 1
        finally:
            process.kill()
            process.wait()
    [journal] = (study / "answers").iterdir()
    kept = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len([each for each in kept if each["step"] != -1]) == answers == 3


@pytest.mark.slow
def test_ctrl_c_ends_the_server_though_a_phone_has_lost_its_net_within_an_answer(study):
    process = serving(study)
    try:
        address = urlsplit(link_of(study))
        half = f"POST {address.path}answer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{{"
        with socket.create_connection((address.hostname, address.port)) as phone:
            phone.sendall(half.encode())
            httpx.get(f"{link_of(study)}state", timeout=60)  # by now the half answer is waited for
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    finally:
        process.kill()


@pytest.mark.parametrize("kind", ["play", "review"])
def test_a_game_is_finished_by_all_who_have_ended_it_and_by_nobody_else(tmp_path, kind):
    people = tuple(
        Participant(f"person-{name}", name * 16, name, games)
        for name, games in zip("abc", ("xy", "x", "z"), strict=True)
    )
    study = Study(tmp_path, Plan(kind=kind, settings=(), players_per_game=1, games_per_participant=2), people)
    assert folder._finished(study) == Counter()
    for person, steps in zip(people, ((0, -1), (0, -1), (0,)), strict=True):
        answer_all(tmp_path, person.to_json(), "A", (0,) if kind == "review" else steps)
    assert folder._finished(study) == ({"x": 2, "y": 1} | ({"z": 1} if kind == "review" else {}))
