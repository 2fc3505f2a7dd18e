"""Stage ``configure``: the truths, tests and rule-outs of a proposed domain, mended until our checks accept them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from envs.kumo import Domain, DomainError, GenerationError
from envs.kumo.book_check import book_problems
from envs.kumo.domain_file import parse_domain
from envs.kumo.structure import measure
from evals.conversation import Conversation
from evals.suites.kumo.lab.pipeline import prompts
from evals.suites.kumo.lab.pipeline.dialogue import LONGEST_SHOWN, Tally, Verdict, ask_until_accepted
from evals.suites.kumo.lab.pipeline.model_text import NotDataError, brief, hidden_in, read_data
from evals.suites.kumo.lab.pipeline.proposals import NAME_PATTERN, SENTENCE_PATTERN, Proposal
from evals.suites.kumo.lab.pipeline.repair import repaired, twins
from evals.types import Chat, Outcome

DENSITY = (0.01, 0.35)
"""Share of pairs of outcome and truth that are rule-outs: published domains have .02 to .29."""
LEAST_STEPS = 1.0
"""Expected tests of perfect play on easy tasks; published domains have 1.1 to 3.2."""
MOST_TRUTHS, MOST_ACTIONS, MOST_OUTCOMES = 200, 120, 12
LONGEST_NAME = 80
_TASKS = 5
_BODY = ("truths", "actions", "notes")


async def configure(
    conversation: Conversation, proposal: Proposal, least_truths: int, least_actions: int, repairs: int
) -> tuple[Outcome, Tally]:
    """Ask for a domain and have it mended; the YAML of an accepted one stands in the outcome's ``result``."""
    body: dict[str, Any] = {}
    judged = 0

    def judge(text: str) -> Verdict:
        nonlocal body, judged
        judged += 1
        try:
            body = patched(body, read_body(text))
        except NotDataError as error:
            return Verdict(False, "unreadable", (str(error),))
        # Bounds first: what is set right without asking takes time that grows with the size.
        notes: list[str] = []
        found = list(_out_of_bounds(body))
        if not found:
            body, notes = repaired(body)
            found = problems(proposal, body, least_truths, least_actions)
        if found:
            shown = text if judged == 1 and not notes else to_yaml(body)
            return Verdict(False, "refused by the checks", tuple(found), shown=shown[:LONGEST_SHOWN], patch=True)
        return Verdict(True, "accepted", (*notes, *twins(body)), action="domain")

    tally = Tally()
    request = request_for(proposal, least_truths, least_actions)
    schema = schema_of(least_truths, least_actions)
    verdict = await ask_until_accepted(conversation, request, judge, tally, repairs, schema)
    result = to_yaml({**proposal.header, **body}) if verdict.accepted else ""
    extra = {"result": result, "complaints": [brief(each) for each in verdict.complaints[: prompts.MOST_COMPLAINTS]]}
    return Outcome(verdict.accepted, len(conversation.turns), extra=extra), tally


def read_body(text: str) -> dict[str, Any]:
    """Truths, actions and notes of a reply; what else it holds does not count.

    Raises:
        NotDataError: there are none.
    """
    data = read_data(text)
    if not isinstance(data, dict) or not any(key in data for key in _BODY):
        raise NotDataError("the reply must be a mapping with the keys truths and actions")
    return {key: data[key] for key in _BODY if key in data}


