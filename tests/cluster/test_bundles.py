"""On how many nodes of a real Ray cluster the GPUs of one replica are."""

import time

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

from cluster.config.model import ReplicaNeeds
from cluster.ray_backend import bundles as module
from cluster.ray_backend.bundles import bundles_of, make_group, strategy_of


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"gpus": 2, "cpus": 6, "nodes": 3}, [{"GPU": 1.0, "CPU": 3.0}] * 6),
        ({"gpus": 2, "cpus": 0, "nodes": 2}, [{"GPU": 1.0}] * 4),
        ({"gpus": 0, "cpus": 5, "nodes": 3}, [{"CPU": 5}] * 3),
    ],
)
def test_a_bundle_has_one_gpu_and_its_part_of_the_cpus(needs, expected):
    assert bundles_of(ReplicaNeeds(**needs)) == expected


@pytest.mark.parametrize(
    ("change", "strategy"),
    [
        ({}, "STRICT_PACK"),
        ({"total": {"GPU": 7.0}}, "PACK"),
        ({"total": {"CPU": 11.0}}, "PACK"),
        ({"free": {"GPU": 7.0}}, "PACK"),  # another job's
        ({"free": {}}, "PACK"),
        ({"labels": {"type": "A100"}}, "PACK"),
        ({"ours": "CREATED"}, "PACK"),  # Ray does not know yet that they hold something there
        ({"ours": "CREATED", "total": {"GPU": 9.0, "CPU": 14.0}, "free": {"GPU": 9.0, "CPU": 14.0}}, "STRICT_PACK"),
        ({"ours": "PENDING"}, "PACK"),
        ({"ours": "PENDING", "total": {"GPU": 16.0, "CPU": 24.0}, "free": {"GPU": 16.0, "CPU": 24.0}}, "STRICT_PACK"),
        ({"cpus": 0, "total": {"CPU": 0.0}}, "STRICT_PACK"),
        ({"gpus": 0}, "STRICT_SPREAD"),
    ],
)
def test_a_group_is_asked_to_be_on_one_node_where_one_has_room_for_it_and_for_those_that_wait(
    monkeypatch, change, strategy
):
    plenty = {"GPU": 8.0, "CPU": 12.0}
    nodes = [
        {"NodeID": "small", "Resources": {"GPU": 7.0, "CPU": 64.0}, "Labels": {"type": "H100"}},
        {
            "NodeID": "large",
            "Resources": plenty | change.get("total", {}),
            "Labels": change.get("labels", {"type": "H100"}),
        },
    ]
    free = {"small": {"GPU": 7.0, "CPU": 64.0}, "large": change.get("free", plenty | change.get("total", {}))}
    waits = change.get("ours") == "PENDING"
    held = {"bundles": {0: {"GPU": 1.0, "CPU": 1.0}, 1: {"CPU": 1.0}}, "state": change.get("ours")}
    table = {**held, "bundles_to_node_id": {} if waits else {0: "large", 1: "large"}}
    monkeypatch.setattr(module, "living_nodes", lambda: nodes)
    monkeypatch.setattr(module, "available_resources_per_node", lambda: free)
    monkeypatch.setattr(module, "placement_group_table", lambda group: table)
    needs = ReplicaNeeds(
        **{"gpus": 4, "cpus": 6, "nodes": 2, "labels": {"type": "H100"}}
        | {name: change[name] for name in ("gpus", "cpus") if name in change}
    )
    assert strategy_of(needs, ["ours"] if "ours" in change else []) == strategy


@pytest.fixture(scope="module")
def nodes():
    """Three nodes with 8, 8 and 4 GPUs, all of them pretended; the first one has many CPUs."""
    patch = pytest.MonkeyPatch()
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):  # of the Ray that other tests share
        patch.delenv(name, raising=False)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 64, "num_gpus": 8})
    try:
        cluster.add_node(num_cpus=8, num_gpus=8)
        cluster.add_node(num_cpus=8, num_gpus=4)
        ray.init(address=cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
        patch.undo()


def remove(group, free):
    """Remove a group, and wait until Ray knows that so many GPUs are free."""
    remove_placement_group(group)
    end = time.monotonic() + 20
    while ray.available_resources().get("GPU") != free:
        assert time.monotonic() < end
        time.sleep(0.1)


def held(group):
    """How many bundles each node has of a group, most first."""
    assert group.wait(20), "the group waits for ever"
    places = list(placement_group_table(group)["bundles_to_node_id"].values())
    return sorted(map(places.count, set(places)), reverse=True)


@pytest.mark.ray
def test_a_group_is_on_one_node_where_one_can_hold_it_and_no_group_waits_for_ever(nodes):
    needs = ReplicaNeeds(gpus=4, cpus=4, nodes=2)
    someone_else_s = placement_group([{"GPU": 1.0, "CPU": 20.0}])  # only the first node has so many CPUs
    assert held(someone_else_s) == [1]
    alone = placement_group(bundles_of(needs), strategy="PACK")
    assert held(alone) == [7, 1], "Ray itself begins on the node with most CPUs; else this test shows nothing"
    remove(alone, free=19)
    whole, _ = make_group(needs, [])
    assert held(whole) == [8]
    remove(someone_else_s, free=12)

    # At once, before Ray has placed any of them: two large nodes, one of which is taken.
    needs = ReplicaNeeds(gpus=4, cpus=2, nodes=2)
    second, _ = make_group(needs, [whole])
    third, _ = make_group(ReplicaNeeds(gpus=2, cpus=2, nodes=2), [whole, second])
    assert held(second) == [8] and held(third) == [4]
    remove(third, free=4)
    remove(second, free=12)
    remove(whole, free=20)


@pytest.mark.ray
def test_where_no_node_can_hold_it_a_group_is_spread(nodes):
    group, _ = make_group(ReplicaNeeds(gpus=6, cpus=6, nodes=2), [])
    assert len(held(group)) > 1
    remove_placement_group(group)
