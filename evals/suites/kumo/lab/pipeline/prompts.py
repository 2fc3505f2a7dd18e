"""What a model is told when it writes domains; those for books are in ``book_prompts``."""

from __future__ import annotations

from collections.abc import Sequence

from evals.types import Chat, message, stable_hash

CONTINUE = (
    "Your reply reached the length limit. Continue it from the very character where it stopped: no introduction, no new code "
    "fence, nothing that you have written already."
)
PROBLEMS = {
    "cut off": "Your reply was cut off by the length limit. Be shorter: use shorter texts, not fewer entries.",
    "empty": "Your reply was empty.",
    "loops": "Your reply repeated the same lines until it was cut off.",
    "too long": "Your reply was far longer than what was asked for.",
    "refused": "Your reply was withheld. Choose harmless contents.",
}
"""What is said to a model whose reply is no whole text, by ``Whole.problem``."""

_GAME = """\
KUMO is a game of elimination. A game has a list of candidates ("truths"), exactly one of which is right, and a list of \
tests. Each test has two or more possible outcomes, and each outcome rules out some of the truths: they are certainly wrong \
once it is seen. Outcomes never prove a truth right. The player chooses tests until one truth is left. A "domain" supplies \
truths, tests and what each outcome rules out, for one field of knowledge."""

_PROPOSE = """\
{game}

Propose {count} new domains in the field "{category}". A good domain has at least 50 well-known truths of one kind (such as \
diseases, minerals or file formats) and at least 30 tests with clear outcomes that well-informed people agree on.

These domains exist; propose nothing about the same subject:
{existing}

Reply with YAML only: a list of {count} entries, each with exactly these keys.

- title: two or three words that name the subject
  goal: one or two sentences that tell the player the situation and what to find out
  truth: {{singular: noun, plural: nouns}}
  action: {{singular: noun for a test, plural: nouns}}
  truths: [six, examples, of, truths]
  actions: [three, examples, of tests]"""

_CONFIGURE = """\
{game}

Write the domain "{title}".
Goal: {goal}
A truth is called {truth}, a test {action}. Examples of truths: {truths}. Examples of tests: {actions}.

Reply with one YAML document and nothing else, in this form (the animals are only an example):

truths:
  Otter: A sleek swimmer of the weasel family that hunts fish along rivers.
  Heron: A tall gray wading bird that stands still in shallow water.
  Fox: A red hunter with a bushy tail that comes out of the woods at dusk.
actions:
  Prints in the Mud:
    definition: The soft bank is searched for prints, which are cast in plaster.
    outcomes:
      three long toes: [Otter, Fox]
      pads with claws: [Heron]
  Scale under the Bait:
    definition: A plate records the weight of whatever steps on it.
    unit: kg
    outcomes:
      0.5 to 1.5: [Fox]
      1.7 to 14.0: []

Rules:
1. At least {least_truths} truths and at least {least_actions} tests. Each test has two to five outcomes.
2. The list behind an outcome holds the truths that it RULES OUT, that is, those that cannot be right if it is seen. It may \
be empty. It must not name what the outcome speaks for.
3. No test may rule out the same truth by all of its outcomes. Every truth must be ruled out by some outcome.
4. An outcome rules out several truths, up to a sixth of all. No two truths are ruled out by just the same outcomes.
5. Some tests show numbers: all their outcomes are ranges such as "0.5 to 1.5", ascending, without overlap and without a \
common end; "unit" is what stands behind the number. All other outcomes are short texts of one to six words.
6. Facts must be true of every typical case.
7. Definitions are one plain sentence of 20 to 200 characters: a capital first, a period last, no quotation \
marks, brackets or asterisks. A definition never speaks of ruling out, excluding or eliminating, never names \
another truth or test, and never tells an outcome in the words of the outcome.
8. Names have one to five words and differ in more than case and punctuation. Put names and outcomes that \
hold a colon, a comma or #, and the words yes, no, on, off, in quotes. Use no anchors (&), aliases (*) or tags (!)."""

_REPAIR = """\
This cannot be used yet:
{complaints}
{how}"""
_AGAIN = "Write the whole reply again, without these faults, in the form that was asked for."
_PATCH = (
    "Reply with YAML that holds only what must change, in the same form: under truths and actions the entries to add or to "
    "replace, each complete, and NAME: null for those to remove."
)
MOST_COMPLAINTS = 20


def propose(category: str, count: int, existing: Sequence[str]) -> Chat:
    """Asks for new domains in a field."""
    listed = "; ".join(existing)
    return (message("user", _PROPOSE.format(game=_GAME, count=count, category=category, existing=listed)),)


def configure(fields: dict[str, str], least_truths: int, least_actions: int) -> Chat:
    """Asks for a domain; ``fields`` are title, goal, truth, action, and the examples truths and actions."""
    text = _CONFIGURE.format(game=_GAME, least_truths=least_truths, least_actions=least_actions, **fields)
    return (message("user", text),)


def repair(chat: Chat, reply: str, complaints: Sequence[str], patch: bool = False) -> Chat:
    """Quotes what is wrong with a reply and asks for another, or for what changes only (``patch``).

    Args:
        chat: What was asked first.
        reply: What was answered; empty to leave it out.
        complaints: What is wrong with it.
        patch: Whether the reply is of use but for the complaints.
    """
    text = _REPAIR.format(complaints=listed(complaints), how=_PATCH if patch else _AGAIN)
    answered = (message("assistant", reply),) if reply.strip() else ()
    return (*chat, *answered, message("user", text))


def listed(complaints: Sequence[str]) -> str:
    """Complaints as a list, the first twenty of them."""
    lines = [f"- {complaint}" for complaint in complaints[:MOST_COMPLAINTS]]
    more = len(complaints) - MOST_COMPLAINTS
    if more > 0:
        lines.append(f"- and {more} more of the same kinds")
    return "\n".join(lines)


FINGERPRINT = stable_hash(CONTINUE, PROBLEMS, _GAME, _PROPOSE, _CONFIGURE, _REPAIR, _AGAIN, _PATCH, MOST_COMPLAINTS)
"""Part of the ids of episodes that write domains."""
