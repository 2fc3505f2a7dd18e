"""Runs in the formats of others and back: nothing is lost that can be kept, nothing leaves that is secret."""

import asyncio
import base64
import contextlib
import dataclasses
import errno
import functools
import hashlib
import importlib
import io
import itertools
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import uuid
import zipfile
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from cluster.cli import main
from cluster.commands.export import UNFINISHED, whole_or_nothing
from cluster.commands.import_run import AT_ONCE, BYTES_AT_ONCE, _batches, _carried_parts, _Imported
from cluster.errors import UserError
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from envs.files import FileError
from envs.picture import picture_from_description, render_description
from evals.conversation import PlayedTurn, Record
from evals.exchange import huggingface
from evals.exchange.carried import OF_THE_RUN, SAME, carry_episode, carry_source
from evals.exchange.every_eval_ever import export_every_eval_ever
from evals.exchange.huggingface import export_huggingface
from evals.exchange.inspect_log import export_inspect
from evals.exchange.lm_eval import export_lm_eval
from evals.exchange.public import left_out, places_of, public_error, public_model, public_settings
from evals.exchange.source import Source, as_text, messages_of, png, safe_name, sources_of
from evals.imports.every_eval_ever import _messages, _Sample, read_every_eval_ever
from evals.imports.inspect_log import read_inspect
from evals.imports.rows import ledger_rows, planned_episode
from evals.imports.scores import check_scores
from evals.imports.transcripts import TranscriptPlayer
from evals.ledger.records import chat_of, plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS, RandomPlayer
from evals.suite import Column, ledger_columns
from evals.types import Episode, LabelScores, Outcome, Reply, Turn, message
from tests.golden import check_golden
from tests.runs import records_of, run_of
from tests.small_runs import SUITES, small_run
from tests.toy import OPTIONS, ToySuite
from tests.viewer_runs import calm_rows, hostile_rows, rows_of, write_run

WRITE = {"every_eval_ever": export_every_eval_ever, "inspect": export_inspect, "lm_eval": export_lm_eval}
MAY_DIFFER = {"session", "attempt"}


def cli(*words) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def rows_at(path: Path) -> dict:
    """Rows by episode, as text: nan equals itself there."""
    rows = Run(path).ledger.table([*Run(path).ledger.schema.names]).to_pylist()
    return {row["episode_id"]: repr({k: row[k] for k in sorted(row) if k not in MAY_DIFFER}) for row in rows}


@pytest.fixture(params=["calm", "hostile"])
def run_dir(request, tmp_path) -> Path:
    plan, rows = calm_rows() if request.param == "calm" else hostile_rows()
    return write_run(tmp_path / "run", plan, rows)


