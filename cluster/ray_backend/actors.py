"""Starts or joins Ray, wraps the plain classes as actors, and translates Ray's errors."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.job_config import JobConfig
from ray.util.placement_group import PlacementGroup, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from cluster.concurrency import within
from cluster.config.model import ModelSettings
from cluster.config.settings import ClusterSettings
from cluster.console import warn
from cluster.engines.base import EngineDiedError, Request
from cluster.engines.replica import Replica
from cluster.errors import SEE_DOCTOR, RunFailedError, UserError
from cluster.launch.start_nodes import listens
from cluster.ray_backend.bundles import make_group
from cluster.ray_backend.capacity import living_nodes
from cluster.ray_backend.environment import passed_on
from cluster.ray_backend.groups import Groups
from cluster.ray_backend.metrics import RunnerMetrics
from cluster.runner.messages import Assignment, Listens, Report
from cluster.runner.model_player import Decoding, ModelPlayer
from cluster.runner.router import Policy, Router
from cluster.runner.runner import Runner
from cluster.storage.kept_output import last_lines
from envs import plugins
from evals.suite import Suite
from evals.types import Reply

CALLS_AT_ONCE = 10_000
"""Concurrent calls that an actor accepts; the router keeps far below this."""

LITTLE_MEMORY = 2**20
"""Every actor requests some memory: Ray ignores the scheduling strategy of actors that request no resources."""

OBJECT_STORE_BYTES = 256 * 2**20
"""Enough for records sent to the driver; pictures and prompts never pass through the object store."""


# --- the cluster ---


def start_ray(cluster: ClusterSettings) -> None:
    """Start Ray on this machine, or join the cluster at ``cluster.address``.

    Raises:
        UserError: no cluster was found at that address, or the temporary folder is none for Ray.
        RunFailedError: Ray cannot be started here.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    common: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "namespace": "raycade"}
    imports_from_here = "" in sys.path or str(Path.cwd()) in sys.path
    if not imports_from_here:
        # Else Ray has its workers look for every module in the driver's working directory first. For the job of a client it
        # does not, and uploads no folders of code, of which there are none here.
        common["job_config"] = JobConfig(_client_job=True)
    if cluster.address is None:
        folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
        if not folder.isascii():
            raise UserError(
                f"{folder}: Ray does not start in a temporary folder whose path has letters beyond ASCII; export TMPDIR=/tmp"
            )
        # Ray counts all cores of the machine; a Slurm job may have only some of them.
        common["num_cpus"] = len(os.sched_getaffinity(0))
        try:
            ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **common)
        except Exception as error:  # a bare one where its node does not come up in time
            raise RunFailedError(f"Ray cannot be started on this machine: {error}. {SEE_DOCTOR}") from error
        return
    if re.fullmatch(r"\S+:\d+", cluster.address) and not listens(cluster.address):  # Ray itself would wait for minutes
        raise UserError(
            f"cluster.address={cluster.address}: no Ray cluster found there (the port is closed). {SEE_DOCTOR}"
        )
    plugins.folders()  # puts them on the PYTHONPATH
    passed, withheld = passed_on(os.environ)
    # A Slurm job's Ray was started with this very environment.
    if withheld and "SLURM_JOB_ID" not in os.environ:
        warn(
            f"not passed on to replicas, as Ray would store it: {', '.join(withheld)}; export it before Ray starts there"
        )
    # In a job of `ray job submit`, Ray would refuse our variables that the job itself sets; they have the same values.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    if passed:
        common["runtime_env"] = {"env_vars": passed}
    try:
        ray.init(address=cluster.address, **common)
    except (ConnectionError, RuntimeError, ValueError) as error:
        # To an address that is named, Ray sends a token only if this mode is set, wherever the token is.
        mode = "" if os.environ.get("RAY_AUTH_MODE") == "token" else " (not sent: export RAY_AUTH_MODE=token too)"
        raise UserError(
            f"cluster.address={cluster.address}: no Ray cluster found there, or its RAY_AUTH_TOKEN differs{mode}: {error}. "
            f"{SEE_DOCTOR}"
        ) from error


# --- actors ---


@dataclass(frozen=True)
class Place:
    """Where a replica's process runs."""

    node: str
    """Id of its Ray node."""
    host: str
    gpus: tuple[str, ...]
    """Numbers of its GPUs there; none for a replica over several nodes, whose workers hold them."""
    logs: tuple[str, ...]
    """Files on that node with its output and its errors, those of its engine's processes included."""

    @property
    def device(self) -> str:
        """Identifies its GPUs."""
        return f"{self.node}/{','.join(self.gpus) or os.urandom(8).hex()}"

    def __str__(self) -> str:
        """For people."""
        return f"GPU {','.join(self.gpus)} of {self.host}" if self.gpus else self.host


class _ReplicaActor(Replica):
    """A replica that reports where it is."""

    async def place(self) -> Place:
        context = ray.get_runtime_context()
        gpus = tuple(context.get_accelerator_ids().get("GPU", ()))
        files = dict.fromkeys(str(Path(f"/proc/self/fd/{stream}").resolve()) for stream in (1, 2))
        logs = tuple(file for file in files if Path(file).is_file())
        return Place(str(context.get_node_id()), socket.gethostname(), gpus, logs)

    async def last_lines(self, logs: Sequence[str]) -> str:
        return last_lines(logs)


ASK_SECONDS = 5.0
"""For a replica's answer whose engine has failed, before another process is started there."""


