"""Reading a model's book back: by our parser where it knows the sentences, by what a model extracts, and the differences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from envs.kumo import Action, Domain, Task
from envs.kumo.book_reader import BookError, Table, read_book, table_of
from envs.kumo.names import words
from envs.kumo.prose import NOTHING, NOTHING_AT_ALL, ONLY, RULES_OUT
from evals.suites.kumo.lab.pipeline.model_text import brief, hidden_character

State = Literal["equal", "differs", "unreadable"]
"""Of a table that was read back: as it should be, another one, or none."""
LONGEST_BOOK = 60_000
"""Characters; ours of the largest games have 12,000."""


@dataclass(frozen=True)
class ReadBack:
    """What one reader makes of a book."""

    state: State
    differences: tuple[str, ...] = ()
    """From the true table; or why it cannot be read."""


@dataclass(frozen=True)
class Decision:
    """Whether a book is accepted, and on whose word."""

    accepted_by: Literal["parser", "model", "both", ""]
    complaints: tuple[str, ...]


def decide(lint: Sequence[str], parser: ReadBack, model: ReadBack) -> Decision:
    """A book in known forms of sentences is accepted if our parser reads the true table, whatever the model says.

    The parser errs on no such book. One in free prose, which it cannot read, is accepted if the model extracts the true
    table. In both cases no name may be missing or misspelled (``lint``).
    """
    if parser.state == "differs" or lint:
        return Decision("", (*lint, *parser.differences))
    if parser.state == "equal":
        return Decision("both" if model.state == "equal" else "parser", ())
    if model.state == "equal":
        return Decision("model", ())
    return Decision("", model.differences)


# --- the text itself -------------------------------------------------------------------------------------------------


def book_in(text: str) -> str:
    """The book that a reply holds: without a code fence or tags around it and chatter before its title."""
    body = text.strip()
    if match := re.search(r"<book>(.*?)(?:</book>|\Z)", body, re.DOTALL | re.IGNORECASE):
        body = match[1].strip()
    if match := re.fullmatch(r"```\w*\n(.*?)\n?```", body, re.DOTALL):
        body = match[1].strip()
    return body


def lint_book(book: str, task: Task) -> list[str]:
    """What is wrong with a book at first sight."""
    if len(book) > LONGEST_BOOK:
        return [f"chatter: the book has {len(book):,} characters, where {LONGEST_BOOK:,} are allowed"]
    found = []
    hidden = hidden_character(book)
    if hidden:
        found.append(f"unclear: the book holds the hidden character {hidden}")
    marks = [mark for mark in "<>[]{}|`" if mark in book]
    if marks:
        found.append(f"chatter: the book holds {marks[0]}; it is to be plain prose")
    if not book.startswith("# "):
        found.append('chatter: the first line must be "# " and the title')
    found += _misspelled(book, task)
    for sentence in _confirming(book, task):
        found.append(f"confirmed: {brief(sentence, 120)!r} says what an outcome speaks for")
    return found


def _confirming(book: str, task: Task) -> Iterator[str]:
    """Sentences that mislead about the rules of the game: an outcome only ever rules out, and speaks for no truth."""
    for sentence in re.split(r"(?<=[.;])\s+", book):
        if not _PROVES.search(sentence):
            continue
        if any(name in sentence for name in task.truths):
            yield sentence


def _misspelled(book: str, task: Task) -> list[str]:
    """The names of the game that a book does not hold."""
    found = []
    outcomes = dict.fromkeys(state.text for action in task.actions for state in action.states)
    for kind, names in (("truth", task.truths), ("test", task.action_names), ("outcome", outcomes)):
        lacking = [name for name in names if name not in book]
        for name in lacking:
            near = _nearest(name, book)
            hint = f"; there is {near!r}" if near else ""
            found.append(f"misspelled: the {kind} {name!r} is not named{hint}")
    return found


_PROVES = re.compile(r"\b(proves|confirms|is proof of|points to|is diagnostic of)\b", re.I)


def _nearest(name: str, book: str) -> str:
    """What stands in a book in place of a name."""
    size, tokens = len(name.split()), re.findall(r"[\w'’-]+", book)
    spans = dict.fromkeys(" ".join(tokens[place : place + size]) for place in range(len(tokens) - size + 1))
    return next(iter(difflib.get_close_matches(name, list(spans)[:5_000], 1, 0.8)), "")


# --- our parser ------------------------------------------------------------------------------------------------------


def parse(book: str, task: Task, domain: Domain) -> ReadBack:
    """What our parser reads, if the book keeps to the forms of sentences that it is known to read rightly.

    Such a book differs, too, if it contradicts itself or leaves something out.
    """
    if odd := _unknown_form(book, task, domain):
        return ReadBack("unreadable", (f"unclear: not in a known form: {brief(odd, 160)!r}",))
    try:
        table = read_book(book, task, domain)
    except BookError as error:
        return ReadBack("differs", (f"unclear: {brief(str(error))}",))
    differences = tuple(compare(table, task))
    return ReadBack("differs" if differences else "equal", differences)


def _unknown_form(book: str, task: Task, domain: Domain) -> str:
    """The first sentence that might mean something else than our parser takes it for; empty if there is none.

    Sentences on outcomes must follow one of the writer's own templates word for word. Elsewhere no truth, test or outcome
    may be named, so that nothing outside the paragraphs on tests can contradict them.
    """
    forms = _forms(domain)
    actions = {action.name: action for action in task.actions}
    for part in book.split("\n\n"):
        paragraph = part.strip()
        subject, body = "", paragraph
        head = re.match(r"\*\*(.+?)\.\*\* ", paragraph)
        if head:
            subject, body = head[1], paragraph[head.end() :]
        if subject in actions:
            odd = _unknown_sentence(body, actions[subject], task, forms)
            if odd:
                return odd
            continue
        # Else a definition or a note; the title may name what it likes.
        is_title = paragraph.startswith("# ")
        if not is_title and _names_another(body, subject, task):
            return paragraph
    return ""


def _names_another(body: str, subject: str, task: Task) -> bool:
    """Whether a paragraph on something else than a test names a test, an outcome or another truth than its subject."""
    others = [truth for truth in task.truths if truth != subject]
    marked = _marked(body, {"t": others, "a": task.action_names, "o": _outcomes(task)})
    return "⟦" in marked


def _unknown_sentence(body: str, action: Action, task: Task, forms: Sequence[re.Pattern[str]]) -> str:
    """The first sentence of a test's paragraph that names outcomes or truths in no known form."""
    outcomes = []
    for state in action.states:
        # Outcomes in words stand in quotation marks.
        in_words = isinstance(state.value, str)
        outcomes.append(f"“{state.text}”" if in_words else state.text)
    names = {"t": task.truths, "a": task.action_names, "o": outcomes}
    marked = _marked(body, names)
    if action.unit:
        # Numbers may stand with their unit.
        marked = re.sub(rf"(?<=⟧) {re.escape(action.unit)}(?!\w)", "", marked)
    for sentence in re.split(r"(?<=[.;])\s+", marked):
        plain = _lists(sentence)
        names_some = re.search("⟦[ot]", plain) is not None
        if names_some and not _has_form(plain, forms):
            return _unmarked(sentence, names)
    return ""


