"""Run directories for tests of the viewer: small games of all suites, played in this process."""

import asyncio
import functools
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from cluster.storage.stored_run import Run
from evals.ledger.parts import write_part
from evals.ledger.records import PARQUET_OPTIONS, plan_to_table, records_to_table
from evals.players import OraclePlayer, RandomPlayer
from evals.suite import Suite, ledger_columns, play_episode
from evals.suites.bundle import Bundle
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.multistar import MultiStarSuite
from evals.types import LabelScores, Player, PlayerError, Reply, Turn
from evals.viewer.runs import ViewedRun

KUMO = {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 2, "repeats": 2}
KIDGYM = {"tasks": ["CL", "SE"], "levels": [1], "modes": ["zero_shot"], "episodes": 2}
MULTISTAR = {"configurations": ["center_single"], "puzzles": 1, "attributes": ["number"], "priors": ["model"]}
CONFIG = {
    "type": "bundle",
    "name": "small",
    "suites": [{"type": "kumo", **KUMO}, {"type": "kidgym", **KIDGYM}, {"type": "multistar", **MULTISTAR}],
}

HOSTILE = (
    '<script>window.hacked = true</script><img src=x onerror="window.hacked = true"> <b>bold</b> [a](javascript:alert(1))'
    " \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202egnp.exe\u202c \u2066isolate\u2069 \u200b\x00 {{7*7}} ${7*7} </textarea></div>"
)
MEGABYTE = "<script>window.hacked = true</script>\n" + "All work and no play. " * 50_000


class HostilePlayer:
    """Writes what could do harm where it was taken for markup or terminal codes; fails some games, and reads one right."""

    async def reply(self, turn: Turn) -> Reply:
        if turn.labels:
            logprobs = tuple(-0.2 - number for number in range(len(turn.labels)))
            return Reply(turn.labels[0], label_scores=LabelScores(logprobs, mass=0.9, argmax_is_label=True))
        if turn.episode.index == 1 and turn.episode.suite == "kidgym":
            raise PlayerError(f"refused after {turn.episode.seed % 1000} ms: {HOSTILE}", "endpoint")
        best = turn.oracle() if turn.number == 0 and turn.oracle else ""
        text = MEGABYTE if turn.number == 1 else f"{HOSTILE} <answer>{best}</answer>"
        return Reply(
            text,
            "length" if turn.number == 1 else "stop",
            100,
            50,
            40,
            1.5,
            reasoning=f"Let me think. {HOSTILE}",
            reasoning_tokens=20,
            cost=0.01,
        )


@functools.cache
def small_suite() -> Suite:
    return Bundle("small", (KumoSuite(**KUMO), KidGymSuite(**KIDGYM), MultiStarSuite(**MULTISTAR)))


def rows_of(suite: Suite, players: Mapping[str, Player]) -> tuple[list, pa.Table]:
    """The plan for these players, and all its episodes as ledger rows."""
    suites = {part.name: part for part in suite.parts}
    plan = [episode.assigned(name, "") for name in players for part in suite.parts for episode in part.plan()]

    async def play():
        return [await play_episode(suites[each.suite], each, players[each.player]) for each in plan]

    return plan, records_to_table(asyncio.run(play()), ledger_columns(suite))


def write_run(path: Path, plan, rows: pa.Table, config=CONFIG) -> Path:
    """A run directory with these rows in one part."""
    (path / "episodes").mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump({"suite": config, "model": {"name": "of the test"}}))
    pq.write_table(plan_to_table(plan), path / "plan.parquet", **PARQUET_OPTIONS)
    add_part(path, 1, rows)
    return path


def add_part(path: Path, number: int, rows: pa.Table, replaces=()) -> Path:
    part = path / "episodes" / f"part-{number:06d}-test.parquet"
    part.write_bytes(write_part([rows], rows.schema, replaces))
    return part


@functools.cache
def calm_rows():
    return rows_of(small_suite(), {"random": RandomPlayer(), "oracle": OraclePlayer()})


@functools.cache
def hostile_rows():
    return rows_of(small_suite(), {"hostile": HostilePlayer()})


class ShortSighted:
    """Plays perfectly in words; from pictures it loses every second game, and every fourth reply cannot be read."""

    async def reply(self, turn: Turn) -> Reply:
        from_pictures = any(not isinstance(part, str) for message in turn.chat for part in message.parts)
        if from_pictures and turn.episode.index % 4 == 3:
            return Reply("I would rather not say.")
        best = turn.oracle() if turn.oracle else ""
        wrong = [option for option in turn.options if option != best]
        return Reply(wrong[0] if from_pictures and turn.episode.index % 2 and wrong else best)


def study_runs(folder: Path) -> list[Path]:
    """A study of two settings in four runs, in a folder as a multirun leaves it; the first one is the baseline."""
    settings = [(modality, told) for modality in ("picture", "text") for told in (True, False)]
    paths = []
    for number, (modality, told) in enumerate(settings):
        suite = {"tasks": ["CL", "SO"], "levels": [1], "modes": ["zero_shot"], "episodes": 8}
        suite |= {"modality": modality, "tell_budget": told}
        rows = rows_of(KidGymSuite(**suite), {"short-sighted": ShortSighted()})
        paths.append(write_run(folder / str(number), *rows, {"type": "kidgym", **suite}))
    return paths


def viewed(path: Path) -> ViewedRun:
    return ViewedRun(path.name, path, small_suite, lambda: Run(path).data)
