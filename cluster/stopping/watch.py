"""Watches the outcomes of a run that may stop early, and puts its queue into a balanced order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from cluster.storage.run_directory import RunDirectory
from evals.stopping.order import games_in_order, ranks
from evals.stopping.outcomes import Outcomes, StopState
from evals.types import Episode


class StopWatch:
    """What a session knows of stopping: the order of its queue, and what the rule says when it is asked.

    There is one for a session, whoever plays in it: a person, programs, the driver.
    """

    def __init__(
        self, outcomes: Outcomes | None, order: Mapping[str, int] | None, waits_for_baseline: bool = False
    ) -> None:
        """Nothing has been played in the session.

        Args:
            outcomes: What the rule looks at; without them nothing stops early.
            order: The places of the episodes in the queue, by id; without it the longest episodes come first.
            waits_for_baseline: Whether the rule compares the model with another player of the run.
        """
        self._outcomes = outcomes
        self.ranks = order
        self.waits_for_baseline = waits_for_baseline
        """Whether the rule can say nothing before that player has played; so it plays first where the model is dear."""
        self._arrived: list[pa.Table] = []

    @classmethod
    def of(cls, run: RunDirectory, balanced: bool) -> StopWatch:
        """The watch of a claimed run, with what its ledger holds already."""
        stored = run.rule
        outcomes = None if stored is None else stored.outcomes_of(run.planned, run.ledger, run.attempts)
        waits_for_baseline = stored is not None and stored.compares_within_run
        if not balanced:
            return cls(outcomes, None, waits_for_baseline)
        games = games_in_order(run.planned) if outcomes is None else outcomes.games
        return cls(outcomes, ranks(games), waits_for_baseline)

    def in_order(self, episodes: Sequence[Episode]) -> list[Episode]:
        """Episodes in the order of the queue; in that of the plan where it has none of its own."""
        order = self.ranks
        return list(episodes) if order is None else sorted(episodes, key=lambda episode: order[episode.id])

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

    def needed_of(self, episodes: Sequence[Episode]) -> list[Episode]:
        """Those of these episodes that the rule still needs; all of them without one."""
        state = self.look()
        return [episode for episode in episodes if state is None or episode.id in state.needed]