def _has_form(sentence: str, forms: Sequence[re.Pattern[str]]) -> bool:
    return any(form.fullmatch(sentence) for form in forms)


def _outcomes(task: Task) -> list[str]:
    """Outcomes that are numbers, or that have several words."""
    found = []
    for action in task.actions:
        for state in action.states:
            is_number = not isinstance(state.value, str)
            if is_number or " " in state.text:
                found.append(state.text)
    return found


def _marked(text: str, names: Mapping[str, Sequence[str]]) -> str:
    """The text with names replaced by marks, longer names first."""
    entries = [(name, f"⟦{kind}{place}⟧") for kind, held in names.items() for place, name in enumerate(held)]
    for name, mark in sorted(entries, key=lambda entry: -len(entry[0])):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?!\w|\.\d)", mark, text)
    return text


def _unmarked(text: str, names: Mapping[str, Sequence[str]]) -> str:
    return re.sub(r"⟦(\w)(\d+)⟧", lambda match: names[match[1]][int(match[2])], text)


def _lists(sentence: str) -> str:
    """A sentence whose lists of truths and of outcomes are one mark each."""
    for kind in "to":
        item = rf"⟦{kind}\d+⟧"
        sentence = re.sub(
            rf"(?:either |any of )?{item}(?:(?:, (?:and |or )?| and | or ){item})*", f"⟦{kind}⟧", sentence
        )
    return " ".join(sentence.split())