async def read_log(handle: ray.actor.ActorHandle, place: Place) -> str:
    """The last lines of a replica's output, read where it ran; values of secret environment variables are left out."""
    text: str
    try:
        text = await within(ASK_SECONDS, handle.last_lines.remote(place.logs))
    except (RayError, TimeoutError):  # its process is gone, or does not answer
        on_node = NodeAffinitySchedulingStrategy(place.node, soft=False)
        task = ray.remote(last_lines).options(num_cpus=0, max_retries=0, scheduling_strategy=on_node)
        text = await task.remote(place.logs)
    return text


class _RunnerActor(Runner):
    """Builds the runner's player in its own process."""

    def __init__(
        self, name: str, suite: Suite, decoding: Decoding | None, policy: Policy, listener: Listens | None
    ) -> None:
        super().__init__(suite, ModelPlayer(Router(policy), decoding) if decoding else None, listener)
        self._metrics = RunnerMetrics(name)

    async def exchange(self, assignment: Assignment) -> Report:
        report = await super().exchange(assignment)
        self._metrics.show(report)
        return report

    async def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


_GROUPS: dict[ray.actor.ActorHandle, PlacementGroup] = {}
"""Placement groups of multi-node replicas, removed with them."""


def create_replica(name: str, model: ModelSettings) -> ray.actor.ActorHandle:
    """A replica in a separate process; Ray neither restarts it nor retries its calls, raycade does both.

    Replicas over several nodes get a placement group, through which vLLM's Ray executor finds its GPUs.
    """
    needs = model.replica
    options: dict[str, Any] = {
        "num_gpus": needs.gpus,
        "num_cpus": needs.cpus,
        "memory": LITTLE_MEMORY,
        "max_concurrency": CALLS_AT_ONCE,
        # A call that crashed an actor would crash the next one too, were it retried by Ray, which cannot tell prompts apart.
        "max_restarts": 0,
        "max_task_retries": 0,
        "scheduling_strategy": "SPREAD",
    }
    group = None
    if needs.nodes > 1:
        group, first = make_group(needs, _GROUPS.values())
        # The workers of vLLM's Ray executor hold the bundles' GPUs; the actor itself needs none.
        options |= {
            "num_gpus": 0,
            "num_cpus": first.get("CPU", 0),
            "memory": None,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(group, 0, True),
        }
    elif needs.labels:
        options["label_selector"] = dict(needs.labels)
    handle = ray.remote(_ReplicaActor).options(**options).remote(name, model.make_engine)
    if group is not None:
        _GROUPS[handle] = group
    return handle


def create_runner(
    name: str, suite: Suite, decoding: Decoding | None, policy: Policy, turn: int, listener: Listens | None
) -> RayRunner:
    """A runner in a separate process; without ``decoding`` it plays for the built-in players only.

    Runners are placed on the nodes round-robin by ``turn``, because Ray's SPREAD puts several that start together on one
    node. The first one is placed on the driver's node, without which the run is over anyway.
    """
    options: dict[str, Any] = {"num_cpus": 0, "memory": LITTLE_MEMORY, "max_concurrency": 4}
    options |= {"max_restarts": 0, "max_task_retries": 0}
    here = ray.get_runtime_context().get_node_id()
    # The driver's node first, the others in an order that is the same each time.
    nodes = sorted((node["NodeID"] for node in living_nodes()), key=lambda node: (node != here, node))
    if nodes:
        # Soft: if the node goes, the runner starts on another one.
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(nodes[turn % len(nodes)], soft=True)
    return RayRunner(ray.remote(_RunnerActor).options(**options).remote(name, suite, decoding, policy, listener))


def end_actor(handle: ray.actor.ActorHandle) -> None:
    """Kill an actor for good, and release its placement group."""
    ray.kill(handle, no_restart=True)
    if (group := _GROUPS.pop(handle, None)) is not None:
        remove_placement_group(group)


class RayRunner:
    """A runner's port: its actor handle."""

    def __init__(self, handle: ray.actor.ActorHandle) -> None:
        """``handle`` of a runner's actor."""
        self._handle = handle

    async def exchange(self, assignment: Assignment) -> Report:
        """As ``Runner.exchange``."""
        report: Report = await self._handle.exchange.remote(assignment)
        return report

    async def node(self) -> str:
        """The id of its Ray node."""
        return str(await self._handle.node.remote())

    def end(self) -> None:
        """End its process."""
        end_actor(self._handle)


class RayReplica:
    """A replica's port: its actor handle, with Ray's errors translated to those of the engine contract."""

    def __init__(self, handle: ray.actor.ActorHandle) -> None:
        """``handle`` as ``create_replica`` returns it."""
        self._handle = handle
        self._groups = Groups(self._complete_group)

    async def complete(self, request: Request) -> Reply:
        """As ``Engine.complete``; calls for label probabilities, which are short, go in groups."""
        if request.labels:
            return await self._groups.complete(request)
        reply: Reply = await _answer(self._handle.complete.remote(request))
        return reply

    async def _complete_group(self, requests: Sequence[Request]) -> list[Reply | Exception]:
        replies: list[Reply | Exception] = await _answer(self._handle.complete_group.remote(requests))
        return replies


async def _answer(answer: Any) -> Any:
    """What an actor's call returns, or its error as one of the engine contract; canceling this cancels the call."""
    try:
        return await answer
    except asyncio.CancelledError:
        ray.cancel(answer)
        raise
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        raise EngineDiedError(first_line(error)) from error


def first_line(error: BaseException) -> str:
    """The first line of an error, to be quoted in messages."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
