"""One game of evidence as a conversation: take tests, then name a truth and say how sure you are."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from envs.kumo import Domain
from envs.kumo.likely import BayesSearch, LikelyTask
from evals.conversation import Conversation
from evals.searches import found_by
from evals.suite import Column
from evals.suites.kumo.decode import decode
from evals.suites.kumo.likely import prompts
from evals.suites.kumo.likely.chances import read_chances, without_chances
from evals.suites.kumo.likely.players import perfect_reply, shortcuts_of
from evals.suites.kumo.prompts import reminder
from evals.types import Message, Outcome

FLOOR: Final = 0.01
"""A probability below counts as this, so that one game costs at most 4.6 of log loss. So does one that was not stated."""

COLUMNS: Mapping[str, Column] = {
    "tests": Column(pa.int32(), "Tests taken, repeated ones included.", better="lower"),
    "predicted": Column(pa.string(), "The truth that was named; null if none was."),
    "parse_errors": Column(pa.int32(), "Replies that could not be read as a name.", better="lower"),
    "points_lost": Column(
        pa.float64(), "Points lost: tests, unread replies, and a wrong answer.", "points", better="lower"
    ),
    "optimal_points_lost": Column(
        pa.float64(), "Points that perfect play is expected to lose, before any test.", "points"
    ),
    "test_regret": Column(
        pa.float64(), "Expected points that the tests lost against perfect play.", "points", better="lower"
    ),
    "answer_regret": Column(pa.float64(), "The same of the truth named, or of naming none.", "points", better="lower"),
    "unread_regret": Column(pa.float64(), "Points that unread replies cost.", "points", better="lower"),
    "stated": Column(pa.bool_(), "Whether probabilities were stated with the answer and could be read."),
    "confidence": Column(pa.float64(), "Probability stated for the truth that was named; null without one."),
    "log_loss": Column(
        pa.float64(), "-ln of the probability given to the right truth; an answer alone gives it all.", better="lower"
    ),
    "posterior_log_loss": Column(
        pa.float64(), "The same of the exact probabilities after the tests that were taken.", better="lower"
    ),
}


@functools.lru_cache(maxsize=64)
def search_of(task: LikelyTask, wrong: float) -> BayesSearch:
    """The search of a task, made once for all runs of it that come by."""
    return BayesSearch(task, wrong)


@dataclass
class _Tally:
    """What has happened in a game."""

    taken: list[str] = field(default_factory=list)
    named: str | None = None
    chances: Mapping[str, float] | None = None
    parse_errors: int = 0
    test_regret: float = 0.0


async def play_likely(task: LikelyTask, domain: Domain, conversation: Conversation, wrong: float) -> Outcome:
    """Play one game within the episode's budget of replies.

    Args:
        task: The game.
        domain: Its domain.
        conversation: With its player.
        wrong: Points that a wrong answer costs; a test, and a reply that cannot be read, cost 1.
    """
    search = await found_by(search_of, task, wrong)
    game = _Tally()
    unread = 0
    chat = prompts.opening(task, domain, conversation.episode.budget, wrong)
    for _ in range(conversation.episode.budget):
        taken = tuple(game.taken)
        played = await conversation.ask(
            chat,
            options=(*task.test_names, *task.truths),
            oracle=functools.partial(perfect_reply, task, search, taken),
            shortcuts=shortcuts_of(task, search, taken),
        )
        reply = played.reply
        choice = decode(
            without_chances(reply.text), task.test_names, task.truths, cut=reply.cut_off, nouns=domain.nouns
        )
        played.action, played.rule = choice.name, choice.rule
        following: Message
        if choice.name is None:
            game.parse_errors, unread = game.parse_errors + 1, unread + 1
            if unread > 1:
                break
            following = reminder(cut_off=reply.cut_off)
        elif choice.kind == "predict":
            game.named, game.chances = choice.name, read_chances(reply.text, task.truths)
            break
        else:
            unread = 0
            game.test_regret += regret_of(search, taken, choice.name)
            game.taken.append(choice.name)
            following = prompts.outcome(task, domain, choice.name)
        chat = (*chat, Message("assistant", (reply.text,), reply.reasoning), following)
    return _outcome(task, search, game)


def regret_of(search: BayesSearch, taken: Sequence[str], move: str) -> float:
    """Expected points that a test or an answer loses against the best move; a repeated test loses its point."""
    if move in taken:
        return 1.0
    values = search.values(taken)
    return max(0.0, values[move] - min(values.values()))


def _outcome(task: LikelyTask, search: BayesSearch, game: _Tally) -> Outcome:
    success = game.named == task.right
    here = search.values(game.taken)
    last = search.wrong if game.named is None else here[game.named]
    posterior = task.posterior(game.taken)
    confidence = None
    chance_of_right = float(success)
    if game.chances is not None:
        chance_of_right = game.chances[task.right]
        if game.named is not None:
            confidence = game.chances[game.named]
    return Outcome(
        success=success,
        steps=len(game.taken) + (game.named is not None),
        extra={
            "tests": len(game.taken),
            "predicted": game.named,
            "parse_errors": game.parse_errors,
            "points_lost": len(game.taken) + game.parse_errors + (0.0 if success else search.wrong),
            "optimal_points_lost": search.expected_cost,
            "test_regret": game.test_regret,
            "answer_regret": max(0.0, last - min(here.values())),
            "unread_regret": float(game.parse_errors),
            "stated": game.chances is not None,
            "confidence": confidence,
            "log_loss": _log_loss(chance_of_right),
            "posterior_log_loss": _log_loss(posterior[task.right]),
        },
    )


def _log_loss(chance: float) -> float:
    return -math.log(max(chance, FLOOR)) + 0.0
