"""Tasks from a domain: truths by chance, decisive outcomes by SAT, the rest by chance (Algorithms 1 and 2 of the paper).

All chance comes from one generator per task, seeded by the domain's name, the sizes, the seed and the task's index, and
every choice is made over an ordered list; so a task is the same in any process, on any machine.
"""

from __future__ import annotations

import functools
import math
import operator
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from itertools import count as count_up
from typing import NamedTuple

from pysat.card import CardEnc
from pysat.solvers import Minisat22

from envs.kumo.domain import Action, Domain, Observation
from envs.kumo.task import Task

DIFFICULTIES: Mapping[str, tuple[int, int]] = {"easy": (4, 6), "hard": (12, 16)}
"""Number of truths and of actions."""
ATTEMPTS = 2000
"""Tries for one task before giving up; well-formed domains need one or two."""

Choice = tuple[int, int]
"""An action and one of its states, as positions in the domain."""


class GenerationError(ValueError):
    """A domain does not yield the tasks asked for."""


def generate_tasks(
    domain: Domain,
    truths: int = 4,
    actions: int = 6,
    count: int = 50,
    give_aways: bool = False,
    seed: int = 0,
    valid_truths: int = 1,
    numeric: float | None = None,
) -> list[Task]:
    """The first ``count`` tasks of a domain at one difficulty; a longer list begins with the shorter one.

    In each task exactly ``valid_truths`` truths survive all observations. No two tasks have the same truths, actions and
    outcomes (a float outcome being the range that its number lies in).

    Args:
        domain: what to draw from.
        truths: truths in question per task, at least 2.
        actions: actions on offer per task.
        count: number of tasks, at least 1.
        give_aways: whether to allow tasks in which a valid truth can be ruled out by no outcome of any action: perfect
            play names it without a test. (The others can always be ruled out.)
        seed: another seed gives other tasks.
        valid_truths: truths that survive all observations, fewer than ``truths`` (the paper's N_valid).
        numeric: share of the tests that show numbers, as far as the domain has such tests for a task's truths; None for
            whatever comes.

    Raises:
        GenerationError: no tasks are asked for, or the domain is too small or yields no more new ones.
    """
    if count < 1:
        raise GenerationError(f"the number of tasks must be at least 1, not {count}")
    return list(islice(stream_tasks(domain, truths, actions, give_aways, seed, valid_truths, numeric), count))


def stream_tasks(
    domain: Domain,
    truths: int = 4,
    actions: int = 6,
    give_aways: bool = False,
    seed: int = 0,
    valid_truths: int = 1,
    numeric: float | None = None,
) -> Iterator[Task]:
    """The tasks of ``generate_tasks`` one after the other, without end, for more than fit into memory.

    Args and errors: as of ``generate_tasks``; a domain that yields no more new tasks raises only then.
    """
    check_domain_size(domain, truths, actions)
    if not 1 <= valid_truths < truths:
        raise GenerationError(f"of {truths} truths 1 to {truths - 1} can be valid, not {valid_truths}")
    if numeric is not None and not 0 <= numeric <= 1:
        raise GenerationError(f"the share of tests that show numbers must lie between 0 and 1, not {numeric}")
    generator = _Generator(domain, truths, actions, give_aways, valid_truths, numeric)
    return (generator.task(index, seed) for index in count_up())


def check_domain_size(domain: Domain, truths: int, actions: int) -> None:
    """Refuse tasks that are larger than their domain.

    Raises:
        GenerationError: the domain's size is told.
    """
    if not 2 <= truths <= len(domain.truths) or not 1 <= actions <= len(domain.actions):
        raise GenerationError(
            f"domain {domain.name!r} has {len(domain.truths)} truths and {len(domain.actions)} actions: "
            f"no tasks of {truths} and {actions}"
        )


@dataclass(frozen=True)
class _Draw:
    """A task before its numbers are drawn; everything is a position in the domain."""

    truths: tuple[int, ...]
    valid: tuple[int, ...]
    choices: tuple[Choice, ...]

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[Choice, ...]]:
        """What duplicates share; the valid truths follow from it."""
        return tuple(sorted(self.truths)), tuple(sorted(self.choices))


class _Parts(NamedTuple):
    """What the actions of a domain can do for a task."""

    decisive: dict[int, dict[int, list[int]]]
    """By action, for each set of invalid truths (a bitmask) the states that rule out just these."""
    related: list[int]
    """The actions that can rule out any of the task's truths."""
    barred: list[int]
    """The actions that have nothing to show, as each state would rule out a valid truth."""


