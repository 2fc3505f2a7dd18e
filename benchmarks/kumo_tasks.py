"""Tasks of all KUMO domains, generated, checked and searched to the optimum: ``python -m benchmarks.kumo_tasks``.

For each domain and difficulty, as many tasks as asked for (default 50) are generated; counted without repetitions; checked
by a reading of their JSON that shares no code with the generator, which must find just the asked number of truths left; and
searched: the expected tests of perfect play, and its tests on the task's outcomes, beside those of the published search.
Searches run in two processes, each timed by its own CPU clock.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from envs.kumo import DIFFICULTIES, OptimalSearch, Task, available_domains, generate_tasks, load_domain
from evals.report.terminal import LaidOut
from evals.suites.kumo.lab.analysis.counts import counts_table
from evals.suites.kumo.optima import game_key
from evals.suites.kumo.parallel import process_pool
from evals.tables import Cell, Table

_SLOWEST = 12
"""Domains that the table of times lists."""


@dataclass(frozen=True)
class Searched:
    """One task."""

    domain: str
    difficulty: str
    index: int
    seconds: float
    """CPU seconds of the search, tables and rollout included."""
    states: int
    """Game states in the search's memo."""
    expected: float
    tests: int
    """Tests of perfect play on the task's own outcomes."""
    right: bool
    """Whether perfect play names the valid truth."""
    left: int
    """Truths that ``left_by`` finds."""


def left_by(fields: Mapping[str, Any]) -> list[str]:
    """The truths that a task's observations leave, from its JSON alone."""
    gone = set()
    for action, shown in fields["observations"].items():
        for outcome in fields["outcomes"][action]:
            state = outcome["state"]
            if state == shown if isinstance(state, str) else state[0] <= shown <= state[1]:
                gone |= {*outcome["rules_out"]}
                break
        else:
            raise ValueError(f"{action}: no outcome is {shown!r}")
    return [truth for truth in fields["truths"] if truth not in gone]


def search(difficulty: str, task: Task) -> Searched:
    start = time.process_time()
    found = OptimalSearch(task)
    expected, moves = found.expected_steps, found.rollout()
    seconds = time.process_time() - start
    left = left_by(task.to_json())
    right = moves[-1] == task.valid_truth and left == [task.valid_truth]
    return Searched(
        task.domain, difficulty, task.index, seconds, found.states_known, expected, len(moves) - 1, right, len(left)
    )


def generated(domains: Sequence[str], difficulty: str, count: int) -> tuple[list[Task], str]:
    """The tasks, and a line on them."""
    start = time.process_time()
    tasks = [task for name in domains for task in generate_tasks(load_domain(name), *DIFFICULTIES[difficulty], count)]
    seconds = time.process_time() - start
    worded = {(t.domain, frozenset(t.truths), frozenset(zip(t.action_names, _states(t), strict=True))) for t in tasks}
    games = len({game_key(task) for task in tasks})
    return tasks, (
        f"{difficulty}: {len(tasks):,} tasks of {len(domains)} domains in {seconds:.1f} CPU seconds; "
        f"{len(worded):,} different, {games:,} of them also up to names"
    )


def _states(task: Task) -> Iterable[str]:
    shown = zip(task.actions, task.observations, strict=True)
    return (action.state_of(observation).text for action, observation in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--difficulties", nargs="+", choices=list(DIFFICULTIES), default=list(DIFFICULTIES))
    parser.add_argument("--tasks", type=int, default=50, help="of each domain and difficulty (50)")
    parser.add_argument("--domains", nargs="+", default=list(available_domains()), help="by default all")
    parser.add_argument("--processes", type=int, default=2, help="searches at a time (2)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a line for each task")
    options = parser.parse_args()
    everything: list[Searched] = []
    for difficulty in options.difficulties:
        tasks, line = generated(options.domains, difficulty, options.tasks)
        print(line, flush=True)
        search(difficulty, tasks[0])  # compiles, before several processes do
        start = time.monotonic()
        with process_pool(options.processes) as pool:
            done = list(pool.map(search, itertools.repeat(difficulty), tasks, chunksize=4))
        everything += done
        print(summary(done, time.monotonic() - start, options.processes), flush=True)
        Console(width=100).print(LaidOut(times(done)))
    counts: dict[str, Counter[int]] = {}
    for one in everything:
        counts.setdefault(one.difficulty, Counter())[one.tests] += 1
    Console(width=100).print(LaidOut(counts_table(counts)))
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(Searched.__annotations__))
            writer.writeheader()
            writer.writerows(vars(one) for one in everything)


def summary(done: Sequence[Searched], wall: float, processes: int) -> str:
    seconds = sorted(one.seconds for one in done)
    survivors = Counter(one.left for one in done)
    return (
        f"  truths left by all observations: {', '.join(f'{left} in {n:,} tasks' for left, n in survivors.items())}; "
        f"perfect play right in {sum(one.right for one in done):,}\n"
        f"  searched in {sum(seconds):,.0f} CPU seconds, {wall:,.0f} seconds with {processes} processes; a task: "
        f"median {statistics.median(seconds):.3f}, 95 % {seconds[int(0.95 * (len(seconds) - 1))]:.2f}, "
        f"longest {seconds[-1]:.1f} CPU seconds\n"
        f"  for 5,000 tasks: {sum(seconds) / len(seconds) * 5000 / 120:.1f} minutes of two cores"
    )


def times(done: Sequence[Searched]) -> Table:
    """The slowest domains."""
    groups: dict[str, list[Searched]] = {}
    for one in done:
        groups.setdefault(one.domain, []).append(one)
    slowest = sorted(groups.items(), key=lambda group: -sum(one.seconds for one in group[1]))[:_SLOWEST]
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            len(group),
            sum(one.seconds for one in group),
            statistics.median(one.seconds for one in group),
            max(one.seconds for one in group),
            statistics.mean(one.expected for one in group),
            statistics.mean(one.tests for one in group),
        )
        for name, group in slowest
    ]
    columns = ("domain", "tasks", "CPU s", "median", "longest", "E[S]", "tests taken")
    return Table("kumo_tasks_times", f"Slowest domains, {done[0].difficulty}", columns, tuple(rows))


if __name__ == "__main__":
    main()
