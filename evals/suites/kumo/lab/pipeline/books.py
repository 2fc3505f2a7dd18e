"""Stages ``write``, ``check`` and ``revise``: the knowledge book of one task, in the words of a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from envs.kumo import Domain, Task
from envs.kumo.book_reader import Table
from evals.conversation import Conversation
from evals.suites.kumo.lab.pipeline import book_prompts, prompts
from evals.suites.kumo.lab.pipeline.dialogue import LONGEST_SHOWN, Tally, Verdict, ask_until_accepted, ask_whole
from evals.suites.kumo.lab.pipeline.model_text import NotDataError, brief, read_data
from evals.suites.kumo.lab.pipeline.reading import (
    LONGEST_BOOK,
    ReadBack,
    book_in,
    compare,
    decide,
    lint_book,
    parse,
    table_from,
)
from evals.types import Chat, Outcome

_MOST_FAULTS = 10


@dataclass(frozen=True)
class Draft:
    """A task, the book there is of it, and what is wrong with that."""

    domain: Domain
    task: Task
    book: str = ""
    complaints: tuple[str, ...] = ()


async def write_book(conversation: Conversation, draft: Draft) -> tuple[Outcome, Tally]:
    """Ask for the book; the text stands in the outcome's ``result``."""
    return await _write(conversation, book_prompts.write(draft.task, draft.domain))


async def revise_book(conversation: Conversation, draft: Draft) -> tuple[Outcome, Tally]:
    """Ask for the book anew, without the faults of the one there is."""
    shown = draft.book[:LONGEST_BOOK]
    return await _write(conversation, book_prompts.revise(draft.task, draft.domain, shown, draft.complaints))


async def _write(conversation: Conversation, chat: Chat) -> tuple[Outcome, Tally]:
    tally = Tally()
    whole, turns = await ask_whole(conversation, chat, tally)
    book = "" if whole.problem else book_in(whole.text)
    turns[-1].rule, turns[-1].action = whole.problem or "written", "book" if book else None
    complaints = [prompts.PROBLEMS[whole.problem]] if whole.problem else []
    return Outcome(bool(book), len(conversation.turns), extra={"result": book, "complaints": complaints}), tally


async def check_book(conversation: Conversation, draft: Draft, repairs: int) -> tuple[Outcome, Tally]:
    """Read the book back twice and decide; of a book that is refused, ask for its faults.

    A book that was not written whole is refused unread.
    """
    if not draft.book:
        missing = {"complaints": ["missing: there is no whole book"], "result": "", "accepted_by": ""}
        return Outcome(False, 0, extra={**missing, "parser": "unreadable", "model": "unreadable"}), Tally()
    tally = Tally()
    parser = parse(draft.book, draft.task, draft.domain)
    lint = lint_book(draft.book, draft.task)
    model = ReadBack("unreadable", ("the book is too long",))
    if len(draft.book) <= LONGEST_BOOK:
        model = await _extract(conversation, draft, repairs, tally)
    decision = decide(lint, parser, model)
    complaints = list(decision.complaints)
    if not decision.accepted_by and len(draft.book) <= LONGEST_BOOK:
        complaints += await _faults(conversation, draft, tally)
    extra = {
        "result": draft.book if decision.accepted_by else "",
        "accepted_by": decision.accepted_by,
        "parser": parser.state,
        "model": model.state,
        "complaints": [brief(each) for each in complaints[: prompts.MOST_COMPLAINTS]],
    }
    return Outcome(bool(decision.accepted_by), len(conversation.turns), extra=extra), tally


async def _extract(conversation: Conversation, draft: Draft, repairs: int, tally: Tally) -> ReadBack:
    """The rule-outs that the model reads from the book."""
    table: Table = {}

    def judge(text: str) -> Verdict:
        nonlocal table
        try:
            table, wrong = table_from(read_data(text), draft.task)
        except NotDataError as error:
            wrong = [str(error)]
        if wrong:
            return Verdict(False, "unreadable", tuple(wrong), shown=text[:LONGEST_SHOWN])
        found = len(list(compare(table, draft.task)))
        return Verdict(True, "table differs" if found else "table equal", action="table")

    request = book_prompts.extract(draft.task, draft.domain, draft.book)
    schema = book_prompts.extraction_schema(draft.task)
    verdict = await ask_until_accepted(conversation, request, judge, tally, repairs, schema)
    if not verdict.accepted:
        return ReadBack(
            "unreadable", tuple(f"unclear: a reader's reply was of no use: {c}" for c in verdict.complaints)
        )
    differences = tuple(compare(table, draft.task))
    return ReadBack("differs" if differences else "equal", differences)


async def _faults(conversation: Conversation, draft: Draft, tally: Tally) -> Sequence[str]:
    """What the model finds wrong with the book; nothing if its reply cannot be read."""
    request = book_prompts.find_faults(draft.task, draft.domain, draft.book)
    whole, turns = await ask_whole(conversation, request, tally, book_prompts.faults_schema())
    faults = _faults_in(whole.text) if not whole.problem else []
    turns[-1].rule, turns[-1].action = whole.problem or "read", json.dumps(faults, ensure_ascii=False)
    return faults


def _faults_in(text: str) -> list[str]:
    try:
        data = read_data(text)
    except NotDataError:
        return []
    if not isinstance(data, list):
        return []
    entries = [entry for entry in data if isinstance(entry, dict)]
    found = []
    for entry in entries[:_MOST_FAULTS]:
        kind = entry.get("kind")
        if isinstance(kind, str) and kind in book_prompts.FAULTS:
            what = brief(str(entry.get("what", "")), 200)
            found.append(f"{kind}: {what}")
    return found
