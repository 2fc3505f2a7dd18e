"""What a player is told in a game of evidence. The chat is only ever appended to."""

from __future__ import annotations

from collections.abc import Iterator

from envs.kumo import Domain
from envs.kumo.likely import CASES, LikelyTask, LikelyTest
from evals.suites.kumo.prompts import CUT_OFF, UNREAD
from evals.types import Chat, Message, message, stable_hash

RULES = """\
You are playing a game of evidence. Field: {field}. Exactly one of the candidates below is the right one, and at the start \
they are all equally likely. In each round you choose one {test} and are told its outcome, or you end the game by \
naming a candidate.

No single outcome proves anything. The guidebook says, for each {test}, how often each outcome appears, out of {cases} cases, \
when a given candidate is the right one. The outcomes of this game were drawn with exactly these odds, independently for each \
{test}; real-world knowledge may say otherwise and does not count here.

Try to lose as few points as possible on average:
- Each round in which you choose one of the {tests} costs 1 point. Choosing the same one again shows \
the same outcome and costs another point.
- A reply that cannot be read also costs 1 point. A second one in a row ends the game as if a wrong candidate had been named.
- Naming a wrong candidate costs {wrong} points, and so does failing to name one within {limit} rounds. Naming the right one \
costs nothing.

Candidates ({truths}):
{truth_list}

What you may choose ({tests}):
{test_list}

Guidebook:

{book}"""

ASK = """\
Choose one of the {tests}, or name a {truth}. Explain your reasoning. If you name a {truth}, also say how likely you \
now think each candidate is, in percentages that add up to 100, in this form:
<CHANCES> name: 70, other name: 30 </CHANCES>
Finish with the exact name from the lists, in this form:
<ANSWER> name </ANSWER>"""

START = "The game begins."

OUTCOME = "Outcome of {test}: {outcome}"

LINE = "- If it is {truths}: {outcomes}"

ALWAYS = "- Whichever it is: {outcomes}"

PROMPT_FINGERPRINT = stable_hash(RULES, ASK, START, OUTCOME, LINE, ALWAYS, UNREAD, CUT_OFF)
"""Part of every episode's fingerprint: runs under other words are other runs."""


def for_people(domain: Domain) -> dict[str, str]:
    """Passages that people, who choose from a menu, are not shown, each with what stands in its place."""
    asked = _ask(domain)
    return {
        RULES[RULES.index("- A reply that") : RULES.index("- Naming a wrong")]: "",
        asked[asked.index(" Explain your reasoning") :]: "",
    }


def book(task: LikelyTask) -> str:
    """The guidebook: for each test, how often it shows what."""
    return "\n\n".join("\n".join([test.name, *_lines(task, test)]) for test in task.tests)


def _lines(task: LikelyTask, test: LikelyTest) -> Iterator[str]:
    """A line for all truths with the same numbers."""
    rows = dict.fromkeys(test.cases)
    for cases in rows:
        truths = [truth for truth, own in zip(task.truths, test.cases, strict=True) if own == cases]
        outcomes = "; ".join(f"{outcome} in {count}" for outcome, count in zip(test.outcomes, cases, strict=True))
        line = LINE if len(rows) > 1 else ALWAYS
        yield line.format(truths=" or ".join(truths), outcomes=f"{outcomes} of {CASES}")


def opening(task: LikelyTask, domain: Domain, limit: int, wrong: float) -> Chat:
    """The rules with lists and guidebook, and the first question.

    Args:
        task: What is played.
        domain: Its domain, for its title and nouns.
        limit: Rounds that the game may take.
        wrong: Points that a wrong answer costs.
    """
    rules = RULES.format(
        field=domain.title,
        test=domain.action.singular,
        tests=domain.action.plural,
        truths=domain.truth.plural,
        cases=CASES,
        limit=limit,
        wrong=f"{wrong:g}",
        truth_list="\n".join(f"- {name}" for name in task.truths),
        test_list="\n".join(f"- {name}" for name in task.test_names),
        book=book(task),
    )
    return message("system", rules), message("user", f"{START}\n\n{_ask(domain)}")


def outcome(task: LikelyTask, domain: Domain, test: str) -> Message:
    """What a test showed, and the next question."""
    return message("user", f"{OUTCOME.format(test=test, outcome=task.outcome(test))}\n\n{_ask(domain)}")


def _ask(domain: Domain) -> str:
    return ASK.format(tests=domain.action.plural, truth=domain.truth.singular)
