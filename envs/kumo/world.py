"""Games about the real world in three versions: what tests show agrees with it, ignores it or contradicts it.

A domain's table (``Domain.true_of``) says which outcomes are true of a truth. The versions of a game have the same truths,
tests, rule-outs and right answer; only what the tests show differs. So the book of a game is the same in all of them, and so
is the expected number of tests of perfect play, while a player that goes by what it knows of the world fares differently.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal, get_args

from pysat.card import CardEnc
from pysat.solvers import Minisat22

from envs.kumo import exact
from envs.kumo.domain import Action, Domain
from envs.kumo.generate import ATTEMPTS, GenerationError, check_domain_size, observe
from envs.kumo.search import OptimalSearch
from envs.kumo.task import Task

World = Literal["agree", "ignore", "contradict"]
WORLDS: tuple[World, ...] = get_args(World)

_SEARCHED = 8
"""Truths up to which perfect play is searched so that it takes as many tests in each version."""
_TRIES = 40
"""Sets of outcomes that are tried for that."""
_ONE_SIDED_IN = 3
"""One in so many tests may be one that can show only what is true of the right answer, as its other outcomes rule it out."""

Outcome = tuple[int, int]
"""A test and one of its outcomes, as positions in a game."""


def generate_world_tasks(
    domain: Domain,
    world: World,
    truths: int = 4,
    actions: int = 6,
    count: int = 50,
    give_aways: bool = False,
    seed: int = 0,
) -> list[Task]:
    """The first ``count`` games of a domain in one version; games of the same index differ only in what tests show.

    In ``agree`` all outcomes shown are true of the right answer. In ``contradict`` they are false of it in two thirds of the
    tests or more; the others can show nothing false that does not rule it out. In ``ignore`` any may be shown that the book
    leaves possible. Up to 8 truths perfect play also takes as many tests in each version; beyond,
    where a search takes seconds, it is the expected number alone that is the same.

    Args: as of ``envs.kumo.generate.generate_tasks``.

    Raises:
        GenerationError: the domain has no table, or too few tests with known outcomes for games of this size.
    """
    check_domain_size(domain, truths, actions)
    games = _Games(domain, truths, actions, give_aways)
    return [games.task(world, index, seed) for index in range(count)]


def true_states(domain: Domain, truth: str, action: Action) -> frozenset[int]:
    """The outcomes of a test (by position) that are true of a truth; none where that is unknown."""
    outcomes = domain.true_of.get(action.name, ())
    return frozenset(place for place, truths in enumerate(outcomes) if truth in truths)


def share_false(domain: Domain, tasks: Iterable[Task]) -> float | None:
    """Share of shown outcomes that are false of the right answer, among those of which it is known; None if none is."""
    false: list[bool] = []
    for task in tasks:
        for action, observation in zip(task.actions, task.observations, strict=True):
            true = true_states(domain, task.valid_truth, action)
            if not true:
                continue
            shown = action.states.index(action.state_of(observation))
            false.append(shown not in true)
    return sum(false) / len(false) if false else None


class _Games:
    """Draws the games of one domain and size, one after the other, and refuses duplicates."""

    def __init__(self, domain: Domain, truths: int, actions: int, give_aways: bool) -> None:
        self.domain, self.truths, self.actions, self.give_aways = domain, truths, actions, give_aways
        self._allowed: dict[tuple[str, str, str], list[int]] = {}
        self.usable: dict[str, list[Action]] = {}
        for truth in domain.truths:
            self.usable[truth] = [action for action in domain.actions if self.allowed("agree", truth, action)]
        self.one_sided = actions // _ONE_SIDED_IN
        self.right = [truth for truth in domain.truths if self.has_enough(truth)]
        self.seen: set[tuple[frozenset[str], frozenset[str]]] = set()
        if len(self.right) < truths:
            raise GenerationError(
                f"domain {domain.name!r}: its table of what is true in the real world is too small for games of "
                f"{truths} truths and {actions} tests"
            )

    def has_enough(self, truth: str) -> bool:
        """Whether games can be made in which this is the right answer."""
        usable = self.usable[truth]
        two_sided = [action for action in usable if self.allowed("contradict", truth, action)]
        return len(usable) >= self.actions and len(two_sided) >= self.actions - self.one_sided

    def task(self, world: World, index: int, seed: int) -> Task:
        """One game in a version.

        Raises:
            GenerationError: no game was found.
        """
        place = f"kumo/world/{self.domain.name}/{self.truths}/{self.actions}/{seed}/{index}"
        rng = random.Random(place)
        # Tests that can show something true and something false of the right answer rule it out less often than the wrong
        # ones, which would tell it at once. So it is the one that the book makes likeliest as often as by chance, at most.
        likeliest = rng.random() < 1 / self.truths
        for attempt in range(ATTEMPTS):
            right, sample, tests = self.draw(rng)
            key = frozenset(sample), frozenset(test.name for test in tests)
            if not tests or key in self.seen:
                continue
            game = Task(self.domain.name, sample, tests, (), right, index, seed)
            is_likeliest = _is_likeliest(game)
            if is_likeliest and not likeliest:
                continue
            # In some domains it hardly ever is the likeliest, so this is asked of half of the attempts only.
            asked = attempt < ATTEMPTS // 2
            if asked and likeliest and not is_likeliest:
                continue
            task = self.fitting(game, world, f"{place}/{attempt}")
            if task:
                self.seen.add(key)
                return task
        raise GenerationError(
            f"domain {self.domain.name!r} yields no game number {index} of {self.truths} truths and {self.actions} tests "
            f"that can be played in agreement with the real world and against it"
        )

    def draw(self, rng: random.Random) -> tuple[str, tuple[str, ...], tuple[Action, ...]]:
        """One try: the right answer, the truths and the tests; no tests where these truths allow no game."""
        sample = rng.sample(self.right, self.truths)  # any of which could be the right one
        right = rng.choice(sample)
        wrong = [truth for truth in sample if truth != right]
        usable = rng.sample(self.usable[right], len(self.usable[right]))
        two_sided: list[Action] = []
        one_sided: list[Action] = []
        for action in usable:
            if self.allowed("contradict", right, action):
                two_sided.append(action)
            else:
                one_sided.append(action)
        chosen = self.decisive(right, wrong, two_sided, rng)
        if not chosen:
            return right, (), ()
        fillers = [action for action in two_sided if action not in chosen]
        fillers += one_sided[: self.one_sided]
        rng.shuffle(fillers)
        # Tests that can rule out one of these truths come first.
        fillers.sort(key=lambda action: not any(state.rules_out for state in action.restricted(sample).states))
        picked = [*chosen, *fillers][: self.actions]
        tests = [action.restricted(sample) for action in picked]
        # A right answer that nothing could rule out would be known before the first test.
        if not self.give_aways and not _touched(right, tests):
            return right, (), ()
        rng.shuffle(tests)
        return right, tuple(sample), tuple(tests)

    def decisive(self, right: str, wrong: Sequence[str], usable: Sequence[Action], rng: random.Random) -> list[Action]:
        """Few of the tests of which true outcomes leave only the right answer, and false outcomes do so, too; or none.

        A variable stands for each test that is chosen, and one for each outcome that it may show in either version.
        """
        chosen = {test: test + 1 for test in range(len(usable))}
        last = len(usable)
        clauses: list[list[int]] = []
        for world in ("agree", "contradict"):
            variables: dict[Outcome, int] = {}
            for test, action in enumerate(usable):
                for state in self.allowed(world, right, action):
                    last += 1
                    variables[test, state] = last
            clauses += _leaves_none(wrong, usable, variables)
            # A test that shows an outcome is chosen.
            for (test, _), variable in variables.items():
                clauses.append([-variable, chosen[test]])
        # A wrong truth that nothing can rule out has an empty clause.
        if not all(clauses):
            return []
        at_most = CardEnc.atmost(list(chosen.values()), bound=self.actions, top_id=last)
        few = [-variable for variable in range(1, last + 1)]
        found = _solved([*clauses, *at_most.clauses], few)
        if not found:
            return []
        return [usable[test] for test, variable in chosen.items() if found[variable - 1] > 0]

    def allowed(self, world: str, right: str, action: Action) -> list[int]:
        """The outcomes that a test may show in a version; none if it can show nothing true, or nothing false."""
        key = world, right, action.name
        if key not in self._allowed:
            possible, true = _possible(action, right), true_states(self.domain, right, action)
            by_world = {"agree": possible & true, "contradict": possible - true, "ignore": possible}
            self._allowed[key] = sorted(by_world[world])
        return self._allowed[key]

    def fitting(self, game: Task, world: World, place: str) -> Task | None:
        """A game (without observations) in a version; None if perfect play cannot take as many tests in all of them."""
        if self.truths > _SEARCHED:
            return self.version(game, world, f"{place}/{world}")
        agreeing = self.version(game, "agree", f"{place}/agree")
        search = OptimalSearch(agreeing)  # of the rule-outs alone, which all versions share
        wanted = _tests_taken(search, agreeing)
        found: dict[World, Task] = {"agree": agreeing}
        # Of each other version the first draw that takes perfect play as many tests.
        for other in WORLDS[1:]:
            tries = (self.version(game, other, f"{place}/{other}/{number}") for number in range(_TRIES))
            task = next((task for task in tries if _tests_taken(search, task) == wanted), None)
            if task is None:
                return None
            found[other] = task
        return found[world]

    def version(self, game: Task, world: World, place: str) -> Task:
        """A game with what its tests show in a version, drawn by chance."""
        rng = random.Random(place)
        states = self.outcomes(world, game.valid_truth, game.truths, game.actions, rng)
        shown = [observe(action, state, rng) for action, state in zip(game.actions, states, strict=True)]
        return dataclasses.replace(game, observations=tuple(shown))

    def outcomes(
        self, world: World, right: str, sample: Collection[str], tests: Sequence[Action], rng: random.Random
    ) -> list[int]:
        """For each test an outcome that it may show, near to a draw by chance, so that only the right answer is left."""
        allowed: list[list[int]] = []
        drawn: set[Outcome] = set()
        pairs: list[Outcome] = []
        for test, action in enumerate(tests):
            states = self.allowed(world, right, action)
            if not states:
                # In "contradict" no outcome is left where all that are possible are true; then it shows a true one.
                states = self.allowed("agree", right, action)
            allowed.append(states)
            drawn.add((test, rng.choice(states)))
            pairs += [(test, state) for state in states]
        rng.shuffle(pairs)
        # One variable for each outcome that may be shown.
        variables = {pair: number for number, pair in enumerate(pairs, 1)}
        wrong = [truth for truth in sample if truth != right]
        clauses = _leaves_none(wrong, tests, variables)
        # Each test shows one of its outcomes.
        for test, states in enumerate(allowed):
            clauses.append([variables[test, state] for state in states])
        # The solution is to be near to what was drawn.
        phases = []
        for pair, number in variables.items():
            wanted = number if pair in drawn else -number
            phases.append(wanted)
        model = _solved(clauses, phases)
        if model is None:
            raise AssertionError(f"{self.domain.name!r}: tests that decide a game do not decide it")
        shown = {}
        for (test, state), number in variables.items():
            if model[number - 1] > 0:
                shown[test] = state
        return [shown[test] for test in range(len(tests))]


def _solved(clauses: Sequence[Sequence[int]], phases: Sequence[int]) -> Sequence[int] | None:
    """The variables, negative where false, that satisfy all clauses, near to the phases; None if nothing does."""
    with Minisat22(bootstrap_with=clauses) as solver:
        solver.set_phases(phases)
        model: Sequence[int] | None = solver.get_model() if solver.solve() else None
        return model


def _is_likeliest(game: Task) -> bool:
    """Whether the book makes the right answer likelier than any other truth before the first test; of equals the first is."""
    odds = [0.0] * len(game.truths)
    for left, count in exact.worlds(game, ()).items():
        for place in range(len(game.truths)):
            if left >> place & 1:
                odds[place] += count
    return odds.index(max(odds)) == game.truths.index(game.valid_truth)


def _tests_taken(search: OptimalSearch, task: Task) -> int:
    """Tests that perfect play takes on what a task shows, by the search of any task with the same rule-outs."""
    taken: list[str] = []
    while (move := search.best(task.shown(taken))) in task.action_names:
        taken.append(move)
    return len(taken)


def _touched(truth: str, tests: Iterable[Action]) -> bool:
    """Whether any outcome of any of the tests rules a truth out."""
    return any(truth in state.rules_out for test in tests for state in test.states)


def _possible(action: Action, truth: str) -> frozenset[int]:
    """The outcomes that do not rule a truth out."""
    return frozenset(place for place, state in enumerate(action.states) if truth not in state.rules_out)


def _leaves_none(wrong: Iterable[str], tests: Sequence[Action], variables: Mapping[Outcome, int]) -> list[list[int]]:
    """Clauses that every wrong truth is ruled out, and that no test shows two outcomes."""
    clauses: list[list[int]] = []
    for truth in wrong:
        ruling_out = []
        for (test, state), number in variables.items():
            gone = tests[test].states[state].rules_out
            if truth in gone:
                ruling_out.append(number)
        clauses.append(ruling_out)
    of_test: dict[int, list[int]] = {}
    for (test, _), number in variables.items():
        of_test.setdefault(test, []).append(number)
    # Of any two outcomes of a test, one is not shown.
    for numbers in of_test.values():
        for one, other in combinations(numbers, 2):
            clauses.append([-one, -other])
    return clauses
