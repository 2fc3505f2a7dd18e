"""The checks on every machine of a Ray cluster or a Slurm job, and those between machines: ports, clocks, locks, versions.

The machine on which the doctor was called listens while the others look at themselves. Each of them connects to it, tells its
clock and a port of its own, and is connected to in return: so ports are tried in both directions, and clocks are compared at
the same moment. Ports between two other machines are not tried.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.doctor import files, gpus, machine, network
from cluster.doctor.check import Finding, Need, Status, existing, first_words, in_slurm, looked
from cluster.launch.start_nodes import address_towards
from cluster.storage.provenance import versions

ON_EACH = (*machine.CHECKS, *files.CHECKS, *network.CHECKS, *gpus.CHECKS)
NODE_SECONDS = 600.0
"""For all checks of one machine."""
CONNECT_SECONDS = 10.0
OFF_SECONDS, FAR_OFF_SECONDS = 2.0, 60.0
"""Difference between clocks that is worth a word, and that breaks things."""
MESSAGE_BYTES = 4096
LINE_OF_STEP = 700
"""Characters of a report in a line that a step of Slurm prints: srun breaks lines of more than 1,024 bytes, and then puts those
of other nodes between the parts (``MAX_MSG_LEN`` of slurmstepd)."""
REPORT_LINE = "raycade-report"
"""What begins each such line; the number of the task and a part of the report follow."""
TOGETHER = "all machines"


@dataclass(frozen=True)
class Meeting:
    """Where the machines meet."""

    address: str
    """HOST:PORT of the machine on which the doctor was called."""
    lock: str
    """A file in the run directory that is locked there."""


@dataclass(frozen=True)
class Report:
    """What one machine found."""

    host: str
    findings: tuple[Finding, ...]
    versions: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "host": self.host,
            "findings": [finding.to_json() for finding in self.findings],
            "versions": dict(self.versions),
        }


def report_from(plain: Mapping[str, Any]) -> Report:
    """The report of ``Report.to_json``."""
    findings = tuple(Finding(**each) for each in plain["findings"])
    return Report(str(plain["host"]), findings, plain.get("versions") or {})


def lines_of(report: Report, task: str) -> list[str]:
    """The report of a task of a step of Slurm, as lines of which srun breaks none.

    >>> lines_of(Report("n1", ()), "0")
    ['raycade-report 0 {"host": "n1", "findings": [], "versions": {}}']
    """
    text = json.dumps(report.to_json())
    parts = [text[begin : begin + LINE_OF_STEP] for begin in range(0, len(text), LINE_OF_STEP)]
    return [f"{REPORT_LINE} {task} {part}" for part in parts]


def reports_in(printed: str) -> list[Report]:
    """The reports in what all tasks of a step printed: lines of one task are in order, those of different tasks may alternate.

    A report that ends early, because its node was lost, is left out.
    """
    texts: dict[str, str] = {}
    for line in printed.split("\n"):
        mark, _, rest = line.partition(" ")
        if mark == REPORT_LINE:
            task, _, part = rest.partition(" ")
            texts[task] = texts.get(task, "") + part
    reports = []
    for text in texts.values():
        with suppress(json.JSONDecodeError):
            reports.append(report_from(json.loads(text)))
    return reports


def own_name() -> str:
    """This machine's name: in a step of Slurm the node's, which the list of the job has and which may not be the host's."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def look(need: Need, meeting: Meeting | None = None) -> Report:
    """All checks of this machine."""
    host = own_name()
    findings = [looked(check, need, host) for check in ON_EACH]
    if meeting is not None:
        findings += [_meet(meeting, host), _other_lock(Path(meeting.lock), host)]
    return Report(host, tuple(findings), versions())


# --- on each machine ---


