"""What can be set right in a domain that a model wrote without asking the model: its form, never its facts.

The published domains, which models wrote for the paper, have such faults nearly all: in 82 of 100 ranges touch, as in
``0 to 1`` and ``1 to 5``. A model call on each would be spent on bookkeeping, and the reply would have others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from envs.kumo.names import words
from envs.kumo.properties import range_of


@dataclass
class _Range:
    """One outcome of a test that shows numbers, while it is parted from the others."""

    place: int
    """Among the outcomes as the model listed them."""
    low: Decimal
    high: Decimal
    rules_out: list[Any]

    @property
    def text(self) -> str:
        return f"{self.low} to {self.high}" if self.low != self.high else f"{self.low}"


def repaired(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A domain's body with its form set right, and what was done, a line each.

    Whatever has not the shape of truths and actions stays as it is: the checks complain about it.
    """
    new: dict[str, Any] = copy.deepcopy(dict(body))
    notes: list[str] = []
    truths, actions = new.get("truths"), new.get("actions")
    if not isinstance(truths, dict) or not isinstance(actions, dict):
        return new, notes
    _join_truths(truths, notes)
    for name, entry in actions.items():
        outcomes = _outcomes_of(entry)
        if outcomes is not None:
            outcomes = _with_known_truths(name, outcomes, truths, notes)
            outcomes = _joined(name, outcomes, notes)
            outcomes = _parted(name, outcomes, notes)
            entry["outcomes"] = _possible(name, outcomes, notes)
    _drop_useless_tests(truths, actions, notes)
    _drop_truths_without_rules(truths, actions, notes)
    return new, notes


def twins(body: Mapping[str, Any]) -> Iterator[str]:
    """Truths that just the same outcomes rule out, a line for each pair: no fault, as no game has both."""
    ruled_out_by: dict[str, set[tuple[str, str]]] = {truth: set() for truth in body["truths"]}
    for truth, outcome in _rulings(body):
        ruled_out_by.setdefault(truth, set()).add(outcome)
    # The first truth of each set of outcomes.
    first: dict[frozenset[tuple[str, str]], str] = {}
    for truth, outcomes in ruled_out_by.items():
        other = first.setdefault(frozenset(outcomes), truth)
        if other != truth:
            yield f"truths {other!r} and {truth!r} are ruled out by just the same outcomes: no game has both"


