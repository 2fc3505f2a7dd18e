"""The table of models: its rows make settings, name classes that vLLM has, and count memory and pictures as these do."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cli import main
from cluster.config.model import make_model
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.models.grades import GRADES, PLAYED
from cluster.models.hardware import hardware_table
from cluster.models.hub import Files, known, model_from, shape_of
from cluster.models.memory import cache_bytes, fit_on, gpu_hours, parallel_sizes
from cluster.models.proofs import Proof, grade_of, proofs, record
from cluster.models.table import GIB, families, gpus, row_of, rows, section_of

KUMO = ["suite=kumo", "suite.domains=[medical]", "suite.tasks_per_domain=1", "suite.repeats=1"]
BEFORE = {
    "internvl3_8b": "994dc2ed247bcd3472dddeb28bbc285a",
    "internvl3_38b": "cd0acd6b2ea177cfe06ff067285f3dc1",
    "internvl3_78b": "3ad4bd6ebf0072665c726e47fe8bfed9",
    "qwen2_5_vl_3b": "41d97d79140ba0bf4cd3ded9e8b0e506",
    "qwen2_5_vl_7b": "befeda47eeac3bf34adeace51d3bd425",
    "qwen2_5_vl_32b": "96c06753926e6b9812b47946cf46061c",
    "qwen2_5_vl_72b": "87132ea5020d2e95af7fed55b50d8cba",
    "qwen2_5_7b": "d9fbeeab886fc2c97eeb98c8a5d167c5",
    "qwen3_8b": "202faca3934da4488568de0dff0f996a",
    "qwen3_vl_8b_thinking": "96637a3eef0364a57f6afbff0bbf4c81",
}
"""Hashes of the models that had files before there was a table: runs with these go on."""


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", rows())
def test_a_row_makes_settings_that_pass_the_checks(name):
    row = rows()[name]
    model = make_model(section_of(name, row), {})
    assert model.engine["model"] == row.id and row_of(row.id) is row
    assert bool(model.capabilities.pictures) == row.family.sees
    parallel = model.engine["tensor_parallel_size"] * model.engine.get("pipeline_parallel_size", 1)
    assert parallel == row.gpus == model.replica.gpus * model.replica.nodes
    assert model.engine["tensor_parallel_size"] in parallel_sizes(row.shape)
    thinks = row.thinking is not None and row.thinking.default != "off"
    assert ("reasoning_parser" in model.engine.get("vllm", {})) == thinks
    assert model.capabilities.label_scores == (not thinks)


def test_the_models_that_had_files_have_the_ids_that_they_had():
    assert {name: make_model(section_of(name, rows()[name]), {}).fingerprint for name in BEFORE} == BEFORE


def test_a_row_is_selected_by_its_name():
    settings = load_settings([*KUMO, "model=qwen3_30b_a3b", "model.engine.max_model_len=16384"])
    assert settings.model.engine["model"] == "Qwen/Qwen3-30B-A3B" and settings.model.engine["max_model_len"] == 16384


def vllm_source(path):
    spec = importlib.util.find_spec("vllm")
    return Path(spec.submodule_search_locations[0], path).read_text() if spec else ""


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM's source")
def test_vllm_knows_every_architecture_and_every_parser():
    registry = ast.parse(vllm_source("model_executor/models/registry.py"))
    keys = {node.value for node in ast.walk(registry) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert {family.architecture for family in families().values()} <= keys
    parsers = vllm_source("reasoning/__init__.py")
    thinking = [model.thinking for model in (*rows().values(), *families().values()) if model.thinking]
    assert all(f'"{each.parser}"' in parsers for each in thinking)


@pytest.mark.parametrize("name", [name for name, family in families().items() if family.pictures])
def test_pictures_take_the_tokens_that_the_engine_counted(name):
    rule = families()[name].pictures
    for size, tokens in rule.checked.items():
        assert rule.tokens(*map(int, size.split("x"))) == tokens


SIZES = ["28x28", "333x777", "448x896", "1920x200", "450x449", "1500x1500", "3000x2500", "7x900", "20000x20", "660x610"]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("qwen3_vl", [64, 240, 392, 360, 196, 2209, 7332, 91, 625, 399]),
        ("glm4v", [9, 336, 512, 483, 256, 2916, 7426, 32, 714, 528]),
        ("internvl", [258, 2818, 770, 2818, 258, 2562, 3330, 3330, 3330, 1282]),
        ("nvlm_d", [263, 775, 775, 1799, 263, 1287, 1287, 1799, 1799, 1287]),
        ("gemma4", [258, 252, 255, 257, 258, 258, 272, 191, 531, 274]),
        ("mistral3", [2, 364, 544, 336, 306, 2970, 2576, 66, 56, 550]),
        ("phi4_multimodal", [545, 753, 817, 1002, 1329, 4433, 9505, 369, 9505, 1263]),
        ("minicpm_v", [66, 193, 201, 251, 202, 662, 652, 93, 687, 331]),
        ("kimi_k25", [1, 336, 512, 552, 289, 2916, 4189, 33, 256, 528]),
        ("nemotron_omni", [258, 277, 394, 422, 258, 2211, 3278, 365, 627, 422]),
    ],
)
def test_a_picture_of_any_size_and_proportion_takes_the_tokens_of_its_family(name, tokens):
    """As the families' own processors count, with which test_picture_tokens.py compares the rules."""
    rule = families()[name].pictures
    assert [rule.tokens(*map(int, size.split("x"))) for size in SIZES] == tokens


