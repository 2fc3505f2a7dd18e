"""The command line as a user meets it: help, plans, errors with exit code 2, runs that end early, shards and merges."""

import json
from pathlib import Path

import pytest

from cluster import cli
from cluster.commands.view import listen
from cluster.errors import UserError
from cluster.storage.stored_run import Run
from tests.cluster.conftest import raycade

SMALL = [
    "suite=kumo",
    "suite.domains=[medical]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=4",
    "suite.repeats=2",
]


def run_here(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    output = capsys.readouterr()
    return ended.value.code, output.out, output.err


def test_help_names_every_command_and_the_common_overrides(capsys):
    code, out, _ = run_here(capsys, "--help")
    assert code == 0
    for command in ("run", "plan", "report", "merge", "kidgym", "kumo", "multistar", "play", "raven"):
        assert command in out
    code, out, _ = run_here(capsys, "run", "--help")
    for override in ("suite=", "model=", "decoding=", "cluster=", "tracker=", "run_dir=", "shard="):
        assert override in out


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["suite=chess"], ["suite=chess", "kumo", "kidgym"]),
        (["suite=kmo"], ["suite=kmo: there is none. Did you mean kumo? There are demo, kidgym"]),
        (["model=gpt9"], ["model=gpt9", "tiny"]),
        (["suite=kumo", "suite.domains=[medicine]"], ["medicine", "medical"]),
        (["suite=kumo", "suite.difficulties=[medium]"], ["medium", "easy"]),
        (["suite=kumo", "suite.repeats=0"], ["repeats", "0"]),
        (["suite=kumo", "suite.repeat=3"], ["suite: unknown key repeat", "Did you mean repeats"]),
        (["suite=kidgym", "suite.tasks=[XX]"], ["XX", "CL"]),
        (["suite=kidgym", "suite.resolution=50"], ["50", "64"]),
        (["suite=multistar", "suite.configurations=[middle]"], ["middle", "center_single"]),
        (["decoding=beam"], ["decoding=beam", "one of free, choice"]),
        (["baselines=[human]"], ["human", "random"]),
        (["cluster.replicas=0"], ["cluster.replicas=0"]),
        (["cluster.policy=guess"], ["guess", "sticky"]),
        (["shard=3/2"], ["shard=3/2", "i/n"]),
        (["suite.type=os.system"], ["os.system", "kumo"]),
        (["model.sampling.max_token=3"], ["max_token"]),
        (["model=simulated", "+model.sampling.beams=3"], ["beams", "max_tokens"]),
        (["suite=kumo", "suite.domains=[", "x"], ["suite.domains=["]),
        (["tracker.mode=online"], ["tracker"]),
        (["tracker=wandb", "tracker.mode=onlin"], ["tracker.mode=onlin", "offline, online"]),
        (["tracker=wandb", "+tracker.api_key=123"], ["tracker: unknown key api_key", "project"]),
        (["cluster.grace_seconds=abc"], ["cluster.grace_seconds=abc", "a number of seconds, above 0"]),
        (["cluster=5"], ["Config group override"]),
        (["cluster.replicas=true"], ["cluster.replicas=true", "an integer, from 1 up, or fit"]),
        (["model.sampling.temperature=hot"], ["model.sampling.temperature=hot", "a number"]),
        (["model.sampling.max_tokens=-5"], ["model.sampling.max_tokens=-5", "from 1 up"]),
        (["+model.sampling.stop=abc"], ["model.sampling.stop=abc", "a list"]),
        (["+model.sampling.top_p=2"], ["model.sampling.top_p=2", "at most 1"]),
        (["model.replica.gpus=two"], ["model.replica.gpus=two", "a number"]),
        (["+model.replica.nodes=0"], ["model.replica.nodes=0", "from 1 up"]),
        (["model.engine.max_num_seqs=0"], ["model.engine.max_num_seqs=0", "from 1 up"]),
        (["model=simulated", "model.engine.max_num_seqs=many"], ["model.engine.max_num_seqs=many", "an integer"]),
        (["+model.engine.temperature=1"], ["model.engine: unknown key temperature", "max_num_seqs"]),
        (["+model.dtype=float16"], ["model: unknown key dtype", "engine"]),
        (["+api_key=1"], ["unknown key api_key", "run_dir"]),
        (["baselines=random"], ["baselines=random", "a list"]),
        (["baselines=[randm]"], ["baselines=[randm]", "Did you mean random?"]),
        (["suite=kumo", "suite.repeats=many"], ["suite.repeats=many", "an integer"]),
        (["model=openai"], ["model.engine.model: is missing; set model.engine.model=..."]),
        (["model=openai", "model.engine.model=m", "cluster.replicas=2"], ["cluster.replicas=2", "max_num_seqs"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_named_with_exit_code_2_and_nothing_is_written(capsys, tmp_path, overrides, named):
    run_dir = tmp_path / "run"
    code, _, err = run_here(capsys, "run", f"run_dir={run_dir}", *overrides)
    assert code == 2, err
    for text in named:
        assert text in err
    assert "Traceback" not in err
    assert not run_dir.exists()


@pytest.mark.parametrize("override", ["+model.engine.api_key=sk-1-secret", "model.engine.api_key_env=sk-1-secret"])
def test_a_key_in_the_overrides_is_refused_and_repeated_nowhere(capsys, tmp_path, override):
    run_dir = tmp_path / "run"
    code, out, err = run_here(capsys, "run", f"run_dir={run_dir}", "model=openai", "model.engine.model=m", override)
    assert code == 2 and "api_key_env" in err
    assert "sk-1-secret" not in out + err and not run_dir.exists()


@pytest.mark.parametrize("command", [["run"], ["run", "-m"], ["preregister", "--hypothesis=h", "--out=o"]])
@pytest.mark.parametrize(
    "override",
    [
        "model.engine.headers={x: '${oc.env:MYPASS}'}",
        "tracker.project=${oc.env:MYPASS}",
        "run_dir='${oc.decode:${oc.env:MYPASS}}'",
    ],
)
def test_an_override_that_reads_the_environment_is_refused(capsys, tmp_path, monkeypatch, command, override):
    monkeypatch.setenv("MYPASS", "hunter2")
    monkeypatch.chdir(tmp_path)
    code, out, err = run_here(capsys, *command, "model=openai", "model.engine.model=m", "tracker=wandb", override)
    assert code == 2 and "would be stored with the run" in err
    assert "hunter2" not in out + err and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "run_dir=" + "[" * 3000 + "]" * 3000], "nested too deep"),
        (["run", "-m", "run_dir=" + "[" * 3000 + "]" * 3000], "nested too deep"),
        (["run", "run_dir=h\udcff"], "no UTF-8"),
        (["plan", "shard=1/" + "9" * 5000], "must be i/n"),
        (["plan", "--detect=1e-200", *SMALL], "--detect 1e-200: must be from 0.0001 up"),
        (["plan", "--precision=1e-5", *SMALL], "--precision 1e-05: must be from 0.0001 up"),
        (["preregister", "--hypothesis=h\udcff", "--out=o", *SMALL], "--hypothesis"),
    ],
    ids=lambda value: " ".join(value)[:30].encode("ascii", "replace").decode() if isinstance(value, list) else None,
)
def test_odd_arguments_are_refused_on_one_line(capsys, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_here(capsys, *arguments)
    assert code == 2 and named in err and err.count("\n") == 1 and len(err) < 1000
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["a" * 80, ".."])
def test_a_host_that_can_have_no_name_is_refused(host):
    with pytest.raises(UserError, match="cannot listen on"):
        listen(host, 0)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("unknown truth", ["medicine", "Blood Test", "low", "Plague"]),
        ("ruled out in every state", ["medicine", "Blood Test", "Flu"]),
        ("overlapping ranges", ["medicine", "Temperature", "38"]),
        ("reversed range", ["medicine", "Temperature", "39"]),
        ("duplicate name", ["medicine", "Flu"]),
    ],
)
def test_a_bad_domain_file_is_named_down_to_its_state(capsys, tmp_path, damage, named):
    path = tmp_path / "medicine.yaml"
    path.write_text(bad_domain(damage))
    code, _, err = run_here(capsys, "run", "suite=kumo", f"suite.domains=[{path}]", f"run_dir={tmp_path / 'run'}")
    assert code == 2
    for text in named:
        assert text in err
    assert not (tmp_path / "run").exists()


