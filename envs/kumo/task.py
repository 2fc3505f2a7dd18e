"""One game of KUMO as a value: the truths and actions in question, what each outcome rules out, what each test will show."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from envs.disk import whole_file
from envs.files import read_json_lines
from envs.kumo.domain import Action, Domain, Observation, State
from envs.settings import check_keys
from envs.suggest import did_you_mean


@dataclass(frozen=True)
class Task:
    """A generated game; it carries its own outcome table, so playing it needs no domain file.

    What a test shows is fixed by the task. Exactly the ``valid_truths`` survive all observations together: one, unless more
    were asked for (the paper's N_valid). Naming any of them wins.
    """

    domain: str
    truths: tuple[str, ...]
    actions: tuple[Action, ...]
    """With outcome tables restricted to ``truths``."""
    observations: tuple[Observation, ...]
    """What each action shows, in the order of ``actions``: the name of a state, or a number."""
    valid_truth: str
    index: int = 0
    """The task's place among those generated together."""
    seed: int = 0
    also_valid: tuple[str, ...] = ()
    """Valid truths besides ``valid_truth``."""
    accepted: tuple[str, ...] | None = None
    """The truths that win where these are not the valid ones: in malformed published tasks, as the published code scores."""

    @property
    def winning_truths(self) -> tuple[str, ...]:
        """The truths that win when they are named, in the task's order."""
        return self.valid_truths if self.accepted is None else self.accepted

    @property
    def valid_truths(self) -> tuple[str, ...]:
        """The truths that survive all observations, in the task's order."""
        return tuple(truth for truth in self.truths if truth == self.valid_truth or truth in self.also_valid)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions, in the task's order."""
        return tuple(action.name for action in self.actions)

    def position(self, action: str) -> int:
        """Where an action stands in the task.

        Raises:
            KeyError: the task has no such action.
        """
        try:
            return self.action_names.index(action)
        except ValueError:
            raise KeyError(f"{action!r} is not an action of this task: {', '.join(self.action_names)}") from None

    def observation_text(self, action: str) -> str:
        """What an action shows, as players read it: a state's name, or a number with its unit."""
        place = self.position(action)
        return observation_text(self.actions[place], self.observations[place])

    def survivors(self, observed: Mapping[str, Observation]) -> tuple[str, ...]:
        """The truths that no observation rules out, in the task's order.

        Args:
            observed: what each action taken so far has shown.

        Raises:
            KeyError: an action is not of this task.
            ValueError: an observation belongs to no state of its action.
        """
        gone: set[str] = set()
        for action, observation in observed.items():
            gone.update(self.actions[self.position(action)].state_of(observation).rules_out)
        return tuple(truth for truth in self.truths if truth not in gone)

    def shown(self, taken: Iterable[str]) -> dict[str, Observation]:
        """What each of these tests shows.

        Raises:
            KeyError: the task has no such action.
        """
        return {name: self.observations[self.position(name)] for name in taken}

    def after(self, taken: Collection[str]) -> Task:
        """The game that is left after some tests: the truths still possible, and the tests that can rule one of them out."""
        survivors = self.survivors(self.shown(taken))
        actions: list[Action] = []
        observations: list[Observation] = []
        for whole, observation in zip(self.actions, self.observations, strict=True):
            if whole.name in taken:
                continue
            action = whole.restricted(survivors)
            if any(state.rules_out for state in action.states):
                actions.append(action)
                observations.append(observation)
        return dataclasses.replace(
            self,
            truths=survivors,
            actions=tuple(actions),
            observations=tuple(observations),
            accepted=None,
        )

    def to_json(self) -> dict[str, Any]:
        """The task as JSON values: the keys of the published task files, with the outcome table beside them."""
        valid = [self.valid_truth, *self.also_valid]
        outcomes = {action.name: [_state_to_json(state) for state in action.states] for action in self.actions}
        fields: dict[str, Any] = {
            "domain": self.domain,
            "truths": list(self.truths),
            "actions": list(self.action_names),
            "observations": dict(zip(self.action_names, self.observations, strict=True)),
            "seed": self.seed,
            "index": self.index,
            "valid_truth": valid if self.also_valid else self.valid_truth,
            "action_types": {action.name: action.outcome for action in self.actions},
            "units": {action.name: action.unit for action in self.actions if action.unit},
            "outcomes": outcomes,
        }
        if self.accepted is not None:
            fields["accepted"] = list(self.accepted)
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Task:
        """The inverse of ``to_json``; ``index`` and ``units`` may be missing."""
        units = fields.get("units", {})
        actions = {}
        for name, states in fields["outcomes"].items():
            kind = fields["action_types"][name]
            table = tuple(_state_from_json(state) for state in states)
            actions[name] = Action(name, kind, table, units.get(name, ""))
        return from_official(fields, fields["domain"], actions)


def from_official(fields: Mapping[str, Any], domain: str, actions: Mapping[str, Action]) -> Task:
    """A task from one line of a published task file and the outcome tables of its domain.

    Published files hold the keys truths, actions, observations, seed and valid_truth (a list where several are valid), but
    no outcome tables.

    Args:
        fields: one line of the file, parsed.
        domain: name for the task's domain.
        actions: the domain's actions by name.

    Raises:
        KeyError: ``fields`` lacks a key, or ``actions`` an action.
    """
    truths = tuple(fields["truths"])
    all_valid = fields["valid_truth"]
    if isinstance(all_valid, str):
        all_valid = [all_valid]
    valid, *also_valid = all_valid
    accepted = fields.get("accepted")
    return Task(
        domain=domain,
        truths=truths,
        actions=tuple(actions[name].restricted(truths) for name in fields["actions"]),
        observations=tuple(fields["observations"][name] for name in fields["actions"]),
        valid_truth=valid,
        index=fields.get("index", fields["seed"]),
        seed=fields["seed"],
        also_valid=tuple(also_valid),
        accepted=None if accepted is None else tuple(accepted),
    )


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Write tasks as JSON lines: the whole file, or none.

    Raises:
        WriteError: it cannot be written; what was there is still there.
    """
    encode = json.JSONEncoder(ensure_ascii=False).encode
    content = "".join(encode(task.to_json()) + "\n" for task in tasks)
    with whole_file(path) as beside:
        beside.write_text(content, encoding="utf-8")


def read_tasks(path: Path, domains: Sequence[Domain]) -> list[Task]:
    """Read the tasks that ``write_tasks`` wrote, or a published task file.

    Args:
        path: JSON lines.
        domains: where a task is of one of these, its names must be that domain's. Published lines hold neither a domain
            nor outcome tables; they are read as tasks of the one domain given.

    Raises:
        ValueError: the file cannot be read (`FileError`), a line is no task, has an unknown key or stands twice, names a
            truth or test that its domain lacks, or its observations do not leave just its valid truth; the line is named.
    """
    tasks = []
    lines = dict[Task, int]()
    for number, fields in read_json_lines(path):
        try:
            task = _from_line(fields, domains)
            _check_names(task, domains)
            tasks.append(task)
            # A game that stands twice would count as two independent ones; another index does not make it another.
            first = lines.setdefault(dataclasses.replace(task, index=0), number)
            if first != number:
                raise ValueError(f"the same task as in line {first}")
        except (AttributeError, KeyError, TypeError) as cause:
            raise ValueError(f"{path}, line {number}: not a task ({type(cause).__name__}: {cause})") from None
        except ValueError as cause:
            raise ValueError(f"{path}, line {number}: {cause}") from None
    return tasks


_KEYS = (
    *("domain", "truths", "actions", "observations", "seed", "index", "valid_truth"),
    *("action_types", "units", "outcomes", "accepted", "book", "book_accepted_by"),
)
"""Of a line with outcome tables."""


def _state_to_json(state: State) -> dict[str, Any]:
    value = state.value if isinstance(state.value, str) else list(state.value)
    return {"state": value, "rules_out": list(state.rules_out)}


def _state_from_json(fields: Mapping[str, Any]) -> State:
    value = fields["state"]
    return State(value if isinstance(value, str) else tuple(value), tuple(fields["rules_out"]))


def _from_line(fields: Mapping[str, Any], domains: Sequence[Domain]) -> Task:
    if "outcomes" in fields:
        check_keys("", _KEYS, fields)
        task = Task.from_json(fields)
    elif len(domains) == 1:
        task = from_official(fields, domains[0].name, {action.name: action for action in domains[0].actions})
    else:
        raise ValueError(
            "a line without outcome tables can only be read as a task of one domain, so name just that one"
        )
    for name, listed in (("truths", task.truths), ("actions", task.action_names)):
        if len({*listed}) < len(listed):
            raise ValueError(f"{name}: one of them stands twice")
    survivors = task.survivors(dict(zip(task.action_names, task.observations, strict=True)))
    valid = (task.valid_truth, *task.also_valid)
    if sorted(survivors) != sorted(valid):
        left = ", ".join(survivors) or "no truth"
        raise ValueError(f"the observations together leave {left}, where only {', '.join(valid)} should be left")
    return task


def _check_names(task: Task, domains: Sequence[Domain]) -> None:
    """See that a task's domain, where it is at hand, has all that the task names."""
    for domain in domains:
        if domain.name != task.domain:
            continue
        tests = {action.name for action in domain.actions}
        _check_known(task.truths, domain.truths, f"truth of {domain.name}")
        _check_known(task.action_names, tests, f"test of {domain.name}")


def _check_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no {what}{did_you_mean(name, known)}")


def observation_text(action: Action, observation: Observation) -> str:
    """An observation as players read it: a state's name, or a number with its unit."""
    return observation if isinstance(observation, str) else action.measure_text(observation)
