"""What a set of questions is made of: how many, how long, with how many choices, by which steps (Table 6, Figure 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evals.suites.multistar.answers import STAGES
from evals.suites.multistar.prompts import prompt
from evals.suites.multistar.puzzles import Subtask
from evals.suites.multistar.questions import Question
from evals.suites.multistar.reformat import prior_sentence
from evals.tables import Cell, Table

PUBLISHED: Final[Mapping[Subtask, tuple[str, str]]] = {"direct": ("8.1K", "21.7K"), "chain": ("0.56K", "3.92K")}
"""Pictures and questions of the authors' set (Table 6)."""
LONGEST_PUBLISHED: Final = 261.2
"""Tokens of the longest prompt of the authors' chain (appendix A.1)."""

_OF_ATTRIBUTE: Final = {
    "number": ("count",),
    "position": ("find a shape", "read a position"),
    "shape": ("find a position", "read a shape"),
}
_OF_PAIR: Final = {"number": ("count", "compare"), "position": ("read a position", "compare")}


@dataclass(frozen=True)
class Asked:
    """One question with the words of its prompt."""

    question: Question
    alone: int
    """Words of the prompt without earlier answers."""
    told: int
    """The same with the true answers of the questions before."""


def asked_of(questions: Sequence[Question]) -> Iterator[Asked]:
    """The questions on one puzzle with the lengths of their prompts."""
    nodes = {question.node: question for question in questions}
    for question in questions:
        parents = [nodes[name] for name in question.parents]
        priors = [prior_sentence(parent, parent.key, question) for parent in parents]
        yield Asked(question, _prompt_words(question, ()), _prompt_words(question, priors))


def data_set_tables(asked: Iterable[Asked], subtask: Subtask) -> list[Table]:
    """Size and lengths by stage, and the share of each step."""
    every = list(asked)
    pictures = {one.question.picture.key for one in every}
    images, questions = PUBLISHED[subtask]
    size = (
        f"{len(pictures):,} pictures, {len(every):,} questions (the authors' set, Table 6: {images} and {questions}).",
        "question: mean words of a question without its choices. prompt: of all that is sent. with priors: the same with the "
        "true answers of the questions before, of which the direct subtask tells none.",
        f"Words are separated by blanks. The longest prompt of the authors' chain has {LONGEST_PUBLISHED} tokens (A.1).",
    )
    asked_stages = {one.question.stage for one in every}
    lengths = Table(
        f"multistar_{subtask}_lengths",
        f"MultiStAR, {subtask}: questions, choices and words",
        (
            "stage",
            "questions",
            "choices",
            "question",
            "longest",
            "prompt",
            "longest prompt",
            "with priors",
            "longest with priors",
        ),
        tuple(_lengths(stage, every) for stage in STAGES if stage in asked_stages),
        size,
    )
    steps = Counter(step for one in every for step in steps_of(one.question))
    shares = tuple((step, count, count / steps.total()) for step, count in steps.most_common())
    return [
        lengths,
        Table(
            f"multistar_{subtask}_steps", f"MultiStAR, {subtask}: steps (Figure 8b)", ("step", "uses", "share"), shares
        ),
    ]


def steps_of(question: Question) -> tuple[str, ...]:
    """What has to be done to answer a question, in order."""
    match question.stage:
        case "final":
            return "read all panels", "find the rules", "choose a panel"
        case "1R":
            return "read a row", "find a rule"
        case "2R":
            return "read a row", "read a row", "find a rule"
        case "2P":
            attribute = question.attribute or ""
            return "read a panel", "read a panel", *_OF_PAIR.get(attribute, (f"read a {attribute}", "compare"))
        case _:
            return "read a panel", *_of_one_panel(question)


def _of_one_panel(question: Question) -> tuple[str, ...]:
    """The steps after its panel has been read; direct questions that compare tell so by their names only."""
    attribute, kind = question.attribute or "", question.node
    if kind == "1P-C/compare_position":
        return "find a shape", "find a shape", "relate positions"
    if "1P-C/compare" in kind:
        return "find a position", "find a position", f"read a {attribute}", "compare"
    if "1P-C/same" in kind or attribute in ("size", "color"):
        return f"read a {attribute}", "all alike"
    return _OF_ATTRIBUTE[attribute]


def _lengths(stage: str, every: Sequence[Asked]) -> tuple[Cell, ...]:
    here = [one for one in every if one.question.stage == stage]
    words = [len(one.question.text.split()) for one in here]
    choices = [len(one.question.options) for one in here]
    alone, told = [one.alone for one in here], [one.told for one in here]
    longest = [max(words), *(each for lengths in (alone, told) for each in (_mean(lengths), max(lengths)))]
    return stage, len(here), _mean(choices), _mean(words), *longest


def _mean(values: Sequence[int]) -> float:
    return round(sum(values) / len(values), 1)


def _prompt_words(question: Question, priors: Sequence[str]) -> int:
    parts = [part for message in prompt(question, priors, "vanilla") for part in message.parts]
    return sum(len(part.split()) for part in parts if isinstance(part, str))
