"""One KidGym episode for viewers: the stored turns, and beside each the game after it and what perfect play would have done."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from envs.kidgym import solve
from evals.kidgym.replay import Replay, replay
from evals.view import EpisodeView, Facts, default_view


def view_episode(row: Mapping[str, Any]) -> EpisodeView:
    """The turns of a row, with facts where the episode can be played again; else with the cause why not."""
    view = default_view(row)
    names = ("mistake", "lost_step", "refused_steps", "miscount")
    facts = {**view.facts, **{name: row[name] for name in names if row.get(name) is not None}}
    try:
        played = replay(row)
    except ValueError as cause:
        return dataclasses.replace(view, facts={**facts, "replay": str(cause)})
    steps = (dataclasses.replace(step, facts=found) for step, found in zip(view.steps, _facts(played), strict=True))
    return EpisodeView(tuple(steps), facts)


def _facts(played: Replay) -> Iterator[Facts]:
    """What is known of each step that was asked."""
    frames = [*(step.frame for step in played.steps), played.final][1:]  # no step, where the first question failed
    for number, (step, after) in enumerate(zip(played.steps, frames, strict=True), 1):
        if not step.forced:
            best = solve(step.world)
            yield {
                "step": number,
                "accepted": step.accepted,
                "perfect play": best[0].text if best else "nothing wins any more",
                "after": after.description,
            }
