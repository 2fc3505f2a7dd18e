"""Watches the outcomes of a run that may stop early, and puts its queue into a balanced order."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from cluster.storage.run_directory import RunDirectory
from evals.stopping.order import games_in_order, ranks
from evals.stopping.outcomes import Outcomes, StopState


class StopWatch:
    """What the driver knows of stopping: the order of its queue, and what the rule says when it is asked."""

    def __init__(self, outcomes: Outcomes | None, order: Mapping[str, int] | None) -> None:
        """Without ``outcomes`` nothing stops early; without an order the longest episodes come first."""
        self._outcomes = outcomes
        self.ranks = order
        self._arrived: list[pa.Table] = []

    @classmethod
    def of(cls, run: RunDirectory, balanced: bool) -> StopWatch:
        """The watch of a claimed run, with what its ledger holds already."""
        stored = run.rule
        outcomes = None if stored is None else stored.outcomes_of(run.planned, run.ledger, run.attempts)
        if not balanced:
            return cls(outcomes, None)
        games = games_in_order(run.planned) if outcomes is None else outcomes.games
        return cls(outcomes, ranks(games))

    def add(self, finished: pa.Table) -> None:
        """Take finished episodes, to be looked at later."""
        if self._outcomes is not None:
            self._arrived.append(finished)

    def look(self) -> StopState | None:
        """What the rule says now; None without one. It may be called in another thread than ``add``."""
        if self._outcomes is None:
            return None
        while self._arrived:
            self._outcomes.add(self._arrived.pop(0))
        return self._outcomes.look()
