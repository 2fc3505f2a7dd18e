"""Tokenizes rendered chats piece by piece, with a cache, so that earlier messages are not tokenized again every turn.

A chat only grows, and a KUMO chat repeats a knowledge book of several kilobytes in every turn. Tokenizers split the text at
their special tokens before anything else, so the pieces between special tokens can be encoded separately and cached.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from cluster.engines.base import EngineError

PIECES = 4096
"""Cached pieces of text; at 4 bytes per token this takes tens of megabytes at most."""


class ChatTokens:
    """Encodes rendered chats to the same ids as the tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer`` is a Hugging Face tokenizer, or Mistral's own for tekken.json."""
        self._tokenizer = tokenizer
        self._special = {token: number for number, token in special_tokens(tokenizer).items()}
        marks = "|".join(re.escape(token) for token in sorted(self._special, key=len, reverse=True))
        self._marks = re.compile(f"({marks})") if marks else None
        self._encode_piece = lru_cache(maxsize=PIECES)(self._encode_uncached)
        self._label_token = lru_cache(maxsize=PIECES)(self._find_label_token)

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``, without added special tokens."""
        ids: list[int] = []
        for piece in self._pieces(text):
            number = self._special.get(piece)
            if number is not None:
                ids.append(number)
            elif piece:
                ids.extend(self._encode_piece(piece))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a reply, without special tokens."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def label_token(self, text: str, label: str) -> int | None:
        """The single token that ``label`` adds to ``text``; None if it adds more, or changes the tokens of ``text``."""
        return self._label_token(self._pieces(text)[-1], label)

    def check(self, text: str) -> None:
        """Compare with the tokenizer on ``text``; if the ids differ, encode whole texts from now on."""
        # Mistral's own never reads special tokens in a text; ``VLLMChat.check_ids`` compares its chats.
        if not is_tekken(self._tokenizer) and self.encode(text) != list(self._encode_uncached(text)):
            self._marks = None

    @cached_property
    def lossless(self) -> bool:
        """Whether decoding keeps all spaces (sentencepiece drops the first one, old tokenizers those before punctuation)."""
        sample = " A ,\n  b . "
        return self.decode(self._encode_uncached(sample)) == sample

    def _pieces(self, text: str) -> list[str]:
        return self._marks.split(text) if self._marks else [text]

    def _encode_uncached(self, text: str) -> array[int]:
        return array("i", self._tokenizer.encode(text, add_special_tokens=False))

    def _find_label_token(self, tail: str, label: str) -> int | None:
        before, after = self._encode_uncached(tail), self._encode_uncached(tail + label)
        return after[-1] if len(after) == len(before) + 1 and after[:-1] == before else None


def is_tekken(tokenizer: Any) -> bool:
    """Whether this is vLLM's class around Mistral's own tokenizer, with a vocabulary of the newer kind (tekken.json)."""
    return bool(getattr(tokenizer, "is_tekken", False))


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """Special tokens at which text can be split before encoding, by id.

    Tokens that also strip spaces around them, or that are matched in normalized text, are left to the tokenizer.

    Raises:
        EngineError: this is no tokenizer of Hugging Face's form, nor Mistral's tekken.
    """
    if is_tekken(tokenizer):
        return dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    if not hasattr(tokenizer, "added_tokens_decoder"):
        raise EngineError(
            f"its tokenizer ({type(tokenizer).__name__}) has no text form of a chat; set "
            "model.engine.vllm.tokenizer_mode=hf if the model has a Hugging Face tokenizer too"
        )
    found = {}
    for number, token in tokenizer.added_tokens_decoder.items():
        if token.special and not _depends_on_text(token):
            found[number] = token.content
    return found


def _depends_on_text(token: Any) -> bool:
    """Whether the tokenizer must see what is around a token."""
    # It strips the spaces around it, too.
    if token.lstrip or token.rstrip:
        return True
    # It counts as a whole word only, or is matched in normalized text.
    return bool(token.single_word or token.normalized)
