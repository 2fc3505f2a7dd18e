"""The table of the real world in a domain file: of which truths each outcome of a test is true (key ``true_of``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envs.kumo.domain import Action
from envs.kumo.properties import Properties, Value

OTHERS, UNKNOWN = "others", "unknown"
"""In place of a list: all truths that are named nowhere else in the test. In place of an outcome: those left open."""

Truths = tuple[frozenset[str], ...]
"""For each outcome of a test the truths of which it is true."""


def read_true_of(
    given: Any,
    action: Action,
    texts: Sequence[str],
    properties: Properties,
    observed: str,
    wrong: Callable[[str], None],
) -> Truths:
    """The truths of which each outcome is true.

    A truth that is named stands where it is named. Any other stands with all values of the property observed that it may
    take, or is unknown if one of these stands with no outcome.

    Args:
        given: what the file has: a mapping of outcomes to lists of truths or values, or, for tests that show numbers, the
            name of the property that the numbers are read from.
        action: the test.
        texts: its outcomes as the file words them.
        properties: the domain's properties.
        observed: the property that the test observes, if any.
        wrong: told of each problem.
    """
    if isinstance(given, str):
        found = _from_numbers(given, action, properties, wrong)
    else:
        found = _from_lists(given, texts, properties, observed, wrong)
    for state, truths in zip(action.states, found, strict=True):
        for truth in state.rules_out:
            if truth in truths:
                wrong(f"true_of: {state.text!r} is true of {truth!r}, which it rules out")
    return found


def _from_numbers(name: str, action: Action, properties: Properties, wrong: Callable[[str], None]) -> Truths:
    """An outcome is true of a truth if their ranges have a number in common."""
    if action.outcome != "float" or name not in properties.names or properties.not_ranges(name):
        wrong(f"true_of: {name!r} must be a property with numbers, of a test that shows numbers")
        return tuple(frozenset() for _ in action.states)
    everything = {truth for truth, held in properties.truths.items() if name in held}
    ranges = [state.value for state in action.states if not isinstance(state.value, str)]
    return tuple(frozenset(everything - properties.outside(name, shown)) for shown in ranges)


def _from_lists(
    given: Any, texts: Sequence[str], properties: Properties, observed: str, wrong: Callable[[str], None]
) -> Truths:
    lists = _lists(given, [*texts, UNKNOWN], wrong)
    named = set[str]().union(*lists.values())
    values: set[Any] = set()
    if observed:
        values = set(properties.values(observed))
    for name in sorted(named - properties.truths.keys() - values):
        wrong(f"true_of: {name!r} is neither a truth nor a value of what the test observes")
    # A truth that is not named itself stands with the outcomes of its values, if all of them are named.
    by_values = _all_values_named(named, properties, observed)
    for truth, taken in by_values.items():
        for names in lists.values():
            if names.intersection(taken):
                names.add(truth)
    others = properties.truths.keys() - named - by_values.keys()
    found: list[frozenset[str]] = []
    for text in texts:
        true = lists.get(text, set()) & properties.truths.keys()
        if isinstance(given, Mapping) and given.get(text) == OTHERS:
            true = others
        found.append(frozenset(true))
    return tuple(found)


def _all_values_named(named: set[str], properties: Properties, observed: str) -> dict[str, Value]:
    """The truths that are not named themselves, but all of whose values are, with these values."""
    found = {}
    for truth, held in properties.truths.items():
        taken = held.get(observed, ())
        if truth in named or not taken:
            continue
        if named.issuperset(taken):
            found[truth] = taken
    return found


def _lists(given: Any, known: Sequence[str], wrong: Callable[[str], None]) -> dict[str, set[str]]:
    """What stands with each outcome, as names; nothing for the others."""
    if not isinstance(given, Mapping):
        wrong(f"true_of must be a mapping of outcomes to lists of truths, not {type(given).__name__}")
        return {}
    lists: dict[str, set[str]] = {}
    for text, items in given.items():
        if text not in known:
            wrong(f"true_of: there is no outcome {text!r}")
            continue
        # These are known only when all lists have been read.
        if items == OTHERS:
            continue
        is_list = isinstance(items, list) and all(isinstance(item, str) for item in items)
        if not is_list:
            wrong(f"true_of, {text!r}: a list of truths, or {OTHERS}, not {items!r}")
            continue
        lists[text] = set(items)
    return lists
