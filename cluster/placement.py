"""Where actors live: starts or joins Ray, wraps the plain classes as actors, and reads Ray's errors for the others."""

from __future__ import annotations

import logging
import os
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from cluster.engine import EngineDiedError, Request
from cluster.errors import UserError
from cluster.model_player import Decoding, ModelPlayer
from cluster.replica import Replica
from cluster.router import Router
from cluster.runner import Runner
from cluster.settings import ClusterSettings, ModelSettings
from evals.contracts import Reply, Suite

CALLS_AT_ONCE = 10_000
"""Concurrent calls that an actor accepts; the router keeps their number far below."""

OBJECT_STORE_BYTES = 256 * 2**20
"""Enough for records on their way to the driver; pictures and prompts never pass through it."""


def start_ray(cluster: ClusterSettings) -> None:
    """Start Ray on this machine, or join the cluster at ``cluster.address``.

    Raises:
        UserError: no cluster answers at that address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    common: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "namespace": "raycade"}
    if cluster.address is None:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            **common,
        )
        return
    try:
        ray.init(address=cluster.address, **common)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(f"cluster.address={cluster.address}: no Ray cluster answers there: {error}") from error


def check_fit(cluster: ClusterSettings, model: ModelSettings) -> None:
    """See that the asked replicas fit the cluster.

    Raises:
        UserError: they do not; the message says what was asked for and what each node has.
    """
    if model.engine is None:
        return
    have = ray.cluster_resources()
    for kind, each in (("GPU", model.replica.gpus), ("CPU", model.replica.cpus)):
        asked = each * cluster.replicas
        if asked > have.get(kind, 0.0):
            nodes = "\n".join(_describe(node) for node in ray.nodes() if node["Alive"])
            raise UserError(
                f"model={model.name} with cluster.replicas={cluster.replicas} asks for {asked:g} {kind} "
                f"({each:g} each); the cluster has {have.get(kind, 0.0):g}:\n{nodes}"
            )


def _describe(node: dict[str, Any]) -> str:
    resources = node["Resources"]
    return f"  {node['NodeManagerAddress']}: {resources.get('GPU', 0):g} GPU, {resources.get('CPU', 0):g} CPU"


def create_replica(name: str, model: ModelSettings) -> ray.actor.ActorHandle:
    """A replica in a process of its own; Ray never restarts it or repeats its calls, both are decided here."""
    actor = ray.remote(Replica).options(
        num_gpus=model.replica.gpus,
        num_cpus=model.replica.cpus,
        max_concurrency=CALLS_AT_ONCE,
        max_restarts=0,
        max_task_retries=0,
    )
    return actor.remote(name, model.make_engine)


def create_runner(suite: Suite, decoding: Decoding | None) -> ray.actor.ActorHandle:
    """A runner in a process of its own; without decoding it plays for the built-in players only."""
    actor = ray.remote(_RunnerActor).options(num_cpus=0, max_concurrency=4, max_restarts=0, max_task_retries=0)
    return actor.remote(suite, decoding)


class _RunnerActor(Runner):
    """Builds the runner's player where it will be used."""

    def __init__(self, suite: Suite, decoding: Decoding | None) -> None:
        super().__init__(suite, ModelPlayer(Router(), decoding) if decoding else None)


class RayReplica:
    """A replica's port: its actor handle, with Ray's errors read as the engine contract's."""

    def __init__(self, handle: ray.actor.ActorHandle) -> None:
        """``handle`` as ``create_replica`` returns it."""
        self._handle = handle

    async def complete(self, request: Request) -> Reply:
        """As ``Engine.complete``."""
        try:
            reply: Reply = await self._handle.complete.remote(request)
        except RayActorError as error:
            raise EngineDiedError(first_line(error)) from error
        except RayTaskError as error:
            raise error.cause from error
        return reply


def first_line(error: BaseException) -> str:
    """What an error says first, for messages that quote it."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def end_actor(handle: ray.actor.ActorHandle) -> None:
    """End an actor's process for good."""
    ray.kill(handle, no_restart=True)