@functools.cache
def calm_logs() -> dict[str, bytes]:
    """The calm run as inspect_ai's logs, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", *calm_rows())
        assert cli("export", run, "--to", "inspect", "--out", Path(folder) / "out") == 0
        return {path.name: path.read_bytes() for path in (Path(folder) / "out").glob("*.eval")}


def calm_log(of: str, folder: Path) -> Path:
    """The log of a suite and player, such as ``kumo-random``."""
    [(name, content)] = [(name, content) for name, content in calm_logs().items() if of in name]
    (folder / name).write_bytes(content)
    return folder / name


@functools.cache
def toy_source() -> Source:
    return sources_of(small_run("toy"), SUITES["toy"])[0]


# --- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ending"), [("every_eval_ever", "*.json"), ("inspect", "*.eval")])
def test_a_run_that_was_exported_is_imported_row_for_row(name, ending, run_dir, tmp_path):
    assert cli("export", run_dir, "--to", name, "--out", tmp_path / "out") == 0
    files = sorted((tmp_path / "out").rglob(ending))
    assert cli("import", *files, "--out", tmp_path / "back") == 0
    assert rows_at(tmp_path / "back") == rows_at(run_dir)
    back = Run(tmp_path / "back")
    assert sorted(back.planned["episode_id"].to_pylist()) == sorted(Run(run_dir).planned["episode_id"].to_pylist())
    imported = {session["id"]: session["imported_format"] for session in back.sessions}
    assert set(imported.values()) == {name}
    assert set(back.episodes(["session"])["session"].to_pylist()) == set(imported)


@pytest.mark.slow
def test_episodes_that_were_not_played_stay_planned(tmp_path, capsys):
    plan, rows = calm_rows()
    run = write_run(tmp_path / "run", plan, rows.slice(3))
    cli("export", run, "--to", "inspect", "--out", tmp_path / "out")
    cli("import", *(tmp_path / "out").glob("*.eval"), "--out", tmp_path / "back")
    assert len(Run(tmp_path / "back").planned) == len(plan)
    assert len(Run(tmp_path / "back").ledger) == len(rows) - 3
    capsys.readouterr()
    assert cli("report", tmp_path / "back") == 0
    said = capsys.readouterr().out
    assert "the imported files lack these" in said and "resumes" not in said
    assert cli("status", tmp_path / "back") == 0
    assert "imported; the files lack 3 planned episodes" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ending"), [("every_eval_ever", "*.json"), ("inspect", "*.eval")])
def test_settings_that_change_answers_come_back(name, ending, tmp_path):
    run = write_run(tmp_path / "run", *calm_rows())
    asked = {"history": {"reasoning": "kept"}, "deterministic": True}
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(config | asked))
    assert cli("export", run, "--to", name, "--out", tmp_path / "out") == 0
    assert cli("import", *(tmp_path / "out").rglob(ending), "--out", tmp_path / "back") == 0
    assert asked.items() <= Run(tmp_path / "back").config.items()


@pytest.mark.slow
@pytest.mark.parametrize("given", [["suite=kumo", "suite.domains=[medical]"], ["--player", "rival"]])
def test_a_log_that_raycade_wrote_takes_no_settings(given, tmp_path, capsys):
    assert cli("import", calm_log("kumo-random", tmp_path), *given, "--out", tmp_path / "back") == 2
    assert f"says its own settings; leave out {' '.join(given[:2])}".removesuffix(" rival") in capsys.readouterr().err


def test_files_of_formats_that_cannot_be_imported_are_refused_with_those_that_can(tmp_path, capsys):
    for name in ("results.json", "samples.jsonl"):
        (tmp_path / name).write_text('{"results": {}}\n')
        assert cli("import", tmp_path / name, "--out", tmp_path / "back") == 2
        error = capsys.readouterr().err
        assert "every_eval_ever" in error and "inspect" in error and "Field required" not in error


def test_names_of_files_and_folders_are_shown_and_stored_as_plain_text(tmp_path, capsys):
    file = calm_log("kumo-random", tmp_path)
    strange = file.rename(file.with_name(os.fsdecode(b"\xff\x1b[31m.eval")))
    assert cli("import", strange, "--out", tmp_path / "\x1b[31mrun") == 0
    assert cli("export", tmp_path / "\x1b[31mrun", "--to", "lm_eval", "--out", tmp_path / "\x1b[31mout") == 0
    assert "\x1b" not in capsys.readouterr().out
    [session] = Run(tmp_path / "\x1b[31mrun").sessions
    assert session["imported_file"] == "\\udcff\\x1b[31m.eval"


def test_the_same_file_is_not_imported_twice_and_a_failed_import_leaves_nothing(tmp_path, capsys):
    run = write_run(tmp_path / "run", *calm_rows())
    cli("export", run, "--to", "inspect", "--out", tmp_path / "out")
    file = next((tmp_path / "out").glob("*kumo*"))
    assert cli("import", file, file, "--out", tmp_path / "back") == 2
    assert "imported already" in capsys.readouterr().err
    assert not list(tmp_path.glob("*back*"))
    assert cli("export", run, "--to", "inspect", "--out", tmp_path / "out") == 2  # not empty any more


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_import_says_of_its_one_model_how_it_was_asked_and_refuses_another(order, tmp_path):
    """Files of built-in players come first or last, and may be of a run that decoded otherwise."""

    def facts(model, decoding="free", history=None):
        told = {"history": history} if history else {}
        return SimpleNamespace(model=model, decoding=decoding, player="m", model_dump=lambda **_: told)

    tiny = {"name": "tiny", "sampling": {"temperature": 0.1}}
    model = facts(tiny, "choice", {"pictures": "last"})
    carried = [model, model, facts({})]
    found = _Imported(RunDirectory(tmp_path))
    for place in order:
        found.add_asked(carried[place], tmp_path)
    assert (found.model, found.decoding, found.asked) == (tiny, "choice", {"history": {"pictures": "last"}})
    other = {**tiny, "sampling": {"temperature": 0.9}}
    for second in (
        facts(other, "choice", {"pictures": "last"}),
        facts(tiny, "free", {"pictures": "last"}),
        facts(tiny, "choice"),
    ):
        with pytest.raises(FileError, match="own"):
            found.add_asked(second, tmp_path)


@pytest.mark.slow
def test_what_a_killed_import_has_left_is_removed_by_the_next_unless_it_is_at_work(tmp_path, capsys):
    file = calm_log("kumo-random", tmp_path)
    import_for_ever = (
        "import sys, time, cluster.commands.import_run as it; from cluster.cli import main; "
        "it._read_once = lambda folder: print('here', flush=True) or time.sleep(99); main(sys.argv[1:])"
    )
    words = ["import", str(file), "--out", str(tmp_path / "back")]
    other = subprocess.Popen([sys.executable, "-c", import_for_ever, *words], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "here\n"
    assert cli(*words) == 2
    assert "another import is at work" in capsys.readouterr().err
    other.kill()
    other.communicate()
    assert cli(*words) == 0
    assert f"{tmp_path}/.back.import.tmp: removed" in capsys.readouterr().out
    assert len(list(tmp_path.glob("*back*"))) == 1


def test_a_run_is_imported_into_an_empty_folder_be_it_the_current_one_and_to_where_a_link_leads(tmp_path, monkeypatch):
    file = calm_log("kumo-random", tmp_path)
    (here := tmp_path / "here").mkdir()
    (scratch := tmp_path / "scratch").mkdir()
    (tmp_path / "link").symlink_to(scratch)
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    monkeypatch.chdir(here)
    for out, place in ((".", here), ("../link", scratch), ("../dangling", tmp_path / "new")):
        assert cli("import", file, "--out", out) == 0
        assert not [each.name for each in place.iterdir() if "unfinished" in each.name or each.suffix == ".tmp"]
        assert len(Run(place).ledger) > 0
        assert cli("import", file, "--out", out) == 2, "a run is there"
    assert (tmp_path / "link").is_symlink() and not list(tmp_path.glob(".*.tmp"))


def test_a_run_is_not_imported_through_a_link_of_its_unfinished_folder(tmp_path, capsys):
    (mine := tmp_path / "mine").mkdir()
    for place, link in (("out", ".out.import.tmp"), ("filled", f"filled/{UNFINISHED}")):
        (tmp_path / "filled").mkdir(exist_ok=True)
        (tmp_path / link).symlink_to(mine)
        assert cli("import", "file.json", "--out", tmp_path / place) == 2
        assert f"{tmp_path / link}: is no folder that an import has left" in capsys.readouterr().err
    assert not [*mine.iterdir()]


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_run_that_could_not_be_moved_whole_into_a_folder_is_not_there(kept, tmp_path, monkeypatch):
    file = calm_log("kumo-random", tmp_path)
    (out := tmp_path / "out").mkdir()
    moved = []

    def rename(path, target, whole=Path.rename):
        if path.parent.name == UNFINISHED:
            moved.append(path.name)
            if len(moved) > kept:
                raise OSError(errno.EIO, "broken disk")
        return whole(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    assert cli("import", file, "--out", out) != 0
    assert [*out.iterdir()] == []
    monkeypatch.undo()
    assert cli("import", file, "--out", out) == 0


@pytest.mark.parametrize(("name", "ending"), [("every_eval_ever", "*.json"), ("inspect", "*.eval")])
def test_a_file_that_has_lost_episodes_on_the_way_is_refused(name, ending, tmp_path, capsys):
    plan, rows = calm_rows()
    cli("export", write_run(tmp_path / "run", plan, rows), "--to", name, "--out", tmp_path / "out")
    file = next(each for each in (tmp_path / "out").rglob(ending) if "kumo" in str(each))
    samples = next(file.parent.glob("*.jsonl"), None)
    if samples is not None:
        samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:-1]))  # a copy that was cut off
    else:
        whole = file.rename(tmp_path / "whole.eval")
        with zipfile.ZipFile(whole) as old, zipfile.ZipFile(file, "w") as new:
            last = max(each for each in old.namelist() if each.startswith("samples/"))
            for each in set(old.namelist()) - {last}:
                new.writestr(each, old.read(each))
    assert cli("import", file, "--out", tmp_path / "back") == 2
    counts = re.search(r"episodes that were written: (\d+), found: (\d+)", capsys.readouterr().err)
    assert counts and int(counts[1]) == int(counts[2]) + 1
    assert not (tmp_path / "back").exists()


WRITES = {
    "export": ["export", "RUN", "--to", "inspect", "--out", "out"],
    "hub": ["export", "RUN", "--to", "huggingface", "--out", "out"],
    "pages": ["view", "RUN", "--export", "out"],
    "tasks": ["kumo", "generate", "medical", "out", "--count", "9"],
    "trajectories": ["kumo", "lab", "trajectories", "out.parquet", "medical", "--difficulty", "3x4", "--count", "9"],
    "problems": ["raven", "generate", "out", "--count", "1", "--configuration", "center_single"],
    "registration": ["preregister", "--out", "out", "--hypothesis", "h" * 9000, "suite=kumo", "model=random"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", WRITES)
def test_what_the_disk_has_no_room_for_is_named_and_leaves_nothing_half(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # its files would be cut off, too
    write_run(tmp_path / "RUN", *calm_rows())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))  # as a full disk: each larger file fails
    try:
        assert cli(*WRITES[command]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert re.search(r"(error|raven generate): .*out\b.*large", capsys.readouterr().err)
    written = tmp_path.rglob("*out*/**/*")
    assert not [path for path in written if path.is_file()] and not [
        path for path in tmp_path.glob("*out*") if path.is_file()
    ]
    assert cli(*WRITES[command]) == 0


@pytest.mark.parametrize("command", ["export", "hub", pytest.param("pages", marks=pytest.mark.slow)])
def test_a_killed_export_has_no_file_in_its_place_and_the_next_one_is_whole(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "RUN", *calm_rows())
    place, copy = tmp_path / "out", tmp_path / "copy"
    real = Path.rename

    def killed(path, target):
        shutil.copytree(place, copy, dirs_exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", killed)
    assert cli(*WRITES[command]) == 130
    assert [path.name for path in copy.iterdir()] == [".unfinished"] and not place.exists()
    (copy / ".unfinished" / "of another export").touch()
    real(copy, place)
    monkeypatch.setattr(Path, "rename", real)
    assert cli(*WRITES[command]) == 0
    names = [path.name for path in place.rglob("*")]
    assert names and ".unfinished" not in names and "of another export" not in names


@pytest.mark.parametrize(
    "change",
    [
        {"episode": {"seed": 7}},
        {"episode": {"player": "someone else"}},
        {"episode": {"index": 3}},
        {"row": {"status": "failed", "error": "gone", "error_kind": "engine", "success": None}},
        {"row": {"error": "another cause"}},
        {"check": "0" * 32},
        None,
    ],
)
def test_another_game_or_player_or_end_is_refused_and_older_exports_are_taken(change):
    row = next(iter(toy_source().rows()))
    carried = json.loads(json.dumps(carry_episode(toy_source(), row)))
    if change is None:
        del carried["check"]
    for name, values in (change or {}).items():
        carried[name] = {**carried[name], **values} if isinstance(values, dict) else values
    expected = pytest.raises(FileError, match="changed since raycade wrote it") if change else contextlib.nullcontext()
    with expected:
        _carried_parts(SimpleNamespace(carried=carried, place="here"))


@pytest.mark.parametrize("name", ["new", "there"])
def test_a_second_export_into_a_folder_is_refused_and_harms_no_file_of_the_first(name, tmp_path):
    folder = tmp_path / name
    (tmp_path / "there").mkdir()
    with whole_or_nothing(folder) as unfinished:
        unfinished.mkdir()
        (unfinished / "a file").write_text("whole")
        with pytest.raises(UserError, match="another command writes there"), whole_or_nothing(folder):
            pytest.fail("both would write to one folder")
    with pytest.raises(UserError, match="not an empty folder"), whole_or_nothing(folder):
        pytest.fail("it was written meanwhile")
    assert [path.name for path in folder.iterdir()] == ["a file"] and (folder / "a file").read_text() == "whole"


def test_an_export_that_fails_while_it_is_moved_leaves_nothing(tmp_path, monkeypatch):
    real, moved = Path.rename, []

    def rename(path, target):
        moved.append(target)
        if len(moved) == 3:
            raise OSError(errno.EIO, "no luck")
        return real(path, target)

    with pytest.raises(OSError, match="no luck"), whole_or_nothing(tmp_path) as unfinished:
        unfinished.mkdir()
        for name in ("a file", "another", "a third"):
            (unfinished / name).touch()
        (unfinished / "a folder").mkdir()
        monkeypatch.setattr(Path, "rename", rename)
    assert len(moved) == 3 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["new", "there"])
def test_an_export_that_fails_leaves_the_folder_as_it_was(name, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(ZeroDivisionError), whole_or_nothing(tmp_path / name) as unfinished:
        unfinished.mkdir()
        (unfinished / "a file").write_text("half")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_tasks_that_cannot_be_written_over_stay(tmp_path, monkeypatch):
    out = tmp_path / "tasks.jsonl"
    assert cli("kumo", "generate", "medical", out, "--count", "1") == 0
    before = out.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    assert cli("kumo", "generate", "medical", out, "--count", "1", "--seed", "1", "--overwrite") == 2
    assert out.read_bytes() == before and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("value", ["a changed number", {"episode": {}, "row": {}}, None, [1]])
def test_a_row_that_was_changed_on_the_way_is_refused(value, tmp_path, capsys):

    def damage(name, sample):
        if name.startswith("samples/"):
            sample["store"]["raycade"] = value

    file = rewritten(calm_log("kumo-random", tmp_path), tmp_path / "changed.eval", damage)
    assert cli("import", file, "--out", tmp_path / "back") == 2
    assert "changed.eval" in capsys.readouterr().err


def test_a_number_that_is_too_large_is_told_by_its_name():
    suite = ToySuite(episodes=1)
    run = run_of(suite, {"random": RandomPlayer()})
    [source] = sources_of(run, suite)
    [row] = source.rows()
    carried = carry_episode(source, row)
    with pytest.raises(FileError, match=r"here: is no planned episode: seed: a number is too large$"):
        planned_episode({**carried["episode"], "seed": 10**30}, "here")
    episode = planned_episode(carried["episode"], "here")
    large = {**carried["row"], "steps": 10**30}
    with pytest.raises(FileError, match=r"here: a row is none of the ledger: steps: a number is too large$"):
        ledger_rows(suite, [(episode, large)], "here", "s")


def test_a_suite_of_somebody_elses_is_exported_and_imported_without_a_line_more(tmp_path, plugins_in):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "plugins.toml").write_text('["raycade.suites"]\ntoy = "tests.toy:ToySuite"\n')
    plugins_in(tmp_path / "plugins")
    plan, rows = rows_of(ToySuite(episodes=3), {"random": RandomPlayer()})
    run = write_run(tmp_path / "run", plan, rows, {"type": "toy", "episodes": 3})
    for name in (*WRITE, "huggingface"):
        assert cli("export", run, "--to", name, "--out", tmp_path / name) == 0
    assert cli("import", *(tmp_path / "inspect").glob("*.eval"), "--out", tmp_path / "back") == 0
    assert rows_at(tmp_path / "back") == rows_at(run)


@pytest.mark.slow
def test_the_validator_of_every_eval_ever_passes_what_is_exported(tmp_path):
    """Their package from the registry, with the packages here for what it imports; benchmarks/exchange.py installs it whole."""
    site = tmp_path / "site"
    words = ["pip", "install", "--quiet", "--no-deps", "--ignore-requires-python", "--target", site]
    installed = subprocess.run([sys.executable, "-m", *map(str, words), "every-eval-ever==0.3.0"], capture_output=True)
    if installed.returncode:
        pytest.skip(f"the package cannot be had here: {installed.stderr[-300:]}")
    run = write_run(tmp_path / "run", *hostile_rows())
    cli("export", run, "--to", "every_eval_ever", "--out", tmp_path / "out")
    validate = [sys.executable, "-m", "every_eval_ever", "validate", "--format", "json", "data/*/*/*/*.json*"]
    variables = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(validate, cwd=tmp_path / "out", env=variables, capture_output=True, text=True)
    verdicts = json.loads(done.stdout)
    assert len(verdicts) == 6
    assert [each["errors"] + each["warnings"] for each in verdicts] == [[]] * 6


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_row_survives_whatever_text_and_number_is_in_it(data):
    """NUL, terminal codes, markup and directions of writing come back; nan and infinity, too."""
    suite = ToySuite(episodes=1)
    [record] = records_of(suite, {"model": Fixed(data.draw(texts), data.draw(texts), data.draw(floats))})
    run = RunData.of_tables(plan_to_table([record.episode]), records_to_table([record], ledger_columns(suite)))
    [source] = sources_of(run, suite)
    [row] = source.rows()
    carried = json.loads(json.dumps(carry_episode(source, row), allow_nan=False))
    episode = planned_episode(carried["episode"], "here")
    [again] = ledger_rows(suite, [(episode, carried["row"])], "here", "s").to_pylist()
    [before] = run.find([record.episode.id])
    assert repr({**again, **dict.fromkeys(MAY_DIFFER)}) == repr({**before, **dict.fromkeys(MAY_DIFFER)})


texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["</script>", "\x1b[2J\x00", "\u202e| a"])
floats = st.floats(max_value=0) | st.just(float("nan"))


class Fixed:
    def __init__(self, text, reasoning, logprob):
        self.reply_ = Reply(text, reasoning=reasoning, label_scores=LabelScores((logprob, -1.0, -2.0), 0.5, True))

    async def reply(self, turn):
        scores = self.reply_.label_scores if turn.labels else None
        return Reply(self.reply_.text, reasoning=self.reply_.reasoning, label_scores=scores)


CHANGES = {
    "won": (lambda row: row.update(success=not row["success"], score=float(not row["success"])), "success is"),
    "steps": (lambda row: row.update(steps=row["steps"] + 1), "steps is"),
    "a suite's own": (lambda row: row.update(parse_errors=7), "parse_errors is 7"),
    "last reply": (lambda row: row["turns"][-1].update(reply="I pass."), "do not end the game"),
    "no turns": (lambda row: row.update(turns=[]), "do not end the game"),
    "prompt": (lambda row: row["turns"][0]["prompt"][0].update(parts=[{"text": "Win."}]), ""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_scores_that_are_not_those_of_their_replies_are_refused_and_unknown_ones_counted(name, tmp_path, capsys):
    change, said = CHANGES[name]

    def changed(member, value):
        if member.startswith("samples/"):
            change(value["store"]["raycade"]["row"])

    file = rewritten(calm_log("kumo-random", tmp_path), tmp_path / "changed.eval", changed)
    assert cli("import", file, "--out", tmp_path / "back") == (2 if said else 0)
    told = capsys.readouterr().err
    assert said in told
    if not said:
        count = len(Run(tmp_path / "back").ledger)
        assert f"scores of {count} episodes are as their files say" in told
        assert cli("report", tmp_path / "back") == 0
        assert f"Scores of {count} episodes are as" in " ".join(capsys.readouterr().out.split())


class Pointed(ToySuite):
    """Has columns of lists, structs and numbers that no file writes to the last digit."""

    columns: ClassVar = {
        **ToySuite.columns,
        "points": Column(pa.list_(pa.float64()), "Points.", better="higher"),
        "best": Column(pa.struct({"x": pa.float64(), "n": pa.int32()}), "The best."),
    }

    async def play(self, episode, conversation):
        outcome = await super().play(episode, conversation)
        extra = {**outcome.extra, "points": [0.25, math.nan, 3.0], "best": (0.5, 2)}
        return dataclasses.replace(outcome, extra=extra)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"points": [0.25 + 2e-6, math.nan, 3.0 - 2e-5], "best": {"x": 0.5 - 4e-6, "n": 2}}, ""),
        ({"points": [0.25 + 2e-5, math.nan, 3.0]}, "points is"),
        *(({"points": [0.25, number, 3.0]}, "points is") for number in (0.0, None)),
        *(({"points": points}, "points is") for points in ([0.25, math.nan], [], None)),
        ({"best": {"x": 0.5, "n": 3}}, "best is"),
        ({"best": {"x": math.nan, "n": 2}}, "best is"),
        *(({name: value}, f"{name} is") for name, value in (("score", 0.5), ("right", 1), ("success", False))),
    ],
)
def test_scores_are_compared_number_by_number_as_near_as_files_write_them(changes, said):
    suite = Pointed(episodes=1)
    [record] = records_of(suite, {"oracle": BUILT_IN_PLAYERS["oracle"]})
    rows = records_to_table([record], ledger_columns(suite))
    for name, value in changes.items():
        place = rows.column_names.index(name if name in rows.column_names else f"toy.{name}")
        kind = rows.schema.field(place)
        rows = rows.set_column(place, kind, pa.array([value], kind.type))
    if not said:
        assert check_scores(suite, [record.episode], rows, "here", 1) == 0
        assert check_scores(suite, [record.episode], rows, "here", 0) == 1, "no file of so few games has this one"
        return
    with pytest.raises(FileError, match=f"here: episode {record.episode.id}: (toy.)?{said}"):
        check_scores(suite, [record.episode], rows, "here", 1)


def test_games_of_numbers_that_no_run_of_so_few_episodes_has_are_not_drawn(tmp_path, capsys):
    first = []

    def claimed(member, value):
        if member == "header.json":
            value["eval"]["metadata"]["raycade"]["suite"]["tasks_per_domain"] = 10**9
        elif member.startswith("samples/") and not first:
            first.append(member)
            value["store"]["raycade"]["episode"]["index"] = 10**6
            del value["store"]["raycade"]["check"]  # as in a log of an older version

    file = rewritten(calm_log("kumo-random", tmp_path), tmp_path / "claimed.eval", claimed)
    assert cli("import", file, "--out", tmp_path / "back") == 0
    assert "scores of 1 episodes are as their files say" in capsys.readouterr().err


def test_scores_of_another_version_of_a_suite_are_taken_as_they_are(tmp_path, capsys):
    def older(member, value):
        if member == "header.json":
            value["eval"]["metadata"]["raycade"]["suite_version"] = 0
        elif member.startswith("samples/"):
            value["store"]["raycade"]["row"]["steps"] += 1

    file = rewritten(calm_log("kumo-random", tmp_path), tmp_path / "older.eval", older)
    assert cli("import", file, "--out", tmp_path / "back") == 0
    said = capsys.readouterr().err
    episodes = len(Run(tmp_path / "back").episodes(["episode_id"]))
    assert episodes and f"scores of {episodes} episodes are as their files say" in said


# --- logs of other harnesses -----------------------------------------------------------------------------------------


def rewritten(file: Path, target: Path, change, method=zipfile.ZIP_STORED) -> Path:
    """A copy of a log with each of its JSON values changed."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(target, "w", method) as new:
        for name in old.namelist():
            value = json.loads(old.read(name))
            change(name, value)
            new.writestr(name, json.dumps(value))
    return target


