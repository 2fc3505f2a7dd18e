"""``raycade run --from RUN``: the same episodes again, and what is different said, for every engine."""

import importlib.metadata
import json
import pwd

import pytest
import yaml

from cluster.cli import main
from cluster.commands.repeat import repeated_settings, what_differs
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.storage import surroundings as around
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from cluster.storage.surroundings import differences, surroundings
from envs.files import FileError

KUMO = [
    "suite=kumo",
    "suite.domains=[medical]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=2",
    "suite.repeats=1",
]


def begun(tmp_path, *overrides):
    """A run that has begun, and nothing more."""
    settings = load_settings([*KUMO, *overrides, f"run_dir={tmp_path / 'run'}"])
    directory = RunDirectory(settings.run_dir)
    directory.claim()
    directory.begin(settings.plan, {"config.yaml": settings.config})
    directory.begin_session(yaml.safe_load(settings.config))
    directory.release()
    return Run(settings.run_dir), settings


@pytest.mark.slow
def test_settings_that_change_the_episodes_are_told(tmp_path):
    source, _ = begun(tmp_path, "model=random")
    again = repeated_settings(source, ["suite.seed=5", f"run_dir={tmp_path / 'other'}"])
    assert again.run_dir == tmp_path / "other"
    assert what_differs(source, again) == [
        f"differs from {source.path}: episodes: 0 of 2 have the same id (settings or versions of prompts differ)"
    ]


@pytest.mark.slow
def test_a_stored_address_that_keys_are_sent_to_is_given_again(tmp_path, monkeypatch):
    source, _ = begun(tmp_path, "model=openai", "model.engine.model=m", "model.engine.base_url=http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match="base_url"):
        repeated_settings(source, [])
    assert repeated_settings(source, ["model.engine.base_url=http://127.0.0.1:9/v1"]).plan


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["nothing"], "KEY=VALUE"),
        (["suites.seed=1"], "suites"),
        (["run_dir=RUN"], "is the run that is repeated"),
    ],
)
def test_what_cannot_be_repeated_is_said(tmp_path, overrides, said):
    source, _ = begun(tmp_path, "model=random")
    with pytest.raises(UserError, match=said):
        repeated_settings(source, [each.replace("RUN", str(source.path)) for each in overrides])
    with pytest.raises(UserError, match="no run"):
        repeated_settings(Run(tmp_path / "none"), [])


def test_another_model_is_chosen_by_name_with_its_own_settings(tmp_path):
    stored = ["model=openai", "model.engine.model=m", "model.engine.base_url=http://127.0.0.1:9/v1", "order=balanced"]
    source, settings = begun(tmp_path, *stored)
    again = repeated_settings(source, ["model.engine.median_tokens=5", "model=simulated", "run_dir=2026_11"])
    config = yaml.safe_load(again.config)
    assert config["model"]["engine"]["type"] == "simulated" and config["model"]["engine"]["median_tokens"] == 5
    assert config["suite"] == yaml.safe_load(settings.config)["suite"] and config["order"] == "balanced"
    assert str(again.run_dir) == "2026_11"


@pytest.mark.slow
def test_a_run_is_repeated_from_the_command_line(tmp_path, capsys):
    assert finished(["run", *KUMO, "model=random", f"run_dir={tmp_path / 'run'}"]) == 0
    assert finished(["run", "--from", str(tmp_path / "run")]) == 0
    assert "nothing differs" in "".join(capsys.readouterr())
    first, again = (
        sorted(map(str, Run(tmp_path / name).episodes(["episode_id", "success", "steps"]).to_pylist()))
        for name in ("run", "run-again")
    )
    assert first == again and len(first) == 2


def finished(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def test_the_surroundings_of_a_user_without_a_home_are_noted(monkeypatch):
    for variable in ("HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert "weights" not in surroundings({"model": {"engine": {"model": "of/nobody"}}})


def test_what_surrounds_a_run_is_compared_piece_by_piece(tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    files = {"tokenizer.json": "{}", "chat_template.jinja": "a", "config.json": "{}", "model.safetensors": "weights"}
    for name, text in files.items():
        (model / name).write_text(text)
    config = {"model": {"engine": {"model": str(model)}}}
    monkeypatch.setenv("VLLM_USE_X", "1")
    monkeypatch.setenv("VLLM_API_KEY", "hunter2-hunter2")
    monkeypatch.setattr(around, "_gpus", lambda: "H100, 570.1")
    before = surroundings(config)
    assert before["packages"]["numpy"] == importlib.metadata.version("numpy")
    assert "hunter2" not in json.dumps(before)
    assert differences([{"surroundings": before}], surroundings(config)) == []
    (model / "chat_template.jinja").write_text("b")
    (model / "model.safetensors").write_text("other weights")
    monkeypatch.setenv("VLLM_USE_X", "0")
    monkeypatch.setattr(around, "_gpus", lambda: "H100, 575.2")
    now = {**surroundings(config), "packages": {**before["packages"], "numpy": "0.1"}}
    found = differences([{"surroundings": before}], now)
    assert [text.partition(":")[0].partition(" (")[0] for text in found] == [
        "commit of the weights",
        "chat template",
        "GPUs and their driver",
        "variable VLLM_USE_X 0",
        "package numpy 0.1",
    ]
    old = {"id": "of an older version"}
    assert differences([old], now) == []
    first, latest = {"surroundings": now}, {"surroundings": before}
    assert differences([first, latest, old, {"surroundings": None}], now) == found
    assert differences([latest, first, old], now) == []


def test_a_tokenizer_without_end_is_refused(tmp_path):
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match=r"tokenizer.json: has 1,099,511,627,776 bytes"):
        surroundings({"model": {"engine": {"model": str(tmp_path)}}})


def test_the_commit_of_weights_is_read_from_the_hubs_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--name" / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    (tmp_path / "models--org--name" / "refs").mkdir()
    (tmp_path / "models--org--name" / "refs" / "main").write_text("abc123\n")
    (folder / "tokenizer.json").write_text("{}")
    found = surroundings({"model": {"engine": {"model": "org/name"}}})
    assert found["weights"] == "abc123" and found["tokenizer"] and found["template"] is None
