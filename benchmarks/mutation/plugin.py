"""In place of pytest's loop: for each change a child process, in which the changed code runs under the tests of its line.

The tests are collected and their modules imported once; a child begins with all of that. Code in processes that a test
starts is not changed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from benchmarks.mutation.changes import Change

SETTINGS = "RAYCADE_MUTATION"
"""Environment variable: a file of JSON with ``changes``, ``tests`` (of each file and line), ``results`` (a path)."""
MOST_TESTS = 60
"""Of one line, those that cover little first: they are quick, and about it."""
MOST_SECONDS = 10.0
"""For all tests of a change. Where they take as long without it, nothing can be told; else the change made one hang."""

Functions = dict[tuple[str, str, int], list[types.FunctionType]]
"""By file, qualified name and first line."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Play the tests of each change; one line of results for each."""
    settings = json.loads(Path(os.environ[SETTINGS]).read_text())
    root = Path.cwd()
    items = {item.nodeid: item for item in session.items}
    for item in session.items:  # how a failure looks takes a second to write, and nobody reads it
        item.repr_failure = item._repr_failure_py = lambda *_, **__: "failed"  # type: ignore[method-assign, attr-defined]
    tests: dict[str, dict[str, list[str]]] = settings["tests"]
    breadth: defaultdict[str, int] = defaultdict(int)
    for of_line in tests.values():
        for names in of_line.values():
            for name in names:
                breadth[name] += 1
    functions = _functions(root)
    gc.freeze()
    fails_anyway: dict[str, bool] = {}
    with Path(settings["results"]).open("w") as results:
        for change in (Change(**each) for each in settings["changes"]):
            source = (root / change.file).read_bytes()
            known = [name for name in tests[change.file].get(str(change.line), ()) if name in items]
            known.sort(key=lambda name: (Path(change.file).stem not in name, breadth[name]))
            chosen = [items[name] for name in known if not fails_anyway.get(name)][:MOST_TESTS]
            verdict, failed = _verdict(change, source, chosen, functions, root)
            if failed and failed not in fails_anyway:
                fails_anyway[failed] = "failed" in dict(_in_child(lambda tell, one=failed: _play([items[one]], tell)))
            if fails_anyway.get(failed):
                verdict = "unknown"
            print(json.dumps([vars(change), verdict, failed, len(chosen)]), file=results, flush=True)
    return True


def _verdict(
    change: Change, source: bytes, tests: Sequence[pytest.Item], functions: Functions, root: Path
) -> tuple[str, str]:
    """``noticed``, ``survived``, ``not run`` or ``unknown``, and the test that failed."""
    if not tests:
        return "not run", ""

    def play(tell: Callable[[str, str], None]) -> None:
        if _apply(change, source, functions, root):
            _play(tests, tell)
        else:
            tell("unknown", "")

    told = dict(_in_child(play))
    if "unknown" in told:
        return "unknown", ""
    if "passed" in told:
        return "survived", ""
    if "failed" not in told and not dict(_in_child(lambda tell: _play(tests, tell))):
        return "unknown", ""
    return "noticed", told.get("failed", "")  # without a word where it hung, or ended the process


def _play(tests: Sequence[pytest.Item], tell: Callable[[str, str], None]) -> None:
    for place, item in enumerate(tests):
        following = tests[place + 1] if place + 1 < len(tests) else None
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            tell("failed", item.nodeid)
            return
    tell("passed", "")


def _in_child(work: Callable[[Callable[[str, str], None]], None]) -> Iterator[tuple[str, str]]:
    """What a child process tells, until it ends or ``MOST_SECONDS`` have passed; nothing of it is left then."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            gc.disable()
            os.close(ours)
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
            work(lambda kind, text: os.write(theirs, f"{json.dumps([kind, text])}\n".encode()) and None)
        finally:
            os._exit(0)
    os.close(theirs)
    said, end = b"", time.monotonic() + MOST_SECONDS
    while (left := end - time.monotonic()) > 0:
        if select.select([ours], [], [], left)[0]:
            piece = os.read(ours, 1 << 16)
            if not piece:
                break
            said += piece
    os.close(ours)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for line in said.decode().splitlines():
        yield tuple(json.loads(line))


# --- code in memory --------------------------------------------------------------------------------------------------


def _functions(root: Path) -> Functions:
    """All functions of the checkout that are in memory."""
    found: Functions = defaultdict(list)
    gc.unfreeze()  # what is frozen is not listed
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType) and each.__code__.co_filename.startswith(f"{root}{os.sep}"):
            code = each.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)  # type: ignore[attr-defined, unused-ignore]
    return found


def _apply(change: Change, source: bytes, functions: Functions, root: Path) -> bool:
    """Give the functions in memory the changed code; False if none of them has it."""
    path = str(root / change.file)
    before, after = (compile(text, path, "exec", dont_inherit=True) for text in (source, change.applied(source)))
    return _replace(path, before, after, functions)


def _replace(path: str, before: types.CodeType, after: types.CodeType, functions: Functions) -> bool:
    replaced = False
    for one, other in zip(_within(before), _within(after), strict=False):
        if one == other:
            continue
        in_memory = functions.get((path, one.co_qualname, one.co_firstlineno), [])  # type: ignore[attr-defined, unused-ignore]
        for function in in_memory:
            if len(function.__code__.co_freevars) == len(other.co_freevars):
                function.__code__ = other
                replaced = True
        if not in_memory:  # a class, or a function that is made anew at each call of another
            replaced |= _replace(path, one, other, functions)
    return replaced


def _within(code: types.CodeType) -> list[types.CodeType]:
    return [each for each in code.co_consts if isinstance(each, types.CodeType)]


def tests_by_line(coverage_file: Path, root: Path, files: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Which tests run each line, out of a measurement with a context for each test."""
    from coverage import CoverageData

    data = CoverageData(str(coverage_file))
    data.read()
    found: dict[str, dict[str, list[str]]] = {}
    for file in files:
        contexts: dict[int, Any] = data.contexts_by_lineno(str(root / file))
        found[file] = {}
        for line, names in contexts.items():
            found[file][str(line)] = sorted({name.partition("|")[0] for name in names if name})
    return found


if __name__ == "__main__":
    sys.exit("this is a plugin of pytest; see python -m benchmarks.mutation --help")
