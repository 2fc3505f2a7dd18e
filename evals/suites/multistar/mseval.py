"""MSEval: how sure a player is of the right answers along a chain, each weighted by how much it moves the player's answer.

The score of a question t with the parents D_t (MultiStAR, section 4; "MSEval"):

    MSEval_t = sum over j in D_t + {t} of w_j r_j,      r_j = p_j |A_j|,      w_j = exp(CMI_j) / sum_k exp(CMI_k)

p_j is the probability of the right one among the |A_j| options of question j. CMI_j of a parent is the information that its
answer has about the answer to t: t is asked once with each option of j in the place of j's answer, everything else as it
was. CMI_t, of the question itself, is the entropy of its own options. A player that guesses scores 1.

What perfect play scores depends on the weights: r_j is at most |A_j|. So scores with and without prior information are
not on one scale; their shares of what perfect play scores under the same weights are, and compare.

The paper leaves open how CMI is computed. Its five listed scores, two of them in full precision, fit one reading only: the
answers to t are taken *hard* (the most likely option), all options of j count alike, entropies are in *bits*, and the
weights are powers of e all the same. That is ``decoded``, the default; the other readings can be asked for by name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Probabilities = tuple[float, ...]
"""One per option, summing to 1."""

CONVENTIONS: Final = {
    "decoded": "hard answers, options of a parent alike, entropies in bits: reproduces the published scores",
    "natural_logs": "entropies in nats",
    "soft_distributions": "mutual information of a parent's option with the whole distribution of answers",
    "model_prior": "options of a parent, and of the question itself, weighted by the player's own probabilities",
}
"""Readings of CMI. ``decoded`` stands alone; the others may be joined: ``natural_logs+soft_distributions``."""


@dataclass(frozen=True)
class Convention:
    """How CMI is computed; see ``CONVENTIONS``."""

    natural_logs: bool = False
    soft_distributions: bool = False
    model_prior: bool = False

    @classmethod
    def named(cls, name: str) -> Convention:
        """The convention of a name, or of several joined by ``+``.

        Raises:
            ValueError: there is none of that name.
        """
        parts = name.split("+")
        all_known = CONVENTIONS.keys() >= set(parts)
        repeats = len(set(parts)) < len(parts)
        decoded_is_joined = "decoded" in parts and len(parts) > 1
        if not all_known or repeats or decoded_is_joined:
            known = ", ".join(CONVENTIONS)
            raise ValueError(
                f"no convention {name!r}; there are {known}, of which all but the first may be joined by +"
            )
        return cls(**{part: True for part in parts if part != "decoded"})


@dataclass(frozen=True)
class Asked:
    """A question as it was answered: the probability of every option, and which of them is right."""

    probabilities: Probabilities
    key: int

    @property
    def relative(self) -> float:
        """The ratio r = p |A|: the probability of the right option over that of a guess."""
        return self.probabilities[self.key] * len(self.probabilities)


@dataclass(frozen=True)
class Sweep:
    """A question repeated with each option of one parent in turn as that parent's answer.

    Attributes:
        parent: The parent as it was answered.
        answers: Index of the most likely option, per option of the parent.
        distributions: Probabilities of the question's options, per option of the parent.
    """

    parent: Asked
    answers: tuple[int, ...]
    distributions: tuple[Probabilities, ...]


@dataclass(frozen=True)
class Score:
    """An MSEval and what it was made of."""

    value: float
    weights: tuple[float, ...]
    """Of the parents, in order; what is left to 1 is the question's own."""
    informations: tuple[float, ...]
    """CMI of the parents."""
    perfect: float
    """What perfect play scores under these weights: the sum of w_j |A_j|."""

    @property
    def share(self) -> float:
        """The score as a share, 0 to 1, of what perfect play scores under the same weights."""
        return self.value / self.perfect

    @property
    def parents_weight(self) -> float:
        """Sum of the parents' weights, the paper's NCMI (its Table 4)."""
        return math.fsum(self.weights)


def complete(logprobs: Sequence[float]) -> bool:
    """Whether log-probabilities give probabilities among the options: all are known, and at least one is possible."""
    return not any(map(math.isnan, logprobs)) and math.isfinite(max(logprobs))


