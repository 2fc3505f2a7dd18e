"""A run beside the papers: its cells beside the published figures of the same model, or of its neighbors in size."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evals.reference import Conditions, Figure, Paper, model_named, nearest, parameters_of, published
from evals.reference.figures import SHARES
from evals.stats.intervals import (
    NONNEGATIVE,
    Estimate,
    difference_estimate,
    intraclass_correlation,
    mean_estimate,
    proportion_estimate,
    wilson_estimate,
)
from evals.summary.paired import file_stem
from evals.tables import Cell, Table


@dataclass(frozen=True)
class RunCell:
    """What one player did in one cell of a run.

    Attributes:
        player: As in the ledger.
        measure: As in ``Figure.measure``.
        cell: As in ``Figure.cell``.
        values: One per observation; for shares 0 or 1.
        games: The game of each observation; those of one game are not independent.
    """

    player: str
    measure: str
    cell: Mapping[str, str]
    values: Sequence[float]
    games: Sequence[Hashable]

    @cached_property
    def estimate(self) -> Estimate:
        """Mean or share with its interval."""
        if self.measure in SHARES:
            return proportion_estimate([bool(value) for value in self.values], self.games)
        # Relative actions, (actions - optimal) / optimal, may fall below 0 for a player that guesses early.
        bounds = (-1.0, math.inf) if self.measure.startswith("relative") else NONNEGATIVE
        return mean_estimate(self.values, self.games, bounds=bounds)


def published_tables(
    suite: str,
    title: str,
    cells: Sequence[RunCell],
    conditions: Conditions,
    settings: Mapping[str, Any] | None = None,
    stored_names: Mapping[str, str] | None = None,
) -> list[Table]:
    """For each player of a run a table beside the paper.

    A player whose model is in the paper, or who plays as one of its baselines did, stands beside that row, with the
    difference. Any other model stands beside the two rows nearest in size and the best one; a built-in player that the
    paper does not have stands beside nothing. Cells without a published figure are left out, and players without any.

    Args:
        suite: Name of the suite; its paper's figures are in ``evals/reference/tables``.
        title: What tables call the suite.
        cells: Of all players.
        conditions: Of this run's games, in the words that the paper's are kept in (``Paper.conditions``).
        settings: The run's configuration, which names its built-in players and the model's sampling and weights.
        stored_names: What the ledger calls players that have other names here (``RunData.stored_names``).
    """
    paper = published(suite)
    settings = settings or {}
    built_in = _built_in_players(settings)
    tables: list[Table] = []
    summary: list[tuple[Cell, ...]] = []
    for player, played in _played_by(cells).items():
        stored = (stored_names or {}).get(player, player)
        is_built_in = stored in built_in
        row = paper.baseline_of(stored) or _own_row(paper, stored)
        if not row and is_built_in:
            continue
        if row:
            summary += _short_rows(paper, row, player, played)
        met = conditions
        if settings:
            met = _with_model(conditions, paper, settings, is_model=not is_built_in)
        for part, table in _beside(paper, row, parameters_of(stored), played):
            name = "_".join([suite, "published", *part, file_stem(player)])
            notes = (*table.notes, *_condition_notes(met, paper))
            tables.append(dataclasses.replace(table, name=name, title=f"{title}: {table.title}", notes=notes))
    if not summary:
        return tables
    return [_short_table(suite, title, paper, summary), *tables]


def _built_in_players(settings: Mapping[str, Any]) -> set[str]:
    """The players of a run that need no engine: its baselines, and its model where that is one (``model=random``)."""
    found = {*(settings.get("baselines") or ())}
    model = settings.get("model") or {}
    if "engine" in model and model["engine"] is None:
        found.add(model.get("name"))
    return found


def _played_by(cells: Sequence[RunCell]) -> dict[str, list[RunCell]]:
    """The cells of each player in which it has played."""
    played: dict[str, list[RunCell]] = {}
    for cell in cells:
        own = played.setdefault(cell.player, [])
        if cell.values:
            own.append(cell)
    return played


def _beside(paper: Paper, row: str, size: float | None, cells: Sequence[RunCell]) -> Iterator[tuple[list[str], Table]]:
    """A player's cells beside its own row of the paper; without one, beside its neighbors in size and the best model.

    Yields:
        What a table's name says of its cells, and the table; none where no cell is in the paper.
    """
    best = ""
    if not row:
        best = _best(paper, cells)
    for part, of_part in _parts(cells):
        table = _own_table(paper, row, of_part) if row else _neighbors_table(paper, size, of_part, best)
        if table.rows:
            yield part, table


def _with_model(conditions: Conditions, paper: Paper, settings: Mapping[str, Any], is_model: bool) -> Conditions:
    """The conditions with the model's temperature and weights; of a built-in player there is nothing to say."""
    if is_model:
        return dataclasses.replace(conditions, **model_conditions(settings))
    theirs = paper.conditions
    return dataclasses.replace(conditions, temperature=theirs.temperature, weights=theirs.weights)


