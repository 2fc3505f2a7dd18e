"""A real Slurm on this machine: munged, one slurmctld and one slurmd per node, all below one folder and all ended with it."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue")
READY_SECONDS = 60.0
PARTITIONS = {
    "main": "Default=YES PriorityTier=1",
    "requeue": "PriorityTier=1 PreemptMode=REQUEUE",
    "requeue_grace": "PriorityTier=1 PreemptMode=REQUEUE GraceTime=20",
    "cancel": "PriorityTier=1 PreemptMode=CANCEL",
    "cancel_grace": "PriorityTier=1 PreemptMode=CANCEL GraceTime=20",
    "urgent": "PriorityTier=10 PreemptMode=OFF",
}
"""Jobs of ``urgent`` preempt those of all others."""

CONFIGURATION = """\
ClusterName=raycade
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=6
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldParameters=enable_configless{parameters}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=500000,sched_interval=2,requeue_delay=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MailProg=/bin/true
KillWait=20
MinJobAge=600
FirstJobId={first_job}
SlurmdTimeout=8
ReturnToService=2
InactiveLimit=0
"""


FREEZER = Path("/sys/fs/cgroup/freezer")
"""Where Slurm can track processes by cgroups (version 1), as most sites do."""
CGROUPS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
"""


def has_cgroups() -> bool:
    """Whether Slurm can track processes by cgroups here; else it follows parents, and signals all processes of a step."""
    return os.access(FREEZER, os.W_OK)


def why_not() -> str:
    """Why Slurm cannot be started here; empty if it can."""
    missing = [program for program in PROGRAMS if not _find(program)]
    if missing:
        return f"needs Slurm and munge (Debian: slurm-wlm munge); there is no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "needs root to start Slurm's daemons"
    return ""


def _find(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


@dataclass
class SlurmWorld:
    """A Slurm cluster that is up."""

    folder: Path
    environment: dict[str, str]
    daemons: dict[str, subprocess.Popen]
    """By name: munged, slurmctld, and each node's slurmd."""

    def run(self, *command: str, timeout: float = 60) -> str:
        """A command's standard output; fails loudly."""
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """What ``scontrol show job`` says, by name."""
        words = self.run("scontrol", "show", "job", "-o", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for(self, number: str, *states: str, seconds: float) -> dict[str, str]:
        """Wait until a job is in one of these states."""
        end = time.monotonic() + seconds
        while (job := self.job(number))["JobState"] not in states:
            assert time.monotonic() < end, f"job {number} is still {job['JobState']} ({job['Reason']})"
            time.sleep(0.5)
        return job

    def processes(self, node: str = "") -> list[psutil.Process]:
        """What Slurm's jobs have running (on one node): stepds, batch scripts and everything below them."""
        daemons = {process.pid for daemon in self.daemons.values() for process in _family(daemon.pid)}
        return [
            process
            for process in _knowing(self.environment["SLURM_CONF"])
            if process.pid not in daemons and (not node or node_of(process) == node)
        ]

    def running(self, *texts: str) -> list[psutil.Process]:
        """Processes of jobs whose command line holds all these texts; one that ends meanwhile is none."""
        found = []
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                command = " ".join(process.cmdline())
                if all(text in command for text in texts):
                    found.append(process)
        return found

    def lose(self, node: str) -> None:
        """The node dies: its daemon, and every process of its jobs."""
        for process in [*_family(self.daemons[node].pid), *self.processes(node)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.daemons[node].wait()
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=died")

    def mend(self, node: str) -> None:
        """The node comes back."""
        self.daemons[node] = self.start_daemon(node, "slurmd", "-D", "-N", node)
        try:
            self.run("scontrol", "update", f"nodename={node}", "state=resume")
        except AssertionError:  # it has registered meanwhile and is in service again
            state = self.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T")
            if "down" in state:
                raise

    def start_daemon(self, name: str, *command: str) -> subprocess.Popen:
        """Start one of Slurm's daemons."""
        with (self.folder / f"{name}.out").open("ab") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)


@contextmanager
def slurm(folder: Path, nodes: int = 2, cpus: int = 4, parameters: str = "") -> Iterator[SlurmWorld]:
    """Start Slurm with nodes n1, n2, ... that all live on this machine; everything ends when the context does.

    ``parameters`` are added to SlurmctldParameters.
    """
    folder.mkdir(parents=True, mode=0o755, exist_ok=True)
    host = socket.gethostname().split(".")[0]
    ports = free_ports(nodes + 1)
    parameters = f",{parameters}" if parameters else ""
    # Jobs are named in /tmp by their numbers: no two clusters on this machine, at any time, may count from the same one.
    first_job = random.SystemRandom().randrange(1_000, 10_000_000)
    lines = [CONFIGURATION.format(host=host, port=ports[0], folder=folder, parameters=parameters, first_job=first_job,
                                  tracking="cgroup" if has_cgroups() else "linuxproc")]  # fmt: skip
    (folder / "cgroup.conf").write_text(CGROUPS)
    names = [f"n{number + 1}" for number in range(nodes)]
    for name, port in zip(names, ports[1:], strict=True):
        lines.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN\n")
    for partition, properties in PARTITIONS.items():
        lines.append(f"PartitionName={partition} Nodes={','.join(names)} MaxTime=INFINITE State=UP {properties}\n")
    (folder / "slurm.conf").write_text("".join(lines))
    (folder / "state").mkdir(exist_ok=True)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    environment["PATH"] = environment.get("PATH", "") + ":/usr/sbin:/sbin"
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    places = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("pid", "seed", "log")]
    world = SlurmWorld(folder, environment, {})
    commands = {
        "munged": [
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            *places,
            f"--socket={folder}/munge.socket",
        ],
        "slurmctld": ["slurmctld", "-D", "-c"],
        **{name: ["slurmd", "-D", "-N", name] for name in names},
    }
    try:
        for name, command in commands.items():
            world.daemons[name] = world.start_daemon(name, *command)
            if name == "munged":
                _await(until((folder / "munge.socket").exists, READY_SECONDS), name, folder)
        _await(until(lambda: _idle(world) == nodes, READY_SECONDS), "slurmctld", folder)
        yield world
    finally:
        _end(world)


def _idle(world: SlurmWorld) -> int:
    command = ["sinfo", "--noheader", "--partition=main", "--Node", "--format=%T"]
    told = subprocess.run(command, env=world.environment, capture_output=True, text=True, check=False)
    return told.stdout.split().count("idle")


def _end(world: SlurmWorld) -> None:
    for daemon in reversed(world.daemons.values()):
        for process in _family(daemon.pid):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        daemon.wait()
    for process in world.processes():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def until(condition: Callable[[], object], seconds: float) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def _await(up: bool, name: str, folder: Path) -> None:
    logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in sorted(folder.glob("*.out")))
    assert up, f"{name} is not up after {READY_SECONDS:g} s\n{logs}"


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _knowing(configuration: str) -> list[psutil.Process]:
    """Living processes that have this Slurm in their environment, whoever their parents are."""
    others = [process for process in psutil.process_iter() if process.pid != os.getpid()]
    return [process for process in others if _variable(process, "SLURM_CONF") == configuration]


def _variable(process: psutil.Process, name: str) -> str:
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(name, "")
    except psutil.Error:
        return ""


def node_of(process: psutil.Process) -> str:
    """The node that a job's process is on."""
    return _variable(process, "SLURMD_NODENAME")
