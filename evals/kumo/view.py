"""One game of KUMO as plain data: what was possible after each step, and what perfect play would have done."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from evals.kumo.judge import CHEAP, situation, values_after
from evals.kumo.puzzle import Puzzle
from evals.view import EpisodeView, Facts, default_view


def view_game(row: Mapping[str, Any], puzzle: Puzzle) -> EpisodeView:
    """A stored game, step by step.

    Args:
        row: A ledger row as a mapping, ``turns`` included; KUMO's own columns under their short names.
        puzzle: What was played.
    """
    plain = default_view(row)
    taken: list[str] = []
    steps = []
    for step in plain.steps:
        facts: dict[str, Any] = dict(_before(puzzle, tuple(taken)))
        if step.decoded in puzzle.task.action_names:
            taken.append(step.decoded)
            facts |= _shown(puzzle, step.decoded, tuple(taken))
        elif step.decoded is not None:
            facts["named"] = "right" if step.decoded in puzzle.task.valid_truths else "wrong"
        steps.append(dataclasses.replace(step, facts=facts))
    game = {
        "right one": " or ".join(puzzle.task.valid_truths),
        "perfect play": list(puzzle.optimal_play) if puzzle.optimum_is_cheap else None,
        "ending": row.get("ending"),
    }
    return EpisodeView(tuple(steps), {**plain.facts, **game})


def _before(puzzle: Puzzle, taken: tuple[str, ...]) -> Facts:
    """What perfect play would do, and what each test is worth where that is cheap to search."""
    now = situation(puzzle.task, taken)
    if now.answer is not None:
        return {"best": now.answer}
    if len(puzzle.task.truths) <= CHEAP:
        values = values_after(puzzle.task, taken)
        least = min(values.values())
        best = next(name for name, value in values.items() if value - least < 1e-6)
        return {"best": best, "expected steps": {name: round(value, 3) for name, value in values.items()}}
    on_its_way = puzzle.optimum_is_cheap and puzzle.optimal_play[: len(taken)] == taken
    return {"best": puzzle.optimal_play[len(taken)]} if on_its_way else {}


def _shown(puzzle: Puzzle, test: str, taken: tuple[str, ...]) -> Facts:
    """What a test has shown, what that rules out, and which truths remain."""
    task = puzzle.task
    place = task.position(test)
    state = task.actions[place].state_of(task.observations[place])
    return {
        "outcome": task.observation_text(test),
        "state": state.text,
        "rules out": list(state.rules_out),
        "remaining": list(situation(task, taken).survivors),
    }
