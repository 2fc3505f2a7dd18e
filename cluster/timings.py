"""Where a run's time went: one line for each session of it, and a table. No part of the summary, which knows no times."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from cluster.progress import warn
from cluster.runner import ReplicaUse
from cluster.tally import Tally, add
from evals.tables import Cell, Table

TIMINGS = "timings.jsonl"


def note_session(run_dir: Path, tally: Tally) -> None:
    """Append what this session of a run took."""
    session = {
        "seconds": tally.seconds,
        "playing_seconds": tally.playing_seconds,
        "replicas": tally.replicas_wanted,
        "replicas_lost": tally.replicas_lost,
        "moves": tally.moves,
        **vars(tally.counts),
        "use": {name: vars(use) for name, use in tally.use.items()},
    }
    try:
        with (run_dir / TIMINGS).open("a") as file:
            file.write(json.dumps(session) + "\n")
    except OSError as error:
        warn(f"what this session took cannot be noted: {error}")


def read_sessions(run_dir: Path) -> list[dict[str, Any]]:
    """The sessions of a run. One that was killed has left no line, one whose disk was full perhaps half a line: left out."""
    path = run_dir / TIMINGS
    sessions = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            sessions.append(json.loads(line))
        except ValueError:
            warn(f"{path}: a line that cannot be read is left out of the timings: {line[:60]}")
    return sessions


def timing_table(run_dir: Path) -> Table | None:
    """What all sessions together took; None if none has been noted or the model had nothing to do."""
    sessions = read_sessions(run_dir)
    names = sessions[0].keys() - {"use"} if sessions else ()
    total = {name: sum(session.get(name, 0) for session in sessions) for name in names}
    if not total.get("turns") or not total["playing_seconds"]:
        return None
    turns, on_the_way = total["turns"], total["replica_seconds"] - total["engine_seconds"]
    use = ReplicaUse()
    for each in replica_use(sessions).values():
        add(use, each)
    places = use.place_seconds
    tail = places - use.filled_seconds - use.idle_seconds
    rows: list[tuple[Cell, ...]] = [
        ("sessions", len(sessions), ""),
        ("seconds in all", total["seconds"], "starting Ray and loading the model included"),
        ("seconds of play", total["playing_seconds"], "from the first replica's readiness to the last episode"),
        ("requests", turns, ""),
        ("requests/s", turns / total["playing_seconds"], ""),
        ("completion tokens/s", total["completion_tokens"] / total["playing_seconds"], ""),
        ("prompt tokens from the prefix cache", total["cached_tokens"] / max(total["prompt_tokens"], 1), "share"),
        ("waiting for a place at a replica", total["router_seconds"] / turns, "seconds a request"),
        ("on the way to and from the replica", on_the_way / turns, "seconds a request"),
        ("inside the engine", total["engine_seconds"] / turns, "seconds a request"),
        (
            "places filled",
            use.filled_seconds / places if places else None,
            "share of all places in the batches, over time",
        ),
        (
            "places idle because of us",
            use.idle_seconds / places if places else None,
            "while episodes were left to begin",
        ),
        ("places idle in the tail", tail / places if places else None, "when all episodes had begun"),
        ("episodes moved", total["moves"], "to a less busy replica"),
        ("requests asked again", total["retries"], "after an engine's failure or death"),
        ("late requests asked twice", total["hedges"], "on places idle in the tail"),
        ("of them answered sooner by the second", total["overtaken"], ""),
        ("replicas lost", total["replicas_lost"], "and replaced"),
    ]
    return Table("timings", "Where the time went", ("what", "how much", "of what"), tuple(rows))


def replica_use(sessions: list[dict[str, Any]]) -> dict[str, ReplicaUse]:
    """How full each replica was kept, whichever of its incarnations it was."""
    use: defaultdict[str, ReplicaUse] = defaultdict(ReplicaUse)
    for session in sessions:
        for name, part in session.get("use", {}).items():
            add(use[name.partition(".")[0]], ReplicaUse(**part))
    return use


def replica_table(run_dir: Path) -> Table | None:
    """Each replica's share in the play; None if there is none."""
    rows: list[tuple[Cell, ...]] = []
    for name, use in sorted(replica_use(read_sessions(run_dir)).items(), key=lambda item: (len(item[0]), item[0])):
        if places := use.place_seconds:
            tail = 1 - (use.filled_seconds + use.idle_seconds) / places
            rows.append((name, use.filled_seconds / places, use.idle_seconds / places, tail))
    if not rows:
        return None
    columns = ("replica", "filled", "idle because of us", "idle in the tail")
    return Table("replicas", "Places of each replica", columns, tuple(rows), ("shares of all its places, over time",))
