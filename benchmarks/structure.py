"""Measures the structure of a checkout: rooms and imports, lines of core and suites, density, complexity, what is passed on.

A room is a folder of a package, or a file on the package's top level; an arrow is an import from one room of another. The same
command measures any checkout, so that two commits can be compared:

    python -m benchmarks.structure [CHECKOUT]
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

PACKAGES = ("cluster", "evals", "envs")
SUITES = {"kidgym": "kidgym", "multistar": "multistar", "raven": "multistar", "kumo": "kumo"}
"""Parts of a path, and the suite that a file with one of them belongs to."""
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.comprehension, ast.ExceptHandler, ast.Assert)
SHORTEST = 10
"""Lines of the shortest function whose density counts."""
PASSED = ("settings", "run_dir", "run_dirs")

RUN = """
import os, sys
import pyarrow.parquet as pq
opened = []
for name in ("read_table", "ParquetFile"):
    def opening(path, *rest, real=getattr(pq, name), **more):
        opened.append(str(path))
        return real(path, *rest, **more)
    setattr(pq, name, opening)
from cluster.cli import main
try:
    main(sys.argv[1:])
finally:
    print("plan opened", sum(path.endswith("plan.parquet") for path in opened), flush=True)
    files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    print("modules loaded", *sorted({file for file in files if file.endswith(".py")}), sep="\\n", flush=True)
"""
GAME = (
    "suite=kumo",
    "suite.domains=[medical]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=2",
    "model=random",
)


@dataclass(frozen=True)
class Source:
    """One file of Python."""

    path: Path
    """Relative to the checkout."""
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """Of the file, blank ones too."""
        return len(self.text.splitlines())

    @property
    def suite(self) -> str:
        """The suite it belongs to; "core" for none."""
        path = str(self.path)
        found = [suite for part, suite in SUITES.items() if part in path]
        return found[0] if found else "core"

    @property
    def room(self) -> str:
        """The package's folder, or file, that it lies in; suites have a room each."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[: 3 if parts[:2] == ("evals", "suites") else 2])


def sources(checkout: Path, *folders: str) -> list[Source]:
    found = []
    for folder in folders:
        for path in sorted((checkout / folder).rglob("*.py")):
            text = path.read_text()
            found.append(Source(path.relative_to(checkout), text, ast.parse(text)))
    return found


def arrows(files: list[Source]) -> nx.DiGraph:
    """Which room imports which."""
    room_of = {".".join(each.path.with_suffix("").parts).removesuffix(".__init__"): each.room for each in files}
    graph = nx.DiGraph()
    graph.add_nodes_from(set(room_of.values()))
    for each in files:
        for target in imported(each.tree):
            room = room_of.get(target, room_of.get(target.rpartition(".")[0]))
            if room is not None and room != each.room:
                graph.add_edge(each.room, room)
    return graph


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def functions(files: list[Source]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in files:
        for node in ast.walk(each.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def branches(body: list[ast.stmt]) -> int:
    """Places where the way divides, operands of ``and`` and ``or`` among them."""
    nodes = [node for part in body for node in ast.walk(part)]
    operands = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return sum(isinstance(node, BRANCHES) for node in nodes) + operands


def density(function: ast.FunctionDef | ast.AsyncFunctionDef) -> float | None:
    """Branches per line of the body, docstring aside; None for a short function."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
    return branches(body) / lines if lines >= SHORTEST else None


def passes_on(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it takes settings or a run directory's path and gives that very thing to another call."""
    taken = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)} & set(PASSED)
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    given = [each for call in calls for each in (*call.args, *(word.value for word in call.keywords))]
    return any(isinstance(each, ast.Name) and each.id in taken for each in given)


def comments(each: Source) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(each.text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


@dataclass(frozen=True)
class Run:
    """What one small run by a built-in player did."""

    plan_openings: str
    """How often it opened its plan; an error where it failed."""
    modules: frozenset[Path]
    """The files of Python that it loaded."""


def play(checkout: Path) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", RUN, "run", *GAME, f"run_dir={folder}/run"]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    said, _, loaded = done.stdout.partition("modules loaded\n")
    opened = [line.split()[-1] for line in said.splitlines() if line.startswith("plan opened")]
    modules = frozenset(Path(line) for line in loaded.splitlines())
    return Run(opened[-1] if opened else f"failed: {done.stderr[-200:]}", modules)


def measure(checkout: Path) -> Iterator[tuple[str, object]]:
    files = sources(checkout, *PACKAGES)
    graph = arrows(files)
    floors = nx.condensation(graph)
    circles = [part for part in nx.strongly_connected_components(graph) if len(part) > 1]
    yield "rooms", len(graph)
    yield "arrows between rooms", graph.number_of_edges()
    yield "levels", nx.dag_longest_path_length(floors) + 1
    yield "arrows back (in circles of rooms)", sum(graph.subgraph(part).number_of_edges() for part in circles)
    lines = Counter[str]()
    for each in files:
        lines[each.suite] += each.lines
    for name, count in sorted(lines.items()):
        yield f"lines, {name}", count
    run = play(checkout)
    loaded = [each for each in files if each.suite == "core" and checkout / each.path in run.modules]
    yield "lines, core, that a run loads", sum(each.lines for each in loaded)
    yield "lines, tests", sum(each.lines for each in sources(checkout, "tests"))
    made = list(functions(files))
    dense = [found for each in made if (found := density(each)) is not None]
    yield "branches per line, mean", f"{sum(dense) / len(dense):.3f}"
    yield "functions with 0.7 or more", f"{sum(found >= 0.7 for found in dense) / len(dense):.1%}"
    yield "branches per line, most", f"{max(dense):.2f}"
    ways = [1 + branches(each.body) for each in made]
    yield "complexity, most", max(ways)
    yield "functions above 15, above 20", f"{sum(found > 15 for found in ways)}, {sum(found > 20 for found in ways)}"
    yield "comments per 100 lines", f"{100 * sum(map(comments, files)) / lines.total():.1f}"
    documented = [ast.get_docstring(each) or "" for each in made] + [
        ast.get_docstring(each.tree) or "" for each in files
    ]
    yield "docstring examples", sum(text.count(">>> ") for text in documented)
    yield "functions that pass settings or a run directory on", sum(map(passes_on, made))
    yield "openings of the plan in one run", run.plan_openings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, default=Path.cwd())
    for name, value in measure(parser.parse_args().checkout.resolve()):
        print(f"{name:52}{value}")


if __name__ == "__main__":
    main()