def foreign(name, value):
    """What raycade carries is removed: as another harness would have written it."""
    if name == "header.json":
        value["eval"].pop("metadata")
        value["eval"]["model"] = "openai/gpt-of-the-test"
    if name.startswith("samples/"):
        value.pop("store")
        kept = ("suite", "task", "level", "mode", "index", "seed")
        value["metadata"] = {key: value["metadata"][key] for key in kept}


KUMO = [
    "suite=kumo",
    "suite.domains=[medical]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=2",
    "suite.repeats=2",
]
KIDGYM = ["suite=kidgym", "suite.tasks=[CL,SE]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes=2"]


@pytest.mark.parametrize(("suite", "overrides"), [("kumo", KUMO), ("kidgym", KIDGYM)])
def test_replies_that_another_harness_recorded_score_as_in_our_own_loop(suite, overrides, tmp_path, capsys):
    run = write_run(tmp_path / "run", *calm_rows())
    file = rewritten(calm_log(f"{suite}-random", tmp_path), tmp_path / "their.eval", foreign)
    assert cli("import", file, "--out", tmp_path / "none") == 2
    assert "was not written by raycade" in capsys.readouterr().err
    assert cli("import", file, *overrides, "--out", tmp_path / "theirs", "--player", "rival") == 0
    names = ["suite", "player", "task", "level", "mode", "index", "repeat", "success", "steps", "score"]
    outcomes = {}
    for path in (run, tmp_path / "theirs"):
        rows = Run(path).ledger.table(names).to_pylist()
        of = [row for row in rows if row["suite"] == suite and row.pop("player") in ("random", "rival")]
        outcomes[path] = sorted(map(repr, of))
    assert outcomes[run] == outcomes[tmp_path / "theirs"]
    if suite == "kumo":
        capsys.readouterr()
        assert cli("report", tmp_path / "theirs") == 0
        assert "Imported from inspect: their.eval." in capsys.readouterr().out


