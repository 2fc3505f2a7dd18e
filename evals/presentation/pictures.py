"""Pictures in a chat: shown, told in words (their text twins), or both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from envs.picture import Detail, Picture
from evals.presentation.parts import joined
from evals.types import Part

Modality = Literal["picture", "text", "both"]
"""What stands where a picture belongs: it, its text twin, or one after the other."""

NOTES: Final[dict[Modality, str]] = {
    "picture": "",
    "text": "You are not shown pictures. What each of them shows is told in words instead, between <picture> and </picture>.",
    "both": "What a picture shows is told in words, too: after it, between <picture> and </picture>.",
}
"""What a player is told about the modality; part of the ids of episodes that are played in it."""


def told(parts: Sequence[Part], modality: Modality, detail: Detail) -> tuple[Part, ...]:
    """The parts of a message in a modality.

    Args:
        parts: Texts and pictures.
        modality: What is to stand where pictures do.
        detail: How they are told in words.

    Raises:
        ValueError: pictures of a kind cannot be told in words.
    """
    if modality == "picture":
        return tuple(parts)
    found: list[Part] = []
    for part in parts:
        if not isinstance(part, Picture):
            found.append(part)
            continue
        words = f"<picture>\n{part.twin(detail)}\n</picture>"
        if modality == "text":
            found.append(words)
        else:
            found += [part, f"\n{words}"]
    return joined(found)
