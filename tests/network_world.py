"""Several hosts on one machine: each has its own network, processes and temporary files, and a cable to one switch.

A host is a set of Linux namespaces around one idle process. Killing that process ends every process of the host at once,
as when a machine loses power. Nothing outside the namespaces is touched: the switch is a namespace of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts")
IDLE = "import signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True: time.sleep(1000)"
"""The first process of a host: does nothing, and lets the kernel bury orphans."""
PORT = 20_000
"""Of the Ray head; each host has all ports for itself."""
READY_SECONDS = 90.0


def why_not() -> str:
    """Why hosts cannot be made here; empty if they can."""
    missing = [program for program in ("ip", "unshare", "nsenter") if not shutil.which(program)]
    if missing:
        return f"needs network namespaces (Debian: iproute2 util-linux); there is no {', '.join(missing)}"
    try:
        with hosts(1):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"this process may not make network namespaces (needs root): {error}"


@dataclass
class Host:
    """One machine of the network."""

    name: str
    address: str
    idle: subprocess.Popen
    """``unshare``, whose one child is the host's first process."""
    private: Path
    """A path at which every host has files of its own."""

    @property
    def first_process(self) -> int:
        """Of the host, as this machine numbers it."""
        children = Path(f"/proc/{self.idle.pid}/task/{self.idle.pid}/children").read_text().split()
        return int(children[0])

    def command(self, *command: str) -> list[str]:
        """The same command, inside the host."""
        return ["nsenter", f"--target={self.first_process}", *NAMESPACES, "--", *command]

    def run(self, *command: str) -> str:
        """Run a command inside and return its output.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        return subprocess.run(self.command(*command), check=True, capture_output=True, text=True, timeout=60).stdout

    def start(self, command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> subprocess.Popen:
        """Start a command inside."""
        with log.open("ab") as output:
            return subprocess.Popen(
                self.command(*command),
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def processes(self) -> list[str]:
        """Command lines of all processes of the host but its first."""
        return [line for line in self.run("ps", "-eo", "args=").splitlines() if line.split()[:1] != ["ps"]][1:]


@dataclass
class Network:
    """Hosts on one switch."""

    hosts: list[Host]
    switch: Host

    def lose(self, host: Host) -> None:
        """The host goes dark: its cable is cut, so that nobody is told, and all its processes are gone."""
        self.switch.run("ip", "link", "set", f"to-{host.name}", "down")
        _end(host)


@contextmanager
def hosts(count: int) -> Iterator[Network]:
    """So many hosts with addresses 10.77.0.1, 10.77.0.2, ... on one switch."""
    with ExitStack() as stack:
        # A short path, as names of Unix sockets may have 107 characters.
        private = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rc", dir="/tmp")))
        switch = stack.enter_context(_host("switch", "", private))
        switch.run("ip", "link", "add", "bridge", "type", "bridge")
        switch.run("ip", "link", "set", "bridge", "up")
        network = Network([], switch)
        for number in range(1, count + 1):
            host = stack.enter_context(_host(f"h{number}", f"10.77.0.{number}", private))
            cable = f"to-{host.name}"
            first = str(host.first_process)
            switch.run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0")
            # Interfaces move by process id, which only the machine outside can name.
            outside = ["nsenter", f"--target={switch.first_process}", "--net", "--"]
            subprocess.run([*outside, "ip", "link", "set", "eth0", "netns", first], check=True, capture_output=True)
            switch.run("ip", "link", "set", cable, "master", "bridge", "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")
            host.run("ip", "route", "add", "default", "dev", "eth0")
            network.hosts.append(host)
        yield network


@contextmanager
def _host(name: str, address: str, private: Path) -> Iterator[Host]:
    command = ["unshare", *NAMESPACES, "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", IDLE]
    idle = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    host = Host(name, address, idle, private)
    try:
        _await_first_process(host)
        host.run("hostname", name)
        host.run("ip", "link", "set", "lo", "up")
        for place in (private, Path("/dev/shm")):
            host.run("mount", "-t", "tmpfs", "tmpfs", str(place))
        yield host
    finally:
        _end(host)


def _await_first_process(host: Host) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and host.idle.poll() is None:
        try:
            if IDLE.encode() in Path(f"/proc/{host.first_process}/cmdline").read_bytes():
                return
        except (IndexError, OSError):
            pass
        time.sleep(0.02)
    said = host.idle.stderr.read().decode().strip() if host.idle.poll() is not None and host.idle.stderr else "too slow"
    raise OSError(said or "unshare ended")


def _end(host: Host) -> None:
    """The death of unshare is the death of its child, which is that of all processes of the host."""
    host.idle.kill()
    host.idle.wait()


def start_ray(network: Network, folder: Path, cpus: int, environment: dict[str, str]) -> str:
    """A Ray node on every host, joined to one cluster; returns the cluster's address when all are there."""
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--num-cpus={cpus}"]
    ray += ["--object-store-memory=100000000", "--disable-usage-stats"]
    head = network.hosts[0]
    address = f"{head.address}:{PORT}"
    roles = {head.name: ["--head", f"--port={PORT}", "--include-dashboard=false"]}
    for host in network.hosts:
        role = roles.get(host.name, [f"--address={address}"])
        command = [*ray, *role, f"--node-ip-address={host.address}", f"--temp-dir={host.private}"]
        command.append(f"--labels=slurm-node={host.name}")
        host.start(command, folder / f"{host.name}.log", environment)
        if host is head:
            wait = ["listening", address, str(READY_SECONDS)]
            _wait(head, wait, environment)
    _wait(head, ["wait", address, str(READY_SECONDS), *(host.name for host in network.hosts)], environment)
    return address


def _wait(host: Host, arguments: list[str], environment: dict[str, str]) -> None:
    command = host.command(sys.executable, "-m", "cluster.launch.start_nodes", *arguments)
    subprocess.run(command, check=True, env={**os.environ, **environment}, timeout=READY_SECONDS + 30)
