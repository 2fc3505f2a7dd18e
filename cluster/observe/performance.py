"""Performance of a run: a line of timings per session, and tables. The summary holds no times, so this is apart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.console import warn
from cluster.observe.run_statistics import RunStatistics, add
from cluster.runner.messages import ReplicaUse
from cluster.storage.stored_run import TIMINGS, Run
from envs.files import FileError, regular
from evals.tables import Cell, Table


def note_session(run: Run, stats: RunStatistics) -> None:
    """Append the timings of this session."""
    session = {
        "seconds": stats.seconds,
        "playing_seconds": stats.playing_seconds,
        "replicas": stats.replicas_wanted,
        "replicas_lost": stats.replicas_lost,
        "moves": stats.moves,
        "gpu_hours": stats.gpu_hours,
        "gpu_cost": stats.gpu_cost,
        **vars(stats.counts),
        "use": {name: vars(use) for name, use in stats.use.items()},
    }
    try:
        with regular(run.path / TIMINGS).open("a") as file:
            file.write(json.dumps(session) + "\n")
    except (OSError, FileError) as error:
        warn(f"cannot write the timings of this session: {error}")


def performance_table(sessions: Sequence[Mapping[str, Any]]) -> Table | None:
    """Performance over all sessions; None if no session was recorded or the model played nothing."""
    total: defaultdict[str, float] = defaultdict(int)  # a line may lack what later versions wrote
    for session in sessions:
        for name, value in session.items():
            if isinstance(value, int | float):
                total[name] += value
    if not total.get("turns") or not total["playing_seconds"]:
        return None
    turns, transport = total["turns"], total["replica_seconds"] - total["engine_seconds"]
    use = ReplicaUse()
    for each in replica_use(sessions).values():
        add(use, each)
    slots = use.slot_seconds
    tail = slots - use.busy_slot_seconds - use.idle_slot_seconds
    rows: list[tuple[Cell, ...]] = [
        ("sessions", len(sessions), ""),
        ("wall-clock seconds", total["seconds"], "including Ray's start and loading the model"),
        ("playing seconds", total["playing_seconds"], "from the first ready replica to the last finished episode"),
        ("requests", turns, ""),
        ("requests/s", turns / total["playing_seconds"], ""),
        ("completion tokens/s", total["completion_tokens"] / total["playing_seconds"], ""),
        ("prefix-cache hit rate", total["cached_tokens"] / max(total["prompt_tokens"], 1), "share of prompt tokens"),
        ("queueing time", total["queueing_seconds"] / turns, "seconds per request"),
        ("transport time", transport / turns, "seconds per request, to the replica and back"),
        ("engine time", total["engine_seconds"] / turns, "seconds per request"),
        ("slot utilization", use.busy_slot_seconds / slots if slots else None, "share of batch slots busy, over time"),
        ("slots idle while work was queued", use.idle_slot_seconds / slots if slots else None, "share"),
        ("slots idle in the tail", tail / slots if slots else None, "share; no episode was left to start"),
        ("episodes moved", total["moves"], "to a less busy replica"),
        ("shared calls", total["shared"], "for label probabilities, equal to an earlier one and not sent again"),
        ("retries", total["retries"], "after an engine failed or died, or an endpoint refused or gave no answer"),
        ("hedged requests", total["hedges"], "late requests sent to a second replica"),
        ("hedges won", total["hedges_won"], "answered first by the second replica"),
        ("replicas lost", total["replicas_lost"], "and replaced"),
    ]
    if total["gpu_hours"]:
        rows.append(("GPU hours", total["gpu_hours"], "GPUs reserved by sessions that ended, times hours"))
    if total["gpu_cost"]:
        rows.append(("cost of GPUs", total["gpu_cost"], "at cluster.gpu_hour_price"))
    return Table(
        name="performance",
        title="Performance",
        columns=("metric", "value", "note"),
        rows=tuple(rows),
        section="performance",
        headline=True,
        brief=("metric", "value"),
    )


def replica_use(sessions: Sequence[Mapping[str, Any]]) -> dict[str, ReplicaUse]:
    """Slot utilization of each replica, summed over its restarts."""
    use: defaultdict[str, ReplicaUse] = defaultdict(ReplicaUse)
    for session in sessions:
        for name, part in session.get("use", {}).items():
            known = {key: part[key] for key in vars(ReplicaUse()) if key in part}  # other versions may note more
            add(use[name.partition(".")[0]], ReplicaUse(**known))
    return use


def replica_table(sessions: Sequence[Mapping[str, Any]]) -> Table | None:
    """Slot utilization of each replica; None if there was none."""
    rows: list[tuple[Cell, ...]] = []
    for name, use in sorted(replica_use(sessions).items(), key=lambda item: (len(item[0]), item[0])):
        if slots := use.slot_seconds:
            tail = 1 - (use.busy_slot_seconds + use.idle_slot_seconds) / slots
            rows.append((name, use.busy_slot_seconds / slots, use.idle_slot_seconds / slots, tail))
    if not rows:
        return None
    columns = ("replica", "busy", "idle while work was queued", "idle in the tail")
    notes = ("Shares of the replica's batch slots, over time.",)
    return Table("replicas", "Slot utilization by replica", columns, tuple(rows), notes, section="performance")