def other_prompt(name, value):
    if name.startswith("samples/"):
        value["messages"][0]["content"][0]["text"] += " Think twice."


def cut_short(name, value):
    if name.startswith("samples/"):
        value["messages"] = value["messages"][:-1]


def said_more(name, value):
    if name.startswith("samples/"):
        value["messages"].append({"role": "user", "content": "And now?"})


def other_seed(name, value):
    if name.startswith("samples/"):
        value["metadata"]["seed"] = 1


def impossible_tokens(name, value):
    if name.startswith("samples/"):
        value["model_usage"] = {"m": {"input_tokens": -1, "output_tokens": 1}}


def sums_of_tokens(name, value):
    if name.startswith("samples/"):
        value["model_usage"] = {str(number): {"input_tokens": 2**53, "output_tokens": 1} for number in range(2)}


def same_game(name, value):
    if name.startswith("samples/"):
        value["metadata"]["index"] = value["metadata"]["repeat"] = 0


def laughs(name, value):
    if name.startswith("samples/"):
        value["attachments"] = {"0123456789abcdef": "ha" * 10_000}
        value["messages"] = [{"role": "user", "content": "\n".join(["attachment://0123456789abcdef"] * 5_000)}]


def nobody(name, value):
    if name == "header.json":
        value["eval"]["model"] = "openai/"


def no_game(name, value):
    if name.startswith("samples/"):
        value["metadata"].pop("task")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_prompt, "otherwise than the suite does"),
        (cut_short, "ends before turn"),
        (said_more, "goes on after the game has ended"),
        (other_seed, "another game"),
        (no_game, "task: Field required"),
        (impossible_tokens, "input_tokens: Input should be greater"),
        (sums_of_tokens, "cannot be stored"),
        (same_game, "a sample before it"),
        (laughs, "characters with its attachments"),
        (nobody, "which model played"),
    ],
)
def test_a_log_of_other_prompts_or_games_is_refused_with_the_reason(change, reason, tmp_path, capsys):

    def both(name, value):
        foreign(name, value)
        change(name, value)

    file = rewritten(calm_log("kumo-random", tmp_path), tmp_path / "their.eval", both)
    assert cli("import", file, *KUMO, "--out", tmp_path / "theirs") == 2
    assert reason in capsys.readouterr().err


def logs(tmp_path, **changes):
    """Copies of a log as another harness would have written it, each changed by its own."""
    found = []
    for name, change in changes.items():

        def both(member, value, change=change):
            foreign(member, value)
            change(member, value)

        found.append(rewritten(calm_log("kumo-random", tmp_path), tmp_path / f"{name}.eval", both))
    return found


def of_model(name):
    def change(member, value):
        if member == "header.json":
            value["eval"]["model"] = name

    return change