def option_probabilities(logprobs: Sequence[float]) -> Probabilities:
    """Probabilities among the options alone: the softmax of their log-probabilities (or logits).

    Raises:
        ValueError: one of them is not a number, or none is possible.
    """
    if not complete(logprobs):
        raise ValueError(f"no probabilities from log-probabilities {list(logprobs)}")
    highest = max(logprobs)
    powers = [math.exp(value - highest) for value in logprobs]
    total = math.fsum(powers)
    return tuple(power / total for power in powers)


def mseval(question: Asked, sweeps: Sequence[Sweep], convention: Convention | None = None) -> Score:
    """MSEval of a question with one sweep per parent; without parents it is p |A|."""
    convention = convention or Convention()
    informations = tuple(information(sweep, convention) for sweep in sweeps)
    powers = [math.exp(value) for value in (*informations, own_information(question, convention))]
    total = math.fsum(powers)
    relatives = [*(sweep.parent.relative for sweep in sweeps), question.relative]
    value = math.fsum(power / total * relative for power, relative in zip(powers, relatives, strict=True))
    most = [*(len(sweep.parent.probabilities) for sweep in sweeps), len(question.probabilities)]
    perfect = math.fsum(power / total * count for power, count in zip(powers, most, strict=True))
    return Score(value, tuple(power / total for power in powers[:-1]), informations, perfect)


def information(sweep: Sweep, convention: Convention) -> float:
    """CMI of a parent: H(option) + H(answer) - H(answer, option).

    With hard answers the answer follows from the option, and this is the entropy of the answers.
    """
    if not convention.soft_distributions:
        return entropy(_shares_of_answers(sweep, convention), convention)
    shares = _shares_of_options(sweep, convention)
    columns = zip(*sweep.distributions, strict=True)
    mixed = [_weighted_sum(shares, column) for column in columns]
    left = _weighted_sum(shares, [entropy(each, convention) for each in sweep.distributions])
    return max(0.0, entropy(mixed, convention) - left)


def _weighted_sum(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))


def _shares_of_options(sweep: Sweep, convention: Convention) -> Sequence[float]:
    """How much each option of the parent counts: what the model gives it, or all alike."""
    if convention.model_prior:
        return sweep.parent.probabilities
    options = len(sweep.parent.probabilities)
    return (1 / options,) * options


def _shares_of_answers(sweep: Sweep, convention: Convention) -> list[float]:
    """How much each answer counts that an option of the parent led to."""
    if not convention.model_prior:
        # Whole numbers, so that what was decoded to the last bit stays so.
        options = len(sweep.parent.probabilities)
        return [count / options for count in Counter(sweep.answers).values()]
    found: dict[int, list[float]] = {answer: [] for answer in sorted(set(sweep.answers))}
    for share, answer in zip(sweep.parent.probabilities, sweep.answers, strict=True):
        found[answer].append(share)
    return [math.fsum(shares) for shares in found.values()]


def own_information(question: Asked, convention: Convention) -> float:
    """CMI of the question itself: the entropy of its own options, log2 |A| where all count alike."""
    options = len(question.probabilities)
    if convention.model_prior:
        return entropy(question.probabilities, convention)
    return math.log(options) if convention.natural_logs else math.log2(options)


def entropy(probabilities: Sequence[float], convention: Convention) -> float:
    """Shannon entropy, in bits or nats."""
    log = math.log if convention.natural_logs else math.log2
    return -math.fsum(value * log(value) for value in probabilities if value > 0) + 0.0


def weight_bounds(options: int, parents: Sequence[int], convention: Convention) -> tuple[float, float]:
    """Least and greatest sum of the parents' weights that any answers can give, options counting alike.

    Parents tell most where their options lead to all answers as evenly as they can; soft distributions tell no more, since
    information is convex in them.

    Args:
        options: Number of the question's options.
        parents: Numbers of the parents' options.
        convention: Its unit matters; ``model_prior`` has other bounds.
    """
    unit = math.log if convention.natural_logs else math.log2
    own, least = math.exp(unit(options)), float(len(parents))
    most = math.fsum(math.exp(_most_information(count, options, convention)) for count in parents)
    return least / (least + own), most / (most + own)


def _most_information(count: int, options: int, convention: Convention) -> float:
    """Entropy of ``count`` hard answers over ``options``, spread as evenly as can be."""
    each, more = divmod(count, options)
    return entropy([(each + 1) / count] * more + [each / count] * (options - more), convention)
