"""A run directory, a plugin or a path that somebody made to harm: nothing is started, sent, destroyed or waited for."""

import json
import os
import shutil
from pathlib import Path

import pytest

from cluster.config.stored import stored_sections
from cluster.errors import UserError
from cluster.stopping.registration import Registration
from cluster.storage.durable import write_durably
from cluster.storage.lock import RunLock
from cluster.storage.stop_rule import StoredRule, read_rule, write_rule
from envs import plugins
from envs.files import parse_yaml
from evals.ledger.lease import find_leases, read_mark
from evals.sealed import read_secret
from evals.stopping.rules import StopRule
from evals.suites.kidgym.published_environment.recording import checkout_digest
from evals.suites.kidgym.templates import load_templates
from tests.cluster.test_cli import run_here
from tests.cluster.test_replay import run_dir as run_dir  # a fixture

EVIL = "https://evil.example/v1"
OPENAI = {"type": "openai", "model": "m"}


def sections(engine, *overrides):
    model = {"name": "m", "engine": engine}
    return stored_sections("run", {"suite": {"type": "kumo"}, "model": model}, ["suite", "model"], overrides)


# --- stored configurations -------------------------------------------------------------------------------------------


def change(run_dir, **sections):
    config = parse_yaml((run_dir / "config.yaml").read_text(), "config.yaml")
    (run_dir / "config.yaml").write_text(json.dumps({**config, **sections}))  # JSON is YAML


@pytest.mark.parametrize("command", ["rescore", "retest"])
def test_no_program_of_a_stored_configuration_is_started(run_dir, tmp_path, capsys, command):
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o700)
    suite = {"type": "kidgym", "environments": ["published"], "python": str(program), "checkout": str(tmp_path)}
    change(run_dir, suite=suite)
    code, _, err = run_here(capsys, command, str(run_dir))
    assert code == 2 and "suite.python=" in err and "suite.checkout=" in err and err.count("\n") == 1
    assert not (tmp_path / "started").exists()


def test_a_program_in_a_bundle_is_found_and_one_that_is_given_again_is_used():
    part = {"type": "kidgym", "python": "evil", "checkout": "theirs"}
    config = {"suite": {"type": "bundle", "name": "demo", "suites": [{"type": "kumo"}, part]}}
    with pytest.raises(UserError, match=r"suite\.suites\.1\.checkout=theirs suite\.suites\.1\.python=evil"):
        stored_sections("run", config, ["suite"], [])
    with pytest.raises(UserError, match=r"sets suite\.suites\.1\.checkout=theirs, which"):
        stored_sections("run", config, ["suite"], ["suite.suites.1.python=python3"])
    many = {"suite": {**config["suite"], "suites": [{"type": "kumo"}] * 10 + [part]}}
    with pytest.raises(UserError, match=r"suite\.suites\.10\.python"):
        stored_sections("run", many, ["suite"], ["suite.suites.1={type: kidgym}"])
    given = ["suite.suites.1.python=python3", "suite.suites.1.checkout=mine"]
    found = stored_sections("run", config, ["suite"], given)["suite"]["suites"][1]
    assert (found["python"], found["checkout"]) == ("python3", "mine")


def test_no_key_is_sent_where_a_stored_configuration_says(run_dir, capsys, monkeypatch):
    monkeypatch.setenv("CLOUD_SECRET", "c0ffee")
    asked = []
    monkeypatch.setattr("cluster.commands.retest._ask_all", lambda *each: asked.append(each))
    engine = {**OPENAI, "base_url": EVIL, "api_key_env": "CLOUD_SECRET", "headers": {"X-Key": "env:CLOUD_SECRET"}}
    change(run_dir, model={"name": "m", "engine": engine})
    code, _, err = run_here(capsys, "retest", str(run_dir))
    assert code == 2 and not asked and err.count("\n") == 1
    assert all(word in err for word in ("evil.example", "api_key_env=CLOUD_SECRET", "headers=", "env:CLOUD_SECRET"))


