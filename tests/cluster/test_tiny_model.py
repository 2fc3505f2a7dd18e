"""The tiny model is a complete Qwen2.5-VL on disk, the same on every machine, and safe to create concurrently."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.engines.tiny_model import VOCABULARY, cache_directory, ensure_tiny_model

pytestmark = pytest.mark.slow

MAKE = "from cluster.engines.tiny_model import ensure_tiny_model; print(ensure_tiny_model())"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model that two processes made at the same time."""
    cache = tmp_path_factory.mktemp("cache")
    environment = {"PATH": "/usr/bin:/bin", "RAYCADE_CACHE": str(cache), "HOME": str(cache)}
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKE], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    homes = {maker.communicate()[0].splitlines()[-1] for maker in makers}
    assert [maker.returncode for maker in makers] == [0, 0]
    assert len(homes) == 1
    made = Path(homes.pop())
    assert [path.name for path in cache.iterdir() if path.name != ".cache"] == [made.name], "no draft is left behind"
    return made


def test_it_is_created_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYCADE_CACHE", str(home.parent))
    before = (home / "config.json").stat().st_mtime_ns
    assert ensure_tiny_model() == home
    assert (home / "config.json").stat().st_mtime_ns == before


def test_the_cache_is_in_the_home_directory_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYCADE_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/somewhere")
    assert cache_directory() == Path("/somewhere/.cache/raycade")


def test_it_is_small(home: Path) -> None:
    assert (home / "model.safetensors").stat().st_size < 1_000_000
    assert sum(path.stat().st_size for path in home.iterdir()) < 2_000_000


def test_the_ids_that_end_a_reply_lie_within_the_vocabulary(home: Path) -> None:
    config = json.loads((home / "config.json").read_text())
    generation = json.loads((home / "generation_config.json").read_text())
    for source in (config["text_config"], generation):
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            ids = source[name] if isinstance(source[name], list) else [source[name]]
            assert all(0 <= number < VOCABULARY for number in ids), name


def test_letters_and_digits_are_single_tokens_after_the_chat_template(home: Path) -> None:
    from transformers import AutoTokenizer

    from cluster.engines.chat_tokens import ChatTokens

    tokenizer = AutoTokenizer.from_pretrained(home)
    chat = [{"role": "system", "content": "Look."}, {"role": "user", "content": [{"type": "image"}]}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    tokens = ChatTokens(tokenizer)
    found = [tokens.label_token(text, label) for label in "ABCDEFGHIJKLMNOP0123456789"]
    assert None not in found
    assert len(set(found)) == 26
    assert tokens.label_token(text, "Abracadabra") is None


def test_chats_are_encoded_by_pieces_exactly_as_the_tokenizer_does(home: Path) -> None:
    from transformers import AutoTokenizer

    from cluster.engines.chat_tokens import ChatTokens

    tokenizer = AutoTokenizer.from_pretrained(home)
    tokens = ChatTokens(tokenizer)
    for said in ("", " ", "The outcome is 36.6.\n\n", "  naïve 北京 🙂 ", "<|im_end|>", "<|im_en", "a<|im_start|>\n b"):
        chat = [{"role": "system", "content": "Rules."}, {"role": "user", "content": said}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        for _ in range(2):
            assert tokens.encode(text) == tokenizer.encode(text, add_special_tokens=False)


def test_words_of_the_games_are_short(home: Path) -> None:
    from transformers import AutoTokenizer

    sentence = "The outcome of the test rules out pneumonia, so the next action is a chest X-ray of the patient."
    assert len(AutoTokenizer.from_pretrained(home).encode(sentence)) < len(sentence) / 2
