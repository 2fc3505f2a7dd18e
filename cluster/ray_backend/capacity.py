"""How many replicas and runners a Ray cluster has room for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import ray

from cluster.config.model import ModelSettings, ReplicaNeeds
from cluster.config.settings import ClusterSettings
from cluster.errors import UserError
from cluster.runner.admission import REPLICAS_PER_RUNNER


def living_nodes() -> list[dict[str, Any]]:
    """Ray's description of the nodes that are up."""
    return [node for node in ray.nodes() if node["Alive"]]


def replicas_that_fit(model: ModelSettings) -> int:
    """How many replicas fit the cluster when nothing else runs there.

    The parts of a replica run on different nodes, so a node with room for f parts serves at most min(f, r) of r replicas;
    r replicas fit if these add up to all their parts (assigned to the nodes round-robin, replica by replica).
    """
    nodes = model.replica.nodes
    on_each = [_fits(node, model.replica) for node in living_nodes()]
    most = sum(on_each) // nodes
    for replicas in range(most, 0, -1):
        parts = sum(min(fits, replicas) for fits in on_each)
        if parts >= replicas * nodes:
            return replicas
    return 0


def _fits(node: dict[str, Any], needs: ReplicaNeeds) -> int:
    if not has_labels(node.get("Labels") or {}, needs.labels):
        return 0
    resources = node["Resources"]
    asked = {"GPU": needs.gpus, "CPU": needs.cpus}
    fits = []
    for kind, each in asked.items():
        if each:
            fits.append(int(resources.get(kind, 0.0) / each + 1e-9))
    return min(fits, default=1)


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a node's labels are those that Ray's selector asks for: ``x``, ``!x``, ``in(x, y)`` or ``!in(x, y)``."""
    for name, text in wanted.items():
        values = [text.removeprefix("!")]
        among = re.fullmatch(r"in\((.*)\)", values[0])
        if among:
            values = [value.strip() for value in among[1].split(",")]
        if (labels.get(name) in values) == text.startswith("!"):
            return False
    return True


def check_fit(cluster: ClusterSettings, model: ModelSettings) -> None:
    """Check that the requested replicas fit the cluster.

    Raises:
        UserError: they do not; the message states the request and the resources of each node.
    """
    if model.engine is None:
        return
    needs = model.replica
    fit = replicas_that_fit(model)
    wanted = 1 if cluster.replicas == "fit" else cluster.replicas
    asks_nothing = not needs.gpus and not needs.cpus
    enough = fit >= wanted or asks_nothing
    if living_nodes() and enough:
        return
    rooms = []
    for node in living_nodes():
        rooms.append(f"  {_describe(node)} (room for {_fits(node, needs)})")
    nodes = "\n".join(rooms)
    raise UserError(
        f"model={model.name} cluster.replicas={cluster.replicas}: each replica asks for {_asked(needs)}; "
        f"{fit} of {wanted} fit this cluster:\n{nodes}"
    )


def _asked(needs: ReplicaNeeds) -> str:
    text = f"{needs.gpus:g} GPU and {needs.cpus:g} CPU"
    if needs.nodes > 1:
        text += f" on each of {needs.nodes} nodes"
    if needs.labels:
        text += f" with the labels {dict(needs.labels)}"
    return text


def _describe(node: dict[str, Any]) -> str:
    resources = node["Resources"]
    return f"{node['NodeManagerAddress']}: {resources.get('GPU', 0):g} GPU, {resources.get('CPU', 0):g} CPU"


def count_runners(cluster: ClusterSettings, model: ModelSettings) -> int:
    """Number of runners of a run."""
    if cluster.runners != "auto":
        return cluster.runners
    replicas = replicas_that_fit(model) if cluster.replicas == "fit" else cluster.replicas
    return max(1, math.ceil(replicas / REPLICAS_PER_RUNNER))
