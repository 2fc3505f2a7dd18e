"""One episode of MultiStAR: a single question, or a whole chain with the sweep of changed earlier answers.

What is recorded per question is all that scoring needs: the log-probabilities of its options, and those it had with each
option of each parent in the place of the parent's answer. MSEval itself is computed from the ledger, in any convention.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from evals.conversation import Conversation
from evals.presentation import Presentation
from evals.suite import Column
from evals.suites.multistar.features import option_features
from evals.suites.multistar.mseval import complete
from evals.suites.multistar.prompts import BUILT_IN, DEFAULT, Order, Style, labels_of, prompt
from evals.suites.multistar.puzzles import Prior, planned_calls
from evals.suites.multistar.questions import Question
from evals.suites.multistar.read_answer import read_answer
from evals.suites.multistar.reformat import prior_sentence
from evals.suites.multistar.shortcuts import SHORTCUTS
from evals.suites.multistar.templates import Templates
from evals.types import Chat, Outcome, PlayerError, Reply

ReplyForm = Literal["labels", "text", "described"]

RECORD_VERSION = 3
"""Raised whenever the columns change: all parts of one ledger have the same. Part of every episode's fingerprint."""

SWEPT = pa.struct(
    {
        "parent": pa.string(),  # node of the parent whose answer was replaced
        "option": pa.int32(),  # index of the option put in its place
        "turn": pa.int32(),  # of the episode; options that make the same prompt share a turn
        "answer": pa.int32(),  # index of the answer to the question
        "logprobs": pa.list_(pa.float64()),  # per option of the question
        "exact": pa.bool_(),  # whether they are exact and complete
    }
)
NODE = pa.struct(
    {
        "node": pa.string(),
        "stage": pa.string(),
        "attribute": pa.string(),  # null for the final question
        "part": pa.string(),  # null where panels have one part
        "parents": pa.list_(pa.string()),  # nodes whose answers the prompt told; empty without prior information
        "options": pa.list_(pa.string()),
        "key": pa.int32(),  # index of the right option
        "counts": pa.bool_(),  # whether it counts in accuracy; a link of the chain does not
        "turn": pa.int32(),  # of the episode, counted from 0
        "answer": pa.int32(),  # index of the answer, null if none could be read
        "rule": pa.string(),  # how it was read
        "cut_off": pa.bool_(),  # whether the reply ended at the token limit or by a content filter
        "logprobs": pa.list_(pa.float64()),  # natural logs per option; null for written replies, nan where unknown
        "mass": pa.float64(),  # sum of the options' probabilities
        "argmax_is_label": pa.bool_(),
        "exact": pa.bool_(),  # whether the log-probabilities are exact and complete
        "sweep": pa.list_(SWEPT),
    }
)
COLUMNS: Mapping[str, Column] = {
    "nodes": Column(pa.list_(NODE), "One entry for each question: its answer, key, probabilities and weights."),
    "n_questions": Column(pa.int32(), "Questions that were asked."),
    "n_calls": Column(pa.int32(), "Requests that were made."),
    "n_planned_calls": Column(pa.int32(), "Requests that the plan expected."),
}


class NoLabelScores(PlayerError):  # noqa: N818 - a cause that is read by people
    """The player cannot score labels."""


@dataclass(frozen=True)
class AskSettings:
    """How questions are asked."""

    style: Style
    prior: Prior = "none"
    reply: ReplyForm = "labels"
    sweep: bool = False
    """Needs labels."""
    paper_literal: bool = False
    order: Order = "paper"
    presentation: Presentation = DEFAULT
    templates: Templates = BUILT_IN


@dataclass(frozen=True)
class Answer:
    """What came back to one prompt."""

    turn: int
    option: int | None
    rule: str
    logprobs: tuple[float, ...] | None = None
    mass: float | None = None
    argmax_is_label: bool | None = None
    exact: bool = False
    cut_off: bool = False


async def play_direct(question: Question, conversation: Conversation, settings: AskSettings) -> Outcome:
    """Ask one question that stands for itself."""
    asking = _Asking(conversation, settings)
    (answer,) = await asking.all([(question, ())])
    return Outcome(
        success=answer.option == question.key,
        steps=1,
        extra={"nodes": [_node(question, (), answer, [])], "n_questions": 1, "n_calls": 1, "n_planned_calls": 1},
    )


async def play_chain(questions: Sequence[Question], conversation: Conversation, settings: AskSettings) -> Outcome:
    """Ask a whole chain: each question once those before it are answered, then the sweep.

    Success is the right answer to the last question. A question whose own log-probabilities, or a parent's, are not exact
    can have no MSEval and is not swept.

    Args:
        questions: Parents first.
        conversation: With its player.
        settings: Style, prior information and whether to sweep.
    """
    # The chain: the questions of one level are asked at once, with what is told of their parents.
    asking = _Asking(conversation, settings)
    told: dict[str, int | None] = {}
    answers: dict[str, Answer] = {}
    nodes = {question.node: question for question in questions}
    for level in _levels(questions):
        prompts = [(question, _priors(question, nodes, told, settings)) for question in level]
        for question, answer in zip(level, await asking.all(prompts), strict=True):
            answers[question.node] = answer
            told[question.node] = question.key if settings.prior == "truth" else answer.option
    # The sweep (MSEval): each question again for each answer that each of its parents might have had.
    variants: list[tuple[Question, str, int]] = []
    for question in _swept(questions, answers, settings):
        for parent in question.parents:
            variants += [(question, parent, option) for option in range(len(nodes[parent].options))]
    prompts = []
    for question, parent, option in variants:
        prompts.append((question, _priors(question, nodes, {**told, parent: option}, settings)))
    outcomes = await asking.all(prompts)
    sweeps: dict[str, list[tuple[Any, ...]]] = {question.node: [] for question in questions}
    for (question, parent, option), answer in zip(variants, outcomes, strict=True):
        sweeps[question.node].append((parent, option, answer.turn, answer.option, answer.logprobs, answer.exact))
    entries = []
    for question in questions:
        parents = () if settings.prior == "none" else question.parents
        entries.append(_node(question, parents, answers[question.node], sweeps[question.node]))
    return Outcome(
        success=answers[questions[-1].node].option == questions[-1].key,
        steps=len(questions),
        extra={
            "nodes": entries,
            "n_questions": len(questions),
            "n_calls": asking.calls,
            "n_planned_calls": planned_calls(questions, settings.prior, settings.sweep, settings.paper_literal),
        },
    )


