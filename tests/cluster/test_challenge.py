"""Sealed games, and what was registered before a run beside what was done."""

import dataclasses
import datetime
import errno
import json
import os
import re
import shlex
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from cluster.cli import main
from cluster.commands import preregister
from cluster.commands.compare import compare
from cluster.config.plan import make_suite
from cluster.config.settings import load_settings
from cluster.errors import RunFailedError, UserError
from cluster.stopping import registration
from cluster.stopping.challenge import check_run, new_challenge, open_challenge
from cluster.stopping.registration import (
    KEPT_AS,
    Registration,
    check_measure,
    keep,
    plan_hash,
    register,
    registration_table,
    sha256,
)
from cluster.storage.stored_run import Run
from evals.sealed import commitment_of, read_secret
from evals.stopping.rules import StopRule
from evals.summary.paired import Measure
from tests.cluster.conftest import EASY
from tests.toy import ToySuite

SUITES = {
    "kidgym": {"tasks": ["CL"], "levels": [1], "modes": ["zero_shot"], "episodes": 3},
    "kumo": {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 3, "repeats": 1},
    "multistar": {"configurations": ["center_single"], "puzzles": 3},
}


@pytest.mark.parametrize("name", SUITES)
def test_sealed_games_are_others_for_each_secret_and_the_same_for_one(tmp_path, name):
    files = [tmp_path / "one", tmp_path / "other"]
    for file in files:
        new_challenge(file)

    def planned(**settings):
        episodes = make_suite({"type": name, **SUITES[name], **settings}).plan()
        return {episode.id for episode in episodes}, {episode.seed for episode in episodes}

    open_ids, open_seeds = planned()
    found = [planned(seeds=f"sealed:{file}") for file in files]
    for ids, seeds in found:
        assert len(ids) == len(open_ids) and not ids & open_ids and not seeds & open_seeds
    assert not found[0][1] & found[1][1]
    assert planned(seeds=f"sealed:{files[0]}") == found[0]


def test_a_commitment_is_kept_or_broken(tmp_path):
    file = tmp_path / "secret"
    published = re.search(r"SHA-256 ([0-9a-f]{64})", new_challenge(file))[1]
    assert (file.stat().st_mode & 0o777) == 0o600
    assert published == commitment_of(read_secret(file)) and published not in file.read_text()
    assert read_secret(file) in open_challenge(file, published)
    with pytest.raises(UserError, match="exists"):
        new_challenge(file)
    with pytest.raises(UserError, match=r"none/secret: .*No such file"):
        new_challenge(tmp_path / "none" / "secret")
    other = tmp_path / "other"
    new_challenge(other)
    with pytest.raises(UserError, match="another secret"):
        open_challenge(other, published)


