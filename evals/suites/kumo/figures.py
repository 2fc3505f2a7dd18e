"""KUMO's figures: success over relative actions, success by domain, and how many actions perfect play takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from envs.kumo import DIFFICULTIES
from evals.figures import Figure, Series
from evals.reference.trend import size_figures
from evals.suites.kumo.published import leaderboard, run_cells
from evals.suites.kumo.repeats import RELATIVE, Run, groups_of, mean_of, share_of


def kumo_figures(runs: Sequence[Run], stored_names: Mapping[str, str] | None = None) -> Iterator[Figure]:
    """All figures of the runs that were played.

    Args:
        runs: As ``join_runs`` gives them.
        stored_names: What the ledger calls players that have other names here (``RunData.stored_names``).
    """
    played = [run for run in runs if run.status]
    if played:
        yield _scatter(played)
        yield _domains(played)
        yield from size_figures("kumo", "KUMO", run_cells(played), split_by="level", stored_names=stored_names)
    if counts := list(_optima(runs)):
        yield Figure(
            name="kumo_optimal_actions",
            title="KUMO: actions of perfect play",
            kind="histogram",
            series=tuple(counts),
            x_label="tests and the prediction",
            y_label="tasks",
        )


def _scatter(runs: Sequence[Run]) -> Figure:
    """The paper's Figure 4, in its convention."""
    groups = groups_of(runs, lambda run: (run.difficulty, run.player))
    series = []
    for (difficulty, player), members in groups.items():
        actions = mean_of(members, lambda run: run.published_relative_actions, RELATIVE)
        success = share_of(members, lambda run: run.success)
        series.append(Series(player, (actions,), (success,), difficulty))
    for difficulty in dict.fromkeys(difficulty for difficulty, _ in groups if difficulty in DIFFICULTIES):
        known = [(figures[1], figures[0]) for _, figures in leaderboard(difficulty)]
        places = [pair for pair in known if None not in pair]
        x, y = zip(*places, strict=True)
        series.append(Series("published (paper's tasks)", x, y, difficulty, reference=True))
    return Figure(
        name="kumo_scatter",
        title="KUMO: success over relative actions",
        kind="points",
        series=tuple(series),
        x_label="published relative actions",
        y_label="success",
        limits=(0, 1),
        intervals="95 % confidence, clustered by task",
        unit="runs",
        notes=(
            "published relative actions: as the table has them, in the papers' convention, which counts one more action of "
            "the run and of perfect play; so they are smaller than the table's relative actions.",
            "Gray: the paper's models, people and optimal search over its five main domains, on other tasks.",
        ),
    )


def _domains(runs: Sequence[Run]) -> Figure:
    """The paper's Figure 3: players and domains by their mean success."""
    players = _ranked(groups_of(runs, lambda run: (run.player,)))
    groups = groups_of(runs, lambda run: (run.difficulty, run.domain, run.player))
    domains = _ranked(groups_of(runs, lambda run: (run.domain,)))  # one order in all panels
    rows = []
    for difficulty in dict.fromkeys(run.difficulty for run in runs):
        for domain in domains:
            members = [groups.get((difficulty, domain, player)) for player in players]
            if not any(members):
                continue
            values = [share_of(each, lambda run: run.success) if each else None for each in members]
            rows.append(Series(domain.replace("_", " "), tuple(players), tuple(values), difficulty))
    return Figure(
        name="kumo_domains_map",
        title="KUMO: success by domain",
        kind="heat_map",
        series=tuple(rows),
        y_label="domain",
        limits=(0, 1),
        unit="runs",
    )


def _ranked(groups: dict[tuple[str, ...], list[Run]]) -> list[str]:
    """Names by share of success, the highest first."""
    shares = {}
    for (name,), runs in groups.items():
        shares[name] = sum(run.success for run in runs) / len(runs)
    return sorted(shares, key=lambda name: -shares[name])


def _optima(runs: Sequence[Run]) -> Iterator[Series]:
    """Tasks by the number of actions of perfect play, where that is on record."""
    tasks = {run.task: (run.difficulty, run.optimal_actions) for run in runs if run.optimal_actions is not None}
    counts: dict[str, Counter[int]] = {}
    for difficulty, optimum in tasks.values():
        counts.setdefault(difficulty, Counter())[optimum] += 1
    for difficulty, of_difficulty in counts.items():
        places = sorted(of_difficulty)
        heights = tuple(float(of_difficulty[place]) for place in places)
        yield Series(difficulty, tuple(map(float, places)), heights)
