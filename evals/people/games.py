"""Which games a participant plays: each game equally often, in an order of the participant's own."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evals.suite import Suite, people_fingerprint, unassigned_games
from evals.types import Episode, stable_hash


@dataclass(frozen=True)
class Games:
    """A suite and its games before anybody is assigned to them, by their ids."""

    suite: Suite
    by_id: Mapping[str, Episode]

    @classmethod
    def of(cls, suite: Suite) -> Games:
        """All games that a suite plans.

        Raises:
            ValueError: see ``Suite.plan``.
        """
        return cls(suite, {episode.id: episode for episode in unassigned_games(suite)})

    @cached_property
    def different(self) -> tuple[str, ...]:
        """The ids of the games that people are given: of a game's repeats, which are one game to a person, the first."""
        first_repeats: dict[str, str] = {}
        for game, episode in self.by_id.items():
            whichever_repeat = dataclasses.replace(episode, repeat=0)
            first_repeats.setdefault(whichever_repeat.id, game)
        return tuple(first_repeats.values())

    def for_person(self, game: str, person: str) -> Episode:
        """A game as the episode of a person; its id depends on the words for people."""
        return self.by_id[game].assigned(person, people_fingerprint(self.suite))

    def part(self, episode: Episode) -> Suite:
        """The part of the suite that an episode belongs to."""
        return next(part for part in self.suite.parts if part.name == episode.suite)


def participants_needed(games: int, players_per_game: int, games_per_participant: int) -> int:
    """How many people it takes until every game has its players."""
    return math.ceil(games * players_per_game / min(games_per_participant, games))


def assign(
    games: Sequence[str], people: Sequence[str], games_per_participant: int, played: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """The games of some new participants: those that have the fewest players so far, drawn by chance among equals.

    Args:
        games: All ids.
        people: Pseudonyms, which decide the draws and the order.
        games_per_participant: At most all of them.
        played: How many players a game has already.
    """
    players = Counter(dict.fromkeys(games, 0) | {game: played[game] for game in games if game in played})
    assigned = {}
    for person in people:
        order = {game: stable_hash(person, game) for game in games}
        fewest = sorted(games, key=lambda game: (players[game], order[game]))[:games_per_participant]
        players.update(fewest)
        assigned[person] = tuple(sorted(fewest, key=order.__getitem__))
    return assigned
