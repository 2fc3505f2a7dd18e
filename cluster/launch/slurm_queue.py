"""What became of the jobs of a sweep, on a Slurm that keeps no accounts: its queue tells."""

from __future__ import annotations

import os
import subprocess

from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "TIMEOUT",
)
"""States in which a job stays, as ``squeue`` names them."""
GONE = "GONE"
"""The state of a job that has left the queue, which Slurm does some minutes after its end (``MinJobAge``)."""
REFRESH_SECONDS = 60


class QueueWatcher(SlurmInfoWatcher):  # type: ignore[misc]
    """Asks ``squeue`` where submitit would ask ``sacct``, without which it waits for a cancelled job for ever."""

    def _make_command(self) -> list[str] | None:
        if not self._registered - self._finished:
            return None
        return ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", "--format=%i|%T"]

    def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
        """The state of each job that is waited for, from lines like ``41_0|RUNNING``."""
        text = string if isinstance(string, str) else string.decode(errors="replace")
        queued = dict(line.strip().split("|", 1) for line in text.splitlines() if "|" in line)
        states = {}
        for job in self._registered:
            state = queued.get(job, GONE)
            # submitit takes every state that it does not know for an end
            is_over = state in (*ENDED, GONE)
            states[job] = {"State": state if is_over else "RUNNING"}
        return states


def has_accounting() -> bool:
    """Whether ``sacct`` answers."""
    try:
        asked = subprocess.run(["sacct", "--noheader", "--jobs=1"], capture_output=True, check=False)
    except OSError:
        return False
    return asked.returncode == 0


def watch_the_queue() -> None:
    """From now on submitit asks the queue, if there are no accounts."""
    if not has_accounting():
        SlurmJob.watcher = QueueWatcher(delay_s=REFRESH_SECONDS)
