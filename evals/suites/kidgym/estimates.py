"""How many calls, prompt tokens and pictures an episode is expected to take; it orders the queue and checks engines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from envs.kidgym import TASKS, World
from envs.picture import Picture
from evals.presentation import History, Presentation, told
from evals.suite import picture_tokens
from evals.suites.kidgym.presentation import shown_history
from evals.types import Chat, Part

CALLS: Final[Mapping[str, tuple[float, float, float]]] = {
    "CL": (4, 8, 12),
    "SE": (1, 2, 3),
    "SO": (1, 2, 3),
    "MA": (2, 4, 6),
    "FI": (1, 2, 3),
    "PU": (1, 2, 3),
    "PL": (1, 1, 1),
    "CO": (2.2, 3.0, 3.5),
    "DMA": (3.5, 5, 7),
    "MMA": (3, 4.5, 6.5),
    "MDE": (1, 1, 1),
    "MFI": (1, 2, 3),
}
"""Model calls of an episode, by task and level: steps without those that leave no choice."""

_LAST_STEP: Final = {"MDE": 2}
"""Memory tasks that end before their budget of steps, whatever is chosen."""

_CHARACTERS_PER_TOKEN: Final = 4
_REPLY_TOKENS: Final = 8
"""A past answer in a chat that grows."""


def expected_calls(world: World) -> float:
    """Model calls of an episode of the world's task and level."""
    of_levels = CALLS.get(world.name, ())
    if world.level <= len(of_levels):
        return of_levels[world.level - 1]
    # Memory tasks begin with a step that is not asked.
    return min(world.budget, _LAST_STEP.get(world.name, world.budget)) - world.memory


def expected_tokens(world: World, question: Chat, earlier: float, history: History) -> float:
    """Prompt tokens of an episode, summed over all calls.

    Args:
        world: The game at its beginning.
        question: Its first question.
        earlier: Prompt tokens of each earlier step that a question shows.
        history: How many earlier steps a question shows.
    """
    calls = expected_calls(world)
    most_earlier: float
    match history:
        case "none":
            most_earlier = 0
        case "all":
            most_earlier = math.inf
        case _:
            most_earlier = history
    # Memory tasks begin with a step that is not asked, and shown all the same.
    shown = sum(min(answered + world.memory, most_earlier) for answered in range(round(calls)))
    return calls * tokens(question) + earlier * shown


def earlier_tokens(question: Chat, presentation: Presentation) -> float:
    """Prompt tokens of an earlier step and its answer, from a first question without a worked example."""
    parts = question[-1].parts
    if presentation.past_pictures == "text":
        parts = told(parts, "text", presentation.detail)
    return _tokens_of(parts) + _REPLY_TOKENS


def most_frames(task: str, levels: Sequence[int], presentation: Presentation) -> int:
    """Pictures of the game itself in the longest prompt of a task."""
    history = shown_history(presentation, TASKS[task].memory)
    if history == "none" or presentation.past_pictures == "text":
        return 1
    longest = max(TASKS[task].budgets[level - 1] for level in levels)
    longest = min(longest, _LAST_STEP.get(task, longest))
    return longest if history == "all" else min(longest, history + 1)


def tokens(chat: Chat) -> float:
    """Prompt tokens of a chat, roughly; a picture's as the model counts them."""
    return sum(_tokens_of(message.parts) for message in chat)


def _tokens_of(parts: Sequence[Part]) -> float:
    return sum(_tokens_of_part(part) for part in parts)


def _tokens_of_part(part: Part) -> float:
    if isinstance(part, Picture):
        return picture_tokens(part)
    return len(part) / _CHARACTERS_PER_TOKEN
