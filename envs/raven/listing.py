"""Which official files there are: those below a directory, or those that an import found sound and listed with digests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from envs.disk import whole_file
from envs.files import FileError, read_json_lines, real_path
from envs.raven.compose import panel_pixels
from envs.raven.files import OfficialFile, read
from envs.raven.grammar import configuration_named
from envs.raven.scene import Imported, Problem
from envs.raven.solve import solve
from envs.raven.xmltree import read_document


def find_files(path: Path) -> list[Path]:
    """The npz file itself, or those below a directory, by folder and number.

    Raises:
        FileError: there are none.
    """
    if path.suffix == ".npz" or path.is_file():
        return [path]
    found = sorted(path.rglob("RAVEN_*.npz"), key=lambda file: (str(file.parent), _number(file), file.name))
    if not found:
        raise FileError(path, "no RAVEN_*.npz here or below")
    return found


def _number(path: Path) -> int:
    part = path.stem.split("_")[1]
    return int(part) if part.isdecimal() else -1


def read_files(path: Path) -> Iterator[OfficialFile | FileError]:
    """The files of ``find_files`` one by one; a damaged file costs that file only and gives its error.

    Raises:
        FileError: there are no files.
    """
    for npz in find_files(path):
        try:
            yield read(real_path(npz))
        except FileError as error:
            yield error


def configuration_of(npz: Path) -> str:
    """Name of a problem's configuration, from its XML alone.

    Raises:
        FileError: the XML is missing or damaged.
    """
    return read_document(npz.with_suffix(".xml")).configuration.name


@dataclass(frozen=True)
class Listed:
    """One line of an index."""

    configuration: str
    source: Imported


def ambiguous(problem: Problem) -> tuple[int, ...]:
    """The candidates (1 to 8) that complete the matrix equally well; empty where only one does."""
    answers = solve(problem).answers
    return tuple(answer + 1 for answer in answers) if len(answers) > 1 else ()


def twins(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Groups of candidates (1 to 8) that have the same pixels."""
    groups: dict[bytes, list[int]] = {}
    for number, pixels in enumerate(panel_pixels(problem.source)[8:], 1):
        groups.setdefault(pixels.tobytes(), []).append(number)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def write_index(problems: list[Problem], index: Path) -> None:
    """List problems of official files as JSON lines: path, digest, configuration, target, style, and what is doubtful.

    ``ambiguous`` are candidates that complete the matrix equally well, ``twins`` such that look the same.
    """
    lines = []
    for problem in problems:
        about = {"configuration": problem.configuration.name, "target": problem.target, "style": problem.style}
        doubts = {"ambiguous": ambiguous(problem), "twins": twins(problem)}
        lines.append(json.dumps(asdict(problem.source) | about | doubts, sort_keys=True))
    index.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(index) as beside:
        beside.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read_index(index: Path) -> list[Listed]:
    """The problems that an import listed.

    Raises:
        FileError: the index is missing, one of its lines is no index line, or lists a problem again.
    """
    if not index.exists():
        raise FileError(index, "there is no such index; make one with `raycade raven import`")
    listed = []
    first: dict[str, int] = {}
    for number, fields in read_json_lines(index):
        place = f"{index}, line {number}"
        try:
            name = configuration_named(str(fields["configuration"])).name
            source = Imported(str(fields["path"]), str(fields["digest"]))
        except (ValueError, KeyError, TypeError) as error:
            raise FileError(place, f"is no line of an import index ({error!r})") from error
        # Two games of one problem would count as two independent ones.
        if source.digest in first:
            raise FileError(place, f"the same problem as in line {first[source.digest]}")
        first[source.digest] = number
        listed.append(Listed(name, source))
    return listed
