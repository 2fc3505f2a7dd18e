"""Reading a knowledge book back into the table of rule-outs, by its words alone.

The reader shares nothing with the writers. It knows the names and the outcomes that exist, finds them in each sentence,
and takes the sentence's meaning from its verbs; a sentence that it cannot make sense of is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from envs.kumo.book import BookStyle
from envs.kumo.domain import Domain
from envs.kumo.task import Task

Table = Mapping[str, Mapping[str, frozenset[str]]]
"""For each test, for each of its outcomes (``State.text``), the truths that it rules out."""


class BookError(ValueError):
    """A book that says something unclear, twice, or not at all."""


def table_of(task: Task) -> Table:
    """The rule-outs of a task."""
    return {action.name: {s.text: frozenset(s.rules_out) for s in action.states} for action in task.actions}


def read_book(text: str, task: Task, domain: Domain, style: BookStyle = "prose") -> Table:
    """The rule-outs that a book states among the truths and for the actions of a task.

    Args:
        text: the book.
        task: whose names to look for; its rule-outs and what its tests show are not looked at.
        domain: whose names a longer book may hold besides.
        style: how the book is written.

    Raises:
        BookError: a sentence makes no sense, an outcome is told twice or never, or a truth or test has no definition.
    """
    outcomes: dict[str, list[str]] = {}
    for action in domain.actions:
        outcomes[action.name] = [state.text for state in action.states]
    readers: dict[str, Callable[..., dict[str, dict[str, frozenset[str]]]]] = {"table": _table, "symbolic": _symbolic}
    read = readers.get(style, _prose)
    found = read(text, domain.truths, outcomes)
    wanted = frozenset(task.truths)
    table: dict[str, dict[str, frozenset[str]]] = {}
    for name in task.action_names:
        told = found.get(name, {})
        # Every outcome must be told, and no other.
        if set(told) != set(outcomes[name]):
            raise BookError(f"{name}: {sorted(told)} is told of {sorted(outcomes[name])}")
        table[name] = {outcome: gone & wanted for outcome, gone in told.items()}
    if style in readers:
        return table  # tables and symbols have no definitions
    missing = [name for name in task.truths if f"**{name}.** " not in text]
    if missing:
        raise BookError(f"{', '.join(missing)}: no definition")
    return table


# --- prose -----------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r"\*\*(.+?)\.\*\* ")
_RULING = re.compile(r"\b(rul(e|es|ed|ing) out|exclud\w+|eliminat\w+|cannot|(strike|struck|cross(ed)?) off)\b", re.I)
_TELLING = re.compile(r"\b(rul(e|es|ed|ing) out|exclud\w+|eliminat\w+)\b", re.I)
"""Verbs that a sentence without an outcome must not have."""
_RANGE = re.compile(r"-?[\d.,]+ to -?[\d.,]+")
_EXCEPT = re.compile(r"\b(but|except|only|save)\b")
_NONE = re.compile(r"\b(no|nothing|none|neither)\b", re.I)


def _headed(text: str) -> list[tuple[str, str]]:
    """The paragraphs that begin with a name in bold, which the title and notes do not, each apart from its name."""
    found = []
    for part in text.split("\n\n"):
        head = _HEAD.match(part)
        if head:
            found.append((head[1], part[head.end() :]))
    return found


def _prose(
    text: str, truths: Sequence[str], outcomes: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, frozenset[str]]]:
    """Paragraphs that begin with the bold name of a truth or a test."""
    paragraphs = _headed(text)
    described = frozenset(name for name, _ in paragraphs if name in truths)
    found: dict[str, dict[str, frozenset[str]]] = {}
    for name, body in paragraphs:
        if name in outcomes:
            found[name] = dict(_rules(name, body, truths, outcomes[name], described))
            continue
        # Any other paragraph is the definition of a truth, which rules nothing out.
        if name not in described:
            raise BookError(f"{name!r} is neither a truth nor a test")
        if _TELLING.search(body):
            raise BookError(f"{name}: a definition speaks of ruling out: {body!r}")
    return found


def _rules(
    action: str, body: str, truths: Sequence[str], outcomes: Sequence[str], described: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    told: set[str] = set()
    for sentence, shown, named in _sentences(body, outcomes, truths):
        if not shown:
            # Such a sentence may say anything but that something is ruled out.
            if named or _TELLING.search(sentence):
                raise BookError(f"{action}: no outcome in {sentence!r}")
            continue
        gone = _meaning(sentence, named, described)
        if gone is None:
            raise BookError(f"{action}: unclear: {sentence!r}")
        # A sentence may tell of several outcomes that rule out the same.
        for outcome in shown:
            if outcome in told:
                raise BookError(f"{action}: {outcome!r} is told twice")
            told.add(outcome)
            yield outcome, gone


def _meaning(sentence: str, named: frozenset[str], described: frozenset[str]) -> frozenset[str] | None:
    """The truths that a sentence with an outcome rules out; None if it is unclear."""
    rules_out = _RULING.search(sentence) is not None
    if not named:
        none = _NONE.search(sentence) is not None
        return frozenset() if none and rules_out else None
    if not named <= described:
        return None
    if _EXCEPT.search(sentence):
        return described - named
    return named if rules_out else None


def _pattern(name: str, in_quotes: bool) -> str:
    """Where a name stands: between quotes, or not within a longer word or number."""
    if in_quotes:
        return f"“{re.escape(name)}”"
    return rf"(?<![\w.,-]){re.escape(name)}(?!\w|[.,]\d)"


def _marked(text: str, outcomes: Sequence[str], truths: Sequence[str]) -> str:
    """A text with marks in place of names: ⟦o3⟧ for an outcome, ⟦t3⟧ for a truth."""
    for mark, names in (("o", outcomes), ("t", truths)):
        # The longest first, so that no name is found within another one.
        for place, name in sorted(enumerate(names), key=lambda entry: -len(entry[1])):
            if name not in text:
                continue
            in_words = mark == "o" and not _RANGE.fullmatch(name)
            text = re.sub(_pattern(name, in_quotes=in_words), f"⟦{mark}{place}⟧", text)
    return text


def _sentences(
    body: str, outcomes: Sequence[str], truths: Sequence[str]
) -> Iterator[tuple[str, list[str], frozenset[str]]]:
    """Each sentence without its outcomes and truths, and these."""
    for sentence in re.split(r"(?<=[.;])\s+", _marked(body, outcomes, truths)):
        shown = [outcomes[int(place)] for place in re.findall(r"⟦o(\d+)⟧", sentence)]
        named = frozenset(truths[int(place)] for place in re.findall(r"⟦t(\d+)⟧", sentence))
        bare = re.sub(r"⟦\w+⟧", "…", sentence)
        # Quotes that are left stand around no outcome of this test.
        if "“" in sentence:
            raise BookError(f"an outcome that does not exist: {bare!r}")
        yield bare, shown, named


# --- fixed forms -----------------------------------------------------------------------------------------------------


def _table(
    text: str, truths: Sequence[str], outcomes: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, frozenset[str]]]:
    """Headings with lists of ``outcome: truth; truth``."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            name = _heading(line[3:], outcomes)
            found[name] = {}
        elif line.startswith("- "):
            fitting = [outcome for outcome in outcomes[name] if line.startswith(f"- {outcome}: ")]
            if not fitting:
                raise BookError(f"{name}: {line!r} is none of its outcomes")
            outcome = fitting[0]
            listed = line.removeprefix(f"- {outcome}: ")
            # A dash means that the outcome rules out nothing.
            found[name][outcome] = _names(listed.replace("–", ""), truths)
    return found


