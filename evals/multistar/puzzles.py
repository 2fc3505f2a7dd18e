"""Which RAVEN problems are asked about, generated or imported, and the questions on each, made once per process."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from envs.raven import Generated, Imported, RavenFileError, Style, configuration_named, load, read
from evals.contracts import Episode, PlayerError, stable_seed
from evals.multistar.questions import Question, chain_questions, direct_nodes, direct_questions
from evals.multistar.reformat import prior_sentence

Subtask = Literal["chain", "direct"]
Prior = Literal["none", "model", "truth"]

CHAIN = "chain"
"""Level of the chain's episodes; those of the direct subtask have the question's stage."""

QUESTION_SEED = 0
"""The puzzle has a seed of its own; other wordings and options for the same puzzle would take another number here."""


QUESTIONS_PER_PUZZLE = 100
"""More than there are; the index of a direct question is its puzzle's times this, plus the number of its template."""

UNREADABLE = "unreadable"
"""Level of a direct episode whose puzzle could not be read when it was planned: nobody knows what it would have asked."""

_STAND_INS = 32
"""Generated problems of a configuration among which every template that it can bear occurs."""


class PuzzleUnreadable(PlayerError):  # noqa: N818 - a cause that is read by people
    """An imported problem is missing or damaged: its episodes fail, the others are played."""


def puzzle_of(episode: Episode) -> int:
    """Index of the puzzle that an episode asks about."""
    return episode.index if episode.level == CHAIN else episode.index // QUESTIONS_PER_PUZZLE


def asked_by(episode: Episode, questions: Sequence[Question]) -> list[Question]:
    """Those of a puzzle's questions that an episode asks: all of them (chain), or the one of its template, if there is one."""
    if episode.level == CHAIN:
        return [*questions]
    node = direct_nodes(configuration_named(episode.task))[episode.index % QUESTIONS_PER_PUZZLE]
    return [question for question in questions if question.node == node]


def puzzle_seed(configuration: str, index: int) -> int:
    """The seed of a generated problem; the direct set and the chain ask about the same ones."""
    return stable_seed("multistar", configuration, index)


@functools.lru_cache(maxsize=4096)
def questions_of(
    source: Generated | Imported | Path, subtask: Subtask, attributes: tuple[str, ...]
) -> tuple[Question, ...]:
    """All questions on one problem, in a fixed order; in the chain, parents come first.

    Args:
        source: A generated problem, or the npz of an imported one.
        subtask: ``direct`` or ``chain``.
        attributes: The others are left out, as questions and as parents. The final question stays.

    Raises:
        PuzzleUnreadable: an imported file is missing or damaged.
    """
    try:
        problem = read(source).problem if isinstance(source, Path) else load(source)
    except (RavenFileError, OSError) as error:
        raise PuzzleUnreadable(str(error)) from error
    make = direct_questions if subtask == "direct" else chain_questions
    asked = make(problem, QUESTION_SEED)
    kept = [question for question in asked if question.attribute is None or question.attribute in attributes]
    names = {question.node for question in kept}
    return tuple(
        dataclasses.replace(question, parents=tuple(parent for parent in question.parents if parent in names))
        for question in kept
    )


@functools.lru_cache(maxsize=64)
def stand_ins(configuration: str, subtask: Subtask, attributes: tuple[str, ...]) -> tuple[Question, ...]:
    """A question of every kind that problems of a configuration are asked, on generated problems.

    Nodes, stages, attributes, parts and numbers of options do not depend on the problem, so that they tell what an episode
    would have asked whose puzzle is not at hand.
    """
    found: dict[str, Question] = {}
    for index in range(1 if subtask == "chain" else _STAND_INS):
        for question in questions_of(generated(configuration, index, "iraven"), subtask, attributes):
            found.setdefault(question.node, question)
    return tuple(found.values())


def generated(configuration: str, index: int, answer_sets: Style) -> Generated:
    """The problem of an index."""
    return Generated(configuration, puzzle_seed(configuration, index), answer_sets)


@functools.lru_cache(maxsize=64)
def imported(folder: str, configuration: str, most: int) -> tuple[Path, ...]:
    """The first files of a configuration, in the order of their numbers.

    Args:
        folder: With one folder per configuration, as the official set comes, or with all files side by side.
        configuration: Folder name of the configuration.
        most: How many are wanted.

    Raises:
        ValueError: there is no such folder, or a file whose configuration has to be looked up cannot be read.
    """
    home = Path(folder)
    if not home.is_dir():
        raise ValueError(f"suite.problems={folder}: no such folder")
    if (home / configuration).is_dir():
        return tuple(sorted((home / configuration).glob("*.npz"), key=_by_number)[:most])
    return tuple(path for path, name in _configurations(home) if name == configuration)[:most]


@functools.lru_cache(maxsize=4)
def _configurations(home: Path) -> tuple[tuple[Path, str], ...]:
    return tuple((path, read(path).problem.configuration.name) for path in sorted(home.glob("*.npz"), key=_by_number))


def _by_number(path: Path) -> tuple[object, ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name))


def planned_calls(questions: Sequence[Question], prior: Prior, sweep: bool, paper_literal: bool) -> int:
    """Model calls of one chain: every question once, and once more for every sentence that the sweep puts in.

    The sentence of the parent's actual answer makes the prompt that was asked already; options whose sentences are the
    same make the same prompt.
    """
    if prior == "none" or not sweep:
        return len(questions)
    nodes = {question.node: question for question in questions}
    swept = 0
    for question in questions:
        for parent in (nodes[name] for name in question.parents):
            swept += len(sentences_of(parent, question, paper_literal)) - 1
    return len(questions) + swept


def sentences_of(parent: Question, question: Question, paper_literal: bool) -> frozenset[str]:
    """The different sentences that a parent's options are made into."""
    options = range(len(parent.options))
    return frozenset(prior_sentence(parent, option, question, paper_literal) for option in options)
