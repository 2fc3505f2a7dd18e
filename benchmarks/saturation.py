"""How full the scheduler keeps simulated engines, beside static shards and one episode at a time.

    python -m benchmarks.saturation [--replicas 1 8 64] [--peers] [--batch N] [hydra overrides]

Without overrides KidGym is played, 432 episodes for each replica. The ideal makespan is the work that the engines did
(prefill of uncached tokens, decoding steps at full batch) over the capacity of all replicas: nothing can finish sooner.
"Of capacity up" leaves out what was lost while the replicas were starting.

The peers play the same episodes on the same engines without any scheduler, and pay for none: all in one process, no Ray.
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

from cluster.commands.run import run
from cluster.config.settings import Settings, load_settings
from cluster.console import show
from cluster.engines.simulated import SimulatedEngine, Speed
from cluster.runner.episode_queue import longest_first
from cluster.runner.model_player import request_for
from cluster.runner.router import OVERCOMMIT
from cluster.storage.stored_run import read_episodes
from evals.suite import play_episode
from evals.tables import Cell, Table
from evals.types import Episode, Reply, Turn

CELLS = 108
"""Of KidGym."""
PER_CELL = 4
"""Episodes of each cell for each replica."""
ENGINE = ["model.engine.step_seconds=0.02", "model.engine.median_tokens=150", "model.engine.tail=0.5"]
SAMPLE = 8
"""One episode at a time has no tail and would take hours: each replica plays so many, and its speed is what counts."""


def settings_for(overrides: list[str], replicas: int, batch: int, run_dir: Path) -> Settings:
    """A run on so many replicas; without overrides with as many episodes for each."""
    games = overrides or ["suite=kidgym", f"suite.episodes={PER_CELL * replicas}", *ENGINE]
    cluster = [f"cluster.replicas={replicas}", "baselines=[]", f"run_dir={run_dir}"]
    return load_settings(["model=simulated", f"model.engine.max_num_seqs={batch}", *cluster, *games])


def raycade(overrides: list[str], replicas: int, batch: int) -> tuple[Cell, ...]:
    """One real run in a fresh directory."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(overrides, replicas, batch, Path(folder, "run"))
        code, _ = run(settings)
        assert code == 0
        ledger = read_episodes(settings.run_dir)
        ids = ledger["episode_id"].to_pylist()
        assert len(ids) == len(set(ids)) == len(settings.plan), "every planned episode once"
        assert set(ids) == {episode.id for episode in settings.plan}
        timing = json.loads(Path(folder, "run", "timings.jsonl").read_text())
    uncached = timing["prompt_tokens"] - timing["cached_tokens"]
    work = speed(settings).work(uncached, timing["completion_tokens"], batch)
    seconds, up = timing["playing_seconds"], sum(use["slot_seconds"] for use in timing["use"].values()) / batch
    hits = timing["cached_tokens"] / timing["prompt_tokens"]
    return (
        *(replicas, "raycade", len(ids), timing["turns"], timing["turns"] / seconds),
        *(work / replicas / seconds, work / up, hits, timing["queueing_seconds"] / timing["turns"]),
    )


def speed(settings: Settings) -> Speed:
    """Of the engines of a run."""
    names = ("step_seconds", "step_seconds_per_seq", "prefill_tokens_per_second")
    return Speed(*((settings.model.engine or {})[name] for name in names))


# --- peers: no scheduler, no Ray ---


class _Direct:
    """A player with one engine to itself."""

    def __init__(self, engine: SimulatedEngine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings

    async def reply(self, turn: Turn) -> Reply:
        return await self.engine.complete(request_for(turn, self.settings.decoding))


Hands = Callable[[list[Episode], int], list[deque[Episode]]]


def dealt_like_cards(plan: list[Episode], replicas: int) -> list[deque[Episode]]:
    """A queue for each replica."""
    return [deque(plan[number::replicas]) for number in range(replicas)]


def a_sample(plan: list[Episode], replicas: int) -> list[deque[Episode]]:
    """One queue for all replicas."""
    count = SAMPLE * replicas
    return [deque(longest_first(plan[:: max(1, len(plan) // count)]))] * replicas


def peer(name: str, overrides: list[str], replicas: int, batch: int, hands: Hands, alive: int) -> tuple[Cell, ...]:
    """Each replica keeps ``alive`` episodes going from its hand."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(overrides, replicas, batch, Path(folder, "run"))
        return asyncio.run(_play_peer(name, settings, batch, hands(list(settings.plan), replicas), alive))


async def _play_peer(
    name: str, settings: Settings, batch: int, hands: list[deque[Episode]], alive: int
) -> tuple[Cell, ...]:
    engines = [settings.model.make_engine() for _ in hands]
    assert all(isinstance(engine, SimulatedEngine) for engine in engines)
    episodes = sum({id(hand): len(hand) for hand in hands}.values())
    shared = hands[0] is hands[-1] and len(hands) > 1
    for engine in engines:
        await engine.start()
    started = time.monotonic()

    async def keep_playing(engine: SimulatedEngine, hand: deque[Episode]) -> None:
        player = _Direct(engine, settings)
        while hand:
            await play_episode(settings.suite, hand.popleft(), player)

    tasks = [
        asyncio.create_task(keep_playing(engine, hand))
        for engine, hand in zip(engines, hands, strict=True)
        for _ in range(alive)
    ]
    # A shared queue is a sample of a long run: what counts is the speed until the first replica finds it empty.
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
    share = speed(settings).work(prompts - cached, written, batch) / len(engines) / seconds
    return len(engines), name, episodes, turns, turns / seconds, share, share, cached / prompts, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[8])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument(
        "--peers", action="store_true", help="also static shards, and one episode at a time on a sample"
    )
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    rows = []
    for replicas in options.replicas:
        work = (options.overrides, replicas, options.batch)
        rows.append(raycade(*work))
        if options.peers:
            rows.append(peer("static shards", *work, dealt_like_cards, math.ceil(options.batch * OVERCOMMIT)))
            rows.append(peer("one at a time", *work, a_sample, 1))
        print(*rows, sep="\n", flush=True)
    columns = (
        *("replicas", "way", "episodes", "requests", "requests/s", "share of ideal makespan", "of capacity up"),
        *("cache hits", "s waiting for a place"),
    )
    show([Table("saturation", "Replicas kept busy", columns, tuple(rows))])


if __name__ == "__main__":
    main()
