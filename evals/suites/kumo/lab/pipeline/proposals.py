"""Stage ``propose``: new domains by title, goal and nouns, a few in each reply, a field of knowledge each time."""

from __future__ import annotations

import dataclasses
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.kumo.domain import CATEGORIES
from envs.kumo.likeness import Profile, near_duplicate
from evals.conversation import Conversation
from evals.suites.kumo.lab.pipeline import prompts
from evals.suites.kumo.lab.pipeline.dialogue import LONGEST_SHOWN, Tally, Verdict, ask_until_accepted
from evals.suites.kumo.lab.pipeline.model_text import NotDataError, brief, hidden_in, read_data
from evals.types import Chat, Outcome

_KEYS = ("title", "goal", "truth", "action", "truths", "actions")
_LONGEST = {"title": 60, "goal": 400, "noun": 40, "name": 80}
"""Characters of each kind of text."""
_NAME_LENGTH = 40
_MOST_EXAMPLES = 12
NAME_PATTERN = "^[A-Z][A-Za-z0-9 '-]{1,40}$"
"""Of names and titles under constrained decoding."""
SENTENCE_PATTERN = "^[A-Z][A-Za-z'-]{0,15}( [A-Za-z0-9,;:.()'-]{1,16}){4,40}\\.$"
"""Of goals and definitions. By words, because xgrammar cannot compile long ranges such as ``{20,300}``."""


@dataclass(frozen=True)
class Proposal:
    """A domain that is not written yet."""

    name: str
    """Of its file, made from the title: lower-case letters, digits and underscores."""
    title: str
    goal: str
    category: str
    truth: Mapping[str, str]
    """``singular`` and ``plural``."""
    action: Mapping[str, str]
    truths: tuple[str, ...]
    """Examples."""
    actions: tuple[str, ...]

    @property
    def profile(self) -> Profile:
        """What is compared with other domains."""
        return Profile.of(self.name, self.title, self.truths, self.actions)

    @property
    def header(self) -> dict[str, Any]:
        """The keys of the domain file besides its truths and actions."""
        kept = ("name", "title", "category", "goal", "truth", "action")
        return {key: dataclasses.asdict(self)[key] for key in kept}

    @classmethod
    def read(cls, entry: Any, category: str) -> Proposal:
        """From one entry of a reply, or of a file of proposals.

        Raises:
            ValueError: it lacks something, or a text is too long or holds hidden characters; the message is for the model.
        """
        if not isinstance(entry, dict) or any(key not in entry for key in _KEYS):
            raise ValueError(f"each entry must be a mapping with the keys {', '.join(_KEYS)}")
        if mark := hidden_in(entry):
            raise ValueError(f"holds the hidden character {mark}")
        title, goal = _text(entry["title"], "title"), _text(entry["goal"], "goal")
        nouns = {key: _noun(entry[key], key) for key in ("truth", "action")}
        examples = {key: _examples(entry[key], key) for key in ("truths", "actions")}
        return cls(file_name(title), title, goal, category, nouns["truth"], nouns["action"], **examples)


def file_name(title: str) -> str:
    """A name for a domain's file: no title can make it a path, an option or a hidden file.

    Raises:
        ValueError: the title has no Latin letter.
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:_NAME_LENGTH].strip("_")
    if not re.search("[a-z]", name):
        raise ValueError(f"title {brief(title, 60)!r} needs Latin letters")
    return name if name[0].isalpha() else f"domain_{name}"


def _text(value: Any, key: str) -> str:
    most = _LONGEST[key]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} must be a text, not {brief(repr(value), 60)}")
    text = " ".join(value.split())
    if len(text) > most or "<" in text or ">" in text:
        raise ValueError(f"{key} must have {most} characters at most and neither < nor >: {brief(text, 60)!r}")
    return text


def _noun(value: Any, key: str) -> dict[str, str]:
    if not isinstance(value, dict) or set(value) != {"singular", "plural"}:
        raise ValueError(f"{key} must be a mapping with singular and plural")
    return {form: _text(value[form], "noun") for form in ("singular", "plural")}


def _examples(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{key} must be a list of examples")
    return tuple(dict.fromkeys(_text(each, "name") for each in value[:_MOST_EXAMPLES]))


def category_of(index: int) -> str:
    """The field of knowledge that the episode of this number asks for."""
    return CATEGORIES[index % len(CATEGORIES)]


async def propose(
    conversation: Conversation, index: int, count: int, request: Chat, repairs: int
) -> tuple[Outcome, Tally]:
    """Ask for ``count`` domains; what is read of them stands in the outcome's ``result``, as JSON."""
    category = category_of(index)
    found: list[Proposal] = []

    def judge(text: str) -> Verdict:
        nonlocal found
        found, complaints = read_proposals(text, category)
        found = found[:count]
        if not found:
            return Verdict(False, "unreadable", tuple(complaints), shown=text[:LONGEST_SHOWN])
        return Verdict(True, "read", tuple(complaints), f"{len(found)} proposals")

    tally = Tally()
    verdict = await ask_until_accepted(conversation, request, judge, tally, repairs, schema_of(count))
    result = json.dumps([dataclasses.asdict(each) for each in found], ensure_ascii=False)
    extra = {"result": result, "complaints": [brief(each) for each in verdict.complaints[: prompts.MOST_COMPLAINTS]]}
    return Outcome(verdict.accepted, len(conversation.turns), extra=extra), tally


def read_proposals(text: str, category: str) -> tuple[list[Proposal], list[str]]:
    """The sound proposals of a reply, and what is wrong with it."""
    try:
        data = read_data(text)
    except NotDataError as error:
        return [], [str(error)]
    if isinstance(data, dict) and len(data) == 1:
        data = next(iter(data.values()))
    if not isinstance(data, list):
        return [], ["the reply must be a YAML list of entries"]
    if not data:
        return [], ["the list has no entries"]
    found, complaints = list[Proposal](), list[str]()
    for number, entry in enumerate(data, 1):
        try:
            found.append(Proposal.read(entry, category))
        except ValueError as error:
            complaints.append(f"entry {number}: {error}")
    return found, complaints


def choose(proposals: Sequence[Proposal], existing: Sequence[Profile]) -> list[tuple[Proposal, str]]:
    """Each proposal with the reason why it is refused, or an empty one; the first of two that are alike is kept."""
    known, judged = list(existing), list[tuple[Proposal, str]]()
    for proposal in proposals:
        reason = near_duplicate(proposal.profile, known)
        judged.append((proposal, reason))
        if not reason:
            known.append(proposal.profile)
    return judged


_NOUN = {
    "type": "object",
    "properties": {form: {"type": "string", "pattern": "^[a-z][a-z -]{1,29}$"} for form in ("singular", "plural")},
    "required": ["singular", "plural"],
    "additionalProperties": False,
}
_SHORT = {"type": "string", "pattern": NAME_PATTERN}
_ENTRY = {
    "type": "object",
    "properties": {
        "title": _SHORT,
        "goal": {"type": "string", "pattern": SENTENCE_PATTERN},
        "truth": _NOUN,
        "action": _NOUN,
        "truths": {"type": "array", "items": _SHORT, "minItems": 3, "maxItems": 6},
        "actions": {"type": "array", "items": _SHORT, "minItems": 3, "maxItems": 3},
    },
    "required": list(_KEYS),
    "additionalProperties": False,
}


def schema_of(count: int) -> str:
    """What constrained decoding holds a reply to; JSON is YAML, too."""
    return json.dumps({"type": "array", "items": _ENTRY, "minItems": 1, "maxItems": count})
