"""Tables over all subsets of a game's truths, from which the optimal search takes its lower bounds and its folding.

Sets of truths and of actions are bitmasks. L stands for the number of sets of truths (2**T), A for the number of actions,
S for the largest number of distinct outcomes of an action, K for the horizon up to which bounds are tabled, plus 1.

Machine code is cached in this package's ``__pycache__`` (or ``NUMBA_CACHE_DIR``), in a folder of its own for each state of the
sources; where that cannot be written, in numba's directory for the user; where neither can, or a disk is full, it is compiled
anew in each process, which takes some seconds. A new state removes old ones (``KEPT_SECONDS``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import math
import operator
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Integers = NDArray[np.int64]
Small = NDArray[np.int8]
Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)

HORIZON = 6
"""Tests that the bounds look ahead; games rarely last longer."""


SOURCES = ("tables.py", "memo.py", "endgame.py", "kernel.py", "exact.py")
"""The files whose functions are compiled, also into one another."""


KEPT_SECONDS = 86_400.0
"""So long machine code of other sources is kept: a process that began with them, or another branch, may go on with it."""


@contextlib.contextmanager
def _cache_of_these_sources() -> Iterator[None]:
    """Let numba keep machine code by what all sources say.

    It looks at a function's own file only, and would go on with old code of a function of another file.
    """
    before = numba.config.CACHE_DIR
    home = Path(before) if before else Path(__file__).with_name("__pycache__")
    folder = home / f"kumo-{_hash_of_sources()}"
    with contextlib.suppress(OSError):  # a place that cannot be looked into is no place for machine code
        if not folder.exists():
            _remove_old(home)
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _remove_old(home: Path) -> None:
    """Remove machine code of sources of which nobody has compiled any for ``KEPT_SECONDS``."""
    for folder in home.glob(f"kumo-{'[0-9a-f]' * 16}"):
        with contextlib.suppress(OSError):  # another process removes it, too, or writes into it
            latest = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
            if time.time() - latest > KEPT_SECONDS:
                shutil.rmtree(folder)


@functools.cache
def _hash_of_sources() -> str:
    content = [Path(__file__).with_name(name).read_bytes() for name in SOURCES]
    return hashlib.sha256(b"\0".join(content)).hexdigest()[:16]


def compiled(function: Function) -> Function:
    """Compile with numba, and keep the machine code on disk where there is a place for it.

    It runs without Python's global lock, so that searches in threads use other cores than what plays meanwhile.
    """
    try:
        with _cache_of_these_sources():
            return _harmless(numba.njit(cache=True, nogil=True)(function))  # type: ignore[no-any-return]
    except RuntimeError:  # numba finds no writable place for its cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


def compiled_lean(function: Function) -> Function:
    """``compiled`` for functions that create no arrays: leaves out the counting of references, most of their time."""
    try:
        with _cache_of_these_sources():
            return _harmless(numba.njit(cache=True, nogil=True, _nrt=False)(function))  # type: ignore[no-any-return]
    except (RuntimeError, KeyError):  # no place for the cache, or a numba without this option
        return compiled(function)


class _HarmlessCache(FunctionCache):  # type: ignore[misc]
    """numba's cache, of which no failure gets out: what cannot be loaded is compiled, and what cannot be kept is not.

    A disk is full, say, or a crash has left half a file. numba loads and keeps machine code at a function's first call, in the
    midst of a game.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature; None where there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # damaged files raise whatever pickle does
            _warn_once(f"{self.cache_path}: machine code that cannot be read is compiled anew", error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature where that is possible; a list of contents that is damaged begins anew."""
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:
                self.flush()
                super().save_overload(sig, data)
        except Exception as error:
            _warn_once(f"{self.cache_path}: machine code cannot be kept; each process compiles it anew", error)


_WARNED: set[str] = set()


def _warn_once(message: str, error: Exception) -> None:
    """A warning; another one of the same message is left out, as all functions' machine code has one folder."""
    if message not in _WARNED:
        _WARNED.add(message)
        logger.warning("%s (%s: %s)", message, type(error).__name__, error)


def _harmless(dispatcher: Any) -> Any:
    dispatcher._cache = _HarmlessCache(dispatcher.py_func)
    return dispatcher


def inlined(function: Function) -> Function:
    """Compile into the caller, which spares the passing of many arrays."""
    return numba.njit(inline="always")(function)  # type: ignore[no-any-return]


class Tables(NamedTuple):
    """A game and what follows from it, as arrays."""

    keep: Integers
    """(A, S): the truths that an outcome leaves."""
    number: Integers
    """(A, S): how many of the action's states have this outcome; 0 is padding."""
    able: Integers
    """(T,): the actions that can rule a truth out."""
    reach: Integers
    """(A,): the truths that an action can rule out."""
    size: Small
    """(L,): number of truths in a set; ``size[low - 1]`` is the position of a single bit."""
    scale: Floats
    """(L, A): one over the sum of the weights of an action's outcomes; 0 where all outcomes leave nothing."""
    relevant: Integers
    """(L,): the actions that can rule something out of a set."""
    firsts: Integers
    """(L,): of the actions that are alike on a set, the first ones."""
    doubled: Integers
    """(L,): the actions that are alike with another one."""
    first: Small
    """(L, A): the first action that is alike."""
    following: Small
    """(L, A): the next action that is alike, or -1."""
    relaxed: Floats
    """(K, L): least expected tests of the relaxed game that ends when only valid truths are left, or for free after k tests."""
    decided: Floats
    """(K, L): largest probability that k tests leave at most the valid truths."""
    spared: Floats
    """(K, T, L): largest probability that a truth survives k tests which could rule it out."""
    ahead: Floats
    """(K - 1, L, A): expected tests if an action comes first and then the relaxed game of k tests."""
    valid: int
    """Number of valid truths: a game is decided when so many are left."""


def build(outcomes: Sequence[Mapping[int, int]], truths: int, valid: int = 1) -> Tables:
    """All tables of a game.

    Args:
        outcomes: for each action, how many of its states leave which truths.
        truths: number of truths.
        valid: number of valid truths.
    """
    everything = (1 << truths) - 1
    width = max(map(len, outcomes))
    keep = np.zeros((len(outcomes), width), np.int64)
    number = np.zeros((len(outcomes), width), np.int64)
    gone: list[int] = []
    for action, counts in enumerate(outcomes):
        shared = math.gcd(*counts.values())
        keep[action, : len(counts)] = list(counts)
        number[action, : len(counts)] = [count // shared for count in counts.values()]
        # A truth that is not in all that an action may leave can be ruled out by it.
        in_all = functools.reduce(operator.and_, counts)
        gone.append(everything & ~in_all)
    against: list[int] = []
    for truth in range(truths):
        against.append(sum(1 << action for action, mask in enumerate(gone) if mask >> truth & 1))
    able, reach = np.array(against, np.int64), np.array(gone, np.int64)
    size = np.array([left.bit_count() for left in range(everything + 1)], np.int8)
    scale = _scale(keep, number, size)
    relevant, firsts, doubled, first, following = _folding(keep, number, able)
    bounds = _bounds(keep, number, able, size, scale, valid)
    return Tables(keep, number, able, reach, size, scale, relevant, firsts, doubled, first, following, *bounds, valid)


@compiled
def _scale(keep: Integers, number: Integers, size: Small) -> Floats:
    scale = np.zeros((size.size, keep.shape[0]))
    for left in range(size.size):
        for action in range(keep.shape[0]):
            total = 0
            for state in range(keep.shape[1]):
                total += size[left & keep[action, state]] * number[action, state]
            if total > 0:
                scale[left, action] = 1 / total
    return scale


# --- folding: actions that make no difference ------------------------------------------------------------------------


@compiled
def _folding(keep: Integers, number: Integers, able: Integers) -> tuple[Integers, Integers, Integers, Small, Small]:
    """The tables ``relevant, firsts, doubled, first, following``."""
    actions, sets = keep.shape[0], 1 << able.size
    relevant, firsts, doubled = np.zeros(sets, np.int64), np.zeros(sets, np.int64), np.zeros(sets, np.int64)
    first, following = np.zeros((sets, actions), np.int8), np.full((sets, actions), -1, np.int8)
    last, marks = np.zeros(actions, np.int64), np.zeros(actions, np.uint64)
    for left in range(1, sets):
        low = 0
        while not left >> low & 1:
            low += 1
        relevant[left] = relevant[left & (left - 1)] | able[low]
        for action in range(actions):
            if not relevant[left] >> action & 1:
                continue
            marks[action] = _mark(keep, number, left, action)
            alike = action
            for other in range(action):
                if (
                    firsts[left] >> other & 1
                    and marks[other] == marks[action]
                    and _alike(keep, number, left, action, other)
                ):
                    alike = other
                    break
            first[left, action] = alike
            if alike == action:
                firsts[left] |= 1 << action
            else:
                following[left, last[alike]] = action
                doubled[left] |= 1 << action | 1 << alike
            last[alike] = action
    return relevant, firsts, doubled, first, following


@compiled
def _mark(keep: Integers, number: Integers, left: int, action: int) -> np.uint64:
    """A hash of what an action can do to a set of truths, equal for actions that are alike on it."""
    total, emptied = np.uint64(0), np.uint64(0)
    for state in range(keep.shape[1]):
        mixed = np.uint64(left & keep[action, state]) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        total += np.uint64(number[action, state]) * (mixed ^ (mixed >> np.uint64(32)))
        if number[action, state] and not left & keep[action, state]:
            emptied = np.uint64(1)
    return total + emptied


@compiled
def _alike(keep: Integers, number: Integers, left: int, one: int, two: int) -> bool:
    """Whether two actions leave the same subsets of ``left`` equally often.

    States that leave nothing have no weight, but it matters whether there are any: they make an action able to rule out.
    """
    for this, that in ((one, two), (two, one)):
        for state in range(keep.shape[1]):
            kept = left & keep[this, state]
            ours, theirs = 0, 0
            for other in range(keep.shape[1]):
                if left & keep[this, other] == kept:
                    ours += number[this, other]
                if left & keep[that, other] == kept:
                    theirs += number[that, other]
            if ours == theirs:
                continue
            if kept:
                return False
            # Of what leaves nothing, only one of the two has any.
            if min(ours, theirs) == 0:
                return False
    return True


# --- bounds: games made easier by letting actions be repeated --------------------------------------------------------


@compiled
def _bounds(
    keep: Integers, number: Integers, able: Integers, size: Small, scale: Floats, valid: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """The tables ``relaxed, decided, spared, ahead``."""
    actions, sets = keep.shape[0], size.size
    relaxed, decided = np.zeros((HORIZON + 1, sets)), np.zeros((HORIZON + 1, sets))
    spared, ahead = np.zeros((HORIZON + 1, able.size, sets)), np.ones((HORIZON, sets, actions))
    chance = np.zeros(able.size)
    for left in range(sets):
        decided[0, left] = size[left] <= valid
        for truth in range(able.size):
            spared[0, truth, left] = left >> truth & 1
    for k in range(1, HORIZON + 1):
        for left in range(1, sets):
            least = np.inf
            for action in range(actions):
                steps, done = 0.0, 0.0
                chance[:] = 0
                for state in range(keep.shape[1]):
                    kept = left & keep[action, state]
                    share = size[kept] * number[action, state] * scale[left, action]
                    if share > 0:
                        steps += share * relaxed[k - 1, kept]
                        done += share * decided[k - 1, kept]
                        for truth in range(able.size):
                            chance[truth] += share * spared[k - 1, truth, kept]
                if scale[left, action] == 0:  # no outcome is possible, and Algorithm 3 counts nothing after it
                    done = 1.0
                ahead[k - 1, left, action] = 1 + steps
                least = min(least, 1 + steps)
                decided[k, left] = max(decided[k, left], done)
                for truth in range(able.size):
                    if able[truth] >> action & 1:
                        spared[k, truth, left] = max(spared[k, truth, left], chance[truth])
            if size[left] > valid:
                relaxed[k, left] = least
            else:
                decided[k, left] = 1
    return relaxed, decided, spared, ahead
