"""How many tokens a picture takes, by the rule of a family of models: as the family's own processor counts.

tests/cluster/test_models.py compares each rule with the processor's class where transformers has one.

    >>> Rule("grid", cell=28, least=3136, most=1003520).tokens(576, 576)
    441
    >>> Rule("tiles", tile=448, each=256, most=12, frame=2).tokens(780, 1056)
    3330
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Rule:
    """A rule with its numbers; which of them it uses depends on the rule."""

    rule: Literal["grid", "rows", "tiles", "fixed", "budget", "padded", "crops", "slices", "bounded"]
    cell: int = 0
    """Edge in pixels of what becomes one token."""
    tile: int = 0
    """Edge in pixels of a tile."""
    each: int = 0
    """Tokens of a tile, or of every picture."""
    least: int = 0
    """Fewest pixels, or patches (``bounded``); a smaller picture is enlarged."""
    most: int = 0
    """Most pixels (``grid``), tiles (``tiles``, ``crops``, ``slices``), tokens (``budget``) or patches (``bounded``)."""
    edge: int = 0
    """Longest edge: in pixels (``rows``), in patches (``padded``)."""
    patches: int = 0
    """Most patches, four of which become one token (``padded``)."""
    frame: int = 0
    """Tokens around a picture."""
    frames: int = 1
    """A picture counts as a video of so many frames against ``least`` and ``most``."""
    checked: Mapping[str, int] = field(default_factory=dict)
    """Sizes with the tokens that the real engine counted."""

    def tokens(self, width: int, height: int) -> int:
        """Tokens of a picture of this size in pixels."""
        return _RULES[self.rule](self, width, height)

    def within(self, processor: Mapping[str, Any]) -> Rule:
        """The rule with the bounds that ``model.engine.mm_processor_kwargs`` sets, as far as it has such bounds."""
        size = processor.get("size") or {}
        if self.rule != "grid":
            return self
        return replace(self, least=size.get("shortest_edge", self.least), most=size.get("longest_edge", self.most))


def _grid(rule: Rule, width: int, height: int) -> int:
    """Qwen's and GLM's: both edges to the nearest multiple of the cell, the area within bounds."""
    area = rule.frames * width * height
    rows, columns = max(1, round(height / rule.cell)), max(1, round(width / rule.cell))
    covered = rule.frames * rows * columns * rule.cell**2
    if covered > rule.most:
        shrink = math.sqrt(area / rule.most) * rule.cell
        rows, columns = max(1, math.floor(height / shrink)), max(1, math.floor(width / shrink))
    elif covered < rule.least:
        grow = math.sqrt(rule.least / area) / rule.cell
        rows, columns = math.ceil(height * grow), math.ceil(width * grow)
    return rows * columns + rule.frame


def _rows(rule: Rule, width: int, height: int) -> int:
    """Mistral's: cells from the top left, and a mark after each row of them."""
    scale = max(1.0, width / rule.edge, height / rule.edge)
    if scale > 1:
        width, height = math.floor(width / scale), math.floor(height / scale)
    return math.ceil(height / rule.cell) * (math.ceil(width / rule.cell) + 1)


def _tiles(rule: Rule, width: int, height: int) -> int:
    """InternVL's: the grid of tiles that is nearest in its proportions, and a small copy of the whole if there are several."""
    sides = range(1, rule.most + 1)
    grids = [(columns, rows) for columns, rows in itertools.product(sides, sides) if columns * rows <= rule.most]
    grids.sort(key=lambda grid: grid[0] * grid[1])
    best, least = 1, math.inf
    for columns, rows in grids:
        tiles = columns * rows
        difference = abs(width / height - columns / rows)
        is_nearer = difference < least
        # Among grids of the same proportions, a larger one only for a picture that fills at least half of it.
        is_filled = width * height > 0.5 * rule.tile**2 * tiles
        if is_nearer or (difference == least and is_filled):
            best, least = tiles, difference
    if best > 1:
        best += 1
    return best * rule.each + rule.frame