def test_a_full_disk_leaves_no_challenge_and_a_new_one_can_be_drawn_later(tmp_path, monkeypatch):
    def full(file, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "secret"
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(RunFailedError, match="secret: cannot be written"):
            new_challenge(file)
    assert not file.exists()
    new_challenge(file)


def test_games_of_a_plan_are_told_from_those_of_a_secret_by_their_seeds(tmp_path):
    file = tmp_path / "secret"
    new_challenge(file)
    section = {"type": "kidgym", **SUITES["kidgym"]}
    sealed, free = make_suite({**section, "seeds": f"sealed:{file}"}).plan(), make_suite(section).plan()
    for plan, row in (
        (sealed, ("kidgym", 3, 0, "yes")),
        (free, ("kidgym", 0, 3, "NO")),
        ([*sealed[:2], free[2]], ("kidgym", 2, 1, "NO")),
    ):
        names = ("suite", "task", "level", "index", "seed")
        planned = pa.Table.from_pylist([{name: getattr(episode, name) for name in names} for episode in plan])
        run = SimpleNamespace(path=tmp_path, planned=planned, config={"suite": section})
        table, others = check_run(run, file, commitment_of(read_secret(file)))
        assert table.rows == (row,) and others == row[2]


def test_each_suite_of_a_bundle_is_checked(tmp_path):
    file = tmp_path / "secret"
    new_challenge(file)
    sections = [{"type": name, **SUITES[name]} for name in ("kidgym", "kumo")]
    sealed = [{**sections[0], "seeds": f"sealed:{file}"}, {**sections[1], "seeds": f"sealed:{file}"}]
    names = ("suite", "task", "level", "index", "seed")
    for suites, rows in (
        (sealed, (("kidgym", 3, 0, "yes"), ("kumo", 3, 0, "yes"))),
        ([sealed[0], sections[1]], (("kidgym", 3, 0, "yes"), ("kumo", 0, 3, "NO"))),
    ):
        plan = make_suite({"type": "bundle", "name": "both", "suites": suites}).plan()
        planned = pa.Table.from_pylist([{name: getattr(episode, name) for name in names} for episode in plan])
        run = SimpleNamespace(
            path=tmp_path, planned=planned, config={"suite": {"type": "bundle", "name": "both", "suites": sections}}
        )
        assert check_run(run, file, commitment_of(read_secret(file)))[0].rows == rows


def test_games_that_the_challenge_does_not_have_are_others(tmp_path):
    file = tmp_path / "secret"
    new_challenge(file)
    section = {"type": "kidgym", **SUITES["kidgym"]}
    games = make_suite({**section, "seeds": f"sealed:{file}"}).plan()
    names = ("suite", "task", "level", "index", "seed")
    planned = [{name: getattr(episode, name) for name in names} for episode in games]
    planned.append({**planned[0], "index": 10**6})
    run = SimpleNamespace(path=tmp_path, planned=pa.Table.from_pylist(planned), config={"suite": section})
    table, others = check_run(run, file, commitment_of(read_secret(file)))
    assert table.rows == (("kidgym", len(games), 1, "NO"),) and others == 1


@pytest.mark.slow
def test_a_run_is_checked_for_sealed_games(tmp_path):
    file = tmp_path / "secret"
    new_challenge(file)
    published = commitment_of(read_secret(file))
    small = ["suite=kidgym", "suite.tasks=[CL]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes=2"]
    for name, seeds in (("sealed", [f"suite.seeds=sealed:{file}"]), ("open", [])):
        with pytest.raises(SystemExit) as ended:
            main(["run", *small, *seeds, "model=oracle", f"run_dir={tmp_path / name}"])
        assert ended.value.code == 0
    (table,) = compare([Run(tmp_path / "open"), Run(tmp_path / "sealed")])
    (row, *_) = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert table.name == "fresh_A_B" and (row["cell"], row["A"], row["B"]) == ("all", 1, 1)
    assert row["A - B"].mean == 0 and row["oracle's steps"].mean == 0  # CL always takes four steps
    assert check_run(Run(tmp_path / "sealed"), file, published)[0].rows == (("kidgym", 2, 0, "yes"),)
    assert check_run(Run(tmp_path / "open"), file, published)[0].rows == (("kidgym", 0, 2, "NO"),)
    sealed = Run(tmp_path / "sealed")
    smaller = {**sealed.config, "suite": {**sealed.config["suite"], "episodes": 1}}
    more = SimpleNamespace(path=sealed.path, planned=sealed.planned, config=smaller)
    assert check_run(more, file, published)[0].rows == (("kidgym", 1, 1, "NO"),), "a game that no secret has"
    for name, code in (("sealed", 0), ("open", 1)):
        with pytest.raises(SystemExit) as ended:
            main(["challenge", "check", str(tmp_path / name), str(file), "--hash", published])
        assert ended.value.code == code
    assert read_secret(file) not in (tmp_path / "sealed" / "config.yaml").read_text()


@pytest.mark.parametrize("seeds", ["1234", "sealed:/nowhere/at/all"])
def test_seeds_that_are_no_secret_are_refused(seeds):
    with pytest.raises(UserError, match=r"seeds=1234|cannot be read as a challenge"):
        load_settings(["suite=kidgym", "suite.tasks=[CL]", f"suite.seeds='{seeds}'", "model=oracle"])


REGISTERED = [
    *(*EASY, "suite.tasks_per_domain=20", "suite.repeats=1"),
    *("model=oracle", "baselines=[random]", "stop=decided", "against=random"),
]


def test_commands_that_are_printed_can_be_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = ["suite.structure={names: permuted}", "name='A B'", "suite.tasks_per_domain=1", "model=random"]
    registered = [*EASY, *settings]
    assert command("preregister", "--out", "my reg.json", "--hypothesis", "a", *registered) == 0
    typed = capsys.readouterr().out.partition("run it: ")[2]
    assert shlex.split(typed) == ["raycade", "run", *registered, "preregistration=my reg.json"]
    typed = new_challenge(Path("it's my secret.txt")).partition("play it: ")[2]
    assert shlex.split(typed) == ["raycade", "run", "suite.seeds=sealed:it's my secret.txt"]


def command(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, ()),
        ({"registered": "2026-01-03T00:00:00+00:00"}, ("registered first",)),
        ({"plan": plan_hash(["a"])}, ("plan",)),
        ({"players": ("other",)}, ("players",)),
        ({"rule": StopRule("decided", against="random")}, ("stopping rule",)),
    ],
)
def test_each_part_of_a_registration_is_compared_by_itself(tmp_path, changed, broken):
    stated = Registration(
        "It wins.", "success", ("m",), 0.05, None, plan_hash(["a", "b"]), {}, "2026-01-01T00:00:00+00:00"
    )
    (tmp_path / "preregistration.json").write_text(dataclasses.replace(stated, **changed).to_json())
    planned = pa.table({"episode_id": ["a", "b"], "player": ["m", "m"]})
    sessions = [{"began": f"2026-01-0{day}T00:00:00+00:00"} for day in (4, 2)]
    run = SimpleNamespace(path=tmp_path, rule=None, planned=planned, sessions=sessions)
    rows = registration_table(run, "A").rows
    assert {row[0] for row in rows if row[-1] != "yes"} == set(broken) and len(rows) == 5


