"""A KidGym observation: a scene that renders itself and can be stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from envs.kidgym.scene import GRID_CELLS, Hint, Item, Scene
from envs.picture import Detail, Picture


@dataclass(frozen=True)
class Frame(Scene, Picture):
    """One observation of a KidGym world; equal frames are equal pictures. ``Scene`` lists its attributes."""

    kind: ClassVar[str] = "kidgym"
    version: ClassVar[int] = 2

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return GRID_CELLS * self.cell_pixels, GRID_CELLS * self.cell_pixels

    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (9 cells, 9 cells, 3), RGB.

        Raises:
            ValueError: there is no drawing of a sprite, the skin holds other drawings than when the frame was made, or the
                resolution is none of ``RESOLUTIONS``.
        """
        from envs.kidgym.render import render  # loads the rasterizer, which only pixels need

        return render(self)

    def twin(self, detail: Detail) -> str:
        """The observation told in words (``envs.kidgym.twin``)."""
        from envs.kidgym.twin import twin  # only who reads words needs it

        return twin(self, detail)

    def to_json(self) -> dict[str, Any]:
        """The description as JSON values; an item is the list ``[sprite, label]``."""
        return {
            "background": self.background,
            "cells": self.cells,
            "agent": self.agent,
            "backpack": self.backpack,
            "hint": self.hint,
            "cell_pixels": self.cell_pixels,
            "skin": self.skin,
            "skin_hash": self.skin_hash,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Frame:
        """The inverse of ``to_json``, from tuples or from the lists of parsed JSON."""
        hint = fields["hint"]
        agent = fields["agent"]
        return cls(
            background=fields["background"],
            cells=tuple((x, y, Item(*item)) for x, y, item in fields["cells"]),
            agent=(agent[0], agent[1], agent[2]),
            backpack=tuple(None if item is None else Item(*item) for item in fields["backpack"]),
            hint=None if hint is None else _hint_from_json(hint),
            cell_pixels=fields["cell_pixels"],
            skin=fields["skin"],
            skin_hash=fields.get("skin_hash", ""),
        )


def _hint_from_json(hint: Any) -> Hint:
    rows = []
    for row in hint[1]:
        rows.append(tuple(Item(*item) for item in row))
    return Hint(hint[0], tuple(rows), hint[2])