class _Generator:
    """Draws one task after the other and remembers them to refuse duplicates."""

    def __init__(
        self,
        domain: Domain,
        truths: int,
        actions: int,
        give_aways: bool,
        valid_truths: int,
        numeric: float | None,
    ) -> None:
        self.domain, self.truths, self.actions, self.give_aways = domain, truths, actions, give_aways
        self.valid_truths, self.numeric = valid_truths, numeric
        self.seen: set[tuple[tuple[int, ...], tuple[Choice, ...]]] = set()

    def task(self, index: int, seed: int) -> Task:
        several = f"/{self.valid_truths} valid" if self.valid_truths > 1 else ""
        rng = random.Random(f"kumo/{self.domain.name}/{self.truths}/{self.actions}/{seed}/{index}{several}")
        for _ in range(ATTEMPTS):
            draw = self.draw(rng)
            if draw is None or draw.key in self.seen:
                continue
            self.seen.add(draw.key)
            return self.finish(draw, index, seed, rng)
        raise GenerationError(
            f"domain {self.domain.name!r} yields no task number {index} of {self.truths} truths and {self.actions} actions "
            f"in {ATTEMPTS} tries: it is too small for so many, or its outcomes exclude too little"
        )

    def draw(self, rng: random.Random) -> _Draw | None:
        """One try (Algorithm 1): None where these truths allow no task, or only a give-away."""
        table = self.domain.rules_out
        sample = tuple(rng.sample(range(len(self.domain.truths)), self.truths))
        chosen_valid = tuple(rng.sample(sample, self.valid_truths)) if self.valid_truths > 1 else (rng.choice(sample),)
        valid, sampled = _mask(chosen_valid), _mask(sample)
        parts = self.parts(sampled, valid)
        chosen = _decide(parts.decisive, sampled ^ valid, self.actions, rng)
        if chosen is None:
            return None
        spare = [action for action in parts.related if action not in chosen]
        chosen |= dict.fromkeys(self.fillers(spare, chosen, rng), -1)
        missing = self.actions - len(chosen)
        if missing > 0:
            # Actions that rule out none of these truths fill up the rest.
            known = {*parts.related, *parts.barred}
            rest = [action for action in range(len(table)) if action not in known]
            if len(rest) < missing:
                return None
            chosen |= dict.fromkeys(rng.sample(rest, missing), -1)
        # A valid truth that no action can rule out would be given away.
        touched = functools.reduce(operator.or_, [gone for action in chosen for gone in table[action]])
        given_away = valid & ~touched
        if given_away and not self.give_aways:
            return None
        # In an order of chance, which tells nothing about the part an action plays.
        choices = [(action, self.state(action, state, valid, rng)) for action, state in chosen.items()]
        rng.shuffle(choices)
        return _Draw(sample, chosen_valid, tuple(choices))

    def parts(self, sampled: int, valid: int) -> _Parts:
        """The parts that the domain's actions can play in a task of these truths, as bitmasks."""
        parts = _Parts({}, [], [])
        for action, states in enumerate(self.domain.rules_out):
            # The states that the action may show, by which of these truths they rule out.
            groups: dict[int, list[int]] = {}
            touches = False
            for state, gone in enumerate(states):
                hit = gone & sampled
                if hit & valid:
                    touches = True
                else:
                    groups.setdefault(hit, []).append(state)
            if not groups:  # several valid truths leave this action nothing to show
                parts.barred.append(action)
                continue
            groups.pop(0, None)  # states that rule out none of these truths decide nothing
            if groups:
                parts.decisive[action] = groups
            if groups or touches:
                parts.related.append(action)
        return parts

    def fillers(self, spare: Sequence[int], chosen: Mapping[int, int], rng: random.Random) -> list[int]:
        """Tests that fill a task up: by chance, or with those that show numbers first until there are as many as asked for."""
        room = self.actions - len(chosen)
        if self.numeric is None:
            return rng.sample(spare, min(room, len(spare)))

        def shows_numbers(action: int) -> bool:
            return self.domain.actions[action].outcome == "float"

        # A share of 1.8 tests is two tests in 80 % of the tasks.
        wanted = math.floor(self.numeric * self.actions + rng.random()) - sum(map(shows_numbers, chosen))
        mixed = rng.sample(spare, len(spare))
        numbers = [action for action in mixed if shows_numbers(action)]
        names = [action for action in mixed if not shows_numbers(action)]
        first = max(0, wanted)
        return [*numbers[:first], *names, *numbers[first:]][:room]

    def state(self, action: int, state: int, valid: int, rng: random.Random) -> int:
        """The state of a chosen action: as decided, or for a filler any that leaves the valid truths possible."""
        if state >= 0:
            return state
        return rng.choice([s for s, gone in enumerate(self.domain.rules_out[action]) if not gone & valid])

    def finish(self, draw: _Draw, index: int, seed: int, rng: random.Random) -> Task:
        truths = tuple(self.domain.truths[truth] for truth in draw.truths)
        actions: list[Action] = []
        observations: list[Observation] = []
        gone: set[str] = set()
        for place, state in draw.choices:
            whole = self.domain.actions[place]
            action = whole.restricted(truths)
            shown = observe(whole, state, rng)
            actions.append(action)
            observations.append(shown)
            gone.update(action.state_of(shown).rules_out)
        task = Task(
            domain=self.domain.name,
            truths=truths,
            actions=tuple(actions),
            observations=tuple(observations),
            valid_truth=self.domain.truths[draw.valid[0]],
            index=index,
            seed=seed,
            also_valid=tuple(self.domain.truths[truth] for truth in draw.valid[1:]),
        )
        survivors = tuple([truth for truth in truths if truth not in gone])
        if survivors != task.valid_truths:
            raise AssertionError(f"task {index} of {self.domain.name!r} leaves {survivors}, not {task.valid_truths}")
        return task


