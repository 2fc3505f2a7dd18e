"""Scheduling efficiency with simulated engines, compared with static shards and one episode at a time.

    python -m benchmarks.saturation [--replicas 1 8 64] [--peers] [--batch N] [hydra overrides]

By default it plays KidGym, 432 episodes per replica. The makespan is compared with a lower bound: the work of the engines
(prefill of uncached tokens, decoding steps at full batch) over the capacity of all replicas, or the longest game alone on
an empty replica, whichever is longer. "Share while replicas were up" counts the capacity of each replica only from when it
was ready.

The peers play the same episodes on the same engines without a scheduler and its overhead: in one process, without Ray.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from cluster.commands.run import run
from cluster.config.settings import Settings, load_settings
from cluster.console import show
from cluster.engines.simulated import SimulatedEngine, Speed
from cluster.runner.episode_queue import longest_first
from cluster.runner.model_player import request_for
from cluster.runner.router import OVERCOMMIT
from cluster.storage.stored_run import Run
from evals.suite import play_episode
from evals.tables import Cell, Table
from evals.types import Episode, Reply, Turn

CELLS = 108
"""Cells of KidGym."""
PER_CELL = 4
"""Episodes of each cell for each replica."""
ENGINE = ["model.engine.step_seconds=0.02", "model.engine.median_tokens=150", "model.engine.tail=0.5"]
SAMPLE = 8
"""Episodes per replica for one episode at a time, which would take hours on all; it has no tail, so its speed is enough."""


def settings_for(overrides: list[str], replicas: int, batch: int, run_dir: Path) -> Settings:
    """Settings of a run; without overrides, the number of episodes is proportional to ``replicas``."""
    games = overrides or ["suite=kidgym", f"suite.episodes={PER_CELL * replicas}", *ENGINE]
    cluster = [f"cluster.replicas={replicas}", "baselines=[]", f"run_dir={run_dir}"]
    return load_settings(["model=simulated", f"model.engine.max_num_seqs={batch}", *cluster, *games])


def raycade(overrides: list[str], replicas: int, batch: int) -> tuple[tuple[Cell, ...], float]:
    """One real run in a fresh directory; also the seconds that its longest game takes alone."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(overrides, replicas, batch, Path(folder, "run"))
        code, _ = run(settings)
        assert code == 0
        ledger = Run(settings.run_dir).episodes()
        ids = ledger["episode_id"].to_pylist()
        assert len(ids) == len(set(ids)) == len(settings.plan), "every planned episode once"
        assert set(ids) == {episode.id for episode in settings.plan}
        timing = json.loads(Path(folder, "run", "timings.jsonl").read_text())
    uncached = timing["prompt_tokens"] - timing["cached_tokens"]
    work = speed(settings).work(uncached, timing["completion_tokens"], batch)
    seconds, up = timing["playing_seconds"], sum(use["slot_seconds"] for use in timing["use"].values()) / batch
    hits = timing["cached_tokens"] / timing["prompt_tokens"]
    longest = longest_game(ledger, speed(settings))
    row = (
        *(replicas, "raycade", len(ids), timing["turns"], timing["turns"] / seconds),
        *(max(work / replicas, longest) / seconds, longest / seconds),
        *(work / up, hits, timing["queueing_seconds"] / timing["turns"]),
    )
    return row, longest


def longest_game(ledger: pa.Table, speed: Speed) -> float:
    """Seconds of the longest episode alone on an empty replica; its turns follow one another."""
    columns = (ledger[name].to_pylist() for name in ("prompt_tokens", "cached_tokens", "completion_tokens"))
    return max(speed.work(prompt - cached, written, 1) for prompt, cached, written in zip(*columns, strict=True))


def speed(settings: Settings) -> Speed:
    """Speed of a run's engines."""
    names = ("step_seconds", "step_seconds_per_seq", "prefill_tokens_per_second")
    return Speed(*((settings.model.engine or {})[name] for name in names))


# --- peers: no scheduler, no Ray ---


class _Direct:
    """A player with its own engine."""

    def __init__(self, engine: SimulatedEngine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings

    async def reply(self, turn: Turn) -> Reply:
        return await self.engine.complete(request_for(turn, self.settings.decoding))


MakeQueues = Callable[[list[Episode], int], list[deque[Episode]]]


def static_shards(plan: list[Episode], replicas: int) -> list[deque[Episode]]:
    """One queue per replica, filled round-robin."""
    return [deque(plan[number::replicas]) for number in range(replicas)]


def shared_sample(plan: list[Episode], replicas: int) -> list[deque[Episode]]:
    """One queue for all replicas, with a sample of the episodes."""
    count = SAMPLE * replicas
    return [deque(longest_first(plan[:: max(1, len(plan) // count)]))] * replicas


def peer(
    name: str, overrides: list[str], replicas: int, batch: int, make_queues: MakeQueues, alive: int, longest: float
) -> tuple[Cell, ...]:
    """Each replica plays ``alive`` episodes at once from its queue; ``longest`` is the time of the longest game alone."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(overrides, replicas, batch, Path(folder, "run"))
        return asyncio.run(
            _play_peer(name, settings, batch, make_queues(list(settings.plan), replicas), alive, longest)
        )


async def _play_peer(
    name: str, settings: Settings, batch: int, queues: list[deque[Episode]], alive: int, longest: float
) -> tuple[Cell, ...]:
    made = [settings.model.make_engine() for _ in queues]
    engines = [engine for engine in made if isinstance(engine, SimulatedEngine)]
    assert len(engines) == len(queues)
    episodes = sum({id(queue): len(queue) for queue in queues}.values())
    shared = queues[0] is queues[-1] and len(queues) > 1
    for engine in engines:
        await engine.start()
    started = time.monotonic()

    async def keep_playing(engine: SimulatedEngine, queue: deque[Episode]) -> None:
        player = _Direct(engine, settings)
        while queue:
            await play_episode(settings.suite, queue.popleft(), player)

    tasks = [
        asyncio.create_task(keep_playing(engine, queue))
        for engine, queue in zip(engines, queues, strict=True)
        for _ in range(alive)
    ]
    # A shared queue is a sample of a long run: measure the speed until the first replica finds it empty.
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED if shared else asyncio.ALL_COMPLETED)
    seconds = time.monotonic() - started
    loads = [engine.load for engine in engines]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    prompts, cached, written, turns = (
        sum(getattr(load, field) for load in loads)
        for field in ("prompt_tokens", "cached_tokens", "completion_tokens", "completed")
    )
    ideal = speed(settings).work(prompts - cached, written, batch) / len(engines)
    share, tail = max(ideal, longest) / seconds, longest / seconds
    return len(engines), name, episodes, turns, turns / seconds, share, tail, ideal / seconds, cached / prompts, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[8])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument(
        "--peers", action="store_true", help="also static shards and, on a sample, one episode at a time"
    )
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    rows = []
    for replicas in options.replicas:
        work = (options.overrides, replicas, options.batch)
        row, longest = raycade(*work)
        rows.append(row)
        if options.peers:
            rows.append(peer("static shards", *work, static_shards, math.ceil(options.batch * OVERCOMMIT), longest))
            rows.append(peer("one episode at a time", *work, shared_sample, 1, 0.0))
        print(*rows, sep="\n", flush=True)
    columns = (
        *("replicas", "scheduler", "episodes", "requests", "requests/s", "share of the bound"),
        "longest game alone",
        *("share while replicas were up", "cache hit rate", "queueing seconds per request"),
    )
    show([Table("saturation", "Scheduling efficiency", columns, tuple(rows))])


if __name__ == "__main__":
    main()
