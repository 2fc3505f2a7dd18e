"""Runs whose settings name what is not here, whose rows no game gives, or whose files lead elsewhere: told, in one line."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.commands.retest import retest
from cluster.errors import UserError
from cluster.storage.lock import RunLock
from cluster.storage.run_directory import RunDirectory
from cluster.storage.spending import read_spending
from cluster.storage.stored_run import Run
from evals.ledger.ledger import open_ledger
from evals.ledger.parts import part_order
from tests.cluster.openai_api.conftest import stub as stub  # a fixture
from tests.cluster.test_cli import run_here
from tests.cluster.test_foreign_runs import change
from tests.cluster.test_replay import run_dir as run_dir  # a fixture
from tests.report_page import episodes_of


def rewrite(run_dir, **columns):
    """Replace columns of the ledger's only part by one value each."""
    [path] = (run_dir / "episodes").glob("*.parquet")
    table = pq.read_table(path)
    for name, value in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array([value] * len(table), table.schema.field(name).type))
    pq.write_table(table, path)


def said(capsys, *words):
    code, out, err = run_here(capsys, *map(str, words))
    assert "Traceback" not in err
    return code, out, err


def suite_of(run_dir):
    return Run(run_dir).config["suite"]


# --- arguments -------------------------------------------------------------------------------------------------------


def test_a_run_that_is_named_twice_is_refused(run_dir, capsys, monkeypatch):
    monkeypatch.chdir(run_dir)
    code, _, err = said(capsys, "report", run_dir, ".")
    assert code == 2 and "named twice" in err


def test_an_episode_of_bytes_that_are_no_text_is_not_there(run_dir, capsys):
    code, _, err = said(capsys, "show", run_dir, "\udcff")
    assert code == 2 and "no episode begins with" in err


def test_a_folder_in_place_of_a_file_that_is_being_written_stays(run_dir):
    (run_dir / "episodes" / ".x.0123abcd.tmp").mkdir()
    (run_dir / ".y.0123abcd.tmp").write_text("left")
    directory = RunDirectory(run_dir)
    directory.claim()
    directory.release()
    assert (run_dir / "episodes" / ".x.0123abcd.tmp").is_dir() and not (run_dir / ".y.0123abcd.tmp").exists()


# --- settings that name what is not here -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_missing_domain_file_leaves_the_report_and_ends_rescore_with_its_name(run_dir, tmp_path, capsys):
    change(run_dir, suite={**suite_of(run_dir), "domains": ["/nowhere/mine.yaml"]})
    page = tmp_path / "page.html"
    code, out, _ = said(capsys, "report", run_dir, "--html", page)
    assert code == 0 and "without the help of the suite kumo" in json.dumps(episodes_of(page))
    code, out, err = said(capsys, "rescore", run_dir)
    assert code == 2 and "mine.yaml" in err and "other course" not in out


def test_rescore_with_a_suite_that_has_not_played_says_so(run_dir, capsys):
    change(run_dir, suite={"type": "kidgym", "tasks": ["CL"], "levels": [1]})
    code, _, err = said(capsys, "rescore", run_dir)
    assert code == 2 and "kumo" in err


def test_missing_transcripts_leave_the_report(run_dir, capsys):
    change(run_dir, suite={**suite_of(run_dir), "transcripts": "/nowhere"})
    assert said(capsys, "report", run_dir)[0] == 0


@pytest.mark.parametrize("columns", [{"kumo.optimal_actions": 0}, {"kumo.optimal_actions": -3}, {"kumo.tests": -5}])
def test_rows_that_no_game_gives_end_with_a_message(run_dir, capsys, columns):
    rewrite(run_dir, **columns)
    code, _, err = said(capsys, "report", run_dir)
    assert code == 2 and "the suite kumo cannot make its scores of this run" in err
    assert said(capsys, "list", run_dir)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("column", ["error", "session", "kumo.predicted", "turns"])
