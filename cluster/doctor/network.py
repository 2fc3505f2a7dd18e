"""Checks of what is reached over a network: own ports, Ray, the hub of models or its cache."""

from __future__ import annotations

import logging
import os
import socket
import urllib.parse
from pathlib import Path

from cluster import stop_signals
from cluster.doctor.check import Check, Need, Outcome, existing, first_words, in_slurm, ok, skipped
from cluster.errors import UserError
from cluster.launch.start_nodes import address_towards, free_ports, listens

HUB_SECONDS = 15.0
GCS_WORD = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""How a client of gRPC greets, as which Ray's first process listens."""


def ports(need: Need) -> Outcome:
    """Listen on the address by which others see this machine, and connect to it."""
    name = socket.gethostname()
    try:
        address = address_towards(name)
    except UserError:
        mend = f"a line for {name} in /etc/hosts, or ask the site for its name service"
        return Outcome("fail", f"the name {name} leads nowhere", "Ray on several machines, and torch", mend)
    with socket.create_server((address, 0)) as listener:
        if not listens(f"{address}:{listener.getsockname()[1]}"):
            mend = "open the ports 10000 to 65535 between the machines of a job: iptables -L, firewall-cmd --list-all"
            return Outcome("fail", f"{address} refuses connections from itself", "Ray: a firewall is in between", mend)
    if in_slurm():
        try:
            free_ports(int(os.environ["SLURM_JOB_ID"]), 2)
        except (UserError, ValueError) as error:
            mend = "end what holds them (ss -ltnp shows it, perhaps a job of before), or sbatch --exclude=NODE"
            return Outcome("fail", str(error), "the start of Ray in the job", mend)
    proxied = [each for each in ("http_proxy", "HTTP_PROXY", "grpc_proxy") if os.environ.get(each)]
    around = os.environ.get("no_proxy", "") + os.environ.get("NO_PROXY", "")
    goes_around = address in around or "*" in around
    if proxied and need.uses_ray and not goes_around:
        mend = f"export no_proxy=localhost,127.0.0.1,{address}, with the addresses of all machines of the job"
        return Outcome(
            "warn", f"{proxied[0]} is set, no_proxy lacks {address}", "Ray, whose calls may go to the proxy", mend
        )
    return ok(f"{address} listens and answers")


def ray_cluster(need: Need) -> Outcome:
    """Join the Ray cluster of the settings, or start Ray here as a run would."""
    if not need.uses_ray:
        return skipped("the settings use no Ray")
    address = need.cluster.address
    if address is None and need.quick:
        return skipped("--quick")
    # An address is tried first, so that what is wrong with it is named.
    if address not in (None, "auto"):
        wrong = _greeted(str(address))
        if wrong is not None:
            return wrong
    # A signal waits until Ray has ended: its own handler would leave processes behind.
    with stop_signals.counted():
        outcome = _started_or_joined(need)
        arrived = stop_signals.received[:1]
    if arrived:
        os.kill(os.getpid(), arrived[0])
    return outcome


def _started_or_joined(need: Need) -> Outcome:
    import ray

    from cluster.ray_backend import actors, capacity

    address = need.cluster.address
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    try:
        if not ray.is_initialized():
            actors.start_ray(need.cluster)
            stop_signals.heed_again()
        nodes = capacity.living_nodes()
        fit = capacity.replicas_that_fit(need.model)
    except Exception as error:
        if address is None:
            mend = "look at the checks of memory, /dev/shm, open files and the temporary folder; then ray stop --force"
            return Outcome("fail", first_words(str(error)), "every run; cluster=inline plays without Ray", mend)
        mend = f"on that machine: ray status; here RAY_AUTH_MODE=token, the same RAY_AUTH_TOKEN; ray start --address={address}"
        return Outcome("fail", first_words(str(error)), "every run on this cluster", mend)
    finally:
        # A Ray that the check has started here ends with it; a cluster stays joined for what follows.
        if address is None and ray.is_initialized():
            ray.shutdown()
    return _room(need, len(nodes), fit)


