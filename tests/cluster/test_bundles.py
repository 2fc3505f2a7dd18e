"""On how many nodes of a real Ray cluster the GPUs of one replica are."""

import time

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

from cluster.config.model import ReplicaNeeds
from cluster.ray_backend.bundles import bundles_of, make_group

pytestmark = pytest.mark.ray


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


def test_where_no_node_can_hold_it_a_group_is_spread(nodes):
    group, _ = make_group(ReplicaNeeds(gpus=6, cpus=6, nodes=2), [])
    assert len(held(group)) > 1
    remove_placement_group(group)