def bad_domain(damage: str) -> str:
    again = "  FLU: An infection that is written in capitals here." if damage == "duplicate name" else ""
    low = "[Flu, Plague]" if damage == "unknown truth" else "[Flu]"
    high = "[Flu, Cold]" if damage == "ruled out in every state" else "[Cold]"
    upper = {"overlapping ranges": "38.0 to 42.0", "reversed range": "42.0 to 39.0"}.get(damage, "38.1 to 42.0")
    return f"""
name: medicine
title: Medicine
goal: Find the one illness that the patient has.
truth: {{singular: illness, plural: illnesses}}
action: {{singular: examination, plural: examinations}}
truths:
  Flu: An infection of the airways that comes with a high temperature.
  Cold: A mild infection of the nose and the throat.
  Measles: An infection with a rash that starts behind the ears.
  Mumps: An infection that swells the glands below the ears.
{again}
actions:
  Blood Test:
    definition: A sample from the arm is examined for white cells.
    outcomes: {{low: {low}, high: {high}}}
  Temperature:
    definition: A thermometer is held under the tongue for a minute.
    unit: degrees
    outcomes: {{36.0 to 38.0: [Flu], {upper}: [Cold]}}
"""


def test_a_plan_shows_cells_calls_and_tokens_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run_here(capsys, "plan", *SMALL, "model=simulated")
    assert code == 0
    assert "medical" in out and "model calls" in out and "run directory: runs/kumo-simulated-" in out
    assert list(tmp_path.iterdir()) == []


