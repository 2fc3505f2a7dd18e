"""The scheduler at scale: the real router, queue and admission control in virtual time, with measured costs.

    python -m benchmarks.scale                         all tables, up to 64 replicas: a few minutes
    python -m benchmarks.scale policies --full         1,000 replicas and 1,000,000 episodes: under an hour
    python -m benchmarks.scale costs                   measure the cost of scheduling on this machine (starts Ray)
    python -m benchmarks.scale run --replicas 8 --trace runs/NAME [--episodes N]
                                                       replay the turns of a real run on another number of replicas

All results are ratios; docs/scale.md explains them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from benchmarks.simulation.cluster import GPU, Costs, Machine, Result, play, play_one_at_a_time, play_static_shards
from benchmarks.simulation.workload import MIX, QUESTIONS, STEADY, Workload, draw, from_run
from cluster.console import show
from cluster.engines.simulated import Speed
from cluster.runner import admission, episode_queue, router
from evals.stopping.order import games_in_order, ranks
from evals.tables import Cell, Table
from evals.types import Episode

MEASURED = Costs(turn=0.0006, report=0.002, exchange=0.0015, row=0.00003, transport=0.001)
"""Output of ``python -m benchmarks.scale costs`` on one core of a small machine, rounded up."""

EPISODES = 1000
"""Default number per replica."""

SCHEDULERS: dict[str, Callable[..., Result]] = {
    **{policy: partial(play, policy=policy, costs=MEASURED) for policy in ("sticky", "least_loaded", "round_robin")},
    "static shards": play_static_shards,
    "one episode at a time": play_one_at_a_time,
}

Row = tuple[Cell, ...]


def policies(options: argparse.Namespace) -> Table:
    """Routing policies and two peers, at several sizes."""
    rows: list[Row] = []
    for replicas in (8, 64, 1000) if options.full else (8, 64):
        work = draw(replicas * EPISODES)
        alone = work.longest_alone(GPU.speed)
        for name, scheduler in SCHEDULERS.items():
            result = timed(name, scheduler, work, replicas)
            moved = result.moves / len(work.episodes)
            row = (result.share_of_ideal, result.hit_rate, moved, result.tail, alone / result.makespan)
            rows.append((replicas, len(work.episodes), name, *row))
    columns = ("share of ideal", "cache hit rate", "moves per episode", "tail", "longest episode alone")
    notes = (
        "share of ideal: the minimum work (all reusable prompt tokens cached, full batches) over the capacity of all replicas, "
        "divided by the makespan",
        "tail: time from 99 % of the episodes done to the end, over the makespan",
        "longest episode alone: its time on an empty replica over the makespan; a lower bound for any scheduler",
        "the three policies include the measured costs of scheduling; the peers have none",
    )
    return Table("policies", "Policies and peers", ("replicas", "episodes", "scheduler", *columns), tuple(rows), notes)


def lengths(options: argparse.Namespace) -> Table:
    """More episodes on the same replicas: the share of the tail shrinks, that of scheduling does not grow."""
    rows: list[Row] = []
    for name, mix in (("mixed games", MIX), ("equal games", STEADY)):
        for episodes in (100, 300, 1000, 4000):
            work = draw(16 * episodes, mix=mix)
            result = timed(f"{name} {episodes}", play, work, 16, costs=MEASURED)
            alone = work.longest_alone(GPU.speed) / result.makespan
            rows.append((name, episodes, result.share_of_ideal, result.tail, alone))
    columns = ("workload", "episodes per replica", "share of ideal", "tail", "longest episode alone")
    return Table("lengths", "Longer runs on 16 replicas", columns, tuple(rows))


def balanced_places(episodes: Sequence[Episode]) -> Iterator[tuple[Episode, int]]:
    """Each episode with its place in a balanced order; every episode is a game of its own."""
    rows = [
        {"suite": each.suite, "task": each.task, "level": each.level, "seed": number, "episode_id": str(number)}
        for number, each in enumerate(episodes)
    ]
    places = ranks(games_in_order(pa.Table.from_pylist(rows)))
    for number, each in enumerate(episodes):
        yield each, places[str(number)]


def orders(options: argparse.Namespace) -> Table:
    """Effect of the queue's order on the tail; mean of several seeds, since a single long episode decides each."""
    works = [draw(8 * EPISODES, seed) for seed in range(4)]
    tokens = {id(each): work.reply_tokens(number) for work in works for number, each in enumerate(work.episodes)}
    balanced = {id(each): place for work in works for each, place in balanced_places(work.episodes)}
    usual = episode_queue.expected_work
    rules: dict[str, Callable[[Episode], float]] = {
        "longest expected first": usual,
        "most prompt tokens first": lambda episode: episode.prompt_tokens,
        "most calls first": lambda episode: episode.calls,
        "plan order": lambda episode: 0.0,
        "balanced, as runs that may stop": lambda episode: -balanced[id(episode)],
        "shortest expected first": lambda episode: -usual(episode),
        "longest actual first": lambda episode: tokens[id(episode)],
    }
    rows: list[Row] = []
    for name, rule in rules.items():
        with patched(episode_queue, "expected_work", rule):
            results = [play(work, 8, costs=MEASURED) for work in works]
        rows.append((name, fmean(each.share_of_ideal for each in results), fmean(each.tail for each in results)))
    return Table("orders", "Order of the queue, 8 replicas", ("order", "share of ideal", "tail"), tuple(rows))


