"""One step of a game: its player is asked, and what was chosen is read and told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evals.conversation import Conversation
from evals.replies.reader import Reading
from evals.suites.kidgym.offer import read_written
from evals.suites.kidgym.prompts import Dialogue, Moment
from evals.suites.kidgym.reading import Decoder, read_reply
from evals.types import OptionFeatures

FORCED = Reading(0, "")
"""The choice where a single action is offered."""


async def choose(
    conversation: Conversation,
    dialogue: Dialogue,
    moment: Moment,
    actions: Sequence[str],
    decoder: Decoder,
    oracle: Callable[[], str] | None = None,
    shortcuts: Mapping[str, Callable[[], str]] | None = None,
    remaining: Callable[[str | None], float] | None = None,
    features: Callable[[], Sequence[OptionFeatures]] | None = None,
) -> Reading:
    """Ask which action to take; a single one is taken without asking.

    Args:
        conversation: Of the episode.
        dialogue: Its chat as it grows.
        moment: What the player is told, with the actions in the words of the prompt.
        actions: The same actions in the words of the environment, for the ledger.
        decoder: The rule that reads the reply.
        oracle: What perfect play would reply.
        shortcuts: What the shortcut players would reply, by name.
        remaining: Steps of perfect play, as ``Turn.remaining``.
        features: What can be told of each action, as ``Turn.features``.

    Returns:
        ``FORCED``, or what was read; without an index if the reply names no action, with one beyond the list if it writes an
        action that is not offered.

    Raises:
        PlayerError: the player cannot answer.
    """
    if len(actions) == 1:
        dialogue.forced(moment)
        return FORCED
    choices, chat = dialogue.choices(moment), dialogue.question(moment)
    played = await conversation.ask(
        chat, options=choices, oracle=oracle, shortcuts=shortcuts, remaining=remaining, features=features
    )
    reply = played.reply
    if dialogue.presentation.list_actions:
        choice = read_reply(reply, moment.actions, decoder)
        chosen = None if choice.option is None else (choices[choice.option], actions[choice.option])
    else:
        choice, written = read_written(reply.text, moment.actions, moment.forms, reply.cut_off)
        chosen = None if choice.option is None else (written, written)
    played.rule = choice.rule
    if chosen is not None:
        said, played.action = chosen
        dialogue.answered(moment, said, reply.text, reply.reasoning)
    elif reply.finish == "content_filter":
        # As the table of reply health names it: a higher limit of tokens does not help here.
        return Reading(None, "filtered")
    return choice
