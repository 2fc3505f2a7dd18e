"""Figures of the analysis: domain graphs, counts of perfect play, structure, correlations (paper, Figures 4 and 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from evals.figures import Figure, Series, Value
from evals.suites.kumo.lab.analysis.association import Association
from evals.suites.kumo.lab.analysis.correlation import Correlation
from evals.suites.kumo.lab.analysis.counts import published_tests
from evals.suites.kumo.lab.analysis.graphs import Communities
from evals.summary.paired import file_stem

PANELS = 12
"""Most domains in one figure."""


def analysis_figures(
    counts: Mapping[str, Counter[int]],
    graphs: Sequence[Communities],
    structure: Mapping[tuple[str, str], Association | None],
    correlations: Sequence[Correlation],
) -> Iterator[Figure]:
    """All figures that there is something to draw for.

    Args:
        counts: Tasks by tests of perfect play, for each difficulty.
        graphs: Of the domains.
        structure: Associations by player and difficulty.
        correlations: Of KUMO's measures with others.
    """
    if counts:
        yield _counts(counts)
    if graphs:
        yield _graphs(graphs)
    # V tells nothing where most signatures occur once (it is near 1 by construction); v_estimated is None there.
    told = {key: each for key, each in structure.items() if each is not None and each.v_estimated is not None}
    if told:
        yield _structure(told)
    yield from _correlations(correlations)


def _counts(counts: Mapping[str, Counter[int]]) -> Figure:
    series = []
    for difficulty, found in counts.items():
        series.append(_shares("here", found, difficulty))
        series += [
            _shares(f"published, {name}", each, difficulty) for name, each in published_tests(difficulty).items()
        ]
    return Figure(
        name="kumo_optimal_tests",
        title="KUMO: tests of perfect play",
        kind="histogram",
        series=tuple(series),
        x_label="tests on the task's outcomes",
        y_label="share of the tasks",
    )


def _shares(name: str, counts: Counter[int], panel: str) -> Series:
    places = sorted(tests for tests in counts if counts[tests])
    return Series(name, tuple(map(float, places)), tuple(counts[place] / counts.total() for place in places), panel)


def _graphs(graphs: Sequence[Communities]) -> Figure:
    """Domains spread evenly over the modularities, each with its truths colored by community."""
    ranked = sorted(graphs, key=lambda each: -each.modularity)
    count = min(PANELS, len(ranked))
    chosen = [ranked[round(place * (len(ranked) - 1) / max(1, count - 1))] for place in range(count)]
    series = []
    for each in chosen:
        panel = f"{each.domain.name.replace('_', ' ')}, Q {each.modularity:.2f}"
        # One line through the ends of every edge, broken behind each.
        lines: list[tuple[Value, Value]] = []
        for one, other in each.graph.edges:
            lines += [each.places[one], each.places[other], (None, None)]
        xs: tuple[Value, ...] = tuple(x for x, _ in lines)
        ys: tuple[Value, ...] = tuple(y for _, y in lines)
        series.append(Series("edges", xs, ys, panel, reference=True))
        for number, group in enumerate(each.groups, 1):
            xs, ys = zip(*(each.places[truth] for truth in sorted(group)), strict=True)
            series.append(Series(f"community {number}", xs, ys, panel))
    return Figure(
        name="kumo_domain_graphs",
        title="KUMO: domain graphs with Louvain communities",
        kind="graph",
        series=tuple(series),
        notes=("Truths, connected where an outcome of a test rules out both; Q: modularity.",),
    )


def _structure(structure: Mapping[tuple[str, str], Association]) -> Figure:
    series = []
    for difficulty in dict.fromkeys(level for _, level in structure):
        found = {player: each for (player, level), each in structure.items() if level == difficulty}
        players = tuple(found)
        for name, values in (
            ("V (Eq. 7)", [each.v for each in found.values()]),
            ("V estimated without bias", [each.v_estimated for each in found.values()]),
        ):
            series.append(Series(name, players, tuple(values), difficulty))
        chance = tuple(each.v_by_chance for each in found.values())
        series.append(Series("V by chance", players, chance, difficulty, reference=True))
    return Figure(
        name="kumo_structure",
        title="KUMO: Cramér's V of structure and correctness",
        kind="lines",
        series=tuple(series),
        y_label="Cramér's V",
        limits=(0, 1),
        notes=("Only where at least half of the tasks share their signature with another one.",),
    )


def _correlations(correlations: Sequence[Correlation]) -> Iterator[Figure]:
    """A figure for each of the other scores, with a panel for each of KUMO's."""
    for name in dict.fromkeys(each.second.name for each in correlations):
        here = [each for each in correlations if each.second.name == name]
        yield Figure(
            name=f"kumo_correlation_{file_stem(name)}",
            title=f"KUMO and {name}",
            kind="points",
            series=tuple(
                Series(
                    "players", each.x, each.y, f"{each.first.name}\nr {each.pearson.mean:.2f}, {len(each.x)} players"
                )
                for each in here
            ),
            y_label=name,
        )
