"""A toy suite, small enough to reason about: each episode asks a fixed number of questions with known right answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from evals.conversation import Conversation
from evals.ledger.run_data import RunData
from evals.suite import Column, Suite
from evals.tables import Section, Table
from evals.types import Episode, Outcome, message, stable_hash, stable_seed

OPTIONS = ("red", "green", "blue")


@dataclass(frozen=True)
class ToySuite(Suite):
    """``episodes`` games of ``turns`` questions; even indices take twice as many. Success is all answers right."""

    episodes: int = 20
    turns: int = 3
    thinking_seconds: float = 0.0

    name: ClassVar[str] = "toy"
    columns: ClassVar[Mapping[str, Column]] = {"right": Column(pa.int32(), "Right answers.", better="higher")}

    def plan(self) -> Sequence[Episode]:
        return [
            Episode(
                suite=self.name,
                task="colors",
                level="easy",
                mode="zero_shot",
                index=index,
                repeat=0,
                seed=stable_seed("colors", index),
                fingerprint=stable_hash("toy", self.turns),
                budget=2 * self.turns,
                calls=float(self._length(index)),
                prompt_tokens=100.0 * self._length(index),
            )
            for index in range(self.episodes)
        ]

    def _length(self, index: int) -> int:
        return self.turns * (2 - index % 2)

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        chat = (message("system", "Name the color I think of."),)
        right = 0
        steps = self._length(episode.index)
        for step in range(steps):
            answer = OPTIONS[stable_seed(episode.seed, step) % len(OPTIONS)]
            chat = (*chat, message("user", f"Game {episode.index}, question {step}?"))
            played = await conversation.ask(chat, options=OPTIONS, oracle=lambda answer=answer: answer)
            played.action, played.rule = played.reply.text, "exact"
            right += played.action == answer
            chat = (*chat, message("assistant", played.reply.text))
            if self.thinking_seconds:
                await asyncio.sleep(self.thinking_seconds)
        return Outcome(success=right == steps, steps=steps, extra={"right": right})

    def results(self, run: RunData, section: Section) -> Sequence[Table]:
        if section != "scores":
            return []
        right = [value or 0 for value in run.episodes(["right"])["right"].to_pylist()]
        return [Table("toy", "Toy", ("episodes", "right"), ((len(right), sum(right)),))]
