"""Published tasks: one line of a task file against its domain's tables, with all that is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from envs.kumo.domain import Action, Observation
from envs.kumo.published.literals import is_plain
from envs.kumo.published.outcomes import matching
from envs.kumo.search import check_size
from envs.kumo.task import Task

_KEYS = ("truths", "actions", "observations", "seed", "valid_truth")
MOST_SEED = 2**31 - 1
"""A plan holds it as the index of a game."""


UNKNOWN, AMBIGUOUS, ACCEPTED, SAME = REASONS = (
    "show an outcome that is in no table",
    "show a number that is in several ranges",
    "are not won by exactly their valid truth",
    "have a name that is a truth and a test",
)


class BadLineError(ValueError):
    """A line that is no task of its domain; the message says why."""


def read_task(
    fields: Any, domain: str, truths: frozenset[str], actions: Mapping[str, Action]
) -> tuple[Task, dict[str, str]]:
    """A task, and why it is malformed, if it is: which of ``REASONS``, each with the first name that it is about.

    A malformed task can be played, but not be told right from wrong without doubt: the published scoring accepts another
    number of truths than one, an outcome is in no table or in several ranges, or a name is a truth and a test.

    Args:
        fields: One parsed line of a published task file.
        domain: Name of the domain.
        truths: All truths of the domain.
        actions: All actions of the domain, by name.

    Raises:
        BadLineError: the line is no task of this domain.
    """
    _check(fields, truths, actions)
    task_truths, shown = tuple(fields["truths"]), fields["observations"]
    reasons: dict[str, str] = {}
    table, observations, excluded = [], [], set[str]()
    for name in fields["actions"]:
        action, observation = actions[name].restricted(task_truths), shown[name]
        states = matching(action, observation)
        for state in states:
            excluded.update(state.rules_out)
        if not states:
            reasons.setdefault(UNKNOWN, f"{name!r} shows {observation!r}, which is none of its outcomes")
            action = Action(name, "other", action.states)
        elif len(states) > 1:
            reasons.setdefault(AMBIGUOUS, f"{name!r} shows {observation!r}, which is in {len(states)} ranges")
        table.append(action)
        observations.append(_observation(observation))
    accepted = tuple(truth for truth in task_truths if truth not in excluded)
    as_named = accepted == (fields["valid_truth"],)
    if not as_named:
        reasons[ACCEPTED] = f"the published scoring accepts {', '.join(map(repr, accepted)) or 'no truth'}"
    for name in task_truths:
        if name in shown:
            reasons.setdefault(SAME, f"{name!r} is a truth and a test")
    task = Task(
        domain=domain,
        truths=task_truths,
        actions=tuple(table),
        observations=tuple(observations),
        valid_truth=fields["valid_truth"],
        index=fields["seed"],
        seed=fields["seed"],
        accepted=None if as_named else accepted,
    )
    return task, reasons


def _observation(value: Any) -> Observation:
    """What the task keeps of an observation; one of another type than the game knows becomes text."""
    return value if isinstance(value, str | int | float) else str(value)


def _check(fields: Any, truths: frozenset[str], actions: Mapping[str, Action]) -> None:
    if not isinstance(fields, dict):
        raise BadLineError("is no task")
    missing = [key for key in _KEYS if key not in fields]
    if missing:
        raise BadLineError(f"lacks {', '.join(missing)}")
    _check_names(fields, "truths", truths)
    _check_names(fields, "actions", actions)
    if fields["valid_truth"] not in fields["truths"]:
        raise BadLineError(f"has the valid truth {str(fields['valid_truth'])[:80]!r}, which is not among its truths")
    # True and False are whole numbers to Python, but no seeds.
    seed = fields["seed"]
    if type(seed) is not int or not 0 <= seed <= MOST_SEED:
        raise BadLineError(f"has a seed that is no whole number up to {MOST_SEED:,}")
    _check_observations(fields["observations"], fields["actions"])
    try:
        check_size(len(fields["truths"]), len(fields["actions"]))
    except ValueError as cause:
        raise BadLineError(f"is too large: {cause}") from None


def _check_observations(shown: Any, actions: Collection[str]) -> None:
    if not isinstance(shown, dict) or set(shown) != set(actions):
        raise BadLineError("does not have one observation for each action")
    for name, value in shown.items():
        parts = value if isinstance(value, list) else [value]
        if not all(map(is_plain, parts)):
            raise BadLineError(f"has an observation of {name!r} that is neither text nor number")


def _check_names(fields: Mapping[str, Any], key: str, known: Collection[str]) -> None:
    names = fields[key]
    if not _is_list_of_names(names):
        raise BadLineError(f"{key} is no list of names")
    if len(set(names)) < len(names):
        raise BadLineError(f"{key} names one twice")
    for name in names:
        if name in known:
            continue
        hint = ""
        close = difflib.get_close_matches(name, known, 1)
        if close:
            hint = f"; did they mean {close[0]!r}?"
        raise BadLineError(f"has the unknown {key.removesuffix('s')} {name!r}{hint}")


def _is_list_of_names(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(name, str) for name in value)
