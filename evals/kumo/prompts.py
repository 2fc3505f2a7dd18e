"""What a player of KumO is told: the paper's structure (goal, how to play, lists, guidebook), in our own words.

A game's chat is only ever appended to: the rules and the book are the system message, each outcome is a user message.
"""

from __future__ import annotations

from envs.kumo import Domain, Task
from evals.types import Chat, Message, message, stable_hash

RULES = """\
You are playing a game of elimination. {goal}

Exactly one {truth} of the list below is the right one. Each {action_word} shows an outcome, and an outcome may rule some \
candidates out. Every wrong candidate is ruled out by what at least one of the {actions} below shows. Find the right one, \
and do so in as few rounds as you can.

How to play:
1. Look at the candidates and at what you may examine.
2. In each round choose one {action_word}; you are then told its outcome.
3. Look that outcome up in the guidebook and strike out every candidate that it rules out.
4. Repeat until you are confident which candidate is right, then name it. Naming one ends the game, right or wrong.

Candidates ({truths}):
{truth_list}

What you may choose ({actions}):
{action_list}

Guidebook:

{book}"""

ASK = """\
Choose one of the {actions}, or name the right {truth} if you are confident of it. Explain your reasoning, then finish with \
the exact name from the lists, in this form:
<ANSWER> name </ANSWER>"""

START = "The game begins."

OUTCOME = "Outcome of {action}: {observation}"

REMINDER = """\
That reply cannot be read as one name from the lists. This is your last chance to give one. Finish with exactly one name, \
written as it is listed, in this form:
<ANSWER> name </ANSWER>"""

PROMPT_IDENTITY = stable_hash(RULES, ASK, START, OUTCOME, REMINDER)
"""Part of every episode's identity: runs under other words are other runs."""


def opening(task: Task, domain: Domain, book: str) -> Chat:
    """The rules with the task's lists and guidebook, and the first question."""
    rules = RULES.format(
        goal=domain.goal,
        truth=domain.truth.singular,
        truths=domain.truth.plural,
        action_word=domain.action.singular,
        actions=domain.action.plural,
        truth_list="\n".join(f"- {name}" for name in task.truths),
        action_list="\n".join(f"- {name}" for name in task.action_names),
        book=book.strip(),
    )
    return message("system", rules), message("user", f"{START}\n\n{_ask(domain)}")


def outcome(domain: Domain, action: str, observation: str) -> Message:
    """What an action showed, and the next question."""
    return message("user", f"{OUTCOME.format(action=action, observation=observation)}\n\n{_ask(domain)}")


def reminder() -> Message:
    """What is said after a reply that names nothing."""
    return message("user", REMINDER)


def _ask(domain: Domain) -> str:
    return ASK.format(actions=domain.action.plural, truth=domain.truth.singular)