def runners(options: argparse.Namespace) -> Table:
    """How many replicas one runner can serve, and the loss from splitting replicas among runners."""
    rows: list[Row] = []
    for title, mix, episodes in (("mixed games", MIX, EPISODES), ("questions", QUESTIONS, 2 * EPISODES)):
        work = draw(64 * episodes, mix=mix)
        rate = work.turns / work.ideal_work(GPU.speed, GPU.batch)
        free = play(work, 64, per_runner=64)
        rows.append((title, rate, "64, zero cost", free.share_of_ideal, free.hit_rate, None, None))
        for per_runner in (4, 8, 16, 32, 64):
            result = timed(f"{title} {per_runner}", play, work, 64, per_runner=per_runner, costs=MEASURED)
            busy = (result.share_of_ideal, result.hit_rate, result.runner_busy, result.driver_busy)
            rows.append((title, rate, str(per_runner), *busy))
    columns = ("share of ideal", "cache hit rate", "runner CPU", "driver CPU")
    names = ("workload", "turns/s per replica", "replicas per runner", *columns)
    return Table("runners", "Runners for 64 replicas", names, tuple(rows))


def driver(options: argparse.Namespace) -> Table:
    """Emulates more replicas by multiplying the driver's costs."""
    rows: list[Row] = []
    for title, mix, episodes in (("mixed games", MIX, EPISODES), ("questions", QUESTIONS, 2 * EPISODES)):
        work = draw(64 * episodes, mix=mix)
        rate = len(work.episodes) / work.ideal_work(GPU.speed, GPU.batch)
        for factor in (1, 4, 16, 64, 256):
            slow = {name: factor * getattr(MEASURED, name) for name in ("exchange", "row")}
            result = timed(f"{title} {factor}", play, work, 64, costs=dataclasses.replace(MEASURED, **slow))
            per_exchange = len(work.episodes) / result.exchanges
            rows.append((title, rate, 64 * factor, result.share_of_ideal, result.driver_busy, per_exchange))
    columns = (
        "workload",
        "episodes/s per replica",
        "emulated replicas",
        "share of ideal",
        "driver CPU",
        "episodes per exchange",
    )
    return Table("driver", "Load of the driver", columns, tuple(rows))


def small_plans(options: argparse.Namespace) -> Table:
    """Plans that do not fill the cluster: fair shares per runner, or first come, first served."""
    rows: list[Row] = []
    for episodes in (10, 40, 100, 300):
        work = draw(64 * episodes, mix=STEADY)
        shared = play(work, 64, costs=MEASURED)
        greedy = play(work, 64, costs=MEASURED, fair=False)
        one = play(work, 64, per_runner=64)
        rows.append((episodes, *(one.makespan / each.makespan for each in (shared, greedy))))
    columns = ("episodes per replica", "fair shares", "first come, first served")
    notes = ("speed with 8 runners, relative to a single runner at zero cost",)
    return Table("small_plans", "Plans smaller than 64 replicas", columns, tuple(rows), notes)


def slow_replica(options: argparse.Namespace) -> Table:
    """One of eight replicas is slow."""
    work = draw(8 * EPISODES)
    rows: list[Row] = []
    usual = play(work, 8, costs=MEASURED).makespan
    for slower in (2.0, 5.0, 20.0):
        least = usual * 8 / (7 + 1 / slower)
        results = [play(work, 8, costs=MEASURED, slower=slower, hedging=hedging) for hedging in (True, False)]
        results += [play(work, 8, policy, costs=MEASURED, slower=slower) for policy in ("least_loaded", "round_robin")]
        results.append(play_static_shards(work, 8, slower))
        rows.append((slower, least / usual, *(each.makespan / usual for each in results)))
    columns = ("slowdown", "lower bound", "sticky", "without hedging", "least_loaded", "round_robin", "static shards")
    notes = (
        "makespan relative to eight equal replicas under sticky",
        "lower bound: the effect of the missing capacity alone",
        "without hedging: sticky, but late requests in the tail are not hedged",
    )
    return Table("slow_replica", "One slow replica of eight", columns, tuple(rows), notes)


