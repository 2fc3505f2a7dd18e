"""Which process this is, in terms that no other process has, here or on another machine, now or later."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

PROC = Path("/proc")
Seen = Literal["alive", "dead", "out of sight"]


def this_process() -> dict[str, Any]:
    """What identifies this process: boot and process namespace (a number is unique within these), number, start.

    The start is in clock ticks since the boot, so that a clock that is set changes nothing. The host's name is for people:
    two containers may have the same.
    """
    pid = os.getpid()
    return {"host": socket.gethostname(), **_space(), "pid": pid, "start_ticks": _start_ticks(pid)}


def seen(holder: Mapping[str, Any]) -> Seen:
    """What can be told from here of a process.

    It would be seen if it lived, if it has, or had, this boot and process namespace. One that started at another time is a
    later one with its number.
    """
    here = _space()
    if not here["boot"] or any(holder.get(name) != value for name, value in here.items()):
        return "out of sight"
    pid, start = holder.get("pid"), holder.get("start_ticks")
    if not isinstance(pid, int) or pid <= 0 or start is None:
        return "dead"
    return "alive" if _start_ticks(pid) == start else "dead"


def _space() -> dict[str, str]:
    """Boot and process namespace; empty where the system does not tell (it is not Linux)."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return {"boot": boot, "pid_namespace": str((PROC / "self/ns/pid").readlink())}
    except OSError:
        return {"boot": "", "pid_namespace": ""}


def _start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None if there is none."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, start = fields[0], fields[19]  # fields 3 and 22 of proc(5); the name before may contain anything
    return None if state in "ZX" else int(start)
