"""Several suites played as one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals.conversation import Conversation
from evals.suite import Needs, Suite
from evals.types import Episode, Outcome


@dataclass(frozen=True)
class Bundle(Suite):
    """A suite made of suites; each plans, plays and shows its own part."""

    name: str  # type: ignore[misc]
    suites: tuple[Suite, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "suites", tuple(self.suites))
        names = [suite.name for suite in self.suites]
        if len(set(names)) < len(names):
            raise ValueError(f"suite={self.name}: the same suite occurs twice among {names}")

    @property
    def parts(self) -> tuple[Suite, ...]:
        """Its suites."""
        return self.suites

    @property
    def needs(self) -> Needs:
        """What any of its suites needs."""
        needs = [suite.needs for suite in self.suites]
        return Needs(
            pictures=max((need.pictures for need in needs), default=0),
            label_scores=any(need.label_scores for need in needs),
            context=max((need.context for need in needs), default=0),
        )

    def plan(self) -> Sequence[Episode]:
        """All suites' episodes, one suite after the other."""
        return [episode for suite in self.suites for episode in suite.plan()]

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Let the episode's own suite play it."""
        suite = next(suite for suite in self.suites if suite.name == episode.suite)
        return await suite.play(episode, conversation)
