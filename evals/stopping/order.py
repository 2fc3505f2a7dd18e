"""A fixed order of games in which every prefix is a balanced sample of the plan.

The order depends on the games only, so all players of a plan, and all runs of it, play in the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from evals.types import stable_hash

GameKey = tuple[str, str, int]
"""Suite, task and seed: equal for all that play the identical game, in whatever mode and however often."""


@dataclass(frozen=True, order=True)
class Game:
    """One game of a plan, with all its episodes: of all players, modes, repeats and questions."""

    key: GameKey
    stratum: tuple[str, ...]
    """What prefixes are balanced over: suite, task and level (levels, where a game has questions of several)."""
    episodes: tuple[str, ...]
    """Ids, in the order of the plan: both sides of a pair, all modes and repeats, are asked one after the other."""


def games_in_order(plan: pa.Table) -> list[Game]:
    """The games of a plan, so that each prefix holds its share of every stratum, give or take a game.

    The games of a stratum stand in the order of their hashes. The i-th of n, counted from 0, gets a place between i/n and
    (i + 1)/n that the hash draws, too, and all games are sorted by their places: a stratified systematic sample. With
    strata of equal size these are rounds of one game of each, in an order drawn anew for each round.
    """
    placed: list[tuple[float, str, Game]] = []
    for games in _strata(plan):
        # One hash gives both draws: its first half orders the stratum, its second half the place within it.
        # Of the games only: whoever plays a plan plays it in the same order.
        drawn = sorted((stable_hash("order", *game.key), game) for game in games)
        for rank, (digits, game) in enumerate(drawn):
            placed.append(((rank + int(digits[16:28], 16) / 16**12) / len(games), digits, game))
    return [game for *_, game in sorted(placed, key=lambda each: each[:2])]


def _strata(plan: pa.Table) -> list[list[Game]]:
    """The games of each stratum: of one suite and task, with the same levels."""
    episodes: dict[GameKey, list[str]] = {}
    levels: dict[GameKey, dict[str, None]] = {}
    columns = (plan[name].to_pylist() for name in ("suite", "task", "seed", "level", "episode_id"))
    for suite, task, seed, level, episode_id in zip(*columns, strict=True):
        key = (suite, task, seed)
        episodes.setdefault(key, []).append(episode_id)
        levels.setdefault(key, {})[level] = None
    strata: dict[tuple[str, ...], list[Game]] = {}
    for key, members in episodes.items():
        stratum = (key[0], key[1], *levels[key])
        strata.setdefault(stratum, []).append(Game(key, stratum, tuple(members)))
    return list(strata.values())


def ranks(games: Sequence[Game]) -> dict[str, int]:
    """The place of each episode in the queue, from 0."""
    ordered = (episode for game in games for episode in game.episodes)
    return {episode: place for place, episode in enumerate(ordered)}
