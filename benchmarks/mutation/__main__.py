"""Mutation testing: the share of one-line changes in functions that a fast test notices.

python -m benchmarks.mutation                         one changed line in 50, of everything
python -m benchmarks.mutation evals/stats --share 1   each line that can be changed, below these paths
python -m benchmarks.mutation cluster/runner --show   also print the changes that no test notices

The fast tests are played once to learn which of them run each line (ten minutes on two cores; kept in --coverage, and used
again until that file is deleted). Then every change is made in memory, in a process of its own, and the tests of its line are
played. Changes that alter nothing which matters survive as well: read them before you write a test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.mutation import plugin
from benchmarks.mutation.changes import Change, changes_in
from evals.tables import Table

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("cluster", "evals", "envs")
FAST = "not (slow or ray or vllm or browser)"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=PACKAGES, help="beginnings of files' paths; everything by default")
    parser.add_argument("--share", type=float, default=0.02, help="of the lines that can be changed (default 0.02)")
    parser.add_argument("--seed", type=int, default=0, help="which lines, and how they change (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: as many as cores)")
    parser.add_argument("--coverage", type=Path, default=Path(tempfile.gettempdir()) / "raycade-coverage")
    parser.add_argument("--show", action="store_true", help="print the changes that no test notices")
    options = parser.parse_args()
    files = [file for file in python_files() if file.startswith(tuple(options.paths))]
    if not options.coverage.exists():
        measure_coverage(options.coverage, options.jobs)
    changes = [change for file in files for change in changes_in(ROOT, file, options.share, options.seed)]
    tests = plugin.tests_by_line(options.coverage, ROOT, sorted({change.file for change in changes}))
    results = play(changes, tests, options.jobs)
    if options.show:
        for change, verdict, _, count in results:
            if verdict in ("survived", "not run"):
                print(f"{change.file}:{change.line} [{count} tests] {change.shown((ROOT / change.file).read_bytes())}")
    print(table_of(results).to_markdown())


def python_files() -> list[str]:
    """All of the three packages, as git knows them."""
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for file in listed.stdout.split() if file.endswith(".py")]


def measure_coverage(to: Path, jobs: int) -> None:
    """Play the fast tests and write down which of them run each line."""
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as settings:
        include = "\n    ".join(f"{ROOT}/{package}/*" for package in PACKAGES)
        settings.write(f"[run]\ndata_file={to}\ninclude=\n    {include}\n")
        settings.flush()
        command = ["pytest", "-q", "-m", FAST, "-n", str(jobs), "--dist=loadfile", "-p", "no:cacheprovider"]
        command += ["--cov", f"--cov-config={settings.name}", "--cov-context=test", "--cov-report="]
        done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit("the tests must pass before they can be measured; pip install -e .[mutation] for coverage")


Result = tuple[Change, str, str, int]
"""A change, what became of it, the test that noticed it, and how many run its line."""


def play(changes: list[Change], tests: dict[str, dict[str, list[str]]], jobs: int) -> list[Result]:
    """Make each change and play the tests of its line."""
    found: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        for job in range(jobs):
            results = Path(folder) / f"results-{job}"
            mine = [vars(change) for change in changes[job::jobs]]
            settings = json.dumps({"changes": mine, "tests": tests, "results": str(results)})
            (Path(folder) / f"settings-{job}").write_text(settings)
            environment = {**os.environ, plugin.SETTINGS: str(Path(folder) / f"settings-{job}")}
            command = ["pytest", "-q", "-m", FAST, "-p", "benchmarks.mutation.plugin", "-p", "no:xdist"]
            command += ["-p", "no:cacheprovider", "--capture=sys"]
            worker = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
            )
            workers.append((worker, results))
        for worker, results in workers:
            worker.wait()
            for line in results.read_text().splitlines():
                change, *rest = json.loads(line)
                found.append((Change(**change), *rest))
    return found


def table_of(results: list[Result]) -> Table:
    """Shares by package and room."""
    of_room: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for change, verdict, *_ in results:
        parts = change.file.split("/")
        for room in (parts[0], "/".join(parts[:2]), "all"):
            of_room[room][verdict] += 1
    rows = []
    for room, count in sorted(of_room.items()):
        told = count["noticed"] + count["survived"] + count["not run"]
        share = count["noticed"] / told if told else None
        rows.append((room, told, count["noticed"], count["survived"], count["not run"], share))
    columns = ("room", "changes", "noticed", "survived", "no fast test runs it", "share noticed")
    return Table("mutation", "Changes that a fast test notices", columns, tuple(rows))


if __name__ == "__main__":
    main()