def kept(file, target, count, last=False):
    """A copy of a log with so many of its samples, the first or the last ones."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(target, "w") as new:
        samples = sorted(name for name in old.namelist() if name.startswith("samples/"))
        for name in (*(samples[-count:] if last else samples[:count]), "header.json"):
            new.writestr(name, old.read(name))
    return target


@pytest.mark.parametrize("second", ["others/llama", "meta/opus"])
def test_logs_of_two_models_are_not_taken_for_one_run(second, tmp_path, capsys):
    files = logs(tmp_path, one=of_model("meta/llama"), two=of_model(second))
    for named in ((), ("--player", "rival")):
        assert cli("import", *files, *KUMO, *named, "--out", tmp_path / "both") == 2
        assert "import it into a run of its own" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "both").exists()


def test_one_model_s_samples_may_come_in_several_files(tmp_path, capsys):
    [whole] = logs(tmp_path, whole=of_model("meta/llama"))
    halves = [kept(whole, tmp_path / "first.eval", 2), kept(whole, tmp_path / "last.eval", 2, last=True)]
    assert cli("import", *halves, *KUMO, "--out", tmp_path / "both") == 0
    assert cli("import", whole, *KUMO, "--out", tmp_path / "alone") == 0
    ids = [
        sorted(Run(tmp_path / name).ledger.table(["episode_id"])["episode_id"].to_pylist())
        for name in ("both", "alone")
    ]
    assert ids[0] == ids[1] and len(ids[0]) == 4
    assert cli("import", *halves, halves[0], *KUMO, "--out", tmp_path / "thrice") == 2
    assert "is of a game that a sample before it is of, too" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        *(("max_tokens", "length"), ("model_length", "length"), ("content_filter", "content_filter")),
        *(("stop", "stop"), ("tool_calls", "stop"), (None, "stop")),
    ],
)
def test_how_the_last_reply_of_a_log_ended_is_kept(reason, finish, tmp_path):
    def ended(member, value):
        if member.startswith("samples/"):
            value["output"] = {"choices": [{"stop_reason": reason}]}

    [file] = logs(tmp_path, ended=ended)
    for transcript in read_inspect(file)[1]:
        assert transcript.finish == finish
        player, chat, replies = TranscriptPlayer(transcript), (), []
        for role, text, _ in transcript.messages:
            if role != "assistant":
                chat = (*chat, message(role, text))
                continue
            replies.append(asyncio.run(player.reply(SimpleNamespace(chat=chat, labels=(), number=len(replies)))))
            chat = (*chat, message(role, text))
        assert [reply.finish for reply in replies] == [*["stop"] * (len(replies) - 1), finish]


def test_games_of_one_player_with_other_settings_are_not_mixed(tmp_path, capsys):
    """Two runs of the same games by one player: the second has other settings, and so other ids."""
    plan, rows = calm_rows()
    renamed = {episode.id: dataclasses.replace(episode, fingerprint="other") for episode in plan}
    second = rows.set_column(
        rows.column_names.index("episode_id"),
        "episode_id",
        pa.array([renamed[id].id for id in rows["episode_id"].to_pylist()]),
    )
    files = []
    for name, planned, table in (("one", plan, rows), ("two", tuple(renamed.values()), second)):
        run = write_run(tmp_path / name, planned, table)
        cli("export", run, "--to", "inspect", "--out", tmp_path / f"out-{name}")
        files.append(next(path for path in (tmp_path / f"out-{name}").rglob("*.eval") if "kumo-random" in path.name))
    capsys.readouterr()
    assert cli("import", *files, "--out", tmp_path / "both") == 2
    assert "has played in a file before, with other settings" in " ".join(capsys.readouterr().err.split())


def test_an_episode_that_failed_elsewhere_is_a_failed_row_with_its_cause(tmp_path):

    def failed(name, value):
        foreign(name, value)
        if name.startswith("samples/"):
            value["messages"] = value["messages"][:2]
            value["error"] = {"message": "timed out at http://10.1.2.3:80/v1", "traceback": "", "traceback_ansi": ""}

    file = rewritten(calm_log("kumo-random", tmp_path), tmp_path / "their.eval", failed)
    assert cli("import", file, *KUMO, "--out", tmp_path / "theirs") == 0
    errors = Run(tmp_path / "theirs").ledger.table(["status", "error"]).to_pylist()
    assert {(row["status"], row["error"]) for row in errors} == {("failed", "PlayerError: timed out at <address>")}


def test_what_a_log_tells_of_the_player_alone_counts_and_an_error_after_the_end_is_a_failure(tmp_path):

    def judged(name, value):
        foreign(name, value)
        if name.startswith("samples/"):
            player = {"input_tokens": 10, "output_tokens": 5, "input_tokens_cache_read": 2, "total_cost": 1.5}
            value["model_usage"] = {"a/judge": {"input_tokens": 1000}, "openai/gpt-of-the-test": player}
            value["error"] = {"message": "the scorer died", "traceback": "", "traceback_ansi": ""}

    file = rewritten(calm_log("kumo-random", tmp_path), tmp_path / "their.eval", judged)
    assert cli("import", file, *KUMO, "--out", tmp_path / "theirs") == 0
    names = ["status", "error", "success", "prompt_tokens", "completion_tokens", "cost"]
    rows = Run(tmp_path / "theirs").ledger.table(names).to_pylist()
    assert len(rows) == 4
    assert {(*row.values(),) for row in rows} == {("failed", "PlayerError: the scorer died", None, 12, 5, 1.5)}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_damaged_log_raises_nothing_but_file_errors(place, byte, tmp_path):
    content = bytearray(toy_log())
    content[place % len(content)] = byte
    (tmp_path / "log.eval").write_bytes(content)
    try:
        list(read_inspect(tmp_path / "log.eval")[1])
    except FileError as error:
        assert "log.eval" in str(error)


@functools.cache
def toy_log() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        [path] = export_inspect(toy_source(), Path(folder))
        return (Path(folder) / path).read_bytes()


# --- what the formats ask --------------------------------------------------------------------------------------------

UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
AGGREGATE = {
    *("schema_version", "evaluation_id", "evaluation_timestamp", "retrieved_timestamp", "source_metadata"),
    *("eval_library", "model_info", "evaluation_results", "detailed_evaluation_results"),
}
INSTANCE = {
    *("schema_version", "evaluation_id", "model_id", "evaluation_name", "evaluation_result_id", "sample_id"),
    *("sample_hash", "interaction_type", "input", "output", "messages", "answer_attribution", "evaluation"),
    *("token_usage", "performance", "error", "metadata"),
}
REQUIRED = INSTANCE - {
    "output",
    "messages",
    "evaluation_result_id",
    "sample_hash",
    "token_usage",
    "performance",
    "error",
}
"""Of schema 0.3.0; benchmarks/exchange.py has their own validator look at the files."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_every_eval_ever_files_keep_the_rules_of_its_schema(name, tmp_path):
    for source in sources_of(small_run(name), SUITES[name]):
        aggregate, samples = export_every_eval_ever(source, tmp_path)
        assert re.fullmatch(rf"data/[^/]+/[^/]+/[^/]+/{UUID4}_samples\.jsonl", samples.as_posix())
        log = json.loads((tmp_path / aggregate).read_text())
        assert set(log) == AGGREGATE
        content = (tmp_path / samples).read_bytes()
        detail = log["detailed_evaluation_results"]
        played = {row["episode_id"]: row for row in source.rows(turns=False)}
        assert detail["checksum"] == hashlib.sha256(content).hexdigest()
        lines = [json.loads(line) for line in content.splitlines()]
        assert detail["total_rows"] == len(lines) == len(list(source.rows(turns=False)))
        strings = [log["source_metadata"], log["eval_library"], log["model_info"]]
        assert all(isinstance(value, str) for each in strings for value in each["additional_details"].values())
        identities = [result["evaluation_result_id"] for result in log["evaluation_results"]]
        assert len(set(identities)) == len(identities)
        for result in log["evaluation_results"]:
            low, high = (result["metric_config"][end] for end in ("min_score", "max_score"))
            assert float(low) <= result["score_details"]["score"] <= float(high)
            if result["metric_config"]["metric_unit"] == "proportion":
                assert (low, high) == (0, 1)
        for line in lines:
            assert set(line) >= REQUIRED
            assert set(line) <= INSTANCE
            assert (line["interaction_type"] == "single_turn") == ("output" in line) != ("messages" in line)
            assert line["evaluation_id"] == log["evaluation_id"]
            assert line["evaluation_result_id"] in identities
            row = played[line["metadata"]["episode_id"]]
            names = ("input_tokens", "output_tokens", "input_tokens_cache_read", "reasoning_tokens")
            counts = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
            assert [line["token_usage"][each] for each in names] == [row[each] or 0 for each in counts]
            ends = [each["is_terminal"] for each in line["answer_attribution"]]
            assert not any(ends[:-1]) and (row["status"] == "failed" or ends[-1:] == [True]), (
                "the last reply ends the game"
            )
            if "messages" in line:
                asked = itertools.takewhile(lambda said: said["role"] != "assistant", line["messages"])
                assert line["input"]["raw"] == "\n".join(said["content"] for said in asked), "what the first turn asks"
            assert line["performance"]["latency_ms"] / 1000 == pytest.approx(row["seconds"])
            assert all(isinstance(value, str) for value in line["metadata"].values())
        _, read = read_every_eval_ever(tmp_path / aggregate)
        told = [(line["token_usage"]["input_tokens"], line["token_usage"]["output_tokens"]) for line in lines]
        assert [(each.prompt_tokens, each.completion_tokens) for each in read] == told
        uuid.UUID(aggregate.stem)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_an_inspect_log_holds_each_episode_with_its_chat_and_pictures(name, tmp_path):
    for source in sources_of(small_run(name), SUITES[name]):
        [path] = export_inspect(source, tmp_path)
        archive = zipfile.ZipFile(tmp_path / path)
        header, summaries = json.loads(archive.read("header.json")), json.loads(archive.read("summaries.json"))
        rows = {row["episode_id"]: row for row in source.rows()}
        assert len(summaries) == len(rows)
        assert header["eval"]["config"]["epochs"] == 1 + max(row["repeat"] for row in rows.values())
        for summary in summaries:
            sample = json.loads(archive.read(f"samples/{summary['id']}_epoch_{summary['epoch']}.json"))
            row = rows.pop(sample["uuid"])
            replies = [each for each in sample["messages"] if each["source"] == "generate"]
            assert [each["content"][-1]["text"] for each in replies] == [turn["reply"] for turn in row["turns"]]
            assert ("error" in sample) == (row["status"] == "failed")
            shown = {
                part["image"] for each in sample["messages"] for part in each["content"] if part["type"] == "image"
            }
            assert shown == {f"attachment://{key}" for key in sample["attachments"]}
            for picture in sample["attachments"].values():
                Image.open(io.BytesIO(base64.b64decode(picture.removeprefix("data:image/png;base64,")))).verify()
        assert not rows


