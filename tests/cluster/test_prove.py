"""Trying a model without its weights: small copies keep what tells families apart, and one family plays on the real engine."""

import base64
import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.models import SHIPPED, line
from cluster.cli import main
from cluster.models import prove
from cluster.models.grades import CONFIG, EXACT, LOADED, PLAYED
from cluster.models.hub import Files, files_of, shape_of
from cluster.models.mistral_files import write_mistral_files, write_tekken
from cluster.models.proofs import Proof, proofs
from cluster.models.shrink import small_config
from cluster.models.table import row_of, rows

COPIES = sorted(
    file.name.removesuffix(".json").replace("--", "/")
    for file in resources.files("cluster.models").joinpath("configs").iterdir()
)


@pytest.mark.parametrize("id", COPIES)
def test_a_copy_of_a_config_is_that_of_its_row(id):
    files, row = files_of(id, online=False), row_of(id)
    assert files.source.startswith("a copy of") and files.architecture == row.family.architecture
    assert files.sees == row.family.sees
    found = shape_of(files)
    own = row.shape
    # The state of a hybrid model is rounded in the table; Mistral's shared layers have no name of their own.
    assert (found.layers, found.heads, found.latent) == (own.layers, own.heads, own.latent)
    assert (found.kv_heads, found.head_dim, found.whole, found.window) == (
        (own.kv_heads, own.head_dim, own.whole, own.window)
    ) or found.latent
    assert found.state == pytest.approx(own.state, abs=1)


def test_the_page_of_models_says_what_the_records_say(tmp_path, monkeypatch, capsys):
    page = Path("docs/models.md").read_text(encoding="utf-8").splitlines()
    shipped = json.loads(SHIPPED.read_text())
    assert sorted(shipped) == COPIES
    assert [id for id, proof in shipped.items() if line(id, proof) not in page] == []
    monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    proofs.cache_clear()
    with pytest.raises(SystemExit):
        main(["models"])
    proofs.cache_clear()
    printed = [row.rstrip() for row in capsys.readouterr().out.splitlines() if row.partition(" ")[0] in rows()]
    assert len(printed) == len(rows()) and [row for row in printed if row not in page] == []


@pytest.mark.parametrize("id", COPIES)
def test_a_small_copy_keeps_what_tells_a_family_apart(id):
    files = files_of(id, online=False)
    small = small_config(files.config)
    text, own = small.get("text_config", small), files.config.get("text_config", files.config)
    assert set(own) <= set(text) and small["architectures"] == files.config["architectures"]
    assert set(text.get("layer_types", [])) == set(own.get("layer_types", []))
    assert text["num_hidden_layers"] == len(text.get("layer_types", [0, 0]))
    assert text["num_attention_heads"] % text["num_key_value_heads"] == 0
    kept = {"attention_bias", "tie_word_embeddings", "final_logit_softcapping", "sliding_window", "norm_topk_prob"}
    assert all(text.get(key) == own.get(key) for key in kept)
    turned = text.get("rope_parameters", {})
    if "mrope_section" in turned:
        assert 2 * sum(turned["mrope_section"]) == text.get("head_dim", 32) * turned.get("partial_rotary_factor", 1)


