"""Imported questions as a folder: one JSON line each, and their pictures by hash."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

from envs.disk import whole_file
from envs.file_picture import FilePicture
from envs.files import is_unicode, read_bytes, read_json_lines
from envs.raven import configuration_named
from evals.suites.multistar.questions import QUESTION_ATTRIBUTES, Part, Question, QuestionAttribute, Stage
from evals.suites.multistar.questions.graph import chain_nodes
from evals.suites.multistar.questions.words import SETTINGS

INDEX: Final = "questions.jsonl"
PICTURES: Final = "pictures"


@dataclass(frozen=True)
class Stored:
    """One imported question."""

    subtask: str
    """``direct`` or ``chain``."""
    configuration: str
    puzzle: int
    """Counted from 0 within subtask and configuration."""
    number: int
    """Counted from 0 within the puzzle."""
    node: str
    stage: Stage
    attribute: QuestionAttribute | None
    part: Part | None
    text: str
    options: tuple[str, ...]
    key: int
    picture: str
    """Hash of its file in ``pictures``."""
    size: tuple[int, int]
    """Width and height of the picture."""
    doubts: tuple[str, ...]
    """Why the key is wrong, or not the only right one."""
    file: str
    """Where in the checkout it stands."""
    subject: str = ""
    said: tuple[str, ...] = ()
    """The options as later questions of a chain are told them."""

    def __post_init__(self) -> None:
        """See that it can be written.

        Raises:
            ValueError: a text holds half a character.
        """
        for text in (self.node, self.text, *self.options, self.file, self.subject, *self.said):
            if not is_unicode(text):
                raise ValueError(f"{text[:40]!r} holds half a character")

    def of_puzzle(self, puzzle: int) -> Stored:
        """The same question under another puzzle number."""
        return dataclasses.replace(self, puzzle=puzzle)


Puzzles = Mapping[tuple[str, str], Sequence[Sequence[Stored]]]
"""The questions of each puzzle, by subtask and configuration."""


def write_questions(folder: Path, questions: Iterable[Stored]) -> None:
    """Write the index."""
    lines = [json.dumps(asdict(question), sort_keys=True, ensure_ascii=False) + "\n" for question in questions]
    with whole_file(folder / INDEX) as beside:
        beside.write_text("".join(lines), encoding="utf-8")


def holds_questions(folder: Path) -> bool:
    """Whether a folder's index begins with an imported question."""
    try:
        _, fields = next(read_json_lines(folder / INDEX))
        _stored(fields)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return False
    return True


@functools.lru_cache(maxsize=4)
def read_questions(folder: str) -> Puzzles:
    """The questions of a folder.

    Raises:
        ValueError: it holds none, or a line is none.
    """
    index = Path(folder) / INDEX
    if not index.exists():
        raise ValueError(f"{folder} holds no imported questions; make them with `raycade multistar import`")
    puzzles: dict[tuple[str, str], dict[int, list[Stored]]] = {}
    for number, fields in read_json_lines(index):
        try:
            question = _stored(fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{index}, line {number}: no imported question ({error!r})") from error
        of_kind = puzzles.setdefault((question.subtask, question.configuration), {})
        of_kind.setdefault(question.puzzle, []).append(question)
    in_order: dict[tuple[str, str], list[list[Stored]]] = {}
    for kind, by_number in puzzles.items():
        in_order[kind] = [by_number[number] for number in sorted(by_number)]
    return in_order


def _stored(fields: dict[str, Any]) -> Stored:
    """One line of the file, checked: it may have been edited by hand.

    Raises:
        ValueError: a field has not its form.
        TypeError: a field is missing or unknown.
    """
    values = dict(fields)
    for name, value in fields.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    question = Stored(**values)
    configuration_named(question.configuration)
    if not _has_form(question):
        raise ValueError("a field has not its form")
    is_option = type(question.key) is int and 0 <= question.key < len(question.options)
    if not is_option:
        raise ValueError("the key is none of the options")
    return question


def _has_form(question: Stored) -> bool:
    if question.stage not in get_args(Stage):
        return False
    if question.attribute not in (*QUESTION_ATTRIBUTES, None):
        return False
    texts = (question.subtask, question.node, question.text, question.picture, *question.options, *question.doubts)
    if not all(isinstance(text, str) for text in texts):
        return False
    if not all(type(number) is int for number in (question.puzzle, question.number, *question.size)):
        return False
    # The picture's hash names a file: nothing in it may lead elsewhere.
    return question.picture.isalnum()


@functools.lru_cache(maxsize=4)
def folder_digest(folder: str) -> str:
    """Hash of a folder's questions, which hold the hashes of their pictures."""
    return hashlib.blake2b(read_bytes(Path(folder) / INDEX), digest_size=16).hexdigest()


@functools.lru_cache(maxsize=256)
def published_puzzle(
    folder: str, subtask: str, configuration: str, number: int, doubtful: bool
) -> tuple[Question, ...]:
    """All questions of one imported puzzle.

    Args:
        folder: As ``raycade multistar import`` wrote it.
        subtask: ``direct`` or ``chain``.
        configuration: Folder name.
        number: Of the puzzle.
        doubtful: Whether questions whose keys are doubtful count.
    """
    puzzles, rates = read_questions(folder), _rates(folder)
    stored = puzzles[subtask, configuration][number]
    form = configuration_named(configuration)
    parents = {node.name: node.parents for node in chain_nodes(form)} if subtask == "chain" else {}
    names = {question.node for question in stored}
    return tuple(
        Question(
            node=one.node,
            stage=one.stage,
            attribute=one.attribute,
            part=one.part,
            picture=FilePicture(str(Path(folder) / PICTURES / f"{one.picture}.png"), one.picture, *one.size),
            setting=SETTINGS[form.structure] if one.stage != "final" else "",
            text=one.text,
            options=one.options,
            key=one.key,
            parents=tuple(parent for parent in parents.get(one.node, ()) if parent in names),
            subject=one.subject,
            counts=doubtful or not one.doubts,
            rates=tuple(rates[_kind(one)][option] for option in one.options),
            said=one.said,
        )
        for one in stored
    )


@functools.lru_cache(maxsize=4)
def _rates(folder: str) -> Mapping[tuple[object, ...], Mapping[str, float]]:
    """How often each option is the key where it is offered in questions of one kind."""
    offered: dict[tuple[object, ...], Counter[str]] = {}
    right: dict[tuple[object, ...], Counter[str]] = {}
    for puzzles in read_questions(folder).values():
        for question in itertools.chain.from_iterable(puzzles):
            kind = _kind(question)
            offered.setdefault(kind, Counter()).update(question.options)
            right.setdefault(kind, Counter())[question.options[question.key]] += 1
    rates: dict[tuple[object, ...], Mapping[str, float]] = {}
    for kind, options in offered.items():
        rates[kind] = {option: right[kind][option] / count for option, count in options.items()}
    return rates


def _kind(one: Stored) -> tuple[object, ...]:
    return one.subtask, one.configuration, one.stage, one.attribute, one.part
