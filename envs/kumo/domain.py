"""Domains of KUMO: what may be true, which tests there are, and which truths each outcome rules out.

A domain is one YAML file (docs/kumo_domains.md), read by ``envs.kumo.domain_file``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Literal, NamedTuple

Observation = str | float
"""What a test shows: the name of a state, or a number within a state's range."""
Range = tuple[float, float]


CATEGORIES = (
    "agriculture and gardening",
    "art and design",
    "astronomy",
    "biology",
    "chemistry",
    "computing",
    "earth sciences",
    "economics and law",
    "engineering",
    "food and drink",
    "geography",
    "history",
    "home and crafts",
    "language and literature",
    "materials",
    "mathematics and statistics",
    "medicine",
    "music and performing arts",
    "psychology and education",
    "religion and mythology",
    "sports and games",
    "transport",
)
"""Fields of knowledge that a domain may belong to."""


class DomainError(ValueError):
    """A domain that is missing, unreadable or contradicts itself; ``problems`` lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


_SEVERAL = re.compile(r"^(\w*(?:ch|sh|ss|x)(?=es)|\w+[^s\W](?=s))(?:es|s)\b(.*)")


@dataclass(frozen=True)
class Noun:
    """How a domain calls its truths or its actions, such as disease and diseases."""

    singular: str
    plural: str


class State(NamedTuple):
    """One possible outcome of an action: a name, or a closed range of numbers, with the truths that it rules out."""

    value: str | Range
    rules_out: tuple[str, ...]
    range_text: str = ""
    """A range as people write it, set by its action: ``50 to 99``."""

    def covers(self, observation: Observation) -> bool:
        """Whether this state is what ``observation`` shows (ranges are closed at both ends)."""
        if isinstance(self.value, str):
            return observation == self.value
        return not isinstance(observation, str) and self.value[0] <= observation <= self.value[1]

    @property
    def text(self) -> str:
        """The state as people write it: its name, or its range."""
        return self.value if isinstance(self.value, str) else self.range_text


@dataclass(frozen=True)
class Action:
    """A test with its possible outcomes, in the order of the domain file."""

    name: str
    outcome: Literal["str", "float", "other"]
    """Names or numbers; ``other``: what it shows is none of its states and rules out nothing (imported tasks only)."""
    states: tuple[State, ...]
    unit: str = ""
    """What stands after the numbers; empty for named outcomes and for plain numbers."""

    def __post_init__(self) -> None:
        states = []
        for state in self.states:
            if isinstance(state.value, str):
                states.append(state)
            else:
                text = " to ".join(map(self.number_text, state.value))
                states.append(state._replace(range_text=text))
        object.__setattr__(self, "states", tuple(states))

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Both ends of each of its ranges."""
        ends: list[float] = []
        for state in self.states:
            if not isinstance(state.value, str):
                ends += state.value
        return tuple(ends)

    @cached_property
    def decimals(self) -> int:
        """Decimals of the numbers that it shows: those of its ranges' ends, so that what is counted stays whole."""
        return max(map(_decimals, self.ends), default=0)

    def number_text(self, number: float) -> str:
        """One of its numbers as people write it: all with as many decimals, and commas between thousands.

        Plain numbers of up to four digits may be years, which have no commas.
        """
        exact = Decimal(repr(float(number))) + 0  # no sign before zero
        comma = "," if self.unit or max(map(abs, self.ends), default=0) >= 10_000 else ""
        return f"{exact:{comma}.{max(self.decimals, _decimals(number))}f}"

    def measure_text(self, number: float) -> str:
        """One of its numbers with the unit, which is singular after one: ``1 change per minute``."""
        text = self.number_text(number)
        unit = _SEVERAL.sub(r"\1\2", self.unit) if text == "1" else self.unit
        return f"{text} {unit}".rstrip()

    def state_of(self, observation: Observation) -> State:
        """The state that an observation shows; where ranges touch or overlap, the first (as the published search has it).

        Raises:
            ValueError: the observation belongs to no state of this action.
        """
        if self.outcome == "other":
            return State(str(observation), ())
        for state in self.states:
            if state.covers(observation):
                return state
        raise ValueError(
            f"{self.name!r} has no outcome {observation!r}; it has {', '.join(s.text for s in self.states)}"
        )

    def restricted(self, truths: Iterable[str]) -> Action:
        """The same action where only ``truths`` are in question; what is ruled out stands in their order."""
        kept = tuple(truths)
        rules = zip(self.states, self._ruled_out, strict=True)
        states = [state._replace(rules_out=tuple([truth for truth in kept if truth in gone])) for state, gone in rules]
        return Action(self.name, self.outcome, tuple(states), self.unit)

    @cached_property
    def _ruled_out(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(state.rules_out) for state in self.states)


@dataclass(frozen=True)
class Phrasings:
    """Sentences that a domain brings for its books, each with the marks ``{outcome}`` and ``{truths}`` in it."""

    rules_out: tuple[str, ...] = ()
    nothing: tuple[str, ...] = ()
    """For outcomes that rule out nothing; only with ``{outcome}``."""


@dataclass(frozen=True)
class Domain:
    """A universe of truths and actions from which tasks are generated (paper, section Methods)."""

    name: str
    title: str
    goal: str
    truth: Noun
    action: Noun
    truths: tuple[str, ...]
    actions: tuple[Action, ...]
    definitions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What each truth and each action is, by name."""
    notes: tuple[str, ...] = ()
    """True sentences about the field that bear on no task."""
    phrasings: Phrasings = Phrasings()
    category: str = ""
    """The field of knowledge, one of ``CATEGORIES``; empty if the file states none."""
    true_of: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict, hash=False)
    """The table of the real world: by test, for each outcome the truths of which it is true. Where a truth stands with no
    outcome of a test, that is unknown; a test that is missing is unknown of all truths."""

    @property
    def nouns(self) -> tuple[str, ...]:
        """What truths and actions are called, in both numbers."""
        return self.truth.singular, self.truth.plural, self.action.singular, self.action.plural

    @cached_property
    def rules_out(self) -> tuple[tuple[int, ...], ...]:
        """For each action and state the truths ruled out, as a bitmask (bit i is ``truths[i]``)."""
        bits = {truth: 1 << index for index, truth in enumerate(self.truths)}
        rules = []
        for action in self.actions:
            rules.append(tuple(sum(bits[truth] for truth in state.rules_out) for state in action.states))
        return tuple(rules)


def _decimals(number: float) -> int:
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -int(exponent))