def _swept(questions: Sequence[Question], answers: Mapping[str, Answer], settings: AskSettings) -> list[Question]:
    """The questions that are asked again: those whose probabilities, and whose parents', are exact."""
    if not settings.sweep or settings.prior == "none":
        return []
    found = []
    for question in questions:
        if all(answers[name].exact for name in (*question.parents, question.node)):
            found.append(question)
    return found


class _Asking:
    """Asks prompts, many at once, each different prompt once."""

    def __init__(self, conversation: Conversation, settings: AskSettings) -> None:
        self.conversation = conversation
        self.settings = settings
        self._known: dict[Chat, Answer] = {}

    @property
    def calls(self) -> int:
        """Different prompts that were asked."""
        return len(self._known)

    async def all(self, wanted: Sequence[tuple[Question, Sequence[str]]]) -> list[Answer]:
        """The answers to some questions with their prior sentences, in order.

        Raises:
            PlayerError: one of them cannot be answered; the others are given up.
        """
        settings = self.settings
        how = (settings.style, settings.order, settings.presentation, settings.templates)
        chats = [prompt(question, sentences, *how) for question, sentences in wanted]
        new: dict[Chat, Question] = {}
        for chat, (question, _) in zip(chats, wanted, strict=True):
            if chat not in self._known:
                new[chat] = question
        tasks = [asyncio.ensure_future(self._ask(chat, question)) for chat, question in new.items()]
        try:
            answers = await asyncio.gather(*tasks)
            self._known.update(zip(new, answers, strict=True))
        finally:
            for task in tasks:
                task.cancel()
        return [self._known[chat] for chat in chats]

    async def _ask(self, chat: Chat, question: Question) -> Answer:
        labels, scoring = labels_of(question), self.settings.reply == "labels"
        oracle = functools.partial(labels.__getitem__, question.key)
        shortcuts = {name: functools.partial(choose, question) for name, choose in SHORTCUTS.items()}
        played = await self.conversation.ask(
            chat,
            labels=labels if scoring else (),
            options=() if scoring else labels,
            oracle=oracle,
            shortcuts=shortcuts,
            features=functools.partial(option_features, question, labels),
        )
        reply, turn = played.reply, played.turn.number
        if scoring:
            answer = _most_likely(reply, labels, turn)
        else:
            reading = read_answer(reply.text, labels, question.options, cut_off=reply.cut_off)
            answer = Answer(turn, reading.option, reading.rule, cut_off=reply.cut_off)
        played.action = None if answer.option is None else labels[answer.option]
        played.rule = answer.rule
        return answer


def _most_likely(reply: Reply, labels: Sequence[str], turn: int) -> Answer:
    """The most likely of the labels, which the engine has put in the place of the reply."""
    scores = reply.label_scores
    if scores is None:
        raise NoLabelScores("the engine gives no label scores; suite.reply=text asks for written answers")
    option = labels.index(reply.text) if reply.text in labels else None
    if option is None:
        rule = "no label scored"
    elif scores.argmax_is_label:
        rule = "argmax"
    else:
        rule = "best label"
    exact = scores.exact and complete(scores.logprobs)
    return Answer(turn, option, rule, scores.logprobs, scores.mass, scores.argmax_is_label, exact)


def _levels(questions: Sequence[Question]) -> list[list[Question]]:
    """Questions that can be asked at once, in the order in which they can be."""
    depths: dict[str, int] = {}
    levels: list[list[Question]] = []
    for question in questions:
        depth = max((depths[parent] + 1 for parent in question.parents), default=0)
        depths[question.node] = depth
        if depth == len(levels):
            levels.append([])
        levels[depth].append(question)
    return levels


def _priors(
    question: Question, nodes: Mapping[str, Question], told: Mapping[str, int | None], settings: AskSettings
) -> list[str]:
    """What the prompt says of the parents; a parent without a readable answer is not mentioned."""
    if settings.prior == "none":
        return []
    sentences = []
    for parent in question.parents:
        option = told[parent]
        if option is not None:
            sentences.append(prior_sentence(nodes[parent], option, question, settings.paper_literal))
    return sentences


def _node(question: Question, parents: Sequence[str], answer: Answer, sweep: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """One entry of ``nodes``, in the order of ``NODE``."""
    return (
        question.node,
        question.stage,
        question.attribute,
        question.part,
        parents,
        question.options,
        question.key,
        question.counts,
        answer.turn,
        answer.option,
        answer.rule,
        answer.cut_off,
        answer.logprobs,
        answer.mass,
        answer.argmax_is_label,
        answer.exact,
        sweep,
    )
