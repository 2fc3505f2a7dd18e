"""Scores at KUMO against scores at other benchmarks, over players (paper, Figures 4c to 4e)."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, rankdata, spearmanr

from envs.files import read_text
from evals.ledger.run_data import RunData
from evals.reference import model_named, published
from evals.stats.intervals import Estimate
from evals.suite import Suite
from evals.suite_results import suite_measures
from evals.suites.kumo.repeats import RELATIVE, Run, groups_of, mean_of
from evals.tables import Cell, Table

_FEWEST = 3
"""Players from which a correlation is computed."""

_EXACT = 7
"""Players up to which the p-value of ranks is taken over all orders; scipy's holds for more."""

_PUBLISHED = "published "


@dataclass(frozen=True)
class Scores:
    """One measure of several players, by the players' names."""

    name: str
    values: Mapping[str, float]
    kumo: bool = False
    """Whether it is one of KUMO's, which others are compared with."""


@dataclass(frozen=True)
class Correlation:
    """Of two measures over the players that have both."""

    first: Scores
    second: Scores
    players: tuple[str, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    pearson: Estimate
    """With its 95 % interval (Fisher's transformation), from four players on."""
    pearson_p: float
    spearman: float
    spearman_p: float


def measured_scores(runs: Sequence[Run], others: Iterable[tuple[Suite, RunData]]) -> list[Scores]:
    """What the players of runs scored: KUMO by difficulty, other suites as `raycade compare` measures them.

    Args:
        runs: KUMO's, those that were played.
        others: Other suites with their parts of runs.
    """
    kumo: dict[str, dict[str, float]] = {}
    for (difficulty, player), members in groups_of(runs, lambda run: (run.difficulty, run.player)).items():
        success = mean_of(members, lambda run: run.success)
        kumo.setdefault(f"kumo {difficulty}: success", {})[player] = success.mean
        # Of games only for which perfect play is on record.
        relative = mean_of(members, lambda run: run.published_relative_actions, RELATIVE)
        if relative.n:
            kumo.setdefault(f"kumo {difficulty}: relative actions", {})[player] = relative.mean
    found = [Scores(name, values, kumo=True) for name, values in kumo.items()]
    return found + _scores_elsewhere(others)


def _scores_elsewhere(others: Iterable[tuple[Suite, RunData]]) -> list[Scores]:
    found: dict[str, dict[str, float]] = {}
    for suite, run in others:
        for player in dict.fromkeys(run.plan["player"].to_pylist()):
            for measured in suite_measures(suite, run, player):
                values = [one.value for one in measured.observations]
                if values:
                    of_players = found.setdefault(f"{suite.name}: {measured.name}", {})
                    of_players[player] = math.fsum(values) / len(values)
    return [Scores(name, values) for name, values in found.items()]


def published_scores() -> list[Scores]:
    """What the paper's models scored at KUMO, by model."""
    paper = published("kumo")
    found = []
    for level, measure in itertools.product(("easy", "hard"), ("success", "relative actions")):
        place = {"domains": "5 domains", "level": level}
        figures = {model.name: paper.find(model.name, measure, place) for model in paper.models}
        values = {name: figure.value for name, figure in figures.items() if figure}
        found.append(Scores(f"{_PUBLISHED}kumo {level}: {measure}", values, kumo=True))
    return found


def read_scores(path: Path) -> list[Scores]:
    """Scores at other benchmarks from a CSV file: a column ``model``, and one for each benchmark; gaps are allowed.

    Raises:
        ValueError: the file cannot be read so; the line is named.
    """
    reader = csv.DictReader(io.StringIO(read_text(path)))
    try:
        found = _scores_in(reader, path)
    except csv.Error as cause:
        raise ValueError(f"{path}: cannot be read: {cause}") from cause
    return [Scores(name, values) for name, values in found.items()]


def _scores_in(reader: csv.DictReader[str], path: Path) -> dict[str, dict[str, float]]:
    """The scores of each column by model."""
    columns = reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    if "model" not in columns:
        raise ValueError(f"{path}: there is no column 'model'")
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise ValueError(f"{path}: has two columns {twice[0]!r}; which one counts?")
    lines: dict[str, int] = {}
    """In which line a model stands, by the name that it is known by."""
    found: dict[str, dict[str, float]] = {name: {} for name in columns if name != "model"}
    for row in reader:
        line = f"{path}, line {reader.line_num}"
        model = _cell(row, "model")
        earlier = lines.setdefault(_known(model), reader.line_num) if model else reader.line_num
        if earlier != reader.line_num:
            raise ValueError(f"{line}: {model!r} stands in line {earlier} already; which scores count?")
        for name, scores in found.items():
            text = _cell(row, name)
            if not text:
                continue
            if not model:
                raise ValueError(f"{line}: has scores, but no model: write its name into the column 'model'")
            scores[model] = _number(text, f"{line}, {name}")
    return found


def _cell(row: Mapping[str, str | None], column: str) -> str:
    """What a line has in a column; a short line has None in its last ones."""
    return (row[column] or "").strip()


def correlations(scores: Sequence[Scores]) -> Iterator[Correlation]:
    """KUMO's measures with all other scores, and with the same measure as published, where players are enough."""
    for first, second in itertools.product(scores, repeat=2):
        # A measure of KUMO stands beside other benchmarks, and beside its published twin, not beside KUMO's others.
        twin = _PUBLISHED + first.name
        stand_together = first.kumo and (not second.kumo or second.name == twin)
        if not stand_together:
            continue
        pairs = list(_pairs(first.values, second.values))
        if _tell_something(pairs):
            yield _correlation(first, second, pairs)


def _tell_something(pairs: Sequence[tuple[str, float, float]]) -> bool:
    """Whether players are enough; equal scores correlate with nothing."""
    if len(pairs) < _FEWEST:
        return False
    _, x, y = zip(*pairs, strict=True)
    return len(set(x)) > 1 and len(set(y)) > 1


def _correlation(first: Scores, second: Scores, pairs: Sequence[tuple[str, float, float]]) -> Correlation:
    players, x, y = zip(*pairs, strict=True)
    linear, ranked = pearsonr(x, y), spearmanr(x, y)
    ends = linear.confidence_interval(0.95) if len(pairs) > _FEWEST else (math.nan, math.nan)
    estimate = Estimate(float(linear.statistic), float(ends[0]), float(ends[1]), len(pairs))
    p_of_ranks = _exact_p(x, y) if len(pairs) <= _EXACT else float(ranked.pvalue)
    return Correlation(
        first, second, players, x, y, estimate, float(linear.pvalue), float(ranked.statistic), p_of_ranks
    )


def _exact_p(x: Sequence[float], y: Sequence[float]) -> float:
    """Share of all orders of the scores in which the ranks correlate as strongly."""
    ranks = rankdata(x) - (len(x) + 1) / 2
    strengths = [abs(float(ranks @ np.array(order))) for order in itertools.permutations(rankdata(y))]
    return sum(each >= strengths[0] - 1e-9 for each in strengths) / len(strengths)


def _pairs(first: Mapping[str, float], second: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """Players of both sides: by their names; else because both names mean one model, if it has only one name left there.

    A model that played twice, with other settings, is two players: ``tiny (run-a)`` is paired with ``tiny (run-a)``.
    """
    left = defaultdict(list)
    for name, value in second.items():
        if name not in first:
            left[_known(name)].append(value)
    for name, value in first.items():
        if name in second:
            yield name, value, second[name]
            continue
        of_model = left[_known(name)]
        if len(of_model) == 1:
            yield name, value, of_model[0]


def _known(player: str) -> str:
    """The model that a player's name means; the name of a run behind it (``tiny (run-a)``) does not count."""
    name = re.sub(r" \([^()]*\)$", "", player)
    model = model_named(name)
    return model.name if model else name


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{place}: {text!r} is no number")
    return value


def correlation_table(found: Iterable[Correlation]) -> Table:
    """A row for each pair of measures."""
    rows: list[tuple[Cell, ...]] = [
        (
            *(each.first.name, each.second.name, len(each.players)),
            each.pearson if each.pearson.has_interval else each.pearson.mean,
            *(each.pearson_p, each.spearman, each.spearman_p),
        )
        for each in found
    ]
    return Table(
        name="kumo_correlations",
        title="KUMO: correlation with other scores over players",
        columns=("kumo", "with", "players", "Pearson", "p", "Spearman", "p of Spearman"),
        rows=tuple(rows),
        notes=(
            "Players that have both scores; published: of the paper's models on its tasks. Brackets: 95 % confidence, from "
            "four players on; p of Spearman: up to seven players over all orders of their scores. Fewer is better for "
            "relative actions, so their correlations with scores are negative.",
        ),
        section="diagnostics",
        brief=("kumo", "with", "players", "Pearson", "Spearman"),
    )
