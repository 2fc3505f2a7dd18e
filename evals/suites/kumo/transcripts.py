"""The published transcripts as players: each model of the paper replies what it replied then.

A checkout of the published repository holds ``results/MODEL/VanillaAgent/DOMAINEnv/SIZE/eval_times=5.jsonl``, one line per
task with five runs. Lines are found by their place in the file, so that any number of episodes can be played in any order.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.kumo.published.checkout import CheckoutError, open_file, parse_json
from envs.kumo.published.importing import domain_name, size_name
from evals.suites.kumo.levels import size_of
from evals.types import Episode, Player, PlayerError, Reply, Turn

RUNS = 5
"""Of each task, by each model."""
_LARGEST = 64 << 20
"""Bytes of one file; the largest published one has six million."""
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")
_SEED = re.compile(rb'"seed": ?(\d{1,9})\b')


@functools.lru_cache(maxsize=8)
def transcript_players(checkout: str) -> Mapping[str, Player]:
    """The models with transcripts, by the names of their folders.

    Raises:
        ValueError: there are none.
    """
    players: dict[str, Player] = {}
    for name in _names_in(checkout):
        if _MODEL.fullmatch(name) and _files(checkout, name):
            players[name] = TranscriptPlayer(checkout)
    if not players:
        raise ValueError(f"suite.transcripts: {checkout}/results holds no transcripts")
    return players


def _names_in(checkout: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(Path(checkout) / "results"))
    except OSError as cause:
        raise ValueError(f"suite.transcripts: {checkout}/results cannot be read: {cause.strerror}") from None


@functools.lru_cache(maxsize=256)
def _files(checkout: str, model: str) -> Mapping[tuple[str, str], str]:
    """A model's files with all runs, by domain and level."""
    found = {}
    for env in _folders(Path(checkout) / "results" / model / "VanillaAgent"):
        for level in ("easy", "hard"):
            relative = f"results/{model}/VanillaAgent/{env}/{size_name(*size_of(level))}/eval_times=5.jsonl"
            if (Path(checkout) / relative).is_file():
                found[domain_name(env), level] = relative
    return found


def _folders(path: Path) -> Sequence[str]:
    try:
        return sorted(
            entry.name for entry in os.scandir(path) if entry.name.endswith("Env") and not entry.name.startswith(".")
        )
    except OSError:
        return ()


def has_transcript(checkout: str, model: str, episode: Episode) -> bool:
    """Whether a model has a transcript of an episode's run."""
    relative = _files(checkout, model).get((episode.task, episode.level))
    return relative is not None and episode.index in _line_places(checkout, relative) and episode.repeat < RUNS


@dataclass(frozen=True)
class TranscriptPlayer:
    """Replies as the model that the episode's player is named after did in the run of the episode's repeat."""

    checkout: str

    async def reply(self, turn: Turn) -> Reply:
        """The stored reply. A run's tokens, which are on record in all only, come with its last one.

        Raises:
            PlayerError: there is no such run, or it ended before.
        """
        episode = turn.episode
        run = stored_run(self.checkout, episode.player, episode.task, episode.level, episode.index, episode.repeat)
        texts = run["generated_text"]
        if turn.number >= len(texts):
            raise PlayerError("the published run ended here")
        text, last = texts[turn.number], turn.number == len(texts) - 1
        tokens = run["consumed_tokens"] if last else 0
        if text is None:  # the API failed for good, which counted as a reply that cannot be read
            return Reply("", finish="length", prompt_tokens=tokens)
        return Reply(text, prompt_tokens=tokens)


def stored_run(checkout: str, model: str, domain: str, level: str, index: int, repeat: int) -> Mapping[str, Any]:
    """One run as the result files hold it, with ``generated_text``, ``actions`` and ``successful``.

    Raises:
        PlayerError: there is no such run, or its line is damaged.
    """
    relative = _files(checkout, model).get((domain, level))
    lines = _line_places(checkout, relative) if relative else {}
    if relative is None or index not in lines:
        raise PlayerError(f"{model} has no transcript of {domain} {level} task {index}")
    runs = _runs_at(checkout, relative, *lines[index])
    if repeat >= len(runs):
        raise PlayerError(f"{model} has {len(runs)} transcripts of {domain} {level} task {index}, no more")
    return runs[repeat]


def transcript_domains(checkout: str, model: str, level: str) -> frozenset[str]:
    """The domains of which a model has transcripts."""
    return frozenset(domain for domain, found in _files(checkout, model) if found == level)


def lines_without_a_task(checkout: str, model: str) -> Mapping[str, int]:
    """By result file of a model, lines that name no task, such as one that was cut, and whose runs are not played.

    A file without any task counts as one such line.
    """
    found = {}
    for relative in _files(checkout, model).values():
        places, nameless = _scanned(checkout, relative)
        if nameless or not places:
            found[relative] = max(1, nameless)
    return found


def lines_of_other_tasks(
    checkout: str, model: str, tasks: Callable[[str, str], frozenset[int]]
) -> Mapping[str, tuple[int, ...]]:
    """By result file of a model, the tasks of its lines that are none of ``tasks``, so that their runs are not played.

    Args:
        checkout: The published repository.
        model: The name of its folder.
        tasks: The indices of the tasks there are of a domain (first argument) at a level.
    """
    found = {}
    for (domain, level), relative in _files(checkout, model).items():
        others = sorted(_line_places(checkout, relative).keys() - tasks(domain, level))
        if others:
            found[relative] = tuple(others)
    return found


def _line_places(checkout: str, relative: str) -> Mapping[int, tuple[int, int]]:
    """Where the line of each task begins and how long it is; of several lines of one task the first counts."""
    return _scanned(checkout, relative)[0]


@functools.lru_cache(maxsize=4096)
def _scanned(checkout: str, relative: str) -> tuple[Mapping[int, tuple[int, int]], int]:
    """The places of a file's lines by task, and how many lines name none; blank ones aside."""
    places: dict[int, tuple[int, int]] = {}
    start = nameless = 0
    with _open(checkout, relative) as file:
        for line in file:
            seeds = _SEED.findall(line)  # the task's own stands behind the runs, and other numbers only in texts
            if seeds:
                places.setdefault(int(seeds[-1]), (start, len(line)))
            elif line.strip():
                nameless += 1
            start += len(line)
    return places, nameless


@functools.lru_cache(maxsize=4096)
def _runs_at(checkout: str, relative: str, start: int, length: int) -> Sequence[Mapping[str, Any]]:
    """The runs of one line."""
    with _open(checkout, relative) as file:
        file.seek(start)
        line = file.read(length)
    try:
        runs = parse_json(line.decode("utf-8"))["trajectories"]
        for run in runs:
            replies = run["generated_text"]
            if not isinstance(replies, list) or not all(isinstance(text, str | None) for text in replies):
                raise TypeError("its replies are no list of texts")
            run["generated_text"] = [_as_text(text) for text in replies]
            run["consumed_tokens"] = int(run["consumed_tokens"])
    except (ValueError, KeyError, TypeError) as cause:
        what = f"the line at byte {start:,} is damaged ({type(cause).__name__}: {cause})"
        raise PlayerError(f"{relative}: {what}", kind="suite") from None
    return list(runs)


def _as_text(reply: str | None) -> str | None:
    """A reply without halves of surrogate pairs, which no ledger can hold, as those of engines are read."""
    return None if reply is None else reply.encode("utf-8", "replace").decode("utf-8")


def _open(checkout: str, relative: str) -> Any:
    try:
        return open_file(Path(checkout), relative, _LARGEST)
    except CheckoutError as cause:
        raise PlayerError(str(cause), kind="suite") from None
