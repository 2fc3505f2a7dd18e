"""RAVEN problems generated and rendered per CPU second on one core, relative to the published generator.

    python -m benchmarks.raven_generate [--count 400] [--peer CHECKOUT]

The first pass renders every entity bitmap ("cold"); later passes use the cache ("warm"); then problems are also written as
files of the official format. With ``--peer`` the published generator runs in turns with ours, with its files and without;
otherwise the ratio is to the 24/s with files that were measured earlier on another machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.peer import Peer, add_peer_arguments
from envs.raven import CONFIGURATIONS, generate, official, render_problem, write
from envs.raven.files import file_stem

PUBLISHED = 24.0
"""Problems/s of the published code (median over configurations, one of two shared cores, files included)."""


def problems_per_second(name: str, seeds: range, folder: Path | None = None) -> float:
    """In CPU time, since machines are shared; with ``folder``, written as files."""
    start = time.process_time()
    for seed in seeds:
        problem = generate(name, seed)
        if folder is None:
            render_problem(problem)
        else:
            write(official(problem), folder / file_stem(seed))
    return len(seeds) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="problems per configuration and pass")
    add_peer_arguments(parser, "github.com/WellyZhang/RAVEN")
    parser.add_argument("--peer-count", type=int, default=40, help="problems that the published code generates (40)")
    options = parser.parse_args()
    peer = Peer("raven", options.peer, options.peer_python) if options.peer else None
    columns = ["cold", "warm", "files", "their warm", "their files", "ratio", "ratio with files"]
    print(f"problems per CPU second\n{'configuration':42}" + "".join(f"{each:>17}" for each in columns))
    rates: list[list[float]] = []
    for name in CONFIGURATIONS:
        rates.append(measure(name, options.count, peer, options.peer_count))
        print(line(name, rates[-1]), flush=True)
    print(line("median", [statistics.median(column) for column in zip(*rates, strict=True)]))
    print(line("slowest", [min(column) for column in zip(*rates, strict=True)]))
    if peer is None:
        print(f"'their' rates are {PUBLISHED:g}/s with files, measured earlier on another machine; see --peer")
    else:
        peer.close()


def measure(name: str, count: int, peer: Peer | None, peer_count: int) -> list[float]:
    """One configuration: our rates, the published code's, and the ratios."""
    cold = problems_per_second(name, range(count))
    theirs = [float("nan"), PUBLISHED]
    if peer is not None:
        asked = {"configuration": name, "count": peer_count, "seed": 1}
        found = [peer.measure(**asked, files=files) for files in (False, True)]
        theirs = [each["count"] / each["seconds"] for each in found]
    warm = problems_per_second(name, range(count, 2 * count))
    with tempfile.TemporaryDirectory() as folder:
        files = problems_per_second(name, range(count, 2 * count), Path(folder))
    return [cold, warm, files, *theirs, warm / theirs[0], files / theirs[1]]


def line(name: str, values: list[float]) -> str:
    """One row of the table."""
    shown = [f"{value:.0f}" for value in values[:5]] + [f"{value:.1f}x" for value in values[5:]]
    return f"{name:42}" + "".join(f"{text.replace('nanx', '-').replace('nan', '-'):>17}" for text in shown)


if __name__ == "__main__":
    main()
