"""Which RAVEN problems are asked about, generated or imported, and the questions on each, made once per process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envs.file_picture import FilePicture
from envs.files import FileError, shown_files
from envs.raven import (
    Difficulty,
    Generated,
    Imported,
    Problem,
    Render,
    Style,
    configuration_named,
    enlarged,
    load,
    read,
)
from envs.raven.files import content_digest
from envs.raven.listing import configuration_of, read_index
from evals.presentation import OptionOrder, shuffled
from evals.sealed import seed_parts
from evals.suites.multistar.published_questions.store import published_puzzle
from evals.suites.multistar.questions import Drawing, Question, chain_questions, direct_nodes, direct_questions
from evals.suites.multistar.reformat import prior_sentence
from evals.types import Episode, PlayerError, stable_seed

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

UNKNOWN = "unknown"
"""In place of a configuration, where a file's own cannot be read: such files are played, and fail with their cause."""


@dataclass(frozen=True)
class PublishedPuzzle:
    """A puzzle of the authors' questions, in a folder that ``raycade multistar import`` wrote."""

    folder: str
    digest: str
    """Of the folder's questions."""
    subtask: Subtask
    configuration: str
    number: int
    doubtful: bool
    """Whether questions whose keys are doubtful count."""


Source = Generated | Imported | Path | PublishedPuzzle
"""A problem to generate, one that an index lists with its digest, a file in a folder, or imported questions."""

_STAND_INS = 32
"""Generated problems of a configuration among which every template that it can bear occurs."""


class PuzzleUnreadable(PlayerError):  # noqa: N818 - a cause that is read by people
    """An imported problem is missing or damaged: its episodes fail, the others are played."""

    kind = "suite"


def puzzle_of(episode: Episode) -> int:
    """Index of the puzzle that an episode asks about."""
    return episode.index if episode.level == CHAIN else episode.index // QUESTIONS_PER_PUZZLE


def asked_by(episode: Episode, questions: Sequence[Question]) -> list[Question]:
    """Those of a puzzle's questions that an episode asks: all of them (chain), or the one of its template, if there is one."""
    if episode.level == CHAIN:
        return [*questions]
    place = episode.index % QUESTIONS_PER_PUZZLE
    published = [question for question in questions if isinstance(question.picture, FilePicture)]
    if published:  # named after their place in the file; a question that was left out leaves a gap
        return [question for question in published if question.node.endswith(f"/{place}")]
    node = direct_nodes(configuration_named(episode.task))[place]
    return [question for question in questions if question.node == node]


def puzzle_seed(configuration: str, index: int, seeds: str = "") -> int:
    """The seed of a generated problem; the direct set and the chain ask about the same ones."""
    return stable_seed("multistar", configuration, index, *seed_parts(seeds))


def problem_of(source: Generated | Imported | Path, configuration: str) -> Problem:
    """The problem of a source, which must be of the configuration that it stands for.

    Raises:
        PuzzleUnreadable: an imported file is missing, damaged, not what an index says, or of another configuration.
    """
    try:
        problem = read(source).problem if isinstance(source, Path) else load(source)
    except (FileError, OSError) as error:
        raise PuzzleUnreadable(str(error)) from error
    found = problem.configuration.name
    if found != configuration:
        path = source.path if isinstance(source, Imported) else source
        raise PuzzleUnreadable(f"{path}: a problem of configuration {found}, where {configuration} was looked for")
    return problem


@functools.lru_cache(maxsize=4096)
def fingerprint(source: Source) -> str:
    """What tells a source and its content from others; files that cannot be read go by their path."""
    if isinstance(source, Path):
        with contextlib.suppress(FileError):
            return str(Imported(str(source), content_digest(source)))
    return str(source)


@dataclass(frozen=True)
class Selection:
    """Which questions are asked on the problems of a configuration."""

    configuration: str
    """Folder name."""
    subtask: Subtask
    attributes: tuple[str, ...]
    """The others are left out, as questions and as parents. The final question stays."""
    options: Drawing = "balanced"
    scale: int = 1
    option_order: OptionOrder = "listed"
    only_final: bool = False
    """Whether the final question alone counts: of other ones nobody has counted how often each answer is true."""


@functools.lru_cache(maxsize=4096)
def questions_of(source: Source, selection: Selection) -> tuple[Question, ...]:
    """All selected questions on one problem, in a fixed order; in the chain, parents come first.

    Raises:
        PuzzleUnreadable: as ``problem_of``.
    """
    if isinstance(source, PublishedPuzzle):
        asked = published_puzzle(source.folder, source.subtask, source.configuration, source.number, source.doubtful)
        return _selected(asked, selection)
    problem = problem_of(source, selection.configuration)
    make = direct_questions if selection.subtask == "direct" else chain_questions
    asked = make(problem, QUESTION_SEED, selection.options)
    return tuple(
        dataclasses.replace(question, picture=enlarged(question.picture, selection.scale))  # type: ignore[arg-type]
        for question in _selected(asked, selection)
    )


