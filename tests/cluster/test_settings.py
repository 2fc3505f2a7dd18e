"""What a configuration may name, what belongs to a run's fingerprint, and where a run lives."""

import pytest
import yaml

from cluster.config.compose import compose_config
from cluster.config.keys import keys_of
from cluster.config.plan import make_suite
from cluster.config.settings import Settings, load_settings
from cluster.errors import UserError
from cluster.observe.tracker import make_tracker
from cluster.observe.wandb_tracker import WandbTracker
from tests.cluster.conftest import ROOT
from tests.cluster.test_cli import SMALL

API = ["model=openai", "model.engine.model=m"]
VLLM = ["model=qwen2_5_7b"]


def settings(*overrides: str) -> Settings:
    return load_settings([*SMALL, *overrides])


@pytest.mark.parametrize(
    "target",
    [
        "evals.ledger.records.Path.write_text",  # a method of a class that a module of ours imports
        "evals.ledger.records.Path",  # that class
        "evals.types.dataclasses.inspect.os.system",
        "evals.types.stable_hash",  # a function
        "evals.suites.kumo.__main__.update",  # importing it would run it
        "evals.no_such_module.Suite",
        "evals..Suite",
        "KumoSuite",
        "evals.suites.kumo:KumoSuite",  # ours, but by its module path
        "os:system",
        ["kumo"],
        None,
    ],
)
def test_only_classes_of_the_suites_are_built(target, tmp_path):
    path = tmp_path / "written"
    with pytest.raises(UserError, match="kumo"):
        make_suite({"type": target, "_args_": [str(path), "import os"]})
    with pytest.raises(UserError):
        bundle = {"type": "bundle", "name": "mine"}
        make_suite({**bundle, "suites": [{"type": target, "_args_": [str(path), "import os"]}]})
    assert not path.exists()


def test_a_configuration_that_names_a_class_in_hydra_s_way_is_refused(tmp_path):
    for config in ({"_target_": "evals.suites.kumo.KumoSuite"}, {"type": "kumo", "_target_": "os.system"}):
        with pytest.raises(UserError):
            make_suite(config)


def test_a_suite_that_no_override_mentions_is_not_imported(tmp_path, plugins_in):
    (tmp_path / "plugins.toml").write_text('["raycade.suites"]\nbroken_one = "broken_module:Suite"\n')
    (tmp_path / "broken_module.py").write_text("raise SystemExit(0)\n")
    plugins_in(tmp_path)
    assert compose_config(["suite=kumo", "model=random"]).suite.type == "kumo"
    with pytest.raises(UserError, match="broken_one"):
        compose_config(["suite=broken_one", "model=random"])


@pytest.mark.parametrize("model", ["openai", "anthropic"])
def test_a_price_that_no_report_could_tell_is_refused_before_anything_is_written(model):
    prices = ("model.engine.prompt_price=1", "model.engine.completion_price=1e13")
    with pytest.raises(UserError, match=r"completion_price.* to 1e\+?12|completion_price.* to 1000000000000"):
        load_settings(["suite=kumo", "suite.domains=[medical]", f"model={model}", "model.engine.model=m", *prices])


@pytest.mark.parametrize("address", ["s3://bucket/run", "file:///run"])
def test_an_address_is_no_run_directory(address):
    with pytest.raises(UserError, match=f"run_dir={address}: must be a folder of this machine"):
        load_settings(["suite=kumo", "suite.domains=[medical]", "model=random", f"run_dir={address}"])


@pytest.mark.parametrize("folder", ["2026_11", "07", "1e3", "-5", "null"])
def test_a_run_directory_is_named_as_it_is_written(folder):
    expected = None if folder == "null" else folder
    assert compose_config(["suite=kumo", "model=random", f"run_dir={folder}"]).run_dir == expected


def test_interpolations_in_a_stored_configuration_stay_text():
    smuggled = "${oc.create:{type: kumo}}"
    suite = make_suite({"type": "bundle", "name": smuggled, "suites": []})
    assert suite.name == smuggled


