"""The probabilities that a reply states: written by our own players, read from anyone's."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final

_OPEN, _CLOSE = "<CHANCES>", "</CHANCES>"
_LONGEST: Final = 4000
"""Characters between the tags that are read."""
_NUMBER: Final = r"\d{1,3}(?:\.\d{1,9})?|\.\d{1,9}"
_SLACK: Final = 0.05
"""How far the sum may be from 1, or from 100 percent."""


def state_chances(chances: Mapping[str, float]) -> str:
    """Probabilities in the form that players are asked for."""
    return f"{_OPEN} {', '.join(f'{name}: {100 * chance:.6f}' for name, chance in chances.items())} {_CLOSE}"


def without_chances(reply: str) -> str:
    """A reply without what stands between the tags, which names several candidates and is no answer."""
    before, opened, rest = reply.rpartition(_OPEN)
    if not opened:
        return reply
    _, _, behind = rest.partition(_CLOSE)
    return f"{before} {behind}"


def _stated(reply: str) -> str | None:
    """What stands between the last pair of tags; None where there are none, or where it is too long."""
    _, opened, rest = reply.rpartition(_OPEN)
    stated, closed, _ = rest.partition(_CLOSE)
    if not opened or not closed:
        return None
    if len(stated) > _LONGEST:
        return None
    return stated


def read_chances(reply: str, truths: Sequence[str]) -> dict[str, float] | None:
    """The probabilities that a reply states for each truth, summing to 1.

    They are shares or percent, which a percent sign at one of them decides; a truth that is not named has none. Between the
    last pair of tags each truth may stand once, and nothing else may be said of it.

    Returns:
        None where there are no tags, where a truth stands twice or otherwise, or where the numbers sum to neither 1 nor 100
        within 5 %.
    """
    stated = _stated(reply)
    if stated is None:
        return None
    entry, name_alone = _patterns(tuple(truths))
    spelled = {name.casefold(): name for name in truths}
    found: dict[str, float] = {}
    in_percent = False
    for match in entry.finditer(stated):
        name = spelled.get(match[1].casefold())
        if name is None or name in found:
            return None
        found[name] = float(match[2])
        in_percent = in_percent or bool(match[3])
    # "not Flu: 90", "Flu: 1 of 2" or another disease's "Swine Flu: 50": what is said of a truth otherwise is not guessed at.
    if name_alone.search(entry.sub(" ", stated)):
        return None
    total = sum(found.values())
    off_shares, off_percent = abs(total - 1), abs(total / 100 - 1)
    off = off_percent if in_percent else min(off_shares, off_percent)
    if off > _SLACK:
        return None
    return {truth: found.get(truth, 0.0) / total for truth in truths}


@functools.lru_cache(maxsize=256)
def _patterns(truths: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What finds an entry, such as ``Flu: 40 %``, from the mark before it up to the one behind it; and a truth's name."""
    names = "|".join(map(re.escape, truths))
    marks = r"[\"'*`]{0,4}"
    before = rf"(?:^|[,;|{{(\[\n]|(?<=[\d%.])\s|(?<=\s)and\s)\s*(?:(?:[-•*]|\d{{1,2}}[.)])\s{{1,3}})?{marks}"
    behind = rf"{marks}(?=\s*(?:[;|)}}\]\n]|,(?!\d)|\.(?!\d)|and\s|$)|\s+{marks}(?:{names})(?!\w))"
    number = rf"\s{{0,3}}[:=]\s{{0,3}}{marks}({_NUMBER})\s?(%|percent)?"
    entry = re.compile(rf"{before}({names}){marks}{number}{behind}", re.IGNORECASE)
    return entry, re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)