@pytest.mark.parametrize(
    ("engine", "given", "refused"),
    [
        ({**OPENAI, "base_url": None, "api_key_env": "OPENAI_API_KEY", "headers": {}}, (), None),
        ({**OPENAI, "base_url": EVIL}, ("model.engine.base_url=http://localhost:8000/v1",), None),
        ({**OPENAI, "headers": {"X": "env:S"}}, ("model.engine.headers={Y: '1'}",), None),
        ({**OPENAI, "headers": {"X": "env:S"}}, ("model.engine.headers.Y='1'",), "headers"),
        ({**OPENAI, "base_url": EVIL}, ("model.engine.base_url_=x",), "base_url"),
        ({"type": "vllm", "model": "tiny", "trust_remote_code": True}, (), "trust_remote_code"),
        ({"type": "vllm", "model": "tiny", "vllm": {"worker_cls": "theirs.Worker"}}, (), "worker_cls"),
    ],
)
def test_defaults_and_what_is_given_again_are_taken_and_nothing_else(engine, given, refused):
    if refused is None:
        found = sections(engine, *given)["model"]["engine"]
        assert EVIL not in found.values() and "env:S" not in str(found)
        return
    with pytest.raises(UserError, match=refused):
        sections(engine, *given)


def test_references_in_a_stored_configuration_read_no_variable(monkeypatch):
    monkeypatch.setenv("CLOUD_SECRET", "c0ffee")
    assert "c0ffee" not in str(sections({**OPENAI, "model": "${oc.env:CLOUD_SECRET}"}))


# --- stored files of other shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("spending.json", {"spent": 1.7e308, "in_flight": 1.7e308}, "no amounts of money"),
        ("versions.json", [{"id": str(number)} for number in range(10_001)], "lists 10,001 sessions"),
    ],
)
def test_amounts_are_bounded(run_dir, capsys, name, content, said):
    (run_dir / name).write_text(json.dumps(content))
    code, _, err = run_here(capsys, "report", str(run_dir))
    assert code == 2 and name in err and said in err and err.count("\n") == 1


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["pipe", "folder", "/dev/full", "."])
def test_only_files_are_replaced(tmp_path, target, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("folder").mkdir()
    # Without the check the superuser would replace the device: what is there must fail before any rename.
    monkeypatch.setattr("pathlib.Path.rename", lambda *each: pytest.fail("replaced"))
    with pytest.raises(OSError, match=r"is a folder|is not a regular file"):
        write_durably(Path(target), b"x")
    assert sorted(path.name for path in Path().iterdir()) == ["folder", "pipe"]


def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    write_durably(tmp_path / "link", b"new")
    assert (tmp_path / "kept").read_text() == "kept" and (tmp_path / "link").read_text() == "new"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "."])
def test_a_report_into_a_folder_is_refused_in_one_line(run_dir, capsys, name):
    code, _, err = run_here(capsys, "report", str(run_dir), "--html", name)
    assert code == 2 and "is a folder" in err and "Traceback" not in err


@pytest.mark.slow
def test_a_lock_that_is_a_link_does_not_empty_what_it_leads_to(run_dir, tmp_path, capsys):
    (tmp_path / "kept").write_text("kept")
    (run_dir / ".lock").unlink()
    (run_dir / ".lock").symlink_to(tmp_path / "kept")
    code, _, err = run_here(capsys, "report", str(run_dir))
    assert code == 0 and "not written" in err
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_lock_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(OSError, match="not a regular file"):
        RunLock(tmp_path).acquire()


# --- what is read ----------------------------------------------------------------------------------------------------


def pipe(path):
    os.mkfifo(path)


def brackets(path):
    path.write_text("[" * 50_000)


@pytest.mark.parametrize("made", [pipe, brackets])
def test_a_rule_a_registration_and_a_secret_made_to_harm_are_refused(tmp_path, made):
    made(tmp_path / "stopping.json")
    with pytest.raises(UserError, match="stopping rule"):
        read_rule(tmp_path)
    with pytest.raises(UserError, match="preregistration"):
        Registration.read(tmp_path / "stopping.json")
    with pytest.raises(ValueError, match="challenge"):
        read_secret(tmp_path / "stopping.json")


PAIR = ("toy", "add", "1", "easy", 2, 0, 8)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_another_run_s_games_without_a_value_are_refused(tmp_path, value):
    rule = StopRule("decided", against="random")
    for other in ({PAIR: 0.5}, None):
        write_rule(tmp_path, StoredRule(rule, "m", other))
        assert read_rule(tmp_path) == StoredRule(rule, "m", other)
    write_rule(tmp_path, StoredRule(rule, "m", {PAIR: 0.5, (*PAIR[:-1], 9): value}))
    with pytest.raises(UserError, match="null or no finite number"):
        read_rule(tmp_path)


