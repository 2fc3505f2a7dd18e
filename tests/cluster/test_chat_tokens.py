"""Chats are encoded by pieces to the very tokens that the tokenizer makes of the whole."""

import string
from array import array
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.engines.chat_tokens import ChatTokens

tokenizers = pytest.importorskip("tokenizers", reason="comes with vLLM")


class Letters:
    """A tokenizer of single characters and special tokens, some of which begin alike or take the spaces beside them."""

    def __init__(self):
        self._inner = tokenizers.Tokenizer(
            tokenizers.models.WordLevel({sign: n for n, sign in enumerate(string.printable)}, unk_token="?")
        )
        self._inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
        plain = [tokenizers.AddedToken(text, normalized=False) for text in ("<a>", "<a><c>")]
        strips = [
            tokenizers.AddedToken("<r>", rstrip=True, normalized=False),
            tokenizers.AddedToken("<l>", lstrip=True, normalized=False),
        ]
        words = [
            tokenizers.AddedToken("word", single_word=True, normalized=False),
            tokenizers.AddedToken("<n>", normalized=True),
        ]
        self._inner.add_special_tokens([*plain, *strips, *words])
        begins = [("<a>", self._inner.token_to_id("<a>"))]
        self._inner.post_processor = tokenizers.processors.TemplateProcessing("<a> $A", special_tokens=begins)

    @property
    def added_tokens_decoder(self):
        return self._inner.get_added_tokens_decoder()

    def encode(self, text, add_special_tokens):
        return self._inner.encode(text, add_special_tokens=add_special_tokens).ids


@pytest.fixture(scope="module")
def letters():
    return Letters()


@example(["<a>", "<c>"])
@example(["<r>", " "])
@example([" ", "<l>"])
@example(["word", "x"])
@given(st.lists(st.sampled_from(["<a>", "b", "<c>", "<r>", "<l>", "<n>", "word", " ", "x", "a>"]), max_size=8))
def test_pieces_have_the_tokens_of_the_whole(letters, parts):
    text = "".join(parts)
    assert ChatTokens(letters).encode(text) == letters.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(("label", "adds_one"), [("A", True), ("<a>", True), ("AB", False), ("", False)])
def test_a_label_is_a_single_token_after_the_text_or_none(letters, label, adds_one):
    token = ChatTokens(letters).label_token("said<a>so: ", label)
    assert token == (letters.encode(label, add_special_tokens=False)[0] if adds_one else None)


def test_a_label_that_changes_the_tokens_before_it_is_none():
    ids = {"text": [1, 2], "textA": [1, 2, 7], "textB": [1, 8, 9], "textC": [1, 2, 7, 7], "textD": [3, 2, 7]}
    of = SimpleNamespace(_encode_uncached=lambda text: array("i", ids[text]))
    found = {label: ChatTokens._find_label_token(of, "text", label) for label in "ABCD"}
    assert found == {"A": 7, "B": None, "C": None, "D": None}
