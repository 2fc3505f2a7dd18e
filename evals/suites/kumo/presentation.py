"""What KUMO's prompts say under another presentation than its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from envs.kumo import Task
from evals.presentation import Presentation, windowed
from evals.presentation.history import note
from evals.presentation.order import shuffled
from evals.types import Chat, Message

DEFAULT: Final = Presentation()

_UNREAD: Final = "(no answer)"
"""In place of a reply that could not be read, where earlier answers stand without their reasoning."""


def check_presentation(presentation: Presentation, prompt: str) -> None:
    """Refuse what the published words cannot tell.

    Raises:
        ValueError: the message names the setting.
    """
    if prompt == "own":
        return
    for setting in presentation.changes(DEFAULT):
        if setting not in ("history", "past_reasoning"):
            raise ValueError(
                f"suite.{setting} changes words of our prompts: it cannot be chosen with suite.prompt=published"
            )


def listed(names: Sequence[str], presentation: Presentation, *seed: object) -> tuple[str, ...]:
    """Names of one kind in the order in which a prompt lists them."""
    return shuffled(names, *seed) if presentation.option_order == "shuffled" else tuple(names)


def history_note(presentation: Presentation) -> str:
    """What the rules say of earlier rounds that are not shown; nothing where all are."""
    assert presentation.history != "published"
    said = note(presentation.history, "round")
    return f"\n\n{said}" if said else ""


def shown_chat(chat: Chat, presentation: Presentation) -> Chat:
    """A chat with the earlier rounds that a question shows."""
    assert presentation.history != "published"
    return chat if presentation.history == "all" else windowed(chat, presentation.history)


def answer(text: str, reasoning: str, name: str | None, presentation: Presentation) -> Message:
    """An earlier reply as later questions show it: as it was written, or what it chose alone."""
    if presentation.past_reasoning == "kept":
        return Message("assistant", (text,), reasoning)
    return Message("assistant", (_UNREAD if name is None else f"<ANSWER> {name} </ANSWER>",))


def ruled_out(task: Task, known: Sequence[str], test: str, presentation: Presentation) -> str:
    """What an outcome changed (``suite.feedback=changed``): the candidates that it rules out, and those that are left.

    Args:
        task: What is played.
        known: The tests before.
        test: The one whose outcome is told.
        presentation: Says whether this is told.
    """
    if "changed" not in presentation.feedback:
        return ""
    possible, left = (task.survivors(task.shown(taken)) for taken in (known, (*known, test)))
    gone = [truth for truth in possible if truth not in left]
    said = f"This rules out {', '.join(gone)}." if gone else "This rules out none of those that were possible."
    return f"\n{said} Still possible: {', '.join(left)}."
