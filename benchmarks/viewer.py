"""Measures `raycade view` on a large ledger: first page, filters, opening episodes, text search, memory of the server.

The ledger is that of ``benchmarks.ledger``. Times are those of whole HTTP requests, each asked once (nothing is cached), beside
the limits that the viewer is built for, and beside pyarrow doing the bare work of one filter on the same columns.

    python -m benchmarks.viewer --episodes 1000000
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow.compute as pc

from benchmarks.ledger import synthesize
from cluster.console import show
from evals.ledger.ledger import open_ledger
from evals.tables import Table
from evals.viewer.runs import LISTED

FIRST_PAGE, REQUEST, MEMORY = 1.0, 0.3, 1.0
"""Limits: seconds, seconds at the median, GiB."""
COLUMNS = ("task", "level", "mode", "success", "steps", "index", "seconds", "score")


@contextlib.contextmanager
def server(run_dir: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A viewer of one run in a separate process, and the process's number."""
    command = [sys.executable, "-m", "cluster", "view", str(run_dir), "--no-token"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        address = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+:\d+", line)))
        with httpx.Client(base_url=address, timeout=600) as client:
            yield client, process.pid
    finally:
        process.terminate()
        process.wait()


def get(client: httpx.Client, path: str, **params: Any) -> Any:
    """The JSON answer."""
    return client.get(f"/api/{path}", params=params).raise_for_status().json()


def timed(work: Callable[[], Any]) -> float:
    """Seconds."""
    start = time.monotonic()
    work()
    return time.monotonic() - start


def cpu_seconds(process: int) -> float:
    """That a process has used so far; other processes on the machine hardly change it, unlike ``timed``."""
    used = psutil.Process(process).cpu_times()
    return float(used.user + used.system)


def each(process: int, works: Sequence[Callable[[], Any]]) -> tuple[list[float], float]:
    """Seconds of each work, and the server's CPU seconds for one on average."""
    before = cpu_seconds(process)
    seconds = [timed(work) for work in works]
    return seconds, (cpu_seconds(process) - before) / len(works)


def first_page(client: httpx.Client) -> None:
    """What a browser asks for before the page stands."""
    for path in ("/episodes", "/static/style.css", "/static/main.js"):
        client.get(path).raise_for_status()
    get(client, "state")
    get(client, "episodes", count=100)
    get(client, "values")
    get(client, "cells")


def some_filters(count: int, draw: random.Random) -> list[dict[str, Any]]:
    """Different combinations of filters, sorting and place in the list."""
    return [
        {
            "task": draw.choice(["CL", "SE", "MA", ""]),
            "level": draw.choice(["1", "2", ""]),
            draw.choice(["won", "lost"]): draw.choice(["1", ""]),
            "min_steps": draw.choice(["", "2"]),
            "max_seconds": draw.uniform(0.01, 1),
            "sort": draw.choice(["", "-"]) + draw.choice(COLUMNS),
            "from": draw.choice([0, 0, 1000, 50_000]),
        }
        for _ in range(count)
    ]


def search(client: httpx.Client, episode: str) -> tuple[float, float]:
    """Seconds to the first rows found, and to the end of the search, for a line of an episode's first prompt."""
    parts = get(client, "episode", at=episode)["steps"][0]["shown"][-1]["parts"]
    text = next(part["text"] for part in parts if part.get("text")).splitlines()[0]
    start, first = time.monotonic(), 0.0
    while True:
        page = get(client, "episodes", text=text, count=100)
        if page["total"] and not first:
            first = time.monotonic() - start
        if not page["search"]["running"]:
            return first, time.monotonic() - start
        time.sleep(0.05)


def peak_memory(process: int) -> float:
    """GiB."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 2**20


def bare_filter(run_dir: Path) -> float:
    """Seconds that pyarrow takes to filter and sort the list's columns, once they are in memory."""
    rows = open_ledger(run_dir).table(["task", "success", "seconds"])

    def work() -> None:
        found = rows.filter(pc.and_(pc.equal(rows["task"], "CL"), pc.equal(rows["success"], True)))
        found.take(pc.sort_indices(found, [("seconds", "descending")])[:100])

    return statistics.median(timed(work) for _ in range(5))


def measure(run_dir: Path, episodes: int) -> list[tuple[Any, ...]]:
    """Rows of the table: what, figure, unit, limit, the server's CPU seconds."""
    draw = random.Random(1)
    with server(run_dir) as (client, process):
        start = time.monotonic()
        while not get(client, "episodes")["total"]:
            time.sleep(0.02)
        rows: list[tuple[Any, ...]] = [("first rows after the start", time.monotonic() - start, "s", None, None)]
        while not (state := get(client, "state"))["loaded"]:
            time.sleep(0.2)
        assert state["runs"][0]["done"] == episodes, state
        rows.append(("whole ledger read", time.monotonic() - start, "s", None, cpu_seconds(process)))
        (seconds,), cpu = each(process, [lambda: first_page(client)])
        rows.append(("first page", seconds, "s", FIRST_PAGE, cpu))
        places = [draw.randrange(episodes) for _ in range(40)]
        listed = [get(client, "episodes", **{"from": place, "count": 1})["rows"][0] for place in places]
        names = [f"{row['run']}/{row['episode_id']}" for row in listed]
        groups = {
            "filter and sort": [
                functools.partial(get, client, "episodes", **given) for given in some_filters(40, draw)
            ],
            "heat map": [functools.partial(get, client, "cells", **given) for given in some_filters(10, draw)],
            "open an episode": [functools.partial(get, client, "episode", at=name) for name in names],
        }
        for what, works in groups.items():
            taken, cpu = each(process, works)
            rows.append((f"{what}, median", statistics.median(taken), "s", REQUEST, cpu))
            rows.append((f"{what}, slowest of {len(works)}", max(taken), "s", None, None))
        first, whole = search(client, names[0])
        rows += [
            ("text search, first rows", first, "s", None, None),
            ("text search, all turns", whole, "s", None, None),
        ]
        rows.append(("server's peak memory", peak_memory(process), "GiB", MEMORY, None))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1_000_000)
    parser.add_argument("--run-dir", type=Path, help="kept between calls; by default a folder that is removed again")
    options = parser.parse_args()
    assert set(COLUMNS) <= set(LISTED)
    with tempfile.TemporaryDirectory() as folder:
        run_dir = options.run_dir or Path(folder) / "run"
        if not run_dir.exists():
            synthesize(run_dir, options.episodes)
        measured = measure(run_dir, options.episodes)
        measured.append(("pyarrow alone: one filter and sort in memory", bare_filter(run_dir), "s", None, None))
    table = tuple(
        (what, figure, unit, limit, figure / limit if limit else None, cpu)
        for what, figure, unit, limit, cpu in measured
    )
    title = f"{options.episodes:,} episodes"
    columns = ("measured", "figure", "unit", "limit", "share of the limit", "server's CPU seconds")
    show([Table("viewer", title, columns, table)])


if __name__ == "__main__":
    main()
