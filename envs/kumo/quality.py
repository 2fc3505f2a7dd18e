"""What a domain is like as material for games: sizes, structure, how much play its tasks take, how many there are."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.kumo.domain import Domain
from envs.kumo.generate import DIFFICULTIES, GenerationError, generate_tasks
from envs.kumo.search import OptimalSearch
from envs.kumo.split import components
from envs.kumo.structure import density, overlap

_DRAWS = 200
"""Choices of truths and tests over which the number of tasks is estimated."""


@dataclass(frozen=True)
class Quality:
    """Figures of one domain."""

    name: str
    category: str
    truths: int
    actions: int
    numeric: int
    """Tests that show a number."""
    outcomes: int
    idle: float
    """Share of the outcomes that rule out nothing."""
    density: float
    """Share of all pairs of an outcome and a truth in which the outcome rules the truth out."""
    overlap: float
    """How alike the truths are (``envs.kumo.structure.Structure``)."""
    components: int
    """Groups of truths that no test connects."""
    fewest: int
    """Tests that can rule out the truth that the fewest can."""
    counterfactual: float
    """Share of shown outcomes that are false of the right truth, if just one outcome of each test is true of it."""
    steps: dict[str, float | None]
    """Mean of the expected tests of perfect play, by difficulty; None if not searched, or if there are not so many tasks."""
    tasks: dict[str, float]
    """Common logarithm of the number of different tasks, by difficulty, estimated."""


def quality_of(domain: Domain, easy: int = 20, hard: int = 0) -> Quality:
    """Measure a domain.

    Args:
        domain: what to measure.
        easy: tasks to search for the mean of expected tests.
        hard: likewise; each takes a second, on average.
    """
    states = [gone for outcomes in domain.rules_out for gone in outcomes]
    against = [_actions_against(domain, place) for place in range(len(domain.truths))]
    return Quality(
        name=domain.name,
        category=domain.category,
        truths=len(domain.truths),
        actions=len(domain.actions),
        numeric=sum(action.outcome == "float" for action in domain.actions),
        outcomes=len(states),
        idle=sum(not gone for gone in states) / len(states),
        density=density(domain),
        overlap=overlap(domain),
        components=len(components(domain)),
        fewest=min(against),
        counterfactual=counterfactual_share(domain),
        steps={"easy": _mean_steps(domain, "easy", easy), "hard": _mean_steps(domain, "hard", hard)},
        tasks={difficulty: possible_tasks(domain, *size) for difficulty, size in DIFFICULTIES.items()},
    )


def counterfactual_share(domain: Domain) -> float:
    """See ``Quality.counterfactual``: a mean over all pairs of a truth and a test.

    A game shows any outcome that does not rule out the right truth, true of it or not (the paper does, too). Where a
    test leaves c such outcomes, and one of them is true of the truth, the others are shown in 1 - 1 / c of the games.
    """
    shares = []
    for outcomes in domain.rules_out:
        for place in range(len(domain.truths)):
            left = sum(not gone >> place & 1 for gone in outcomes)
            shares.append(1 - 1 / left)
    return statistics.mean(shares)


def _actions_against(domain: Domain, place: int) -> int:
    """How many actions can rule a truth out."""
    return sum(any(gone >> place & 1 for gone in outcomes) for outcomes in domain.rules_out)


def _of_sample(gone: int, sample: Sequence[int]) -> int:
    """The truths of a sample that an outcome rules out, as bits in the sample's order."""
    return sum((gone >> truth & 1) << place for place, truth in enumerate(sample))


def possible_tasks(domain: Domain, truths: int, actions: int) -> float:
    """Common logarithm of the number of different tasks that ``generate_tasks`` could draw, -inf for none.

    Each is a solution of its constraints: truths, one of them valid, tests, and for each test an outcome, so that the
    outcomes rule out every truth but the valid one. For a sample of truths and tests the outcomes are counted exactly, by
    inclusion and exclusion over the sets of wrong truths.
    """
    if truths > len(domain.truths) or actions > len(domain.actions):
        return -math.inf
    rng = random.Random(f"kumo/quality/{domain.name}/{truths}/{actions}")
    subsets = np.arange(1 << (truths - 1), dtype=np.int64)
    signs = 1 - 2 * ((truths - 1 - np.bitwise_count(subsets).astype(np.int64)) & 1)
    valid = 1 << (truths - 1)
    total = 0.0
    for _ in range(_DRAWS):
        sample = rng.sample(range(len(domain.truths)), truths)
        # By action, what each outcome rules out. Bit i: the i-th wrong truth; the last bit: the valid one.
        table: list[list[int]] = []
        related: list[int] = []
        for action, outcomes in enumerate(domain.rules_out):
            hits = [_of_sample(gone, sample) for gone in outcomes]
            table.append(hits)
            if any(hits):
                related.append(action)
        chosen = rng.sample(related, min(actions, len(related)))
        ways = math.comb(len(related), len(chosen))
        # Tests that rule out none of these truths fill up what is missing.
        others = actions - len(related)
        if others > 0:
            unrelated = [action for action in range(len(table)) if action not in related]
            chosen = chosen + rng.sample(unrelated, others)
            ways *= math.comb(len(unrelated), others)
        # Where nothing could rule out the valid truth, it would be known before the first test.
        touched = any(hit & valid for action in chosen for hit in table[action])
        if not touched:
            continue
        choices = np.ones(subsets.size)
        for action in chosen:
            allowed = np.array([hit for hit in table[action] if not hit & valid], np.int64)
            choices *= ((allowed[:, None] & ~subsets) == 0).sum(axis=0)
        total += ways * float((signs * choices).sum())
    mean = total / _DRAWS * math.comb(len(domain.truths), truths) * truths
    return math.log10(mean) if mean >= 1 else -math.inf


def _mean_steps(domain: Domain, difficulty: str, count: int) -> float | None:
    if not count:
        return None
    try:
        tasks = generate_tasks(domain, *DIFFICULTIES[difficulty], count)
    except GenerationError:  # too small for tasks of this size, or for so many
        return None
    return statistics.mean(OptimalSearch(task).expected_steps for task in tasks)
