"""The whole prompt as the paper prints it (appendix B.7), taken apart into templates.

Its headings in brackets say when a passage is told, ``<EXAMPLE>``, ``<GOAL>`` and ``<ACTIONS>`` stand for what a game fills in.
"""

from __future__ import annotations

import re
from typing import Final

SECTIONS: Final = {
    "[If ICL is required]": "example",
    "[If Memory capability is NOT required]": "view",
    "[Else: Memory capability IS required]": "view_memory",
    "[If CoT is NOT required]": "answer",
    "[Else: CoT IS required]": "answer_cot",
}
"""The headings, each with the template that the paragraphs after it make."""
_OF_THE_STEP: Final = ("<GOAL>", "<ACTIONS>")
"""A paragraph with one of these is told in any case: it ends the section before it."""
_EXAMPLE: Final = "$goal\n\n$steps\n\n$frame"
"""What stands for ``<EXAMPLE>``."""


def templates_of(text: str) -> dict[str, str]:
    """The templates that a printed prompt makes, by name.

    Raises:
        ValueError: a placeholder is missing, or a heading is none of ``SECTIONS``.
    """
    lacking = [placeholder for placeholder in _OF_THE_STEP if placeholder not in text]
    if lacking:
        raise ValueError(f"it lacks {lacking[0]}")
    found: dict[str, list[str]] = {"rules": []}
    section = "rules"
    for paragraph in _paragraphs(text):
        if paragraph.startswith("["):
            section = _section(paragraph)
            continue
        # Told in any case, whatever section stood before it.
        if any(placeholder in paragraph for placeholder in _OF_THE_STEP):
            section = "step"
        found.setdefault(section, []).append(paragraph)
    found["rules"].append("$view")
    found["step"] = [*_with_picture(found["step"]), "$answer"]
    return {name: "\n\n".join(paragraphs) for name, paragraphs in found.items()}


def _paragraphs(text: str) -> list[str]:
    """Paragraphs and headings, without the stars that mark italics, and with room for the example."""
    plain = re.sub(r"(?m)^[ \t]*\*+|\*+[ \t]*$", "", text).replace("$", "$$")
    headed = re.sub(r"(?m)^(\[.*\])$", r"\n\n\1\n\n", plain.replace("<EXAMPLE>", _EXAMPLE))
    return [paragraph.strip() for paragraph in re.split(r"\n\s*\n", headed) if paragraph.strip()]


def _section(heading: str) -> str:
    known = {name.casefold(): template for name, template in SECTIONS.items()}
    if heading.casefold() not in known:
        raise ValueError(f"it has a heading {heading!r:.60}; there are {', '.join(SECTIONS)}")
    return known[heading.casefold()]


def _with_picture(paragraphs: list[str]) -> list[str]:
    """The paragraphs of a step, the picture before the actions."""
    pictured = []
    for paragraph in paragraphs:
        pictured += ["$frame"] if "<ACTIONS>" in paragraph else []
        # Goals and lists end as they end: a full stop after their placeholder would be a second one.
        filled = re.sub(r"<ACTIONS>\.?", "$actions", re.sub(r"<GOAL>\.?", "$goal", paragraph))
        pictured.append(filled)
    return pictured