def _budget(rule: Rule, width: int, height: int) -> int:
    """Gemma 4's: enlarged or reduced to as many cells as the budget allows, the proportions kept."""
    scale = math.sqrt(rule.most / (width * height))
    rows, columns = max(1, math.floor(height * scale)), max(1, math.floor(width * scale))
    return rows * columns + rule.frame


def _padded(rule: Rule, width: int, height: int) -> int:
    """Kimi's: never enlarged, padded to whole cells."""
    patch = rule.cell // 2
    count = max(1, width // patch) * max(1, height // patch)
    scale = min(1.0, math.sqrt(rule.patches / count), rule.edge * patch / width, rule.edge * patch / height)
    width, height = max(1, int(width * scale)), max(1, int(height * scale))
    return math.ceil(height / rule.cell) * math.ceil(width / rule.cell) + rule.frame


def _crops(rule: Rule, width: int, height: int) -> int:
    """Phi-4's: tiles that cover the picture, padded; padding takes no tokens; rows end with a mark; one copy of the whole."""
    columns, rows = math.ceil(width / rule.tile), math.ceil(height / rule.tile)
    if columns * rows > rule.most:
        return 256 + 1 + rule.most * 256 + 16 + 16  # an upper bound: no suite shows pictures this large
    scale = min(columns * rule.tile / width, rows * rule.tile / height)
    patch = rule.cell // 2
    padded_width = columns * rule.tile - int(width * scale)
    padded_height = rows * rule.tile - int(height * scale)
    across = columns * rule.tile // patch - padded_width // patch
    down = rows * rule.tile // patch - padded_height // patch
    seen_rows, seen_columns = math.ceil(down / 2), math.ceil(across / 2)
    return 256 + 1 + seen_rows * seen_columns + seen_rows + 16


def _slices(rule: Rule, width: int, height: int) -> int:
    """MiniCPM's: a copy of the whole, and slices of a larger picture; every part has two marks, every row a line break."""

    def part(width: int, height: int) -> int:
        """Tokens of a part that is scaled to the area of a tile."""
        high = int(rule.tile / math.sqrt(width / height))
        wide = int(high * (width / height))
        return max(1, round(wide / rule.cell)) * max(1, round(high / rule.cell)) + 2

    wanted = min(math.ceil(width * height / rule.tile**2), rule.most)
    if wanted <= 1:
        return part(width, height)
    counts = [count for count in (wanted - 1, wanted, wanted + 1) if 1 < count <= rule.most]
    grids = list[tuple[int, int]]()
    for count in counts:
        grids += [(count // rows, rows) for rows in range(count, 0, -1) if count % rows == 0]
    proportion = math.log(width / height)
    columns, rows = min(grids, key=lambda grid: abs(proportion - math.log(grid[0] / grid[1])))
    slice_tokens = part(max(1, round(width / columns)), max(1, round(height / rows)))
    return part(width, height) + columns * rows * slice_tokens + rows - 1


def _bounded(rule: Rule, width: int, height: int) -> int:
    """Nemotron's: the picture's own patches, scaled into bounds, and an even number of them each way."""
    patch = rule.cell // 2
    rows, columns = math.ceil(height / patch), math.ceil(width / patch)
    shrink = min(1.0, math.sqrt(rule.most / (rows * columns)))
    rows, columns = math.floor(shrink * rows), math.floor(shrink * columns)
    if rows * columns < rule.least:
        grow = math.sqrt(rule.least / (rows * columns))
        rows, columns = math.ceil(grow * rows), math.ceil(grow * columns)
    rows += rows % 2 if (rows + rows % 2) * columns <= rule.most else -(rows % 2)
    columns += columns % 2 if rows * (columns + columns % 2) <= rule.most else -(columns % 2)
    return rows * columns // 4 + rule.frame


_RULES: Mapping[str, Callable[[Rule, int, int], int]] = {
    "grid": _grid,
    "rows": _rows,
    "tiles": _tiles,
    "fixed": lambda rule, width, height: rule.each,
    "budget": _budget,
    "padded": _padded,
    "crops": _crops,
    "slices": _slices,
    "bounded": _bounded,
}
