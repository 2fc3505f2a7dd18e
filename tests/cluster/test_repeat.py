"""``raycade run --from RUN``: the same episodes again, and what is different said, for every engine."""

import pwd

import pytest
import yaml

from cluster.cli import main
from cluster.commands.repeat import repeated_settings, what_differs
from cluster.config.registry import class_of
from cluster.config.settings import load_settings
from cluster.config.stored import _forget_what_depends
from cluster.errors import UserError
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from cluster.storage.surroundings import surroundings
from envs.files import FileError
from tests.said import Said

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


def test_settings_of_a_repeated_run_are_as_on_record(tmp_path, capsys):
    said = Said(capsys, tmp_path)
    stored = ["model=simulated", "name=mine", "retry_failed=true", "order=balanced", "model.engine.median_tokens=7"]
    source, settings = begun(tmp_path, *stored)
    (tmp_path / "link").symlink_to(source.path)
    del source.config["stop"]  # as if its version had not known it
    as_stored = flat(yaml.safe_load(settings.config))
    model = ["model=simulated", "model.engine.tail=0.5"]
    for overrides in (
        *([], ["order=longest_first", "suite.repeats=2"]),
        *(
            model,
            model[1:],
            ["model=random"],
            ["suite=kidgym", "suite.tasks=[CL]", "suite.episodes=2", "suite.levels=[1]"],
        ),
        *([f"run_dir={tmp_path}/link"], [f"run_dir={tmp_path}/other", "name=yours"], ["suite.sed=1"], ["order"]),
    ):
        said("with", *overrides)
        try:
            again = repeated_settings(source, overrides)
        except UserError as error:
            said("UserError:", error)
            continue
        now = flat(yaml.safe_load(again.config))
        for key in sorted({*now, *as_stored}):
            if now.get(key) != as_stored.get(key):
                said("   ", f"{key}: {as_stored.get(key)} -> {now.get(key)}")
        for line in what_differs(source, again):
            said("   ", line)
    said.check("repeated_runs")


def flat(values, place=""):
    """Settings by their dotted names."""
    if not isinstance(values, dict) or not values:
        return {place: values}
    return {
        name: value for key, each in values.items() for name, value in flat(each, f"{place}.{key}".strip(".")).items()
    }


def test_prices_of_the_table_are_looked_up_again_and_others_are_asked_for():
    engine = {"type": "anthropic", "model": "claude-opus-5", "batch": False, "extra_body": None}
    table = dict(class_of("model.engine", engine).known_prices(engine))

    def left(stored, *overrides):
        repeated = {"engine": {**engine, **stored}}
        for override in overrides:
            name, _, value = override.removeprefix("model.engine.").partition("=")
            if name in ("model", "batch", "extra_body"):
                repeated["engine"][name] = yaml.safe_load(value)
        _forget_what_depends({"engine": {**engine, **stored}}, repeated, overrides)
        return {name: value for name, value in repeated["engine"].items() if name.endswith("price")}

    for unchanged in ([], ["model.sampling.max_tokens=5"], ["suite.seed=5"]):
        assert left(table, *unchanged) == table
    for changed in (
        "model.engine.model=claude-haiku-4-5",
        "model.engine.batch=true",
        "model.engine.extra_body={speed: fast}",
    ):
        assert left(table, changed) == dict.fromkeys(table)
    given = left(table, "model.engine.model=x", "model.engine.prompt_price=7")  # which the override has set before
    assert given == {**dict.fromkeys(table), "prompt_price": table["prompt_price"]}
    by_hand = {"prompt_price": 9.5, "completion_price": table["completion_price"]}
    assert left(by_hand, "model.engine.effort=low") == {"prompt_price": 9.5, "completion_price": None}
    for name, override, after in (
        ("claude-opus-5", "model=x", "x"),
        ("mine", "model=x", "mine"),
        ("claude-opus-5", "a=1", "claude-opus-5"),
    ):
        now = {
            "name": name,
            "engine": {**engine, "model": override.removeprefix("model=") if "model" in override else engine["model"]},
        }
        _forget_what_depends({"name": name, "engine": engine}, now, [f"model.engine.{override}"])
        assert now["name"] == after
    for engine_now in ({}, None):
        now = {"name": "claude-opus-5", "engine": engine_now}
        _forget_what_depends({"name": "claude-opus-5", "engine": engine}, now, ["model.engine=null"])
        assert now["engine"] is engine_now
    # A price by hand holds for what the run asked for.
    for override, was in (
        ("model=claude-haiku-4-5", "model=claude-opus-5"),
        ("batch=true", "batch=false"),
        ("extra_body={speed: fast}", "extra_body=null"),
    ):
        with pytest.raises(UserError, match=rf"prompt_price: 9\.5 was given for model\.engine\.{was}; give"):
            left(by_hand, f"model.engine.{override}")


def test_a_folder_of_no_name_is_the_usual_one(tmp_path):
    source, _ = begun(tmp_path, "model=random")
    assert {repeated_settings(source, [each]).run_dir for each in ("run_dir=null", "run_dir=")} == {
        tmp_path / "run-again"
    }


@pytest.mark.slow
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


def test_a_tokenizer_without_end_is_refused(tmp_path):
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match=r"tokenizer.json: has 1,099,511,627,776 bytes"):
        surroundings({"model": {"engine": {"model": str(tmp_path)}}})