def test_each_session_is_compared_with_the_versions_that_were_registered(tmp_path):
    stated = Registration(
        "It wins.", "score", ("m", "n"), 0.05, None, "p", {"git_commit": 13 * "a", "vllm": "1"}, "2026-01-01"
    )
    (tmp_path / "preregistration.json").write_text(stated.to_json())
    planned = pa.table({"episode_id": ["a"], "player": ["m"]})
    for used, rows in (
        ([{"git_commit": 13 * "a"}] * 2, [("git_commit", 12 * "a", 12 * "a", "yes")]),
        ([{"vllm": "1"}, {"vllm": "2"}], [("vllm", "1", "1, 2", "NO")]),
        ([{"vllm": "2", "git_commit": None}], [("vllm", "1", "2", "NO")]),
        ([{"torch": "2"}], []),
    ):
        run = SimpleNamespace(path=tmp_path, rule=None, planned=planned, sessions=used)
        table = registration_table(run, "B", "steps")
        assert table.rows[3:] == (("measure", "score", "steps", "NO"), *rows)
        assert table.rows[1] == ("players", "m, n", "m", "NO")
    assert table.notes == (f"SHA-256 of the file: {sha256((tmp_path / 'preregistration.json').read_bytes())}.",)
    assert registration_table(SimpleNamespace(path=tmp_path / "none"), "B") is None


