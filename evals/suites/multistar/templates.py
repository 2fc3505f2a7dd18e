"""A user's own prompts: text files with ``$fields``, which stand in the place of the built-in words.

The paper prints its prompts (appendices A.4.1 and A.4.2) with placeholders in brackets; these are accepted for our fields.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from envs.files import read_text, shown_files
from envs.page import Kind, PagePicture, Words
from envs.picture import Picture
from evals.presentation import check_fields, filled
from evals.types import Part, stable_hash

_QUESTION: Final = frozenset({"question", "choices"})
_AROUND: Final = frozenset({"setting", "picture", "labels"})
FIELDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "system": (frozenset(), frozenset()),
    "page": (frozenset(), frozenset({"labels"})),
    **dict.fromkeys(("setting_left_right", "setting_up_down", "setting_out_in"), (frozenset(), frozenset())),
    **dict.fromkeys(("vanilla", "structured", "document"), (_QUESTION, _AROUND)),
    **{f"{style}_prior": (_QUESTION | {"priors"}, _AROUND) for style in ("vanilla", "structured", "document")},
}
"""For each template ``NAME.txt`` the fields that it must have and those that it may have besides."""

PRINTED: Final[Mapping[str, str]] = {
    "[Extra Setting Info]": "$setting",
    "[[Prior Info 1], [Prior Info 2], ...]": "[$priors]",
    "[question]": "$question",
    "[choices]": "$choices",
    "one of A, B, C, D": "one of $labels",
}
"""What the paper prints, and our fields for it."""

LISTS: Final[Mapping[str, str]] = {"choices": ", ", "priors": " "}
"""Fields that hold several entries, and what stands between these where the field does not have a line for itself."""

_ALONE = re.compile(
    r"^(?P<indent>[ \t]*(?:- )?)\$(?:(?P<name>choices|priors)|\{(?P<braced>choices|priors)\})[ \t]*$", re.MULTILINE
)
"""A list that has a line for itself, or the mark of an item before it."""
_MARKS: Final[Mapping[str, Kind]] = {"# ": "title", "## ": "heading", "- ": "item"}
"""How lines of a page begin that are no plain text."""
_PICTURE = ("$picture", "${picture}")


@dataclass(frozen=True)
class Templates:
    """The texts that a user has put in place of the built-in ones, by name."""

    texts: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str | None:
        """The text of a template; None where the built-in words stand."""
        return dict(self.texts).get(name)

    @property
    def identity(self) -> tuple[object, ...]:
        """What an episode's fingerprint holds of it: nothing where no text is replaced."""
        return ("templates", stable_hash(self.texts)) if self.texts else ()


Values = Mapping[str, str | tuple[str, ...]]
"""What fills the fields other than the picture; tuples for ``LISTS``."""


def filled_text(source: str, picture: Picture, values: Values) -> tuple[Part, ...]:
    """The parts of a message; the picture stands first where the template does not say where."""
    if "picture" not in Template(source).get_identifiers():
        source = f"$picture\n{source}"
    return _without_gaps(filled(_with_lists(source, values), {**_single(values), "picture": picture}))


def filled_page(source: str, picture: Picture, values: Values, scale: int) -> PagePicture:
    """A printed page: a block for each line, whose mark says whether it is a title, a heading or an item."""
    lines = [line.strip() for line in _with_lists(source, values).splitlines()]
    if not any(line in _PICTURE for line in lines):
        lines.insert(0, _PICTURE[0])
    fields = _single(values)
    blocks: list[Words | Picture] = []
    for line in lines:
        if line in _PICTURE:
            blocks.append(picture)
            continue
        text = "".join(map(str, filled(line, fields)))
        block = _block(text)
        if block.text:
            blocks.append(block)
    return PagePicture(tuple(blocks), scale)


def _block(line: str) -> Words:
    """A line's words without the mark that tells their kind; without a mark they are text."""
    for mark, kind in _MARKS.items():
        if line.startswith(mark):
            return Words(kind, line.removeprefix(mark).strip())
    return Words("text", line.strip())