def _short_rows(paper: Paper, row: str, player: str, cells: Sequence[RunCell]) -> Iterator[tuple[Cell, ...]]:
    """For each measure the means over the cells that both have, and in how many of them the interval excludes 0."""
    pairs: defaultdict[str, list[tuple[RunCell, Figure]]] = defaultdict(list)
    for cell in cells:
        figure = paper.find(row, cell.measure, cell.cell)
        if figure is not None:
            pairs[cell.measure].append((cell, figure))
    for measure, found in pairs.items():
        ours, theirs = list[float](), list[float]()
        apart = 0
        for cell, figure in found:
            ours.append(cell.estimate.mean)
            theirs.append(figure.value)
            between = difference(cell, figure)
            # Neither where there is no interval.
            if between.low > 0 or between.high < 0:
                apart += 1
        our_mean, their_mean = statistics.fmean(ours), statistics.fmean(theirs)
        printed_row = found[0][1].row
        yield player, printed_row, measure, len(found), our_mean, their_mean, our_mean - their_mean, apart


def _short_table(suite: str, title: str, paper: Paper, rows: Sequence[tuple[Cell, ...]]) -> Table:
    return Table(
        name=f"{suite}_beside_paper",
        title=f"{title}: beside the {paper.source}",
        columns=("player", "paper's row", "measure", "cells", "this run", "paper", "difference", "cells that differ"),
        rows=tuple(rows),
        notes=(
            "Unweighted means over the cells that both have. cells that differ: those whose 95 % interval of the "
            "difference excludes 0, of which 5 % do by chance. A table for each player shows every cell.",
        ),
        headline=True,
    )


def model_conditions(settings: Mapping[str, Any]) -> dict[str, str]:
    """Temperature and weights as a run's configuration records them.

    >>> model_conditions({"model": {"sampling": {"temperature": 0.0}, "engine": {"type": "vllm", "dtype": "bfloat16"}}})
    {'temperature': '0', 'weights': 'bfloat16'}
    """
    model = settings.get("model") or {}
    temperature = (model.get("sampling") or {}).get("temperature")
    engine = model.get("engine") or {}
    kinds = [str(engine[name]) for name in ("dtype", "quantization") if engine.get(name)]
    return {
        "temperature": "server default" if temperature is None else f"{temperature:g}",
        "weights": ", ".join(kinds) or "as the engine serves them",
    }


def _parts(cells: Sequence[RunCell]) -> Iterator[tuple[list[str], list[RunCell]]]:
    """Cells that fit into one table of 80 columns, each with what its name says of it."""
    shapes: defaultdict[tuple[str, ...], list[RunCell]] = defaultdict(list)
    for cell in cells:
        shapes[tuple(cell.cell)].append(cell)
    for alike in shapes.values():
        by_measure = _by_measure(alike)
        varying, _ = _keys(alike)
        # Measures with the same dimensions stand in one table, unless more than two of the dimensions vary.
        narrow = len(by_measure) == 1 or len(varying) <= 3
        if narrow and len(shapes) == 1:
            yield [], alike
            continue
        for measure, found in by_measure.items():
            yield [measure.replace(" ", "_").lower()], found


