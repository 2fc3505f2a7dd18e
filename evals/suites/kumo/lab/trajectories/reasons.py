"""Why perfect play does what it does, in words, with the numbers of the optimal search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envs.kumo import OptimalSearch, Task
from envs.kumo.search import TIE
from evals.suites.kumo.judge import CHEAP, values_after
from evals.suites.kumo.show import example, leaves


def reasons_to_test(task: Task, search: OptimalSearch, taken: Sequence[str], test: str) -> str:
    """What each outcome of the best test would leave, the tests that are then expected, and what the next best test expects.

    The next best test is told of in games of up to ``CHEAP`` truths: in larger ones its value takes long to search.

    Args:
        task: The game.
        search: Of this task.
        taken: The tests so far.
        test: The one that perfect play takes next.
    """
    expected = search.expected_after(task.shown(taken))
    lines = [_possible(task, taken), *_outcomes(task, search, taken, test)]
    lines.append(f"So {test} first means {expected:.2f} tests on average{_next_best(task, taken, test, expected)}.")
    return "\n".join(lines)


def reasons_to_name(task: Task, taken: Sequence[str], truth: str) -> str:
    """Why a truth is certain."""
    if len(task.survivors(task.shown(taken))) <= len(task.valid_truths):
        return f"{_possible(task, taken)} Every other candidate has been ruled out."
    return f"{_possible(task, taken)} Nothing that is left can rule out {truth}, so it is right."


def _possible(task: Task, taken: Sequence[str]) -> str:
    return f"Still possible: {', '.join(task.survivors(task.shown(taken)))}."


def _outcomes(task: Task, search: OptimalSearch, taken: Sequence[str], test: str) -> Iterator[str]:
    """A line for each set of truths that the test can leave."""
    observed = task.shown(taken)
    for left, states, share in leaves(task, task.survivors(observed), test):
        more = search.expected_after({**observed, test: example(states[0])})
        outcome = " or ".join(f'"{state.text}"' for state in states)
        certain = "it is certain" if len(left) == 1 else "one of them is certain"
        then = f"{more:.2f} more tests on average" if more else certain
        yield f"If the outcome of {test} is {outcome} ({share:.2f}): {', '.join(left)} left, {then}."


def _next_best(task: Task, taken: Sequence[str], test: str, expected: float) -> str:
    if len(task.truths) > CHEAP:
        return ""
    others = {name: value for name, value in values_after(task, taken).items() if name != test}
    if not others:
        return "; no other test can tell anything"
    other = min(others, key=others.__getitem__)
    as_good = others[other] < expected + TIE
    return f"; {other} first would be as good" if as_good else f"; {other} first, {others[other]:.2f}"
