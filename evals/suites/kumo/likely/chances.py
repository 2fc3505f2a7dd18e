"""The probabilities that a reply states: written by our own players, read from anyone's."""

from __future__ import annotations

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

    They are shares or percent; a truth that is not named has none. Between the last pair of tags each truth may stand once.

    Returns:
        None where there are no tags, where a truth stands twice, or where the numbers sum to neither 1 nor 100 within 5 %.
    """
    stated = _stated(reply)
    if stated is None:
        return None
    names = "|".join(map(re.escape, truths))
    entry = re.compile(rf"(?<!\w)({names})[\"'*`]{{0,4}}\s{{0,3}}[:=]\s{{0,3}}({_NUMBER})(?![\w.])", re.IGNORECASE)
    spelled = {name.casefold(): name for name in truths}
    found: dict[str, float] = {}
    for match in entry.finditer(stated):
        name = spelled.get(match[1].casefold())
        if name is None or name in found:
            return None
        found[name] = float(match[2])
    total = sum(found.values())
    off_shares, off_percent = abs(total - 1), abs(total / 100 - 1)
    if min(off_shares, off_percent) > _SLACK:
        return None
    return {truth: found.get(truth, 0.0) / total for truth in truths}
