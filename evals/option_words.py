"""Which option a short text means by its words: ``go right`` for *move right*, ``Door 2.``, ``en haut à gauche``.

A text fits an option if every word of it that is no filler is a word of the option, as it is written, misspelled by a letter
or two, or in another language (``option_words.txt``). A text that fits several options, or says more, means none.
"""

from __future__ import annotations

import difflib
import functools
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

_WORD = re.compile(r"[a-z0-9+#]+(?:[-'][a-z0-9]+)*|[^\W\d_]+|\d+")
_MARKUP = re.compile(r"<[^<>]*>|\\(?:text|circ|boxed)|[*_`$\\]")
_OPPOSED = re.compile(
    r"\s*(?:[,;(—–]|\s-)\s*(?:and |und |et |y )?"
    r"(?:(?:not|nicht|keinesfalls|pas|no|non|rather than|instead of)\b|而不是|不是).*$"
)
_REASON = re.compile(r"\s*(?:\b(?:because|since|weil|parce que|porque|because of)\b|因为|, as\b|\(the\b).*$")
_NEGATION = re.compile(
    r"n't\b|\b(?:not|never|cannot|nicht|pas|nor|neither|wrong|or|oder|ou)\b|[不没非✗✘❌✖]|ではありません|ない"
)
_TURNS = re.compile(
    r"\b(?:no|not|wait|actually|sorry|hold on|oh|so|instead|but|hmm|pero|aber|mais)\b|n't\b|不|所以", re.IGNORECASE
)
"""Words with which a reply goes from one option to another."""
_LIST_MARK = re.compile(r"\s*(?:[-*•|]|\d+[.)])\s")
_STATE = re.compile(r"\b(?:remaining|left|excluded|eliminated|done|candidates|possible|known|results?)\b")
"""Before a colon with which a list of names begins, and no answer."""
_LAST_A = re.compile(r"(?<=\w )A\b(?! )")
"""A letter that ends a name, and no article."""
_SMILEY = re.compile(r"[:;]-?[)(DPp]|xD")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+|(?:=>|->|→)\s*|;\s+|\.\.\.\s*")
_CONCLUSION = re.compile(
    r"\b(?:so|hence|therefore|thus|donc|somit|also|por tanto|entonces|it's)\b,?\s|(?:所以|因此|したがって),?|[:：]\s"
)
_ALIKE = 0.82
"""How like a word of an option (difflib's ratio) a misspelled word of five letters or more must be."""
_LONGEST_END = 1500
"""Characters at the end of a text that are looked at."""
_LONGEST_SENTENCE = 400
_LONGEST = 90
"""Characters of a sentence that may be nothing but an option."""


def sole_option(text: str, options: Sequence[str], subject: bool = False) -> int | None:
    """Index of the option that a text, or the sentence that ends it, means and says nothing besides; None if there is none.

    Args:
        text: The content of a tag, or a whole reply.
        options: What the options say.
        subject: Whether what *it is* may be put before, in words of no option: *the missing one is the star*.
    """
    text = _SMILEY.sub("", text[-_LONGEST_END:]).strip()
    if not text or "~~" in text or "<s>" in text or text.rstrip(" \"'*`)").endswith(("?", "？")):
        return None
    sentences = [part for part in _SENTENCE.split(text) if part and re.search(r"\w", part)]
    if len([part for part in sentences if _LIST_MARK.match(part)]) > 1:
        return None
    for candidate in dict.fromkeys((text, *sentences[-1:])):
        if (found := _meant(candidate, tuple(options), subject)) is not None:
            others = {_meant(part, tuple(options), subject) for part in sentences[:-1]} - {found, None}
            return None if others and candidate != text and not _TURNS.search(text) else found
    return None


