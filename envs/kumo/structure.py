"""Domains drawn by chance with a chosen structure, and real domains with their names permuted.

A drawn domain is new, so nothing in it can have been in anybody's training data; neither can the rules of a permuted one,
which contradict what its names would suggest. What was asked for is measured on what was drawn.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from envs.files import parse_json
from envs.kumo.domain import Domain
from envs.kumo.domain_file import load_domain, parse_domain
from envs.kumo.generate import GenerationError, generate_tasks
from envs.kumo.search import OptimalSearch
from envs.kumo.split import parse_part, part_of
from envs.kumo.vocabulary import Kind, draw_names

TOLERANCE = 0.01
"""How far overlap may be from what is asked; density is met to the nearest cell."""
TASKS = 20
"""Easy tasks over which the expected steps are averaged."""
ATTEMPTS = 60
"""Domains drawn before the search for a band of expected steps is given up."""

MOST_DOMAINS = 100_000
"""Drawn for one suite."""

_DRAWN, _PERMUTED = "drawn:", "permuted:"

Table = list[list[set[int]]]
"""For each action and state the truths ruled out."""
Cell = tuple[tuple[int, int], int]
"""(action, state) and a truth."""
Gone = dict[Cell, bool]
"""Whether the state rules the truth out."""


@dataclass(frozen=True)
class Structure:
    """What a drawn domain should be like.

    Attributes:
        density: Share of all pairs of a state and a truth in which the state rules the truth out (published domains:
            .02 to .29).
        overlap: How alike the truths are: over all pairs of truths, the mean of states that rule out both among states
            that rule out either; None for whatever comes (about ``density / (2 - density)``, which is also the least).
        steps: Lowest and highest mean of the expected tests over Easy tasks (published: 1.1 to 3.2); None for any.
        truths: Number of truths.
        actions: Number of actions.
        states: States of each action.
        names: ``words`` for pairs of plain words, ``nonsense`` for words that do not exist.
    """

    density: float = 0.12
    overlap: float | None = None
    steps: tuple[float, float] | None = None
    truths: int = 50
    actions: int = 30
    states: int = 3
    names: Kind = "words"

    def __post_init__(self) -> None:
        _check_whole("truths", self.truths, 4)
        _check_whole("actions", self.actions, 6)
        _check_whole("states", self.states, 2)
        _check_share("density", self.density)
        if self.overlap is not None:
            _check_share("overlap", self.overlap)
        if self.steps is not None:
            if len(self.steps) != 2 or not 0 <= self.steps[0] < self.steps[1]:
                raise ValueError(f"structure.steps must be a low and a higher number, not {self.steps!r}")
            object.__setattr__(self, "steps", tuple(self.steps))
        if self.names not in get_args(Kind):
            raise ValueError(f"structure.names: no {self.names!r}; there are {', '.join(get_args(Kind))}")
        cells = self.truths * self.actions * self.states
        wanted = round(self.density * cells)
        most = cells - self.truths * self.actions
        if not self.truths <= wanted <= most:
            raise ValueError(
                f"structure.density: {self.density} cannot be met with {self.truths} truths, {self.actions} actions and "
                f"{self.states} states: every truth needs a state that rules it out, and each action one that does not"
            )

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Structure:
        """From settings by name.

        Raises:
            ValueError: a setting is unknown or wrong.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise ValueError(f"structure: unknown setting {name!r}; known: {', '.join(known)}")
        return cls(**settings)


def _check_whole(field: str, value: Any, least: int) -> None:
    # True and False are whole numbers to Python.
    if type(value) is not int or value < least:
        raise ValueError(f"structure.{field} must be a whole number of at least {least}, not {value!r}")


def _check_share(field: str, value: Any) -> None:
    if type(value) not in (int, float) or not 0 < value < 1:
        raise ValueError(f"structure.{field} must lie between 0 and 1, not {value!r}")


@dataclass(frozen=True)
class Measured:
    """The structure that a domain has; see ``Structure``."""

    density: float
    overlap: float
    steps: float


def measure(domain: Domain, tasks: int = TASKS) -> Measured:
    """The structure of any domain; the steps are a mean over its first Easy tasks."""
    games = generate_tasks(domain, count=tasks)
    steps = statistics.mean(OptimalSearch(task).expected_steps for task in games)
    return Measured(density(domain), overlap(domain), steps)


def density(domain: Domain) -> float:
    """See ``Structure.density``."""
    return _density(_table(domain), len(domain.truths))


def overlap(domain: Domain) -> float:
    """See ``Structure.overlap``."""
    return _overlap(_table(domain), len(domain.truths))


