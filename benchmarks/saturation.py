"""How full the scheduler keeps simulated engines: requests/s and the share of the ideal makespan.

    python -m benchmarks.saturation [--replicas N] [hydra overrides, default the 2,500 KUMO episodes]

The ideal makespan is the work that the engines did (prefill of uncached tokens, decoding steps at full batch) over the
capacity of all replicas: nothing can finish sooner.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from cluster.cli import show
from cluster.engines.simulated import Speed
from cluster.ledger import read_episodes
from cluster.run import run
from cluster.settings import load_settings
from evals.tables import Table

KUMO = ["suite=kumo"]


def measure(overrides: list[str], replicas: int, batch: int) -> tuple[str | int | float, ...]:
    """One run in a fresh directory; a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        engine = [f"model.engine.max_num_seqs={batch}", "model=simulated", f"cluster.replicas={replicas}"]
        settings = load_settings([*engine, f"run_dir={folder}/run", *overrides])
        code, _ = run(settings)
        assert code == 0
        ledger = read_episodes(settings.run_dir).table
        ids = ledger["episode_id"].to_pylist()
        assert len(ids) == len(set(ids)) == len(settings.plan), "every planned episode once"
        assert set(ids) == {episode.id for episode in settings.plan}
        timing = json.loads(Path(folder, "run", "timings.jsonl").read_text())
    engine_settings = settings.model.engine or {}
    speed = Speed(
        engine_settings["step_seconds"],
        engine_settings["step_seconds_per_seq"],
        engine_settings["prefill_tokens_per_second"],
    )
    uncached = timing["prompt_tokens"] - timing["cached_tokens"]
    ideal = speed.work(uncached, timing["completion_tokens"], batch) / replicas
    seconds = timing["playing_seconds"]
    return (
        replicas,
        batch,
        len(ids),
        timing["turns"],
        timing["turns"] / seconds,
        ideal,
        seconds,
        ideal / seconds,
        timing["cached_tokens"] / timing["prompt_tokens"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[2])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    rows = tuple(measure(options.overrides or KUMO, replicas, options.batch) for replicas in options.replicas)
    columns = (
        "replicas",
        "batch",
        "episodes",
        "requests",
        "requests/s",
        "ideal s",
        "measured s",
        "share of ideal",
        "cache hits",
    )
    show([Table("saturation", "Replicas kept busy", columns, rows)])


if __name__ == "__main__":
    main()
