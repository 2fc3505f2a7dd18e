"""Which options are offered, so that nothing but the picture tells which of them is true.

Two ways of drawing:

``uniform``, as published: wrong options are drawn uniformly from all answers there are. Then an answer that is never true
is offered as often as the others, and who knows how often each answer is true needs no picture.

``balanced``: an answer is offered exactly as often as it is the key. Let p(a) be the share of questions with the true
answer a, and n the number of options. A set S is drawn with inclusion probabilities n p(a) (random systematic sampling),
on condition that the truth is in it. Then every option of every set is the key with probability 1/n: the joint
probability of set and key is q(S) / n, whichever the key. No p(a) may be above 1/n for that; of questions with an answer
that is true more often, only a share counts. Fewer options are offered where else too few would count; and where one
answer is nearly always true (one object in a part with one position), none counts.

Where statements hold together, as rules on positions do, the condition on the truth is not all: a set with another true
statement is refused as well, which makes the sets tell. ``by_sets`` draws such questions from ``option_sets.json``, where
``python -m benchmarks.multistar_sets`` has solved for sets each option of which is the key equally often; all other
questions as ``balanced`` does.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

from evals.suites.multistar.questions.question import Draft

Drawing = Literal["balanced", "uniform", "by_sets"]

LEAST_SHARE = 0.4
"""Of all questions of a kind, the share that must count; else one option fewer is offered."""
LEAST_RATE = 0.002
"""Answers that are true less often are not offered as wrong."""
_TRIES = 200
_FILE = Path(__file__).with_name("answer_rates.json")
_SETS_FILE = Path(__file__).with_name("option_sets.json")

Rates = Mapping[str, float]
"""How often each answer is true, of all questions of one kind."""


@functools.cache
def answer_rates() -> Mapping[str, Mapping[str, Rates]]:
    """By configuration and kind of question (its name, and the hint in its words after a bar).

    They were counted on generated problems by ``python -m benchmarks.multistar_rates``.
    """
    rates: Mapping[str, Mapping[str, Rates]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return rates


@functools.cache
def option_sets() -> Mapping[str, Sequence[tuple[list[str], float]]]:
    """By configuration, kind and case, the sets of options with the share of such questions that are asked with each."""
    held = json.loads(_SETS_FILE.read_text(encoding="utf-8"))
    return {case: [(chosen, share) for *chosen, share in entries] for case, entries in held.items()}


@functools.cache
def _kinds_with_sets() -> frozenset[str]:
    return frozenset(case.rpartition(" ")[0] for case in option_sets())


def excluded(draft: Draft) -> frozenset[str]:
    """The statements that must not stand beside the truth: those that are true as well."""
    return frozenset(draft.say) - {draft.truth, *draft.untrue}


def case_name(truth: str, beside: Iterable[str]) -> str:
    """A truth and what must not stand beside it, as ``option_sets`` names them."""
    return "/".join([truth, *sorted(beside)])


def kind_of(name: str, draft: Draft) -> str:
    """What the rates of a question's answers go by."""
    return f"{name}|{draft.hint}" if draft.hint else name


@dataclass(frozen=True)
class Balance:
    """How options of one kind of question are drawn."""

    count: int
    """Number of options; 0 where no question of the kind counts."""
    kept: Mapping[str, float]
    """Per answer, the share of the questions with this key that count."""
    inclusion: Mapping[str, float]
    """Per answer, the probability that a set of options has it."""


_NOTHING = Balance(0, {}, {})


def balance(rates: Rates, most: int) -> Balance:
    """The most options, ``most`` at best, with which ``LEAST_SHARE`` of the questions count."""
    common = {answer: rate for answer, rate in rates.items() if rate >= LEAST_RATE}
    for count in range(min(most, len(common)), 1, -1):
        cap = _cap(sorted(common.values(), reverse=True), count)
        capped = {answer: min(rate, cap) for answer, rate in common.items()}
        share = sum(capped.values())
        if share >= LEAST_SHARE:
            kept = {answer: value / common[answer] for answer, value in capped.items()}
            return Balance(count, kept, {answer: count * value / share for answer, value in capped.items()})
    return _NOTHING


