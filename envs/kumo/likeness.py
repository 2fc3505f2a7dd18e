"""Near-duplicate domains: much the same truths, or the same rules under other names.

New domains are worth something only if they differ. Names are compared as ``names.words`` reads them. Rules are compared
without any names, by the patterns of the tests: how many truths each of a test's outcomes rules out. A renamed copy has all
patterns in common with its original, whatever the order, and an edited copy most of them; domains that were written apart
share few.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envs.kumo.domain import Domain
from envs.kumo.names import words

SAME_NAMES = 0.5
"""Share of the smaller domain's truths from which two domains are near-duplicates."""
SAME_RULES = 0.5
"""Share of the patterns in common, likewise."""


@dataclass(frozen=True)
class _Known:
    """What of a domain is compared."""

    domain: Domain
    names: frozenset[tuple[str, ...]]
    patterns: Counter[tuple[int, ...]]
    """For each test how many truths its outcomes rule out, in ascending order."""

    @classmethod
    def of(cls, domain: Domain) -> _Known:
        patterns = Counter(tuple(sorted(gone.bit_count() for gone in outcomes)) for outcomes in domain.rules_out)
        return cls(domain, frozenset(map(words, domain.truths)), patterns)

    def shared_names(self, other: _Known) -> float:
        """Share of the truths of the smaller domain whose names the other one has, too."""
        return len(self.names & other.names) / min(len(self.names), len(other.names))

    def shared_rules(self, other: _Known) -> float:
        """Share of patterns in common among the patterns of either domain."""
        return (self.patterns & other.patterns).total() / (self.patterns | other.patterns).total()


def near_duplicates(domains: Iterable[Domain]) -> Iterator[tuple[Domain, Domain, str]]:
    """Pairs of domains, the later one first, each with what they share in words."""
    for earlier, later in itertools.combinations(map(_Known.of, domains), 2):
        if (names := earlier.shared_names(later)) >= SAME_NAMES:
            yield later.domain, earlier.domain, f"{names:.0%} of the names of its truths"
        elif (rules := earlier.shared_rules(later)) >= SAME_RULES:
            yield later.domain, earlier.domain, f"{rules:.0%} of its rules, under other names"
