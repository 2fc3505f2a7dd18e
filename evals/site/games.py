"""Games to look at: of each model some that failed, were cut off, lost and won, with the turns that decided them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from evals.ledger.run_data import RunData
from evals.report.episodes import Shown, select
from evals.site.parts import episode_parts
from evals.site.pictures import Album
from evals.suite import Suite
from evals.view import EpisodeView, StepView

_COSTLY: Final = 2
"""Turns that are shown since they cost most against perfect play."""


def games_of(run: RunData, suite: Suite, built_in: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """For each model episodes as the template shows them.

    Args:
        run: Of all suites.
        suite: One part.
        built_in: Players of whom no games are shown.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    album = Album()
    for shown in select(run.of(suite.name), suite, built_in).episodes:
        if shown.row["player"] not in built_in:
            found.setdefault(shown.row["player"], []).append(_parts(shown, album))
    return found


def decisive_turns(view: EpisodeView) -> dict[int, str]:
    """Numbers (from 0) of the turns that decided a game, each with the reason, in their order."""
    steps = view.steps
    if not steps:
        return {}
    found = [(0, "the first turn")]
    lost = [number for number, step in enumerate(steps) if step.lost]
    if lost:
        found.append((lost[0], "after it the game could no longer be won"))
    unread = [number for number, step in enumerate(steps) if step.decoded is None]
    if unread:
        found.append((unread[0], "the first reply in which no answer could be read"))
    for regret, number in _costly(steps)[:_COSTLY]:
        found.append((number, f"it cost {regret:.3g} {view.regret_unit} against perfect play"))
    found.append((len(steps) - 1, "the last turn"))
    # A turn may have several reasons.
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    for number, reason in found:
        reasons[number].append(reason)
    return {number: "; ".join(reasons[number]) for number in sorted(reasons)}


def _costly(steps: Sequence[StepView]) -> list[tuple[float, int]]:
    """Regret and number of the turns that cost something while the game could still be won, the worst first."""
    found = list[tuple[float, int]]()
    for number, step in enumerate(steps):
        if step.regret and not step.lost:
            found.append((step.regret, number))
    return sorted(found, key=lambda pair: (-pair[0], pair[1]))


def _parts(shown: Shown, album: Album) -> dict[str, Any]:
    """The episode for the template, its decisive turns only."""
    decisive = decisive_turns(shown.view)
    view = dataclasses.replace(shown.view, steps=tuple(shown.view.steps[number] for number in decisive))
    row = {**shown.row, "turns": [shown.row["turns"][number] for number in decisive]}
    parts = episode_parts(dataclasses.replace(shown, row=row, view=view), album)
    steps = list(_numbered(parts["steps"], decisive, len(shown.view.steps)))
    title = " · ".join(f"{name} {row[name]}" for name in ("task", "level", "mode", "index", "repeat"))
    return {**parts, "title": title, "steps": steps}


def _numbered(steps: Sequence[Mapping[str, Any]], decisive: Mapping[int, str], count: int) -> Iterator[dict[str, Any]]:
    before = -1
    for step, (number, reason) in zip(steps, decisive.items(), strict=True):
        yield {**step, "number": number + 1, "of": count, "reason": reason, "skipped": number - before - 1}
        before = number
