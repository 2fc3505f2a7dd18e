"""Perfect play of the tasks that everyone plays, searched once and kept beside the code.

The optimal search of a hard task takes seconds; ``optima.json`` holds its result for the default suite, by what the task
rules out and shows, so that a changed domain can never meet a stale entry. Other tasks are searched when asked for, see
``searching``.
``python -m evals.suites.kumo`` brings the file up to date; what it holds already is not searched again.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from envs.kumo import OptimalSearch, Task
from evals.suites.kumo.parallel import process_pool
from evals.types import stable_hash

OPTIMA = Path(__file__).with_name("optima.json")


def game_key(task: Task) -> str:
    """Hash of all that perfect play depends on: who is ruled out by which state, and which states show. Not of words."""
    places = {truth: place for place, truth in enumerate(task.truths)}
    table, shown = [], []
    for action, observation in zip(task.actions, task.observations, strict=True):
        table.append([[places[truth] for truth in state.rules_out] for state in action.states])
        # What an ``other`` test shows is none of its states.
        has_state = action.outcome != "other"
        shown.append(action.states.index(action.state_of(observation)) if has_state else None)
    several = [len(task.valid_truths)] if task.also_valid else []
    return stable_hash(len(places), table, shown, *several)


def place_names(task: Task, moves: Iterable[int]) -> tuple[str, ...]:
    """Moves that are given as places in the task's actions followed by its truths, as names."""
    names = (*task.action_names, *task.truths)
    return tuple(names[place] for place in moves)


def is_known(task: Task) -> bool:
    """Whether perfect play of a task is on record."""
    return game_key(task) in known_optima()


@functools.cache
def known_optima() -> Mapping[str, Sequence[int]]:
    """For each known task the moves of perfect play, as places in its actions followed by its truths."""
    if not OPTIMA.is_file():
        return {}
    known: dict[str, list[int]] = json.loads(OPTIMA.read_text(encoding="utf-8"))
    return known


def update(tasks: Iterable[Task], processes: int | None = None) -> None:
    """Search what is not known yet and rewrite the file to hold exactly these tasks, as each of them is found.

    Args:
        tasks: All that the file is to hold.
        processes: Searches at a time; as many as there are cores if not given.
    """
    wanted = {game_key(task): task for task in tasks}
    known = {key: list(moves) for key, moves in known_optima().items() if key in wanted}
    missing = [task for key, task in wanted.items() if key not in known]
    with process_pool(processes) as pool:
        for number, (task, moves) in enumerate(zip(missing, pool.map(_moves, missing), strict=True), 1):
            known[game_key(task)] = moves
            print(f"{number} of {len(missing)}: {task.domain}, {len(moves)} actions", file=sys.stderr, flush=True)
            _write(known)
    _write(known)


def _moves(task: Task) -> list[int]:
    names = (*task.action_names, *task.truths)
    return [names.index(move) for move in OptimalSearch(task).rollout()]


def _write(known: Mapping[str, Sequence[int]]) -> None:
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(moves)}" for key, moves in sorted(known.items()))
    beside = OPTIMA.with_suffix(".tmp")
    beside.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    beside.replace(OPTIMA)