def draw_domain(structure: Structure, seed: int = 0, index: int = 0) -> Domain:
    """A domain of a structure; the same for the same seed and index anywhere.

    Raises:
        GenerationError: no domain of this structure was found; the nearest is described.
    """
    rng = random.Random(f"kumo/structure/{structure}/{seed}/{index}")
    name = f"drawn_{rng.getrandbits(40):010x}"
    reached: list[str] = []
    for attempt in range(ATTEMPTS):
        blank = 0.0
        if structure.steps and attempt:
            blank = rng.choice((0.0, 0.15, 0.3, 0.45, 0.6))
        table = _draw(structure, blank, rng)
        overlap = _overlap(table, structure.truths)
        if structure.overlap is not None and abs(overlap - structure.overlap) > TOLERANCE:
            reached.append(f"overlap {overlap:.3f}")
            continue
        domain = _named(structure, table, name, rng)
        try:
            steps = measure(domain).steps
        except GenerationError as cause:
            reached.append(str(cause))
            continue
        if structure.steps is None:
            return domain
        low, high = structure.steps
        if low <= steps <= high:
            return domain
        reached.append(f"expected steps {steps:.2f}")
    raise GenerationError(
        f"no domain of {structure} in {ATTEMPTS} tries; among those drawn: {min(reached)}, {max(reached)}"
    )


def permuted(domain: Domain, seed: int = 0) -> Domain:
    """The same domain with its truths' names exchanged in the rules, so that no truth keeps its own: a counterfactual.

    The game stays the same up to names; knowledge of the world now misleads.
    """
    rng = random.Random(f"kumo/permuted/{domain.name}/{seed}")
    order = rng.sample(domain.truths, len(domain.truths))
    other = dict(zip(order, order[1:] + order[:1], strict=True))
    actions = []
    for action in domain.actions:
        states = []
        for state in action.states:
            gone = tuple(other[truth] for truth in state.rules_out)
            states.append(state._replace(rules_out=gone))
        actions.append(dataclasses.replace(action, states=tuple(states)))
    return dataclasses.replace(domain, name=f"{domain.name}_permuted_{seed}", actions=tuple(actions))


# --- as names: what stands in a plan instead of the name of a domain --------------------------------------------------


def structured_sources(settings: Mapping[str, Any], domains: Sequence[str], seed: int = 0) -> tuple[str, ...]:
    """Names for ``domain_from`` of the domains that a suite's ``structure`` stands for.

    Args:
        settings: those of ``Structure`` and ``domains``, the number of domains to draw (default 5); or
            ``{"names": "permuted"}`` alone, for the suite's domains with their names permuted.
        domains: the suite's domains, used only if they are to be permuted.
        seed: another seed gives other domains.

    Raises:
        ValueError: a setting is unknown or wrong.
    """
    if settings.get("names") == "permuted":
        return _permuted_sources(settings, domains, seed)
    of_structure = dict(settings)
    count = of_structure.pop("domains", 5)
    if type(count) is not int or not 1 <= count <= MOST_DOMAINS:
        raise ValueError(f"structure.domains must be a whole number from 1 to {MOST_DOMAINS:,}, not {count!r}")
    chosen = dataclasses.asdict(Structure.parse(of_structure))
    return tuple(_DRAWN + json.dumps([chosen, seed, index]) for index in range(count))


def _permuted_sources(settings: Mapping[str, Any], domains: Sequence[str], seed: int) -> tuple[str, ...]:
    others = sorted(set(settings) - {"names"})
    if others:
        raise ValueError(f"structure: permuted domains keep their structure, so {', '.join(others)} cannot be chosen")
    return tuple(f"{_PERMUTED}{seed}:{domain}" for domain in domains)


def domain_from(source: str) -> Domain:
    """A domain by its name or its file, one part of its split (``reptiles@in``), or one of ``structured_sources``.

    Raises:
        ValueError: there is no such domain, or it has no split.
    """
    if source.startswith(_DRAWN):
        settings, seed, index = parse_json(source.removeprefix(_DRAWN), "structure")
        return draw_domain(Structure.parse(settings), seed, index)
    if source.startswith(_PERMUTED):
        seed, domain = source.removeprefix(_PERMUTED).split(":", 1)
        return permuted(domain_from(domain), int(seed))
    if (chosen := parse_part(source)) is not None:
        return part_of(load_domain(chosen[0]), chosen[1])
    return load_domain(source)


# --- drawing ---------------------------------------------------------------------------------------------------------


def _draw(structure: Structure, blank: float, rng: random.Random) -> Table:
    """A table of the density asked for, and as near to the overlap as can be.

    Truths copy a common pattern in some of the cells; the more, the greater the overlap, so the share is found by halving.
    """
    seed, low, high = rng.getrandbits(64), 0.0, 1.0
    table = _cells(structure, blank, low, random.Random(seed))
    if structure.overlap is None:
        return table
    if _overlap(table, structure.truths) >= structure.overlap:
        return table
    for _ in range(12):
        copied = (low + high) / 2
        table = _cells(structure, blank, copied, random.Random(seed))
        difference = _overlap(table, structure.truths) - structure.overlap
        if abs(difference) < TOLERANCE / 4:
            break
        if difference < 0:
            low = copied
        else:
            high = copied
    return table


