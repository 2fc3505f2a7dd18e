"""Parts of a plan, for runs without one big cluster (``shard=i/n``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cluster.errors import UserError
from evals.types import Episode


def read_shard(shard: object) -> tuple[int, int]:
    """The i and n of ``i/n``.

    Raises:
        UserError: the shard is not of that form with 1 <= i <= n.
    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(shard))
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError(f"shard={str(shard)[:200]}: must be i/n with i from 1 to n, such as shard=2/8")
    return int(found[1]), int(found[2])


def part_of(episode_id: str, parts: int) -> int:
    """The shard, from 1 to ``parts``, that an episode belongs to."""
    return int(episode_id[:12], 16) % parts + 1


def shard_of(plan: Sequence[Episode], shard: str | None) -> tuple[Episode, ...]:
    """The part ``i/n`` of a plan: the same for everyone, disjoint from the other parts, about equally large.

    Raises:
        UserError: see ``read_shard``.
    """
    if shard is None:
        return tuple(plan)
    part, parts = read_shard(shard)
    return tuple(episode for episode in plan if part_of(episode.id, parts) == part)