# --- memory ----------------------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(rows())), st.integers(1, 200_000))
def test_a_sequence_without_tokens_has_its_state_only_and_each_further_token_takes_no_more_than_the_first(name, tokens):
    shape = rows()[name].shape
    empty, first, before, after = (cache_bytes(shape, count) for count in (0, 1, tokens - 1, tokens))
    assert empty == shape.state * 2**20
    if not shape.window or tokens <= shape.window:
        assert after - empty == tokens * (first - empty)
    assert 0 < after - before <= first - empty


@given(st.sampled_from(sorted(rows())), st.sampled_from(sorted(gpus())), st.integers(1024, 131072))
def test_what_fits_leaves_room_and_one_gpu_fewer_would_not_do(name, gpu, tokens):
    row, kind = rows()[name], gpus()[gpu]
    fit = fit_on(row, kind, tokens)
    if fit is None:
        return
    assert row.weights() * GIB + fit.sequences * cache_bytes(row.shape, tokens) <= fit.gpus * kind.memory * 1e9
    # Of each GPU: its stage's layers, and of these all of a latent cache, else at least one head.
    together, heads = min(fit.gpus, 8), row.shape.kv_heads
    held = 1.0 if row.shape.latent or not heads else max(1, heads // together) / heads
    if heads or row.shape.latent:
        each = cache_bytes(row.shape, tokens) * together / fit.gpus * held / GIB
        assert (
            fit.sequences * each <= fit.free / fit.gpus * (1 + 1e-9)
            and (fit.sequences + 1) * each > fit.free / fit.gpus
        )
    smaller = [size for size in parallel_sizes(row.shape) if size < fit.gpus]
    assert all(fit_on(row, kind, tokens, size) is None for size in smaller)
    longer = fit_on(row, kind, 2 * tokens, fit.gpus)
    assert (longer.sequences if longer else 0) <= fit.sequences


def test_time_is_bounded_by_operations_for_prompts_and_by_reading_for_replies():
    row, gpu = rows()["llama_3_1_8b"], gpus()["h100"]
    prompts = gpu_hours(row, gpu, 1e9, 0, 64, 4096).bound
    assert prompts == pytest.approx(2 * 8.03e9 * 1e9 / 989e12 / 3600)
    alone = gpu_hours(row, gpu, 0, 1e6, 1, 1).bound
    assert alone == pytest.approx(1e6 * 8.03e9 * 2 / 3.35e12 / 3600, rel=0.01)
    assert gpu_hours(row, gpu, 0, 1e6, 64, 1).bound < alone / 30


# --- models without a row --------------------------------------------------------------------------------------------

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
GEMMA = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "vision_config": {},
    "text_config": {
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "num_global_key_value_heads": 4,
        "head_dim": 256,
        "global_head_dim": 512,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "vocab_size": 262144,
        "sliding_window": 1024,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    },
    "tie_word_embeddings": True,
}


def folder(tmp_path, config, **more):
    (tmp_path / "config.json").write_text(json.dumps(config))
    for name, value in more.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    return tmp_path


def test_a_config_says_what_the_row_of_the_same_model_says():
    assert shape_of(Files("x", "", GEMMA)) == rows()["gemma_4_31b"].shape
    assert shape_of(Files("x", "", LLAMA)) == rows()["llama_3_1_8b"].shape
    assert model_from(Files("x", "", LLAMA)).total == pytest.approx(8.03, rel=0.01)
    assert model_from(Files("x", "", GEMMA)).total == pytest.approx(31.3, rel=0.05)


@pytest.mark.parametrize("name", gpus())
def test_hours_are_those_of_as_many_requests_at_once_as_fit_and_may_be(name):
    model, gpu = rows()["qwen2_5_vl_7b"], gpus()[name]
    engine = {"type": "vllm", "model": model.id, "max_model_len": 32768}
    fitting = fit_on(model, gpu, 1050, 1).sequences
    for most in (1, fitting - 1, fitting, fitting + 1, 9999):
        table = hardware_table({**engine, "max_num_seqs": most}, 1e13, 1e12, 1e10)
        row = next(row for row in table.rows if row[0].startswith(f"{name},"))
        hours = gpu_hours(model, gpu, 1e13, 1e12, min(most, fitting), 1050)
        assert row[2] == fit_on(model, gpu, 32768, 1).sequences < fitting
        assert row[4:] == (f"{hours.bound:,.0f}", f"{hours.low:,.0f} to {hours.high:,.0f}")
        assert any(f"{name} {fitting}" in note for note in table.notes) == (most > fitting)


