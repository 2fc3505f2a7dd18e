"""Domains of KumO: what may be true, which tests there are, and which truths each outcome rules out.

A domain is one YAML file; ``load_domain`` reads and validates it, and so does ``raycade kumo check FILE...``.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

Observation = str | float
"""What a test shows: the name of a state, or a number within a state's range."""
Range = tuple[float, float]

DOMAINS = Path(__file__).parent / "domains"


class DomainError(ValueError):
    """A domain that is missing, unreadable or contradicts itself; ``problems`` lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def number_text(number: float) -> str:
    """A number as people write it: all its digits, and no point after a whole one."""
    return str(int(number)) if float(number).is_integer() else repr(float(number))


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
    """Of the numbers; empty for named outcomes and for plain numbers."""

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
class Domain:
    """A universe of truths and actions from which tasks are generated (paper, section Methods)."""

    name: str
    title: str
    goal: str
    truth: Noun
    action: Noun
    truths: tuple[str, ...]
    actions: tuple[Action, ...]

    @cached_property
    def rules_out(self) -> tuple[tuple[int, ...], ...]:
        """For each action and state the truths ruled out, as a bitmask (bit i is ``truths[i]``)."""
        bits = {truth: 1 << index for index, truth in enumerate(self.truths)}
        return tuple(tuple(sum(bits[t] for t in state.rules_out) for state in action.states) for action in self.actions)


# --- reading ---------------------------------------------------------------------------------------------------------


def available_domains() -> tuple[str, ...]:
    """Names of the domains that come with raycade, sorted."""
    return tuple(sorted(path.stem for path in DOMAINS.glob("*.yaml")))


def load_domain(name_or_path: str | Path) -> Domain:
    """Read and validate a domain: one that comes with raycade by its name, any other by the path of its YAML file.

    Raises:
        DomainError: there is no such domain, or its file is wrong; all problems are listed.
    """
    text = str(name_or_path)
    path = DOMAINS / f"{text}.yaml"
    own_file = isinstance(name_or_path, Path) or text.endswith((".yaml", ".yml")) or "/" in text
    if own_file:
        path = Path(name_or_path)
    if not path.is_file():
        if Path(text).is_dir():
            raise DomainError([f"{text!r} is a folder, not the YAML file of a domain"])
        if own_file:
            raise DomainError([f"no file {text!r}"])
        names = ", ".join(available_domains()) or "none"
        raise DomainError([f"no domain {text!r}; available: {names}; for a domain of your own give its YAML file"])
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
    except (yaml.YAMLError, ValueError, RecursionError) as cause:
        raise DomainError([f"{path}: damaged YAML: {' '.join(str(cause).split())}"]) from None
    except OSError as cause:
        raise DomainError([f"{path}: cannot be read: {cause.strerror}"]) from None
    return parse_domain(data, path.stem)


class _UniqueKeys(yaml.SafeLoader):
    """YAML lets a repeated key silently win over the earlier one; here it is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key.value!r} occurs twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def parse_domain(data: Any, name: str) -> Domain:
    """Validate the parsed YAML of the domain called ``name`` (its file's stem).

    Raises:
        DomainError: listing every problem with the domain, action and state where it stands.
    """
    return _Reader(name).domain(data)


