"""What KidGym's prompts say under another presentation than its own."""

from __future__ import annotations

from typing import Final

from evals.presentation import History, Presentation
from evals.presentation.history import note
from evals.presentation.pictures import NOTES
from evals.suites.kidgym.templates import Templates

DEFAULT: Final = Presentation(history="published", past_reasoning="dropped", option_order="shuffled")

FORMS: Final = "An action has one of these forms, here or at a later step:"
UNLISTED: Final = (
    "The actions that can be carried out at a step are not listed. You write an action in one of its forms, with the "
    "number, letter or numeral that you mean in place of what stands in parentheses."
)
_ASK: Final = "Which action brings you nearer to the goal?"
_WRITE: Final = "<answer>action</answer>"
VIEW: Final = "At each step you see a picture of the game as it is now."
EARLIER: Final = "All earlier steps stand before it, in their order."
PAST_WORDS: Final = (
    "Of earlier steps the pictures are not shown again: what they showed is told in words, between <picture> and "
    "</picture>."
)
BUDGET_RULE: Final = (
    "\n- The number of steps is limited, in most games to the fewest that can win, so that a single wasted step loses."
)
LIMITED: Final = "\n- The number of steps is limited."
OF_BUDGET: Final = " of at most $budget"
"""What the templates ``step`` and ``forced`` say of the budget."""


def check_presentation(presentation: Presentation, templates: Templates, replaced: bool, decoder: str) -> None:
    """Refuse what does not go together with a user's templates, or with the rule that reads replies.

    Args:
        presentation: As it is set.
        templates: The words of the prompts.
        replaced: Whether a user's folder replaces some of them.
        decoder: The rule that reads replies.

    Raises:
        ValueError: the message names the setting.
    """
    changed = presentation.changes(DEFAULT)
    if templates.chat:
        for setting in changed:
            if setting not in ("modality", "detail", "option_order"):
                raise ValueError(
                    f"suite.{setting} has no meaning with a chat.yaml, which says itself what a question holds"
                )
    if replaced:
        for setting in ("tell_budget", "list_actions"):
            if setting in changed:
                raise ValueError(
                    f"suite.{setting}=false changes words that suite.templates replaces: leave out one of the two"
                )
    # Where actions are not listed, they have no letters.
    needs_words = not presentation.list_actions
    if needs_words and decoder != "lenient":
        raise ValueError(
            f"suite.list_actions=false: suite.decoder={decoder} reads letters only; use suite.decoder=lenient"
        )


def shown_history(presentation: Presentation, memory: bool) -> History:
    """How many earlier steps a question shows: as published, all of them in memory tasks and none in the others."""
    if presentation.history == "published":
        return "all" if memory else "none"
    return presentation.history


def view_text(presentation: Presentation, published: str) -> str:
    """What the rules say of what is seen at each step; ``published`` where the history is the published one."""
    if presentation.history == "published":
        return published
    earlier = EARLIER if presentation.history == "all" else note(presentation.history, "step")
    return f"{VIEW} {earlier}"


def rules_text(presentation: Presentation, rules: str) -> str:
    """The system message: the rules, and notes on what is not as they say."""
    if not presentation.tell_budget:
        rules = rules.replace(BUDGET_RULE, LIMITED)
    notes = [NOTES[presentation.modality]]
    if presentation.past_pictures == "text" and presentation.modality == "picture":
        notes.append(PAST_WORDS)
    if not presentation.list_actions:
        notes.append(UNLISTED)
    return "\n\n".join([rules, *filter(None, notes)])


def answer_form(*, reasoned: bool) -> str:
    """How an answer is to be written where actions are not listed."""
    if reasoned:
        return (
            f"{_ASK} Think it through step by step between think tags, then write the action between answer tags:\n"
            f"<think>reasoning</think>\n{_WRITE}"
        )
    return f"{_ASK} Write it between answer tags and nothing else:\n{_WRITE}"