@pytest.mark.parametrize("model", sorted(path.stem for path in (ROOT / "conf/model").glob("*.yaml")))
def test_every_model_that_comes_with_raycade_passes_the_checks(model):
    engine = yaml.safe_load((ROOT / "conf/model" / f"{model}.yaml").read_text()).get("engine") or {}
    missing = {"model": "m", "base_url": "http://127.0.0.1"}
    given = [f"model.engine.{name}={value}" for name, value in missing.items() if engine.get(name) == "???"]
    assert settings(f"model={model}", *given).plan


@pytest.mark.slow
def test_engines_and_trackers_come_from_their_own_places_too():
    for override in ("model.engine.type=subprocess.Popen", "model.engine.type=kumo"):
        with pytest.raises(UserError, match="simulated, vllm"):
            settings(*VLLM, override)
    with pytest.raises(UserError, match="wandb"):
        settings("model=oracle", "tracker=wandb", "tracker.type=queue.Queue")
    assert isinstance(make_tracker(settings("model=oracle", "tracker=wandb").tracker), WandbTracker)


def test_what_decides_the_answers_is_in_the_ids_and_what_decides_the_speed_is_not():
    ids = [episode.id for episode in settings(*VLLM).plan]
    for same in ("model.engine.max_num_seqs=8", "model.replica.gpus=2", "+model.engine.enforce_eager=true"):
        assert [episode.id for episode in settings(*VLLM, same).plan] == ids
    for other in (
        "decoding=choice",
        "+model.engine.dtype=float16",
        "model.sampling.temperature=1",
        "model.engine.max_model_len=99",
    ):
        assert not {episode.id for episode in settings(*VLLM, other).plan} & set(ids)


@pytest.mark.slow
def test_a_model_paid_for_by_the_token_has_one_replica():
    assert settings(*API, "cluster.replicas=fit").cluster.replicas == 1
    assert settings(*API).cluster.replicas == 1
    assert settings(*VLLM, "cluster.replicas=fit").cluster.replicas == "fit"
    assert settings("model=oracle", "cluster.replicas=3").cluster.replicas == 3
    with pytest.raises(UserError, match=r"cluster.replicas=2: model=m"):
        settings(*API, "cluster.replicas=2")


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["suite=kidgym", "model=qwen2_5_7b"], ["kidgym", "qwen2_5_7b", "text only"]),
        (["suite=kidgym", "model=qwen2_5_vl_7b", "model.engine.limit_mm_per_prompt.image=0"], ["kidgym"]),
        ([*API, "decoding=choice"], ["decoding=choice", "decoding=free"]),
        (["suite=multistar", "model=qwen2_5_7b"], ["multistar", "text only"]),
    ],
)
def test_a_model_that_cannot_do_what_the_suite_needs_is_refused_when_planning(overrides, named):
    with pytest.raises(UserError) as error:
        load_settings(
            [f"run_dir={ROOT / 'runs' / 'none'}", *(["suite=kumo"] if "suite" not in overrides[0] else []), *overrides]
        )
    assert all(word in str(error.value) for word in named)


@pytest.mark.slow
def test_an_engine_says_itself_which_settings_decide_only_the_speed(tmp_path, plugins_in):
    (tmp_path / "plugins.toml").write_text('["raycade.engines"]\nmine = "mine_engine:Mine"\n')
    (tmp_path / "mine_engine.py").write_text(
        "from cluster.engines.base import Engine\n"
        "class Mine(Engine):\n"
        "    operational = frozenset({'speed'})\n"
        "    def __init__(self, sampling, speed: int = 1, wit: int = 1): pass\n"
        "    async def complete(self, request): raise NotImplementedError\n"
    )
    plugins_in(tmp_path)
    ids = {episode.id for episode in settings("model=mine").plan}
    assert {episode.id for episode in settings("model=mine", "model.engine.speed=9").plan} == ids
    assert not {episode.id for episode in settings("model=mine", "model.engine.wit=9").plan} & ids


