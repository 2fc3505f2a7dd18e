"""What the prompt's and an action's words tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from envs.kidgym import Action, World
from envs.kidgym.catalog import ROMAN, SPRITES, words
from envs.kidgym.tasks.placement import RING
from evals.suites.kidgym.features.senses import Values
from evals.suites.kidgym.mistakes import Step

DIRECTIONS: Final = tuple(RING)
NAME: Final = re.compile(
    rf"\b(?:{'|'.join(sorted(map(re.escape, dict.fromkeys(map(words, SPRITES))), key=len, reverse=True))})\b"
)
DIRECTION: Final = re.compile(rf"\b(?:{'|'.join(sorted(DIRECTIONS, key=len, reverse=True))})\b")
_WAY: Final = re.compile(r"\b(?:counter)?clockwise\b")


def said(world: World, steps: Sequence[Step]) -> Values:
    """What the prompt and the player's own actions tell, the same for all actions."""
    numbers = re.findall(r"\d+", world.goal)
    given = DIRECTION.findall(world.goal)
    values: Values = {
        "text: step": float(world.steps),
        "text: actions": float(len(world.ordered)),
        "text: goal": _without_names(world.goal),
        "text: number in the goal": float(numbers[0]) if numbers else 0.0,
        "text: last action refused": bool(steps) and not steps[-1].accepted,
    }
    if given:
        values["direction: given in the goal"] = given[0]
        values["direction: way to turn"] = "".join(_WAY.findall(world.goal))
    for verb in dict.fromkeys(step.action.verb for step in steps):
        values[f"text: done before: {verb}"] = float(sum(step.action.verb == verb for step in steps))
    return values


def _without_names(goal: str) -> str:
    """The goal without names of things and colors, numbers, directions and ways to turn, which have values of their own."""
    return re.sub(r"\d+", "0", _WAY.sub("_", DIRECTION.sub("_", NAME.sub("_", goal))))


def wording(world: World, action: Action, place: int, steps: Sequence[Step]) -> Values:
    """What the action's own words tell."""
    roman = re.search(r"\b(?:grid|position) ([IVX]+)\b", action.text)
    digit = re.search(r"label (\d+)", action.text)
    aim = _target_words(action)
    refused = {step.action.text for step in steps if not step.accepted}
    done = sum(step.accepted and _target_words(step.action) == aim for step in steps)
    return {
        "text: verb": action.verb,
        "text: place in the list": float(place),
        "text: slot": float(action.slot),
        "text: label": float(digit[1]) if digit else -1.0,
        "text: roman number": float(ROMAN.index(roman[1]) + 1) if roman else 0.0,
        "text: refused before": action.text in refused,
        "text: done before with this target": float(done),
    }


def _target_words(action: Action) -> str:
    """An action's words without the slot that it uses."""
    return re.sub(r"\bbackpack [A-D]\b", "backpack", action.text)
