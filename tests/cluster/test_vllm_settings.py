"""What is passed through to vLLM: checked against the installed version when planning, and part of the id where it counts."""

import pytest

from cluster.config.model import ModelSettings, ReplicaNeeds
from cluster.config.settings import load_settings
from cluster.engines import torch_compat
from cluster.engines.base import Request, Sampling, answering_settings
from cluster.engines.vllm_fields import OPERATIONAL, OWN_SAMPLING, REFUSED, engine_fields, sampling_fields
from cluster.engines.vllm_sampling import reply_parameters
from cluster.errors import UserError
from cluster.ray_backend.bundles import bundles_of
from tests.cluster.conftest import EASY, ROOT

pytestmark = pytest.mark.slow

KUMO = [*EASY, "suite.tasks_per_domain=1"]
SMALL = [*KUMO, "suite.repeats=1", "model=qwen2_5_7b"]
TRIED = {
    "vllm.attention_backend=FLASH_ATTN": True,
    "vllm.cpu_offload_gb=4": False,
    "vllm={}": False,
    "vllm={max_parallel_loading_workers: 2}": False,
    "pipeline_parallel_size=2": False,
    "dtype=float16": True,
}
"""Settings below ``model.engine`` that docs/vllm.md does not list, and whether they change the ids."""


def model(*overrides: str) -> ModelSettings:
    return load_settings([*SMALL, *overrides]).model


@pytest.mark.parametrize(("setting", "changes"), TRIED.items())
def test_settings_that_may_change_answers_change_the_ids_and_others_do_not(setting, changes):
    changed = model(f"model.engine.{setting}", "model.replica.gpus=2")  # as many as two groups of layers need
    assert (changed.fingerprint != model().fingerprint) is changes


def documented() -> list[tuple[str, bool]]:
    """The settings that docs/vllm.md says were tried, and whether it says that they are part of the id."""
    rows = [
        line.strip("| ").split(" | ")
        for line in (ROOT / "docs/vllm.md").read_text().splitlines()
        if "| `model." in line
    ]
    return [(setting.strip("`"), part == "yes") for setting, _, part in rows]


@pytest.mark.parametrize(("setting", "changes"), documented())
def test_the_page_says_which_settings_are_part_of_the_id(setting, changes):
    assert (model(setting).fingerprint != model().fingerprint) is changes


def test_only_named_fields_of_vllm_are_outside_the_ids():
    with_all = {"model": "m", "vllm": dict.fromkeys(engine_fields(), 1)}
    operational = {f"vllm.{name}" for name in OPERATIONAL}
    assert answering_settings(with_all, operational)["vllm"].keys() == engine_fields().keys() - OPERATIONAL
    assert engine_fields().keys() >= OPERATIONAL


def test_a_mapping_that_is_not_operational_is_kept_whole():
    kept = answering_settings({"a": {"b": {"c": 1, "d": 2}}, "e": {"f": 1}}, {"a.b.c", "e"})
    assert kept == {"a": {"b": {"d": 2}}}


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("model.engine.vllm.quantisation=fp8", ["model.engine.vllm", "quantisation", "Did you mean quantization"]),
        ("model.engine.vllm.enable_prefix_caching=maybe", ["enable_prefix_caching=maybe", "true or false"]),
        ("model.engine.vllm.seed=first", ["model.engine.vllm.seed=first", "an integer"]),
        ("model.engine.vllm=fast", ["model.engine.vllm=fast", "a mapping"]),
        ("model.engine.vllm.max_num_seqs=8", ["set model.engine.max_num_seqs"]),
        ("model.engine.vllm.worker_cls=os.system", ["worker_cls", "code"]),
        ("model.engine.vllm.compilation_config={backend: os.system}", ["compilation_config.backend", "code"]),
        ("model.engine.quantization=fp8", ["model.engine: unknown key quantization", "vllm"]),
        ("model.sampling.best_of=2", ["model.sampling: unknown key best_of", "thinking_token_budget"]),
        ("model.sampling.logprobs=2", ["model.sampling: unknown key logprobs"]),
        ("model.sampling.extra={}", ["model.sampling: unknown key extra"]),
        ("model.sampling.min_tokens=few", ["model.sampling.min_tokens=few", "an integer"]),
        ("model.chat_template_kwargs=off", ["model.chat_template_kwargs=off", "a mapping"]),
        ("model.engine.chat_template_kwargs={a: 1}", ["model.engine: unknown key chat_template_kwargs"]),
    ],
)
def test_a_wrong_setting_is_named_when_planning(override, named):
    with pytest.raises(UserError) as error:
        model(override)
    assert all(word in str(error.value) for word in named), str(error.value)


