"""Which domains are about the same: by words and by rules, not by meaning.

New domains are worth something only if they differ. Four things are compared: titles as character trigrams ("Wines" and
"Types of wine" are alike), names of truths and of tests ("Raptors" with the truths Golden Eagle, Osprey and Peregrine Falcon
is found to be our birds of prey), and the rules without any names: how many truths each outcome of each test rules out. A
renamed copy has all these patterns in common with its original, whatever the order; domains that were written apart share
few. The bounds are tested on the domains that come with raycade: no two of these count as alike.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from envs.files import read_yaml
from envs.kumo.domain import Domain
from envs.kumo.domain_file import DOMAINS
from envs.kumo.names import words

ALIKE_TITLES = 0.75
"""Cosine of titles from which two domains are near-duplicates."""
SHARED_TRUTHS = 0.4
"""Share of the smaller domain's truths that the other has, too, likewise."""
SHARED_TESTS = 0.5
SHARED_RULES = 0.5
"""Share of the patterns of either domain that both have."""
_LEAST_NAMES = 3
"""Fewer names than these say nothing."""
_EMPTY_WORDS = frozenset(
    """
    a an and by for from in of on or the to type kind specie identification diagnosis game condition
    fault defect problem error disorder disease issue incident failure
    """.split()  # noqa: SIM905
)
"""Left out of a title that has other words: Skin and Eye Conditions are not alike, Car Faults and Car Problems are."""

_Key = tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """What of a domain is compared."""

    name: str
    title: str
    truths: frozenset[_Key]
    tests: frozenset[_Key]
    rules: Counter[tuple[int, ...]] = field(default_factory=Counter, hash=False)
    """For each test how many truths its outcomes rule out, in ascending order; empty while they are not known."""

    @classmethod
    def of(cls, name: str, title: str, truths: Iterable[str], tests: Iterable[str]) -> Profile:
        """Names without regard to case, accents, punctuation and number."""
        return cls(name, title, frozenset(map(_key, truths)), frozenset(map(_key, tests)))

    @classmethod
    def of_domain(cls, domain: Domain) -> Profile:
        """All that is compared, rules included."""
        rules = Counter(tuple(sorted(gone.bit_count() for gone in outcomes)) for outcomes in domain.rules_out)
        tests = (action.name for action in domain.actions)
        return cls(domain.name, domain.title, frozenset(map(_key, domain.truths)), frozenset(map(_key, tests)), rules)

    @cached_property
    def trigrams(self) -> tuple[Counter[str], float]:
        """How often each run of three characters stands in the words of the title, and the length of that vector."""
        key = _key(self.title)
        kept = [word for word in key if word not in _EMPTY_WORDS]
        if not kept:
            kept = list(key)
        counts = Counter(f" {word} "[place : place + 3] for word in kept for place in range(len(word)))
        return counts, math.sqrt(sum(count * count for count in counts.values()))


def likeness(one: Profile, other: Profile) -> str:
    """What makes two domains near-duplicates, as the end of a sentence about the first; empty if nothing does."""
    for what, mine, theirs, bound in (
        ("truths", one.truths, other.truths, SHARED_TRUTHS),
        ("tests", one.tests, other.tests, SHARED_TESTS),
    ):
        share = shared(mine, theirs)
        if share >= bound:
            return f"shares {share:.0%} of the names of its {what}"
    share = shared_rules(one, other)
    if share >= SHARED_RULES:
        return f"shares {share:.0%} of its rules, under other names"
    if one.name == other.name:
        return "has the same name"
    cosine = title_likeness(one, other)
    if cosine >= ALIKE_TITLES:
        return f"has a title that is much the same (likeness {cosine:.2f})"
    return ""


def near_duplicate(one: Profile, others: Iterable[Profile]) -> str:
    """Why a domain is a near-duplicate of the first of the others that it is like; empty if it is like none."""
    for other in others:
        reason = likeness(one, other)
        if reason:
            return f"a near-duplicate of {other.name!r}: it {reason}"
    return ""


def near_duplicates(domains: Sequence[Domain]) -> Iterator[tuple[Domain, str]]:
    """The domains that are near-duplicates of earlier ones, each with the reason."""
    profiles = [Profile.of_domain(domain) for domain in domains]
    for place, other in itertools.combinations(range(len(domains)), 2):
        reason = near_duplicate(profiles[other], [profiles[place]])
        if reason:
            yield domains[other], reason


@functools.cache
def shipped_profiles() -> tuple[Profile, ...]:
    """Those of the domains that come with raycade, without rules; their files are not validated again."""
    found = []
    for path in sorted(DOMAINS.glob("*.yaml")):
        data = read_yaml(path)
        found.append(Profile.of(path.stem, data["title"], data["truths"], data["actions"]))
    return tuple(found)


def shipped_titles() -> list[str]:
    """Titles of the domains that come with raycade, read without the rest."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(DOMAINS.glob("*.yaml")))
    matches = (re.search("^title: *(.+)$", text, re.MULTILINE) for text in texts)
    return [match[1].strip() for match in matches if match]


def shared(mine: frozenset[_Key], theirs: frozenset[_Key]) -> float:
    """Names in common as a share of the smaller set; 0 where one is too small to tell."""
    smaller = min(len(mine), len(theirs))
    return len(mine & theirs) / smaller if smaller >= _LEAST_NAMES else 0.0


def shared_rules(one: Profile, other: Profile) -> float:
    """Patterns of rules in common as a share of those of either domain; 0 where one is not known."""
    either = (one.rules | other.rules).total()
    return (one.rules & other.rules).total() / either if one.rules and other.rules else 0.0


def title_likeness(one: Profile, two: Profile) -> float:
    """Cosine of the counts of character trigrams of two titles, from 0 to 1."""
    (mine, my_size), (theirs, their_size) = one.trigrams, two.trigrams
    product = sum(count * theirs[gram] for gram, count in mine.items() if gram in theirs)
    return product / (my_size * their_size) if product else 0.0


def _key(name: str) -> _Key:
    """The words of a name, those of several letters without a plural's ending."""
    key = []
    for word in words(name):
        plural = len(word) > 3 and word.endswith("s") and word[-2] != "s"
        key.append(word[:-1] if plural else word)
    return tuple(key)
