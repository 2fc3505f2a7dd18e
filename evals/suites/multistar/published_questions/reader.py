"""Reads a checkout of MultiStAR: the direct questions (``question.json``), the logical chains, and their pictures.

A file, question or picture that cannot be used is left out and named; it never costs more than itself.
"""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from envs.file_picture import FilePicture, picture_content
from envs.files import FileError, read_json, real_path
from envs.raven import Configuration, configuration_named
from evals.suites.multistar.published_questions.doubts import Asked, doubts_of
from evals.suites.multistar.published_questions.kinds import (
    STAGE_OF_FILE,
    attribute_of,
    part_of,
    parts_of,
    place_words,
    places_in,
    said,
    shapes_in,
)
from evals.suites.multistar.published_questions.store import PICTURES, Stored
from evals.suites.multistar.questions import Part, QuestionAttribute, Stage
from evals.suites.multistar.questions.graph import chain_nodes

DIRECT_FILE: Final = "question.json"
CHAIN_FILES: Final = "logical_chain_questions*.json"
_NAMED_PICTURES: Final[Mapping[str, tuple[int, ...]]] = {
    "first_two_rows": (0, 1, 2, 3, 4, 5),
    "row_1": (0, 1, 2),
    "combined": (),
}
"""The panels, from 0, that pictures with a name of their own show."""
_OBJECT: Final[dict[str, Any]] = {"position": str, "shape": str, "size": (int, float), "color": (int, float)}


