"""The small English of replies: other languages and spellings are looked up in ``reply_words.txt``."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

EAST: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"§[a-z]|[a-z0-9+#]+(?:'[a-z]+)?|[^\W\d_a-z{EAST}]+|\d+|[{EAST}]+|[.!?;:,(\n]")
_LETTER = re.compile(r"(?<![\w§'.-])([A-HJ-Z])(?!['\w-])(?!\+)|(?<=\()I(?=\))")
_ARTICLE = re.compile(
    r"(?<!\w)(?<!option )(?<!answer )(?<!choice )A(?= (?!(?:is|it|fits|or|and|because|since|as|to|in|no|not)\b)[a-z])"
)
"""An *A* before a word is no letter."""
_PHRASES = tuple(
    (re.compile(rf"\b(?:{words})\b"), meaning)
    for words, meaning in (
        (r"pick(?:ing|ed)?(?: (?:it|them))? up", "pickup"),
        (r"(?:go|going|went) (?:with|for)|stick to", "choose"),
        (r"(?:about|going|wanted|want|tempted) to (?:say|ask|answer|choose|pick|go|check|do|run)", "thought"),
        (r"ruled out|rules? out|ruling out|out of the question", "not"),
        (r"(?:should|could|would|must|might) have", "thought"),
        (r"(are|were)n't", r"\1 not"),
        (r"next to", "beside"),
        (r"leav(?:es?|ing) (?:us|me|only|just)(?: with)?|that leaves", "remains"),
        (r"(?:should|must) be placed", "should put"),
        (r"can only be|has to be|must be", "must is"),
        (r"hold on", "wait"),
        (r"until then", "now"),
    )
)
"""Words that mean something together."""
_TICK, _CROSS = re.compile("[✓✔✅☑]"), re.compile("[✗✘❌✖≠]|~~|<s>")
_ARROW = re.compile(r"=+>|-+>|[→⇒➜]")
_SEAM = re.compile(rf"(?<=[{EAST}])(?=[A-Za-z])|(?<=[A-Za-z])(?=[{EAST}])")
_ABBREVIATED = re.compile(r"\b(mrs|mr|dr|ms|st|vs|e\.g|i\.e|nr|approx)\.", re.IGNORECASE)


@dataclass(frozen=True)
class _Lexicon:
    """``reply_words.txt``."""

    fillers: frozenset[str]
    """Words that change nothing; they are no part of what an option is called by."""
    nouns: frozenset[str]
    """Words that change nothing where no option has them."""
    words: Mapping[str, str]
    signs: tuple[tuple[str, str], ...]
    """Parts of words of languages without spaces, longest first."""
    cues: Mapping[str, frozenset[str]]


@functools.cache
def lexicon() -> _Lexicon:
    """The list of words, read once."""
    text = Path(__file__).with_name("reply_words.txt").read_text(encoding="utf-8")
    fillers, nouns, words, signs, kinds = (
        part.split("\n", 1)[1] for part in re.split("^# ", text, flags=re.MULTILINE)[1:]
    )
    by_sign = {sign: meaning.replace("_", " ") for meaning, sign in _pairs(signs)}
    return _Lexicon(
        frozenset(folded(fillers).split()),
        frozenset(nouns.split()),
        {folded(word): meaning for meaning, word in _pairs(words)},
        tuple(sorted(by_sign.items(), key=lambda item: -len(item[0]))),
        {kind: frozenset(rest.split()) for kind, _, rest in (line.partition(":") for line in kinds.splitlines())},
    )


def cues(kind: str) -> frozenset[str]:
    """The words of the small English that do one thing, as *decides*."""
    return lexicon().cues[kind]


def _pairs(lines: str) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines():
        meaning, _, words = line.partition(":")
        yield from ((meaning.strip(), word) for word in words.split())


def folded(text: str) -> str:
    """The text in lower case, without accents on Latin letters."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text)).casefold()
    return unicodedata.normalize("NFC", re.sub(r"(?<=[a-z])[\u0300-\u036f]", "", plain))


def plain_words(text: str, letters: bool = True) -> list[str]:
    """The tokens of a text: words of the small English, letters of options as ``§b``, and punctuation."""
    text = re.sub(r"[*_`$\\]|</?\w+>|\b(?:text|boxed)(?=\{)", " ", text.replace("’", "'"))
    text = _CROSS.sub(" not ", _TICK.sub(" right_answer ", text))
    text = _SEAM.sub(" ", text)
    text = _ARROW.sub(" so ", _ABBREVIATED.sub(r"\1", text))
    if letters:
        text = _LETTER.sub(lambda match: f" §{(match[1] or 'I').lower()} ", _ARTICLE.sub("a", text))
    text = folded(re.sub(r"\b[Ss]í\b", "yes", text))
    text = text.replace("°", " deg ").replace("anti-clock", "anticlock")
    for pattern, meaning in _PHRASES:
        text = pattern.sub(meaning, text)
    text = re.sub(r"(?<!\bit)(?<!\bthat)(?<!\blet)(?<!\bwhat)(?<!\bhere)'s\b", "", text)
    text = re.sub(r"(?<=[a-z])-(?=left|right)", " ", text)
    text = re.sub(r"(?<=[a-z])-(?=[a-z])", "", text)
    text = re.sub(r"\b(?:[cdjlmnst]|qu)'(?=[a-z]{2})(?!t\b)", " ", text)
    words = lexicon()
    for marks, mark in (("。！", ".\n"), ("？", "?\n"), ("，、", ","), ("；", ";")):
        text = re.sub(f"[{marks}]", mark, text)
    if re.search(f"[{EAST}]", text):
        for sign, meaning in words.signs:
            text = text.replace(sign, f" {meaning} ")
    return [words.words.get(token, token) for token in _TOKEN.findall(text)]


ARTICLES: Final = frozenset({"a", "an", "the"})
_PUNCTUATION = frozenset(".!?;:,(\n")


@functools.lru_cache(maxsize=4096)
def phrase(option: str) -> tuple[str, ...]:
    """The words of an option in their order, without articles if there are others."""
    words = tuple(word for word in plain_words(option) if word not in _PUNCTUATION)
    return tuple(word for word in words if word not in ARTICLES) or words


def content(option: str) -> frozenset[str]:
    """The words that an option is called by."""
    words = phrase(option)
    own = (singular(word) for word in words if word not in lexicon().fillers and word not in ("not", "no"))
    return frozenset(own) or frozenset(words)


def singular(word: str) -> str:
    """The word without the s of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def stem(word: str) -> str:
    """The word without its ending, if enough is left."""
    short = re.sub(r"(?:ing|ed|es|s|e)$", "", word)
    return short if len(short) > 3 else word