@pytest.mark.slow
def test_messages_tell_every_chat_once():
    """Each turn's whole chat can be made again from the messages that precede its reply."""
    for name in SUITES:
        for source in sources_of(small_run(name), SUITES[name]):
            for row in source.rows():
                said = list(messages_of(row["turns"]))
                assert sum(each.reply is not None for each in said) == len(row["turns"])
                added = [each for each in said if each.reply is None]
                stored = sum(len(turn["prompt"]) for turn in row["turns"])
                repeated = stored - len(added)
                chats = [chat_of(row["turns"], number) for number in range(len(row["turns"]))]
                assert repeated == sum(
                    len(chat) > len(before) and chat[: len(before)] == before and chat[len(before)].role == "assistant"
                    for before, chat in itertools.pairwise(chats)
                )


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=5))
def test_of_each_turn_what_it_adds_is_told_and_then_its_reply(shape):
    turns, told, length = [], [], 0
    for number, (asked, begins_anew) in enumerate(shape):
        texts = [("user", f"{number}.{place}") for place in range(asked)]
        goes_on = number > 0 and not begins_anew
        before = ("assistant", turns[-1]["reply"] if goes_on else "worked example")
        kept = length if goes_on else 0
        prompt = [{"role": role, "parts": [{"text": text, "picture": None}]} for role, text in (before, *texts)]
        turns.append({"kept": kept, "prompt": prompt, "reply": f"reply {number}"})
        length = kept + len(prompt)
        told += [(number, *each) for each in (*([] if goes_on else [before]), *texts, ("assistant", f"reply {number}"))]
    said = list(messages_of(turns))
    assert [(each.turn, each.role, as_text(each.parts)) for each in said] == told
    assert [each.reply for each in said if each.reply is not None] == turns


@pytest.mark.parametrize("file_bytes", [0, 10**9])
def test_a_dataset_of_several_files_holds_and_counts_every_episode(tmp_path, monkeypatch, file_bytes):
    monkeypatch.setattr(huggingface, "_batches", functools.partial(huggingface._batches, size=2))
    monkeypatch.setattr(huggingface, "FILE_BYTES", file_bytes)
    run, suite = small_run("kidgym"), SUITES["kidgym"]
    export_huggingface(sources_of(run, suite), tmp_path, "")
    data = tmp_path / "dataset" / "data" / "kidgym"
    rows = pq.read_table(data)["episode_id"].to_pylist()
    assert len(set(rows)) == len(rows) == len(run.episodes(["episode_id"])) > 2
    assert len(list(data.iterdir())) == (1 if file_bytes else math.ceil(len(rows) / 2))
    assert f"\n{len(rows)} episodes, exported" in (tmp_path / "dataset" / "README.md").read_text()


def test_a_dataset_has_its_pictures_as_images_in_the_order_of_the_chat(tmp_path):
    run, suite = small_run("kidgym"), SUITES["kidgym"]
    export_huggingface(sources_of(run, suite), tmp_path, "me/games")
    table = pq.read_table(tmp_path / "dataset" / "data" / "kidgym")
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["images"] == {"_type": "List", "feature": {"_type": "Image"}}
    assert set(features) == set(table.column_names)
    assert len(table) == len(run.episodes(["episode_id"]))
    turns = {row["episode_id"]: row["turns"] for source in sources_of(run, suite) for row in source.rows()}
    for row in table.to_pylist():
        parts = [part for each in row["messages"] for part in each["content"]]
        assert sum(part["type"] == "image" for part in parts) == len(row["images"])
        stored = [part["picture"] for said in messages_of(turns[row["episode_id"]]) for part in said.parts]
        sizes = [picture_from_description(each).size for each in stored if each is not None]
        assert [Image.open(io.BytesIO(image["bytes"])).size for image in row["images"]] == sizes
    header = (tmp_path / "dataset" / "README.md").read_text().split("---")[1]
    assert yaml.safe_load(header)["license"] == ["cc-by-sa-4.0", "mit"]
    assert not (tmp_path / "models").exists()  # no player is a model of the Hub


def as_said(message):
    parts = (part if isinstance(part, str) else f"[picture {part.key}]" for part in message.parts)
    return f"{message.role}: " + "\n".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_lm_eval_samples_ask_what_each_turn_asked_and_their_means_are_the_results(name, tmp_path):
    for source in sources_of(small_run(name), SUITES[name]):
        results, samples = export_lm_eval(source, tmp_path)
        rows = {row["episode_id"]: row for row in source.rows()}
        given = [json.loads(line) for line in (tmp_path / samples).read_text().splitlines()]
        assert [each["doc_id"] for each in given] == [*range(len(rows))]
        for sample in given:
            turns = rows.pop(sample["doc"]["episode_id"])["turns"]
            asked = [sample["arguments"][f"gen_args_{number}"]["arg_0"] for number in range(len(turns))]
            assert asked == ["\n".join(map(as_said, chat_of(turns, number))) for number in range(len(turns))]
            assert sample["resps"] == [[turn["reply"]] for turn in turns]
        assert not rows
        log = json.loads((tmp_path / results).read_text())["results"]
        whole = next(each for each in log.values() if "success,none" in each and each["alias"] == source.title)
        assert whole["sample_len"] == len(given)
        assert whole["success,none"] == pytest.approx(sum(each["success"] for each in given) / len(given))


def test_lm_eval_is_told_sampling_settings_that_are_0(tmp_path):
    sampling = {"temperature": 0.0, "top_p": None, "seed": 0}
    source = dataclasses.replace(toy_source(), model={"sampling": sampling})
    results, _ = export_lm_eval(source, tmp_path)
    for config in json.loads((tmp_path / results).read_text())["configs"].values():
        assert config["generation_kwargs"] == {"temperature": 0.0, "seed": 0}


