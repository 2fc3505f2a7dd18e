"""JSON, JSON lines, YAML and TOML as plain data within bounds."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from envs.files.regular import MIB, MOST_LINE_BYTES, FileError, read_lines, read_text, words_of

_LONGEST_NUMBER = 400
"""Characters: Python refuses to print integers of more than 4,300 digits, and YAML can write them in hexadecimal."""


@dataclass(frozen=True)
class Bounds:
    """What a file may hold.

    Attributes:
        size: Bytes of the file (characters of a text).
        depth: Levels of nesting: 1 is a list of numbers.
        nodes: Values, those in lists and mappings included; an alias counts as all that it stands for.
    """

    size: int = 64 * MIB
    depth: int = 64
    nodes: int = 4_000_000


YAML_BOUNDS = Bounds(8 * MIB, 64, 200_000)
"""A YAML node takes about one kilobyte while it is read."""
TOML_BOUNDS = Bounds(MIB)


# --- JSON ------------------------------------------------------------------------------------------------------------


def read_json(path: str | Path, bounds: Bounds = Bounds()) -> Any:
    """The value in a JSON file.

    Raises:
        FileError: it cannot be read, or as of `parse_json`.
    """
    return parse_json(read_text(path, bounds.size), path, bounds)


def read_json_lines(path: str | Path) -> Iterator[tuple[int, Any]]:
    """The values of a file of JSON lines with their line numbers from 1; blank lines are skipped.

    Raises:
        FileError: as of `read_json`; it names the line.
    """
    for number, line in read_lines(path):
        yield number, parse_json(line, f"{path}, line {number}")


def parse_json(text: str | bytes, place: object, bounds: Bounds = Bounds(MOST_LINE_BYTES)) -> Any:
    """A JSON value from a text. NaN and Infinity, which are no JSON, are refused, and a key that occurs twice.

    Args:
        text: The JSON.
        place: Where it comes from, for errors.
        bounds: Of the text, its depth and number of values.

    Raises:
        FileError: it is no JSON, a key occurs twice, or it exceeds the bounds.
    """
    if len(text) > bounds.size:
        raise FileError(place, f"has more than {bounds.size:,} characters")
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        _check_count(decoded, place, bounds.nodes)
        value = json.loads(
            decoded,
            object_pairs_hook=_unique,
            parse_constant=_refuse,
            parse_float=_finite,
        )
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise FileError(place, f"is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise FileError(place, f"is nested deeper than {bounds.depth} levels") from None
    except ValueError as error:
        raise FileError(place, f"is not JSON: {error}") from None
    _check_depth(value, place, bounds.depth)
    return value


def _check_count(text: str, place: object, most: int) -> None:
    """Refuses a text of too many values before they are built: each but the first follows a comma or opens a bracket."""
    if sum(map(text.count, ",[{")) < most:
        return
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    if sum(map(bare.count, ",[{")) >= most:
        raise FileError(place, f"holds more than {most:,} values")


def _check_depth(value: Any, place: object, deepest: int) -> None:
    level = [value]
    for _ in range(deepest + 1):
        level = _one_level_down(level)
        if not level:
            return
    raise FileError(place, f"is nested deeper than {deepest} levels")


def _one_level_down(values: Iterable[Any]) -> list[Any]:
    """All that mappings and lists among these values hold."""
    inner: list[Any] = []
    for each in values:
        if isinstance(each, dict):
            inner.extend(each.values())
        elif isinstance(each, list):
            inner.extend(each)
    return inner


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"key {key!r} occurs twice")
        seen.add(key)
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def is_unicode(value: object) -> bool:
    """Whether all texts in a JSON value can be written in UTF-8; JSON can hold halves of surrogate pairs."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