@pytest.mark.parametrize("made", [pipe, Path.mkdir])
def test_what_is_no_file_is_no_lease(run_dir, made, capsys):
    before = find_leases(run_dir)
    made(run_dir / ".lease-5")
    assert find_leases(run_dir) == before
    assert run_here(capsys, "status", str(run_dir))[0] == 0


def test_a_part_a_template_and_a_source_that_are_pipes_are_refused(tmp_path):
    pipe(tmp_path / "rules.txt")
    (tmp_path / "src").mkdir()
    pipe(tmp_path / "src/game.py")
    for read, path in (
        (read_mark, tmp_path / "rules.txt"),
        (load_templates, str(tmp_path)),
        (checkout_digest, str(tmp_path)),
    ):
        with pytest.raises(ValueError, match="is not a regular file"):
            read(path)


def test_a_lease_of_brackets_says_nothing(tmp_path):
    brackets(tmp_path / ".lease-5")
    (lease,) = find_leases(tmp_path)
    assert lease.content == {}


def test_a_registration_kept_as_a_pipe_is_refused(run_dir, capsys):
    pipe(run_dir / "preregistration.json")
    other = run_dir.with_name("other")
    shutil.copytree(run_dir, other, ignore=lambda *each: ["preregistration.json"])
    code, _, err = run_here(capsys, "compare", str(run_dir), str(other))
    assert code == 2 and "is not a regular file" in err


# --- what is shown ---------------------------------------------------------------------------------------------------

ESCAPE = "\x1b[2J"


def test_no_error_commands_a_terminal(tmp_path, capsys):
    _, _, err = run_here(capsys, "status", str(tmp_path / f"a{ESCAPE}"))
    assert "\x1b" not in err and "a\\x1b[2J" in err


def test_a_name_of_a_run_commands_no_terminal(run_dir, capsys):
    wild = run_dir.with_name(f"wild{ESCAPE}")
    run_dir.rename(wild)
    for words in (["status", str(wild)], ["list", str(wild.parent)], ["report", str(wild)]):
        code, out, err = run_here(capsys, *words)
        assert code == 0 and "\x1b[2J" not in out + err


# --- plugins ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, plugins_in):
    plugins_in(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("number", "code"), enumerate(["def x(:", "raise RuntimeError('broken')", "raise SystemExit(0)", "x = 1"])
)
def test_a_command_that_cannot_be_loaded_is_named_with_its_file(folder, capsys, number, code):
    (folder / f"broken_{number}.py").write_text(code)
    (folder / "plugins.toml").write_text(f'["raycade.commands"]\nbroken = "broken_{number}"\n')
    ended, _, err = run_here(capsys, "broken")
    assert ended == 2 and "broken" in err and f"broken_{number}.py" in err and err.count("\n") == 1


def test_a_command_of_a_name_that_is_taken_is_refused_in_one_line(folder, capsys):
    (folder / "plugins.toml").write_text('["raycade.commands"]\nrun = "mine"\n')
    code, _, err = run_here(capsys, "list", "runs")
    assert (code, err) == (2, "error: raycade.commands: run (mine) is a command of raycade; give it another name\n")


def test_a_name_or_help_of_a_command_commands_no_terminal(folder, capsys):
    (folder / "wild.py").write_text(f'"""``raycade wild``: help {ESCAPE}."""\n')
    (folder / "plugins.toml").write_text('["raycade.commands"]\nwild = "wild"\n')
    code, out, _ = run_here(capsys, "--help")
    assert code == 0 and "wild" in out and "\x1b[2J" not in out
    (folder / "plugins.toml").write_text('["raycade.commands"]\n"a\\u001b[2J" = "wild"\n')
    plugins._registered.cache_clear()
    code, _, err = run_here(capsys, "--help")
    assert code == 2 and "\x1b" not in err and "is no name" in err


def test_a_checkout_is_told_by_the_names_of_its_files_as_by_what_is_in_them(tmp_path):
    (tmp_path / "src").mkdir()
    found = set()
    for name, content in (("a.py", "x = 1"), ("b.py", "x = 1"), ("b.py", "x = 2"), ("c.txt", "no code")):
        for old in (tmp_path / "src").glob("*.py"):
            old.unlink()
        (tmp_path / "src" / name).write_text(content)
        found.add(checkout_digest(str(tmp_path)))
    assert len(found) == 4, "a folder without code has a digest of its own"
