"""One episode as plain data: what was shown, replied, decoded and why; for a viewer that needs no suite code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Facts = Mapping[str, Any]
"""Names and JSON values, in the order in which they are to be read."""


@dataclass(frozen=True)
class StepView:
    """One turn of an episode."""

    shown: tuple[Mapping[str, Any], ...]
    """Messages that this turn added: role, and parts that are a text or a picture's description."""
    reply: str
    reasoning: str
    decoded: str | None
    rule: str
    """Name of the rule that read ``decoded`` out of the reply, or of why none could."""
    facts: Facts = field(default_factory=dict)
    """What else the suite knows of the step: the state after it, what perfect play would have done."""


@dataclass(frozen=True)
class EpisodeView:
    """An episode from its first turn to its outcome."""

    steps: tuple[StepView, ...]
    facts: Facts = field(default_factory=dict)


def default_view(row: Mapping[str, Any]) -> EpisodeView:
    """An episode as its stored turns tell it."""
    return EpisodeView(
        tuple(
            StepView(tuple(turn["prompt"]), turn["reply"], turn.get("reasoning") or "", turn["action"], turn["rule"])
            for turn in row["turns"]
        ),
        {name: row[name] for name in ("status", "error", "success", "steps", "budget")},
    )
