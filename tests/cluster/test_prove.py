"""Trying a model without its weights: small copies keep what tells families apart, and one family plays on the real engine."""

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from benchmarks.models import SHIPPED, line
from cluster.cli import main
from cluster.models.grades import CONFIG, EXACT
from cluster.models.hub import Files, files_of, shape_of
from cluster.models.proofs import proofs
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
    from cluster.models import prove

    config = {"architectures": ["NobodysForCausalLM"], "model_type": "nobodys", "num_attention_heads": 2}
    monkeypatch.setattr(prove, "files_of", lambda id: Files(id, "the test", config, copy={"special": [], "end": ""}))

    def refuse(files, home):
        raise ValueError(f"no such class in {home}")

    monkeypatch.setattr(prove, "write_small_model", refuse)
    monkeypatch.setattr(prove, "_has_config", lambda files: True)
    record = prove.prove("nobody/nothing")
    assert record.grade == CONFIG and "no such class in nobody/nothing" in record.why
