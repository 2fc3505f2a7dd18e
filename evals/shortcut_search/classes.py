"""Feature classes: which of a turn's features a player may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

Value = str | float | bool

COARSE: Final = "coarse-"
"""Before the name of a sense: what a player knows who has the sense, but cannot tell finely (two from three, left from
right). Such a value is for everybody but those who lack the sense altogether."""


@dataclass(frozen=True)
class FeatureClass:
    """A kind of player, by what it can perceive.

    >>> blind = FeatureClass("text only", only=frozenset({"text"}))
    >>> blind.reduced({"text: step": 1.0, "color: target": "red"})
    {'text: step': 1.0}
    """

    name: str
    only: frozenset[str] | None = None
    """The senses it has; None for all but those of ``without``."""
    without: frozenset[str] = frozenset()
    """The senses that it lacks."""
    coarse: frozenset[str] = frozenset()
    """The senses that it has only coarsely."""

    @property
    def senses(self) -> frozenset[str]:
        """The senses, coarse ones included, that tell it from other classes."""
        return self.without | {COARSE + sense for sense in self.coarse} | (self.only or frozenset())

    def knows(self, name: str) -> bool:
        """Whether it can know the feature of this name: it has every sense that stands before the colon."""
        needed = set(name.partition(":")[0].split())
        if self.only is not None:
            return needed <= self.only
        return needed.isdisjoint(self.coarse) and {_fine(sense) for sense in needed}.isdisjoint(self.without)

    def lacks(self, sense: str) -> bool:
        """Whether it does without this sense, or has it only coarsely."""
        return sense not in self.only if self.only is not None else sense in self.without | self.coarse

    def reduced(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The features that it can know."""
        return {name: value for name, value in values.items() if self.knows(name)}


def feature_classes(names: Iterable[str]) -> list[FeatureClass]:
    """The classes that are searched, for features of these names.

    Everything (which shows how strong the learner is); the text alone; the text and the places of things; the text and the
    labels on them; each sense but the text left out; each sense that has a coarse form, in this form only.

    >>> [each.name for each in feature_classes(["text: step", "count: here", "coarse-count: here"])]
    ['everything', 'text only', 'all but count', 'only a coarse count']
    """
    named = {sense for name in names for sense in name.partition(":")[0].split()} - {"text"}
    senses = sorted({_fine(sense) for sense in named})
    classes = [FeatureClass("everything"), FeatureClass("text only", only=frozenset({"text"}))]
    for sense in ("label", "position"):
        if sense in senses and len(senses) > 1:
            classes.append(FeatureClass(f"text and {sense}s", only=frozenset({"text", sense})))
    classes += [FeatureClass(f"all but {sense}", without=frozenset({sense})) for sense in senses]
    coarse = [sense for sense in senses if COARSE + sense in named]
    return classes + [FeatureClass(f"only a coarse {sense}", coarse=frozenset({sense})) for sense in coarse]


def _fine(sense: str) -> str:
    return sense.removeprefix(COARSE)