def test_a_rule_is_shown_by_what_it_sets_and_versions_by_what_both_have_noted(tmp_path):
    rule = StopRule("decided", alpha=0.1, delta=0.2, against="random")
    stated = Registration("It wins.", "success", ("m",), 0.1, rule, plan_hash(["a"]), {"git_commit": "c"}, "2026-01-01")
    (tmp_path / "preregistration.json").write_text(stated.to_json())
    planned = pa.table({"episode_id": ["a"], "player": ["m"]})
    run = SimpleNamespace(path=tmp_path, rule=None, planned=planned, sessions=[{"git_commit": "c", "vllm": "1"}])
    shown = "kind=decided, by=run, delta=0.2, alpha=0.1, measure=success, bounds=[0.0, 1.0], against=random"
    rows = registration_table(run, "A").rows
    assert rows[2] == ("stopping rule", shown, "none: the whole plan", "NO")
    assert rows[4:] == (("git_commit", "c", "c", "yes"),)
    run.rule = SimpleNamespace(rule=rule)
    assert registration_table(run, "A").rows[2] == ("stopping rule", shown, shown, "yes")


@pytest.mark.parametrize(
    ("registered", "done", "kept"),
    [
        ("runs/b", "runs/b", "yes"),
        ("runs/b", "{here}/runs/b", "yes"),
        ("runs/../runs/b", "./runs/b/", "yes"),
        ("runs/link", "runs/b", "yes"),
        ("runs/b", "runs/c", "NO"),
        ("random", "./random", "NO"),
    ],
)
def test_a_rule_is_kept_however_the_other_run_is_spelled(tmp_path, monkeypatch, registered, done, kept):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "b").mkdir(parents=True)
    (tmp_path / "runs" / "link").symlink_to("b")
    rules = [StopRule("decided", against=against.format(here=tmp_path)) for against in (registered, done)]
    stated = Registration("It wins.", "success", ("m",), 0.05, rules[0], plan_hash(["a", "b"]), {}, "2026-01-01")
    (tmp_path / "preregistration.json").write_text(stated.to_json())
    planned = pa.table({"episode_id": ["a", "b"], "player": ["m", "random"]})
    run = SimpleNamespace(path=tmp_path, rule=SimpleNamespace(rule=rules[1]), planned=planned, sessions=[])
    assert registration_table(run, "A").rows[2][-1] == kept


def test_what_is_registered_is_the_plan_and_the_measure_and_level_of_its_rule(tmp_path, monkeypatch):
    monkeypatch.setattr(registration, "versions", lambda: {"vllm": "1", "git_commit": None})
    plan = [SimpleNamespace(id=name, player=player) for name, player in (("c", "m"), ("a", "random"), ("b", "m"))]
    rule = StopRule("decided", measure="score", alpha=0.1, delta=0.2, against="random")
    for stop, measure, alpha in ((None, "steps", 0.01), (rule, "score", 0.1)):
        made = register(SimpleNamespace(plan=plan, stop=stop), "It wins.", "steps", 0.01)
        used = {"vllm": "1", "git_commit": "unknown"}
        expected = Registration(
            "It wins.", measure, ("m", "random"), alpha, stop, plan_hash("abc"), used, made.registered
        )
        assert made == expected
        assert made.registered.endswith("+00:00") and abs(time_of(made.registered) - time.time()) < 60
        (tmp_path / "file").write_text(made.to_json())
        assert Registration.read(tmp_path / "file") == made


class Rated(ToySuite):
    """Has a measure of its own."""

    def measures(self, run, player):
        assert run.episodes(["toy.right"]).num_rows == 0
        return [Measure("rating", (), [])]


def test_what_will_be_compared_is_a_measure_of_the_suite_or_a_number_of_the_ledger():
    suite = Rated(episodes=2)
    plan = [each.assigned("m", "") for each in suite.plan()]
    settings = SimpleNamespace(suite=suite, plan=plan, model=SimpleNamespace(name="m"))
    for known in ("rating", "success", "steps", "toy.right"):
        check_measure(known, settings)
    for wrong, near in (("raiting", "Did you mean rating"), ("right", "Did you mean toy.right"), ("task", "There are")):
        with pytest.raises(UserError, match=f"--measure {wrong}: .*{near}"):
            check_measure(wrong, settings)


