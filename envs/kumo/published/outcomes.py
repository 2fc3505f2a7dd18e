"""The outcome tables of a published domain: read from its variables, as ``Action`` values, with what is wrong with them.

The published code reads a table so: a named outcome by equality, a number by closed ranges, and other types not at all.
Where several ranges hold a number, its search goes by the first, its scoring by all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from envs.kumo.domain import Action, State
from envs.kumo.published.literals import Names, NotDataError

MOST_OUTCOMES = 200
"""Of an action; each pair is compared. Published ones have 8 at most."""
_VARIABLES = (("Truths", "Actions"), ("Diseases", "Diagnosis"), ("Abilities", "Tests"))
"""What the published modules call their truths and actions."""


def read_table(variables: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Action, ...], list[str]]:
    """Truths, actions and warnings of a domain.

    Args:
        variables: Of the domain's module (``literals.read_variables``).

    Raises:
        NotDataError: the variables are not those of a domain.
    """
    truths_name, actions_name = _variables_of(variables)
    warnings: list[str] = []
    truths = _list_of_names(variables[truths_name], truths_name, warnings)
    listed = _list_of_names(variables[actions_name], actions_name, warnings)
    outcomes = variables.get("Outcomes")
    if not isinstance(outcomes, dict):
        raise NotDataError("has no dictionary Outcomes")
    actions = tuple(_action(name, entry, truths, warnings) for name, entry in outcomes.items())
    warnings += [f"{name!r} has no outcomes" for name in listed if name not in outcomes]
    warnings += _problems(truths, actions)
    return truths, actions, warnings


def _variables_of(variables: Mapping[str, Any]) -> tuple[str, str]:
    """What a module calls its truths and actions."""
    for truths, actions in _VARIABLES:
        if truths in variables and actions in variables:
            return truths, actions
    raise NotDataError("has no Truths and Actions")


def _list_of_names(value: Any, what: str, warnings: list[str]) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    if not is_list or not value:
        raise NotDataError(f"{what} is no list of names")
    unique = tuple(dict.fromkeys(value))
    if len(unique) < len(value):
        twice = sorted({name for name in value if list(value).count(name) > 1})
        warnings.append(f"{what} holds {', '.join(map(repr, twice))} twice")
    return unique


def _action(name: Any, entry: Any, truths: Sequence[str], warnings: list[str]) -> Action:
    no_table = NotDataError(f"Outcomes[{name!r}] is not a type with states")
    if not isinstance(name, str) or not isinstance(entry, dict):
        raise no_table
    kind, states = entry.get("type"), entry.get("states")
    if not isinstance(kind, str) or not isinstance(states, dict) or not states:
        raise no_table
    if len(states) > MOST_OUTCOMES:
        raise NotDataError(f"Outcomes[{name!r}] has {len(states):,} states, more than {MOST_OUTCOMES}")
    table = tuple(_states(name, states, truths, warnings))
    fits = _FITTING.get(kind)
    if fits is None:
        warnings.append(f"{name!r} has outcomes of the type {kind!r}, which the published code never reads")
        return Action(name, "other", table)
    odd = [key for key in states if not fits(key)]
    if odd:
        warnings.append(f"{name!r}, of the type {kind!r}, has outcomes such as {odd[0]!r}")
    return Action(name, entry["type"], table)


def _states(name: str, states: Mapping[Any, Any], truths: Sequence[str], warnings: list[str]) -> Iterator[State]:
    for key, gone in states.items():
        if not isinstance(gone, Names | list | tuple):
            raise NotDataError(f"Outcomes[{name!r}][{key!r}] is no set of names")
        unknown = [truth for truth in gone if truth not in truths]
        if unknown:
            warnings.append(f"{name!r}, outcome {key!r} rules out {', '.join(map(repr, unknown))}, no truth")
        yield State(_state_value(key), _in_order(gone, truths))


def _in_order(gone: Iterable[str], truths: Sequence[str]) -> tuple[str, ...]:
    known = set(gone).intersection(truths)
    return tuple(truth for truth in truths if truth in known)


def _is_text(key: Any) -> bool:
    return isinstance(key, str)


def _is_range(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 2 and all(isinstance(end, int | float) for end in key)


_FITTING: Mapping[str, Callable[[Any], bool]] = {"str": _is_text, "float": _is_range}
"""What the outcomes of a type should be, for the types that the published code reads."""


def _state_value(key: Any) -> str | tuple[float, float]:
    return key if isinstance(key, str) or _is_range(key) else repr(key)


def _problems(truths: Sequence[str], actions: Sequence[Action]) -> Iterator[str]:
    """What is wrong with a whole domain."""
    able: set[str] = set()
    names: set[str] = set()
    for action in actions:
        yield from _problems_of_rules(action, truths)
        names.add(action.name)
        for state in action.states:
            able.update(state.rules_out)
    never_ruled_out = [truth for truth in truths if truth not in able]
    for truth in never_ruled_out:
        yield f"{truth!r} can be ruled out by no action"
    also_actions = [truth for truth in truths if truth in names]
    for truth in also_actions:
        yield f"{truth!r} is a truth and an action"


def _ruled_out_everywhere(action: Action) -> set[str]:
    """What every outcome of an action rules out; nothing where it has only one, or none."""
    if len(action.states) < 2:
        return set()
    return set.intersection(*(set(state.rules_out) for state in action.states))


def _problems_of_rules(action: Action, truths: Sequence[str]) -> Iterator[str]:
    if action.outcome == "float":
        yield from _problems_of_ranges(action)
    everywhere = _ruled_out_everywhere(action)
    for truth in truths:
        if truth in everywhere:
            yield f"{action.name!r} rules out {truth!r} in every outcome"


def _problems_of_ranges(action: Action) -> Iterator[str]:
    ranges = [state.value for state in action.states if not isinstance(state.value, str)]
    for low, high in ranges:
        if low > high:
            yield f"{action.name!r} has the reversed range {low} to {high}, which holds no number"
    for first, second in itertools.combinations(ranges, 2):
        # Ranges that only touch are no defect: the first one decides.
        if max(first[0], second[0]) < min(first[1], second[1]):
            yield f"{action.name!r} has overlapping ranges, {_text(first)} and {_text(second)}"


def touching(actions: Sequence[Action]) -> int:
    """Pairs of ranges of one action that share an end, where the first decides."""
    count = 0
    for action in actions:
        if action.outcome != "float":
            continue
        ranges = [state.value for state in action.states if not isinstance(state.value, str)]
        for first, second in itertools.combinations(ranges, 2):
            count += first[1] == second[0] or second[1] == first[0]
    return count


def matching(action: Action, observation: Any) -> list[State]:
    """The states that an observation is in as the published scoring reads it: none, one, or several ranges."""
    if action.outcome == "str" and isinstance(observation, str):
        return [state for state in action.states if state.value == observation]
    if action.outcome == "float" and isinstance(observation, int | float):
        return [state for state in action.states if state.covers(observation)]
    return []


def _text(ends: tuple[float, float]) -> str:
    return f"{ends[0]} to {ends[1]}"
