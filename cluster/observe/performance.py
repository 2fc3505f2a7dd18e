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
from envs.disk import own_file
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
        own_file(run.path / TIMINGS)
        with regular(run.path / TIMINGS).open("a") as file:
            lines = (run.path / TIMINGS).read_bytes()
            # A death may have left half a line, which takes none of this one with it.
            begin = "\n" if lines and not lines.endswith(b"\n") else ""
            file.write(begin + json.dumps(session) + "\n")
    except (OSError, FileError) as error:
        warn(f"cannot write the timings of this session: {error}")


ENGINE_FACTS = {
    "model_runner": ("model runner", "of vLLM"),
    "attention_backend": ("attention backend", ""),
    "step_tokens": ("tokens of a step", "at most: model.engine.max_num_batched_tokens"),
    "batch_slots": ("batch slots", "of a replica: model.engine.max_num_seqs"),
    "cache_blocks": ("cache blocks", "of a replica"),
    "cache_tokens": ("cache tokens", "of a replica"),
    "largest_concurrency": ("largest concurrency", "requests of full length for which a replica's cache has room"),
    "compile_seconds": ("compiling", "seconds, of a replica's start"),
    "graph_seconds": ("capturing CUDA graphs", "seconds, of a replica's start"),
}
"""Facts of engines that have a row, with its name and note."""
MANY_PREEMPTIONS = 0.01
"""Of the requests: more are worth a hint."""


def performance_table(
    sessions: Sequence[Mapping[str, Any]], versions: Sequence[Mapping[str, Any]] = ()
) -> Table | None:
    """Performance over all sessions; None if no session was recorded or the model played nothing.

    Args:
        sessions: Lines of timings.
        versions: The same run's sessions as in versions.json, where the facts of engines are.
    """
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
    busy = idle = in_tail = None
    if slots:
        busy = use.busy_slot_seconds / slots
        idle = use.idle_slot_seconds / slots
        in_tail = (slots - use.busy_slot_seconds - use.idle_slot_seconds) / slots
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
        ("slot utilization", busy, "share of batch slots busy, over time"),
        ("slots idle while work was queued", idle, "share"),
        ("slots idle in the tail", in_tail, "share; no episode was left to start"),
        ("episodes moved", total["moves"], "to a less busy replica"),
        ("shared calls", total["shared"], "for label probabilities, equal to an earlier one and not sent again"),
        ("retries", total["retries"], "after an engine failed or died, or an endpoint refused or gave no answer"),
        ("preemptions", total["preemptions"], "requests that an engine put back and began anew, as its cache was full"),
        ("hedged requests", total["hedges"], "late requests sent to a second replica"),
        ("hedges won", total["hedges_won"], "answered first by the second replica"),
        ("replicas lost", total["replicas_lost"], "and replaced"),
    ]
    if total["gpu_hours"]:
        rows.append(("GPU hours", total["gpu_hours"], "GPUs reserved by sessions that ended, times hours"))
    if total["gpu_cost"]:
        rows.append(("cost of GPUs", total["gpu_cost"], "at cluster.gpu_hour_price"))
    rows += _engine_rows(versions)
    hint = cache_hint(total, versions)
    return Table(
        name="performance",
        title="Performance",
        columns=("metric", "value", "note"),
        rows=tuple(rows),
        notes=(hint,) if hint else (),
        section="performance",
        headline=True,
        brief=("metric", "value"),
    )


def _facts(versions: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """The different values that engines told of one fact."""
    found = set()
    for session in versions:
        for engine in session.get("engines", {}).values():
            if name in engine:
                found.add(engine[name])
    return sorted(found, key=lambda value: (str(type(value)), value))


def _engine_rows(versions: Sequence[Mapping[str, Any]]) -> list[tuple[Cell, ...]]:
    """What engines told of themselves: one value, or the range of several."""
    rows: list[tuple[Cell, ...]] = []
    for name, (metric, note) in ENGINE_FACTS.items():
        values = _facts(versions, name)
        if values:
            rows.append((metric, values[0] if len(values) == 1 else _several(values), note))
    return rows


def _several(values: Sequence[Any]) -> str:
    """The range of sorted numbers; all of other values.

    >>> _several([0.5, 2, 1234.5]), _several(["FLASH_ATTN", "TRITON_ATTN"])
    ('0.5 to 1,234', 'FLASH_ATTN, TRITON_ATTN')
    """
    texts = [f"{value:,.4g}" if isinstance(value, float) else str(value) for value in values]
    are_numbers = all(isinstance(value, int | float) for value in values)
    return f"{texts[0]} to {texts[-1]}" if are_numbers else ", ".join(texts)


def cache_hint(counts: Mapping[str, float], versions: Sequence[Mapping[str, Any]]) -> str:
    """What to set where engines had to put many requests back; empty where they did not.

    Args:
        counts: Sums over the run's sessions.
        versions: Sessions as in versions.json.
    """
    turns, preemptions = counts.get("turns", 0), counts.get("preemptions", 0)
    if not turns or preemptions < MANY_PREEMPTIONS * turns:
        return ""
    told = _facts(versions, "cache_tokens")
    length = (counts.get("prompt_tokens", 0) + counts.get("completion_tokens", 0)) / turns
    # As many requests as the smallest cache holds of mean length; where that is not known, fewer than now.
    better = " lower"
    if told and length >= 1:
        better = f"={max(1, int(min(told) / length))}"
    return (
        f"{preemptions:,.0f} preemptions in {turns:,.0f} requests: so many at once do not fit a replica's cache. Set "
        f"model.engine.max_num_seqs{better}, or give the cache more memory."
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
    # By length first, so that replica-10 follows replica-9.
    for name, use in sorted(replica_use(sessions).items(), key=lambda item: (len(item[0]), item[0])):
        slots = use.slot_seconds
        if slots:
            tail = 1 - (use.busy_slot_seconds + use.idle_slot_seconds) / slots
            rows.append((name, use.busy_slot_seconds / slots, use.idle_slot_seconds / slots, tail))
    if not rows:
        return None
    columns = ("replica", "busy", "idle while work was queued", "idle in the tail")
    notes = ("Shares of the replica's batch slots, over time.",)
    return Table("replicas", "Slot utilization by replica", columns, tuple(rows), notes, section="performance")