def _symbolic(
    text: str, truths: Sequence[str], outcomes: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, frozenset[str]]]:
    """Names with indented lines of ``outcome -> not {truth; truth}``."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    name = ""
    for line in text.splitlines()[2:]:
        match = re.fullmatch(r'  (?:"(.+)"|\[(.+), (.+)\]) -> not \{(.*)\}', line)
        if match is None:
            if line:
                name = _heading(line, outcomes)
                found[name] = {}
            continue
        outcome = match[1]
        if outcome is None:
            # A range, whose numbers have no commas here.
            ranges = {told.replace(",", ""): told for told in outcomes[name] if _RANGE.fullmatch(told)}
            outcome = ranges.get(f"{match[2]} to {match[3]}")
        if outcome is None or outcome not in outcomes[name]:
            raise BookError(f"{name}: {line!r} is none of its outcomes")
        found[name][outcome] = _names(match[4], truths)
    return found


def _heading(text: str, outcomes: Mapping[str, Sequence[str]]) -> str:
    """The test that a heading names, a unit in parentheses aside."""
    names = []
    for name in outcomes:
        with_unit = text.startswith(f"{name} (") and text.endswith(")")
        if text == name or with_unit:
            names.append(name)
    if not names:
        raise BookError(f"{text!r} is no test")
    return max(names, key=len)


def _names(text: str, truths: Sequence[str]) -> frozenset[str]:
    names = [name for name in text.split("; ") if name]
    unknown = [name for name in names if name not in truths]
    if unknown:
        raise BookError(f"{', '.join(unknown)}: no such truth")
    return frozenset(names)
