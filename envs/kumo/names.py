"""When two spellings are one name: case, accents, punctuation, what is invisible, and British spelling make no difference.

A domain's names must differ in more than that, so that a reply means at most one of them.
"""

from __future__ import annotations

import functools
import re
import unicodedata

_ALIKE = str.maketrans(
    {"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‐": "-", "‒": "-", "―": "-"}
    | {"&": " and ", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)
_ACCENT = re.compile("(?<=[^\\W\\d_])[\u0300-\u0333\u0339-\u036f]+")
"""Marks on letters; strokes through them are no accents, and neither is that of ≠."""

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
"""Characters without a glyph: soft hyphens, joiners, marks of direction, variants of glyphs."""

_WORD = re.compile(
    r"[\u3040-\u30ff\u4e00-\u9fff]+|[^\W_\u3040-\u30ff\u4e00-\u9fff]+|[#+]+"  # scripts without spaces stand apart
    r"|(?<=\w)-(?!\w)|(?<!\w)-(?=\d)"  # as in A- and -1; other hyphens part words
    r"""|[^\w\s\-"'`*.,;:?()\[\]{}<>/\\|$&=•·«»…「」『』【】。、]"""
)

_SPELLING = tuple(
    (re.compile(british), american)
    for british, american in (
        ("[ao]e", "e"),  # anaemia, oesophagus
        ("(?<=..)our", "or"),  # colour, but not hour
        ("(?<=..)is(e[ds]?|ing|ations?)$", r"iz\1"),  # synthesise
        ("ys(e[drs]?|ing)$", r"yz\1"),  # analyse
        ("(?<=[btv])re(s?)$", r"er\1"),  # metre, fibre
        ("ll(?=e[dr]|ing)", "l"),  # travelling
        ("sulph", "sulf"),
        ("inium$", "inum"),  # aluminium
        ("^gre(?=y)", "gra"),
        ("ogue(?=s?$)", "og"),
        ("(?<=[mo])ould(?=e?[rsy]?$)", "old"),  # mould
        ("(?<=.en)ce(?=s?$)", "se"),  # licence, defence
        ("mme(?=s?$)", "m"),  # programme
    )
)


def fold(text: str) -> str:
    """The text without case, accents, typographic variants, invisible characters and extra space.

    >>> fold("Soft\N{SOFT HYPHEN}ly  N\N{ZERO WIDTH SPACE}\u00e4ive\N{VARIATION SELECTOR-16}")
    'softly naive'
    """
    seen = _INVISIBLE.sub("", text)
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", seen).casefold().translate(_ALIKE))
    return " ".join(unicodedata.normalize("NFC", _ACCENT.sub("", plain)).split())


def words(text: str) -> tuple[str, ...]:
    """The words of a text, folded and in one spelling, and the signs that may change what it means (C#, A-, !name).

    Other punctuation parts words.
    """
    return tuple(_one_spelling(word) for word in _WORD.findall(fold(text)))


@functools.lru_cache(maxsize=1 << 15)
def _one_spelling(word: str) -> str:
    for british, american in _SPELLING:
        word = british.sub(american, word)
    return word
