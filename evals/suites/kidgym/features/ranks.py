"""SO: where an animal stands by what is known of animals."""

from __future__ import annotations

import re

from envs.kidgym import Action
from envs.kidgym.catalog import ROMAN, words
from envs.kidgym.scene import Item
from envs.kidgym.tasks.sorting import COMPARATIVES, ENDS, SCALES, Sorting
from evals.suites.kidgym.features.senses import Values


def ranks(world: Sorting, action: Action, carried: Item) -> Values:
    """SO: where an animal stands by what is known of animals, and what rule and question make of that order."""
    scale = SCALES[world.known]
    things = [words(item.sprite) for item in (*world.scene.values(), *world.backpack)]
    names = [name for name in things if name in scale]
    ranked = sorted(names, key=scale.index)
    if world.balanced:
        # The order that the goal tells by its comparisons.
        more = COMPARATIVES[world.asked][0]
        beaten = [_loser(comparison, more) for comparison in world.comparisons]
        ranked = sorted(names, key=beaten.count)
    rank = ranked.index(words(carried.sprite)) + 1
    roman = re.search(r"\b(?:grid|position) ([IVX]+)\b", action.text)
    place = ROMAN.index(roman[1]) + 1 if roman else 0
    return {
        "text: rule and question turn the known order round": not world.balanced and _turned_round(world),
        "kind order: rank by what is known": float(rank),
        "kind order: its rank is the place's number": rank == place,
        "kind order: its rank from the end is the place's number": len(ranked) + 1 - rank == place,
    }


def _loser(comparison: str, more: str) -> str:
    """Which of two compared animals has less: ``the cat is heavier than the pig`` -> ``pig``."""
    first, word, second = comparison.removeprefix("the ").replace(" than the", "").replace(" is", "").split()
    return second if word == more else first


def _turned_round(world: Sorting) -> bool:
    """Whether rule and question together turn round the order that is known."""
    known_more, then_more = (
        COMPARATIVES[scale].index(word) for scale, word in zip((world.known, world.asked), world.rule, strict=True)
    )
    first = ENDS[world.asked].index(world.ends[0])
    return known_more ^ then_more != first
