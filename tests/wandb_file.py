"""Reads an offline W&B run back: a LevelDB log whose records are wandb's own protocol buffers."""

import json
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

BLOCK, HEADER, FILE_HEADER = 32_768, 7, 7
FULL, FIRST = 1, 2


def records(path: Path) -> list[Any]:
    """All whole records of a file; one that was cut off at the end is left out."""
    data, at, whole, found = path.read_bytes(), FILE_HEADER, b"", []
    while at + HEADER <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole = (b"" if kind in (FULL, FIRST) else whole) + data[at + HEADER : at + HEADER + size]
        at += HEADER + size
        if kind in (FULL, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            found.append(record)
    return found


def runs_of(run_dir: Path) -> list[list[Any]]:
    """The records of each offline W&B run below a run directory, the earliest first."""
    return [records(path) for path in sorted(run_dir.glob("wandb/offline-run-*/*.wandb"))]


def summary_of(found: list[Any]) -> dict[str, Any]:
    """The summary as the records leave it."""
    summary: dict[str, Any] = {}
    for record in found:
        for item in [*record.summary.update, *record.history.item]:
            keys = list(item.nested_key) or [item.key]
            inner = summary
            for key in keys[:-1]:
                inner = inner.setdefault(key, {})
            inner[keys[-1]] = json.loads(item.value_json)
    return summary