def tried(name, cache):
    command = [sys.executable, "-m", "cluster", "models", "--prove", name]
    ended = subprocess.run(command, env={**os.environ, "RAYCADE_CACHE": str(cache)}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    (record,) = json.loads((cache / "proofs.json").read_text()).values()
    assert record["grade"] in ended.stdout
    return record


@pytest.mark.slow
@pytest.mark.vllm
def test_a_family_plays_and_its_labels_are_exact(tmp_path):
    record = tried("ministral_3_14b", tmp_path)  # in its own format, whose tokenizer renders chats without a template
    assert record["grade"] == EXACT, record
    assert set(record["label_difference"]) == {"text", "with a picture"}
    assert all(difference < 1e-3 for difference in record["label_difference"].values())
    assert {asked.partition(",")[0] for asked in record["played"]} == {"kumo", "kidgym", "multistar"}
    cached = [int(turn.partition("/")[0]) for turn in record["cached"].split()]
    assert cached[0] == 0 and cached == sorted(cached) and cached[-1] > 0


def test_a_model_that_transformers_does_not_know_is_not_graded_as_played(tmp_path, monkeypatch):
    config = {"architectures": ["NobodysForCausalLM"], "model_type": "nobodys", "num_attention_heads": 2}
    monkeypatch.setattr(prove, "files_of", lambda id: Files(id, "the test", config, copy={"special": [], "end": ""}))

    def refuse(files, home):
        raise ValueError(f"no such class in {home}")

    monkeypatch.setattr(prove, "write_small_model", refuse)
    monkeypatch.setattr(prove, "_has_config", lambda files: True)
    record = prove.prove("nobody/nothing")
    assert record.grade == CONFIG and "no such class in nobody/nothing" in record.why


# --- small copies, without torch -------------------------------------------------------------------------------------


class Tensor:
    """As much of torch's as Mistral's files need."""

    def __init__(self, values):
        self.values, self.shape = np.asarray(values), np.asarray(values).shape

    def view(self, *shape):
        return Tensor(self.values.reshape(shape))

    reshape = view

    def transpose(self, one, other):
        return Tensor(self.values.swapaxes(one, other))

    def chunk(self, parts):
        return [Tensor(each) for each in np.split(self.values, parts)]

    def __iter__(self):
        return map(Tensor, self.values)

    def contiguous(self):
        return self.values.tolist()


def ones(*names):
    return {name: [[1]] for name in names}


def test_weights_and_parameters_are_written_as_mistral_names_and_orders_them(tmp_path, monkeypatch):
    saved = {}
    stub = SimpleNamespace(save_file=lambda weights, path: saved.update({path.name: weights}))
    monkeypatch.setitem(sys.modules, "safetensors.torch", stub)
    one = Tensor([[1]])
    state = {
        "model.language_model.embed_tokens.weight": one,
        "lm_head.weight": one,
        "model.language_model.norm.weight": one,
        "model.language_model.layers.0.input_layernorm.weight": one,
        "model.language_model.layers.0.post_attention_layernorm.weight": one,
        "model.language_model.layers.0.self_attn.q_proj.weight": Tensor([[n] for n in range(8)]),
        "model.language_model.layers.0.self_attn.v_proj.weight": Tensor([[n] for n in range(8)]),
        "model.language_model.layers.0.self_attn.kv_a_proj_with_mqa.weight": one,
        "model.language_model.layers.0.self_attn.q_a_layernorm.weight": one,
        "model.language_model.layers.0.mlp.gate_proj.weight": one,
        "model.language_model.layers.0.mlp.down_proj.weight": one,
        "model.language_model.layers.0.mlp.up_proj.weight": one,
        "model.language_model.layers.1.mlp.gate.weight": one,
        "model.language_model.layers.1.mlp.shared_experts.up_proj.weight": one,
        "model.language_model.layers.1.mlp.experts.gate_up_proj": Tensor([[1, 2], [3, 4]]),
        "model.language_model.layers.1.mlp.experts.down_proj": Tensor([[5], [6]]),
        "model.vision_tower.transformer.layers.0.self_attn.k_proj.weight": Tensor([[n] for n in range(4)]),
        "model.multi_modal_projector.norm.weight": one,
        "model.multi_modal_projector.patch_merger.merging_layer.weight": one,
        "model.multi_modal_projector.linear_1.weight": one,
        "model.multi_modal_projector.linear_2.weight": one,
    }
    text = {
        **{"hidden_size": 2, "num_hidden_layers": 3, "head_dim": 4, "intermediate_size": 5, "num_attention_heads": 6},
        **{
            "num_key_value_heads": 7,
            "rms_norm_eps": 8,
            "vocab_size": 9,
            "max_position_embeddings": 10,
            "q_lora_rank": 11,
        },
        **{"kv_lora_rank": None, "n_routed_experts": 12, "num_experts_per_tok": 13, "n_shared_experts": 14},
        **{"moe_intermediate_size": 15, "first_k_dense_replace": 16, "routed_scaling_factor": 17, "n_group": 18},
        "topk_group": 19,
        "rope_parameters": {
            **{"rope_theta": 20, "rope_type": "yarn", "original_max_position_embeddings": 21, "factor": 22},
            **{"beta_fast": 23, "beta_slow": 24, "llama_4_scaling_beta": 25},
        },
    }
    vision = {
        **{"hidden_size": 30, "intermediate_size": 31, "num_hidden_layers": 32, "num_attention_heads": 33},
        **{"image_size": 34, "patch_size": 35, "head_dim": 2, "rope_parameters": {"rope_theta": 36}},
    }
    config = {"text_config": text, "vision_config": vision, "image_token_index": 37}
    config |= {"multimodal_projector_bias": False, "spatial_merge_size": 38}
    model = SimpleNamespace(config=SimpleNamespace(to_dict=lambda: config), state_dict=lambda: state)
    write_mistral_files(model, tmp_path)
    side_by_side = [[0], [2], [1], [3], [4], [6], [5], [7]]
    assert saved["consolidated.safetensors"] == {
        **ones("tok_embeddings.weight", "output.weight", "norm.weight"),
        **ones("layers.0.attention_norm.weight", "layers.0.ffn_norm.weight"),
        **{"layers.0.attention.wq.weight": side_by_side, "layers.0.attention.wv.weight": [[n] for n in range(8)]},
        **ones("layers.0.attention.wkv_a_with_mqa.weight", "layers.0.attention.q_a_norm.weight"),
        **ones(*(f"layers.0.feed_forward.w{number}.weight" for number in (1, 2, 3))),
        **ones("layers.1.gate.weight", "layers.1.shared_experts.w3.weight"),
        **{"layers.1.experts.0.w1.weight": [1], "layers.1.experts.1.w1.weight": [3]},
        **{"layers.1.experts.0.w3.weight": [2], "layers.1.experts.1.w3.weight": [4]},
        **{"layers.1.experts.0.w2.weight": [5], "layers.1.experts.1.w2.weight": [6]},
        "vision_encoder.transformer.layers.0.attention.wk.weight": [[0], [1], [2], [3]],
        **ones("pre_mm_projector_norm.weight", "patch_merger.merging_layer.weight"),
        **ones("vision_language_adapter.w_in.weight", "vision_language_adapter.w_out.weight"),
    }
    assert json.loads((tmp_path / "params.json").read_text()) == {
        **{"dim": 2, "n_layers": 3, "head_dim": 4, "hidden_dim": 5, "n_heads": 6, "n_kv_heads": 7, "norm_eps": 8},
        **{"vocab_size": 9, "max_position_embeddings": 10, "q_lora_rank": 11, "rope_theta": 20},
        "yarn": {"original_max_position_embeddings": 21, "factor": 22, "beta": 23, "alpha": 24, "apply_scale": False},
        "llama_4_scaling": {"original_max_position_embeddings": 21, "beta": 25},
        "moe": {
            **{"num_experts": 12, "num_experts_per_tok": 13, "num_shared_experts": 14, "expert_hidden_dim": 15},
            **{
                "first_k_dense_replace": 16,
                "routed_scale": 17,
                "num_expert_groups": 18,
                "num_expert_groups_per_tok": 19,
            },
            "route_every_n": 1,
        },
        "vision_encoder": {
            **{"hidden_size": 30, "intermediate_size": 31, "num_hidden_layers": 32, "num_attention_heads": 33},
            **{"image_size": 34, "patch_size": 35, "num_channels": 3, "rope_theta": 36, "image_token_id": 37},
            **{"adapter_bias": False, "spatial_merge_size": 38, "add_pre_mm_projector_layer_norm": True},
            "mm_projector_id": "patch_merge",
        },
    }


def test_a_model_without_pictures_experts_or_a_longer_context_has_none_in_mistral_s_files(tmp_path, monkeypatch):
    saved = {}
    stub = SimpleNamespace(save_file=lambda weights, path: saved.update(weights))
    monkeypatch.setitem(sys.modules, "safetensors.torch", stub)
    config = {"hidden_size": 2, "head_dim": 4, "n_routed_experts": None, "vision_config": None}
    config["rope_parameters"] = {"rope_theta": 20, "rope_type": "default"}
    state = {
        "model.layers.0.self_attn.k_proj.weight": Tensor([[n] for n in range(4)]),
        "model.norm.weight": Tensor([[1]]),
    }
    model = SimpleNamespace(config=SimpleNamespace(to_dict=lambda: config), state_dict=lambda: state)
    write_mistral_files(model, tmp_path)
    assert saved == {"layers.0.attention.wk.weight": [[0], [2], [1], [3]], "norm.weight": [[1]]}
    assert json.loads((tmp_path / "params.json").read_text()) == {"dim": 2, "head_dim": 4, "rope_theta": 20}


def test_a_tokenizer_of_mistral_s_has_all_bytes_first_then_merged_words_in_their_order(tmp_path, monkeypatch):
    letters = {number: chr(number) if number != 32 else "Ġ" for number in range(256)}
    stub = SimpleNamespace(bytes_to_unicode=lambda: letters)
    monkeypatch.setitem(sys.modules, "transformers.convert_slow_tokenizer", stub)
    words = {"the": 301, "an": 300, "a": 97, "Ġon": 302, "late": 999}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": words}}))
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).touch()
    ids = write_tekken(tmp_path, 261, ["<s>", "[INST]"], {"version": "v13", "image": {"size": 5}})
    made = json.loads((tmp_path / "tekken.json").read_text())
    assert ids == {"<s>": 0, "[INST]": 1} and [path.name for path in tmp_path.iterdir()] == ["tekken.json"]
    assert [base64.b64decode(each["token_bytes"]) for each in made["vocab"]] == [
        *(bytes([number]) for number in range(256)),
        *(b"an", b"the", b" on"),
    ]
    assert [each["rank"] for each in made["vocab"]] == [*range(259)]
    shown = {number: made["vocab"][number]["token_str"] for number in (65, 200, 258)}
    assert shown == {65: "A", 200: "\ufffd", 258: " on"}, "no byte above 127 is a letter by itself"
    assert made["special_tokens"] == [
        {"rank": rank, "token_str": token, "is_control": True} for rank, token in enumerate(ids)
    ]
    numbers = {"num_vocab_tokens": 259, "default_vocab_size": 261, "default_num_special_tokens": 2, "version": "v13"}
    assert {name: made["config"][name] for name in numbers} == numbers and made["image"] == {"size": 5}


