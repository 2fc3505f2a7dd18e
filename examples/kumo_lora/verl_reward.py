"""The reward of verl for `raycade kumo lab trajectories --format verl-steps`: 1 for a move that is best, else 0.

reward.custom_reward_function.path=examples/kumo_lora/verl_reward.py
"""

from __future__ import annotations

import json
from typing import Any

from evals.suites.kumo.decode import decode


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """Whether a reply, read as a run reads it, takes one of the best tests or names a truth that is certain.

    Args:
        data_source: Of the row, ``raycade/kumo``.
        solution_str: The reply.
        ground_truth: JSON with the ``best`` moves, and the ``tests`` and ``truths`` of the game.
        extra_info: Which decision of which game it is.
    """
    known = json.loads(ground_truth)
    return float(decode(solution_str, known["tests"], known["truths"]).name in known["best"])
