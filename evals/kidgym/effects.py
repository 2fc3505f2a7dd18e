"""KidGym's paired effects: what a way of asking, a resolution, or the need to remember changes."""

from __future__ import annotations

from collections.abc import Iterator

from evals.paired import effects_tables, independent_effects, paired_effects, success_observations
from evals.run_data import RunData
from evals.tables import Table

_CELL = ("player", "task", "level")
_NAMES = {"zero_shot": "zero-shot", "cot": "CoT", "icl": "ICL"}
_MEMORY = {"MFI": "FI", "MMA": "MA"}


def effect_tables(run: RunData) -> Iterator[Table]:
    """CoT and ICL minus zero-shot on identical games; MFI minus FI and MMA minus MA on like ones.

    Args:
        run: KidGym's part of a run.
    """
    zero_shot = success_observations(run, _CELL, {"mode": "zero_shot"})
    for mode in ("cot", "icl"):
        effects = paired_effects(success_observations(run, _CELL, {"mode": mode}), zero_shot)
        title = f"KidGym: {_NAMES[mode]} minus zero-shot on the same games"
        sides = (_NAMES[mode], _NAMES["zero_shot"])
        yield from effects_tables(f"kidgym_{mode}_effect", title, _CELL[1:], sides, effects)
    for memory, plain in _MEMORY.items():
        cell = ("player", "mode", "level")
        observed = (success_observations(run, cell, {"task": task}) for task in (memory, plain))
        yield from effects_tables(
            f"kidgym_{memory.lower()}_effect",
            f"KidGym: {memory} minus {plain}",
            cell[1:],
            (memory, plain),
            independent_effects(*observed),
            (f"{memory} and {plain} are played on different games: the two sides are independent.",),
        )


def resolution_tables(fine: RunData, coarse: RunData, pixels: tuple[int, int] = (96, 32)) -> Iterator[Table]:
    """What a finer picture adds, from two runs on identical games.

    Args:
        fine: KidGym's part of the run with the larger cells.
        coarse: That of the run with the smaller ones.
        pixels: Of a cell's edge, in both.
    """
    cell = ("player", "mode", "task", "level")
    sides = (f"{pixels[0]} px", f"{pixels[1]} px")
    effects = paired_effects(success_observations(fine, cell), success_observations(coarse, cell))
    title = f"KidGym: {sides[0]} minus {sides[1]} a cell on the same games"
    return effects_tables("kidgym_resolution_effect", title, cell[1:], sides, effects)