def time_of(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def test_a_registration_is_kept_with_a_run_that_begins_and_no_other_takes_its_place(tmp_path):
    stated = Registration("It wins.", "success", ("m",), 0.05, None, "p", {}, "2026-01-01T00:00:00+00:00")
    files = [tmp_path / "one", tmp_path / "other"]
    for number, file in enumerate(files):
        file.write_text(dataclasses.replace(stated, plan=str(number)).to_json())
    run = SimpleNamespace(path=tmp_path / "run", sessions=[])
    run.path.mkdir()
    assert keep(run, files[0]) == sha256(files[0].read_bytes())
    assert (run.path / KEPT_AS).read_bytes() == files[0].read_bytes()
    run.sessions = [{"id": "s"}]
    assert keep(run, files[0]) == sha256(files[0].read_bytes()), "goes on with the same"
    with pytest.raises(UserError, match="began with another one"):
        keep(run, files[1])
    (run.path / KEPT_AS).unlink()
    with pytest.raises(UserError, match="has been played without it"):
        keep(run, files[0])
    files[0].write_text("{}")
    with pytest.raises(UserError, match="cannot be read as a preregistration"):
        keep(run, files[0])
    assert not (run.path / KEPT_AS).exists()


def test_of_two_commands_that_register_at_once_one_says_so(tmp_path, monkeypatch, capsys):
    file = tmp_path / "plan.json"

    def register(*given):
        file.write_text("of the other command")
        return SimpleNamespace(to_json=lambda: "{}")

    monkeypatch.setattr(preregister, "register", register)
    assert command("preregister", "--out", str(file), "--hypothesis", "h", *REGISTERED) == 2
    shown = capsys.readouterr()
    assert "exists" in shown.err and "SHA-256" not in shown.out and file.read_text() == "of the other command"


@pytest.mark.slow
def test_a_registered_run_is_compared_with_what_was_done(tmp_path, capsys):
    file, run_dir = tmp_path / "plan.json", tmp_path / "run"
    assert command("preregister", "--out", str(file), "--hypothesis", "The oracle wins.", *REGISTERED) == 0
    digest = re.search(r"SHA-256 ([0-9a-f]{64})", capsys.readouterr().out)[1]
    assert command("preregister", "--out", str(file), "--hypothesis", "Something else.", *REGISTERED) == 2
    started = [*REGISTERED, f"preregistration={file}", f"run_dir={run_dir}"]
    assert command("run", *started) == 0
    table = registration_table(Run(run_dir), "A")
    assert digest in table.notes[0] and "The oracle wins." in table.title
    assert {row[0] for row in table.rows} >= {"plan", "players", "stopping rule", "measure", "registered first"}
    assert {row[-1] for row in table.rows} == {"yes"}
    # Each session is played by the version that was registered.
    run, commit = Run(run_dir), json.loads(file.read_text())["versions"]["git_commit"]
    for commits, kept in (([commit, commit], "yes"), ([commit, "another"], "NO"), (["another"], "NO")):
        sessions = [{"began": "9999", "git_commit": each} for each in commits]
        found = registration_table(
            SimpleNamespace(path=run.path, rule=run.rule, planned=run.planned, sessions=sessions), "A"
        )
        assert {row[0]: row[-1] for row in found.rows}["git_commit"] == kept
    # Another rule is another study.
    assert command("run", *started, "stop.alpha=.2") == 0
    kept = {row[0]: row[-1] for row in registration_table(Run(run_dir), "A").rows}
    assert kept["stopping rule"] == "NO" and kept["plan"] == "yes"
    # A registration that was made for something else, or after the run, is refused.
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(json.loads(file.read_text()) | {"hypothesis": "It loses."}))
    assert command("run", *REGISTERED, f"preregistration={changed}", f"run_dir={run_dir}") == 2
    assert command("run", *REGISTERED, f"run_dir={tmp_path / 'free'}") == 0
    assert command("run", *REGISTERED, f"preregistration={file}", f"run_dir={tmp_path / 'free'}") == 2