# --- YAML ------------------------------------------------------------------------------------------------------------


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Builds plain data. A repeated key is an error: YAML lets it silently win over the earlier one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping whose keys differ."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"key {key.value!r} occurs twice", problem_mark=key.start_mark)
                seen.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """An integer that can be printed."""
        if len(node.value) > _LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(problem="too long a number", problem_mark=node.start_mark)
        number: int = super().construct_yaml_int(node)
        return number

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """A number that is not made of thousands of sexagesimal digits."""
        if len(node.value) > _LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(problem="too long a number", problem_mark=node.start_mark)
        number: float = super().construct_yaml_float(node)
        return number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def read_yaml(path: str | Path) -> Any:
    """The value in a YAML file; None if it is empty.

    Raises:
        FileError: it cannot be read, is no YAML, repeats a key, or exceeds the bounds.
    """
    return parse_yaml(read_text(path, YAML_BOUNDS.size), path)


_PYYAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
"""PyYAML lets these through for values that look like dates and numbers, and for wrong uses of its own tags."""


def parse_yaml(text: str, place: object, bounds: Bounds = YAML_BOUNDS, plain: bool = False) -> Any:
    """A YAML value from a text.

    The events are looked through first, so that nothing large or unwanted is ever built.

    Args:
        text: The YAML, one document.
        place: Where it comes from, for errors.
        bounds: Of the text, its depth and number of values.
        plain: Whether anchors, aliases and tags are refused.

    Raises:
        FileError: it is no YAML, repeats a key, or exceeds the bounds.
    """
    if len(text) > bounds.size:
        raise FileError(place, f"has more than {bounds.size:,} characters")
    try:
        _check_events(text, place, bounds, plain)
        return yaml.load(text, _Loader)
    except FileError:  # a ValueError, too, but one that says what is wrong
        raise
    except yaml.MarkedYAMLError as error:
        where = place
        mark = error.problem_mark
        if mark:
            where = f"{place}, line {mark.line + 1}"
        what = error.problem or error.context
        raise FileError(where, f"is not YAML: {what}") from None
    except _PYYAML_ERRORS as error:
        raise FileError(place, f"is not YAML: {words_of(error)}") from None


def _check_plain(event: yaml.NodeEvent, line: str) -> None:
    """Refuses anchors, aliases and tags."""
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise FileError(line, "anchors and aliases (& and *) are not allowed; put such text in quotes")
    if getattr(event, "tag", None):
        raise FileError(line, "tags (!) are not allowed; put such text in quotes")


def _check_events(text: str, place: object, bounds: Bounds, plain: bool) -> None:
    """Refuses what exceeds the bounds, aliases unfolded.

    Args: as of `parse_yaml`.
    """
    nodes = characters = 0
    started: list[tuple[str | None, int, int]] = []  # anchor of each open collection, nodes and characters before it
    anchored: dict[str, tuple[int, int]] = {}  # nodes and characters of what an alias stands for
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, nodes_before, characters_before = started.pop()
            if anchor is not None:
                anchored[anchor] = (nodes - nodes_before, characters - characters_before)
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = str(place)
        if event.start_mark:
            line = f"{place}, line {event.start_mark.line + 1}"
        if plain:
            _check_plain(event, line)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchored:
                raise FileError(line, f"alias *{event.anchor} stands for nothing, or for what it is part of")
            more_nodes, more_characters = anchored[event.anchor]
            nodes += more_nodes
            characters += more_characters
        elif isinstance(event, yaml.CollectionStartEvent):
            started.append((event.anchor, nodes, characters))
            nodes += 1
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            characters += len(event.value)
            if event.anchor is not None:
                anchored[event.anchor] = (1, len(event.value))
        if len(started) > bounds.depth:
            raise FileError(line, f"is nested deeper than {bounds.depth} levels")
        if nodes > bounds.nodes:
            raise FileError(line, f"holds more than {bounds.nodes:,} values")
        if characters > bounds.size:
            raise FileError(line, f"holds more than {bounds.size:,} characters")


# --- TOML ------------------------------------------------------------------------------------------------------------


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        FileError: it cannot be read, is no TOML, or is nested too deeply.
    """
    try:
        value = tomllib.loads(read_text(path, TOML_BOUNDS.size))
    except RecursionError:
        raise FileError(path, f"is nested deeper than {TOML_BOUNDS.depth} levels") from None
    except FileError:
        raise
    except ValueError as error:
        raise FileError(path, f"is not TOML: {error}") from None
    _check_depth(value, path, TOML_BOUNDS.depth)
    return value