def _selected(asked: Sequence[Question], selection: Selection) -> tuple[Question, ...]:
    """The questions on the selected attributes, with those of their parents that are among them."""
    attributes = (None, *selection.attributes)
    kept = [question for question in asked if question.attribute in attributes]
    if selection.only_final:
        kept = _only_final(kept, selection.subtask)
    if selection.option_order == "shuffled":
        kept = [_with_options_shuffled(question) for question in kept]
    names = {question.node for question in kept}
    return tuple(_with_parents_among(names, question) for question in kept)


def _only_final(asked: Sequence[Question], subtask: str) -> list[Question]:
    """Only the final question counts; a chain asks the others all the same, since it builds on their answers."""
    marked = [dataclasses.replace(question, counts=question.counts and question.stage == "final") for question in asked]
    if subtask == "chain":
        return marked
    return [question for question in marked if question.counts]


def _with_parents_among(names: Collection[str], question: Question) -> Question:
    parents = tuple(parent for parent in question.parents if parent in names)
    return dataclasses.replace(question, parents=parents)


def _with_options_shuffled(question: Question) -> Question:
    """The question with its options in another order; numbered panels stand in the picture and stay as they are."""
    if question.stage == "final":
        return question
    order = shuffled(range(len(question.options)), question.picture.key, question.node, question.options)
    # Other words for options, and their rates, are there or not for all options.
    said = question.said
    if said:
        said = tuple(said[place] for place in order)
    rates = question.rates
    if rates:
        rates = tuple(rates[place] for place in order)
    return dataclasses.replace(
        question,
        options=tuple(question.options[place] for place in order),
        key=order.index(question.key),
        said=said,
        rates=rates,
    )


@functools.lru_cache(maxsize=64)
def stand_ins(selection: Selection) -> tuple[Question, ...]:
    """A question of every kind that problems of a configuration are asked, on generated problems.

    Nodes, stages, attributes, parts and numbers of options do not depend on the problem, so that they tell what an episode
    would have asked whose puzzle is missing. In the chain a kind counts if it does on any of these problems.
    """
    found: dict[str, Question] = {}
    for index in range(_STAND_INS):
        for question in questions_of(generated(selection.configuration, index, "iraven"), selection):
            if question.node not in found or (question.counts and not found[question.node].counts):
                found[question.node] = question
    return tuple(found.values())


def generated(
    configuration: str,
    index: int,
    answer_sets: Style,
    seeds: str = "",
    render: Render = "own",
    difficulty: Difficulty | None = None,
) -> Generated:
    """The problem of an index, drawn from open ``seeds`` or from those of a secret."""
    return Generated(configuration, puzzle_seed(configuration, index, seeds), answer_sets, render, difficulty)


@functools.lru_cache(maxsize=64)
def imported(problems: str, configuration: str, most: int) -> tuple[Imported | Path, ...]:
    """The first problems of a configuration, in the order of their numbers, or of an index.

    Args:
        problems: A folder with one folder per configuration, as the official set comes, or with all files side by side; or
            an index that ``raycade raven import`` wrote.
        configuration: Folder name of the configuration, or ``UNKNOWN``.
        most: How many are wanted.

    Raises:
        ValueError: there is no such folder or index, or a file is no index.
    """
    home = Path(problems)
    folder = home / configuration
    if home.is_dir() and folder.is_dir():
        files = sorted(shown_files(folder, "*.npz"), key=_by_number)
        return tuple(files[:most])
    # All files side by side, or an index.
    if not home.exists():
        raise ValueError(f"suite.problems={problems}: no such folder, and no such index")
    try:
        listed = _files(home) if home.is_dir() else _index(home)
    except FileError as error:
        raise ValueError(f"suite.problems: {error}") from error
    found = [source for name, source in listed if name == configuration]
    return tuple(found[:most])


@functools.lru_cache(maxsize=4)
def _index(path: Path) -> tuple[tuple[str, Imported], ...]:
    return tuple((listed.configuration, listed.source) for listed in read_index(path))


@functools.lru_cache(maxsize=4)
def _files(home: Path) -> tuple[tuple[str, Path], ...]:
    return tuple((_configuration(path), path) for path in sorted(shown_files(home, "*.npz"), key=_by_number))


def _configuration(npz: Path) -> str:
    try:
        return configuration_of(npz)
    except (FileError, OSError):
        return UNKNOWN


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