def _by_measure(cells: Sequence[RunCell]) -> Mapping[str, list[RunCell]]:
    found: defaultdict[str, list[RunCell]] = defaultdict(list)
    for cell in cells:
        found[cell.measure].append(cell)
    return found


def difference(cell: RunCell, figure: Figure) -> Estimate:
    """This run minus a published figure.

    Where the paper says of how many observations a share is, its sampling error counts too: Wilson's interval, widened for
    several observations of one game as much as this run's own repeats say (fully, where it has none). Otherwise the
    interval holds this run's uncertainty only.
    """
    return difference_estimate(cell.estimate, _published_estimate(figure, cell))


def _published_estimate(figure: Figure, cell: RunCell) -> Estimate:
    if figure.n is None or figure.games is None or figure.measure not in SHARES:
        return Estimate(figure.value, figure.value, figure.value, 1)
    alike = intraclass_correlation(cell.values, cell.games)
    design_effect = 1 + (figure.n / figure.games - 1) * (1.0 if alike is None else alike)
    return wilson_estimate(figure.value, figure.n, design_effect)


# --- a row of its own ------------------------------------------------------------------------------------------------


def _own_row(paper: Paper, player: str) -> str:
    model = model_named(player)
    return model.name if model is not None and paper.suite in model.rows else ""


def _own_table(paper: Paper, row: str, cells: Sequence[RunCell]) -> Table:
    figures = [paper.find(row, cell.measure, cell.cell) for cell in cells]
    found = [(cell, figure) for cell, figure in zip(cells, figures, strict=True) if figure is not None]
    if not found:
        return _EMPTY
    keys, constant = _keys([cell for cell, _ in found])
    rows: list[tuple[Cell, ...]] = [
        (*_key(cell, keys), cell.estimate.mean, figure.value, difference(cell, figure)) for cell, figure in found
    ]
    sources = ", ".join(dict.fromkeys(figure.table for _, figure in found))
    return Table(
        name="",
        title=f"{cells[0].player} beside the paper's {found[0][1].row}{constant}",
        columns=(*keys, "this run", "paper", "difference"),
        rows=tuple(rows),
        notes=(
            f"paper: {sources} of the {paper.source}.",
            *_correction_notes([figure for _, figure in found]),
            *_interval_notes([figure for _, figure in found]),
        ),
    )


def _correction_notes(figures: Sequence[Figure]) -> list[str]:
    wrong = [(figure.correction, figure) for figure in figures if figure.correction]
    if not wrong:
        return []
    whys = dict.fromkeys(f"{figure.table}, {correction.why}" for correction, figure in wrong)
    return [f"{len(wrong)} printed figures are wrong or doubtful and corrected where known: {'; '.join(whys)}."]


def _interval_notes(figures: Sequence[Figure]) -> list[str]:
    both = dict.fromkeys(figure.measure for figure in figures if figure.n and figure.measure in SHARES)
    ours = dict.fromkeys(figure.measure for figure in figures if figure.measure not in both)
    covers = "the interval of the difference covers the sampling error"
    notes = []
    if both:
        notes.append(f"{', '.join(both)}: {covers} of both.")
    if ours:
        notes.append(f"{', '.join(ours)}: {covers} of this run only; the paper states none.")
    return notes


# --- neighbors in size -----------------------------------------------------------------------------------------------


