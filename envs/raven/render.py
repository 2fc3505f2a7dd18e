"""Panels as pixels: 160 x 160 gray, black on white.

Ink is laid down entity by entity, a later one replacing an earlier one wherever it has ink of its own; white entities
have no fill and let through what is beneath. The line between two halves comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from envs.raven.grammar import PANEL, Configuration, Layout
from envs.raven.published_drawing import published_raster
from envs.raven.raster import INK, entity_raster
from envs.raven.scene import Panel, Problem


@cache
def slot_centers(layout: Layout) -> tuple[tuple[int, int], ...]:
    """Row and column of the center pixel of every slot."""
    return tuple((int(row * PANEL), int(column * PANEL)) for row, column, _, _ in layout.slots)


def render_panels(configuration: Configuration, panels: Sequence[Panel], scale: int = 1) -> NDArray[np.uint8]:
    """Pixels of several panels, shape (number, 160 scale, 160 scale)."""
    ink = np.zeros((len(panels), PANEL * scale, PANEL * scale), np.uint8)
    for page, panel in zip(ink, panels, strict=True):
        _draw(page, configuration, panel, scale)
    return np.subtract(INK, ink, out=ink)


def render_problem(problem: Problem, scale: int = 1) -> NDArray[np.uint8]:
    """Pixels of the context and then the candidates, shape (16, 160, 160) as official files store them, or larger."""
    return render_panels(problem.configuration, problem.panels, scale)


def render_published(problem: Problem) -> NDArray[np.uint8]:
    """Pixels of the context and then the candidates as the published drawing has them, shape (16, 160, 160)."""
    ink = np.zeros((len(problem.panels), PANEL, PANEL), np.uint8)
    for page, panel in zip(ink, problem.panels, strict=True):
        _draw(page, problem.configuration, panel, scale=1, published=True)
    return np.subtract(INK, ink, out=ink)


def _draw(
    ink: NDArray[np.uint8], configuration: Configuration, panel: Panel, scale: int, published: bool = False
) -> None:
    for layout, component in zip(configuration.layouts, panel.components, strict=True):
        centers, extent = slot_centers(layout), layout.extent
        for entity in component.entities:
            levels = entity.type, entity.size, entity.color, entity.angle
            if published:
                raster = published_raster(*levels, extent, centers[entity.slot])
            else:
                raster = entity_raster(*levels, extent, scale)
            row, column = (scale * place for place in centers[entity.slot])
            top, left = row + raster.top, column + raster.left
            height, width = raster.ink.shape
            np.copyto(ink[top : top + height, left : left + width], raster.ink, where=raster.ink > 0)
    if configuration.structure == "Left_Right":
        ink[:, PANEL // 2 * scale : (PANEL // 2 + 1) * scale] = INK
    elif configuration.structure == "Up_Down":
        ink[PANEL // 2 * scale : (PANEL // 2 + 1) * scale, :] = INK
