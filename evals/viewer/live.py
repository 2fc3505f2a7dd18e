"""What running episodes say, for the page: from the runs' live logs, which hold what no ledger holds yet."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from envs.picture import picture_from_description, render_description
from evals.live import LiveLog, PlayedLine, RunningEpisode
from evals.viewer.episode import png_of
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun

LAST_CHARACTERS: Final = 160
"""Of the last reply, in the list."""


class LiveRuns:
    """Running episodes of the runs that a viewer shows."""

    def __init__(self, index: EpisodeIndex) -> None:
        """Read nothing yet."""
        self._index = index
        self._logs: dict[str, LiveLog] = {}
        self._lock = threading.Lock()

    def overview(self) -> list[dict[str, Any]]:
        """Unfinished runs with their running episodes, as ``schema.LiveRun``."""
        cells: dict[str, list[dict[str, Any]]] = {}
        for cell in self._index.progress():
            cells.setdefault(cell.pop("run"), []).append(cell)
        return [self._shown(run, cells.get(run.name, [])) for run in self._index.runs if self._index.is_unfinished(run)]

    def turns(self, run: ViewedRun, episode_id: str, first: int) -> dict[str, Any] | None:
        """Turns of a running episode, from this number on, as ``schema.LiveTurns``; None if it is not followed."""
        episode = self._running(run).get(episode_id)
        if episode is None:
            return None
        turns = []
        for turn in episode.turns:
            if turn.turn >= first:
                turns.append(_told(turn))
        return {"episode": self._listed(run, episode_id, episode), "turns": turns}

    def picture(self, run: ViewedRun, episode_id: str, key: str) -> bytes | None:
        """A picture of a running episode as PNG; None if it has no such picture, or it cannot be rendered."""
        episode = self._running(run).get(episode_id)
        known = {_key(each): each for turn in (episode.turns if episode else ()) for each in turn.pictures}
        try:
            return png_of(render_description(known[key])[1]) if key in known else None
        except ValueError:
            return None

    def _running(self, run: ViewedRun) -> Mapping[str, RunningEpisode]:
        """Episodes that the log tells of, without those whose rows are in the ledger: a driver may die in between."""
        running = self._log(run).running.episodes
        attempts = self._index.attempts(run, list(running))
        return {name: each for name, each in running.items() if attempts.get(name, 0) < each.began.attempt}

    def _log(self, run: ViewedRun) -> LiveLog:
        with self._lock:
            log = self._logs.setdefault(run.name, LiveLog(run.path))
            log.refresh()
            return log

    def _shown(self, run: ViewedRun, cells: list[dict[str, Any]]) -> dict[str, Any]:
        log = self._log(run)
        numbers = log.running.numbers
        return {
            "run": run.name,
            "writer": run.writer(),
            "cost": sum(cell.pop("cost") for cell in cells),
            "noted": numbers.at if numbers else None,
            "numbers": dict(numbers.numbers) if numbers else {},
            "trouble": log.trouble,
            "running": [self._listed(run, name, each) for name, each in self._running(run).items()],
            "cells": cells,
        }

    def _listed(self, run: ViewedRun, episode_id: str, episode: RunningEpisode) -> dict[str, Any]:
        began = asdict(episode.began)
        last_at, said = None, ""
        if episode.turns:
            last = episode.turns[-1]
            last_at = last.at
            said = " ".join((last.reply or last.reasoning).split())
        names = ("suite", "task", "level", "mode", "index", "repeat", "player", "budget", "attempt")
        return {
            "run": run.name,
            "episode_id": episode_id,
            **{name: began[name] for name in names},
            "began": episode.began.at,
            "first": min((turn.turn for turn in episode.turns), default=0),
            "turns": episode.played,
            "last_at": last_at,
            "last": said[-LAST_CHARACTERS:],
            "ended": episode.ended,
        }


def _key(description: str) -> str:
    return hashlib.blake2b(description.encode(), digest_size=16).hexdigest()


def _picture(description: str) -> dict[str, Any]:
    try:
        width, height = picture_from_description(description).size
    except Exception as error:  # a log may be anybody's; what is wrong with a picture must not hide the turn
        return {"key": _key(description), "width": 0, "height": 0, "error": str(error)}
    return {"key": _key(description), "width": width, "height": height, "error": ""}


def _told(turn: PlayedLine) -> dict[str, Any]:
    """A turn for the page, its pictures with their sizes."""
    told = asdict(turn)
    for name in ("kind", "episode", "pictures"):
        del told[name]
    return {**told, "pictures": [_picture(description) for description in turn.pictures]}