def patched(body: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A domain's body with entries added, replaced, and removed where the change is null."""
    new = dict(body)
    for key, change in changes.items():
        old = body.get(key)
        if isinstance(old, dict) and isinstance(change, dict):
            merged = {**old, **change}
            new[key] = {name: entry for name, entry in merged.items() if entry is not None}
        else:
            new[key] = change
    return new


def problems(proposal: Proposal, body: Mapping[str, Any], least_truths: int, least_actions: int) -> list[str]:
    """All that our checks have against a domain: bounds, the form of the file, its books, its tasks, its structure."""
    if found := list(_out_of_bounds(body)):
        return found
    try:
        domain = parse_domain({**proposal.header, **body}, proposal.name)
    except DomainError as error:
        prefix = f"domain {proposal.name!r}, "
        return [brief(each.removeprefix(prefix)) for each in error.problems]
    found = _too_small(domain, least_truths, least_actions) or [brief(each) for each in book_problems(domain)]
    return found or _bad_structure(domain)


def _names_out_of_bounds(key: str, names: Sequence[str], most: int) -> Iterator[str]:
    if len(names) > most:
        yield f"{key}: {len(names)} entries, where {most} are allowed"
    for name in names:
        if len(name) > LONGEST_NAME:
            yield f"{key}: the name {brief(name, 40)!r} is too long"


def _out_of_bounds(body: Mapping[str, Any]) -> list[str]:
    """What is wrong before anything of a domain is looked at closely, so that looking takes no time."""
    hidden = hidden_in(dict(body))
    if hidden:
        return [f"a text holds the hidden character {hidden}"]
    found: list[str] = []
    for key, most in (("truths", MOST_TRUTHS), ("actions", MOST_ACTIONS)):
        found += _names_out_of_bounds(key, _names_in(body.get(key)), most)
    actions = body.get("actions")
    if isinstance(actions, dict):
        for name, entry in actions.items():
            found += _outcomes_out_of_bounds(name, entry)
    return found


def _outcomes_out_of_bounds(name: Any, entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        return
    action = f"action {brief(str(name), 40)!r}"
    outcomes = _names_in(entry.get("outcomes"))
    if len(outcomes) > MOST_OUTCOMES:
        yield f"{action}: more than {MOST_OUTCOMES} outcomes"
    if any(len(outcome) > LONGEST_NAME for outcome in outcomes):
        yield f"{action}: an outcome is longer than {LONGEST_NAME} characters"


def _names_in(entries: Any) -> list[str]:
    """The keys of a mapping; what is none is complained of when it is read."""
    return [str(name) for name in entries] if isinstance(entries, dict) else []


def _too_small(domain: Domain, least_truths: int, least_actions: int) -> list[str]:
    found = []
    for what, have, least in (("truths", domain.truths, least_truths), ("actions", domain.actions, least_actions)):
        if len(have) < least:
            found.append(f"{what}: {len(have)} entries, where at least {least} are needed; add {least - len(have)}")
    kinds = {action.outcome for action in domain.actions}
    if kinds != {"str", "float"}:
        found.append("actions: some must show texts and some numbers (all outcomes ranges such as '0.5 to 12')")
    return found


def _bad_structure(domain: Domain) -> list[str]:
    try:
        measured = measure(domain, _TASKS)
    except GenerationError as error:
        return [f"no games can be made of it: {brief(str(error))}"]
    low, high = DENSITY
    if not low <= measured.density <= high:
        what = "more" if measured.density < low else "fewer"
        share = f"{measured.density:.1%}"
        return [
            f"an outcome rules out {share} of the truths on average, where {low:.0%} to {high:.0%} are wanted: list {what}"
        ]
    if measured.steps < LEAST_STEPS:
        return [
            f"its games take {measured.steps:.2f} tests on average, fewer than {LEAST_STEPS:g}: each outcome tells too much"
        ]
    return []


def to_yaml(data: Mapping[str, Any]) -> str:
    """As domain files are written: in the given order, texts as they are."""
    return str(yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120))


def request_for(proposal: Proposal, least_truths: int, least_actions: int) -> Chat:
    """What is asked first."""
    fields = {
        "title": proposal.title,
        "goal": proposal.goal,
        "truth": proposal.truth["singular"],
        "action": proposal.action["singular"],
        "truths": ", ".join(proposal.truths),
        "actions": ", ".join(proposal.actions),
    }
    return prompts.configure(fields, least_truths, least_actions)


_NAME = {"pattern": NAME_PATTERN}
_SENTENCE = {"type": "string", "pattern": SENTENCE_PATTERN}
_OUTCOMES = {
    "type": "object",
    "propertyNames": {"pattern": "^([a-z][a-z0-9 '-]{2,40}|[0-9]{1,4}(\\.[0-9])? to [0-9]{1,4}(\\.[0-9])?)$"},
    "additionalProperties": {"type": "array", "items": {"type": "string", **_NAME}, "maxItems": 12},
    "minProperties": 2,
    "maxProperties": 5,
}
_ACTION = {
    "type": "object",
    "properties": {
        "definition": _SENTENCE,
        "unit": {"type": "string", "pattern": "^[A-Za-z%/ ]{0,20}$"},
        "outcomes": _OUTCOMES,
    },
    "required": ["definition", "outcomes"],
    "additionalProperties": False,
}


def schema_of(least_truths: int, least_actions: int) -> str:
    """What constrained decoding holds a reply to; which truths an outcome names is left to the checks."""
    parts = (("truths", _SENTENCE, least_truths), ("actions", _ACTION, least_actions))
    properties = {
        key: {
            "type": "object",
            "propertyNames": _NAME,
            "additionalProperties": entry,
            "minProperties": least,
            "maxProperties": least + 10,
        }
        for key, entry, least in parts
    }
    return json.dumps(
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    )
