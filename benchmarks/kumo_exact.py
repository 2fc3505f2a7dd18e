"""The published optimal search of KUMO beside the exact one, which uses that all tests leave only the right truth.

    python -m benchmarks.kumo_exact [TASKS] [--sizes 4x6 6x8] [--seed 7000]

TASKS (default 20) are generated in each of 20 domains and size; of 12x16 those of the default suite's seed, of which the
published search's moves are on record.
"""

import argparse
import math
import statistics

from rich.console import Console

from envs.kumo import Task, available_domains, exact, generate_tasks, load_domain
from envs.kumo.search import outcomes_of
from evals.report.terminal import LaidOut
from evals.suites.kumo.levels import size_of
from evals.suites.kumo.searching import optimal_play
from evals.suites.kumo.settings import MAIN_DOMAINS
from evals.tables import Cell, Table

HARD = (12, 16)
DOMAINS = 20


def tasks_of(size: tuple[int, int], count: int, seed: int) -> list[Task]:
    """Fresh tasks of many domains, or the recorded ones."""
    if size == HARD:
        return [task for name in MAIN_DOMAINS for task in generate_tasks(load_domain(name), *size, count)]
    names = available_domains()
    some = names[:: max(1, len(names) // DOMAINS)][:DOMAINS]
    return [task for name in some for task in generate_tasks(load_domain(name), *size, count, seed=seed)]


def row(size: tuple[int, int], tasks: list[Task]) -> tuple[Cell, ...]:
    """How often the two differ, and how many tests each takes."""
    published = [optimal_play(task)[:-1] for task in tasks]
    follows = [
        next(number for number in range(len(tests) + 1) if exact.certain(task, tests[:number]))
        for task, tests in zip(tasks, published, strict=True)
    ]
    earlier = sum(number < len(tests) for number, tests in zip(follows, published, strict=True))
    taken = statistics.mean(map(len, published))
    cells: tuple[Cell, ...] = (f"{size[0]}x{size[1]}", len(tasks), earlier, taken, statistics.mean(follows) / taken)
    if sum(size) > exact.LARGEST:
        return (*cells, None, None, None, None)
    values = [exact.values(task, ()) for task in tasks]
    # Where no value is left, the answer follows before any test.
    firsts = [(found, tests[0]) for found, tests in zip(values, published, strict=True) if found]
    loses = sum(found[first] > min(found.values()) + 1e-6 for found, first in firsts)
    plays = [exact.rollout(task) for task in tasks]
    won = sum(play[-1] == task.valid_truth for play, task in zip(plays, tasks, strict=True))
    exactly = statistics.mean(len(play) - 1 for play in plays)
    expected = statistics.mean(min(found.values(), default=0.0) for found in values)
    return (*cells, loses, exactly / taken, expected / exactly, f"{won}/{len(tasks)}")


def likelihood(task: Task) -> tuple[float, float]:
    """Nats by which our worlds tell this task's truth and outcomes better than two others do.

    Against all worlds alike; and against even outcomes of each test, then what is no world left out.
    """
    right = 1 << task.truths.index(task.valid_truth)
    worlds = exact.worlds(task, ())
    ours = -math.log(len(worlds) * worlds[right])
    ways = {
        mask: math.prod(sum(n for kept, n in states.items() if kept & mask) for states in outcomes_of(task))
        for mask in worlds
    }
    drawn = -math.log(ways[right] * sum(count / ways[mask] for mask, count in worlds.items()))
    return ours + math.log(sum(worlds.values())), ours - drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=int, nargs="?", default=20, help="per domain and size (20)")
    parser.add_argument("--sizes", nargs="+", default=["4x6", "5x7", "6x8", "8x12", "12x16"])
    parser.add_argument("--seed", type=int, default=7000, help="of the tasks (7000)")
    options = parser.parse_args()
    rows = []
    for level in options.sizes:
        tasks = tasks_of(size_of(level), options.tasks, options.seed)
        gains = [likelihood(task) for task in tasks]
        rows.append((*row(size_of(level), tasks), *map(statistics.mean, zip(*gains, strict=True))))
        print(*rows[-1], flush=True)
    columns = (
        *(
            "size",
            "tasks",
            "follows earlier",
            "tests",
            "if it saw that",
            "other first test",
            "exact",
            "expected",
            "won",
        ),
        *("nats to alike", "nats to drawn"),
    )
    notes = (
        "follows earlier: tasks in which the answer follows before the published search names it; tests: that it takes.",
        "if it saw that, exact: tests over these, if it named the answer as soon as it follows, and of exact play; expected: "
        "tests that exact play expects over those that it takes.",
        "nats: mean log-likelihood of the generated truth and outcomes by our worlds, less that by worlds all alike, and by "
        "evenly drawn outcomes.",
    )
    Console(width=140).print(LaidOut(Table("kumo_exact", "Perfect play by the guarantee", columns, tuple(rows), notes)))


if __name__ == "__main__":
    main()
