"""One game of KUMO as plain data: what was possible after each step, and what perfect play would have done."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from envs.kumo import Task, exact
from evals.suites.kumo.judge import CHEAP, regret_of, situation, values_after
from evals.suites.kumo.searched_game import Puzzle
from evals.view import EpisodeView, Facts, Rule, StepView, default_view


def view_game(row: Mapping[str, Any], puzzle: Puzzle) -> EpisodeView:
    """A stored game, step by step.

    Args:
        row: A ledger row as a mapping, ``turns`` included; KUMO's own columns under their short names.
        puzzle: What was played.
    """
    plain, task = default_view(row), puzzle.task
    taken: list[str] = []
    searched = row.get("regret") or []
    steps: list[StepView] = []
    shown_at: dict[str, int] = {}
    for number, step in enumerate(plain.steps):
        before = tuple(taken)
        facts, best, regret = _judged(puzzle, before, step.decoded)
        facts |= _by_guarantee(puzzle, before)
        remaining = None
        if step.decoded in task.action_names:
            regret = searched[len(taken)] if regret is None and len(taken) < len(searched) else regret
            taken.append(step.decoded)
            shown_at.setdefault(step.decoded, number)
            facts |= _shown(puzzle, step.decoded)
            remaining = situation(task, taken).survivors
        elif step.decoded is not None:
            facts["named"] = "right" if step.decoded in task.winning_truths else "wrong"
        lost = facts.get("named") == "wrong"
        steps.append(dataclasses.replace(step, facts=facts, best=best, regret=regret, lost=lost, remaining=remaining))
    game = {
        "right one": " or ".join(task.winning_truths),
        "perfect play": list(puzzle.optimal_play) if puzzle.optimum_is_cheap else None,
        "ending": row.get("ending"),
    }
    return EpisodeView(
        tuple(steps),
        {**plain.facts, **game},
        regret_unit="expected steps",
        candidates=task.truths,
        book=tuple(_book(task, shown_at)),
    )


def _judged(
    puzzle: Puzzle, taken: tuple[str, ...], decided: str | None
) -> tuple[dict[str, Any], str | None, float | None]:
    """What each test is worth where that is cheap to search, what perfect play does, and what the decision lost."""
    task = puzzle.task
    now = situation(task, taken)
    test = decided if decided in task.action_names else None
    if now.answer is not None:
        # The truth is certain: a test more is a step lost, and a wrong truth loses the game, not steps.
        lost: float | None = None
        if test:
            lost = 1.0
        elif decided in now.certain:
            lost = 0.0
        return {}, now.answer, lost
    if not now.survivors:
        # A malformed task.
        return {}, None, None
    if len(task.truths) <= CHEAP:
        values = values_after(task, taken)
        least = min(values.values())
        best = next(name for name, value in values.items() if value - least < 1e-6)
        worth = {"expected steps": {name: round(value, 3) for name, value in values.items()}}
        lost = None
        if test is not None:
            known = tuple(sorted(set(taken)))
            lost = regret_of(task, known, test)
        return worth, best, lost
    # In larger games only the one way of perfect play is known, and only where that was cheap to find.
    on_its_way = puzzle.optimum_is_cheap and puzzle.optimal_play[: len(taken)] == taken
    if not on_its_way:
        return {}, None, None
    best = puzzle.optimal_play[len(taken)]
    lost = 0.0 if test == best else None
    return {}, best, lost


def _by_guarantee(puzzle: Puzzle, taken: tuple[str, ...]) -> Facts:
    """The truth that follows although the published search does not see it, or what each test is worth, where cheap."""
    task = puzzle.task
    if not puzzle.guaranteed or situation(task, taken).answer is not None:
        return {}
    if right := exact.certain(task, taken):
        return {"follows from the guarantee": " or ".join(right)}
    values = exact.values(task, taken) if len(task.truths) <= CHEAP else {}
    worth = {name: round(value, 3) for name, value in values.items()}
    return {"expected steps by the guarantee": worth} if worth else {}


def _shown(puzzle: Puzzle, test: str) -> Facts:
    """What a test has shown and what that rules out."""
    task = puzzle.task
    place = task.position(test)
    state = task.actions[place].state_of(task.observations[place])
    outcome = task.observation_text(test)
    named = {} if state.text == outcome else {"state": state.text}  # a range, where the outcome is a number
    return {"outcome": outcome, **named, "rules out": list(state.rules_out)}


def _book(task: Task, shown_at: Mapping[str, int]) -> Iterator[Rule]:
    """The rules that the book states, with the step that needed each."""
    for action, observation in zip(task.actions, task.observations, strict=True):
        seen = action.state_of(observation)
        for state in action.states:
            used = shown_at.get(action.name) if state == seen else None
            yield Rule(action.name, state.text, tuple(state.rules_out), used)
