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


class DomainError(ValueError):
    """A domain that is missing, unreadable or contradicts itself; ``problems`` lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def number_text(number: float) -> str:
    """A number as people write it: all its digits, no point after a whole one, thousands parted from five digits on."""
    if float(number).is_integer():
        return f"{int(number):,}" if abs(number) >= 10_000 else str(int(number))
    return f"{Decimal(repr(float(number))):f}"


def measure_text(number: float, unit: str) -> str:
    """A number with its unit, which is singular after one: ``1 change per minute``."""
    if number == 1:
        unit = _SEVERAL.sub(lambda match: match[1] + match[2], unit)
    return f"{number_text(number)} {unit}".rstrip()


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

    def covers(self, observation: Observation) -> bool:
        """Whether this state is what ``observation`` shows (ranges are closed at both ends)."""
        if isinstance(self.value, str):
            return observation == self.value
        return not isinstance(observation, str) and self.value[0] <= observation <= self.value[1]

    @property
    def text(self) -> str:
        """The state as people write it: its name, or ``50 to 99``."""
        return self.value if isinstance(self.value, str) else " to ".join(map(number_text, self.value))


@dataclass(frozen=True)
class Action:
    """A test with its possible outcomes, in the order of the domain file."""

    name: str
    outcome: Literal["str", "float"]
    states: tuple[State, ...]
    unit: str = ""
    """What stands after the numbers; empty for named outcomes and for plain numbers."""

    @property
    def decimals(self) -> int:
        """Decimals of the numbers that it shows: those of its ranges' ends, so that what is counted stays whole."""
        return max((_decimals(end) for s in self.states if not isinstance(s.value, str) for end in s.value), default=0)

    def state_of(self, observation: Observation) -> State:
        """The state that an observation shows.

        Raises:
            ValueError: the observation belongs to no state of this action.
        """
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
        states = [State(state.value, tuple([truth for truth in kept if truth in gone])) for state, gone in rules]
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

    @property
    def nouns(self) -> tuple[str, ...]:
        """What truths and actions are called, in both numbers."""
        return self.truth.singular, self.truth.plural, self.action.singular, self.action.plural

    @cached_property
    def rules_out(self) -> tuple[tuple[int, ...], ...]:
        """For each action and state the truths ruled out, as a bitmask (bit i is ``truths[i]``)."""
        bits = {truth: 1 << index for index, truth in enumerate(self.truths)}
        return tuple(tuple(sum(bits[t] for t in state.rules_out) for state in action.states) for action in self.actions)


def _decimals(number: float) -> int:
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -int(exponent))
