"""Placement groups of replicas over several nodes: which bundles, and on how many nodes Ray may spread them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Literal

from ray._private.state import available_resources_per_node
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table

from cluster.config.model import ReplicaNeeds
from cluster.ray_backend.capacity import has_labels, living_nodes

Strategy = Literal["PACK", "STRICT_PACK", "STRICT_SPREAD"]


def make_group(needs: ReplicaNeeds, ours: Collection[PlacementGroup]) -> tuple[PlacementGroup, dict[str, float]]:
    """A placement group for a replica over several nodes, and its first bundle.

    Args:
        needs: Of the replica.
        ours: The groups of this driver's other replicas.
    """
    bundles = bundles_of(needs)
    group = placement_group(
        bundles,
        strategy=strategy_of(needs, ours),
        bundle_label_selector=[dict(needs.labels)] * len(bundles) if needs.labels else None,
    )
    return group, bundles[0]


def bundles_of(needs: ReplicaNeeds) -> list[dict[str, float]]:
    """The bundles: vLLM takes those of one GPU only; without GPUs there is one for each node."""
    if not needs.gpus:
        return [{"CPU": needs.cpus}] * needs.nodes
    bundle = {"GPU": 1.0} | ({"CPU": needs.cpus / needs.gpus} if needs.cpus else {})
    return [bundle] * round(needs.nodes * needs.gpus)


def strategy_of(needs: ReplicaNeeds, ours: Collection[PlacementGroup]) -> Strategy:
    """How Ray places the bundles: on one node if one has room for all of them, since GPUs of one node share faster links.

    Ray's ``PACK`` fills the node first that has most left beside the first bundle, many free CPUs among it, even if the
    group ends on another node then. ``STRICT_PACK`` waits for one node, and would wait for ever if none had the room.
    """
    if not needs.gpus:
        return "STRICT_SPREAD"
    tables = [placement_group_table(group) for group in ours]
    pending = sum(table["state"] == "PENDING" for table in tables)
    used = _used_on_nodes(tables)
    free_now = available_resources_per_node()
    room = 0
    for node in living_nodes():
        labels = node.get("Labels") or {}
        if has_labels(labels, needs.labels):
            id = node["NodeID"]
            room += _groups_within(node["Resources"], used.get(id, Counter()), free_now.get(id, {}), needs)
    # Our groups that wait for a node take their room first.
    if room > pending:
        return "STRICT_PACK"
    return "PACK"


def _used_on_nodes(tables: Collection[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """What the bundles of placement groups, as Ray describes them, hold of each node."""
    used: dict[str, Counter[str]] = {}
    for table in tables:
        for number, node in table["bundles_to_node_id"].items():
            used.setdefault(node, Counter()).update(table["bundles"][number])
    return used


def _groups_within(
    total: Mapping[str, Any], used: Mapping[str, float], free_now: Mapping[str, Any], needs: ReplicaNeeds
) -> int:
    """Whole groups for which a node has room.

    What Ray says of free resources is late by up to a second, but counts other jobs; our own groups are known exactly.
    """
    fits = []
    for kind, each in (("GPU", needs.gpus), ("CPU", needs.cpus)):
        if each:
            free = min(total.get(kind, 0.0) - used.get(kind, 0.0), free_now.get(kind, 0.0))
            fits.append(int(free / (each * needs.nodes) + 1e-9))
    return min(fits)
