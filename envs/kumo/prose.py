"""Knowledge books as prose: every truth and every test defined, the rule-outs stated among it in varied sentences."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from envs.kumo.domain import Action, Domain, State
from envs.kumo.task import Task

RULES_OUT = (
    "A result of {outcome} rules out {truths}.",
    "If the result is {outcome}, {truths} can be ruled out.",
    "{truths} can be ruled out by a result of {outcome}.",
    "With a result of {outcome}, one can exclude {truths}.",
    "A result of {outcome} eliminates {truths}.",
    "The answer cannot be {truths_or} if the result is {outcome}.",
    "Should the result be {outcome}, the {singular} cannot be {truths_or}.",
    "Exclude {truths} if the result is {outcome}.",
)
ONLY = (
    "A result of {outcome} rules out all {plural} except {truths}.",
    "All {plural} except {truths} can be ruled out by a result of {outcome}.",
    "If the result is {outcome}, every {singular} except {truths} can be ruled out.",
)
"""For outcomes that rule out most of the truths; they name the others."""
NOTHING = (
    "A result of {outcome} rules out no {singular}.",
    "No {singular} is excluded by a result of {outcome}.",
    "A result of {outcome} rules out nothing.",
    "If the result is {outcome}, no {singular} can be ruled out.",
)
NOTHING_AT_ALL = (
    "The result may be {outcome}, but neither rules out a {singular}.",
    "The result may be {outcome}, but none of these rules out a {singular}.",
)
"""For tests that can rule out nothing, with two outcomes and with more."""

_SUBJECT = "A result of "

_INTRODUCTION = (
    "This book describes the {truths} and the {actions}, and says which {truths} each result rules out. Only statements "
    "about results rule anything out; descriptions do not. A {truth} that a result rules out is certainly not the answer. "
    "One that it does not rule out remains possible; results confirm a {truth} only by ruling out all others. There are no "
    "results other than those stated: ranges of numbers include both of their ends, and numbers outside them do not occur. "
    "Names of {truths} are capitalized, with no article before them."
)
_LONG = " It covers more than this game does: some of these {truths} are not in question, and some {actions} cannot be chosen."


def write_prose(task: Task, domain: Domain, *, longer: bool = False, noisy: bool = False) -> str:
    """The book of a task as prose, the same for the same rules.

    Args:
        task: what to describe.
        domain: the task's domain, for its definitions, nouns and phrasings.
        longer: describe as many truths and tests that are not in the task, too.
        noisy: put true but irrelevant sentences in between.

    Raises:
        ValueError: the domain has no notes of which noise could be made.
    """
    style = "prose"
    truths, actions = task.truths, task.actions
    introduction = _INTRODUCTION
    if noisy:
        style = "noisy"
    if longer:
        style = "long"
        introduction += _LONG
    rng = random.Random(f"{style}/{task.domain}/{task.truths}/{task.actions}")
    if longer:
        truths, actions = _more(task, domain, rng)
    writer = _Writer(domain, truths, rng)
    words = {"truth": domain.truth.singular, "truths": domain.truth.plural, "actions": domain.action.plural}
    about = [[f"**{name}.**", domain.definitions[name]] for name in truths]
    tests = [[f"**{a.name}.**", domain.definitions[a.name], *writer.paragraph(a)] for a in actions]
    if noisy:
        _disturb([*about, *tests], domain, rng)
    return "\n\n".join(
        [
            f"# {domain.title}: a guide to the {domain.action.plural}",
            _articles(introduction.format(**words)),
            f"## The {domain.truth.plural}",
            *map(" ".join, about),
            f"## The {domain.action.plural}",
            *map(" ".join, tests),
        ]
    )


class _Writer:
    """Writes the rules of one book, never the same phrasing twice in three sentences."""

    def __init__(self, domain: Domain, truths: Sequence[str], rng: random.Random) -> None:
        self.truths, self.rng = truths, rng
        self.nouns = {"singular": domain.truth.singular, "plural": domain.truth.plural}
        self.rules_out = (*RULES_OUT, *domain.phrasings.rules_out)
        self.nothing = (*NOTHING, *domain.phrasings.nothing)
        self.recent: tuple[str, ...] = ()

    def paragraph(self, action: Action) -> list[str]:
        """The sentences that say what each outcome of an action rules out, some of them joined."""
        sentences: list[str] = []
        for sentence in self.rules(action):
            before = sentences[-1] if sentences else ""
            both = before.startswith(_SUBJECT) and sentence.startswith(_SUBJECT) and ";" not in before
            if both and self.rng.random() < 0.5:
                sentences[-1] = f"{before[:-1]}; a{sentence.removeprefix('A')}"
            else:
                sentences.append(sentence)
        return sentences

    def rules(self, action: Action) -> Iterator[str]:
        """One sentence for all outcomes that rule out the same."""
        groups: dict[tuple[str, ...], list[State]] = {}
        for state in action.states:
            groups.setdefault(state.rules_out, []).append(state)
        for gone, states in groups.items():
            outcome = _outcomes(states, action.unit)
            if not gone:
                alone = len(groups) == 1
                template = NOTHING_AT_ALL[len(states) > 2] if alone else self.choose(self.nothing)
                yield _articles(template.format(outcome=outcome, **self.nouns))
                continue
            kept = [truth for truth in self.truths if truth not in gone]
            # Where few truths are left, the sentence may name these instead.
            few_left = 0 < 2 * len(kept) < len(self.truths)
            if few_left and self.rng.random() < 0.5:
                yield self.choose(ONLY).format(outcome=outcome, truths=listed(kept), **self.nouns)
                continue
            lists = {"truths": listed(gone), "truths_or": listed(gone, "or")}
            yield self.choose(self.rules_out).format(outcome=outcome, **lists, **self.nouns)

    def choose(self, templates: Sequence[str]) -> str:
        """One of the templates, another than the last two."""
        chosen = self.rng.choice([template for template in templates if template not in self.recent])
        self.recent = (*self.recent[-1:], chosen)
        return chosen


def listed(items: Sequence[str], conjunction: str = "and") -> str:
    """A list as it stands in a sentence: ``a``, ``a and b``, ``a, b, and c``."""
    if len(items) < 3:
        return f" {conjunction} ".join(items)
    return f"{', '.join(items[:-1])}, {conjunction} {items[-1]}"


def _outcomes(states: Sequence[State], unit: str) -> str:
    """Outcomes as they stand in a sentence: names in quotation marks, ranges with their unit at the end."""
    texts = [f"“{state.text}”" if isinstance(state.value, str) else state.text for state in states]
    several = ("", "either ", "any of ")[min(len(texts), 3) - 1]
    return f"{several}{listed(texts, 'or')} {unit}".rstrip()


def _articles(text: str) -> str:
    """Sentences whose indefinite articles suit the words after them."""
    return re.sub(r"\b(a) (?=[ai]|e(?!u)|o(?!ne\b|nce\b)|un(?!i))", r"\1n ", text, flags=re.IGNORECASE)


def _more(task: Task, domain: Domain, rng: random.Random) -> tuple[tuple[str, ...], tuple[Action, ...]]:
    """Truths and actions of a task among as many others, as far as the domain has them."""
    names = [truth for truth in domain.truths if truth not in task.truths]
    truths = [*task.truths, *rng.sample(names, min(len(task.truths), len(names)))]
    rng.shuffle(truths)
    known = {action.name: action for action in domain.actions}
    others = [action.name for action in domain.actions if action.name not in task.action_names]
    actions = [*task.action_names, *rng.sample(others, min(len(task.actions), len(others)))]
    rng.shuffle(actions)
    return tuple(truths), tuple(known[name].restricted(truths) for name in actions)


def _disturb(paragraphs: list[list[str]], domain: Domain, rng: random.Random) -> None:
    """Put notes among the sentences: one for every second paragraph, as long as they last."""
    if not domain.notes:
        raise ValueError(f"suite.book=noisy: domain {domain.name!r} has no notes, of which noise is made")
    notes = rng.sample(domain.notes, min(len(domain.notes), (len(paragraphs) + 1) // 2))
    for note in notes:
        paragraph = rng.choice(paragraphs)
        paragraph.insert(rng.randint(2, len(paragraph)), note)
