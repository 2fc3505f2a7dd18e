"""Workloads of a simulated cluster: planned episodes and, hidden from the scheduler, the tokens of each turn."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster.engines.simulated import CHARACTERS_PER_TOKEN, PICTURE_TOKENS, Speed
from cluster.storage.stored_run import Run
from evals.ledger.ledger import open_ledger
from evals.types import Episode

MAX_TURNS = 50
MAX_REPLY_TOKENS = 1024


@dataclass(frozen=True)
class Kind:
    """A kind of episode; lengths are in tokens, with means as planned by the suites."""

    name: str
    share: float
    """Share of all episodes."""
    calls: tuple[float, ...]
    """Expected turns; each episode has one of these."""
    calls_spread: float
    """Sigma of the log-normal factor between actual and expected turns."""
    common: int
    """Prompt prefix that all episodes of the kind share."""
    first: int
    """The first prompt, including the common prefix."""
    step: int
    """What each further turn adds to the prompt, without the reply."""
    grows: bool
    """Whether a prompt continues the previous one, or only shares the common prefix."""
    reply: float
    """Median of the log-normal reply lengths."""
    tail: float
    """Sigma of the reply lengths."""
    repeats: int = 1
    """Episodes per group, which share the first prompt."""


MIX = (
    Kind("kumo easy", 0.15, (4.2,), 0.4, 120, 560, 40, True, 150, 1.0, repeats=5),
    Kind("kumo hard", 0.15, (8.1,), 0.4, 120, 1400, 40, True, 150, 1.0, repeats=5),
    Kind("kidgym zero-shot", 0.20, (1, 2, 3, 4, 6, 8, 12), 0.2, 400, 850, 400, False, 8, 0.3),
    Kind("kidgym reasoning", 0.20, (1, 2, 3, 4, 6, 8, 12), 0.2, 400, 870, 400, False, 150, 0.7),
    Kind("kidgym example", 0.20, (1, 2, 3, 4, 6, 8, 12), 0.2, 2400, 2900, 400, False, 8, 0.3),
    Kind("kidgym memory", 0.10, (3, 4.5, 6.5), 0.2, 400, 1200, 400, True, 20, 0.5),
)
"""KidGym and KUMO; expected calls as planned, reply lengths assumed."""

QUESTIONS = (Kind("question", 1.0, (1,), 0.0, 350, 600, 0, False, 2, 0.3),)
"""One short answer per prompt with a picture, as in MultiStAR: the highest rate of turns per replica."""

STEADY = (Kind("steady", 1.0, (5,), 0.0, 400, 900, 100, True, 100, 0.3),)
"""Games of equal length, so that no single long episode decides the makespan."""


@dataclass
class Workload:
    """Episodes in plan order; turn ``t`` of episode ``e`` is at ``starts[e] + t`` of the token arrays."""

    episodes: list[Episode]
    starts: array[int]
    prompts: array[int]
    """Prompt tokens of each turn."""
    kept: array[int]
    """Tokens that are cached on the replica that served the earlier turns of the episode or its group."""
    common: array[int]
    """Tokens that are cached on any replica that served an episode of the kind."""
    replies: array[int]
    """Reply tokens of each turn."""

    @property
    def turns(self) -> int:
        """Number of turns of all episodes."""
        return len(self.prompts)

    def reply_tokens(self, number: int) -> int:
        """Total reply tokens of an episode, which the scheduler cannot know."""
        return sum(self.replies[self.starts[number] : self.starts[number + 1]])

    def ideal_work(self, speed: Speed, batch: int) -> float:
        """Replica seconds at full batch if all reusable prompt tokens are cached."""
        prompts, kept, replies = (np.frombuffer(each, np.int32) for each in (self.prompts, self.kept, self.replies))
        return speed.work(int(prompts.sum() - kept.sum()), int(replies.sum()), batch)

    def longest_alone(self, speed: Speed) -> float:
        """Seconds of the longest episode on an empty replica, a lower bound of the makespan."""
        uncached = np.frombuffer(self.prompts, np.int32) - np.frombuffer(self.kept, np.int32)
        seconds = uncached / speed.prefill_tokens_per_second + np.frombuffer(self.replies, np.int32) * speed.step(1)
        return float(np.add.reduceat(seconds, np.frombuffer(self.starts, np.int64)[:-1]).max())


def draw(count: int, seed: int = 0, mix: tuple[Kind, ...] = MIX) -> Workload:
    """``count`` random episodes of the mix in plan order: by kind, then by group."""
    rng = np.random.default_rng(seed)
    bounds = np.round(np.cumsum([0.0] + [kind.share for kind in mix]) / sum(kind.share for kind in mix) * count)
    parts = [_draw_kind(kind, int(end - begin), rng) for kind, (begin, end) in zip(mix, pairwise(bounds), strict=True)]
    lengths = np.concatenate([part["lengths"] for part in parts])
    episodes = [episode for part in parts for episode in part["episodes"]]
    columns = {
        name: np.concatenate([part[name] for part in parts]) for name in ("prompts", "kept", "common", "replies")
    }
    return _workload(episodes, lengths, **columns)


def _draw_kind(kind: Kind, count: int, rng: np.random.Generator) -> dict[str, Any]:
    expected = rng.choice(kind.calls, size=-(-count // kind.repeats)).repeat(kind.repeats)[:count]
    factors = np.exp(kind.calls_spread * rng.standard_normal(count))
    lengths = np.clip(np.round(expected * factors), 1, MAX_TURNS).astype(np.int64)
    replies = kind.reply * np.exp(kind.tail * rng.standard_normal(int(lengths.sum())))
    replies = np.clip(np.round(replies), 1, MAX_REPLY_TOKENS).astype(np.int64)
    ends = lengths.cumsum()
    number = np.arange(len(replies)) - (ends - lengths).repeat(lengths)  # of a turn in its episode
    prompts = np.full(len(replies), kind.first)
    kept = np.full(len(replies), kind.common)
    if kind.grows:
        written = replies.cumsum() - replies
        prompts += number * kind.step + written - written[ends - lengths].repeat(lengths)
        kept[1:] = prompts[:-1]
    in_group = np.arange(count) % kind.repeats
    kept[ends - lengths] = np.where(in_group > 0, kind.first, kind.common)
    return {
        "episodes": [_episode(kind, index, float(calls)) for index, calls in enumerate(expected)],
        "lengths": lengths,
        "prompts": prompts,
        "kept": kept,
        "common": np.full(len(replies), kind.common),
        "replies": replies,
    }


def _episode(kind: Kind, index: int, calls: float) -> Episode:
    growth = (kind.step + kind.reply) * calls * (calls - 1) / 2 if kind.grows else 0.0
    return Episode(
        suite="simulation",
        task=kind.name,
        level="",
        mode="",
        index=index // kind.repeats,
        repeat=index % kind.repeats,
        seed=index,
        fingerprint="",
        budget=MAX_TURNS,
        calls=calls,
        prompt_tokens=calls * kind.first + growth,
        group=f"{kind.name} {index // kind.repeats}" if kind.repeats > 1 else "",
    )


def from_run(run_dir: Path, count: int | None = None, seed: int = 0) -> Workload:
    """The episodes of a finished run with the actual tokens of its turns.

    Args:
        run_dir: A run directory; its plan gives the expected work, its ledger the turns.
        count: Number of episodes, drawn with replacement; by default each episode once.
        seed: Seed of the drawing.

    Raises:
        ValueError: the run has no finished episode of a model.
    """
    plan = {episode.id: episode for episode in Run(run_dir).plan}
    ledger = open_ledger(run_dir).table(("episode_id", "turns"))
    rows = [
        (plan[episode_id], turns)
        for episode_id, turns in zip(ledger["episode_id"].to_pylist(), ledger["turns"].to_pylist(), strict=True)
        if episode_id in plan and turns and turns[0]["prompt_tokens"]
    ]
    if not rows:
        raise ValueError(f"{run_dir}: no episode has turns with token counts")
    order = {episode_id: number for number, episode_id in enumerate(plan)}
    rows.sort(key=lambda row: order[row[0].id])
    if count is not None:
        picks = np.sort(np.random.default_rng(seed).integers(len(rows), size=count))
        rows = [(replace(rows[pick][0], repeat=number), rows[pick][1]) for number, pick in enumerate(picks)]
    columns: dict[str, list[int]] = {"prompts": [], "kept": [], "common": [], "replies": []}
    for _, turns in rows:
        sizes: list[int] = []
        common = turns[0]["cached_tokens"]
        for number, turn in enumerate(turns):
            sizes = sizes[: turn["kept"]] + [_size(message) for message in turn["prompt"]]
            old, prompt = sum(sizes[: turn["kept"]]), turn["prompt_tokens"]
            columns["prompts"].append(prompt)
            columns["kept"].append(round(prompt * old / max(1, sum(sizes))) if number else common)
            columns["common"].append(min(common, prompt))
            columns["replies"].append(turn["completion_tokens"])
    lengths = np.array([len(turns) for _, turns in rows])
    return _workload([episode for episode, _ in rows], lengths, **{name: np.array(c) for name, c in columns.items()})


def _size(message: Mapping[str, Any]) -> int:
    """Approximate tokens of a stored message."""
    return sum(
        PICTURE_TOKENS if part["text"] is None else math.ceil(len(part["text"]) / CHARACTERS_PER_TOKEN)
        for part in message["parts"]
    )


def _workload(episodes: list[Episode], lengths: npt.NDArray[np.int64], **columns: npt.NDArray[np.int64]) -> Workload:
    starts = array("q", np.concatenate([[0], lengths.cumsum()]).astype(np.int64).tobytes())
    return Workload(
        episodes, starts, **{name: array("i", each.astype(np.int32).tobytes()) for name, each in columns.items()}
    )