@pytest.mark.parametrize("name", ["lm_eval", "every_eval_ever"])
def test_cells_whose_names_join_alike_keep_their_own_scores(name, tmp_path, monkeypatch):
    source = toy_source()
    module = importlib.import_module(f"evals.exchange.{name}")
    overall = module.scores_of(source)[0]
    cells = [(), ("a_b", "c"), ("a", "b_c"), ("a b", "c"), ("a", "b c"), ("a.b", "c")]
    means = {cell: place / 8 for place, cell in enumerate(cells)}
    scores = []
    for cell, mean in means.items():
        estimate = dataclasses.replace(overall.estimate, mean=mean)
        scores.append(dataclasses.replace(overall, cell=cell, estimate=estimate))
    monkeypatch.setattr(module, "scores_of", lambda source: scores)
    aggregate, _ = WRITE[name](source, tmp_path)
    written = json.loads((tmp_path / aggregate).read_text())
    if name == "lm_eval":
        assert [each["success,none"] for each in written["results"].values()] == [*means.values()]
        (below,) = written["group_subtasks"].values()
        assert len(below) == len(set(below)) == len(cells) - 1
    else:
        results = written["evaluation_results"]
        assert [each["score_details"]["score"] for each in results] == [*means.values()]
        for key in ("evaluation_result_id", "evaluation_name"):
            assert len({each[key] for each in results}) == len(cells)
            assert "-" not in results[0][key], "the first keeps its name"