def _meet(meeting: Meeting, host: str) -> Finding:
    """Connect to the first machine, and be connected to by it."""
    tried = "ports to the first machine, and back"
    name, _, port = meeting.address.rpartition(":")
    mend = "open the ports 10000 to 65535 between the machines of a job, or leave this one out (sbatch --exclude=NODE)"
    try:
        with socket.create_server((address_towards(name), 0)) as own:
            told = {"host": host, "port": own.getsockname()[1], "clock": time.time()}
            with socket.create_connection((name, int(port)), CONNECT_SECONDS) as connection:
                connection.settimeout(2 * CONNECT_SECONDS)
                connection.sendall(json.dumps(told).encode() + b"\n")
                answer = connection.recv(MESSAGE_BYTES)
    except Exception as error:
        found = f"{meeting.address} cannot be reached: {first_words(str(error), 80)}"
        return Finding("meet", tried, "fail", found, "Ray between these machines", mend, host)
    if answer.strip() != b"ok":
        return Finding("meet", tried, "fail", "no connection back", "Ray between these machines", mend, host)
    return Finding("meet", tried, "ok", "open", host=host)


def _other_lock(path: Path, host: str) -> Finding:
    """Whether a lock that the first machine holds in the run directory is seen here."""
    tried = "lock of the first machine, seen"
    breaks = "two drivers could write to one run directory"
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Finding("shared lock", tried, "ok", "seen", host=host)
    except OSError:
        mend = "run_dir=... on a file system that all machines share; jobs that are requeued go on there"
        found = f"{path.parent} is not shared with this machine"
        status: Status = "fail" if in_slurm() else "warn"
        return Finding("shared lock", tried, status, found, "a job that is requeued on another machine", mend, host)
    mend = "have it mounted with locks across machines (Lustre: -o flock; NFS: version 4), or run_dir=... elsewhere"
    return Finding("shared lock", tried, "fail", "not seen: both hold it", breaks, mend, host)


# --- on the machine on which the doctor was called ---


class Host:
    """Listens for the other machines while they look at themselves."""

    def __init__(self, address: str) -> None:
        """Listens at ``address``, which the others must reach."""
        self.clocks: dict[str, float] = {}
        """Seconds by which the clock of each machine is ahead."""
        self._server = socket.create_server((address, 0))
        self.address = f"{address}:{self._server.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, peer = self._server.accept()
            except OSError:  # closed
                return
            with connection:
                try:
                    self._answer(connection, peer[0])
                except (OSError, ValueError, KeyError, TypeError):
                    continue  # someone else's connection, or one that broke: its machine says so itself

    def _answer(self, connection: socket.socket, peer: str) -> None:
        connection.settimeout(CONNECT_SECONDS)
        told = json.loads(connection.recv(MESSAGE_BYTES))
        self.clocks[str(told["host"])] = float(told["clock"]) - time.time()
        try:
            socket.create_connection((peer, int(told["port"])), CONNECT_SECONDS).close()
        except OSError:
            connection.sendall(b"no\n")
        else:
            connection.sendall(b"ok\n")

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # a thread that waits for a connection would go on listening
        self._server.close()


@contextmanager
def hosted(need: Need, towards: str) -> Iterator[tuple[Host, Meeting]]:
    """A host, and a locked file in the run directory's file system, both gone at the end.

    Args:
        need: Names the run directory.
        towards: One of the other machines.
    """
    path = existing(need.run_dir) / f".doctor-{secrets.token_hex(4)}"
    host = Host(address_towards(towards))
    try:
        with path.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield host, Meeting(host.address, str(path))
    finally:
        host.close()
        path.unlink(missing_ok=True)


def compared(reports: Sequence[Report], clocks: Mapping[str, float]) -> list[Finding]:
    """What is to be said of all machines together.

    Args:
        reports: Of each.
        clocks: Seconds by which the clock of each is ahead of this machine's.
    """
    return [_clocks(clocks), _versions(reports)]


def _clocks(clocks: Mapping[str, float]) -> Finding:
    tried = "clocks of all machines"
    off = {host: seconds for host, seconds in clocks.items() if abs(seconds) > OFF_SECONDS}
    if not off:
        widest = max(map(abs, clocks.values()), default=0.0)
        return Finding("clocks", tried, "ok", f"{len(clocks)} agree within {widest:.1f} s", host=TOGETHER)
    host, seconds = max(off.items(), key=lambda each: abs(each[1]))
    side = "ahead" if seconds > 0 else "behind"
    found = f"{host} is {abs(seconds):.0f} s {side}"
    if len(off) > 1:
        found += f"; {len(off)} machines differ"
    status: Status = "warn"
    breaks = "times in logs and in the ledger"
    if abs(seconds) > FAR_OFF_SECONDS:
        status = "fail"
        breaks += "; Slurm's messages (munge) and certificates are refused"
    mend = f"on {host}: timedatectl set-ntp true, or chronyc makestep"
    return Finding("clocks", tried, status, found, breaks, mend, TOGETHER)


