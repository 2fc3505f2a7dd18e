"""The words of KidGym's prompts: text files with ``$fields``, which a user's folder may replace one by one."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

from envs.picture import Picture
from evals.types import Part, stable_hash

FIELDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    name: (frozenset(required.split()), frozenset(optional.split()))
    for name, required, optional in (
        # The system message; ``view`` is one of the next two.
        ("rules", "view", ""),
        ("view", "", ""),
        ("view_memory", "", ""),
        # A question; ``answer`` is one of the two after.
        ("step", "goal frame actions answer", "step budget"),
        ("answer", "letters", ""),
        ("answer_cot", "letters", ""),
        # In the chat of a memory task: a step without choice, and a past answer.
        ("forced", "goal frame", "action step budget"),
        ("answered", "letter", ""),
        # The worked example of in-context learning; ``frame`` is the last picture, ``steps`` are the example's steps.
        ("example", "goal steps frame", ""),
        ("example_step", "frame actions reason letter", "step"),
    )
}
"""For each template ``NAME.txt`` the fields that it must have and those that it may have besides."""

Value = str | Picture | Sequence[Part]


@dataclass(frozen=True)
class Templates:
    """The texts of all templates, checked, in the order of ``FIELDS``."""

    texts: tuple[tuple[str, str], ...]

    @cached_property
    def identity(self) -> str:
        """Hash of the texts: part of every episode's identity."""
        return stable_hash(self.texts)

    def fill(self, name: str, **values: Value) -> tuple[Part, ...]:
        """A template with its fields filled in: texts, and pictures where a field's value holds some."""
        source, position = dict(self.texts)[name], 0
        parts: list[Part] = []
        for match in Template.pattern.finditer(source):
            value: Value = "$" if match["escaped"] else values[match["named"] or match["braced"]]
            parts += [source[position : match.start()], *([value] if isinstance(value, str | Picture) else value)]
            position = match.end()
        return joined([*parts, source[position:]])

    def text(self, name: str, **values: str) -> str:
        """A template without pictures, filled in."""
        (text,) = self.fill(name, **values)
        assert isinstance(text, str)
        return text


def joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same parts with neighbouring texts made one, and without empty ones."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)


@functools.lru_cache(maxsize=16)
def load_templates(folder: str = "") -> Templates:
    """The built-in templates, those replaced that a folder holds under the same name.

    Raises:
        ValueError: there is no such folder, a file in it is no template, or a template lacks a field or has one that
            nothing fills; the message names file and field.
    """
    builtin = resources.files(__package__).joinpath("templates")
    own = {path.stem: path for path in sorted(Path(folder).glob("*.txt"))} if folder else {}
    if folder and not Path(folder).is_dir():
        raise ValueError(f"{folder!r} is not a folder")
    if folder and not own:
        raise ValueError(f"folder {folder!r} holds no template; it may have {_names()}")
    for name, path in own.items():
        if name not in FIELDS:
            raise ValueError(f"{path} is no template of KidGym: there are {_names()}")
    texts = {
        name: own.get(name, builtin.joinpath(f"{name}.txt")).read_text(encoding="utf-8").strip() for name in FIELDS
    }
    for name, text in texts.items():
        _check(str(own.get(name, f"{name}.txt")), text, *FIELDS[name])
    return Templates(tuple(texts.items()))


def _names() -> str:
    return ", ".join(f"{name}.txt" for name in FIELDS)


def _check(file: str, text: str, required: frozenset[str], optional: frozenset[str]) -> None:
    known = ", ".join(f"${name}" for name in sorted(required | optional)) or "none"
    if not text:
        raise ValueError(f"template {file} is empty")
    found = set()
    for match in Template.pattern.finditer(text):
        if match["invalid"] is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise ValueError(f"template {file}, line {line}: a lone '$'; a dollar sign is written '$$'")
        if not match["escaped"]:
            found.add(match["named"] or match["braced"])
    for name in sorted(required - found):
        raise ValueError(f"template {file} lacks the field ${name}; its fields are {known}")
    for name in sorted(found - required - optional):
        raise ValueError(f"template {file} has a field ${name} that nothing fills; its fields are {known}")
