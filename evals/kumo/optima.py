"""Perfect play of the tasks that everyone plays, searched once and kept beside the code.

The optimal search of a hard task takes seconds; ``optima.json`` holds its result for the default suite, by the content of
the task, so that a changed domain can never meet a stale entry. Other tasks are searched when they are asked for.
``python -m evals.kumo.optima`` brings the file up to date; what it holds already is not searched again.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from envs.kumo import OptimalSearch, Task
from evals.contracts import stable_hash

OPTIMA = Path(__file__).with_name("optima.json")


def task_key(task: Task) -> str:
    """Hash of what a task is: its lists, outcome table and observations; not of its number or seed."""
    return stable_hash({name: value for name, value in task.to_json().items() if name not in ("index", "seed")})


def optimal_play(task: Task) -> tuple[str, ...]:
    """The tests of perfect play on what this task shows, in order, and last the truth that it names."""
    known = known_optima().get(task_key(task))
    if known is None:
        return OptimalSearch(task).rollout()
    names = (*task.action_names, *task.truths)
    return tuple(names[place] for place in known)


@functools.cache
def known_optima() -> Mapping[str, Sequence[int]]:
    """For each known task the moves of perfect play, as places in its actions followed by its truths."""
    if not OPTIMA.is_file():
        return {}
    known: dict[str, list[int]] = json.loads(OPTIMA.read_text(encoding="utf-8"))
    return known


def update(tasks: Iterable[Task]) -> None:
    """Search what is not known yet and rewrite the file with exactly these tasks, after each of them."""
    wanted = {task_key(task): task for task in tasks}
    known = {key: moves for key, moves in known_optima().items() if key in wanted}
    for number, (key, task) in enumerate(wanted.items(), 1):
        if key not in known:
            names = (*task.action_names, *task.truths)
            known[key] = [names.index(move) for move in OptimalSearch(task).rollout()]
            print(f"{number} of {len(wanted)}: {task.domain}, {len(known[key])} actions", file=sys.stderr, flush=True)
            _write(known)
    _write(known)


def _write(known: Mapping[str, Sequence[int]]) -> None:
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(moves)}" for key, moves in sorted(known.items()))
    beside = OPTIMA.with_suffix(".tmp")
    beside.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    beside.replace(OPTIMA)


def main() -> None:
    """Bring the file up to date with the default suite."""
    from evals.kumo.suite import KumoSuite

    update(puzzle.task for puzzle in KumoSuite().puzzles())


if __name__ == "__main__":
    main()
