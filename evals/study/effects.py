"""What each factor of a study changes, on identical games, and whether two of them together do more than each alone."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from evals.figures import CLUSTERED, Figure, Series
from evals.stats.intervals import Estimate
from evals.study.conditions import Condition, factors_of, matched, measures_of, values_of
from evals.summary.paired import Effect, Observation, holm, paired_effects
from evals.tables import Cell, Table

Measured = Mapping[int, Mapping[str, Sequence[Observation]]]
"""The observations of each condition (by its place), by measure."""

_NOTE = (
    "Each difference pairs the same games in conditions that differ in this factor only. Brackets: 95 % confidence, "
    "clustered by game. Holm p: corrected for the rows of the table."
)


def measured(conditions: Sequence[Condition]) -> dict[int, dict[str, Sequence[Observation]]]:
    """The observations of all conditions, read once."""
    return {
        place: {name: measure.observations for name, measure in measures_of(condition).items()}
        for place, condition in enumerate(conditions)
    }


def shared_names(observations: Measured) -> list[str]:
    """The measures that all conditions have."""
    first, *others = observations.values()
    return [name for name in first if all(name in other for other in others)]


def main_effects(conditions: Sequence[Condition], observations: Measured, measure: str) -> list[Effect]:
    """The effect of each value of each factor against the factor's first value; cells are (factor, value, baseline)."""
    found = []
    for factor, (base, *values) in factors_of(conditions).items():
        for value in values:
            first, second = list[Observation](), list[Observation]()
            for one, other in matched(conditions, factor, value, base):
                first += _within(observations[conditions.index(one)][measure], one.others(factor))
                second += _within(observations[conditions.index(other)][measure], other.others(factor))
            effects = paired_effects(first, second)
            found += [_of(effect, factor, value, base) for effect in effects]
    return found


def interactions(conditions: Sequence[Condition], observations: Measured, measure: str) -> list[Effect]:
    """How much more two changes do together than the sum of each alone; cells are (both changes, "", "").

    For each game the four values of a two by two of conditions: both changes and none, against each alone.
    """
    found = []
    factors = factors_of(conditions)
    for (one, (base, *values)), (other, (other_base, *other_values)) in itertools.combinations(factors.items(), 2):
        for value, other_value in itertools.product(values, other_values):
            together, alone = list[Observation](), list[Observation]()
            for square in _squares(conditions, (one, value, base), (other, other_value, other_base)):
                both, first, second, none = (values_of(observations[place][measure]) for place in square)
                for key in both.keys() & first.keys() & second.keys() & none.keys():
                    cell, game, unit = key
                    name = (cell, unit, square)
                    together.append(Observation((), game, name, both[key] + none[key]))
                    alone.append(Observation((), game, name, first[key] + second[key]))
            effects = paired_effects(sorted(together, key=repr), alone, span=2)
            found += [_of(effect, f"{one}={value} and {other}={other_value}", "", "") for effect in effects]
    return found


def _squares(
    conditions: Sequence[Condition], first: tuple[str, str, str], second: tuple[str, str, str]
) -> list[tuple[int, int, int, int]]:
    """Places of four conditions that differ in two factors only: both changed, the first, the second, none."""
    (one, value, base), (other, other_value, other_base) = first, second
    places = {tuple(condition.levels.items()): place for place, condition in enumerate(conditions)}
    found = []
    for condition in conditions:
        has_both = condition.levels[one] == value and condition.levels[other] == other_value
        if not has_both:
            continue
        corners = [{}, {other: other_base}, {one: base}, {one: base, other: other_base}]
        levels = [tuple({**condition.levels, **corner}.items()) for corner in corners]
        # A design that is not full may lack a corner.
        if not places.keys() >= {*levels}:
            continue
        both, only_first, only_second, none = (places[each] for each in levels)
        found.append((both, only_first, only_second, none))
    return found


def _within(observations: Sequence[Observation], others: tuple[tuple[str, str], ...]) -> list[Observation]:
    """All in one cell, told apart by where they stood and by the values of the other factors."""
    return [one._replace(cell=(), unit=(one.cell, one.unit, others)) for one in observations]


def _of(effect: Effect, *cell: str) -> Effect:
    return dataclasses.replace(effect, cell=cell)


def effects_table(measure: str, effects: Sequence[Effect]) -> Table:
    """The effects of all factors on one measure."""
    corrected = holm([effect.p for effect in effects])
    rows: list[tuple[Cell, ...]] = [
        (*effect.cell, effect.first, effect.second, effect.difference, effect.p, p, effect.games)
        for effect, p in zip(effects, corrected, strict=True)
    ]
    return Table(
        f"study_effects_{_stem(measure)}",
        f"Effects on {measure}",
        ("factor", "value", "against", "with value", "with other", "difference", "p", "Holm p", "games"),
        tuple(rows),
        notes=(_NOTE,),
        headline=True,
    )


def interactions_table(measure: str, effects: Sequence[Effect]) -> Table:
    """The interactions of factors on one measure."""
    corrected = holm([effect.p for effect in effects])
    rows: list[tuple[Cell, ...]] = [
        (effect.cell[0], effect.difference, effect.p, p, effect.games)
        for effect, p in zip(effects, corrected, strict=True)
    ]
    return Table(
        f"study_interactions_{_stem(measure)}",
        f"Two changes together, beyond the sum of each alone: {measure}",
        ("changes", "difference of differences", "p", "Holm p", "games"),
        tuple(rows),
        notes=("0: the effects add up. Brackets: 95 % confidence, clustered by game.",),
    )


def effects_figure(effects: Mapping[str, Sequence[Effect]]) -> Figure:
    """A forest plot of the effects, a panel for each measure."""
    series = []
    for measure, found in effects.items():
        rows: dict[str, Estimate] = {f"{e.cell[0]}={e.cell[1]} (against {e.cell[2]})": e.difference for e in found}
        series.append(Series("difference", tuple(rows), tuple(rows.values()), measure))
    return Figure(
        name="study_effects",
        title="Effect of each factor on the same games",
        kind="dots",
        series=tuple(series),
        y_label="with the value, minus with the other",
        intervals=CLUSTERED,
        unit="games",
        line=0.0,
    )


def _stem(measure: str) -> str:
    return measure.replace(": ", "_").replace(" ", "_")
