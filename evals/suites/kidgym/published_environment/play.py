"""One game of the published environment as a conversation."""

from __future__ import annotations

import asyncio
import functools

from envs.file_picture import FilePicture
from evals.conversation import Conversation
from evals.suites.kidgym.prompts import LETTERS, Dialogue, Moment
from evals.suites.kidgym.published_environment.process import (
    CannotStartError,
    EnvironmentProcess,
    PublishedEnvironmentError,
    PublishedGame,
    Seen,
)
from evals.suites.kidgym.published_environment.recording import PICTURES, RecordedGame, Recording, checkout_digest
from evals.suites.kidgym.reading import Decoder
from evals.suites.kidgym.turn import FORCED, choose
from evals.types import CannotPlayNow, ErrorKind, Outcome, PlayerError


class PublishedGameFailed(PlayerError):  # noqa: N818 - a cause that is read by people
    """The published environment cannot make or play a game; the others are played."""

    kind: ErrorKind = "suite"


@functools.lru_cache(maxsize=4)
def process_of(checkout: str, python: str, seconds: int, digest: str) -> EnvironmentProcess:
    """The process that plays the games of a checkout in this program, started when the first is opened.

    Raises:
        PlayerError: the checkout is not the one that was recorded.
    """
    if checkout_digest(checkout) != digest:
        raise PublishedGameFailed(f"{checkout} is not the version that was recorded; record it again")
    return EnvironmentProcess(checkout, python, seconds)


async def play_published(
    game: RecordedGame,
    recording: Recording,
    process: EnvironmentProcess,
    dialogue: Dialogue,
    conversation: Conversation,
    decoder: Decoder,
) -> Outcome:
    """Play to the end, or to the first reply that names no action; steps that offer a single action are not asked.

    Raises:
        CannotPlayNow: the environment does not start any more, or no picture can be stored.
        PlayerError: the environment fails, takes too long, or makes another game than was recorded.
    """
    if game.error:
        raise PublishedGameFailed(game.error)
    published = process.game(game.task, game.level, game.seed, game.index)
    try:
        return await _play(game, recording, published, dialogue, conversation, decoder)
    except asyncio.CancelledError:
        published.give_up()  # or the end of this program would wait for the thread that waits for an answer
        raise
    except CannotStartError as error:
        raise CannotPlayNow(str(error)) from error
    except (PublishedEnvironmentError, ValueError, OSError) as error:
        raise PublishedGameFailed(str(error)) from error
    finally:
        await asyncio.to_thread(published.close)


async def _play(
    game: RecordedGame,
    recording: Recording,
    published: PublishedGame,
    dialogue: Dialogue,
    conversation: Conversation,
    decoder: Decoder,
) -> Outcome:
    seen = await asyncio.to_thread(published.open)
    picture = await _stored(seen, recording)
    if not game.is_of(seen, picture):
        raise PublishedEnvironmentError("the environment began another game than was recorded; record it again")
    steps = forced = refused = 0
    unread = ""
    while not seen.over:
        moment = Moment(seen.goal, seen.actions, picture, seen.step, seen.budget)
        choice = await choose(conversation, dialogue, moment, seen.actions, decoder)
        if choice.option is None:
            unread = choice.rule
            break
        forced += choice is FORCED
        seen = await asyncio.to_thread(published.step, choice.option)
        picture = await _stored(seen, recording)
        steps += 1
        refused += not seen.accepted
    mistake = None
    if unread:
        mistake = f"unread reply: {unread}"
    elif seen.terminated and not seen.success:
        mistake = "not known"
    return Outcome(
        success=seen.success and not unread,
        steps=steps,
        extra={
            "invalid": bool(unread),
            "terminated": seen.terminated,
            "truncated": seen.truncated and not seen.terminated,
            "forced_steps": forced,
            "refused_steps": refused,
            "mistake": mistake,
        },
    )


async def _stored(seen: Seen, recording: Recording) -> FilePicture:
    if not seen.over and not 1 <= len(seen.actions) <= len(LETTERS):
        raise PublishedEnvironmentError(f"the environment offers {len(seen.actions)} actions")
    folder = recording.folder / PICTURES
    try:
        return await asyncio.to_thread(FilePicture.store, seen.picture, folder)
    except OSError as error:
        raise CannotPlayNow(f"{folder}: a picture cannot be stored ({error.strerror})") from error
