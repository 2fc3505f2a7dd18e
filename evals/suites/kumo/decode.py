"""From a reply to the chosen test or prediction: as a person reads it (``lenient``), or as published (``strict``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from evals.replies.reader import Choices, read

_NOUNS: Final = ("truth", "action", "test", "prediction")
"""Words that tell no names apart."""
_OUTCOME: Final = "(?:outcome|result|observation|finding)s?"
_TOLD: Final = (
    rf"(?:(?:the|test|lab|simulated|hypothetical|assumed|imagined|likely|possible|expected) ){{0,2}}{_OUTCOME}"
    r"(?: of \w|\W{0,3}[:=]\W{0,3}(?=[\w+-])(?!answer\b))"
)
"""How the message begins that follows a test, or one like it; a reply that goes on so makes the outcome up."""


@dataclass(frozen=True)
class Decoded:
    """What a reply chose and by which rule it was read; the rule of an unread reply says why."""

    name: str | None
    kind: Literal["test", "predict"] | None
    rule: str


def decode(
    text: str,
    actions: Sequence[str],
    truths: Sequence[str],
    strict: bool = False,
    cut: bool = False,
    nouns: Sequence[str] = (),
) -> Decoded:
    """Read one reply, its reasoning set apart.

    A name that is a test and a truth is a prediction, as published. Strict, the rules are ``published`` or ``parse
    error``.

    Args:
        text: The reply.
        actions: The tests on offer.
        truths: The truths in question.
        strict: Read it as the published parser does.
        cut: The reply ended at its limit of tokens. The published code never reads such a reply; lenient, it is read if
            its last tag had been closed by then.
        nouns: What the domain calls its truths and tests.
    """
    # A truth comes first, so that a name that is both is its own first place.
    names = tuple(dict.fromkeys((*truths, *actions)))
    found: str | None = None
    if strict:
        answer = published(text)
        rule = "parse error"
        if answer in names and not cut:
            found, rule = answer, "published"
    else:
        reading = read(text, Choices(names, nouns=(*_NOUNS, *nouns), told=_TOLD, stated="names"), cut)
        rule = reading.rule
        if reading.option is not None:
            found = names[reading.option]
    if found is None:
        return Decoded(None, None, rule)
    return Decoded(found, "predict" if found in truths else "test", rule)


def published(text: str) -> str:
    """The published parser, step by step (the repository's agents; the first tag case-sensitive, the last one wins)."""
    answer = text.split("<ANSWER>")[-1].split("</ANSWER>")[0].strip()
    return answer.split("${")[-1].split("}")[0] if "${" in answer else answer
