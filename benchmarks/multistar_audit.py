"""Checks every MultiStAR question with an independent reader that sees only the text and the scene.

Run: nice python -m benchmarks.multistar_audit [problems]

``problems`` (default 200) are taken per configuration and answer style; each gives its direct set and its chain. The second to
last line counts faults: wrong keys, second true options, references to no object or to several, texts that the reader
cannot parse, fields that disagree with the text.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.arguments import whole_numbers
from benchmarks.multistar_reader import UnreadableError, read
from envs.raven import CONFIGURATIONS, STYLES, Problem, RavenPicture, Style, generate
from evals.suites.multistar.questions import Question, chain_questions, direct_questions

SEED = 0
SETS = {"direct": direct_questions, "chain": chain_questions}
_FIXED = (
    "it is not in this panel",
    "one of the two shapes is not in this panel",
    "not comparable",
    "only one object",
    "There is no clear rule.",
)


@dataclass
class Audit:
    """Counts over all questions read."""

    questions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    per_configuration: Counter[tuple[str, str]] = field(default_factory=Counter)
    chance: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    keys: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(number of options, index of the key)."""
    offered: Counter[str] = field(default_factory=Counter)
    true: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, problem: Problem, question: Question) -> None:
        """Read one question."""
        self.questions += 1
        self.asked[kind, question.stage] += 1
        self.per_configuration[kind, problem.configuration.title] += 1
        self.chance[kind, question.stage] += 1 / len(question.options)
        self.keys[len(question.options), question.key] += 1
        if question.counts:
            self.offered.update(question.options)
            self.true[question.options[question.key]] += 1
        for fault in faults(problem, question):
            self.faults[fault] += 1
            self.examples.append(
                f"{fault}: {problem.source} {question.node}: {question.text} {question.options} {question.key}"
            )


def faults(problem: Problem, question: Question) -> Iterator[str]:
    """Faults that the reader finds in a question."""
    assert isinstance(question.picture, RavenPicture)
    try:
        judged = read(problem, question.picture, question.setting, question.text, question.options)
    except (UnreadableError, KeyError, ValueError, IndexError) as error:
        yield f"unreadable ({type(error).__name__})"
        return
    if not judged.truths[question.key]:
        yield "wrong key"
    if sum(judged.truths) - judged.truths[question.key] > 0:
        yield "second true option"
    if judged.vague:
        yield "ambiguous reference"
    if len(set(question.options)) != len(question.options):
        yield "option offered twice"
    if judged.attribute != question.attribute or judged.stage[:2] != question.stage[:2]:
        yield "fields disagree with the text"
    if judged.part != question.part and not (question.part is None and question.attribute in ("shape", "position")):
        yield "part disagrees with the text"


def audit(problems: Iterable[Problem]) -> Audit:
    """Both question sets of all problems, read."""
    result = Audit()
    for problem in problems:
        for kind, questions in SETS.items():
            for question in questions(problem, SEED):
                result.add(kind, problem, question)
    return result


def drawn(count: int, styles: Iterable[Style] = STYLES) -> Iterator[Problem]:
    """``count`` problems per configuration and style, from different seeds per style, which would share matrices otherwise."""
    for turn, style in enumerate(styles):
        for name in CONFIGURATIONS:
            for seed in range(turn * count, (turn + 1) * count):
                yield generate(name, seed, style)


def _report(result: Audit, count: int) -> None:
    print("questions per problem       direct   chain")
    problems = count * len(STYLES)
    for form in CONFIGURATIONS.values():
        asked = (result.per_configuration[kind, form.title] / problems for kind in SETS)
        print(f"  {form.title:22}" + "".join(f"{mean:10.2f}" for mean in asked))
    total = sum(mean for (kind, _), mean in result.per_configuration.items() if kind == "direct") / problems * 100
    print(f"  direct questions over 100 puzzles x 7: {total:.0f} (published: 21,700, with those that offer no choice)")
    print("random play, %")
    for (kind, stage), asked in sorted(result.asked.items()):
        print(f"  {kind:7}{stage:6}{asked:9} questions {100 * result.chance[kind, stage] / asked:8.2f}")
    print("position of the key, %")
    for size in sorted({size for size, _ in result.keys}):
        counts = [result.keys[size, index] for index in range(size)]
        print(f"  {size} options " + "".join(f"{100 * number / sum(counts):7.2f}" for number in counts))
    print("how often an option is the key when offered, % (of questions that count)")
    for option in _FIXED:
        print(f"  {option:44}{100 * result.true[option] / max(1, result.offered[option]):7.2f}")
    for name in ("wrong key", "second true option", "ambiguous reference"):
        result.faults.setdefault(name, 0)
    for example in result.examples[:20]:
        print(example)
    print(
        f"{result.questions} questions: "
        + ", ".join(f"{number} {name}" for name, number in sorted(result.faults.items()))
    )


def main(count: int = 200) -> int:
    problems, made = list(drawn(min(count, 20))), 0
    start = time.process_time()
    for problem in problems:
        made += sum(len(questions(problem, SEED + 1)) for questions in SETS.values())
    speed = made / (time.process_time() - start)
    start = time.process_time()
    result = audit(drawn(count))
    _report(result, count)
    print(
        f"generated at {speed:.0f} questions/s; all generated and checked in {time.process_time() - start:.0f} CPU seconds"
    )
    return 1 if sum(result.faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, problems=200)))
