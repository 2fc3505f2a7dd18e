"""The train/test split of a domain: two parts without a truth or a test in common, to see what carries over.

The truths and tests of a domain are a graph: a test is joined to every truth that one of its outcomes rules out. Where the
graph falls into several connected components, these can be shared out, and no rule is cut (the paper's MedicalIND and
MedicalOOD, section on the overfitting experiment). ``NAME@in`` is the larger part, to train on, ``NAME@out`` the
smaller one, to test on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

from envs.kumo.domain import Domain, DomainError

Part = Literal["in", "out"]
_Item = TypeVar("_Item")
PARTS: tuple[Part, ...] = get_args(Part)
LEAST_SHARE = 0.3
"""Of the truths, that the smaller part must hold for the split to be called balanced."""
LEAST_TRUTHS, LEAST_TESTS = 4, 6
"""That each part needs: those of an easy task."""


@dataclass(frozen=True)
class Component:
    """Truths and tests that are connected with each other and with nothing else, as positions in the domain."""

    truths: tuple[int, ...]
    tests: tuple[int, ...]


def components(domain: Domain) -> tuple[Component, ...]:
    """The connected components that have both truths and tests, largest first; ties in the domain's order."""
    groups: list[tuple[int, list[int]]] = []
    for test, states in enumerate(domain.rules_out):
        reached, tests = 0, [test]
        for gone in states:
            reached |= gone
        if not reached:
            continue
        # The test joins all groups that it has a truth in common with.
        apart = []
        for truths, others in groups:
            if truths & reached:
                reached |= truths
                tests = [*others, *tests]
            else:
                apart.append((truths, others))
        groups = [*apart, (reached, tests)]
    found = [Component(_places(truths), tuple(sorted(tests))) for truths, tests in groups]
    return tuple(sorted(found, key=lambda each: (-len(each.truths), -len(each.tests), each.truths)))


def _choices(parts: Sequence[Component]) -> dict[int, tuple[Component, ...]]:
    """By the number of truths the first choice of components that has so many."""
    reachable: dict[int, tuple[Component, ...]] = {0: ()}
    for part in parts:
        for size, chosen in list(reachable.items()):
            reachable.setdefault(size + len(part.truths), (*chosen, part))
    return reachable


def split_of(domain: Domain) -> tuple[Domain, Domain] | None:
    """The larger and the smaller part, as near to equal numbers of truths as the components allow.

    None if the domain has no balanced split: its graph is connected, or every split leaves one side with too little.
    """
    parts = components(domain)
    total = sum(len(part.truths) for part in parts)
    reachable = _choices(parts)
    # The smaller part has half of the truths at most.
    most = max(size for size in reachable if 2 * size <= total)
    smaller = reachable[most]
    larger = [part for part in parts if part not in smaller]
    split = _restricted(domain, larger, "in"), _restricted(domain, smaller, "out")
    # Each side must do for easy tasks.
    for side in split:
        if len(side.truths) < LEAST_TRUTHS:
            return None
        if len(side.actions) < LEAST_TESTS:
            return None
    # The smaller one must not be a mere rest.
    if len(split[1].truths) < LEAST_SHARE * total:
        return None
    return split


def parse_part(source: str) -> tuple[str, Part] | None:
    """Domain and part of a name such as ``reptiles@out``; None for any other name."""
    name, _, end = source.rpartition("@")
    if not name:
        return None
    return next(((name, part) for part in PARTS if end == part), None)


def part_of(domain: Domain, part: Part) -> Domain:
    """One part of a domain, which is called ``NAME@in`` or ``NAME@out``.

    Raises:
        DomainError: the domain has no balanced split; its components are described.
    """
    split = split_of(domain)
    if split is None:
        sizes = " + ".join(str(len(part.truths)) for part in components(domain))
        raise DomainError(
            [
                f"domain {domain.name!r} has no train/test split @in and @out (truths in its connected components: {sizes}); "
                f"each part needs {LEAST_SHARE:.0%} of the truths; raycade kumo lab split lists the domains that have one"
            ]
        )
    return split[PARTS.index(part)]


def _restricted(domain: Domain, parts: Iterable[Component], side: Part) -> Domain:
    """The domain with only these components, in the order of the whole one."""
    chosen = list(parts)
    truths = _picked(domain.truths, [place for part in chosen for place in part.truths])
    actions = _picked(domain.actions, [place for part in chosen for place in part.tests])
    return replace(domain, name=f"{domain.name}@{side}", truths=truths, actions=actions)


def _picked(items: Sequence[_Item], places: Sequence[int]) -> tuple[_Item, ...]:
    return tuple(items[place] for place in sorted(places))


def _places(mask: int) -> tuple[int, ...]:
    return tuple(place for place in range(mask.bit_length()) if mask >> place & 1)