def test_a_model_without_a_row_plays_by_its_own_files(tmp_path):
    home = folder(tmp_path, LLAMA, generation_config={"do_sample": True, "temperature": 0.6, "top_p": 0.9})
    settings = load_settings([*KUMO, "model=hf", f"model.engine.model={home}"])
    engine, sampling = settings.model.engine, settings.model.sampling
    assert settings.model.name == home.name and engine["max_model_len"] == 8192 and "limit_mm_per_prompt" not in engine
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.6, 0.9, 2048)
    with pytest.raises(UserError, match="text only"):
        load_settings(["suite=kidgym", "model=hf", f"model.engine.model={home}"])
    with pytest.raises(UserError, match=r"model.engine.model: is missing"):
        load_settings([*KUMO, "model=hf"])


def test_an_id_of_the_table_plays_by_its_row():
    model = load_settings([*KUMO, "model=hf", "model.engine.model=Qwen/Qwen3-VL-8B-Thinking"]).model
    assert model.engine["vllm"] == {"reasoning_parser": "qwen3"} and model.sampling.max_tokens == 40960


@pytest.mark.parametrize(
    ("files", "named"),
    [({}, "no config.json"), ({"config": []}, "no mapping"), ({"config": {"architectures": []}}, "num_hidden_layers")],
)
def test_files_that_say_too_little_are_named(tmp_path, files, named):
    for name, value in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    with pytest.raises(UserError, match=named):
        load_settings([*KUMO, "model=hf", f"model.engine.model={tmp_path}"])


@pytest.mark.slow
def test_another_model_under_the_name_of_a_row_is_refused_with_the_way(tmp_path):
    other = ["model=qwen2_5_vl_7b", "model.engine.model=Qwen/Qwen3-VL-8B-Instruct"]
    with pytest.raises(UserError, match=r"model=hf model\.engine\.model=Qwen/Qwen3-VL-8B-Instruct"):
        load_settings([*KUMO, *other])
    assert load_settings([*KUMO, *other, "model.name=mine"]).model.name == "mine"
    copy = folder(tmp_path, {"architectures": ["Qwen2_5_VLForConditionalGeneration"]})
    assert load_settings([*KUMO, "model=qwen2_5_vl_7b", f"model.engine.model={copy}"]).plan
    with pytest.raises(UserError, match="model=hf"):
        load_settings([*KUMO, "model=qwen2_5_7b", f"model.engine.model={copy}"])


def test_what_is_known_of_an_id_needs_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert known("qwen/qwen3-8b") is rows()["qwen3_8b"]
    assert known("nobody/nothing-of-this-name") is None


# --- the command -----------------------------------------------------------------------------------------------------


def listed(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(["models", *words, "--json"])
    out = capsys.readouterr().out
    return end.value.code, {row["name"]: row for row in json.loads(out)} if out else {}


def test_the_table_is_filtered(capsys):
    code, everything = listed(capsys)
    assert code == 0 and set(everything) == set(rows())
    assert everything["qwen3_5_9b"]["cache blocks"].startswith("528 tokens")
    assert everything["qwen3_5_9b"]["sampling"]["max_tokens"] == 32768
    small = listed(capsys, "--fits", "48", "--vision")[1]
    assert "qwen3_vl_8b" in small and not {"qwen3_8b", "qwen2_5_vl_72b"} & set(small)
    large = listed(capsys, "--fits", "80")[1]
    assert {*listed(capsys, "--fits", "79")[1]} == {*listed(capsys, "--fits", "48")[1]} < {*large}
    assert listed(capsys, "--fits", "47")[0] == 2, "no GPU of the table is so small"
    assert set(listed(capsys, "gemma", "sliding")[1]) == {name for name in rows() if name.startswith("gemma")}
    assert listed(capsys, "nothing-like-this")[0] == 2


def test_a_grade_lists_the_models_that_came_as_far_or_further(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path))
    tried = dict(zip(rows(), GRADES, strict=False))
    for name, grade in tried.items():
        record(Proof(rows()[name].id, grade, "2026-11-23", {}))
    found = [[name for name in listed(capsys, "--grade", grade)[1] if name in tried] for grade in GRADES]
    proofs.cache_clear()
    assert found == [list(tried)[: place + 1] for place in range(len(GRADES))]


def test_the_whole_table_is_printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["models"])
    out = capsys.readouterr().out
    assert all(re.search(rf"^{name} ", out, re.MULTILINE) for name in (*rows(), "oracle", "openai"))
    assert max(map(len, out.splitlines())) <= 80


def test_a_record_counts_for_its_id_and_in_parentheses_for_its_family(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path))
    proofs.cache_clear()
    record(Proof("Qwen/Qwen3-4B", PLAYED, "2026-11-23", {"vllm": "0.32.0"}))
    assert grade_of(rows()["qwen3_4b"]) == PLAYED
    monkeypatch.undo()
    proofs.cache_clear()
    assert all(grade_of(row).strip("()") in GRADES for row in rows().values())
