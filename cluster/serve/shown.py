"""What a program sees of an episode, a turn and an outcome: listed here, field by field, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cluster.serve.games import Game, Games
from envs.picture import Picture
from evals.chat_json import chat_to_json, data_url
from evals.types import Chat, Episode, Part, Turn


def episode_to_json(episode: Episode) -> dict[str, Any]:
    """What a client may know of an episode: neither its seed nor its place in the generator's order."""
    return {
        "id": episode.id,
        "suite": episode.suite,
        "task": episode.task,
        "level": episode.level,
        "mode": episode.mode,
        "budget": episode.budget,
    }


def progress_to_json(games: Games, player: str) -> dict[str, Any]:
    """How far the run is; not how well it goes."""
    counts = {"left": games.left, "playing": games.playing, "finished": games.finished}
    return {"player": player, **counts, "over": games.over}


def new_messages(before: Chat, chat: Chat) -> int:
    """From which message on a chat is new to a client that has seen the one before and knows its own reply to it."""
    shared = 0
    for old, new in zip(before, chat, strict=False):
        if old is not new and old != new:
            break
        shared += 1
    if 0 < shared < len(chat) and chat[shared].role == "assistant":
        shared += 1
    return shared


def first_new(game: Game, turn: Turn) -> int:
    """From which message on a turn's chat is new."""
    return new_messages(game.turns[turn.number - 1].chat if turn.number else (), turn.chat)


def game_to_json(game: Game, number: int, feedback: bool, picture_base: str) -> dict[str, Any]:
    """A game at the turn of a number, or its end. Renders pictures: call it in a thread.

    Args:
        game: What is played.
        number: Of the turn that the client is to see.
        feedback: Whether clients are told if a game was won.
        picture_base: What the numbers of pictures are appended to, where a client wants addresses.
    """
    said: dict[str, Any] = {"session": game.id, "episode": episode_to_json(game.episode)}
    turn = game.turn(number)
    if turn is None:
        return said | {"turn": None, "outcome": outcome_to_json(game, feedback)}
    url: Callable[[Picture], str] = data_url
    if game.pictures_by_address:
        url = lambda picture: f"{picture_base}/{game.address(picture)}.png"  # noqa: E731
    return said | {"turn": turn_to_json(turn, first_new(game, turn), url), "outcome": None}


def turn_to_json(turn: Turn, new_from: int, url: Callable[[Picture], str]) -> dict[str, Any]:
    """A turn as a client sees it."""
    return {
        "number": turn.number,
        "messages": chat_to_json(turn.chat, url),
        "new_from": new_from,
        "options": list(turn.options),
        "labels": list(turn.labels),
        "schema": turn.schema,
    }


def game_to_parts(game: Game, number: int, feedback: bool, whole: bool) -> list[Part]:
    """A game at the turn of a number, or its end, as texts and pictures: a line of JSON, then the messages.

    Args:
        game: What is played.
        number: Of the turn that the client is to see.
        feedback: Whether clients are told if a game was won.
        whole: All messages of the turn, not only those that are new.
    """
    said: dict[str, Any] = {"session": game.id, "episode": episode_to_json(game.episode)}
    turn = game.turn(number)
    if turn is None:
        return [json.dumps(said | {"turn": None, "outcome": outcome_to_json(game, feedback)})]
    asked = {"turn": turn.number, "options": turn.options, "labels": turn.labels, "schema": turn.schema}
    parts: list[Part] = [json.dumps(said | asked | {"outcome": None}, ensure_ascii=False)]
    for message in turn.chat[0 if whole else first_new(game, turn) :]:
        parts.append(f"[{message.role}]")
        parts += message.parts
    return parts


def outcome_to_json(game: Game, feedback: bool) -> dict[str, Any]:
    """How a game ended; whether it was won only with ``feedback``. Causes of failure are for the run's owner."""
    record = game.session.record
    if record is None or record.outcome is None:
        return {"status": "failed"}
    if not feedback:
        return {"status": "done"}
    return {"status": "done", "success": bool(record.outcome.success), "score": record.outcome.credit}
