"""A sample of a run's episodes turn by turn, for people to look at: failed and lost ones first."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evals.ledger.run_data import RunData
from evals.suite import Suite
from evals.suite_results import suite_view

OUTCOMES = ("failed", "lost", "won")


@dataclass(frozen=True)
class SampledTurn:
    """One turn of a sampled episode."""

    episode: str
    suite: str
    task: str
    level: str
    mode: str
    outcome: str
    """``failed``, ``lost`` or ``won``."""
    error: str
    turn: int
    pictures: tuple[str, ...]
    """Descriptions of the pictures that the turn added."""
    prompt: str
    """The texts that the turn added, each message under its role."""
    reasoning: str
    reply: str
    decoded: str | None
    rule: str


def sample_turns(suite: Suite, run: RunData, player: str, episodes: int) -> list[SampledTurn]:
    """All turns of a fixed sample: half failed episodes, a quarter lost ones, the rest won ones, as far as there are any.

    Args:
        suite: The run's suite.
        run: The run.
        player: Whose episodes.
        episodes: How many.
    """
    by_outcome: dict[str, list[str]] = {outcome: [] for outcome in OUTCOMES}
    for row in run.episodes(["episode_id", "player", "status", "success"]).to_pylist():
        if row["player"] == player:
            by_outcome[_outcome(row["status"], row["success"])].append(row["episode_id"])
    for ids in by_outcome.values():
        random.Random(0).shuffle(ids)
    chosen = _chosen(by_outcome, episodes)
    rows = {row["episode_id"]: row for row in run.find(chosen)}
    return [turn for episode in chosen if episode in rows for turn in _turns(suite, rows[episode])]


def _outcome(status: str, success: bool | None) -> str:
    return "failed" if status == "failed" else "won" if success else "lost"


def _chosen(by_outcome: dict[str, list[str]], count: int) -> Sequence[str]:
    shares = {"failed": count // 2, "lost": count // 4, "won": count - count // 2 - count // 4}
    first = {outcome: ids[: shares[outcome]] for outcome, ids in by_outcome.items()}
    for outcome in OUTCOMES:  # where one kind has too few, the others take its place
        missing = count - sum(map(len, first.values()))
        first[outcome] = by_outcome[outcome][: len(first[outcome]) + missing]
    return [episode for outcome in OUTCOMES for episode in first[outcome]]


def _turns(suite: Suite, row: dict[str, object]) -> Iterator[SampledTurn]:
    part = next(part for part in suite.parts if part.name == row["suite"])
    short = {name.removeprefix(f"{part.name}."): value for name, value in row.items()}
    for number, step in enumerate(suite_view(part, short).steps):
        pictures, texts = [], []
        for said in step.shown:
            texts.append(f"[{said['role']}]")
            for piece in said["parts"]:
                if piece["picture"] is None:
                    texts.append(piece["text"])
                else:
                    pictures.append(piece["picture"])
        yield SampledTurn(
            episode=str(row["episode_id"]),
            suite=part.name,
            task=str(row["task"]),
            level=str(row["level"]),
            mode=str(row["mode"]),
            outcome=_outcome(str(row["status"]), bool(row["success"])),
            error=str(row["error"]),
            turn=number,
            pictures=tuple(pictures),
            prompt="\n".join(texts),
            reasoning=step.reasoning,
            reply=step.reply,
            decoded=step.decoded,
            rule=step.rule,
        )
