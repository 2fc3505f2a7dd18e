"""Bootstraps Ray on the nodes of a Slurm job; called by ``cluster/launch/slurm.sh``.

python -m cluster.launch.start_nodes choose JOB PEER         the first node's address and two free ports for the job
python -m cluster.launch.start_nodes address PEER            this node's address, as PEER sees it
python -m cluster.launch.start_nodes listening HOST:PORT SECONDS       wait until the port is open
python -m cluster.launch.start_nodes wait HOST:PORT SECONDS NODE...    wait until all these nodes have joined Ray
"""

from __future__ import annotations

import itertools
import logging
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from cluster.errors import UserError

FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Below the ephemeral ports of Linux, above the ports of Ray's workers."""
PORTS_PER_JOB = 16
NODE_LABEL = "slurm-node"
"""The label with a Ray node's Slurm node name."""
POLL_SECONDS = 0.5
CONNECT_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit code."""
    command, *words = arguments if arguments is not None else sys.argv[1:]
    try:
        if command == "choose":
            host = address_towards(words[1])
            print(host, *free_ports(int(words[0]), 2))
        elif command == "address":
            print(address_towards(words[0]))
        elif command == "listening":
            await_listener(words[0], float(words[1]))
        elif command == "wait":
            await_nodes(words[0], float(words[1]), words[2:])
        else:
            raise UserError(f"{command}: unknown; choose from choose, address, listening, wait")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def address_towards(peer: str) -> str:
    """This machine's address on its route to ``peer``, so that the right one of several networks is used.

    Raises:
        UserError: the name cannot be resolved.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(peer, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as route:
            route.connect(where)  # a UDP socket: looks up the route and sends nothing
            return str(route.getsockname()[0])
    except OSError as error:
        raise UserError(f"node {peer}: no route from {socket.gethostname()}: {error}") from error


def ports_of_job(job: int) -> range:
    """The block of ports of a job; jobs with close ids, which are likely to run at the same time, have different ones."""
    blocks = (LAST_PORT - FIRST_PORT) // PORTS_PER_JOB
    first = FIRST_PORT + job % blocks * PORTS_PER_JOB
    return range(first, first + PORTS_PER_JOB)


def free_ports(job: int, count: int) -> list[int]:
    """Free ports of the job's block on this node.

    Raises:
        UserError: there are fewer than ``count``.
    """
    free = list(itertools.islice(filter(_is_free, ports_of_job(job)), count))
    if len(free) < count:
        block = ports_of_job(job)
        raise UserError(f"job {job}: fewer than {count} ports from {block[0]} to {block[-1]} are free on this node")
    return free


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def listens(address: str) -> bool:
    """Whether HOST:PORT accepts connections."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def await_listener(address: str, seconds: float) -> None:
    """Wait until HOST:PORT accepts connections.

    Raises:
        UserError: timeout.
    """
    if not any(listens(address) for _ in _polls(seconds)):
        raise UserError(f"{address}: no answer after {seconds:g} s: Ray is not up on the first node")


def await_nodes(address: str, seconds: float, names: Sequence[str]) -> None:
    """Wait until Ray nodes with all these names have joined the cluster at ``address``.

    Raises:
        UserError: timeout; the message names the missing nodes.
    """
    started = time.monotonic()
    await_listener(address, seconds)
    missing = set(names)
    for _ in _polls(seconds - (time.monotonic() - started)):
        missing = set(names) - _joined(address)
        if not missing:
            print(f"raycade: {len(names)} Ray nodes are ready after {time.monotonic() - started:.0f} s", flush=True)
            return
    raise UserError(
        f"after {seconds:g} s {len(missing)} of {len(names)} nodes have not joined Ray: {', '.join(sorted(missing))}. "
        "See their output above; sbatch --exclude=NODE skips a broken one, RAYCADE_READY_SECONDS sets the timeout"
    )


def _joined(address: str) -> set[str]:
    """Slurm names of the Ray nodes that are up; none as long as the Ray node on this machine is not."""
    import ray

    try:
        ray.init(address, logging_level=logging.CRITICAL, log_to_driver=False, ignore_reinit_error=True)
        return {node["Labels"].get(NODE_LABEL, "") for node in ray.nodes() if node["Alive"]}
    except (ConnectionError, RuntimeError, ValueError):
        return set()


def _polls(seconds: float) -> Iterator[None]:
    """Yield every ``POLL_SECONDS`` until the timeout, and once more."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(POLL_SECONDS)
    yield


if __name__ == "__main__":
    sys.exit(main())
