"""The conditions of a study: runs of one player, by the settings in which they differ."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evals.analysis.compare import Side
from evals.analysis.differences import flat_settings
from evals.suite_results import suite_measures
from evals.summary.paired import Measure, Observation

FACTORS: Final = ("suite.", "history.", "model.sampling.", "model.system_role", "decoding")
"""Beginnings of the settings that may be factors of a study: what a player is told and how it answers."""

Key = tuple[Hashable, ...]
"""One value of one game, the same in all conditions."""


@dataclass(frozen=True)
class Condition:
    """One run of a study."""

    side: Side
    levels: Mapping[str, str]
    """The value of each factor, by its name."""

    def others(self, factor: str) -> tuple[tuple[str, str], ...]:
        """The values of all factors but one: conditions that agree in them differ in this factor only."""
        return tuple((name, value) for name, value in self.levels.items() if name != factor)


def conditions_of(sides: Sequence[Side]) -> list[Condition]:
    """The conditions of a study, the baseline first.

    Args:
        sides: One player in each of several runs.

    Raises:
        ValueError: fewer than two runs, two players, no setting that differs, or two runs with the same settings.
    """
    if len(sides) < 2:
        raise ValueError("a study takes two runs or more, of one player in different settings")
    players = list(dict.fromkeys(side.player for side in sides))
    if len(players) > 1:
        raise ValueError(f"a study is of one player; these runs are of {', '.join(players)}: name one with --player")
    settings = [dict(flat_settings(side.run.settings)) for side in sides]
    differing = _differing(settings)
    if not differing:
        raise ValueError("these runs differ in no setting of suite, history, sampling or decoding")
    short = _short_names(differing)
    seen: dict[tuple[tuple[str, str], ...], Condition] = {}
    for side, each in zip(sides, settings, strict=True):
        levels = {short[name]: _shown(each.get(name)) for name in differing}
        condition = Condition(side, levels)
        key = tuple(levels.items())
        if key in seen:
            raise ValueError(f"{seen[key].side.name} and {condition.side.name} have the same settings")
        seen[key] = condition
    return list(seen.values())


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that may be factors and do not have the same value in all runs."""
    found = []
    for name in dict.fromkeys(itertools.chain.from_iterable(settings)):
        if not name.startswith(FACTORS):
            continue
        values = {_shown(each.get(name)) for each in settings}
        if len(values) > 1:
            found.append(name)
    return found


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """The last part of each setting's name, or the whole name where two end alike.

    >>> _short_names(["suite.modality", "suite.history", "history.reasoning"])
    {'suite.modality': 'modality', 'suite.history': 'history', 'history.reasoning': 'reasoning'}
    """
    last = [name.rpartition(".")[2] for name in names]
    return {name: end if last.count(end) == 1 else name for name, end in zip(names, last, strict=True)}


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def factors_of(conditions: Sequence[Condition]) -> dict[str, list[str]]:
    """The values of each factor in the order of the conditions; the first is the baseline."""
    return {
        factor: list(dict.fromkeys(condition.levels[factor] for condition in conditions))
        for factor in conditions[0].levels
    }


def matched(
    conditions: Sequence[Condition], factor: str, value: str, base: str
) -> Iterator[tuple[Condition, Condition]]:
    """Pairs of conditions that differ in one factor only: the one with ``value``, the one with ``base``."""
    for first, second in itertools.product(conditions, conditions):
        differs = first.levels[factor] == value and second.levels[factor] == base
        if differs and first.others(factor) == second.others(factor):
            yield first, second


def measures_of(condition: Condition) -> dict[str, Measure]:
    """What the suites of a condition's run offer for comparison, by ``suite: measure``."""
    found = {}
    for part in condition.side.suite.parts:
        for measure in suite_measures(part, condition.side.run.of(part.name), condition.side.player):
            if measure.observations:
                found[f"{part.name}: {measure.name}"] = measure
    return found


def values_of(observations: Sequence[Observation]) -> dict[Key, float]:
    """Each value by what it is of; modes, repeats and questions of one game keep apart."""
    return {(one.cell, one.game, one.unit): one.value for one in observations}
