"""How many calls, prompt tokens and pictures an episode is expected to take; it orders the queue and checks engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from envs.kidgym import TASKS, World
from envs.picture import Picture
from evals.presentation import Presentation
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
    of_levels = CALLS.get(world.name, world.budgets)
    return of_levels[world.level - 1] if world.level <= len(of_levels) else world.budget


def expected_tokens(world: World, question: Chat, example: Sequence[Part], grows: bool, afresh: bool) -> float:
    """Prompt tokens of an episode, summed over all calls.

    Args:
        world: The game at its beginning.
        question: Its first question.
        example: The worked example in it.
        grows: Whether later questions show earlier steps.
        afresh: Whether each is asked afresh all the same, with one more picture (a user's ``chat.yaml``).
    """
    calls, first = expected_calls(world), tokens(question)
    if not grows:
        return calls * first
    if afresh:
        return calls * first + _tokens_of((world.frame,)) * sum(range(1, round(calls) + 1))
    shared = tokens(question[:1]) + _tokens_of(example)
    step = first - shared + _REPLY_TOKENS
    return calls * shared + step * sum(min(calls, number) + 1 for number in range(1, round(calls) + 1))


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
    return sum(
        picture_tokens(part) if isinstance(part, Picture) else len(part) / _CHARACTERS_PER_TOKEN for part in parts
    )
