"""Tests of perfect play beside the published ones (paper, Figure 6c), and what players use (Figures 6a and 6b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evals.reference import published
from evals.suites.kumo.repeats import Run, groups_of, mean_of, share_of
from evals.tables import Cell, Table


def optimal_tests(runs: Iterable[Run]) -> dict[str, Counter[int]]:
    """For each difficulty the number of tasks by the tests of perfect play, where that is on record."""
    known = {run.game: (run.difficulty, run.optimal_actions) for run in runs if run.optimal_actions is not None}
    found: dict[str, Counter[int]] = {}
    for difficulty, actions in known.values():
        found.setdefault(difficulty, Counter())[(actions or 1) - 1] += 1
    return found


def published_tests(difficulty: str) -> dict[str, Counter[int]]:
    """The same of the published search, by the domains that it ran on."""
    found: dict[str, Counter[int]] = {}
    for figure in published("kumo").figures:
        if figure.measure == "tasks" and figure.cell["level"] == difficulty:
            found.setdefault(figure.cell["domains"], Counter())[int(figure.cell["tests"])] = round(figure.value)
    return found


def _mean(counts: Counter[int]) -> float:
    return sum(tests * count for tests, count in counts.items()) / counts.total()


def counts_table(counts: Mapping[str, Counter[int]]) -> Table:
    """Shares of the tasks by tests of perfect play, ours beside the published ones.

    Args:
        counts: As ``optimal_tests`` gives them.
    """
    columns: dict[str, Counter[int]] = {}
    for difficulty, found in counts.items():
        columns[f"{difficulty}, here"] = found
        for domains, theirs in published_tests(difficulty).items():
            columns[f"{difficulty}, published, {domains}"] = theirs
    seen: set[int] = set()
    for each in columns.values():
        seen.update(tests for tests, count in each.items() if count)
    rows: list[tuple[Cell, ...]] = []
    for tests in range(max(seen, default=-1) + 1):
        shares = [each[tests] / each.total() for each in columns.values()]
        rows.append((str(tests), *shares))
    if columns:
        means = [_mean(each) for each in columns.values()]
        totals = [each.total() for each in columns.values()]
        rows.append(("mean", *means))
        rows.append(("tasks", *totals))
    return Table(
        name="kumo_optimal_tests",
        title="KUMO: tests of perfect play on the tasks' outcomes",
        columns=("tests", *columns),
        rows=tuple(rows),
        notes=("Shares of the tasks. Of the published ones 12 % to 19 % tell their answer before the first test.",),
        section="diagnostics",
    )


def usage_table(runs: Sequence[Run]) -> Table:
    """Tokens and parse errors of each player.

    Args:
        runs: Those that were played.
    """
    groups = groups_of(runs, lambda run: (run.player, run.difficulty))
    rows: list[tuple[Cell, ...]] = []
    for key, members in groups.items():
        actions = sum(run.tests + 1 for run in members)
        rows.append(
            (
                *key,
                len(members),
                mean_of(members, lambda run: run.tokens),
                sum(run.tokens for run in members) / max(1, actions),
                share_of(members, lambda run: run.parse_errors > 0).mean,
                share_of(members, lambda run: run.parse_failed).mean,
                sum(run.cut_off for run in members),
            )
        )
    return Table(
        name="kumo_usage",
        title="KUMO: tokens and parse errors",
        columns=(
            "player",
            "difficulty",
            "runs",
            "tokens",
            "tokens an action",
            "parse errors",
            "parse failures",
            "cut off",
        ),
        rows=tuple(rows),
        notes=(
            "tokens: of prompts and replies, all calls of a run. parse errors: runs with a reply that names nothing; parse "
            "failures: runs that such a reply ended. The published figures stand in kumo_published (`raycade report`).",
        ),
        section="diagnostics",
    )
