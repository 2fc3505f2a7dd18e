"""`raycade report`: it shows what the ledger says, and writes only where that harms nobody."""

import json
import shutil

import pytest
import yaml

from cluster.commands import report as module
from cluster.commands.report import report, score_run, write_results
from cluster.errors import UserError
from cluster.storage.provenance import write_versions
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.ledger.parts import LedgerChangedError
from evals.ledger.records import records_to_table
from evals.suite import ledger_columns, plan_for
from evals.suites.kidgym.suite import KidGymSuite
from evals.suites.kidgym.templates import load_templates
from tests.cluster.test_cli import run_here
from tests.cluster.test_merge import play as play  # a fixture
from tests.runs import Often, records_of


@pytest.fixture
async def run_dir(play):
    return await play("run")


def shown(capsys):
    output = capsys.readouterr()
    return output.out, output.err


async def test_it_shows_and_writes(run_dir, capsys):
    report([run_dir])
    out, err = shown(capsys)
    assert "Episodes" in out and not err
    summary = json.loads((run_dir / "summary.json").read_text())
    assert [summary[name] for name in ("planned", "done", "failed", "missing")] == [24, 24, 0, 0]
    assert {path.suffix for path in (run_dir / "tables").iterdir()} == {".csv", ".md", ".json"}


async def test_in_short_it_shows_the_headline_tables_and_writes_all(run_dir, capsys):
    report([run_dir], full=False)
    short, _ = shown(capsys)
    assert "Episodes\n" in short and "planned" in short and "medical" not in short
    assert (run_dir / "tables" / "kumo_domains.csv").exists()
    report([run_dir])
    assert "medical" in shown(capsys)[0]


def test_tables_of_every_section_are_there_and_no_times_in_the_summary(tmp_path):
    options = {"tasks": ["CL"], "modes": ["zero_shot"], "episodes": 1, "resolution": 32}
    suite, players = KidGymSuite(**options), {"one": Often(1.0, tokens=7)}
    directory = RunDirectory(tmp_path)
    directory.claim()
    config = yaml.safe_dump({"suite": {"type": "kidgym", **options}})
    directory.begin(plan_for(suite, dict.fromkeys(players, "")), {"config.yaml": config})
    write_versions(tmp_path, [{"id": "a"}, {"id": "b"}])
    directory.commit(records_to_table(records_of(suite, players), ledger_columns(suite)))
    directory.release()
    results, names = score_run(Run(tmp_path)), {}
    for table in results.tables:
        names.setdefault(table.section, []).append(table.name)
    assert names.keys() == {"scores", "diagnostics", "performance"}
    assert names["performance"] == ["usage", "sessions", "kidgym_cache"]
    assert [table["name"] for table in results.summary["tables"]] == names["scores"] + names["diagnostics"]


def test_a_finished_run_is_reported_though_the_files_it_was_asked_with_are_gone(tmp_path):
    (words := tmp_path / "words").mkdir()
    (words / "answer.txt").write_text("One of $letters?")
    options = {"tasks": ["CL"], "modes": ["zero_shot"], "episodes": 1, "resolution": 32, "templates": str(words)}
    suite = KidGymSuite(**options)
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    directory.begin(
        plan_for(suite, {"one": ""}), {"config.yaml": yaml.safe_dump({"suite": {"type": "kidgym", **options}})}
    )
    directory.commit(records_to_table(records_of(suite, {"one": Often(1.0, tokens=7)}), ledger_columns(suite)))
    directory.release()
    before = score_run(Run(directory.path)).summary
    shutil.rmtree(words)
    load_templates.cache_clear()
    assert score_run(Run(directory.path)).summary == before


async def test_notes_that_cannot_be_read_are_told(run_dir, capsys):
    (run_dir / "notes.jsonl").write_text("no note\n")
    report([run_dir])
    told = "".join("".join(shown(capsys)).split())  # a long path is wrapped
    assert f"notesthatarenotshown:{run_dir / 'notes.jsonl'},line1:isnotJSON" in told


