"""Which domains are about the same: by their words, not by their meaning.

Two measures, both lexical. Titles are compared as sets of character trigrams (cosine), so that "Wines", "Wine" and "Types of
wine" are alike. Contents are compared by shared names: "Raptors" with the truths Golden Eagle, Osprey and Peregrine Falcon
is found to be our birds of prey although no word of the titles agrees. A domain in other words *and* with other truths
passes. The bounds are tested on the domains that come with raycade: no two of these count as alike.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import yaml

from envs.kumo.domain_file import DOMAINS, UniqueKeysLoader
from envs.kumo.names import words

ALIKE_TITLES = 0.75
"""Cosine of titles from which two domains count as one."""
SHARED_TRUTHS = 0.4
"""Share of the smaller domain's truths that the other has, too."""
SHARED_TESTS = 0.5
_LEAST_NAMES = 3
"""Fewer names than these say nothing."""
_EMPTY_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "by",
        "for",
        "from",
        "in",
        "of",
        "on",
        "or",
        "the",
        "to",
        "type",
        "kind",
        "specie",
        "identification",
        "diagnosis",
        "game",
        "condition",
        "fault",
        "defect",
        "problem",
        "error",
        "disorder",
        "disease",
        "issue",
        "incident",
        "failure",
    ]
)
"""Left out of a title that has other words: Skin and Eye Conditions are not alike, Car Faults and Car Problems are."""


@dataclass(frozen=True)
class Profile:
    """What of a domain is compared."""

    name: str
    title: str
    truths: frozenset[tuple[str, ...]]
    tests: frozenset[tuple[str, ...]]

    @cached_property
    def trigrams(self) -> tuple[Counter[str], float]:
        """How often each run of three characters stands in the words of the title, and the length of that vector."""
        key = _key(self.title)
        kept = [word for word in key if word not in _EMPTY_WORDS] or list(key)
        counts = Counter(f" {word} "[place : place + 3] for word in kept for place in range(len(word)))
        return counts, math.sqrt(sum(count * count for count in counts.values()))

    @classmethod
    def of(cls, name: str, title: str, truths: Iterable[str], tests: Iterable[str]) -> Profile:
        """Names without regard to case, accents, punctuation and number."""
        return cls(name, title, frozenset(map(_key, truths)), frozenset(map(_key, tests)))


@dataclass(frozen=True)
class Likeness:
    """The domain that another one is most like."""

    name: str
    reason: str


def shipped_titles() -> list[str]:
    """Titles of the domains that come with raycade."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(DOMAINS.glob("*.yaml")))
    return [match[1].strip() for text in texts if (match := re.search("^title: *(.+)$", text, re.MULTILINE))]


@functools.cache
def shipped_profiles() -> tuple[Profile, ...]:
    """Those of the domains that come with raycade; their files are not validated again."""
    found = []
    for path in sorted(DOMAINS.glob("*.yaml")):
        data = yaml.load(path.read_text(encoding="utf-8"), UniqueKeysLoader)
        found.append(Profile.of(path.stem, data["title"], data["truths"], data["actions"]))
    return tuple(found)


def near_duplicate(one: Profile, others: Sequence[Profile]) -> Likeness | None:
    """The first of the others that is about the same, with the reason; None if there is none."""
    for other in others:
        if one.name == other.name:
            return Likeness(other.name, f"has the name of the domain {other.name}")
        if (cosine := title_likeness(one, other)) >= ALIKE_TITLES:
            return Likeness(other.name, f"its title is like that of {other.name} ({cosine:.2f})")
        for what, mine, theirs, most in (
            ("truths", one.truths, other.truths, SHARED_TRUTHS),
            ("tests", one.tests, other.tests, SHARED_TESTS),
        ):
            if (share := shared(mine, theirs)) >= most:
                return Likeness(other.name, f"shares {share:.0%} of its {what} with {other.name}")
    return None


def shared(mine: frozenset[tuple[str, ...]], theirs: frozenset[tuple[str, ...]]) -> float:
    """Names in common as a share of the smaller set; 0 where one is too small to tell."""
    smaller = min(len(mine), len(theirs))
    return len(mine & theirs) / smaller if smaller >= _LEAST_NAMES else 0.0


def title_likeness(one: Profile, two: Profile) -> float:
    """Cosine of the counts of character trigrams of two titles, from 0 to 1."""
    (mine, my_size), (theirs, their_size) = one.trigrams, two.trigrams
    product = sum(count * theirs[gram] for gram, count in mine.items() if gram in theirs)
    return product / (my_size * their_size) if product else 0.0


def _key(name: str) -> tuple[str, ...]:
    """The words of a name, those of several letters without a plural's ending."""
    return tuple(
        word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word for word in words(name)
    )