@pytest.mark.parametrize("name", WRITE)
def test_exports_of_one_run_are_equal_to_the_last_byte(name, tmp_path):
    for folder in ("a", "b"):
        WRITE[name](toy_source(), tmp_path / folder)
    files = [sorted(path.relative_to(tmp_path / one) for path in (tmp_path / one).rglob("*.*")) for one in ("a", "b")]
    assert files[0] == files[1]
    assert all((tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes() for path in files[0])


# --- what must not leave ---------------------------------------------------------------------------------------------

SECRETS = ("sk-0123456789", "gpu17.lab.internal", "/home/me/private", "10.20.30.40")


def test_no_key_host_or_path_of_the_configuration_is_in_any_export(tmp_path):
    key, host, path, address = SECRETS
    config = {
        "suite": {"type": "toy", "source": path, "python": f"{path}/bin/python", "api_key": key, "files": [path, "a"]},
        "model": {
            **{"name": "oracle", "sampling": {"temperature": 0.5, "max_tokens": 7, "header": key}},
            "engine": {"type": "openai", "model": f"{path}/weights", "base_url": f"http://{host}:8000", "api_key": key},
        },
        "cluster": {"address": f"{host}:6379"},
        "tracker": {"token": key},
        "run_dir": path,
    }
    run = run_of(ToySuite(episodes=6), failing=(1,))
    table = run.episodes()
    error = f"ConnectError: {host}:8000 and http://{address}/v1 refused; no {host}; see {path}/log"
    broken = table.set_column(
        table.column_names.index("error"),
        "error",
        pa.array([error if each else "" for each in table["error"].to_pylist()]),
    )
    turns = pa.concat_tables(run.batches(["turns"]))["turns"]
    run = RunData.of_tables(run.plan, broken.append_column("turns", turns), config)
    [source] = sources_of(run, ToySuite())
    for write in WRITE.values():
        write(source, tmp_path)
    export_huggingface([source], tmp_path, "me/games")
    everything = b"".join(content(path) for path in tmp_path.rglob("*.*") if path.is_file())
    assert b"<address> refused" in everything
    assert b'"temperature": 0.5' in everything
    for secret in SECRETS:
        assert secret.encode() not in everything
    assert set(source.withheld) == {"suite.source", "suite.python", "suite.api_key", "suite.files"}


def content(path: Path) -> bytes:
    """Of a file, unpacked."""
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
    if path.suffix == ".eval":
        archive = zipfile.ZipFile(path)
        return b"".join(archive.read(name) for name in archive.namelist())
    return path.read_bytes()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_a_safe_name_is_one_file_name_and_tells_texts_apart(text):
    name = safe_name(text)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    assert name not in (".", "..")
    assert len(name) < 100
    assert name == text or name != safe_name(text + "!")


@given(st.sampled_from(["api_key", "client_secret", "password", "extra_headers", "credentials", "hf_token"]), st.data())
def test_a_setting_with_a_secret_name_stays_here_however_it_is_spelled(name, data):
    spelled = "".join(data.draw(st.sampled_from([sign, sign.upper()])) for sign in name)
    for section in ({spelled: "s"}, {"engine": [{spelled: ["s"]}]}, {"a": {spelled: {"b": "s"}}}):
        assert '"s"' not in json.dumps(public_settings(section))


@given(st.lists(st.sampled_from(["medical", "/home/me/mine.yaml", "~/other.yaml"]), max_size=4))
def test_lists_leave_without_their_paths_and_a_list_of_which_nothing_is_left_does_not(domains):
    public = public_settings({"type": "kumo", "domains": domains})
    kept = [name for name in domains if name == "medical"]
    assert public.get("domains", []) == kept and ("domains" in public) == (kept != [] or domains == [])
    assert left_out({"domains": domains}, public, "suite") == (["suite.domains"] if kept != domains else [])


@pytest.mark.slow
def test_a_run_over_a_domain_file_of_ones_own_comes_back_row_for_row(tmp_path, capsys):
    domain = (tmp_path / "mine.yaml").resolve()
    medical = (resources.files("envs.kumo") / "domains" / "medical.yaml").read_text(encoding="utf-8")
    domain.write_text(medical.replace("name: medical", "name: mine"), encoding="utf-8")
    words = ["suite.difficulties=[easy]", "suite.tasks_per_domain=2", "suite.repeats=1", "model=random"]
    assert cli("run", "suite=kumo", f"suite.domains=[{domain}]", *words, f"run_dir={tmp_path / 'run'}") == 0
    for name, ending in (("inspect", "*.eval"), ("every_eval_ever", "*.json")):
        assert cli("export", tmp_path / "run", "--to", name, "--out", tmp_path / name) == 0
        assert "suite.domains" in capsys.readouterr().err
        files = [
            path for path in (tmp_path / name).rglob(ending) if path.parent != tmp_path / name or name == "inspect"
        ]
        assert cli("import", *files, "--out", tmp_path / f"{name}-back") == 0
        assert rows_at(tmp_path / f"{name}-back") == rows_at(tmp_path / "run")


def test_settings_without_secrets_stay_as_they_are():
    section = {"type": "kumo", "domains": ["medical"], "repeats": 2, "transcripts": None, "seeds": "sealed:/a/b"}
    assert public_settings(section) == {name: section[name] for name in section if name != "seeds"}
    assert public_model({"model": None}) == {}
    assert public_error("PromptTooLong: by 1000 tokens") == "PromptTooLong: by 1000 tokens"


def test_hosts_that_a_run_was_configured_with_are_hidden_without_their_port_and_in_any_case():
    engine = {"type": "openai", "base_url": "http://Gpu7.Cluster:8000/v1", "model": "org/m", "max_model_len": 4096}
    cluster = {"address": "node-3:6379", "nodes": 2, "proxy": "gpu7.cluster.example:80", "storage": "/data/runs/a"}
    places = places_of({"model": {"engine": {**engine, "backup": "[fd00::7]:80"}, "name": "x"}, "cluster": cluster})
    assert places[0] == "gpu7.cluster.example", "the longest first"
    assert {*places} == {"gpu7.cluster.example", "gpu7.cluster", "/data/runs/a", "fd00::7", "node-3"}
    assert len(places) == 5
    said = "Error: host Gpu7.Cluster of GPU7.cluster.example, fd00::7 or NODE-3 is not there (org/m, 4096)"
    hidden = "Error: host <address> of <address>, <address> or <address> is not there (org/m, 4096)"
    assert public_error(said, places) == hidden
    for config in ({}, {"model": "m", "cluster": "c:80"}, {"model": {"engine": None}, "cluster": None}):
        assert places_of(config) == ()


# --- whole files -----------------------------------------------------------------------------------------------------


class Titled(ToySuite):
    title = "Games of colors"


def a_small_source() -> Source:
    """A model's episodes, whose numbers all differ: one of two turns, one of one turn, one that failed, one not played."""
    suite = Titled()
    episodes = [
        Episode("toy", "colors", level, "cot", index, repeat, 70 + index, "f", 9 + index, 2.5, 300.0, player="m")
        for level, index, repeat in (("easy", 0, 0), ("hard", 1, 2), ("hard", 3, 0), ("easy", 4, 1))
    ]
    chat = (message("system", "Rules"), message("user", "First?"))
    asked = (chat, (*chat, message("assistant", "red"), message("user", "Second?")))
    replies = [
        Reply("red", "stop", 11, 3, 5, 0.5, reasoning="Hm.", reasoning_tokens=1, cost=0.25),
        Reply("green", "length", 23, 7, 2, 1.5, reasoning="Oh.", reasoning_tokens=4, cost=0.5),
    ]
    turns = [
        PlayedTurn(Turn(episodes[0], number, asked[number], OPTIONS), reply, action, rule)
        for number, (reply, action, rule) in enumerate(
            zip(replies, (None, "green"), ("unread", "last line"), strict=True)
        )
    ]
    won, lost = Outcome(True, 2, extra={"right": 2}), Outcome(False, 1, 0.75, {"right": 1})
    records = [
        Record(episodes[0], won, "", tuple(turns), 2.5),
        Record(episodes[1], lost, "", (dataclasses.replace(turns[0], action="red", rule="exact"),), 1.25),
        Record(episodes[2], None, "PlayerError: no", (), 0.75, "endpoint"),
    ]
    settings = {
        "suite": {"type": "toy", "episodes": 4},
        "decoding": "free",
        "history": {"reasoning": "kept"},
        "model": {
            **{"name": "m", "engine": {"type": "vllm", "model": "Some/Model", "dtype": "bfloat16"}},
            "sampling": {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "max_tokens": 99, "seed": 3},
        },
    }
    run = RunData.of_tables(plan_to_table(episodes), records_to_table(records, ledger_columns(suite)), settings)
    first = {"id": "1", "began": "2030-01-02T03:04:05+00:00", "vllm": "1.0", "raycade": "0.1"}
    run = dataclasses.replace(
        run, sessions=[first, {**first, "id": "2", "began": "2031", "vllm": "1.1", "complete": True}]
    )
    [source] = sources_of(run, suite)
    return source


def as_lines(value, path=()):
    """A JSON value as a line for each of its texts and numbers; what raycade carries along is left out."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name != "raycade" or not path:
                yield from as_lines(each, (*path, name))
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from as_lines(each, (*path, str(number)))
    else:
        shown = round(value, 6) if isinstance(value, float) else value
        yield f"{' '.join(path)}: {json.dumps(shown)}"


def test_the_files_of_a_small_run_are_those_on_record(tmp_path):
    source = a_small_source()
    lines = []
    for name, write in WRITE.items():
        for path in write(source, tmp_path / name):
            lines.append(f"\n=== {name}: {path}")
            file = tmp_path / name / path
            if path.suffix == ".eval":
                archive = zipfile.ZipFile(file)
                values = [(each, json.loads(archive.read(each))) for each in archive.namelist()]
            elif path.suffix == ".jsonl":
                values = [(str(number), json.loads(line)) for number, line in enumerate(file.read_text().splitlines())]
            else:
                values = [("", json.loads(file.read_text()))]
            for member, value in values:
                lines += [f"--- {member}", *as_lines(value)]
    for path in export_huggingface([source], tmp_path / "hub", "me/games"):
        lines.append(f"\n=== huggingface: {path}")
        file = tmp_path / "hub" / path
        if path.suffix == ".parquet":
            rows = pq.read_table(file).to_pylist()
            lines += [line for number, row in enumerate(rows) for line in as_lines(row, (str(number),))]
        else:
            lines.append(file.read_text().partition("| column |")[0])
    check_golden("exports", "\n".join(lines))


def test_transcripts_are_stored_by_their_number_and_size():
    for sizes, expected in (
        ([1] * (AT_ONCE + 3), [AT_ONCE, 3]),
        ([BYTES_AT_ONCE // 4 + 1] * 11, [4, 4, 3]),
        ([BYTES_AT_ONCE, 1, 1], [1, 2]),
        ([], []),
    ):
        batches = _batches(SimpleNamespace(size=size) for size in sizes)
        assert [len(batch) for batch in batches] == expected


@pytest.mark.parametrize(("name", "read"), [("every_eval_ever", read_every_eval_ever), ("inspect", read_inspect)])
def test_what_a_small_run_carried_and_said_is_read_again(name, read, tmp_path):
    source = a_small_source()
    run, transcripts = read(tmp_path / WRITE[name](source, tmp_path)[0])
    assert run == json.loads(json.dumps(carry_source(source))) and len(run["unplayed"]) == 1
    assert run["played"] == len(source.plan) - 1
    found = list(transcripts)
    rules, first = ("system", "Rules", ""), ("user", "First?", "")
    told = [
        [rules, first, ("assistant", "red", "Hm."), ("user", "Second?", ""), ("assistant", "green", "Oh.")],
        [rules, first, ("assistant", "red", "Hm.")],
        [],
    ]
    if name == "every_eval_ever":  # which joins what a single turn asks
        told[1] = [("prompt", "Rules\nFirst?", ""), told[1][-1]]
    assert [each.messages for each in found] == told
    assert [(each.key.level, each.key.index, each.key.repeat, each.key.seed) for each in found] == [
        *(("easy", 0, 0, 70), ("hard", 1, 2, 71), ("hard", 3, 0, 73)),
    ]
    assert [(each.player, each.prompt_tokens, each.completion_tokens, each.error) for each in found] == [
        *(("Some/Model", 34, 10, ""), ("Some/Model", 11, 3, ""), ("Some/Model", 0, 0, "PlayerError: no")),
    ]
    carried = [(planned_episode(each.carried["episode"], "here"), each.carried["row"]) for each in found]
    again = ledger_rows(source.suite, carried, "here", "s").to_pylist()
    stored = source.run.find([episode.id for episode, _ in carried])
    assert again == [{**row, "session": "s"} for row in stored]
    # What the plan or the importing run says is not asked of a row.
    claims = dict.fromkeys(("suite", "task", "level", "mode", "player", "episode_id", "session"), "other")
    claims |= dict.fromkeys(("index", "repeat", "seed", "budget", "attempt"), 99)
    assert claims.keys() == {*SAME, *OF_THE_RUN}
    for name, value in claims.items():
        claimed = [(episode, {**row, name: value}) for episode, row in carried]
        assert ledger_rows(source.suite, claimed, "here", "s").to_pylist() == again


def test_no_picture_of_a_prompt_is_left_as_words():
    """Of one turn, all that was asked stands in one text."""
    picture = f"[picture {'0a' * 16}]"
    sample = {"input": {"raw": f"Look at {picture} and {picture}."}, "output": {"raw": ["A"]}, "metadata": {}}
    assert _messages(_Sample.model_validate(sample))[0][1] == "Look at  and ."
    longer = {**sample, "output": None, "messages": [{"role": "user", "content": f"{picture}{picture}Go."}]}
    assert _messages(_Sample.model_validate(longer))[0][1] == "Go."


@pytest.mark.parametrize("words", [["export", "--to", "inspect"], ["export", "--to", "huggingface"], ["view"]])
def test_pictures_that_can_no_longer_be_rendered_are_counted(words, tmp_path, monkeypatch, capsys):
    """A skin that has changed since, say."""
    run = write_run(tmp_path / "run", *calm_rows())
    rows = Run(run).episodes(["turns"]).to_pylist()
    prompts = [message for row in rows for turn in row["turns"] for message in turn["prompt"]]
    shown = {part["picture"] for prompt in prompts for part in prompt["parts"] if part["picture"]}
    lost = set(sorted(shown)[:2])
    real = render_description

    def render(description):
        if description in lost:
            raise ValueError("its skin has changed")
        return real(description)

    for module in ("evals.exchange.source", "evals.archive.episodes"):
        monkeypatch.setattr(f"{module}.render_description", render)
    png.cache_clear()
    out = "--export" if words == ["view"] else "--out"
    try:
        assert cli(words[0], run, *words[1:], out, tmp_path / "out") == 0
    finally:
        png.cache_clear()
    assert "could not be rendered and are not in it: 2;" in capsys.readouterr().err