def _forms(domain: Domain) -> list[re.Pattern[str]]:
    nouns = {"singular": domain.truth.singular, "plural": domain.truth.plural}
    marks = {"outcome": "⟦o⟧", "truths": "⟦t⟧", "truths_or": "⟦t⟧"}
    templates = (*RULES_OUT, *ONLY, *NOTHING, *NOTHING_AT_ALL, *domain.phrasings.rules_out, *domain.phrasings.nothing)
    sentences = [template.format(**nouns, **marks) for template in templates]
    joined = [f"a{each[1:]}" for each in sentences if each.startswith("A result of ")]
    # Two sentences may be joined by a semicolon; before a vowel the writer's "a" is "an".
    return [
        re.compile(re.escape(each).removesuffix(r"\.").replace(r"\ a\ ", r"\ an?\ ") + "[.;]")
        for each in (*sentences, *joined)
    ]


# --- what a model extracts -------------------------------------------------------------------------------------------


def table_from(data: Any, task: Task) -> tuple[dict[str, dict[str, frozenset[str]]], list[str]]:
    """The table that a model's reply states, and what in it cannot be understood."""
    if not isinstance(data, dict):
        return {}, ["the reply must be an object with the tests as keys"]
    table: dict[str, dict[str, frozenset[str]]] = {}
    wrong: list[str] = []
    # Names are compared by their words: case and punctuation do not count.
    truths = {words(name): name for name in task.truths}
    actions = {words(action.name): action for action in task.actions}
    for key, outcomes in data.items():
        action = actions.get(words(str(key)))
        if action is None or not isinstance(outcomes, dict):
            wrong.append(f"{brief(str(key), 60)!r} is not a test with an object of outcomes")
            continue
        told = _outcomes_told(action, outcomes, truths, wrong)
        table.setdefault(action.name, {}).update(told)
    return table, wrong


def _outcomes_told(
    action: Action, outcomes: Mapping[Any, Any], truths: Mapping[tuple[str, ...], str], wrong: list[str]
) -> dict[str, frozenset[str]]:
    """What a test's outcomes rule out, as a reply states it; what cannot be understood is added to ``wrong``."""
    known = {words(state.text): state.text for state in action.states}
    told: dict[str, frozenset[str]] = {}
    for outcome, gone in outcomes.items():
        text = known.get(words(str(outcome)))
        named = _truths_of(gone, truths)
        if text is None or named is None:
            wrong.append(f"{action.name}: {brief(str(outcome), 60)!r} is no outcome with a list of known truths")
        else:
            told[text] = named
    return told


def _truths_of(gone: Any, truths: Mapping[tuple[str, ...], str]) -> frozenset[str] | None:
    """The truths of a list, which ``truths`` has by their words; None where it is no list, or one is unknown."""
    if not isinstance(gone, list):
        return None
    named = [words(str(name)) for name in gone]
    if not truths.keys() >= set(named):
        return None
    return frozenset(truths[name] for name in named)


def compare(table: Table, task: Task) -> Iterator[str]:
    """Differences between a table that was read and the true one, by the kinds of ``book_prompts.FAULTS``."""
    everything = frozenset(task.truths)
    for name, outcomes in table_of(task).items():
        for outcome, gone in outcomes.items():
            place = f"{name}, outcome {outcome!r}"
            told = table.get(name, {}).get(outcome)
            if told is None:
                yield f"missing: {place}: the book does not say what it rules out"
                continue
            if gone and told == everything - gone:
                yield f"inverted: {place}: the book rules out just those that it leaves; right is {_named(gone)}"
                continue
            lost, more = gone - told, told - gone
            if lost:
                yield f"missing: {place}: rules out {_named(lost)}, too"
            if more:
                yield f"extra: {place}: does not rule out {_named(more)}"


def _named(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
