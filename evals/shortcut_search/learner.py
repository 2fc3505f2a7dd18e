"""The learner, fixed so that results can be compared: gradient-boosted trees that tell good options from bad ones.

Each option of each turn is one example: its features, whether they are the least or the most among the options offered, and
how many other options share them. The target is whether perfect play could take it. A player takes the option that the
trees find likeliest; equal ones are drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Final

import numpy as np

from evals.shortcut_search.classes import FeatureClass, Value
from evals.types import OptionFeatures

TREES: Final = 100
LEAVES: Final = 31
LEAST_IN_LEAF: Final = 10
RATE: Final = 0.1
"""Settings of the trees; scikit-learn's defaults but for their number and the least examples in a leaf."""


def among(options: Sequence[Mapping[str, Value]]) -> list[dict[str, Value]]:
    """The values of each option, with how they stand to those of the other options.

    >>> among([{"text: label": 3.0}, {"text: label": 1.0}])[1]
    {'text: label': 1.0, 'text: label, least': True, 'text: label, most': False}
    """
    completed = [dict(values) for values in options]
    names = dict.fromkeys(itertools.chain.from_iterable(options))
    for name in names:
        by_place = {place: values[name] for place, values in enumerate(completed) if name in values}
        held = [*by_place.values()]
        # What is the same for all tells none from another.
        all_hold_it = len(held) == len(options)
        if all_hold_it and len(set(held)) == 1:
            continue
        for place, value in by_place.items():
            completed[place].update(_standing(name, value, held))
    return completed


def _standing(name: str, value: Value, held: Sequence[Value]) -> dict[str, Value]:
    """How one option's value stands to all that hold one: at an end if it is a number, else how many share it."""
    if not isinstance(value, float):
        return {f"{name}, how many share it": float(held.count(value))}
    numbers = [each for each in held if isinstance(each, float)]
    return {f"{name}, least": value == min(numbers), f"{name}, most": value == max(numbers)}


class Learner:
    """A player of one feature class in one cell."""

    def __init__(self, known: FeatureClass, seed: int = 0) -> None:
        """Nothing is learned yet; ``seed`` decides how equal options are drawn."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.feature_extraction import DictVectorizer

        self._known = known
        self._random = Random(f"{known.name}/{seed}")
        self._columns = DictVectorizer(sparse=False, dtype=np.float32)
        self._trees = HistGradientBoostingClassifier(
            max_iter=TREES,
            max_leaf_nodes=LEAVES,
            min_samples_leaf=LEAST_IN_LEAF,
            learning_rate=RATE,
            early_stopping=False,
            random_state=seed,
        )
        self._constant = False

    def learn(self, turns: Sequence[Sequence[OptionFeatures]], good: Sequence[Sequence[bool]]) -> None:
        """Learn from turns: the options of each, and which of them perfect play could take."""
        rows = [values for options in turns for values in self._rows(options)]
        targets = np.array([each for options in good for each in options])
        # A turn counts once, however many options it has.
        weights = np.array([1 / len(options) for options in good for _ in options])
        self._constant = bool(targets.all()) or not targets.any() or not any(rows)
        if not self._constant:
            with _one_thread():
                self._trees.fit(self._columns.fit_transform(rows), targets, sample_weight=weights)

    def choose(self, turns: Sequence[Sequence[OptionFeatures]]) -> list[int]:
        """The option that it takes in each of several turns."""
        if self._constant or not turns:
            return [self._random.randrange(len(options)) for options in turns]
        rows = list[dict[str, Value]]()
        for options in turns:
            rows += self._rows(options)
        with _one_thread():
            likely: Any = self._trees.predict_proba(self._columns.transform(rows))[:, 1]
        chosen, start = [], 0
        for options in turns:
            of_turn = likely[start : start + len(options)].round(9)
            best = np.flatnonzero(of_turn == of_turn.max())
            chosen.append(int(self._random.choice(list(best))))
            start += len(options)
        return chosen

    def _rows(self, options: Sequence[OptionFeatures]) -> list[dict[str, Value]]:
        return among([self._known.reduced(option.values) for option in options])


def _one_thread() -> AbstractContextManager[Any]:
    """Trees are small: on busy cores several threads wait for each other eight times as long as one thread works."""
    from threadpoolctl import threadpool_limits

    limited: AbstractContextManager[Any] = threadpool_limits(1)
    return limited