def _cap(falling: Sequence[float], count: int) -> float:
    """The rate to cut others down to, so that none is more than 1 / ``count`` of what is left."""
    for above in range(count):
        cap = sum(falling[above:]) / (count - above)
        if falling[above] <= cap:
            return cap
    raise AssertionError("the last of them is its own cap")


@functools.lru_cache(maxsize=4096)
def _balance_of(configuration: str, kind: str, most: int) -> Balance:
    return balance(answer_rates().get(configuration, {}).get(kind, {}), most)


@dataclass(frozen=True)
class Drawn:
    """The options of one question."""

    options: tuple[str, ...]
    key: int
    counts: bool
    rates: tuple[float, ...]


def draw_options(rng: random.Random, configuration: str, name: str, draft: Draft, drawing: Drawing) -> Drawn:
    """Options for a draft in random order.

    Args:
        rng: Chance, of this question's options only.
        configuration: Folder name; decides with ``name`` how often which answer is true.
        name: Of the question within its puzzle.
        draft: The question.
        drawing: ``balanced``, ``uniform`` or ``by_sets``.
    """
    kind = kind_of(name, draft)
    rates = answer_rates().get(configuration, {}).get(kind, {})
    counts = True
    # These stand where no better ones are found.
    chosen = _uniform(rng, draft)
    set_key = f"{configuration} {kind}"
    if drawing == "by_sets" and set_key in _kinds_with_sets():
        drawn = _from_sets(rng, set_key, draft)
        counts = draft.counts and drawn is not None
        if drawn:
            chosen = drawn
    elif drawing != "uniform":
        plan = _balance_of(configuration, kind, draft.count)
        drawn = _balanced(rng, draft, plan)
        counts = draft.counts and drawn is not None
        if counts:
            # Answers that would be right too often are kept at a rate only; a question that is not kept is a link.
            counts = rng.random() < plan.kept[draft.truth]
        if drawn:
            chosen = drawn
    rng.shuffle(chosen)
    words = tuple(draft.say.get(answer, answer) for answer in chosen)
    rates_of_options = tuple(rates.get(answer, 0.0) for answer in chosen)
    return Drawn(words, chosen.index(draft.truth), counts, rates_of_options)


def _uniform(rng: random.Random, draft: Draft) -> list[str]:
    fixed = [draft.fixed] if draft.fixed in draft.untrue else []
    others = [answer for answer in draft.untrue if answer != draft.fixed]
    return [draft.truth, *fixed, *rng.sample(others, min(draft.count - 1 - len(fixed), len(others)))]


def _from_sets(rng: random.Random, kind: str, draft: Draft) -> list[str] | None:
    """One of the sets of the question's case; None for the share of such questions that are not asked."""
    case = f"{kind} {case_name(draft.truth, excluded(draft))}"
    chance = rng.random()
    for chosen, share in option_sets().get(case, ()):
        chance -= share
        if chance < 0:
            return [*chosen]
    return None


def _balanced(rng: random.Random, draft: Draft, plan: Balance) -> list[str] | None:
    """A set with the truth and without what is also true or must not stand beside it; None if there seems to be none."""
    if plan.inclusion.get(draft.truth, 0.0) == 0.0:
        return None
    allowed = {draft.truth, *draft.untrue}
    chosen: list[str] = []
    for _ in range(_TRIES):
        chosen = _systematic(rng, plan.inclusion)
        if draft.truth in chosen and allowed.issuperset(chosen):
            return chosen
    return None


def _systematic(rng: random.Random, inclusion: Mapping[str, float]) -> list[str]:
    """A sample of fixed size in which each answer is with its own probability."""
    answers = rng.sample(list(inclusion), len(inclusion))
    start, chosen = rng.random(), list[str]()
    for answer, end in zip(answers, accumulate(inclusion[answer] for answer in answers), strict=True):
        if end > start + len(chosen):
            chosen.append(answer)
    return chosen
