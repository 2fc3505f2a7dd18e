"""A tokenizer of a few hundred tokens: names, and the phrases that the prompts have between them, are one token each.

Whatever is neither is spelled by characters, so any text can be read and no text is lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

PAD, END = "<|pad|>", "<|end|>"
ROLES = {role: f"<|{role}|>" for role in ("system", "user", "assistant")}
CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|{{ message.role }}|>{% if message.content is string %}{{ message.content }}
{%- else %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}<|end|>
{%- endfor -%}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""
LEAST_SHARE = 0.002
"""Of the trajectories, that a phrase must stand in to become a token."""
_NUMBER = r"\d+(?:[.,]\d+)*"
"""What a test shows may be a number, and most numbers are rare: they are spelled."""
_OUTCOME = r"(?=\n  )"
"""Where the guidebook's line of an outcome begins."""


def build_tokenizer(rows: Iterable[Mapping[str, Any]]) -> PreTrainedTokenizerFast:
    """A tokenizer for the texts of some trajectories, with a chat template.

    Args:
        rows: Trajectories; a few thousand show every name and phrase.
    """
    rows = list(rows)
    names = sorted({name for row in rows for name in names_of(row)}, key=lambda name: (-len(name), name))
    apart = {
        role: re.compile("|".join([*map(re.escape, names), _OUTCOME if role == "system" else _NUMBER]))
        for role in ROLES
    }
    phrases: Counter[str] = Counter()
    for row in rows:
        parts = {part for entry in row["messages"] for part in apart[entry["role"]].split(entry["content"])}
        phrases.update(part for part in parts if len(part) > 1)
    common = [phrase for phrase, count in phrases.most_common() if count >= LEAST_SHARE * len(rows)]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = [chr(code) for code in range(32, 127)]
    model = models.BPE({token: place for place, token in enumerate([*bytes_, *letters])}, merges=[], byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([PAD, END, *ROLES.values()])
    tokens = [text for text in (*names, *common) if len(text) > 1]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in dict.fromkeys(tokens)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def names_of(row: Mapping[str, Any]) -> set[str]:
    """Truths and tests of a trajectory."""
    return {*row["truths"], *row["tests"]}