def test_texts_that_are_no_utf8_are_damage(run_dir, tmp_path, capsys, column):
    [path] = (run_dir / "episodes").glob("*.parquet")
    table = pq.read_table(path)
    kind = table.schema.field(column).type
    if column == "turns":
        rows = table["turns"].to_pylist()
        values = pa.array([[{**turn, "reply": "MARK"} for turn in turns] for turns in rows], kind)
    else:
        values = pa.array(["MARK"] * len(table), kind)
    table = table.set_column(table.column_names.index(column), column, values)
    pq.write_table(table, path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"MARK", b"\xff\xfe\xfd\xfc"))
    commands = [("show", run_dir), ("rescore", run_dir), ("report", run_dir, "--html", tmp_path / "page.html")]
    for words in (*commands, ("export", run_dir, "--to", "huggingface", "--out", tmp_path / "out")):
        code, _, err = said(capsys, *words)
        assert code == 0 or (code == 2 and f"{path.name}: " in err and "Invalid UTF8" in err)
    assert code == 2


def test_a_column_of_another_type_ends_the_export_with_a_message(run_dir, tmp_path, capsys):
    [path] = (run_dir / "episodes").glob("*.parquet")
    table = pq.read_table(path)
    place = table.column_names.index("kumo.tests")
    pq.write_table(table.set_column(place, "kumo.tests", pa.array(["x"] * len(table))), path)
    code, _, err = said(capsys, "export", run_dir, "--to", "huggingface", "--out", tmp_path / "out")
    assert code == 2 and "the suite kumo cannot export its rows" in err


def test_a_high_price_is_refused(run_dir, capsys):
    model = Run(run_dir).config["model"]
    change(run_dir, model={**model, "engine": {**model["engine"], "prompt_price": 1e308}})
    code, _, err = said(capsys, "report", run_dir)
    assert code == 2 and "prompt_price" in err


# --- files that lead elsewhere -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("tables", "episodes", "config.yaml", "plan.parquet", "versions.json", "episodes/x.parquet"),
        *("logs/replica-0.0.log", "batches/journal.jsonl"),
    ],
)
def test_a_link_out_of_a_run_is_neither_read_nor_written_through(run_dir, tmp_path, capsys, name):
    other = tmp_path / "other"
    place = run_dir / name
    if place.exists():
        place.rename(other)
    elif name == "tables":
        other.mkdir()
    else:
        other.write_text("[]")
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(other)
    before = sorted(other.iterdir()) if other.is_dir() else other.read_bytes()
    for command in ("report", "status", "list", "show"):
        code, out, err = said(capsys, command, run_dir)
        assert code == (0 if command == "list" else 2) and "link out of the run directory" in out + err
    assert before == (sorted(other.iterdir()) if other.is_dir() else other.read_bytes())


@pytest.mark.slow
def test_links_in_a_circle_are_refused(run_dir, tmp_path, capsys):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for words in (("report",), ("show",), ("site", "--out", tmp_path / "site"), ("run", "--from"), ("merge", run_dir)):
        code, _, err = said(capsys, *words, tmp_path / "circle")
        assert code == 2 and "circle" in err
    (run_dir / "episodes" / "x.parquet").symlink_to("x.parquet")
    code, _, err = said(capsys, "report", run_dir)
    assert code == 2 and "x.parquet" in err


@pytest.mark.slow
def test_a_link_to_a_run_is_followed(run_dir, tmp_path, capsys):
    (tmp_path / "link").symlink_to(run_dir)
    assert said(capsys, "report", tmp_path / "link")[0] == 0


# --- numbers that no driver writes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", ["9" * 15, "9" * 16, "9" * 18, "9" * 19, "1" + "0" * 200])
def test_a_lease_with_a_number_that_no_driver_writes_is_named(run_dir, capsys, digits):
    lease = run_dir / f".lease-{digits}"
    lease.write_text("{}")
    for command in ("report", "status"):
        code, _, err = said(capsys, command, run_dir)
        assert code == 2 and lease.name in err
    with pytest.raises(OSError, match="no lease has such a number"):
        RunLock(run_dir).acquire()
    code, out, _ = said(capsys, "list", run_dir.parent)
    assert code == 0 and "unreadable" in out


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 230])
def test_a_part_with_such_a_number_stops_no_driver(run_dir, digits):
    [part] = (run_dir / "episodes").glob("*.parquet")
    renamed = part.rename(part.with_name(f"part-{digits}.parquet"))
    assert part_order(renamed)[0] == 0 and part_order(part)[0] > 0
    assert len(open_ledger(run_dir).table(["episode_id"])) == len(pq.read_table(renamed))


