"""Asking a model for one whole text: a truncated reply is continued, an unsound one is sent back with its faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from evals.conversation import Conversation, PlayedTurn
from evals.suites.kumo.lab.pipeline import prompts
from evals.suites.kumo.lab.pipeline.model_text import MOST_CHARACTERS
from evals.types import Chat, message

CONTINUATIONS = 3
"""Times that a reply which ended by the token limit is continued (paper, section Methods: three)."""
LONGEST_SHOWN = 60_000
"""Characters of a reply that are shown to the model again."""
_SHORTEST_OVERLAP, _LONGEST_OVERLAP = 12, 2_000
_TAIL, _LONGEST_PERIOD = 900, 300
"""Characters at the end of a cut reply that repeat themselves, if it ran into a loop."""


@dataclass
class Tally:
    """What an episode has asked so far."""

    continuations: int = 0
    repairs: int = 0


@dataclass(frozen=True)
class Whole:
    """A text as far as the model gave it."""

    text: str
    problem: str = ""
    """Why it is no whole text: ``cut off``, ``empty``, ``loops``, ``too long`` or ``refused``; empty if it is one."""


@dataclass(frozen=True)
class Verdict:
    """What a reply is worth."""

    accepted: bool
    rule: str
    """In a word or two, for the ledger."""
    complaints: tuple[str, ...] = ()
    """What is wrong with it, for the model."""
    action: str | None = None
    """What was read, in short, for the ledger."""
    shown: str = ""
    """What the model is shown of its reply when it is asked to repair it."""
    patch: bool = False
    """Whether only changes are asked for."""


Judge = Callable[[str], Verdict]
"""Judges a whole text; runs in a thread, as checks may take a while."""


async def ask_until_accepted(
    conversation: Conversation, request: Chat, judge: Judge, tally: Tally, repairs: int, schema: str = ""
) -> Verdict:
    """Ask, and have the reply repaired until it is accepted.

    Args:
        conversation: In which every attempt is recorded, with the rule that judged it.
        request: What is asked.
        judge: Accepts a reply or says what is wrong.
        tally: Counts continuations and repairs.
        repairs: Times that the reply may be repaired. A model that says the same again is not asked once more.
        schema: See ``ask_whole``.

    Returns:
        The verdict on the last reply.
    """
    chat, said = request, ""
    for attempt in range(repairs + 1):
        whole, turns = await ask_whole(conversation, chat, tally, schema)
        if whole.problem:
            verdict = Verdict(False, whole.problem, (prompts.PROBLEMS.get(whole.problem, ""),))
        else:
            verdict = await asyncio.to_thread(judge, whole.text)
        again = attempt > 0 and whole.text == said
        turns[-1].rule = "repeats its last reply" if again else verdict.rule
        turns[-1].action = verdict.action
        is_last = again or attempt == repairs
        if verdict.accepted or is_last:
            break
        said = whole.text
        tally.repairs += 1
        chat = prompts.repair(request, verdict.shown, verdict.complaints, verdict.patch)
    return verdict


async def ask_whole(
    conversation: Conversation, chat: Chat, tally: Tally, schema: str = ""
) -> tuple[Whole, list[PlayedTurn]]:
    """Ask, and go on from where the token limit ended the reply, three times at most.

    Args:
        conversation: In which every attempt is recorded.
        chat: What is asked.
        tally: Counts continuations.
        schema: A JSON schema for constrained decoding. Continuations are free: they begin in the middle of it.

    Returns:
        The text, and the turns that it took; set their ``action`` and ``rule`` once it is judged.
    """
    text, turns = "", list[PlayedTurn]()
    for number in range(CONTINUATIONS + 1):
        played = await conversation.ask(chat, schema="" if number else schema)
        turns.append(played)
        reply = played.reply
        text = joined(text, reply.text)
        problem = _problem(text, reply.finish)
        if problem != "cut off" or not reply.text.strip():
            return Whole(text, problem), turns
        if number < CONTINUATIONS:
            played.rule = "cut off: continued"
            tally.continuations += 1
            chat = (*chat, message("assistant", reply.text), message("user", prompts.CONTINUE))
    return Whole(text, "cut off"), turns


def _problem(text: str, finish: str) -> str:
    if len(text) > MOST_CHARACTERS:
        return "too long"
    if finish in ("content_filter", "refusal"):
        return "refused"
    if finish == "length":
        return "loops" if loops(text) else "cut off"
    return "" if text.strip() else "empty"


def loops(text: str) -> bool:
    """Whether a cut reply says the same again and again, so that going on would be no use."""
    tail = text[-_TAIL:]
    return len(tail) == _TAIL and any(tail[period:] == tail[:-period] for period in range(1, _LONGEST_PERIOD + 1))


def joined(text: str, more: str) -> str:
    """A text and its continuation, without what the model repeats of the end or opens again (a fence)."""
    if not text:
        return more
    lines = more.split("\n", 1)
    if lines[0].startswith("```") and len(lines) == 2 and "```" in text:
        more = lines[1]
    for size in range(min(_LONGEST_OVERLAP, len(text), len(more)), _SHORTEST_OVERLAP - 1, -1):
        if text.endswith(more[:size]):
            return text + more[size:]
    return text + more