async def test_it_shows_where_nothing_can_be_written(run_dir, capsys, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_durably", full)
    report([run_dir], full=False)
    out, err = shown(capsys)
    assert "Episodes" in out and "RUN/tables" not in out and "No space left on device" in err


async def test_it_shows_what_only_may_be_read(run_dir, capsys, monkeypatch):
    def read_only(self, created=False):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("cluster.storage.lock.RunLock.acquire", read_only)
    report([run_dir])
    out, err = shown(capsys)
    assert "Episodes" in out and "Read-only file system" in err
    assert not (run_dir / "summary.json").exists()


async def test_it_writes_nothing_while_a_driver_works(run_dir, capsys):
    driver = RunDirectory(run_dir)
    driver.claim()
    report([run_dir])
    out, err = shown(capsys)
    assert "Episodes" in out and "another driver" in err
    assert not (run_dir / "summary.json").exists()


@pytest.mark.slow
async def test_it_never_overwrites_results_of_a_later_ledger(run_dir, capsys, monkeypatch):
    [part] = (run_dir / "episodes").iterdir()
    aside = run_dir / part.name
    part.rename(aside)
    real = module.read_runs

    def read_runs(*arguments):
        found = real(*arguments)
        monkeypatch.undo()
        aside.rename(part)  # meanwhile a driver ends the run
        write_results(Run(run_dir), score_run(Run(run_dir)))
        return found

    monkeypatch.setattr(module, "read_runs", read_runs)
    report([run_dir])
    out, err = shown(capsys)
    assert "24" in out and "meanwhile" in err
    assert json.loads((run_dir / "summary.json").read_text())["missing"] == 0


async def test_it_begins_anew_when_parts_are_merged_meanwhile(run_dir, monkeypatch):
    real, calls = module._score, []

    def score(run, data, suite):
        calls.append(run)
        if len(calls) == 1:
            raise LedgerChangedError
        return real(run, data, suite)

    monkeypatch.setattr(module, "_score", score)
    assert score_run(Run(run_dir)).summary["done"] == 24 and len(calls) == 2


@pytest.mark.slow
@pytest.mark.parametrize("in_place_of_own", [False, True])
async def test_a_part_of_another_shard_is_named_and_never_counts(play, capsys, in_place_of_own):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2")
    [own], [foreign] = (one / "episodes").iterdir(), (two / "episodes").iterdir()
    before = score_run(Run(one)).summary
    shutil.copy(foreign, one / "episodes")
    if in_place_of_own:
        own.unlink()
    code, _, err = run_here(capsys, "report", str(one))
    assert code == 0 and "not counted" in err and foreign.name in err
    after = score_run(Run(one)).summary
    done = 0 if in_place_of_own else before["done"]
    assert (after["planned"], after["done"], after["missing"]) == (before["planned"], done, before["planned"] - done)


async def test_a_column_that_is_damaged_is_named_when_it_is_scored(run_dir, monkeypatch):
    from evals.ledger.parts import Damage, LedgerDamagedError

    [part] = (run_dir / "episodes").iterdir()

    def score(run, data, suite):
        raise LedgerDamagedError([Damage(part, "page checksum")])

    monkeypatch.setattr(module, "_score", score)
    for read in (lambda run_dir: score_run(Run(run_dir)), lambda run_dir: report([run_dir])):
        with pytest.raises(UserError, match=rf"{run_dir}: (.|\n)*{part.name}: page checksum"):
            read(run_dir)


async def test_a_plan_that_was_edited_is_refused(run_dir):
    import pyarrow as pa
    import pyarrow.parquet as pq

    plan = pq.read_table(run_dir / "plan.parquet")
    edited = plan.set_column(plan.column_names.index("seed"), "seed", pa.array([1] * len(plan)))
    pq.write_table(edited, run_dir / "plan.parquet")
    with pytest.raises(UserError, match="plan"):
        score_run(Run(run_dir))


@pytest.mark.slow
async def test_replies_that_were_cut_off_are_counted_and_warned_of(play, capsys):
    run_dir = await play("run", "baselines=[random]", most=48, cutting=1)
    report([run_dir])
    out, err = shown(capsys)
    assert "cut off" in out and "1 of 24 episodes (4.2%)" in err and "random" not in err
    summary = json.loads((run_dir / "summary.json").read_text())
    [warning] = summary["warnings"]
    assert warning in err
    [replies] = [table for table in summary["tables"] if table["name"] == "replies"]
    column = replies["columns"].index("cut off")
    counts = {row[0]: row[column] for row in replies["rows"]}
    assert counts["simulated"] > 1 and counts["random"] == 0


@pytest.mark.slow
async def test_few_replies_that_were_cut_off_are_no_reason_to_warn(play, capsys):
    run_dir = await play("run", "suite.tasks_per_domain=25", cutting=1)
    report([run_dir])
    assert not shown(capsys)[1]
    assert json.loads((run_dir / "summary.json").read_text())["warnings"] == []