@pytest.mark.slow
@pytest.mark.parametrize("method", ["keys_within", "sampling_keys"])
@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("{} = frozenset({{'beams'}})", "be a class method: "),
        ("{} = classmethod(lambda cls: 3)", "return a mapping, not 3"),
    ],
)
def test_keys_that_an_engine_states_in_another_way_are_named(tmp_path, plugins_in, method, written, wrong):
    module = f"own_keys_{method}_{len(written)}"
    (tmp_path / "plugins.toml").write_text(f'["raycade.engines"]\nown_keys = "{module}:OwnKeys"\n')
    (tmp_path / f"{module}.py").write_text(
        "from cluster.engines.base import Engine\n"
        "class OwnKeys(Engine):\n"
        f"    {written.format(method)}\n"
        "    def __init__(self, sampling): pass\n"
        "    async def complete(self, request): raise NotImplementedError\n"
    )
    plugins_in(tmp_path)
    with pytest.raises(UserError, match=rf"{module}\.OwnKeys\.{method} must {wrong}"):
        settings("model=own_keys")


def test_what_is_registered_as_an_engine_and_is_none_is_named(tmp_path, plugins_in):
    (tmp_path / "plugins.toml").write_text(
        '["raycade.engines"]\na_function = "odd_engines:function"\na_class = "odd_engines:Other"\n'
    )
    (tmp_path / "odd_engines.py").write_text("def function(sampling): pass\nclass Other: pass\n")
    plugins_in(tmp_path)
    for name in ("a_function", "a_class"):
        with pytest.raises(UserError, match=rf"type={name}: is not a subclass of cluster\.engines\.base\.Engine"):
            settings(f"model={name}")


def test_a_player_without_an_engine_has_the_keys_of_sampling_and_replica_all_the_same():
    assert set(keys_of("model", "oracle")) == {"model.sampling", "model.replica"}
    assert set(keys_of("model", "simulated")) == {"model.engine", "model.sampling", "model.replica"}


@pytest.mark.slow
def test_settings_of_outsiders_are_checked_by_what_they_declare_and_by_nothing_else(tmp_path, plugins_in):
    (tmp_path / "plugins.toml").write_text(
        '["raycade.engines"]\nown_engine = "declared:OwnEngine"\n["raycade.suites"]\nown_suite = "declared:OwnSuite"\n'
    )
    (tmp_path / "declared.py").write_text(
        "from dataclasses import dataclass\n"
        "from cluster.engines.base import Engine\n"
        "from tests.toy import ToySuite\n"
        "class OwnEngine(Engine):\n"
        "    def __init__(self, sampling, device: int = -1): self.device = device\n"
        "    async def complete(self, request): raise NotImplementedError\n"
        "@dataclass(frozen=True)\n"
        "class OwnSuite(ToySuite):\n"
        "    name = 'own_suite'\n"
        "    pegs: tuple[int, ...] = (4,)\n"
    )
    plugins_in(tmp_path)
    assert settings("model=own_engine").model.make_engine().device == -1
    assert load_settings(["suite=own_suite", "suite.pegs=[1,2]", "model=oracle"]).suite.pegs == (1, 2)
    for value in ("5", "[a]"):
        with pytest.raises(UserError) as refused:
            load_settings(["suite=own_suite", f"suite.pegs={value}", "model=oracle"])
        assert str(refused.value) == f"suite.pegs={value}: must be a list, each an integer"


@pytest.mark.slow
def test_a_name_of_a_run_is_kept_and_changes_no_id_and_no_folder():
    plain, named = load_settings(["suite=kumo"]), load_settings(["suite=kumo", "name='prose, greedy'"])
    assert [episode.id for episode in named.plan] == [episode.id for episode in plain.plan]
    assert named.run_dir == plain.run_dir
    assert yaml.safe_load(named.config)["name"] == "prose, greedy"
    for wrong in ("''", "'a '", "x" * 61):
        with pytest.raises(UserError, match=r"^name="):
            load_settings(["suite=kumo", f"name={wrong}"])


def test_a_key_in_place_of_an_override_is_not_printed(monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "quite-secret")
    for word in ("sk-secretsecret1234secretsecret", "quite-secret"):
        with pytest.raises(UserError, match="looks like an API key") as refused:
            load_settings(["suite=kumo", word])
        assert word not in str(refused.value)
    with pytest.raises(UserError, match="oracle: cannot be read as KEY=VALUE"):
        load_settings(["suite=kumo", "oracle"])
