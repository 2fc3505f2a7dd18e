"""Several suites played as one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from evals.contracts import Episode, Outcome, Suite
from evals.conversation import Conversation
from evals.tables import Table


@dataclass(frozen=True)
class Bundle:
    """A suite made of suites; each plans, plays and scores its own part."""

    name: str
    suites: tuple[Suite, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "suites", tuple(self.suites))
        names = [suite.name for suite in self.suites]
        if len(set(names)) < len(names):
            raise ValueError(f"suite={self.name}: the same suite occurs twice among {names}")

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns of all its suites."""
        return {name: kind for suite in self.suites for name, kind in suite.columns.items()}

    def plan(self) -> Sequence[Episode]:
        """All suites' episodes, one suite after the other."""
        return [episode for suite in self.suites for episode in suite.plan()]

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Let the episode's own suite play it."""
        suite = next(suite for suite in self.suites if suite.name == episode.suite)
        return await suite.play(episode, conversation)

    def score(self, plan: pa.Table, ledger: pa.Table) -> Sequence[Table]:
        """All suites' tables."""
        return [
            table for suite in self.suites for table in suite.score(_only(plan, suite.name), _only(ledger, suite.name))
        ]

    def timing_tables(self, ledger: pa.Table) -> Sequence[Table]:
        """What those suites that look at it say about how the run went."""
        suites = [(suite.name, suite.timing_tables) for suite in self.suites if hasattr(suite, "timing_tables")]
        return [table for name, timing_tables in suites for table in timing_tables(_only(ledger, name))]


def _only(table: pa.Table, suite: str) -> pa.Table:
    return table.filter(pc.equal(table["suite"], suite))
