"""Searches beside the play: as many at a time as there are cores, each question once, results kept in the user's cache.

The compiled search runs without Python's global lock, so the threads that ask use all cores and need no child processes. It
runs in the thread that asks first: a pool's threads would keep a stopped program waiting until they have ended.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future

from envs.kumo import OptimalSearch, Task
from evals.suites.kumo import disk_cache as cache
from evals.suites.kumo.optima import game_key, known_optima, place_names
from evals.types import stable_hash

_lock = threading.Lock()
_under_way: dict[str, Future[list[int]]] = {}
_cores = threading.BoundedSemaphore(os.cpu_count() or 1)


def optimal_play(task: Task) -> tuple[str, ...]:
    """The tests of perfect play on what this task shows, in order, and last the truth that it names; may take seconds."""
    moves = known_optima().get(game_key(task))
    if moves is None:
        moves = _answer(task, None)
    return place_names(task, moves)


def best_move(task: Task, taken: tuple[str, ...]) -> str:
    """What perfect play does after the tests in ``taken``, in whatever order they were taken; may take seconds."""
    return place_names(task, _answer(task, tuple(sorted(set(taken), key=task.position))))[0]


def _answer(task: Task, taken: tuple[str, ...] | None) -> list[int]:
    """The moves of perfect play, or with ``taken`` only the next one: from the cache, or by a search that is then kept."""
    tests = None if taken is None else [task.position(name) for name in taken]
    key = game_key(task) if tests is None else stable_hash(game_key(task), tests)
    with _lock:
        asked_before = _under_way.get(key)
        future = _under_way.setdefault(key, Future())
    if asked_before is None:
        try:
            with _cores:
                future.set_result(_recall_or_search(task, taken, key))
        except BaseException as error:  # whatever it is, those who wait are told
            future.set_exception(error)
        finally:
            with _lock:
                del _under_way[key]
    return future.result()


def _recall_or_search(task: Task, taken: tuple[str, ...] | None, key: str) -> list[int]:
    kept = cache.recall(key)
    if kept is not None and _fits(task, taken, kept):
        return kept
    search = OptimalSearch(task)
    if taken is None:
        moves = list(search.rollout())
    else:
        observed = {name: task.observations[task.position(name)] for name in taken}
        moves = [search.best(observed)]
    names = (*task.action_names, *task.truths)
    places = [names.index(move) for move in moves]
    cache.keep(key, places)
    return places


def _fits(task: Task, taken: tuple[str, ...] | None, moves: list[int]) -> bool:
    """Whether kept moves can be moves of this game: new tests, and a truth at the end that no outcome rules out."""
    names = (*task.action_names, *task.truths)
    if not moves or not set(moves).issubset(range(len(names))):
        return False
    *tests, last = [names[place] for place in moves]
    if taken is not None:  # the next move only
        return not tests and last not in taken
    if len(set(tests)) < len(tests) or not set(tests).issubset(task.action_names):
        return False
    return last in task.survivors({name: task.observations[task.position(name)] for name in tests})
