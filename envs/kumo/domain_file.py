"""Reading and validating the YAML file of a domain; docs/kumo_domains.md describes its form."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.files import FileError, read_yaml
from envs.kumo.definitions import Place, language_problems
from envs.kumo.domain import CATEGORIES, Action, Domain, DomainError, Noun, Phrasings, Range, State
from envs.kumo.names import words
from envs.kumo.properties import Properties, Value, range_of
from envs.kumo.true_of import Truths, read_true_of
from envs.suggest import did_you_mean

DOMAINS = Path(__file__).parent / "domains"


def available_domains() -> tuple[str, ...]:
    """Names of the domains that come with raycade, sorted."""
    return tuple(sorted(path.stem for path in DOMAINS.glob("*.yaml")))


@functools.cache
def domains_with_table() -> tuple[str, ...]:
    """Names of the domains that come with raycade and state what is true in the real world, sorted."""
    return tuple(
        name for name in available_domains() if "    true_of:" in (DOMAINS / f"{name}.yaml").read_text("utf-8")
    )


def load_domain(name_or_path: str | Path) -> Domain:
    """Read and validate a domain: one that comes with raycade by its name, any other by the path of its YAML file.

    Raises:
        DomainError: there is no such domain, or its file is wrong; all problems are listed.
    """
    text = str(name_or_path)
    path = DOMAINS / f"{text}.yaml"
    looks_like_a_path = text.endswith((".yaml", ".yml")) or "/" in text
    own_file = isinstance(name_or_path, Path) or looks_like_a_path
    if own_file:
        path = Path(name_or_path)
    if not path.is_file():
        raise DomainError([_missing(text, own_file)])
    try:
        data = read_yaml(path)
    except FileError as cause:
        raise DomainError([str(cause)]) from None
    return parse_domain(data, path.stem)


def _missing(text: str, own_file: bool) -> str:
    """Why there is no file for a name or a path."""
    if Path(text).is_dir():
        return f"{text!r} is a folder, not the YAML file of a domain"
    if own_file:
        return f"no file {text!r}"
    known = available_domains()
    near = did_you_mean(text, known) or f"; there are {', '.join(known)}"
    return f"no domain {text!r}; for a domain of your own give its YAML file{near}"


def parse_domain(data: Any, name: str) -> Domain:
    """Validate the parsed YAML of the domain called ``name`` (its file's stem).

    Raises:
        DomainError: listing every problem with the domain, action and state where it stands.
    """
    return _Reader(name).domain(data)


_REQUIRED = ("name", "title", "goal", "truth", "action", "truths", "actions")


def _texts_of(value: Any) -> Value:
    """One text, or those of a list; none if anything else is in it."""
    held = value if isinstance(value, list) else [value]
    for one in held:
        if not isinstance(one, str) or not one:
            return ()
    return tuple(held)


def _did_they_mean(value: Any, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(value), known, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


class _Reader:
    """Collects all problems of one domain instead of stopping at the first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[str] = []
        self.definitions: dict[str, str] = {}
        self.true_of: dict[str, Truths] = {}

    def domain(self, data: Any) -> Domain:
        fields = self.mapping(data, "", _REQUIRED, optional=("notes", "phrasings", "category"))
        if fields.get("name", self.name) != self.name:
            self.wrong("", f"name is {fields['name']!r} but the file is called {self.name!r}")
        title, goal = self.text(fields, "title", ""), self.text(fields, "goal", "")
        truth, action = self.noun(fields, "truth"), self.noun(fields, "action")
        entries = self.entries(fields, "truths", least=2)
        properties = Properties({name: self.truth(name, entry) for name, entry in entries.items()})
        actions: list[Action] = []
        for name, entry in self.entries(fields, "actions", least=1).items():
            actions.append(self.action(name, entry, properties))
        truths = tuple(entries)
        names = [*truths, *(each.name for each in actions)]
        self.unique(names, "", "name (truths and actions share one set of names)")
        if not self.problems:  # an outcome that could not be read might rule it out
            self.each_can_be_ruled_out(truths, actions)
        notes = tuple(self.texts(fields, "notes", ""))
        domain = Domain(
            self.name,
            title,
            goal,
            truth,
            action,
            truths,
            tuple(actions),
            self.definitions,
            notes,
            self.phrasings(fields),
            self.category(fields),
            self.true_of,
        )
        for place, what in language_problems(domain):
            self.wrong(place, what)
        if self.problems:
            raise DomainError(self.problems)
        return domain

    def each_can_be_ruled_out(self, truths: Sequence[str], actions: Sequence[Action]) -> None:
        able: set[str] = set()
        for action in actions:
            for state in action.states:
                able.update(state.rules_out)
        for name in truths:
            if name not in able:
                self.wrong(f"truth {name!r}", "can be ruled out by no action")

    def category(self, fields: Mapping[str, Any]) -> str:
        """The field of knowledge, empty if none is stated."""
        category = fields.get("category", "")
        if category and category not in CATEGORIES:
            self.wrong("", f"category must be one of {', '.join(CATEGORIES)}; it is {category!r}")
        return str(category)

    def entries(self, fields: Mapping[str, Any], key: str, *, least: int) -> dict[str, Any]:
        """The entries of ``truths`` or ``actions`` under names that are in order."""
        items = fields.get(key)
        if not isinstance(items, dict):
            if key in fields:
                self.wrong("", f"{key} must be a mapping of names, not {type(items).__name__}")
            return {}
        if len(items) < least:
            self.wrong("", f"{key} needs at least {least} entries, found {len(items)}")
        good = {name: self.name_of(name, f"{key[:-1]} {name!r}") for name in items}
        return {name: items[key] for key, name in good.items() if name}

    def truth(self, name: str, entry: Any) -> dict[str, Value]:
        """Keep a truth's definition and give back its properties."""
        label = f"truth {name!r}"
        fields = entry if isinstance(entry, dict) else {"definition": entry}
        self.definitions[name] = self.text(fields, "definition", label, required=True)
        properties: dict[str, Value] = {}
        for key, value in fields.items():
            if key == "definition":
                continue
            texts = _texts_of(value)
            if not texts:
                self.wrong(label, f"{key} must be a text, such as 'forest' or '5 to 12', or a list, not {value!r}")
                continue
            properties[str(key)] = texts
        return properties

    def action(self, name: str, entry: Any, properties: Properties) -> Action:
        label = f"action {name!r}"
        fields = self.mapping(entry, label, ("definition", "outcomes"), optional=("unit", "observes", "true_of"))
        self.definitions[name] = ""
        if "definition" in fields:
            self.definitions[name] = self.text(fields, "definition", label)
        outcomes = self.outcomes(fields, label)
        if outcomes is None:
            return Action(name, "str", ())
        # A range among the outcomes, or a unit, makes the test a numeric one: then all outcomes must be ranges.
        ranges = [range_of(key) for key in outcomes]
        numeric = any(ranges) or "unit" in fields
        observed = self.observed(fields, label, properties, numeric)
        states = []
        for key, items in outcomes.items():
            state = self.state(key, items, f"{label}, outcome {key!r}", properties, numeric, observed)
            if state is not None:
                states.append(state)
        unit = ""
        if fields.get("unit", "") != "":  # an empty one stands for none
            unit = self.text(fields, "unit", label)
        action = Action(name, "float" if numeric else "str", tuple(states), unit)
        complete = len(states) == len(outcomes)
        self.between_states(action, label, complete=complete)
        if complete and "true_of" in fields:
            texts = [str(key) for key in outcomes]
            problem = functools.partial(self.wrong, label)
            self.true_of[name] = read_true_of(fields["true_of"], action, texts, properties, observed, problem)
        return action

    def outcomes(self, fields: Mapping[str, Any], label: str) -> dict[Any, Any] | None:
        """The outcomes as the file has them, None if they are wrong; empty where the key is missing, which was said already."""
        if "outcomes" not in fields:
            return {}
        outcomes = fields["outcomes"]
        if isinstance(outcomes, dict) and len(outcomes) >= 2:
            return outcomes
        self.wrong(label, "outcomes must be a mapping of at least 2 outcomes to what each rules out")
        return None

    def state(
        self, key: Any, items: Any, place: str, properties: Properties, numeric: bool, observed: str
    ) -> State | None:
        """One outcome with what it rules out; None where it is neither a name nor, of a numeric test, a range."""
        value: str | Range | None = None
        if numeric:
            value = self.range(key, place)
        elif self.is_name(key, place):
            value = key
        # What it rules out is checked even if the outcome itself is wrong.
        gone = self.rules_out(items, place, properties, observed)
        if observed and isinstance(value, tuple):
            # A truth whose own numbers do not meet the outcome's is ruled out without being named.
            gone |= properties.outside(observed, value)
        if value is None:
            return None
        in_order = tuple(truth for truth in properties.truths if truth in gone)
        return State(value, in_order)

    def observed(self, fields: Mapping[str, Any], label: str, properties: Properties, numeric: bool) -> str:
        """The property that an action observes, if any."""
        if "observes" not in fields:
            return ""
        name = self.text(fields, "observes", label)
        if not name:
            return ""
        if name not in properties.names:
            known = ", ".join(sorted(properties.names)) or "none"
            self.wrong(label, f"observes {name!r}, which no truth has; properties: {known}")
            return ""
        # The outcomes of a test that shows numbers are compared with the numbers of the truths.
        odd = properties.not_ranges(name)
        if numeric and odd:
            self.wrong(label, f"shows numbers, but {name} of {odd[0]!r} is neither a number nor a range")
            return ""
        return name

    def rules_out(self, items: Any, place: str, properties: Properties, observed: str) -> set[str]:
        """The truths that an outcome's entries name, as truths or as values of the property observed."""
        if not isinstance(items, list):
            self.wrong(place, f"what it rules out must be a list, not {type(items).__name__}")
            return set()
        self.unique(items, place, "entry")
        names: set[str] = set()
        values: list[Any] = []
        for item in items:
            if isinstance(item, str) and item in properties.truths:
                names.add(item)
            else:
                values.append(item)
        # What is no truth must be a value of the property that the test observes.
        known = properties.values(observed) if observed else ()
        for value in values:
            if value in known:
                continue
            hint = _did_they_mean(value, [*properties.truths, *known])
            of_property = f" nor a value of {observed}" if observed else ""
            self.wrong(place, f"rules out {value!r}, which is not one of the truths{of_property}{hint}")
        if observed and values:
            names |= properties.only(observed, [value for value in values if value in known])
        return names

    def between_states(self, action: Action, label: str, *, complete: bool) -> None:
        names: list[str] = []
        ranges: list[Range] = []
        for state in action.states:
            if isinstance(state.value, str):
                names.append(state.value)
            else:
                ranges.append(state.value)
        self.unique(names, label, "outcome")
        self.ascending(ranges, label)
        if complete:  # an outcome that could not be read might be the one that leaves a truth possible
            self.none_ruled_out_everywhere(action, label)

    def none_ruled_out_everywhere(self, action: Action, label: str) -> None:
        if len(action.states) < 2:
            return
        first, *others = action.states
        for truth in first.rules_out:
            if all(truth in state.rules_out for state in others):
                self.wrong(label, f"every outcome rules out {truth!r}; at least one must leave it possible")

    def ascending(self, ranges: Sequence[Range], label: str) -> None:
        for (low, high), (next_low, next_high) in itertools.pairwise(ranges):
            if next_high < low:
                self.wrong(label, f"{next_low} to {next_high} stands after {low} to {high}; ranges must ascend")
            elif next_low <= high:
                self.wrong(label, f"{low} to {high} and {next_low} to {next_high} overlap (ranges are closed)")

    def phrasings(self, fields: Mapping[str, Any]) -> Phrasings:
        if "phrasings" not in fields:
            return Phrasings()
        marks_of = {"rules_out": {"outcome", "truths"}, "nothing": {"outcome"}}
        kinds = self.mapping(fields["phrasings"], "phrasings", (), optional=tuple(marks_of))
        found = {}
        for kind, marks in marks_of.items():
            sentences = tuple(self.texts(kinds, kind, "phrasings"))
            wanted = " and ".join(f"{{{mark}}}" for mark in sorted(marks))
            for sentence in sentences:
                held = set(re.findall(r"{(\w*)}", sentence))
                braces = max(sentence.count("{"), sentence.count("}"))
                if held != marks or braces != len(marks):
                    self.wrong("phrasings", f"{sentence!r} must hold {wanted} once each and no other marks")
            found[kind] = sentences
        return Phrasings(**found)

    # The following check one value each, report what is wrong with it and give back something harmless to go on with.

    def wrong(self, place: Place, what: str) -> None:
        self.problems.append(f"domain {self.name!r}{', ' if place else ''}{place}: {what}")

    def mapping(
        self, data: Any, place: str, required: Sequence[str], optional: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        if not isinstance(data, dict):
            found = type(data).__name__
            self.wrong(place, f"expected a mapping with {', '.join(required)}, found {found}")
            return {}
        for key in required:
            if key not in data:
                self.wrong(place, f"{key!r} is missing")
        known = (*required, *optional)
        for key in data:
            if key not in known:
                self.wrong(place, f"unknown key {key!r}; known: {', '.join(known)}")
        return data

    def text(self, fields: Mapping[str, Any], key: str, place: str, *, required: bool = False) -> str:
        value = fields.get(key)
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())
        if key in fields and value is not None:
            self.wrong(place, f"{key} must be a text, not {value!r}")
        elif key in fields or required:
            self.wrong(place, f"{key!r} is missing")
        return ""

    def texts(self, fields: Mapping[str, Any], key: str, place: str) -> list[str]:
        items = fields.get(key, [])
        good = isinstance(items, list) and all(_is_text(item) for item in items)
        if not good:
            self.wrong(place, f"{key} must be a list of texts")
            return []
        return [" ".join(item.split()) for item in items]

    def noun(self, fields: Mapping[str, Any], key: str) -> Noun:
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

    def range(self, key: Any, place: str) -> Range | None:
        bounds = range_of(key)
        if bounds is None:
            self.wrong(place, "outcomes that are numbers are all ranges such as '0.5 to 12', of two finite numbers")
        elif bounds[0] > bounds[1]:
            self.wrong(place, "the range is reversed: its low end is above its high end")
        else:
            return bounds
        return None

    def unique(self, names: Iterable[Any], place: str, what: str) -> None:
        # Replies are read without regard to case, accents and punctuation, so names must differ in more than that.
        seen: dict[tuple[str, ...], Any] = {}
        for name in names:
            key = words(str(name))
            if name != "" and key in seen:
                alike = "" if seen[key] == name else f", too much like {seen[key]!r}"
                self.wrong(place, f"duplicate {what}: {name!r}{alike}")
            seen.setdefault(key, name)


def _is_text(item: Any) -> bool:
    return isinstance(item, str) and bool(item.strip())
