"""A real Slurm on this machine: munged, one slurmctld and one slurmd per node, all below one folder and all ended with it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue")
READY_SECONDS = 60.0

CONFIGURATION = """\
ClusterName=raycade
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=3
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
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
SlurmdTimeout=8
ReturnToService=2
InactiveLimit=0
"""


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

    def node_dies(self, node: str) -> None:
        """Slurm loses a node: its daemon ends, and with it every process of the node's jobs."""
        _kill_all(self.daemons[node])
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=died")


@contextmanager
def slurm(folder: Path, nodes: int = 2, cpus: int = 4) -> Iterator[SlurmWorld]:
    """Start Slurm with nodes n1, n2, ... that all live on this machine; everything ends when the context does."""
    folder.mkdir(parents=True, mode=0o755, exist_ok=True)
    host = socket.gethostname().split(".")[0]
    ports = free_ports(nodes + 1)
    lines = [CONFIGURATION.format(host=host, port=ports[0], folder=folder)]
    names = [f"n{number + 1}" for number in range(nodes)]
    for name, port in zip(names, ports[1:], strict=True):
        lines.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN\n")
    lines.append(f"PartitionName=main Nodes={','.join(names)} Default=YES MaxTime=INFINITE State=UP\n")
    (folder / "slurm.conf").write_text("".join(lines))
    (folder / "state").mkdir(exist_ok=True)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    environment["PATH"] = environment.get("PATH", "") + ":/usr/sbin:/sbin"
    with ExitStack() as stack:
        daemons: dict[str, subprocess.Popen] = {}

        def daemon(name: str, *command: str) -> None:
            log = stack.enter_context((folder / f"{name}.out").open("wb"))
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            daemons[name] = process
            stack.callback(_kill_all, process)

        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        daemon(
            "munged",
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            *(f"--{kind}-file={folder}/munge.{kind}" for kind in ("pid", "seed", "log")),
            f"--socket={folder}/munge.socket",
        )
        _until((folder / "munge.socket").exists, "munged", folder)
        daemon("slurmctld", "slurmctld", "-D", "-c")
        for name in names:
            daemon(name, "slurmd", "-D", "-N", name)
        world = SlurmWorld(folder, environment, daemons)

        def up() -> bool:
            states = subprocess.run(
                ["sinfo", "--noheader", "--Node", "--format=%T"], env=environment, capture_output=True, text=True
            )
            return states.stdout.split().count("idle") == nodes

        stack.callback(_kill_jobs, environment["SLURM_CONF"])
        _until(up, "slurmctld", folder)
        yield world


def _until(condition, name: str, folder: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while not condition():
        logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in sorted(folder.glob("*.out")))
        assert time.monotonic() < end, f"{name} is not up after {READY_SECONDS:g} s\n{logs}"
        time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _kill_jobs(configuration: str) -> None:
    """End whatever of this Slurm's jobs is left; its stepds are nobody's children."""
    for process in of_this_world(configuration):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def of_this_world(configuration: str) -> list[psutil.Process]:
    """Living processes that know this Slurm by their environment: stepds, batch scripts and all below them."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get("SLURM_CONF") == configuration:
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def _kill_all(daemon: subprocess.Popen) -> None:
    """End a daemon and everything below it."""
    try:
        below = psutil.Process(daemon.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    for process in [*below, psutil.Process(daemon.pid)] if daemon.poll() is None else below:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    daemon.wait()
