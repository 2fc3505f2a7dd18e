"""Feature classes: which of a turn's features a player may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Value = str | float | bool


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

    def knows(self, name: str) -> bool:
        """Whether it can know the feature of this name: it has every sense that stands before the colon."""
        needed = set(name.partition(":")[0].split())
        return needed <= self.only if self.only is not None else not needed & self.without

    def reduced(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The features that it can know."""
        return {name: value for name, value in values.items() if self.knows(name)}


def feature_classes(names: Iterable[str]) -> list[FeatureClass]:
    """The classes that are searched, for features of these names.

    Everything (which shows how strong the learner is); the text alone; each sense but the text left out; the text and the
    places of things; the text and the labels on them.

    >>> [each.name for each in feature_classes(["text: step", "color: target"])]
    ['everything', 'text only', 'all but color']
    """
    senses = sorted({sense for name in names for sense in name.partition(":")[0].split()} - {"text"})
    classes = [FeatureClass("everything"), FeatureClass("text only", only=frozenset({"text"}))]
    for sense in ("label", "position"):
        if sense in senses and len(senses) > 1:
            classes.append(FeatureClass(f"text and {sense}s", only=frozenset({"text", sense})))
    return classes + [FeatureClass(f"all but {sense}", without=frozenset({sense})) for sense in senses]