def _with_lists(source: str, values: Values) -> str:
    """The template, with a line for each entry where a list has a line for itself."""

    def lines(match: re.Match[str]) -> str:
        indent, name = match["indent"], match["name"] or match["braced"]
        return "\n".join(f"{indent}{entry}".replace("$", "$$") for entry in values[name])

    return _ALONE.sub(lines, source)


def _single(values: Values) -> dict[str, str]:
    """The fields as they stand within a line: the entries of a list one after the other."""
    return {name: value if isinstance(value, str) else LISTS[name].join(value) for name, value in values.items()}


def _without_gaps(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Without the blank space that empty fields leave, and that stands around the picture."""
    closed = [re.sub(r"\n\s*\n", "\n\n", part).strip() if isinstance(part, str) else part for part in parts]
    return tuple(part for part in closed if part != "")


DESCRIBE: Final = (
    "First say in a sentence or two which objects the picture shows. Then end with a line that holds one of these and nothing "
    "else: $labels."
)
_EARLIER = "Earlier steps found this; any of it may be right or wrong:"
_QUESTION_AND_CHOICES = f"$question\n\n$choices\n\n{DESCRIBE}"
_HTML = f"<h1>$setting</h1>\n%s<p>$question</p>\n<ul>\n$choices\n</ul>\n<p>{DESCRIBE}</p>"
_PAGE = f"# Panels and shapes\n$picture\n$setting\n%s## Question\n$question\n- $choices\n{DESCRIBE}"
DESCRIBED: Final = Templates(
    tuple(
        {
            "system": "You answer multiple-choice questions about geometric shapes in square panels.",
            "vanilla": f"$setting\n\n{_QUESTION_AND_CHOICES}",
            "vanilla_prior": f"$setting\n\n{_EARLIER}\n- $priors\n\n{_QUESTION_AND_CHOICES}",
            "structured": _HTML % "",
            "structured_prior": _HTML % f"<p>{_EARLIER}</p>\n<ul>\n$priors\n</ul>\n",
            "document": _PAGE % "",
            "document_prior": _PAGE % f"## Found before\n{_EARLIER}\n- $priors\n",
            "page": f"This page holds a picture and a question about it. {DESCRIBE}",
        }.items()
    )
)
"""Questions that ask for what is seen before they ask for an answer (``suite.reply=described``)."""


@functools.lru_cache(maxsize=16)
def load_templates(folder: str, *, described: bool = False) -> Templates:
    """The texts of a folder, before the built-in ones that ask for what is seen where that is ``described``.

    Raises:
        ValueError: there is no such folder, a file in it is no template, or a template lacks a field or has one that
            nothing fills; the message names file and field.
    """
    built_in = DESCRIBED if described else Templates()
    if not folder:
        return built_in
    if not Path(folder).is_dir():
        raise ValueError(f"{folder!r} is not a folder")
    paths = shown_files(Path(folder), "*.txt")
    names = ", ".join(f"{name}.txt" for name in FIELDS)
    if not paths:
        raise ValueError(f"folder {folder!r} holds no template; it may have {names}")
    texts = dict(built_in.texts)
    for path in paths:
        texts[path.stem] = _read(path, names)
    return Templates(tuple(texts.items()))


def _read(path: Path, names: str) -> str:
    """The text of one file, checked, the paper's placeholders replaced."""
    name = path.stem
    if name not in FIELDS:
        raise ValueError(f"{path} is no template of MultiStAR: there are {names}")
    text = read_text(path).strip()
    for printed, field in PRINTED.items():
        text = text.replace(printed, field)
    if name == "system" and not text:
        # There is no system message, as in the paper.
        return text
    check_fields(str(path), text, *FIELDS[name])
    if name.startswith("document"):
        _check_page(path, text)
    return text


def _check_page(path: Path, text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        picture = set(Template(line).get_identifiers()) & {"picture"}
        if picture and line.strip() not in _PICTURE:
            raise ValueError(f"template {path}, line {number}: $picture needs a line for itself on a page")
        try:
            Words("text", line)
        except ValueError as error:
            raise ValueError(f"template {path}, line {number}: {error}") from error