def _rulings(body: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each truth with each test and outcome that rule it out."""
    for action, entry in body["actions"].items():
        for outcome, gone in entry["outcomes"].items():
            for truth in gone:
                yield truth, (action, outcome)


def _join_truths(truths: dict[Any, Any], notes: list[str]) -> None:
    """Leave out truths whose names differ from an earlier one's in case, accents or punctuation only."""
    first: dict[tuple[str, ...], Any] = {}
    for name in list(truths):
        same = first.setdefault(words(str(name)), name)
        if same != name:
            del truths[name]
            notes.append(f"truth {name!r}: is the same as {same!r}")


def _drop_useless_tests(truths: Mapping[Any, Any], actions: dict[Any, Any], notes: list[str]) -> None:
    """Leave out tests that have the name of a truth, or one outcome only."""
    known = {words(str(truth)) for truth in truths}
    for name, entry in list(actions.items()):
        outcomes = _outcomes_of(entry)
        if words(str(name)) in known:
            del actions[name]
            notes.append(f"action {name!r}: left out, because a truth has this name")
        elif outcomes is not None and len(outcomes) == 1:
            del actions[name]
            notes.append(f"action {name!r}: left out, because it has one outcome only")


def _with_known_truths(
    action: Any, outcomes: Mapping[Any, list[Any]], truths: Mapping[Any, Any], notes: list[str]
) -> dict[Any, list[Any]]:
    """Names in lists as the truths are spelled, each once; names of no truth are left out."""
    spelled = {words(str(truth)): truth for truth in truths}
    found: dict[Any, list[Any]] = {}
    for outcome, gone in outcomes.items():
        known = [_known_truth(name, truths, spelled) for name in gone]
        found[outcome] = list(dict.fromkeys(name for name in known if name is not None))
        unknown = [name for name, truth in zip(gone, known, strict=True) if truth is None]
        if unknown:
            notes.append(f"action {action!r}, outcome {outcome!r}: {unknown[0]!r} left out, which is no truth")
    return found


def _known_truth(name: Any, truths: Mapping[Any, Any], spelled: Mapping[tuple[str, ...], Any]) -> Any:
    """The truth that an entry of a list means; None if there is none."""
    if isinstance(name, list | dict):
        return None
    return name if name in truths else spelled.get(words(str(name)))


def _joined(action: Any, outcomes: Mapping[Any, list[Any]], notes: list[str]) -> dict[Any, list[Any]]:
    """Outcomes in words that differ in case or punctuation only, as one that rules out what either does."""
    first: dict[tuple[str, ...], Any] = {}
    found: dict[Any, list[Any]] = {}
    for outcome, gone in outcomes.items():
        key = words(str(outcome)) if range_of(outcome) is None else (str(outcome),)
        same = first.setdefault(key, outcome)
        found[same] = list(dict.fromkeys([*found.get(same, ()), *gone]))
        if same != outcome:
            notes.append(f"action {action!r}: outcome {outcome!r} joined with {same!r}")
    return found


def _ranges_of(outcomes: Mapping[Any, list[Any]]) -> list[_Range]:
    """Outcomes as ranges, whichever of their ends is written first."""
    ranges = []
    for place, (outcome, gone) in enumerate(outcomes.items()):
        ends = [Decimal(end) for end in str(outcome).split(" to ")]
        ranges.append(_Range(place, min(ends), max(ends), gone))
    return ranges


def _parted(action: Any, outcomes: dict[Any, list[Any]], notes: list[str]) -> dict[Any, list[Any]]:
    """Ranges in ascending order that share no number: what two share, the one listed first keeps, as in the paper's code."""
    if not outcomes:
        return outcomes
    are_ranges = all(range_of(outcome) is not None for outcome in outcomes)
    if not are_ranges:
        return outcomes
    ranges = _ranges_of(outcomes)
    least = _least_step(ranges)
    ranges.sort(key=lambda each: (each.low, each.high))
    kept: list[_Range] = []
    for each in ranges:
        # Those before it that it meets give way if they are listed later, else it does.
        for text in _giving_way(kept, each, least):
            notes.append(f"action {action!r}: outcome {text!r} left out, which lies within another one")
        if kept and each.low <= kept[-1].high:
            each.low = kept[-1].high + least
        if each.low <= each.high:
            kept.append(each)
        else:
            notes.append(f"action {action!r}: an outcome left out, which lies within {kept[-1].text!r}")
    found = {each.text: each.rules_out for each in kept}
    if list(found) != list(outcomes):
        notes.append(f"action {action!r}: ranges parted and in ascending order: {', '.join(found)}")
    return found


def _giving_way(kept: list[_Range], new: _Range, least: Decimal) -> list[str]:
    """Cut the ranges that a new one meets and that are listed after it; those of which nothing is left, in words."""
    gone = []
    while kept:
        last = kept[-1]
        if new.low > last.high or new.place >= last.place:
            break
        text = last.text
        last.high = new.low - least
        if last.high >= last.low:
            break
        kept.pop()
        gone.append(text)
    return gone


def _least_step(ranges: Sequence[_Range]) -> Decimal:
    """The step between two ranges: a unit of the last decimal that the test's numbers have."""
    steps = []
    for each in ranges:
        for end in (each.low, each.high):
            steps.append(Decimal(1).scaleb(_exponent(end)))
    return min(steps)


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return min(0, exponent) if isinstance(exponent, int) else 0


def _possible(action: Any, outcomes: dict[Any, list[Any]], notes: list[str]) -> dict[Any, list[Any]]:
    """Without the truths that every outcome rules out: about them the test then says nothing."""
    if len(outcomes) < 2:
        return outcomes
    everywhere = set.intersection(*(set(gone) for gone in outcomes.values()))
    for truth in sorted(everywhere, key=str):
        notes.append(f"action {action!r}: says nothing of {truth!r} now, which all its outcomes ruled out")
    found = {}
    for outcome, gone in outcomes.items():
        found[outcome] = [truth for truth in gone if truth not in everywhere]
    return found


def _drop_truths_without_rules(truths: dict[Any, Any], actions: Mapping[Any, Any], notes: list[str]) -> None:
    able: set[Any] = set()
    for entry in actions.values():
        outcomes = _outcomes_of(entry)
        if outcomes is None:
            return  # what its outcomes rule out is not known
        able.update(*outcomes.values())
    for truth in [truth for truth in truths if truth not in able]:
        del truths[truth]
        notes.append(f"truth {truth!r}: left out, because no outcome rules it out")


def _outcomes_of(entry: Any) -> dict[Any, list[Any]] | None:
    """The outcomes of a test with what each rules out; None if they have another shape."""
    outcomes = entry.get("outcomes") if isinstance(entry, dict) else None
    if not isinstance(outcomes, dict) or not all(isinstance(gone, list) for gone in outcomes.values()):
        return None
    return outcomes