def test_a_token_is_refused_and_not_repeated():
    with pytest.raises(UserError, match="HF_TOKEN") as error:
        model("model.engine.vllm.hf_token=hf_secret")
    assert "hf_secret" not in str(error.value)


def test_what_is_refused_is_a_setting_of_vllm():
    assert engine_fields().keys() >= REFUSED.keys()
    assert not OPERATIONAL & REFUSED.keys()
    assert {"max_tokens", "temperature", "thinking_token_budget", "min_tokens"} <= sampling_fields().keys()
    assert not OWN_SAMPLING & sampling_fields().keys()


def test_further_sampling_parameters_reach_the_engine_and_the_ids():
    plain, further = model(), model("model.sampling.min_tokens=4", "model.sampling.logit_bias={5: 1.5}")
    assert further.sampling.extra == {"min_tokens": 4, "logit_bias": {"5": 1.5}}
    assert plain.sampling.extra == {}
    assert further.fingerprint != plain.fingerprint
    assert further.sampling.max_tokens == plain.sampling.max_tokens


def test_the_fewest_tokens_of_a_reply_fit_into_the_room_that_is_left():
    torch_compat.apply()
    sampling, request = Sampling(max_tokens=16, extra={"min_tokens": 8}), Request("turn", ())
    options = {"lossless": False, "skip_special_tokens": True, "reasons": False}
    bounds = [reply_parameters(sampling, request, room, **options) for room in (4, 12, 99)]
    assert [(each.min_tokens, each.max_tokens) for each in bounds] == [(4, 4), (8, 12), (8, 16)]


def test_other_engines_take_no_sampling_parameters_of_vllm():
    with pytest.raises(UserError, match=r"model\.sampling: unknown key min_tokens"):
        load_settings([*KUMO, "suite.repeats=1", "model=simulated", "model.sampling.min_tokens=4"])


def test_arguments_of_the_chat_template_reach_the_engine_and_the_ids():
    quiet = model("model.chat_template_kwargs={enable_thinking: false}")
    assert quiet.engine["chat_template_kwargs"] == {"enable_thinking": False}
    assert quiet.fingerprint != model().fingerprint
    with pytest.raises(UserError, match=r"model\.chat_template_kwargs: .*simulated takes none"):
        load_settings([*KUMO, "suite.repeats=1", "model=simulated", "model.chat_template_kwargs={a: 1}"])


def test_keys_that_no_file_lists_need_no_plus():
    settings = load_settings([*SMALL, "model.replica.nodes=2", "model.sampling.top_k=5", "model.sampling.stop=[x]"])
    assert settings.model.replica == ReplicaNeeds(gpus=1, cpus=2, nodes=2)
    assert settings.model.sampling == Sampling(max_tokens=settings.model.sampling.max_tokens, top_k=5, stop=("x",))


def test_a_replica_over_several_nodes_has_bundles_of_one_gpu():
    assert bundles_of(ReplicaNeeds(gpus=4, cpus=8, nodes=2)) == [{"GPU": 1, "CPU": 2}] * 8
    assert bundles_of(ReplicaNeeds(gpus=0, cpus=2, nodes=3)) == [{"CPU": 2}] * 3
