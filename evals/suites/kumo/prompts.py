"""What a player of KUMO is told: the paper's structure (goal, how to play, lists, guidebook), in our own words.

A game's chat is only ever appended to: the rules and the book are the system message, each outcome is a user message.
"""

from __future__ import annotations

from envs.kumo import Domain, Task
from envs.kumo.world import World
from evals.presentation import Presentation
from evals.suites.kumo.presentation import DEFAULT, history_note, listed
from evals.types import Chat, Message, message, stable_hash

RULES = """\
You are playing a game of elimination. {goal}

{how_many} In each round you choose {a_test} and are told its outcome; the \
guidebook says which candidates an outcome rules out. All {tests} together would leave only {all_right}; so a \
candidate that is still possible, and that none of the {tests} you have not yet chosen can rule out, is {a_right} one.

Find {a_right} {truth} in as few rounds as you can. To end the game, name it: that takes one more round, and you have only \
one try. The game is lost if no {truth} has been named after {limit} rounds, and a reply that cannot be read takes a round, too.

Candidates ({truths}):
{truth_list}

What you may choose ({tests}):
{test_list}

Guidebook:

{book}"""

ONE = "Exactly one {truth} of the list below is the right one."

SEVERAL_GOAL = "In it, the outcomes of {tests} rule out {truths}."
"""Stands for a domain's goal, which tells of one right truth."""

SEVERAL = "Exactly {count} {truths} of the list below are right ones, and to name any one of them is enough."

ASK = """\
Choose one of the {tests}, or name {a_right} {truth} if you are sure of it. Explain your reasoning, then finish with \
the exact name from the lists, in this form:
<ANSWER> name </ANSWER>"""

START = "The game begins."

OUTCOME = "Outcome of {test}: {observation}"

_AGAIN = """\
This is your last chance to give an answer. Finish with exactly one name, written as it is listed, in this form:
<ANSWER> name </ANSWER>"""

UNREAD = f"Your reply cannot be read as one name from the lists. {_AGAIN}"

CUT_OFF = f"Your reply grew too long and was cut off before it gave an answer. Keep your reasoning short. {_AGAIN}"

PROMPT_FINGERPRINT = stable_hash(RULES, ONE, SEVERAL_GOAL, SEVERAL, ASK, START, OUTCOME, UNREAD, CUT_OFF)
"""Part of every episode's fingerprint: runs under other words are other runs."""

UNLISTED = "What you may choose: one of the {tests} that the guidebook names."
"""Stands for the list of tests where actions are not listed."""

_LIMIT = (
    "The game is lost if no {truth} has been named after {limit} rounds, and a reply that cannot be read takes a round, "
    "too."
)
_NO_LIMIT = "A reply that cannot be read takes a round, too."
FOR_PEOPLE = {
    ", and a reply that cannot be read takes a round, too": "",
    f" {_NO_LIMIT}": "",
    ASK[ASK.index(" Explain your reasoning") :]: "",
}
"""Passages that people, who choose from a menu, are not shown, each with what stands in its place."""
_LIST = "What you may choose ({tests}):\n{test_list}"


_AGREES = "In this game, what the {tests} show is what they would show in the real world."
_NEED_NOT_AGREE = (
    "In this game, what the {tests} show need not be what they would show in the real world; only the guidebook says what "
    "an outcome rules out."
)


def world_note(world: World, domain: Domain) -> str:
    """How what is shown relates to the real world, in a sentence.

    It is the same whether outcomes ignore or contradict the world, as that difference would tell something about the answer.
    """
    template = _AGREES if world == "agree" else _NEED_NOT_AGREE
    return template.format(tests=domain.action.plural)


def opening(
    task: Task, domain: Domain, book: str, limit: int, presentation: Presentation = DEFAULT, note: str = ""
) -> Chat:
    """The rules with the task's lists and guidebook, and the first question.

    Args:
        task: what is played.
        domain: its domain, for goal and nouns.
        book: the knowledge book.
        limit: rounds that the game may take.
        presentation: what of it is told, and in which order.
        note: stands after the book.
    """
    template = RULES
    if not presentation.tell_budget:
        template = template.replace(_LIMIT, _NO_LIMIT)
    if not presentation.list_actions:
        template = template.replace(_LIST, UNLISTED)
    seed = (task.domain, task.index, task.seed)
    truths_listed = listed(task.truths, presentation, *seed, *task.truths)
    tests_listed = listed(task.action_names, presentation, *seed, *task.action_names)
    test, truth, truths = domain.action.singular, domain.truth.singular, domain.truth.plural
    count = len(task.valid_truths)
    goal, how_many, all_right = domain.goal, ONE, f"the right {truth}"
    if count > 1:
        goal = SEVERAL_GOAL.format(tests=domain.action.plural, truths=truths)
        how_many, all_right = SEVERAL, f"the right {truths}"
    article = "an" if test[0] in "aeiou" else "a"
    rules = template.format(
        goal=goal,
        how_many=how_many.format(count=count, truth=truth, truths=truths),
        all_right=all_right,
        a_right=_a_right(task),
        truth=truth,
        truths=truths,
        a_test=f"{article} {test}",
        tests=domain.action.plural,
        limit=limit,
        truth_list="\n".join(f"- {name}" for name in truths_listed),
        test_list="\n".join(f"- {name}" for name in tests_listed),
        book=book.strip(),
    )
    if note:
        rules += f"\n\n{note}"
    rules += history_note(presentation)
    return message("system", rules), message("user", f"{START}\n\n{_ask(task, domain)}")


def outcome(task: Task, domain: Domain, test: str, observation: str, feedback: str = "") -> Message:
    """What a test showed, with feedback on it, and the next question."""
    return message("user", f"{OUTCOME.format(test=test, observation=observation)}{feedback}\n\n{_ask(task, domain)}")


def reminder(*, cut_off: bool) -> Message:
    """What is said after a reply that names nothing, or that was cut off before it named anything."""
    return message("user", CUT_OFF if cut_off else UNREAD)


def _ask(task: Task, domain: Domain) -> str:
    return ASK.format(tests=domain.action.plural, a_right=_a_right(task), truth=domain.truth.singular)


def _a_right(task: Task) -> str:
    return "a right" if task.also_valid else "the right"