def constants(options: argparse.Namespace) -> Table:
    """The constants of router and runner, each varied separately; the default is marked."""
    work, questions = draw(16 * 600), draw(16 * 2 * EPISODES, mix=QUESTIONS)
    rows: list[Row] = []
    for where, name, values in (
        (router, "MARGIN", (0.0, 0.05, 0.1, 0.15, 0.3, 10.0)),
        (router, "OVERCOMMIT", (1.0, 1.05, 1.1, 1.25, 2.0)),
        (admission, "BACKLOG", (0.0, 0.05, 0.25, 1.0, 3.0)),
    ):
        usual = getattr(where, name)
        for value in values:
            with patched(where, name, value):
                result = play(work, 16, costs=MEASURED)
                quick = play(questions, 16, costs=MEASURED)
            mark = " (default)" if value == usual else ""
            moved = result.moves / len(work.episodes)
            rows.append(
                (f"{name} {value:g}{mark}", result.share_of_ideal, result.hit_rate, moved, quick.share_of_ideal)
            )
    columns = ("constant", "share of ideal", "cache hit rate", "moves per episode", "share of ideal, questions")
    return Table("constants", "Constants varied, 16 replicas", columns, tuple(rows))


def costs(options: argparse.Namespace) -> Table:
    """The cost of scheduling on this machine."""
    from benchmarks.simulation import costs as measure

    return measure.table()


def run(options: argparse.Namespace) -> Table:
    """One simulated run, of the mix or of a trace."""
    work = from_run(options.trace, options.episodes) if options.trace else draw(options.episodes or 8 * EPISODES)
    speed = Speed(options.step_seconds, options.step_seconds_per_seq, options.prefill_tokens_per_second)
    machine = Machine(speed, options.batch)
    rows: list[Row] = []
    for replicas in options.replicas:
        result = timed(f"{replicas}", play, work, replicas, options.policy, costs=MEASURED, machine=machine)
        alone = work.longest_alone(speed) / result.makespan
        measured = measured_seconds(options.trace, replicas) if options.trace and not options.episodes else None
        figures = (result.share_of_ideal, result.hit_rate, result.moves, result.tail, alone)
        rows.append((replicas, len(work.episodes), work.turns, *figures, measured and result.makespan / measured))
    columns = (
        "replicas",
        "episodes",
        "turns",
        "share of ideal",
        "cache hit rate",
        "moves",
        "tail",
        "longest episode alone",
    )
    title = f"A simulated run of {options.trace or 'mixed games'}"
    return Table("run", title, (*columns, "makespan / measured"), tuple(rows))


def measured_seconds(run_dir: Path, replicas: int) -> float | None:
    """Measured playing time of a run, if it was one session on ``replicas`` replicas."""
    sessions = [json.loads(line) for line in (run_dir / "timings.jsonl").read_text().splitlines()]
    same = len(sessions) == 1 and sessions[0]["replicas"] == replicas
    return float(sessions[0]["playing_seconds"]) if same else None


def timed(name: str, scheduler: Callable[..., Result], work: Workload, *arguments: Any, **more: Any) -> Result:
    """Play, and print the CPU time of the simulation."""
    start = time.process_time()
    result = scheduler(work, *arguments, **more)
    seconds = time.process_time() - start
    print(
        f"  {name}: {len(work.episodes):,} episodes, {seconds / work.turns * 1e6:.0f} µs of simulation per turn",
        flush=True,
    )
    return result


@contextmanager
def patched(where: Any, name: str, value: Any) -> Iterator[None]:
    """Temporarily replaces a module's constant or function."""
    usual = getattr(where, name)
    setattr(where, name, value)
    try:
        yield
    finally:
        setattr(where, name, usual)


TABLES = {
    each.__name__: each for each in (policies, lengths, orders, runners, driver, small_plans, slow_replica, constants)
}
EXTRA = {each.__name__: each for each in (costs, run)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "tables",
        nargs="*",
        metavar="TABLE",
        help=f"choose from {', '.join([*TABLES, *EXTRA])}; by default all but the last two",
    )
    parser.add_argument("--full", action="store_true", help="policies: also 1,000 replicas with 1,000,000 episodes")
    parser.add_argument("--replicas", type=int, nargs="+", default=[8], help="run: numbers of replicas")
    parser.add_argument(
        "--policy", default="sticky", choices=["sticky", "least_loaded", "round_robin"], help="run: routing policy"
    )
    parser.add_argument("--batch", type=int, default=GPU.batch, help="run: each replica's max_num_seqs")
    for name, value in vars(GPU.speed).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=value, help="run: a replica's speed")
    parser.add_argument("--trace", type=Path, help="run: a run directory whose turns are replayed")
    parser.add_argument("--episodes", type=int, help="run: number of episodes; from a trace, drawn with replacement")
    options = parser.parse_args()
    if unknown := set(options.tables) - {*TABLES, *EXTRA}:
        parser.error(f"unknown table: {', '.join(sorted(unknown))}")
    for name in options.tables or TABLES:
        show([{**TABLES, **EXTRA}[name](options)])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak memory {peak / 1e9:.1f} GB")


if __name__ == "__main__":
    main()