@dataclass
class Import:
    """What an import has found so far."""

    root: Path
    folder: Path
    questions: list[Stored] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Files and questions, each with the reason."""
    notes: list[str] = field(default_factory=list)

    @functools.cached_property
    def picture(self) -> Any:
        """Stores a picture of the checkout, each once; raises ``ValueError``."""
        return functools.lru_cache(maxsize=None)(self._picture)

    def _picture(self, path: Path) -> FilePicture:
        return FilePicture.store(picture_content(self.inside(path)), self.folder / PICTURES)

    def inside(self, path: Path) -> Path:
        """The path, which must not lead out of the checkout.

        Raises:
            ValueError: it does.
        """
        real = real_path(path)
        if not real.is_relative_to(self.root):
            raise ValueError(f"{self.named(path)} lies outside of the checkout")
        return real

    def named(self, path: Path) -> str:
        """A path as messages call it."""
        return os.path.relpath(path, self.root)


def import_checkout(checkout: Path, folder: Path) -> Import:
    """Read all questions of a checkout and copy their pictures.

    Args:
        checkout: The repository with its released or generated questions, or the folder of these.
        folder: Where pictures are copied to; it exists.

    Raises:
        ValueError: there is no question file.
    """
    found = Import(real_path(checkout), folder)
    (folder / PICTURES).mkdir(exist_ok=True)
    direct, chains = _files(found)
    if not direct and not chains:
        raise ValueError(f"{checkout}: no {DIRECT_FILE} and no {CHAIN_FILES} here or below: no questions of MultiStAR")
    scenes: dict[Path, tuple[list[Any], list[Any]]] = {}
    # Puzzles are numbered within their configuration, over all files of a kind.
    numbers: Counter[str] = Counter()
    chain_numbers: Counter[str] = Counter()
    for path in direct:
        with _Leaving(found, path):
            _read_direct(found, path, numbers, scenes)
    for path in chains:
        with _Leaving(found, path):
            _read_chains(found, path, chain_numbers, scenes)
    return found


class _Leaving:
    """Leaves out, by name, what raises ``ValueError`` within."""

    def __init__(self, found: Import, path: Path, what: str = "") -> None:
        self.found, self.name = found, found.named(path)
        if what:
            self.name += f", {what}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> bool:
        if isinstance(error, ValueError | OSError):
            self.found.left_out.append(f"{self.name}: {error}")
            return True
        return False


def _files(found: Import) -> tuple[list[Path], list[Path]]:
    """Direct and chain files of the checkout, by the numbers in their paths; links are not followed."""
    direct: list[Path] = []
    chains: list[Path] = []
    for place, _, names in os.walk(found.root):
        for name in names:
            path = Path(place) / name
            if name == DIRECT_FILE:
                files = direct
            elif path.match(CHAIN_FILES):
                files = chains
            else:
                continue
            if path.is_symlink():
                found.left_out.append(f"{found.named(path)}: is a link")
            else:
                files.append(path)
    return sorted(direct, key=_by_number), sorted(chains, key=_by_number)


def _by_number(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def _json(found: Import, path: Path) -> Any:
    try:
        return read_json(found.inside(path))
    except FileError as error:
        raise ValueError(error.reason) from None


def _scene(data: Any) -> tuple[list[Any], list[Any]]:
    """Panels and rules of a direct file, checked; empty where it has none."""
    panels, rules = data.get("panels", []), data.get("rules", [])
    if not isinstance(panels, list) or not all(_is_panel(panel) for panel in panels):
        raise ValueError("panels: not as the generator writes them")
    if not isinstance(rules, list):
        raise ValueError("rules: not as the generator writes them")
    return panels, [_component_rules(component) for component in rules]


def _component_rules(component: Any) -> dict[str, list[Any]]:
    of_component = component.get("rules") if isinstance(component, dict) else None
    if not isinstance(of_component, list):
        raise ValueError("rules: not as the generator writes them")
    return {"rules": [rule for rule in of_component if isinstance(rule, dict)]}


def _is_panel(panel: Any) -> bool:
    return isinstance(panel, list) and all(_is_object(one) for one in panel)


def _is_object(one: Any) -> bool:
    """Whether it has the fields that the generator writes (``_OBJECT``)."""
    return isinstance(one, dict) and all(isinstance(one.get(name), kind) for name, kind in _OBJECT.items())


# --- direct questions ------------------------------------------------------------------------------------------------


def _read_direct(found: Import, path: Path, numbers: Counter[str], scenes: dict[Path, Any]) -> None:
    data = _json(found, path)
    if not isinstance(data, dict) or not isinstance(data.get("questions"), list):
        raise ValueError("has no list of questions")
    panels, rules = scenes[real_path(path)] = _scene(data)
    configuration = _one_configuration(data["questions"])
    parts, seen = parts_of(configuration), Counter[tuple[str, str]]()
    puzzle = numbers[configuration.name]
    numbers[configuration.name] += 1
    for number, entry in enumerate(data["questions"]):
        with _Leaving(found, path, f"question {number + 1}"):
            text, options, key = _asked(entry, "answer")
            stage = _stage_of(str(entry.get("template_filename")))
            attribute = attribute_of(text, options)
            part = None
            if parts and _is_on_one_part(stage, attribute):
                part = part_of(text, parts, seen[stage, attribute])
            seen[stage, attribute] += 1
            image = path.parent.parent / _text(entry, "image_filename")
            asked = Asked(stage, attribute, part, text, options, key, _panels(image.name, panels))
            picture = found.picture(image)
            found.questions.append(
                Stored(
                    subtask="direct",
                    configuration=configuration.name,
                    puzzle=puzzle,
                    number=number,
                    node=f"{stage}/{attribute}{f'/{part}' if part else ''}/{number}",
                    stage=stage,
                    attribute=attribute,
                    part=part,
                    text=text,
                    options=options,
                    key=key,
                    picture=picture.digest,
                    size=picture.size,
                    doubts=_doubts(asked, panels, rules),
                    file=f"{found.named(path)}, question {number + 1}",
                )
            )


def _stage_of(template: str) -> Stage:
    for start, stage in STAGE_OF_FILE.items():
        if template.startswith(start):
            return stage
    raise ValueError(f"no stage is known for template {template[:60]!r}")


def _is_on_one_part(stage: Stage, attribute: QuestionAttribute) -> bool:
    """Whether a direct question is on one part where panels have several: rules, and looks of two panels."""
    if stage == "2P":
        return attribute in ("shape", "size", "color")
    return stage in ("1R", "2R")


def _one_configuration(entries: Iterable[Any]) -> Configuration:
    names: set[str] = set()
    for entry in entries:
        name = entry.get("config") if isinstance(entry, dict) else None
        if isinstance(name, str):
            names.add(name)
    if len(names) != 1:
        raise ValueError(f"is of {len(names)} configurations, not of one")
    return configuration_named(names.pop())


def _doubts(asked: Asked, panels: Sequence[Any], rules: Sequence[Any]) -> tuple[str, ...]:
    """Checked only where the file describes its panels."""
    return doubts_of(asked, panels, rules) if panels else ()


def _panels(image: str, panels: Sequence[Any]) -> tuple[int, ...]:
    """The panels that a picture shows, told by its name."""
    stem = image.partition(".")[0]
    # Names other than these hold the numbers of their panels, counted from 1.
    numbered = tuple(int(number) - 1 for number in re.findall(r"\d+", stem))
    shown = _NAMED_PICTURES.get(stem, numbered)
    if not panels:
        # A file without descriptions is read all the same.
        return shown
    if not all(0 <= number < len(panels) for number in shown):
        raise ValueError(f"picture {image[:60]!r} shows a panel that the file does not describe")
    return shown


# --- chains ----------------------------------------------------------------------------------------------------------


def _read_chains(found: Import, path: Path, numbers: Counter[str], scenes: Mapping[Path, Any]) -> None:
    data = _json(found, path)
    if not isinstance(data, list):
        raise ValueError("is no list of puzzles")
    first = _first_candidate(found, path, data)
    for number, puzzle in enumerate(data):
        with _Leaving(found, path, f"puzzle {number + 1}"):
            if not isinstance(puzzle, dict) or not isinstance(puzzle.get("questions"), list):
                raise ValueError("has no list of questions")
            configuration = _one_configuration(puzzle["questions"])
            stored = list(_chain(found, path, number, puzzle, configuration, first, scenes))
            if not stored or stored[-1].stage != "final":
                raise ValueError("has no final question")
            # Those left out have no number.
            place = numbers[configuration.name]
            numbers[configuration.name] += 1
            found.questions += [one.of_puzzle(place) for one in stored]


def _first_candidate(found: Import, path: Path, data: Iterable[Any]) -> int:
    """The number that keys of final questions give to the first candidate.

    The released files count these keys from 0, the pictures number their candidates from 1. A file whose keys reach 8 and
    never 0 counts as the pictures do.
    """
    finals = [one.get("correct_answer") for one in _entries(data) if one.get("stage") == "final"]
    if 8 in finals and 0 not in finals:
        return 1
    if finals:
        found.notes.append(
            f"{found.named(path)}: keys of final questions count from 0, the candidates in the pictures from 1: 1 is added"
        )
    return 0


def _entries(data: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for puzzle in data:
        questions = puzzle.get("questions") if isinstance(puzzle, dict) else None
        if isinstance(questions, list):
            yield from (one for one in questions if isinstance(one, dict))


def _chain(
    found: Import,
    path: Path,
    number: int,
    puzzle: Mapping[str, Any],
    configuration: Configuration,
    first: int,
    scenes: Mapping[Path, Any],
) -> Iterator[Stored]:
    """The questions of one chain, parents first; those that cannot be used are left out."""
    source = path.parent / str(puzzle.get("file_path", ""))
    panels, rules = scenes.get(real_path(source), ([], []))
    by_node: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for place, entry in enumerate(puzzle["questions"]):
        if isinstance(entry, dict):
            stage = str(entry.get("stage"))
            name = "final" if stage == "final" else f"{entry.get('attribute')}/{stage}"
            by_node[name] = place, entry
    nodes = {node.name: node for node in chain_nodes(configuration)}
    for name in sorted(by_node.keys() - nodes.keys()):
        found.left_out.append(
            f"{found.named(path)}, puzzle {number + 1}: no question of the chain is called {name[:60]!r}"
        )
    for name, node in nodes.items():
        if name not in by_node:
            found.left_out.append(f"{found.named(path)}, puzzle {number + 1}: has no question {name}")
            continue
        place, entry = by_node[name]
        what = f"puzzle {number + 1}, question {place + 1}"
        with _Leaving(found, path, what):
            if name == "final":
                text, options = _text(entry, "question"), tuple("12345678")
                key = _number(entry, "correct_answer") - first
                if not 0 <= key < len(options):
                    raise ValueError(f"key {key + first} is none of the candidates")
            else:
                text, options, key = _asked(entry, "correct_answer")
            picture = found.picture(path.parent / _text(entry, "image_path"))
            asked = Asked(node.stage, node.attribute, node.part, text, options, key, node.panels)
            yield Stored(
                subtask="chain",
                configuration=configuration.name,
                puzzle=number,
                number=place,
                node=name,
                stage=node.stage,
                attribute=node.attribute,
                part=node.part,
                text=text,
                options=options,
                key=key,
                picture=picture.digest,
                size=picture.size,
                doubts=_doubts(asked, panels, rules) if name != "final" else (),
                file=f"{found.named(path)}, {what}",
                subject=_subject(asked, node.part),
                said=tuple(said(node.stage, node.attribute, option) for option in options),
            )


def _subject(asked: Asked, part: Part | None) -> str:
    """What a question on one object singles it out by, as earlier answers are told."""
    if asked.stage != "1P":
        return ""
    match asked.attribute:
        case "position":
            # "Where is the square?"
            shapes = shapes_in(asked.text)
            return shapes[0] if shapes else "object"
        case "shape":
            # "What shape is at the left?"
            return _place_asked(asked.text, part)
        case _:
            return ""


def _place_asked(text: str, part: Part | None) -> str:
    """The place that a question names, or the part that it is on where it names none."""
    places = places_in(text)
    if part == "in":
        # A question on the inner part names it besides the place that it asks about.
        places = [place for place in places if " of " in place or not place.endswith("inner part")]
    if places:
        return place_words(places[0])
    names = {"in": "inner part", "out": "outer part", None: "center"}
    return names.get(part, f"{part} part")


# --- fields ----------------------------------------------------------------------------------------------------------


def _asked(entry: Any, key_field: str) -> tuple[str, tuple[str, ...], int]:
    """Text, options without their letters, and the index of the key."""
    if not isinstance(entry, dict):
        raise ValueError("is no question")
    text = _text(entry, "question")
    choices = _choices(entry)
    # A choice is written "B: four"; some have no letter.
    labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(choices)]
    options: list[str] = []
    for label, choice in zip(labels, choices, strict=True):
        words = choice.removeprefix(f"{label}:").strip()
        if not words or words in options:
            raise ValueError("choices: one is empty, or two are the same")
        options.append(words)
    letter = entry.get(key_field)
    if not isinstance(letter, str) or letter not in tuple(labels):
        raise ValueError(f"{key_field} {str(letter)[:40]!r} is none of the choices' letters")
    return text, tuple(options), labels.index(letter)


def _choices(entry: Mapping[str, Any]) -> list[str]:
    choices = entry.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise ValueError("choices: not a list of 2 to 26 texts")
    if not 2 <= len(choices) <= 26:
        raise ValueError("choices: not a list of 2 to 26 texts")
    return choices


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > 10_000:
        raise ValueError(f"{name}: no text, or too long")
    return value


def _number(entry: Mapping[str, Any], name: str) -> int:
    value = entry.get(name)
    if type(value) is not int:
        raise ValueError(f"{name} {str(value)[:40]!r} is no number")
    return value
