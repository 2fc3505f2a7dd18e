"""How much MultiStAR's questions give away to a text-only player.

Run: nice python -m benchmarks.multistar_blind [training] [test]

A learner sees the texts, options and answers of all questions on ``training`` problems per configuration (60), then answers
those on ``test`` new ones (200). It counts, for each template, how often an option was correct when offered, and how often it
was correct in exactly this set of options. Its accuracy is printed with chance, by stage and for the templates that it
predicts best, for both variants of the questions (``suite.variant``). It should stay less than 0.05 above chance.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.arguments import whole_numbers
from envs.raven import CONFIGURATIONS, generate
from evals.suites.multistar.questions import Drawing, Question, chain_questions, direct_questions

SETS = {"direct": direct_questions, "chain": chain_questions}
VARIANTS: dict[str, Drawing] = {"published": "balanced", "balanced": "by_sets"}
"""With the way in which each draws its options."""
LIMIT = 0.05
_TRUST = 4.0
"""How many sightings of one set of options weigh as much as all that is known of the options one by one."""

Template = tuple[str, str, str]
"""Set, configuration, and the node without the numbers of its panels, which the text does not tell."""


@dataclass
class Learner:
    """Base rates of one template."""

    right: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    within: defaultdict[tuple[str, ...], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def learn(self, question: Question) -> None:
        """See a question with its answer."""
        truth = question.options[question.key]
        self.right[truth] += 1
        self.offered.update(question.options)
        self.within[tuple(sorted(question.options))][truth] += 1

    def choose(self, question: Question) -> int:
        """The option that is right most often; the first of equals."""
        seen = self.within[tuple(sorted(question.options))]
        rates = [(self.right[option] + 0.25) / (self.offered[option] + 1) for option in question.options]
        total = sum(rates)
        scores = [
            (seen[option] + _TRUST * rate / total) / (seen.total() + _TRUST)
            for option, rate in zip(question.options, rates, strict=True)
        ]
        return scores.index(max(scores))


def questions(seeds: Iterable[int], drawing: Drawing = "balanced") -> Iterator[tuple[Template, Question]]:
    """The counted questions of fresh problems with their templates."""
    for seed in seeds:
        for name in CONFIGURATIONS:
            problem = generate(name, seed)
            for kind, make in SETS.items():
                for question in make(problem, 0, drawing):
                    if getattr(question, "counts", True):
                        yield (kind, name, re.sub(r"_\d", "", question.node)), question


@dataclass
class Tally:
    """Answers to some questions."""

    asked: int = 0
    right: int = 0
    chance: float = 0.0

    def add(self, right: bool, options: int) -> None:
        """Count one answer."""
        self.asked += 1
        self.right += right
        self.chance += 1 / options

    @property
    def excess(self) -> float:
        """Accuracy above chance."""
        return (self.right - self.chance) / self.asked

    def __str__(self) -> str:
        chance = 100 * self.chance / self.asked
        return f"{self.asked:8}{chance:9.1f}{100 * self.right / self.asked:9.1f}{100 * self.excess:+9.1f}"


def measure(
    training: int, test: int, drawing: Drawing = "balanced"
) -> tuple[dict[tuple[str, str], Tally], dict[Template, Tally]]:
    """Accuracy of the learner by set and stage, and by template."""
    learners: defaultdict[Template, Learner] = defaultdict(Learner)
    for template, question in questions(range(training), drawing):
        learners[template].learn(question)
    stages: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)
    templates: defaultdict[Template, Tally] = defaultdict(Tally)
    for template, question in questions(range(training, training + test), drawing):
        right = learners[template].choose(question) == question.key
        for tally in (stages[template[0], question.stage], templates[template]):
            tally.add(right, len(question.options))
    return stages, templates


def main(training: int = 60, test: int = 200) -> int:
    failed = False
    for variant, drawing in VARIANTS.items():
        stages, templates = measure(training, test, drawing)
        print(f"variant {variant}\n{'set':8}{'stage':7}{'asked':>8}{'chance':>9}{'blind':>9}{'excess':>9}   %")
        for (kind, stage), tally in sorted(stages.items()):
            print(f"{kind:8}{stage:7}{tally}")
        rows: Sequence[tuple[Template, Tally]] = sorted(templates.items(), key=lambda item: -item[1].excess)
        above = sum(tally.excess > LIMIT for _, tally in rows)
        print(f"templates above chance by more than {LIMIT}: {above} of {len(rows)}; the first:")
        for (kind, name, node), tally in rows[:12]:
            print(f"{tally}  {kind} {name} {node}")
        failed |= any(tally.excess > LIMIT for tally in stages.values())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, training=60, test=200)))