def test_parts_are_not_numbered_beyond_what_can_be_told_from_none(run_dir):
    """A part that was merged from one of 15 nines could not be read, and what it replaced was gone."""
    [part] = (run_dir / "episodes").glob("*.parquet")
    renamed = part.rename(part.with_name(f"part-{'9' * 15}-0.parquet"))
    (run_dir / ".lease-000001").unlink(missing_ok=True)
    directory = RunDirectory(run_dir)
    with pytest.raises(UserError, match=f"{renamed.name}: no part has such a number"):
        directory.claim()
    renamed.rename(part)
    directory.claim()
    directory.release()


def test_an_attempt_beyond_counting_is_damage(run_dir):
    rewrite(run_dir, attempt=2**31 - 1)
    assert "no number of its attempt" in open_ledger(run_dir).damage[0].reason


# --- money -------------------------------------------------------------------------------------------------------------


def test_retests_share_the_spend_cap_of_their_run(run_dir, stub, tmp_path):
    config = Run(run_dir).config
    prices = {"prompt_price": 1000.0, "completion_price": 1000.0, "spend_cap": 0.3}
    engine = {"type": "openai", "model": "stub", "base_url": stub.url, "max_num_seqs": 1, **prices}
    change(run_dir, model={**config["model"], "engine": engine}, decoding="free")
    url = f"model.engine.base_url={stub.url}"
    for _ in range(4):
        try:
            retest(Run(run_dir), 1.0, overrides=[url])
        except Exception as error:
            assert "spend cap" in str(error)
    each = 0.11
    assert read_spending(run_dir).spent == pytest.approx(len(stub.bodies) * each)
    assert read_spending(run_dir).in_flight == 0 and len(stub.bodies) == 3


def test_a_retest_under_a_cap_needs_the_journal_of_what_was_spent(run_dir, stub):
    rewrite(run_dir, cost=0.2)
    engine = {"type": "openai", "model": "stub", "base_url": stub.url, "prompt_price": 1.0, "spend_cap": 1.0}
    change(run_dir, model={**Run(run_dir).config["model"], "engine": engine}, decoding="free")
    with pytest.raises(UserError, match=r"spending\.json: missing"):
        retest(Run(run_dir), 1.0, overrides=[f"model.engine.base_url={stub.url}"])
    assert not stub.bodies and not (run_dir / "spending.json").exists()


def test_a_retest_of_batches_is_refused_as_their_journal_would_answer_it(run_dir, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "no key")
    engine = {"type": "openai_client", "model": "gpt-5.6", "batch": True}
    change(run_dir, model={**Run(run_dir).config["model"], "engine": engine}, decoding="free")
    code, _, err = said(capsys, "retest", run_dir)
    assert code == 2 and "model.engine.batch=false" in err and err.count("\n") == 1

    async def nothing(*_):
        return [], 0, ""

    monkeypatch.setattr("cluster.commands.retest._ask_all", nothing)
    assert said(capsys, "retest", run_dir, "model.engine.batch=false")[0] == 0


def test_settings_behind_an_option_are_taken(run_dir, capsys):
    assert said(capsys, "rescore", run_dir, "--turns", "1", "suite.decoder=strict")[0] == 0
    assert said(capsys, "rescore", run_dir, "--turns", "1", "nonsense")[0] == 2


def test_a_page_replaces_no_file_of_another_kind(run_dir, capsys):
    plan = run_dir / "plan.parquet"
    before = plan.read_bytes()
    code, _, err = said(capsys, "report", run_dir, "--html", plan)
    assert code == 2 and "must end with .html" in err and plan.read_bytes() == before
