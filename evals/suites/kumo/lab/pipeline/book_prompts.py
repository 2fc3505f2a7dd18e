"""What a model is told when it writes, reads and mends knowledge books."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from envs.kumo import Domain, Task
from evals.suites.kumo.lab.pipeline import prompts
from evals.types import Chat, message, stable_hash

FAULTS: Mapping[str, str] = {
    "missing": "a rule-out of the table is not told, or an outcome is not told at all",
    "extra": "a truth is said to be ruled out that the table does not rule out",
    "inverted": "an outcome is told to rule out the truths that it leaves, or to leave those that it rules out",
    "confirmed": "an outcome is said to prove, suggest or speak for a truth",
    "misspelled": "a truth, a test or an outcome is not named exactly as in the table",
    "leaked": "a definition rules something out, or the text says which truth is right",
    "unclear": "a sentence can be read in two ways, or refers to something as 'the former' or 'the others'",
    "chatter": "the text speaks of itself, of the table or of the task of writing",
}
"""Kinds of faults in books, by name; the published ones have all of these."""

_WRITE = """\
You write the knowledge book of a game of elimination about {title}. The player sees only this book and must learn from it, \
exactly, which {truths} each outcome of each {action} rules out.

The {truths}, with facts to draw on:
{definitions}

The {actions}, with what each outcome rules out among these {truths}:
{tests}

Write the book in Markdown:
1. The first line is "# " and a title. Then comes a paragraph which says that a {truth} which an outcome \
rules out is certainly wrong, and that no outcome proves a {truth} right.
2. Then comes "## The {truths}" and one paragraph for each {truth}. It begins with the name in bold with a \
period: "**Name.** ". It says what it is and rules nothing out.
3. Then comes "## The {actions}" and one paragraph for each {action}. It begins with its name in bold with a \
period. It says in a sentence how it is done, and then what each of its outcomes rules out.
4. Tell every outcome of the table once, also those that rule out nothing. Put outcomes that are words \
between “ and ”; write ranges as in the table, as in 5 to 12{unit}.
5. Use names exactly as above. List every {truth} that an outcome rules out, and no other.
6. Say rule-outs in these forms, in turns: {forms}
7. Write nothing but the book."""

_EXTRACT = """\
Below is the knowledge book of a game of elimination. Read from it which {truths} each outcome of each \
{action} rules out. Take the book at its word: use no knowledge of your own, and do not guess.

The {truths}: {names}
The {actions} with their outcomes:
{tests}

<book>
{book}
</book>

Reply with JSON only: an object with each {action} as a key, whose value is an object with each outcome as a \
key, whose value is the list of the {truths} that the book says this outcome rules out ([] for none). Leave \
out outcomes of which the book says nothing. Use the names above exactly."""

_FAULTS = """\
Below are a table of rule-outs and a knowledge book that should say the same in prose. Find the faults of the book. \
Kinds of faults:
{kinds}

The table: what each outcome of each {action} rules out among the {truths} {names}.
{tests}

<book>
{book}
</book>

Reply with JSON only: a list of objects with the keys "kind" (one of those above) and "what" (where it is, \
and what is wrong, in one sentence). Reply [] if there is no fault."""

_REVISE = """\
{write}

There is a book already, which has faults:
{complaints}

<book>
{book}
</book>

Write the whole book again without these faults. Keep what is right. Write nothing but the book."""

FORMS = (
    "A result of “x” rules out A and B.",
    "If the result is “x”, A, B, and C can be ruled out.",
    "With a result of 5 to 12, one can exclude A.",
    "A result of “y” rules out no {truth}.",
)
"""Forms of sentences that our own reader knows (``envs.kumo.prose``)."""


def write(task: Task, domain: Domain) -> Chat:
    """Asks for the book of a task."""
    return (message("user", _write_text(task, domain)),)


def revise(task: Task, domain: Domain, book: str, complaints: Sequence[str]) -> Chat:
    """Asks for the book of a task anew, with what is wrong with the one there is."""
    text = _REVISE.format(write=_write_text(task, domain), complaints=prompts.listed(complaints), book=book)
    return (message("user", text),)


def extract(task: Task, domain: Domain, book: str) -> Chat:
    """Asks for the rule-outs that a book states; the table is not shown."""
    tests = "\n".join(f"- {a.name}: {'; '.join(s.text for s in a.states)}" for a in task.actions)
    names = "; ".join(task.truths)
    return (message("user", _EXTRACT.format(**_nouns(domain), names=names, tests=tests, book=book)),)


def find_faults(task: Task, domain: Domain, book: str) -> Chat:
    """Asks what is wrong with a book, by the known kinds of faults."""
    kinds = "\n".join(f"- {kind}: {what}" for kind, what in FAULTS.items())
    fields = {"names": "; ".join(task.truths), "tests": _tests(task), "book": book, "kinds": kinds}
    return (message("user", _FAULTS.format(**_nouns(domain), **fields)),)


def extraction_schema(task: Task) -> str:
    """The JSON schema of what ``extract`` asks for."""
    some = {"type": "array", "items": {"enum": list(task.truths)}, "maxItems": len(task.truths)}
    tests = {action.name: _object({state.text: some for state in action.states}) for action in task.actions}
    return json.dumps(_object(tests))


def faults_schema() -> str:
    """The JSON schema of what ``find_faults`` asks for."""
    fault = _object({"kind": {"enum": list(FAULTS)}, "what": {"type": "string", "maxLength": 200}})
    return json.dumps({"type": "array", "items": fault, "maxItems": 10})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _write_text(task: Task, domain: Domain) -> str:
    units = [action.unit for action in task.actions if action.unit]
    return _WRITE.format(
        **_nouns(domain),
        title=domain.title,
        definitions="\n".join(f"- {name}: {domain.definitions[name]}" for name in task.truths),
        tests=_tests(task, domain.definitions),
        unit=f" {units[0]}" if units else "",
        forms=" ".join(FORMS).format(truth=domain.truth.singular),
    )


def _tests(task: Task, definitions: Mapping[str, str] | None = None) -> str:
    lines = []
    for action in task.actions:
        definition = f": {definitions[action.name]}" if definitions else ""
        lines.append(f"- {action.name}{definition}")
        for state in action.states:
            outcome = f"{state.text} {action.unit}".rstrip()
            gone = "; ".join(state.rules_out) or "nothing"
            lines.append(f"  - {outcome}: {gone}")
    return "\n".join(lines)


def _nouns(domain: Domain) -> dict[str, str]:
    return {
        "truth": domain.truth.singular,
        "truths": domain.truth.plural,
        "action": domain.action.singular,
        "actions": domain.action.plural,
    }


FINGERPRINT = stable_hash(FAULTS, _WRITE, _EXTRACT, _FAULTS, _REVISE, FORMS)
"""Part of the ids of episodes that write, check or revise books."""