def _meant(sentence: str, options: tuple[str, ...], subject: bool) -> int | None:
    if len(sentence) > _LONGEST_SENTENCE:
        return None
    plain = _folded(sentence)
    plain = _REASON.sub("", _OPPOSED.sub("", plain)) or plain
    tails = [plain]
    for match in list(_CONCLUSION.finditer(plain))[-1:]:
        clause = re.split(r"[,;.]", plain[: match.start()])[-1]
        if not _NEGATION.search(clause) and not _STATE.search(clause):
            tails.append(plain[match.end() :])
    if subject:
        known: frozenset[str] = frozenset().union(*(frozenset(_content(option)) for option in options))
        for match in re.finditer(r"\b(?:is|es|ist|est|semble|sits|è|lies)\b|是", plain):
            if known.isdisjoint(_content(plain[: match.start()])) and not re.match(r"(?:an?|there) ", plain):
                tails.append(plain[match.end() :])
                break
    for tail in tails:
        if (
            len(tail) <= _LONGEST
            and not _NEGATION.search(tail)
            and (found := _fitting(_content(tail), options)) is not None
        ):
            return found
    return None


def _fitting(said: Sequence[str], options: tuple[str, ...]) -> int | None:
    """The only option that has all the words said, or the only one that has no others."""
    if not said:
        return None
    offered = [_content(option) for option in options]
    every = sorted({word for words in offered for word in words})
    read = [word if word in every else _alike(word, every) for word in said]
    fits = [index for index, words in enumerate(offered) if all(word in words for word in read)]
    exact = [index for index in fits if set(offered[index]) == set(read)]
    if (
        len(read) == 1
        and str(read[0]).isdecimal()
        and len({frozenset(word for word in words if not word.isdecimal()) for words in offered}) > 1
    ):
        fits = exact
    for chosen in (exact, fits):
        if len(chosen) == 1:
            return chosen[0]
    return None


def _alike(word: str, every: Sequence[str]) -> str | None:
    """The word that a misspelled one stands for; words that differ in sense by a prefix are not misspelled."""
    close = difflib.get_close_matches(word, every, 2, _ALIKE) if len(word) >= 5 and word.isalpha() else []
    close = [other for other in close if not (other.endswith(word) or word.endswith(other))]
    return close[0] if len(close) == 1 else None


@functools.lru_cache(maxsize=4096)
def _content(text: str) -> tuple[str, ...]:
    """A text's words without fillers, in one language and spelling."""
    filler, same, eastern = _lexicon()
    plain = _folded(_LAST_A.sub("lettera", text))
    for word, meaning in eastern:
        plain = plain.replace(word, f" {meaning} ")
    words = (same.get(word, word) for word in _WORD.findall(plain.replace("anti-clock", "anticlock")))
    meant = (same.get(word, word) for word in words if word not in filler)
    return tuple(
        word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith("ss") else word for word in meant
    )


@functools.cache
def _lexicon() -> tuple[frozenset[str], dict[str, str], list[tuple[str, str]]]:
    """The fillers, words for words, and the parts of Eastern sentences, longest first."""
    text = Path(__file__).with_name("option_words.txt").read_text(encoding="utf-8")
    filler, same, eastern = (part.split("\n", 1)[1] for part in text.split("# ")[1:])
    pairs = [[*line.split(), ""][:2] for line in eastern.splitlines() if line.strip()]
    parts = [(word, meaning.replace("_", " ")) for word, meaning in pairs]
    parts += [(word, "") for word in filler.split() if not word.isascii()]
    return (
        frozenset(filler.split()),
        dict(line.split() for line in same.splitlines() if line.strip()),  # type: ignore[misc]
        sorted(parts, key=lambda part: -len(part[0])),
    )


def _folded(text: str) -> str:
    """The text in lower case, without accents and markup; hyphens between words part them."""
    plain = unicodedata.normalize(
        "NFKD", unicodedata.normalize("NFKC", _MARKUP.sub(" ", text.replace("’", "'")))
    ).casefold()
    plain = re.sub(r"(?<=[a-z])[\u0300-\u036f]", "", plain)
    plain = re.sub(r"\bpick(?:ing|ed)?(?: (?:it|them))? up\b", "pickup", plain)
    plain = re.sub(r"(?<=[a-z])-(?=left|right)", " ", unicodedata.normalize("NFC", plain).replace("°", " degrees "))
    return re.sub(r"\b([djlmts])'(?=[a-z]{2})", r" ", plain)
