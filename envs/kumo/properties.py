"""The compact form of a domain file: truths have properties, and a test's outcomes rule out values of one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envs.kumo.domain import Range

Value = tuple[str, ...]
"""The values that one truth's property may take, or one range of numbers."""

_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})(?: to ({_NUMBER}))?")


def range_of(text: object) -> Range | None:
    """The range that a text such as ``5 to 12`` or ``5`` stands for."""
    match = _RANGE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    low, high = float(match[1]), float(match[2] or match[1])
    return (low, high) if max(abs(low), abs(high)) < 1e300 else None


@dataclass(frozen=True)
class Properties:
    """The property table of a domain's truths; truths without properties are in it, too."""

    truths: Mapping[str, Mapping[str, Value]]

    @property
    def names(self) -> frozenset[str]:
        """All properties that a truth has."""
        return frozenset(name for held in self.truths.values() for name in held)

    def values(self, name: str) -> tuple[str, ...]:
        """The values that the truths' property takes."""
        return tuple(dict.fromkeys(value for held in self.truths.values() for value in held.get(name, ())))

    def only(self, name: str, values: Iterable[str]) -> set[str]:
        """The truths whose property can take no other than these values; those without the property are not among them."""
        listed = set(values)
        found = set()
        for truth, held in self.truths.items():
            own = held.get(name)
            if own and listed.issuperset(own):
                found.add(truth)
        return found

    def not_ranges(self, name: str) -> list[str]:
        """The truths whose property is not one range of numbers."""
        odd = []
        for truth, held in self.truths.items():
            if name not in held:
                continue
            values = held[name]
            if len(values) != 1 or range_of(values[0]) is None:
                odd.append(truth)
        return odd

    def outside(self, name: str, shown: Range) -> set[str]:
        """The truths whose range has no number in common with the one shown."""
        gone = set()
        low, high = shown
        for truth, held in self.truths.items():
            if name not in held:
                continue
            own = range_of(held[name][0])
            if own is None:
                continue
            own_low, own_high = own
            apart = own_high < low or own_low > high
            if apart:
                gone.add(truth)
        return gone