def _room(need: Need, nodes: int, fit: int) -> Outcome:
    """Whether so many replicas as fit the cluster are those that are asked for."""
    nodes_word = "node" if nodes == 1 else "nodes"
    replicas_word = "replica" if fit == 1 else "replicas"
    found = f"{nodes} {nodes_word}, room for {fit} {replicas_word}"
    wanted = 1 if need.cluster.replicas == "fit" else need.cluster.replicas
    needs = need.model.replica
    asks_something = needs.gpus or needs.cpus
    if asks_something and fit < wanted:
        mend = f"model.replica.gpus={needs.gpus:g} model.replica.cpus={needs.cpus:g}: ask for less, or add nodes"
        return Outcome("fail", f"{found}, {wanted} asked", "the run: it would not start", mend)
    return ok(found)


def _greeted(address: str) -> Outcome | None:
    """What is wrong with the process at an address, if anything: nobody there, or not Ray."""
    if not listens(address):
        port = address.rpartition(":")[2]
        mend = f"start Ray there (ray start --head --port={port}), correct cluster.address, or open the port"
        return Outcome("fail", f"{address}: nobody listens", "every run with cluster=ray", mend)
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 5.0) as connection:
            connection.settimeout(5.0)
            connection.sendall(GCS_WORD + b"\0\0\0\4\0\0\0\0\0")  # with empty settings, as HTTP/2 begins
            answer = connection.recv(9)
    except OSError:
        answer = b""
    if len(answer) >= 4 and answer[3:4] == b"\4":  # HTTP/2's settings
        return None
    mend = (
        f"ss -ltnp on that machine shows who holds port {port}; start Ray on another one (ray start --head --port=...)"
    )
    return Outcome("fail", f"{address}: something else than Ray answers", "every run with cluster=ray", mend)


def hub(need: Need) -> Outcome:
    """The model's files: complete in the cache, else whether the hub gives them."""
    if not need.hub_id:
        return skipped("the model needs none")
    from huggingface_hub import constants

    from cluster.doctor.weights import Incomplete, cached_folder

    revision = str(need.engine.get("revision") or "main")
    fetch = f"raycade fetch {need.hub_id}"
    cache = Path(constants.HF_HUB_CACHE)
    try:
        folder = cached_folder(need.hub_id, revision)
        return ok(f"in the cache, commit {folder.name[:12]}")
    except Incomplete as error:
        lacking = str(error)
    if constants.HF_HUB_OFFLINE:
        mend = f"unset HF_HUB_OFFLINE and {fetch}, where there is a network; or HF_HOME=... where the files are"
        return Outcome("fail", f"HF_HUB_OFFLINE is set, and {lacking}", f"model={need.model.name}", mend)
    there = existing(cache)
    if not os.access(there, os.W_OK):
        mend = "export HF_HOME=... to a folder that you may write to"
        return Outcome("fail", f"{there} cannot be written to", "the download of the model", mend)
    return _asked(need.hub_id, revision, need.model.name, fetch)


def _asked(id: str, revision: str, name: str, fetch: str) -> Outcome:
    """What the hub says of a model that is not in the cache."""
    from huggingface_hub import HfApi

    from cluster.doctor.weights import explained

    try:
        info = HfApi().model_info(id, revision=revision, timeout=HUB_SECONDS)
    except Exception as error:
        found, mend = explained(error, id)
        return Outcome("fail", found, f"model={name}: its files are not in the cache", mend)
    commit = str(info.sha)[:12]
    mend = f"{fetch}, before the job: else each of its nodes downloads the weights when it starts"
    return Outcome(
        "warn", f"the hub has it (commit {commit}), the cache does not", "nothing, but the start takes long", mend
    )


def endpoint(need: Need) -> Outcome:
    """Whether the address of a model behind an API answers; nothing is asked that costs."""
    url = urllib.parse.urlsplit(str(need.engine.get("base_url") or ""))
    if not url.hostname:
        return skipped("the settings name none")
    port = url.port or (443 if url.scheme == "https" else 80)
    if listens(f"{url.hostname}:{port}"):
        return ok(f"{url.hostname}:{port} listens")
    mend = "start the server, correct model.engine.base_url, or set the proxy (https_proxy)"
    return Outcome("fail", f"{url.hostname}:{port}: nobody listens", f"model={need.model.name}", mend)


CHECKS = (
    Check("ports", "ports of this machine", ports),
    Check("hub", "weights: cache, or the hub", hub),
    Check("endpoint", "endpoint of the model", endpoint),
)
RAY_CHECKS = (Check("ray", "Ray", ray_cluster),)
"""On the driver's machine only."""
