"""KidGym's paired effects: what a way of asking, or the need to remember, changes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from evals.ledger.run_data import RunData
from evals.suites.kidgym.published_environment.recording import SUFFIX
from evals.summary.independent import independent_effects
from evals.summary.paired import (
    effects_tables,
    failure_notes,
    paired_effects,
    success_observations,
)
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
        yield from effects_tables(f"kidgym_{mode}_effect", title, _CELL[1:], sides, effects, failure_notes(run))
    for memory, plain in _MEMORY.items():
        cell = ("player", "mode", "level")
        observed = (success_observations(run, cell, {"task": task}) for task in (memory, plain))
        yield from effects_tables(
            f"kidgym_{memory.lower()}_effect",
            f"KidGym: {memory} minus {plain}",
            cell[1:],
            (memory, plain),
            independent_effects(*observed),
            (
                f"{memory} and {plain} are played on different games: the two sides are independent.",
                *failure_notes(run),
            ),
        )


def environment_tables(run: RunData) -> Iterator[Table]:
    """The own games minus those of the published environment, where a run has both.

    Args:
        run: KidGym's part of a run.
    """
    if not any(task.endswith(SUFFIX) for task in pc.unique(run.plan["task"]).to_pylist()):
        return
    cell = ("player", "mode", "task", "level")
    observed = success_observations(run, cell)
    published = [
        one._replace(cell=(*one.cell[:2], one.cell[2].removesuffix(SUFFIX), one.cell[3]))
        for one in observed
        if one.cell[2].endswith(SUFFIX)
    ]
    own = [one for one in observed if not one.cell[2].endswith(SUFFIX)]
    yield from effects_tables(
        "kidgym_environment_effect",
        "KidGym: own minus published environment",
        cell[1:],
        ("own", "published"),
        independent_effects(own, published),
        ("The two environments draw different games: the two sides are independent.", *failure_notes(run)),
    )
