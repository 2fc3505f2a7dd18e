"""One game of KumO as a conversation: choose tests until the right truth can be named."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping

import pyarrow as pa

from envs.kumo import Game
from evals.conversation import Conversation
from evals.kumo import prompts
from evals.kumo.decode import decode
from evals.kumo.puzzle import Puzzle
from evals.suite import Column
from evals.types import Outcome, message

COLUMNS: Mapping[str, Column] = {
    "tests": Column(pa.int32(), "Tests taken, repeated ones included."),
    "predicted": Column(pa.string(), "The truth that was named; null if none was."),
    "parse_errors": Column(pa.int32(), "Replies that could not be read as a name."),
    "parse_failed": Column(pa.bool_(), "Whether such a reply ended the game."),
    "optimal_actions": Column(pa.int32(), "Tests and prediction of perfect play on the same outcomes."),
    "n_actions": Column(pa.int32(), "|A|, tests that the task offers."),
}


async def play_puzzle(puzzle: Puzzle, conversation: Conversation, *, strict: bool, retries: int) -> Outcome:
    """Play one puzzle within the episode's budget of replies.

    Any reply that cannot be read takes a reply of the budget; one more than ``retries`` of them in a row ends the game as
    a failure. The first prediction ends it too. Repeating a test shows the same outcome and counts again (as published).

    Args:
        puzzle: The game.
        conversation: With its player.
        strict: Read replies as the published parser does.
        retries: Reminders given before an unread reply ends the game.
    """
    task, chat, game = puzzle.task, puzzle.opening, Game(puzzle.task)
    parse_errors = unread = 0
    for _ in range(conversation.episode.budget):
        known = tuple(game.observed)
        played = await conversation.ask(chat, options=puzzle.names, oracle=functools.partial(puzzle.best, known))
        cut = played.reply.finish == "length"
        choice = decode(played.reply.text, task.action_names, task.truths, strict, cut)
        played.action, played.rule = choice.name, choice.rule
        if choice.name is None:
            parse_errors, unread = parse_errors + 1, unread + 1
            if unread > retries:
                break
            answer = prompts.reminder()
        elif choice.kind == "predict":
            game.predict(choice.name)
            break
        else:
            unread = 0
            answer = prompts.outcome(puzzle.domain, choice.name, game.test(choice.name))
        chat = (*chat, message("assistant", played.reply.text), answer)
    optimal_play = await asyncio.to_thread(lambda: puzzle.optimal_play)
    return Outcome(
        success=game.won,
        steps=game.steps,
        extra={
            "tests": len(game.taken),
            "predicted": game.named,
            "parse_errors": parse_errors,
            "parse_failed": unread > retries,
            "optimal_actions": len(optimal_play),
            "n_actions": len(task.actions),
        },
    )