class _Reader:
    """Collects all problems of one domain instead of stopping at the first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[str] = []

    def domain(self, data: Any) -> Domain:
        required = ("name", "title", "goal", "truth", "action", "truths", "actions")
        fields = self.mapping(data, "", required)
        if fields.get("name", self.name) != self.name:
            self.wrong("", f"name is {fields['name']!r} but the file is called {self.name!r}")
        title, goal = self.text(fields, "title", ""), self.text(fields, "goal", "")
        truth, action = self.noun(fields, "truth"), self.noun(fields, "action")
        truths = tuple(self.name_of(item, f"truth {item!r}") for item in self.sequence(fields, "truths", "", least=2))
        items = self.sequence(fields, "actions", "", least=1)
        actions = tuple(self.action(item, number, truths) for number, item in enumerate(items, 1))
        self.unique((*truths, *(a.name for a in actions)), "", "name (truths and actions share one set of names)")
        for name in truths if not self.problems else ():
            if not any(name in state.rules_out for a in actions for state in a.states):
                self.wrong("", f"truth {name!r} can be ruled out by no action")
        if self.problems:
            raise DomainError(self.problems)
        return Domain(self.name, title, goal, truth, action, truths, actions)

    def action(self, item: Any, number: int, truths: Sequence[str]) -> Action:
        label = f"action {item['name']!r}" if isinstance(item, dict) and "name" in item else f"action number {number}"
        fields = self.mapping(item, label, ("name", "outcome", "states"), optional=("unit",))
        name = self.name_of(fields["name"], label) if "name" in fields else ""
        kind = fields.get("outcome")
        if kind not in ("str", "float"):
            if "outcome" in fields:
                self.wrong(label, f"outcome is {kind!r}; it must be str or float")
            kind = "str" if "outcome" not in fields else kind
        unit = self.text(fields, "unit", label) if "unit" in fields else ""
        if "unit" in fields and kind == "str":
            self.wrong(label, "only a float outcome has a unit")
        items = self.sequence(fields, "states", label, least=2)
        states = [self.state(entry, kind, f"{label}, state number {i}", truths) for i, entry in enumerate(items, 1)]
        action = Action(name, "float" if kind == "float" else "str", tuple(s for s in states if s is not None), unit)
        self.between_states(action, label, complete=None not in states)
        return action

    def state(self, entry: Any, kind: Any, place: str, truths: Sequence[str]) -> State | None:
        if isinstance(entry, dict) and "state" in entry:
            place = f"{place.rpartition(', state')[0]}, state {entry['state']!r}"
        fields = self.mapping(entry, place, ("state", "rules_out"))
        if "state" not in fields:
            return None
        value = fields["state"]
        good = kind in ("str", "float") and (
            self.range(value, place) if kind == "float" else self.is_name(value, place)
        )
        rules_out = tuple(self.sequence(fields, "rules_out", place, least=0))
        for name in rules_out:
            if not isinstance(name, str) or name not in truths:
                close = difflib.get_close_matches(str(name), truths, 1)
                hint = f" (did you mean {close[0]!r}?)" if close else ""
                self.wrong(place, f"rules out {name!r}, which is not one of the truths{hint}")
        self.unique(rules_out, place, "entry of rules_out")
        if not good:
            return None
        return State(value if isinstance(value, str) else (float(value[0]), float(value[1])), rules_out)

    def between_states(self, action: Action, label: str, *, complete: bool) -> None:
        states = action.states
        self.unique((s.value for s in states if isinstance(s.value, str)), label, "state")
        ranges = [s.value for s in states if not isinstance(s.value, str)]
        for (low, high), (next_low, next_high) in itertools.pairwise(ranges):
            if next_high < low:
                self.wrong(label, f"state [{next_low}, {next_high}] stands after [{low}, {high}]; ranges must ascend")
            elif next_low <= high:
                self.wrong(label, f"states [{low}, {high}] and [{next_low}, {next_high}] overlap (ranges are closed)")
        if complete and len(states) > 1:
            for truth in states[0].rules_out:
                if all(truth in state.rules_out for state in states):
                    self.wrong(label, f"every state rules out {truth!r}; at least one state must leave it possible")

    # The following check one value each, report what is wrong with it and give back something harmless to go on with.

    def wrong(self, place: str, what: str) -> None:
        self.problems.append(f"domain {self.name!r}{', ' if place else ''}{place}: {what}")

    def mapping(self, data: Any, place: str, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.wrong(place, f"expected a mapping with {', '.join(required)}, found {type(data).__name__}")
            return {}
        for key in required:
            if key not in data:
                self.wrong(place, f"{key!r} is missing")
        for key in data:
            if key not in (*required, *optional):
                self.wrong(place, f"unknown key {key!r}; known: {', '.join((*required, *optional))}")
        return data

    def sequence(self, fields: dict[str, Any], key: str, place: str, *, least: int) -> list[Any]:
        items = fields.get(key)
        if not isinstance(items, list):
            if key in fields:
                self.wrong(place, f"{key} must be a list, not {type(items).__name__}")
            return []
        if len(items) < least:
            self.wrong(place, f"{key} needs at least {least} entries, found {len(items)}")
        return items

    def text(self, fields: dict[str, Any], key: str, place: str) -> str:
        value = fields.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if key in fields:
            self.wrong(place, f"{key} must be a text, not {value!r}")
        return ""

    def noun(self, fields: dict[str, Any], key: str) -> Noun:
        if key not in fields:
            return Noun("", "")
        forms = self.mapping(fields[key], key, ("singular", "plural"))
        return Noun(self.text(forms, "singular", key), self.text(forms, "plural", key))

    def is_name(self, value: Any, place: str) -> bool:
        if isinstance(value, str) and value and value == " ".join(value.split()):
            return True
        hint = "" if isinstance(value, str) else " (put it in quotes)"
        self.wrong(place, f"a name is one line of text without spaces around it, not {value!r}{hint}")
        return False

    def name_of(self, value: Any, place: str) -> str:
        """The name of a truth or an action, which must be possible to tell from the tags and marks of a reply."""
        if not self.is_name(value, place):
            return ""
        if not any(map(str.isalnum, value)) or set(value) & set("<>"):
            self.wrong(place, f"a name needs a letter or a digit and has neither < nor >, unlike {value!r}")
        return str(value)

    def range(self, value: Any, place: str) -> bool:
        if not isinstance(value, list) or len(value) != 2 or not all(_is_number(bound) for bound in value):
            self.wrong(place, "a float state is a range [low, high] of two finite numbers")
            return False
        if value[0] > value[1]:
            self.wrong(place, "the range is reversed: its low end is above its high end")
            return False
        return True

    def unique(self, names: Iterable[Any], place: str, what: str) -> None:
        # Replies are read without regard to case, so names must differ in more than that.
        seen: set[str] = set()
        for name in names:
            if name != "" and str(name).casefold() in seen:
                self.wrong(place, f"duplicate {what}: {name!r}")
            seen.add(str(name).casefold())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # neither inf nor nan
