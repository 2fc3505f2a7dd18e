"""How names are written in replies: which name a short text means, whatever its case, marks and spelling.

What could mean two names, or anything besides a name, is read as none.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from envs.kumo.names import fold, words

_FILLER_WORDS = """
    a an the i we you it is s d ll will would want should like to let lets us me my our your this next now so
    then with go going do run perform take use choose chosen choosing select selecting pick picking try order
    request conduct make test tests testing action actions truth truths name named naming prediction predict
    predicted predicting answer final finally choice choices option selected that as step result conclusion
    guess therefore thus hence boxed text textbf mathbf b i strong em code type value of for in round be must
    please proceed right correct my yes ok okay sure thank thanks → ✅ ✓ ✔ ☑
    我 选择 我选择 选 我选 答案 答案是 最终答案 最终答案是 是
    我的答案是 ich nehme wähle antwort meine ist die der das elijo respuesta es la el mi je choisis réponse est le
    ma
"""
_FILLER = frozenset(word for text in _FILLER_WORDS.split() for word in words(text))
"""Words that may stand around a name without changing what is meant; no negation, no conjunction."""

_DECIDING_WORDS = """
    answer choose choice select selected go pick predict prediction name perform run take request conduct
    proceed boxed conclusion 答案 答案是 最终答案 最终答案是 选择 我选择 选 antwort respuesta réponse elijo nehme wähle choisis
"""
_DECIDING = frozenset(word for text in _DECIDING_WORDS.split() for word in words(text))
"""Filler words with which a sentence decides, not only mentions."""

_LIST_MARK = re.compile(r"^(?:[-*+•·>#]+\s+|[-=]>|\(?\d{1,2}[.)]\s+)+")
_EDGE = " \t\r\n\"'`*_.,;:?!«»()[]{}<>•·\\「」『』【】。、|"
_LAYERS = 8
"""Marks around marks that are taken off; people write three."""
_ABBREVIATION = re.compile(r"\s*\(([A-Za-z0-9]{2,8})\)\W*$")


def bare(text: str) -> str:
    """The text folded, without list marks and the marks around it."""
    folded = fold(text).replace("<s>", "~")  # struck out is not chosen
    for _ in range(_LAYERS):
        shorter = _LIST_MARK.sub("", folded).rstrip(_EDGE).lstrip(_EDGE.replace("!", ""))
        if shorter == folded:
            break
        folded = shorter
    return folded


def read(text: str, names: Sequence[str], nouns: Sequence[str] = ()) -> tuple[str | None, str]:
    """Read a text that holds one name, however written, and besides at most filler words.

    Args:
        text: a line or the content of a tag.
        names: what it may mean.
        nouns: what the domain calls its truths and tests, fillers too.

    Returns:
        The name and how it is written (``exact``, ``marks``, ``placeholder``, ``label``, ``spelling``, ``abbreviation`` or
        ``phrase``), or None and ``unknown name`` or ``two names``.
    """
    if text.strip() in names:
        return text.strip(), "exact"
    forms = _forms(tuple(names))
    short = bare(text)
    mentioned, rest = _mentions(words(short), forms)
    if not mentioned:
        return _run_together(short, forms)
    filler = _FILLER.union(*map(words, nouns))
    if len(mentioned) == 1 and not filler.issuperset(rest):
        return _abbreviated(text, mentioned[0], forms, names, nouns)
    if len(mentioned) > 1:
        return None, "two names"
    return mentioned[0], _manner(short, forms[mentioned[0]][0], bool(rest))


def decides(text: str, names: Sequence[str], nouns: Sequence[str]) -> str | None:
    """The name that a sentence chooses in so many words, such as ``I choose X.`` or ``Final answer: X``."""
    if text.rstrip().endswith("?") or not _DECIDING.intersection(words(bare(text))):
        return None
    name = read(text, names, nouns)[0]
    common = name is not None and " " not in name and name not in text and ":" not in text
    return None if common else name  # to take this form is not to choose the test Form


def is_label(text: str) -> bool:
    """Whether a line only announces an answer, such as ``**Final answer:**``."""
    held = words(bare(text))
    return bool(held) and _FILLER.issuperset(held) and not _DECIDING.isdisjoint(held)


def _manner(short: str, form: str, others: bool) -> str:
    if short == form:
        return "marks"
    if "${" in short and bare(short.rpartition("${")[2].partition("}")[0]) == form:
        return "placeholder"
    label = short[: -len(form)].rstrip(_EDGE.replace(":", "")) if short.endswith(form) else ""
    if label.endswith((":", "=")):
        return "label"
    return "phrase" if others else "spelling"


@functools.lru_cache(maxsize=256)
def _forms(names: tuple[str, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each name without its marks, and its words."""
    return {name: (bare(name), words(bare(name))) for name in names}


def _mentions(text: Sequence[str], forms: dict[str, tuple[str, tuple[str, ...]]]) -> tuple[list[str], list[str]]:
    """The names that occur among the words, longest first where they overlap, and the words that belong to none."""
    free = [True] * len(text)
    found: list[str] = []
    spans: dict[tuple[int, int], str] = {}
    for name, (_, wanted) in sorted(forms.items(), key=lambda item: (-len(item[1][1]), item[0])):
        for start in range(len(text) - len(wanted) + 1) if wanted else ():
            span = (start, start + len(wanted))
            if tuple(text[slice(*span)]) != wanted or not (all(free[slice(*span)]) or span in spans):
                continue
            spans[span] = name
            free[slice(*span)] = [False] * len(wanted)
            if name not in found:
                found.append(name)
    return found, [word for word, is_free in zip(text, free, strict=True) if is_free]


def _run_together(short: str, forms: dict[str, tuple[str, tuple[str, ...]]]) -> tuple[str | None, str]:
    """A name whose words are parted otherwise, such as ``Crohns Disease`` or ``Xray``."""
    letters = "".join(words(short))
    alike = [name for name, (_, held) in forms.items() if "".join(held) == letters]
    return (alike[0], "spelling") if len(alike) == 1 else (None, "unknown name")


def _abbreviated(
    text: str, name: str, forms: dict[str, tuple[str, tuple[str, ...]]], names: Sequence[str], nouns: Sequence[str]
) -> tuple[str | None, str]:
    """A name with its abbreviation behind it in brackets, such as ``Atrial Fibrillation (AF)``."""
    match = _ABBREVIATION.search(text.rstrip(" \t\r\n*_`\"'."))
    if match is None:
        return None, "unknown name"
    if [other for other in names if _abbreviates(match[1], forms[other][1])] != [name]:
        return None, "unknown name"
    found, how = read(text[: match.start()], names, nouns)
    return (found, "abbreviation") if found == name and how != "phrase" else (None, "unknown name")


def _abbreviates(short: str, name: Sequence[str]) -> bool:
    """Whether capitals are a name's initials, or begin as it does and stand in it in this order."""
    letters, initials = short.casefold(), "".join(word[0] for word in name)
    in_order = re.search(".*".join(map(re.escape, letters)), "".join(name)) is not None
    return letters in (initials, f"{initials}s") or (short.isupper() and name[0].startswith(letters[0]) and in_order)