# --- grades ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "grade", "why"),
    [
        ({}, EXACT, ""),
        ({"kidgym choice": ("no such picture", False)}, LOADED, "kidgym, choice: no such picture"),
        ({"growing": ("too long", False)}, LOADED, "growing chat: too long"),
        ({"reference": ValueError("no class")}, PLAYED, "labels not compared: no class"),
        ({"text": 0.002}, PLAYED, "labels differ from those of transformers by 0.002, more than 0.001"),
        ({"text": 0.002, "dtype": "bfloat16"}, EXACT, ""),
        (
            {"picture": 0.5, "both ways": False},
            PLAYED,
            "labels differ from those of transformers by 0.5, more than 0.001",
        ),
        ({"picture": 0.5, "causal": 0.0005}, PLAYED, "more than 0.001; the reason is the CPU"),
        ({"picture": 0.5, "causal": 0.4}, PLAYED, "by 0.5, more than 0.001"),
    ],
)
async def test_a_model_s_grade_is_how_far_it_came(change, grade, why, monkeypatch, tmp_path):
    async def answer(engine, name, chat, **given):
        assert ("labels" in given, "options" in given) == (name == "multistar labels", name.endswith("choice"))
        return change.get(name, (f"came of {name}", True))

    async def growing(engine, picture):
        assert picture is not None
        return change.get("growing", ("0/9 8/17", True))

    async def difference(engine, model, home, sees, chat, causal=False):
        shown = any(not isinstance(part, str) for said in chat for part in said.parts)
        return change.get("causal" if causal else "picture" if shown else "text", 0.0001 + 0.0001 * shown)

    def reference(files, home):
        if "reference" in change:
            raise change["reference"]

    for name, stub in (("_answer", answer), ("_growing", growing), ("_label_difference", difference)):
        monkeypatch.setattr(prove, name, stub)
    monkeypatch.setattr(prove, "_reference", reference)
    architecture = (
        "Gemma3ForConditionalGeneration" if change.get("both ways", True) else "OtherForConditionalGeneration"
    )
    files = SimpleNamespace(sees=True, architecture=architecture)
    found = await prove._asked(
        Proof("id", "untried", "today", {}), files, None, tmp_path, change.get("dtype", "float32")
    )
    assert found.grade == grade and found.why.startswith(why) if not why else why in found.why
    assert found.cached == change.get("growing", ("0/9 8/17",))[0]
    suites = [*(f"{suite}, {what}" for suite in ("kumo", "kidgym") for what in ("text", "choice")), "multistar, labels"]
    assert [*found.played] == suites and found.played["kumo, text"] == "came of kumo text"
    compared = {} if grade == LOADED or "reference" in change else {"text", "with a picture"}
    if "causal" in change:
        compared |= {prove.CAUSAL}
    assert {*found.label_difference} == {*compared}
