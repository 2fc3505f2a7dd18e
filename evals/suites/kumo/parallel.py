"""Work on long streams in several processes, in order and with bounded memory."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from typing import TypeVar

CHUNK = 100
"""Items that a process takes at a time."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def process_pool(processes: int | None = None) -> ProcessPoolExecutor:
    """Processes that end with this one, also where it is killed.

    Args:
        processes: At work at a time; as many as there are cores if not given.
    """
    return ProcessPoolExecutor(processes, initializer=_end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a process of a pool

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def in_order(
    function: Callable[[list[_Item]], _Result], items: Iterable[_Item], processes: int | None = None
) -> Iterator[_Result]:
    """What a function makes of each hundred items, in their order; few are taken before their turn.

    Args:
        function: Must be possible to pickle.
        items: As many as there are.
        processes: At work at a time; as many as there are cores if not given.
    """
    processes, stream = processes or os.cpu_count() or 1, iter(items)
    with process_pool(processes) as pool:
        under_way: deque[Future[_Result]] = deque()
        while chunk := list(islice(stream, CHUNK)):
            under_way.append(pool.submit(function, chunk))
            if len(under_way) > 2 * processes:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
