"""A program as a player: what of it is part of an episode's id. It answers through ``raycade serve`` only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.engines.base import MANY, Capabilities, Engine, EngineSettingsError, Request, Sampling
from evals.types import Reply

_ELSEWHERE: Final = "model=agent: a program plays through `raycade serve`, not through `raycade run`"


class AgentEngine(Engine):
    """Stands for a program in a configuration; two versions of a program are two players, with ids of their own."""

    def __init__(self, sampling: Sampling, version: str = "", feedback: bool = False) -> None:
        """Nothing is started: the program comes to the run.

        Args:
            sampling: Not used: a program samples as it likes.
            version: Of the program, or a fingerprint of it: whatever changes when its answers may change.
            feedback: Whether it is told after each game if the game was won, from which a program with a memory can learn.
        """

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Pictures, and a label as the answer where a suite asks for label probabilities (all on one); no constraints."""
        return Capabilities(pictures=MANY, label_scores=True)

    @classmethod
    def check_environment(cls, settings: Mapping[str, Any]) -> None:
        """Refuse to be run without being served."""
        raise ValueError(_ELSEWHERE)

    async def start(self) -> None:
        """Refuse to be run without being served, on another machine too."""
        raise EngineSettingsError(_ELSEWHERE)

    async def complete(self, request: Request) -> Reply:
        """Refuse: nobody can be asked here."""
        raise EngineSettingsError(_ELSEWHERE)