def _neighbors_table(paper: Paper, size: float | None, cells: Sequence[RunCell], best: str) -> Table:
    kinds = _neighbors(paper, size, cells)
    if best:
        kinds.setdefault(best, "best")
    found = []
    for cell in cells:
        figures = [paper.find(name, cell.measure, cell.cell) for name in kinds]
        if any(figures):
            found.append((cell, figures))
    if not found:
        return _EMPTY
    keys, constant = _keys([cell for cell, _ in found])
    spelled = []
    of_models = zip(*(figures for _, figures in found), strict=True)
    for (name, kind), of_model in zip(kinds.items(), of_models, strict=True):
        spelled.append(f"{kind}: {_as_printed(of_model, name)}")
    rows: list[tuple[Cell, ...]] = []
    for cell, figures in found:
        values = [figure.value if figure else None for figure in figures]
        rows.append((*_key(cell, keys), cell.estimate, *values))
    return Table(
        name="",
        title=f"{cells[0].player} beside other models of the paper{constant}",
        columns=(*keys, "this run", *kinds.values()),
        rows=tuple(rows),
        notes=(f"The {paper.source} does not have this model. Its own models beside it: {'; '.join(spelled)}.",),
    )


def _as_printed(figures: Sequence[Figure | None], name: str) -> str:
    """A model as the paper spells it where some of these figures stand."""
    for figure in figures:
        if figure is not None:
            return figure.row
    return name


def _neighbors(paper: Paper, size: float | None, cells: Sequence[RunCell]) -> dict[str, str]:
    """The models of the paper that are nearest in size and have one of the cells, each with what it is called."""
    if not size:
        return {}
    here = [model for model in paper.models if any(paper.find(model.name, cell.measure, cell.cell) for cell in cells)]
    # There may be one model only.
    both = zip(nearest(size, here), ("nearest", "next"), strict=False)
    return {model.name: kind for model, kind in both}


def _best(paper: Paper, cells: Sequence[RunCell]) -> str:
    """The model with the highest mean share in the cells of a run; empty where none has them all.

    Cells that no model has a figure for do not count.
    """
    shares = [cell for cell in cells if cell.measure in ("success", "accuracy")]
    known: dict[str, dict[int, float]] = {}
    for model in paper.models:
        values = _values(paper, model.name, shares)
        if values:
            known[model.name] = values
    # Models are compared on the same cells, so only those count that have a figure in each.
    wanted = set().union(*known.values())
    sums = {name: sum(values.values()) for name, values in known.items() if values.keys() == wanted}
    return max(sums, key=lambda name: sums[name], default="")


def _values(paper: Paper, model: str, cells: Sequence[RunCell]) -> dict[int, float]:
    """A model's figures by the numbers of the cells that it has one for."""
    values = {}
    for number, cell in enumerate(cells):
        figure = paper.find(model, cell.measure, cell.cell)
        if figure is not None:
            values[number] = figure.value
    return values


# --- shared ----------------------------------------------------------------------------------------------------------

_EMPTY = Table("", "", (), ())


def _keys(cells: Sequence[RunCell]) -> tuple[list[str], str]:
    """What tells cells apart, and in words for the title what is the same in all of them."""
    everything = [{**cell.cell, "measure": cell.measure} for cell in cells]
    names = list(dict.fromkeys(name for one in everything for name in one))
    varying = [name for name in names if len({one.get(name) for one in everything}) > 1]
    constant = [everything[0][name] for name in names if name not in varying]
    in_title = f", {', '.join(constant)}" if constant else ""
    return varying, in_title


def _key(cell: RunCell, keys: Sequence[str]) -> tuple[str | None, ...]:
    return tuple({**cell.cell, "measure": cell.measure}.get(key) for key in keys)


def _condition_notes(ours: Conditions, paper: Paper) -> list[str]:
    """What differs between the conditions, and what of ours is not on record."""
    differing, unknown = [], []
    for field in dataclasses.fields(Conditions):
        here, there = getattr(ours, field.name), getattr(paper.conditions, field.name)
        if not there:
            continue
        if not here:
            unknown.append(field.name)
        elif here != there:
            differing.append(f"{field.name} {here} (paper: {there})")
    notes = []
    if differing:
        notes.append(f"Other conditions: {'; '.join(differing)}.")
    if unknown:
        notes.append(f"Not on record here: {', '.join(unknown)}.")
    return notes
