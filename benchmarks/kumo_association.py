"""Structure analysis on simulated players of known skill: ``python -m benchmarks.kumo_association [PLAYERS] [TASKS]``.

PLAYERS (default 200) are simulated for each row, on TASKS (default 50) easy tasks of every domain, five runs of each. What
decides their success is known: nothing but chance; the domain, by a difficulty of its own; or the game's structure, by the
number of pairs of a test and a truth that it can rule out. Where structure does nothing, a p-value should be below .05 for
5 % of the players; where it does, V should be the one that was put in.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks.arguments import whole_numbers
from envs.kumo import available_domains, generate_tasks, load_domain
from evals.report.terminal import LaidOut
from evals.suites.kumo.lab.analysis.association import associate
from evals.suites.kumo.lab.analysis.graphs import signature
from evals.tables import Table

RUNS, DRAWS = 5, 399
SPREAD = (0.0, 0.25, 0.5, 1.0)
"""Standard deviations of the log-odds of success over tasks that structure, or the domain, makes."""


@dataclass(frozen=True)
class Games:
    """Tasks by their structure and their domain."""

    signatures: Sequence[str]
    domains: Sequence[str]

    def standardized(self) -> np.ndarray:
        """The number of pairs of a test and a truth that it can rule out, with mean 0 and standard deviation 1."""
        pairs = np.array([sum(map(int, each.split("/")[0].split("."))) for each in self.signatures], float)
        standardized: np.ndarray = (pairs - pairs.mean()) / pairs.std()
        return standardized


def games(domains: Sequence[str], count: int) -> Games:
    tasks = [task for name in domains for task in generate_tasks(load_domain(name), count=count)]
    return Games([signature(task) for task in tasks], [task.domain for task in tasks])


def chances(played: Games, structure: float, domain: float, rng: np.random.Generator) -> np.ndarray:
    """For each task the chance that one run succeeds."""
    own = {name: rng.normal() for name in dict.fromkeys(played.domains)}
    odds = 0.4 + structure * played.standardized() + domain * np.array([own[name] for name in played.domains])
    return 1 / (1 + np.exp(-odds))


def true_v(played: Games, success: np.ndarray) -> float:
    """Cramér's V of the distribution that the outcomes are drawn from: majority of ``RUNS`` over signatures."""
    right = sum(math.comb(RUNS, k) * success**k * (1 - success) ** (RUNS - k) for k in range(RUNS // 2 + 1, RUNS + 1))
    groups = defaultdict(list)
    for kind, chance in zip(played.signatures, right, strict=True):
        groups[kind].append(chance)
    mean = right.mean()
    between = sum(len(each) * (statistics.fmean(each) - mean) ** 2 for each in groups.values()) / len(right)
    return math.sqrt(between / (mean * (1 - mean)))


@dataclass(frozen=True)
class Found:
    """Over the players of a row."""

    put_in: float
    v: float
    by_chance: float
    corrected: float
    """Root of the mean square, as for the next."""
    estimated: float
    rejected: float
    """Share with p below .05 (Eq. 6)."""
    rejected_permuted: float
    rejected_within: float


def simulate(played: Games, structure: float, domain: float, players: int, seed: int = 0) -> Found:
    """Play and analyze."""
    rng = np.random.default_rng(seed)
    results, true = [], []
    for player in range(players):
        success = chances(played, structure, domain, rng)
        true.append(true_v(played, success) if structure else 0.0)
        right = rng.binomial(RUNS, success) > RUNS / 2
        found = associate(played.signatures, right.tolist(), played.domains, seed=player, draws=DRAWS)
        assert found is not None and found.p_within is not None
        results.append(found)

    def rate(values: Sequence[float | None]) -> float:
        return statistics.fmean(value is not None and value < 0.05 for value in values)

    return Found(
        put_in=statistics.fmean(true),
        v=statistics.fmean(each.v for each in results),
        by_chance=statistics.fmean(each.v_by_chance for each in results),
        corrected=math.sqrt(statistics.fmean(each.v_corrected**2 for each in results)),
        estimated=math.sqrt(statistics.fmean((each.v_estimated or 0.0) ** 2 for each in results)),
        rejected=rate([each.p for each in results]),
        rejected_permuted=rate([each.p_permuted for each in results]),
        rejected_within=rate([each.p_within for each in results]),
    )


def main(players: int, tasks: int) -> None:
    played = games(available_domains(), tasks)
    print(f"{len(played.signatures):,} tasks with {len(set(played.signatures)):,} signatures; {players} players a row")
    settings = [("nothing", 0.0, 0.0), *(("domain", 0.0, spread) for spread in SPREAD[2:])]
    settings += [("structure", spread, 0.0) for spread in SPREAD[1:]]
    rows = []
    for what, structure, domain in settings:
        found = simulate(played, structure, domain, players)
        rows.append((what, structure or domain, *vars(found).values()))
        print(*rows[-1], flush=True)
    columns = (
        "decides",
        "spread",
        "V put in",
        "V",
        "by chance",
        "corrected",
        "estimated",
        "p < .05",
        "permuted",
        "within domains",
    )
    Console(width=100).print(
        LaidOut(Table("kumo_association", "Structure and simulated players", columns, tuple(rows)))
    )


if __name__ == "__main__":
    main(*whole_numbers(__doc__, players=200, tasks=50))
