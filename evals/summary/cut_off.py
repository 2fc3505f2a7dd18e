"""Replies that ended before the model was done, counted over a run: where there are many, scores mean less."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from evals.ledger.run_data import RunData

TOLERATED: Final = 0.02
"""Share of a player's episodes of one suite with a reply that was cut off, above which a run warns."""


@dataclass
class CutOff:
    """One player's episodes of one suite."""

    episodes: int = 0
    """Done or failed."""
    affected: int = 0
    """Of these, with a reply that was cut off."""
    replies: int = 0
    """That were cut off."""


def count_cut_off(run: RunData) -> dict[tuple[str, str], CutOff]:
    """Counts for each player and suite that has played, in an order that does not depend on the ledger's."""
    counts: defaultdict[tuple[str, str], CutOff] = defaultdict(CutOff)
    for rows in run.batches(["player", "suite", "cut_off"]):
        columns = (rows[name].to_pylist() for name in ("player", "suite", "cut_off"))
        for player, suite, cut_off in zip(*columns, strict=True):
            count = counts[player, suite]
            count.episodes += 1
            count.affected += cut_off > 0
            count.replies += cut_off
    return dict(sorted(counts.items()))


def cut_off_warnings(counts: dict[tuple[str, str], CutOff]) -> list[str]:
    """One sentence for each player and suite with too many."""
    return [
        f"{player}, {suite}: {count.affected:,} of {count.episodes:,} episodes ({count.affected / count.episodes:.1%}) have "
        f"replies that were cut off at the token limit ({count.replies:,} in all): raise model.sampling.max_tokens"
        for (player, suite), count in counts.items()
        if count.affected > TOLERATED * count.episodes
    ]
