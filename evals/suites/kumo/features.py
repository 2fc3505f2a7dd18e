"""What can be told of each name that a KUMO player may say, as plain data: what the search for shortcuts learns from.

Senses: ``text`` (names, lists and the player's own tests), ``book`` (what outcomes rule out) and ``outcomes`` (what the
tests taken have shown). Nothing here knows the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.kumo import Task
from evals.types import OptionFeatures


def option_features(task: Task, taken: Sequence[str]) -> list[OptionFeatures]:
    """The values of each test and truth, in the order in which they are listed.

    Args:
        task: What is played.
        taken: The tests taken so far, repeated ones included.
    """
    possible = frozenset(task.survivors(task.shown(taken)))
    everything = frozenset(task.truths)
    shared = {
        "text: tests taken": float(len(taken)),
        "text: truths": float(len(task.truths)),
        "book outcomes: truths that are still possible": float(len(possible)),
    }
    found = []
    for place, (name, action) in enumerate(zip(task.action_names, task.actions, strict=True)):
        ruled_out = [frozenset(state.rules_out) for state in action.states]
        left = [len(possible - each) for each in ruled_out if possible - each]
        found.append(
            OptionFeatures(
                name,
                {
                    **shared,
                    "text: kind": "test",
                    "text: place in its list": float(place),
                    "text: taken before": name in taken,
                    "book: most truths that an outcome rules out": float(
                        max(len(each & everything) for each in ruled_out)
                    ),
                    "book: outcomes": float(len(ruled_out)),
                    "book outcomes: most truths left after it": float(max(left, default=0)),
                    "book outcomes: truths left after it on average": _mean_left(left),
                },
            )
        )
    for place, name in enumerate(task.truths):
        against = [sum(name in state.rules_out for state in action.states) for action in task.actions]
        found.append(
            OptionFeatures(
                name,
                {
                    **shared,
                    "text: kind": "truth",
                    "text: place in its list": float(place),
                    "book: outcomes that rule it out": float(sum(against)),
                    "book: tests that can rule it out": float(sum(count > 0 for count in against)),
                    "book outcomes: still possible": name in possible,
                    "book outcomes: the only one possible": possible == {name},
                },
            )
        )
    return found


def _mean_left(left: Sequence[int]) -> float:
    """Truths left on average, an outcome being as likely as it leaves truths (Eq. 2 of the paper)."""
    return sum(size * size for size in left) / max(1, sum(left))