def _versions(reports: Sequence[Report]) -> Finding:
    tried = "versions on all machines"
    if not reports:
        return Finding("same versions", tried, "skipped", "no machine reported", host=TOGETHER)
    first, different = reports[0], []
    for report in reports[1:]:
        # What only one of them has is a difference, too.
        for name in {**first.versions, **report.versions}:
            here, there = first.versions.get(name), report.versions.get(name)
            if here != there:
                different.append(f"{name} {there or 'missing'} on {report.host}, {here or 'missing'} on {first.host}")
    if not different:
        return Finding("same versions", tried, "ok", "the same", host=TOGETHER)
    mend = "one installation on a file system that all machines share, or ./launch.sh setup on each"
    breaks = "messages between machines, and answers that depend on where they were given"
    return Finding("same versions", tried, "fail", "; ".join(different[:3]), breaks, mend, TOGETHER)


def silent(host: str, why: str) -> Report:
    """The report of a machine that gave none."""
    mend = f"log in there and run raycade doctor; leave it out if it is broken (Slurm: --exclude={host})"
    breaks = "everything on this machine"
    return Report(host, (Finding("report", "checks on this machine", "fail", why, breaks, mend, host),))


def through_ray(need: Need, meeting: Meeting, nodes: Sequence[Mapping[str, Any]]) -> list[Report]:
    """The reports of all nodes of the Ray cluster that this process has joined, one task on each."""
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(look)
    begun = []
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        options = task.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
        begun.append((node["NodeManagerHostname"], options.remote(need, meeting)))
    reports, end = [], time.monotonic() + NODE_SECONDS
    for host, answer in begun:
        try:
            reports.append(ray.get(answer, timeout=max(1.0, end - time.monotonic())))
        except RayError as error:
            reports.append(silent(host, first_words(str(error))))
    return reports


def job_has_other_nodes() -> bool:
    """Whether this process is in a Slurm job of several nodes, on the first of them."""
    several = int(os.environ.get("SLURM_JOB_NUM_NODES") or 1) > 1
    return several and shutil.which("srun") is not None


def through_slurm(meeting: Meeting, overrides: Sequence[str], quick: bool) -> list[Report]:
    """The reports of all nodes of this Slurm job, by one step of it."""
    names = _names_of_job()
    options = [f"--nodes={len(names)}", f"--ntasks={len(names)}", "--ntasks-per-node=1", "--overlap", "--input=none"]
    own = ["doctor", "--node", json.dumps([meeting.address, meeting.lock])]
    if quick:
        own.append("--quick")
    own += overrides
    raycade = [sys.executable, "-P", "-m", "cluster", *own]  # -P: no module of the working directory is run
    command = ["srun", *options, "--kill-on-bad-exit=0", "--wait=0", *raycade]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=NODE_SECONDS, check=False)
        printed, said = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        printed = str(error.stdout or "")
        # What was printed so far is bytes here, even where text was asked for.
        if isinstance(error.stdout, bytes):
            printed = error.stdout.decode(errors="replace")  # a character may be cut in two
        said = f"no answer within {NODE_SECONDS:.0f} s"
    reports = reports_in(printed)
    there = {report.host.partition(".")[0] for report in reports}
    # Where as many have answered as there are, none is missing, whatever they call themselves.
    if len(there) >= len(names):
        return reports
    for name in names:
        short_name = name.partition(".")[0]
        if short_name not in there:
            reports.append(silent(name, first_words(said)))
    return reports


def _names_of_job() -> list[str]:
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    done = subprocess.run(
        ["scontrol", "show", "hostnames", listed], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.split()
