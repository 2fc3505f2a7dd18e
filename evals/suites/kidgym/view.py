"""One KidGym episode for viewers: the stored turns, and beside each the game after it and what perfect play would have done."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from envs.kidgym import Frame, World, solve
from evals.suites.kidgym.rerender import RerenderedEpisode, RerenderedStep, rerender_episode
from evals.view import EpisodeView, StepView, default_view


def view_episode(row: Mapping[str, Any]) -> EpisodeView:
    """The turns of a row, with facts where the episode can be played again; else with the cause why not."""
    view = default_view(row)
    names = ("mistake", "lost_step", "refused_steps", "miscount")
    facts = {**view.facts, **{name: row[name] for name in names if row.get(name) is not None}}
    try:
        played = rerender_episode(row)
    except ValueError as cause:
        return dataclasses.replace(view, facts={**facts, "rerendering": str(cause)})
    steps = (_known(step, *told) for step, told in zip(view.steps, _asked(played), strict=True))
    return EpisodeView(tuple(steps), facts)


def _asked(played: RerenderedEpisode) -> Iterator[tuple[int, RerenderedStep, World, Frame]]:
    """The steps that were asked: their number from 1, with the game and the picture after each."""
    worlds = [*(step.world for step in played.steps), played.end][1:]  # no step, where the first question failed
    frames = [*(step.frame for step in played.steps), played.final][1:]
    for number, step in enumerate(played.steps):
        if not step.forced:
            yield number + 1, step, worlds[number], frames[number]


def _known(view: StepView, number: int, step: RerenderedStep, after: World, picture: Frame) -> StepView:
    """A step with perfect play's, and what it lost; a step after which nothing wins has no number for that."""
    best = solve(step.world)
    left = () if after.success else solve(after)
    facts: dict[str, Any] = {"step": number, "accepted": step.accepted}
    lost, regret = False, None
    if best is None:
        facts["winnable"] = False
    elif left is None or step.chosen is None:
        lost = True
    else:
        regret = float(1 + len(left) - len(best))
    return dataclasses.replace(
        view, facts=facts, best=best[0].text if best else None, regret=regret, lost=lost, after=picture.description
    )
