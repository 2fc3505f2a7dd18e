"""One game of KUMO as a conversation: choose tests until the right truth can be named."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

import pyarrow as pa

from envs.kumo import Game
from evals.conversation import Conversation
from evals.presentation import Presentation
from evals.searches import found_by
from evals.suite import Column
from evals.suites.kumo import prompts
from evals.suites.kumo.decode import decode
from evals.suites.kumo.features import option_features
from evals.suites.kumo.judge import judge, remaining
from evals.suites.kumo.memory import MEMORY, memory_move
from evals.suites.kumo.presentation import DEFAULT, answer, ruled_out, shown_chat
from evals.suites.kumo.searched_game import BookChoice, Puzzle
from evals.suites.kumo.shortcuts import shortcuts_of
from evals.suites.kumo.wording import PromptStyle, Said
from evals.types import Chat, Outcome

COLUMNS: Mapping[str, Column] = {
    "tests": Column(pa.int32(), "Tests taken, repeated ones included.", better="lower"),
    "predicted": Column(pa.string(), "The truth that was named; null if none was."),
    "parse_errors": Column(pa.int32(), "Replies that could not be read as a name.", better="lower"),
    "parse_failed": Column(pa.bool_(), "Whether such a reply ended the game."),
    "optimal_actions": Column(pa.int32(), "Tests and prediction of perfect play on the same outcomes."),
    "shipped_optimal_actions": Column(
        pa.int32(), "The same by the published search, which breaks ties otherwise (imported benchmark only)."
    ),
    "tied_optimal_actions": Column(
        pa.float64(), "The same by our search, as a mean over all equally good tests (imported benchmark only)."
    ),
    "malformed": Column(pa.bool_(), "Whether the task is malformed (imported benchmark only)."),
    "n_actions": Column(pa.int32(), "|A|, tests that the task offers."),
    "ending": Column(
        pa.string(), "What the truth named was: certain, early, overlooked or excluded; null if none was named."
    ),
    "idle_tests": Column(
        pa.int32(),
        "Tests before the answer was certain that could tell nothing, repeated ones included.",
        better="lower",
    ),
    "late_tests": Column(pa.int32(), "Tests taken although the answer was certain.", better="lower"),
    "regret": Column(
        pa.list_(pa.float64()),
        "Expected steps that each test lost against the best one; null where not searched.",
        "steps",
    ),
    "exact_certain_after": Column(
        pa.int32(),
        "Tests after which the answer followed from the guarantee; null if it never did, or in malformed tasks.",
    ),
    "exact_ending": Column(pa.string(), "The ending where all that follows from the guarantee is certain."),
    "exact_late_tests": Column(
        pa.int32(), "Tests taken although the answer followed from the guarantee.", better="lower"
    ),
    "exact_regret": Column(
        pa.list_(pa.float64()),
        "Expected steps that each test lost against the best one under the guarantee; null where not searched.",
        "steps",
    ),
}


async def play_puzzle(
    puzzle: Puzzle,
    conversation: Conversation,
    *,
    prompt: PromptStyle = "own",
    book: BookChoice = "prose",
    decoder: Literal["lenient", "strict"] = "lenient",
    regret: bool = True,
    presentation: Presentation = DEFAULT,
) -> Outcome:
    """Play one puzzle within the episode's budget of replies.

    Any reply that cannot be read takes a reply of the budget; a second one in a row ends the game as a failure, and so
    does the first if replies are read strictly. The first prediction ends it too. Repeating a test shows the same outcome
    and counts again (as published).

    Args:
        puzzle: The game.
        conversation: With its player.
        prompt: Whose words the game is told in.
        book: Style of the knowledge book.
        decoder: Read replies as a person would, or as the published parser does.
        regret: Whether to search for what each test lost.
        presentation: How the game is told.
    """
    task, game = puzzle.task, Game(puzzle.task)
    words = puzzle.wording(prompt, book, conversation.episode.budget, presentation)
    said = words.opening()
    before: Chat = ()
    strict = decoder == "strict"
    parse_errors = unread = 0
    for _ in range(conversation.episode.budget):
        played = await conversation.ask(
            words.chat_for(conversation.episode.player, shown_chat((*before, *said.sent), presentation)),
            options=puzzle.names,
            oracle=functools.partial(puzzle.best, tuple(game.observed)),
            shortcuts=shortcuts_of(task, tuple(game.taken), conversation.episode.id)
            | {MEMORY: functools.partial(memory_move, puzzle.domain, task, tuple(game.taken))},
            remaining=functools.partial(remaining, task, tuple(game.taken)),
            features=functools.partial(option_features, task, tuple(game.taken)),
        )
        choice = decode(
            played.reply.text, task.action_names, task.truths, strict, played.reply.cut_off, puzzle.domain.nouns
        )
        played.action, played.rule = choice.name, choice.rule
        if choice.name is None:
            parse_errors, unread = parse_errors + 1, unread + 1
            if strict or unread > 1:
                break
            reminder = prompts.reminder(cut_off=played.reply.cut_off)
            following = Said((reminder,), (reminder,))
        elif choice.kind == "predict":
            game.predict(choice.name)
            break
        else:
            unread = 0
            known = tuple(game.taken)
            shown = game.test(choice.name)
            following = words.outcome(choice.name, shown, ruled_out(task, known, choice.name, presentation))
        earlier = answer(played.reply.text, played.reply.reasoning, choice.name, presentation)
        before = (*before, *said.kept, earlier)
        said = following
    optimal_play = await found_by(lambda: puzzle.optimal_play)
    taken = tuple(game.taken)
    errors = await found_by(judge, task, taken, game.named, search=regret)
    exact: dict[str, object] = {}
    if puzzle.guaranteed:
        found = await found_by(judge, task, taken, game.named, search=regret, guarantee=True)
        exact = {
            "exact_certain_after": found.certain_after,
            "exact_ending": found.ending or None,
            "exact_late_tests": found.late_tests,
            "exact_regret": list(found.regret),
        }
    return Outcome(
        success=game.won,
        steps=game.steps,
        extra={
            "tests": len(game.taken),
            "predicted": game.named,
            "parse_errors": parse_errors,
            "parse_failed": unread > (0 if strict else 1),
            "optimal_actions": len(optimal_play),
            "n_actions": len(task.actions),
            "ending": errors.ending or None,
            "idle_tests": errors.idle_tests,
            "late_tests": errors.late_tests,
            "regret": list(errors.regret),
            **exact,
            **puzzle.benchmark_columns,
        },
    )
