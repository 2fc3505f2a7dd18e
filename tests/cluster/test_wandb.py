"""What W&B is told, read back from the files of offline runs: scores, intervals, samples, artifacts, groups, uploads."""

import json

import pytest

from cluster.cli import main
from cluster.commands.upload import sent_by_another_process
from cluster.observe.tracker import tracked_id
from cluster.observe.wandb_tracker import PROGRESS, TURN_COLUMNS, WandbTracker
from cluster.storage.lock import RunLock
from cluster.storage.stored_run import Run
from evals.summary.flat import flat_summary
from tests.cluster.conftest import EASY
from tests.cluster.test_cli import run_here
from tests.wandb_file import runs_of, summary_of

pytestmark = pytest.mark.slow

SMALL = [*EASY, "suite.tasks_per_domain=3", "suite.repeats=1"]
PLAYED = [*SMALL, "model=random", "baselines=[oracle]", "tracker=wandb"]


def of_type(records, kind):
    return [getattr(record, kind) for record in records if record.WhichOneof("record_type") == kind]


def scores(run_dir):
    return flat_summary(json.loads((run_dir / "summary.json").read_text()))


def table(run_dir, key):
    (path,) = sorted(run_dir.glob(f"wandb/offline-run-*/files/media/table/{key}_*.table.json"))[-1:]
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A run of a built-in player, tracked offline, with settings of the tracker."""
    folder = tmp_path_factory.mktemp("wandb") / "run"
    about = ["tracker.group=g", "tracker.tags=[a,b]", "tracker.name=n", "tracker.notes=why", "tracker.job_type=j"]
    with pytest.raises(SystemExit) as end:
        main(["run", *PLAYED, *about, "tracker.episodes=4", f"run_dir={folder}"])
    assert end.value.code == 0
    return folder


def test_the_final_summary_equals_summary_json(run_dir):
    (records,) = runs_of(run_dir)
    found, expected = summary_of(records), scores(run_dir)
    assert {name: found.get(name) for name in expected} == expected
    assert expected["planned"] == 6 and any(name.endswith("/success/high") for name in expected)
    assert found["episodes/done"] == found[PROGRESS] == 6 and found["success/oracle"] == 1
    assert found["success/random"] == pytest.approx(expected["kumo_success/random/easy/success"])


def test_what_describes_a_run_is_set(run_dir):
    (records,) = runs_of(run_dir)
    run = of_type(records, "run")[0]
    assert (run.run_group, run.job_type, list(run.tags), run.display_name, run.notes) == (
        "g",
        "j",
        ["a", "b"],
        "n",
        "why",
    )
    metrics = {metric.glob_name or metric.name: metric.step_metric for metric in of_type(records, "metric")}
    assert metrics["episodes/*"] == metrics["success/*"] == PROGRESS


def test_tables_keep_their_intervals(run_dir):
    found = table(run_dir, "tables/kumo_success")
    at = found["columns"].index("success")
    assert found["columns"][at : at + 3] == ["success", "success low", "success high"]
    oracle = next(row for row in found["data"] if row[0] == "oracle")
    assert oracle[at] == oracle[at + 2] == 1 and 0 < oracle[at + 1] < 1


def test_sampled_episodes_stand_turn_by_turn(run_dir):
    found = table(run_dir, "episodes")
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["data"]]
    assert found["columns"] == list(TURN_COLUMNS)
    assert len({row["episode"] for row in rows}) == 3, "the model's; the baseline's are not of interest"
    order = list(dict.fromkeys((row["episode"], row["outcome"]) for row in rows))
    assert [outcome for _, outcome in order] == sorted((outcome for _, outcome in order))
    assert all(row["prompt"] and row["reply"] and row["rule"] for row in rows)


def test_ledger_and_report_are_artifacts(run_dir):
    (records,) = runs_of(run_dir)
    found = {
        artifact.type: artifact for artifact in of_type(records, "artifact") if artifact.type in ("ledger", "report")
    }
    assert {entry.path for entry in found["ledger"].manifest.contents} >= {
        "plan.parquet",
        "config.yaml",
        "summary.json",
    }
    assert any(entry.path.startswith("episodes/part-") for entry in found["ledger"].manifest.contents)
    assert any(entry.path == "tables/kumo_success.csv" for entry in found["report"].manifest.contents)


def test_a_complete_run_says_what_to_do_and_can_be_uploaded(run_dir, capsys):
    code, _, err = run_here(capsys, "run", *PLAYED, f"run_dir={run_dir}")
    assert code == 0 and f"raycade upload {run_dir}" in err and len(runs_of(run_dir)) == 1
    code, out, _ = run_here(capsys, "upload", str(run_dir), "tracker.notes=again", "tracker.artifacts=false")
    assert code == 0 and "wandb sync" in out
    first, second = runs_of(run_dir)
    was, now = of_type(first, "run")[0], of_type(second, "run")[0]
    assert now.run_id == was.run_id and now.notes == "again" and now.run_group == "g", "its own settings, but for one"
    found, expected = summary_of(second), scores(run_dir)
    assert {name: found.get(name) for name in expected} == expected
    assert found["episodes/done"] == 6 and "requests_per_second" not in found, "an upload measures no speed"


def test_an_upload_that_cannot_be_is_named(run_dir, tmp_path, capsys, monkeypatch):
    for arguments, named in (
        ([str(tmp_path)], "no run here"),
        ([str(run_dir), "suite.repeats=2"], "tracker.KEY=VALUE"),
        ([str(run_dir), "tracker=none"], "nothing to send to"),
        ([str(run_dir), "tracker.mod=online"], "Did you mean mode"),
    ):
        code, _, err = run_here(capsys, "upload", *arguments)
        assert code == 2 and named in err, err

    monkeypatch.setattr(WandbTracker, "start", failing)
    code, _, err = run_here(capsys, "upload", str(run_dir))
    assert code == 1 and "unreachable" in err


def failing(*arguments):
    raise ConnectionError("unreachable")


def test_results_of_a_tracker_that_failed_are_sent_by_another_process(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(WandbTracker, "finish", failing)
    code, _, err = run_here(capsys, "run", *PLAYED, "tracker.artifacts=false", f"run_dir={tmp_path / 'run'}")
    assert code == 0 and "unreachable" in err and "another process has sent" in err
    last = runs_of(tmp_path / "run")[-1]
    found, expected = summary_of(last), scores(tmp_path / "run")
    assert of_type(last, "run")[0].run_id == tracked_id(Run(tmp_path / "run"))
    assert expected and {name: found.get(name) for name in expected} == expected


def test_a_second_failure_of_the_tracker_is_told_and_the_run_is_fine(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(WandbTracker, "start", failing)
    monkeypatch.setattr("cluster.commands.run.SECOND_ATTEMPT_SECONDS", 0.0)
    code, _, err = run_here(capsys, "run", *PLAYED, f"run_dir={tmp_path / 'run'}")
    assert code == 0 and "unreachable" in err and f"raycade upload {tmp_path / 'run'}" in err
    assert not runs_of(tmp_path / "run")


def test_another_process_says_by_its_end_whether_it_could_send(run_dir):
    assert not sent_by_another_process(run_dir, {"type": "nowhere"}, 60)


def test_a_run_at_work_is_not_uploaded(run_dir, capsys):
    lock = RunLock(run_dir)
    lock.acquire()
    try:
        code, _, err = run_here(capsys, "upload", str(run_dir))
    finally:
        lock.release()
    assert code == 2 and "still played" in err


def test_a_sweeps_agent_chooses_the_id(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr("wandb.init", lambda **arguments: asked.update(arguments) or _Silent())
    WandbTracker("p").start(tmp_path, "of-the-plan", {})
    assert (asked["id"], asked["resume"]) == ("of-the-plan", "allow")
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    WandbTracker("p").start(tmp_path, "of-the-plan", {})
    assert (asked["id"], asked["resume"]) == (None, None)


class _Silent:
    def define_metric(self, *arguments, **more):
        pass