def _cells(structure: Structure, blank: float, copied: float, rng: random.Random) -> Table:
    """A table in which truths share ``copied`` of their cells, and a share of the states, ``blank``, rules out nothing."""
    truths = range(structure.truths)
    places = list(itertools.product(range(structure.actions), range(structure.states)))
    active = [place for place in places if rng.random() >= blank]
    if not active:
        active = places
    wanted = round(structure.density * len(places) * structure.truths)
    share = min(0.95, wanted / (len(active) * structure.truths))
    gone = dict.fromkeys(itertools.product(places, truths), False)
    for place in active:
        # A truth either copies the state's common value or draws its own.
        pattern = rng.random() < share
        for truth in truths:
            alone = rng.random() < share
            copies = rng.random() < copied
            gone[place, truth] = pattern if copies else alone
    _mend(gone, structure, active, rng)
    _meet(gone, structure, active, wanted, rng)
    return _table_of(gone, structure)


def _table_of(gone: Gone, structure: Structure) -> Table:
    """What each state of each action rules out."""
    table: Table = []
    for _ in range(structure.actions):
        table.append([set() for _ in range(structure.states)])
    for ((action, state), truth), is_gone in gone.items():
        if is_gone:
            table[action][state].add(truth)
    return table


def _full(gone: Gone, action: int, truth: int, structure: Structure) -> bool:
    """Whether an action rules a truth out in every state."""
    return all(gone[(action, state), truth] for state in range(structure.states))


def _mend(gone: Gone, structure: Structure, active: list[tuple[int, int]], rng: random.Random) -> None:
    """Let no action rule out a truth in every state, and no truth go free."""
    states = range(structure.states)
    for action, truth in itertools.product(range(structure.actions), range(structure.truths)):
        if _full(gone, action, truth, structure):
            gone[(action, rng.choice(states)), truth] = False
    for truth in range(structure.truths):
        if not any(gone[place, truth] for place in active):
            gone[rng.choice(active), truth] = True


def _meet(gone: Gone, structure: Structure, active: list[tuple[int, int]], wanted: int, rng: random.Random) -> None:
    """Meet the number of cells exactly, with no action that rules out a truth in every state, and no truth that is free."""
    against: dict[int, int] = {}
    for truth in range(structure.truths):
        against[truth] = sum(gone[place, truth] for place in active)
    surplus = sum(gone.values()) - wanted
    # Cells of the states in use first, so that states which rule out nothing stay as they are where that is possible.
    in_use: list[Cell] = []
    idle: list[Cell] = []
    for cell in gone:
        place, _ = cell
        if place in active:
            in_use.append(cell)
        else:
            idle.append(cell)
    cells = rng.sample(in_use, len(in_use)) + rng.sample(idle, len(idle))
    for cell in cells:
        (action, _), truth = cell
        if surplus > 0:
            # A truth keeps one cell at least.
            if gone[cell] and against[truth] > 1:
                gone[cell] = False
                surplus -= 1
                against[truth] -= 1
        elif surplus < 0 and not gone[cell]:
            gone[cell] = True
            if _full(gone, action, truth, structure):
                gone[cell] = False
                continue
            surplus += 1
            against[truth] += 1


def _named(structure: Structure, table: Table, name: str, rng: random.Random) -> Domain:
    names = draw_names(structure.truths + structure.actions + structure.states, structure.names, rng)
    truths, actions = names[: structure.truths], names[structure.truths : structure.truths + structure.actions]
    states = [outcome.lower() for outcome in names[-structure.states :]]
    described: dict[str, Any] = {}
    for action, outcomes in zip(actions, table, strict=True):
        states_of_action = {}
        for state, gone in zip(states, outcomes, strict=True):
            states_of_action[state] = [truths[truth] for truth in sorted(gone)]
        described[action] = {
            "definition": f"{action} is one of the probes that show something about an item.",
            "outcomes": states_of_action,
        }
    data = {
        "name": name,
        "title": "Drawn by Chance",
        "goal": "Exactly one of the listed items is the hidden one. Find out which one from the outcomes of probes.",
        "truth": {"singular": "item", "plural": "items"},
        "action": {"singular": "probe", "plural": "probes"},
        # Nothing is true of a drawn item but its rules, so its definition only says what it is.
        "truths": {item: f"{item} is one of the items of this made-up world." for item in truths},
        "actions": described,
    }
    return parse_domain(data, name)


# --- measuring -------------------------------------------------------------------------------------------------------


def _table(domain: Domain) -> Table:
    return [[_members(gone) for gone in states] for states in domain.rules_out]


def _members(mask: int) -> set[int]:
    return {place for place in range(mask.bit_length()) if mask >> place & 1}


def _density(table: Table, truths: int) -> float:
    states = [gone for states in table for gone in states]
    return sum(map(len, states)) / (len(states) * truths)


def _overlap(table: Table, truths: int) -> float:
    rows = [0] * truths
    for place, gone in enumerate(gone for states in table for gone in states):
        for truth in gone:
            rows[truth] |= 1 << place
    pairs = [(one & two, one | two) for one, two in itertools.combinations(rows, 2)]
    return statistics.mean(both.bit_count() / either.bit_count() if either else 0.0 for both, either in pairs)