def test_report_of_what_is_no_run_is_refused(capsys, tmp_path):
    code, _, err = run_here(capsys, "report", str(tmp_path))
    assert code == 2 and "no run here" in err


@pytest.mark.ray
def test_a_run_its_report_its_repetition_and_its_damage(tmp_path, ray_cluster):
    run_dir = tmp_path / "run"
    command = [
        "run",
        *SMALL,
        "model=simulated",
        "model.engine.median_tokens=5",
        "baselines=[oracle,random]",
        *ray_cluster,
        f"run_dir={run_dir}",
    ]
    first = raycade(*command)
    assert first.returncode == 0, first.stderr
    for name in ("config.yaml", "plan.parquet", "summary.json", "versions.json", "tables/kumo_success.md"):
        assert (run_dir / name).exists()
    assert "simulated" in first.stdout and "oracle" in first.stdout and "random" in first.stdout
    summary = json.loads((run_dir / "summary.json").read_text())
    assert (summary["planned"], summary["done"], summary["failed"], summary["missing"]) == (24, 24, 0, 0)

    again = raycade(*command)
    assert again.returncode == 0 and "nothing to play" in again.stderr
    report = raycade("report", str(run_dir))
    assert report.returncode == 0 and "Episodes" in report.stdout

    other = raycade(*command, "suite.repeats=3")
    assert other.returncode == 2 and "belongs to another plan" in other.stderr
    assert json.loads((run_dir / "summary.json").read_text()) == summary

    part = next((run_dir / "episodes").glob("*.parquet"))
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    for damaged in (raycade(*command), raycade("report", str(run_dir))):
        assert damaged.returncode == 2 and part.name in damaged.stderr and "Traceback" not in damaged.stderr
    assert part.read_bytes() == content[: len(content) // 2], "nothing is touched"
    part.unlink()
    mended = raycade(*command)
    assert mended.returncode == 0
    assert json.loads((run_dir / "summary.json").read_text()) == summary


@pytest.mark.ray
def test_an_over_long_prompt_is_a_failed_row_and_the_run_continues(tmp_path, ray_cluster):
    run_dir = tmp_path / "run"
    settings = [*SMALL, "model=simulated", "model.engine.max_model_len=700", *ray_cluster]
    result = raycade("run", *settings, f"run_dir={run_dir}")
    assert result.returncode == 0, result.stderr
    rows = Run(run_dir).episodes().to_pylist()
    failed = [row for row in rows if row["status"] == "failed"]
    assert len(rows) == 8 and failed
    assert all(
        row["error"].startswith("PromptTooLong: the prompt has") and "context 700" in row["error"] for row in failed
    )
    assert "PromptTooLong" in result.stdout


@pytest.mark.ray
def test_shards_are_disjoint_and_merge_to_the_whole(tmp_path, ray_cluster):
    common = [*SMALL, "model=simulated", "model.engine.median_tokens=5"]
    whole = [episode.id for episode in load(common)]
    for part in (1, 2):
        result = raycade("run", *common, *ray_cluster, f"shard={part}/2", f"run_dir={tmp_path / str(part)}")
        assert result.returncode == 0, result.stderr
    parts = [{episode.id for episode in Run(tmp_path / str(part)).plan} for part in (1, 2)]
    assert not parts[0] & parts[1] and parts[0] | parts[1] == set(whole)

    merged = raycade("merge", str(tmp_path / "all"), str(tmp_path / "1"), str(tmp_path / "2"), str(tmp_path / "1"))
    assert merged.returncode == 0, merged.stderr
    assert sorted(Run(tmp_path / "all").episodes()["episode_id"].to_pylist()) == sorted(whole)

    other = raycade("run", *common, "suite.repeats=1", f"run_dir={tmp_path / 'other'}")
    assert other.returncode == 0
    refused = raycade("merge", str(tmp_path / "wrong"), str(tmp_path / "1"), str(tmp_path / "other"))
    assert refused.returncode == 2 and "differ in suite" in refused.stderr
    assert not (tmp_path / "wrong").exists()


def load(overrides: list[str]):
    from cluster.config.settings import load_settings

    return load_settings([*overrides, f"run_dir={Path('unused')}"]).plan