def _mask(places: Iterable[int]) -> int:
    return sum([1 << place for place in places])


def _decide(
    decisive: Mapping[int, Mapping[int, Sequence[int]]], invalid: int, most: int, rng: random.Random
) -> dict[int, int] | None:
    """At most ``most`` actions, one state each, that together rule out every invalid truth (Algorithm 2).

    One variable stands for the states of an action that rule out the same truths; chance picks among these, and orders
    the variables, because the solver favors late ones.

    Args:
        decisive: per action, for each set of invalid truths (a bitmask) the states that rule out just these.
        invalid: the truths to rule out, as a bitmask.
        most: largest number of actions.
        rng: source of chance.

    Returns:
        The state of each chosen action, or None if there is no such choice.
    """
    options = []
    for action, groups in decisive.items():
        for gone in groups:
            options.append((action, gone))
    rng.shuffle(options)
    clauses = _clauses(options, invalid)
    if clauses is None:
        return None
    with Minisat22(bootstrap_with=clauses) as solver:
        # "At most so many" takes by far the most clauses, and the first model, which has few true variables, hardly ever
        # needs them.
        if not solver.solve():
            return None
        model = solver.get_model()
        if sum(literal > 0 for literal in model) > most:
            variables = list(range(1, len(options) + 1))
            solver.append_formula(CardEnc.atmost(variables, bound=most).clauses)
            if not solver.solve():
                return None
            model = solver.get_model()
    states = {}
    for literal in model:
        # Beyond the options there are variables of "at most so many".
        if 0 < literal <= len(options):
            action, gone = options[literal - 1]
            states[action] = rng.choice(decisive[action][gone])
    return states


def _clauses(options: Sequence[tuple[int, int]], invalid: int) -> list[list[int]] | None:
    """That an action has one state, and that each invalid truth is ruled out; None where one cannot be.

    Args:
        options: an action and what it may rule out, for each variable from 1 on.
        invalid: the truths to rule out, as a bitmask.
    """
    of_action: dict[int, list[int]] = {}
    for variable, (action, _) in enumerate(options, 1):
        of_action.setdefault(action, []).append(variable)
    clauses: list[list[int]] = []
    for variables in of_action.values():
        for one, two in combinations(variables, 2):
            clauses.append([-one, -two])
    while invalid:
        bit = invalid & -invalid
        invalid ^= bit
        able = []
        for variable, (_, gone) in enumerate(options, 1):
            if gone & bit:
                able.append(variable)
        if not able:
            return None
        clauses.append(able)
    return clauses


def observe(action: Action, state: int, rng: random.Random) -> Observation:
    """What a test in this state shows: its name, or a number drawn evenly from its range.

    Numbers have as many decimals as the action's ranges, so rounding never leaves the range.
    """
    value = action.states[state].value
    return value if isinstance(value, str) else round(rng.uniform(*value), action.decimals)
