"""How many replicas fit which nodes."""

import itertools

import pytest

from cluster.config.model import ModelSettings, ReplicaNeeds
from cluster.config.settings import ClusterSettings
from cluster.engines.base import Sampling
from cluster.errors import UserError
from cluster.ray_backend import capacity


@pytest.fixture
def nodes(monkeypatch):
    def are(*gpus: float) -> None:
        found = [
            {"Resources": {"GPU": n, "CPU": 64.0}, "NodeManagerAddress": f"n{i}", "Alive": i < len(gpus)}
            for i, n in enumerate((*gpus, 8.0))
        ]
        monkeypatch.setattr(capacity.ray, "nodes", lambda: found)

    return are


def model(**needs) -> ModelSettings:
    return ModelSettings("m", {}, Sampling(), ReplicaNeeds(**needs))


@pytest.mark.parametrize(
    ("gpus", "needs", "fit"),
    [
        ((8, 8), {"gpus": 4, "nodes": 2}, 2),
        ((8, 8), {"gpus": 8, "nodes": 2}, 1),
        ((8, 4, 4), {"gpus": 4, "nodes": 2}, 2),
        ((8, 4), {"gpus": 4, "nodes": 2}, 1),
        ((8,), {"gpus": 4, "nodes": 2}, 0),
        ((16, 4, 4), {"gpus": 4, "nodes": 3}, 1),
        ((4, 4, 4), {"gpus": 4, "nodes": 2}, 1),
        ((8, 5, 0), {"gpus": 2}, 6),
        ((0.7,), {"gpus": 0.1}, 7),  # .7 / .1 is a little less
        ((), {"gpus": 1}, 0),
        ((1, 1, 1), {"gpus": 0, "cpus": 0}, 3),
    ],
)
def test_the_parts_of_a_replica_fit_on_different_nodes(nodes, gpus, needs, fit):
    nodes(*gpus)
    assert capacity.replicas_that_fit(model(**needs)) == fit


def test_the_count_equals_greedy_placement_on_the_emptiest_nodes(nodes):
    for gpus in itertools.product(range(5), repeat=3):
        for parts in (1, 2, 3):
            nodes(*gpus)
            free, dealt = list(gpus), 0
            while sum(room > 0 for room in free) >= parts:
                for number in sorted(range(3), key=lambda n: -free[n])[:parts]:
                    free[number] -= 1
                dealt += 1
            assert capacity.replicas_that_fit(model(gpus=1, nodes=parts)) == dealt, (gpus, parts)


def test_an_error_about_resources_shows_those_of_each_node(nodes):
    nodes(8, 8)
    wide = model(gpus=4, cpus=4, nodes=2)
    capacity.check_fit(ClusterSettings(replicas=2), wide)
    with pytest.raises(
        UserError, match=r"on each of 2 nodes; 2 of 3 fit this cluster:\n  n0: 8 GPU, 64 CPU .room for 2"
    ):
        capacity.check_fit(ClusterSettings(replicas=3), wide)


@pytest.mark.parametrize(
    ("wanted", "has"),
    [
        ({}, True),
        ({"type": "H100"}, True),
        ({"type": "A100"}, False),
        ({"type": "!A100"}, True),
        ({"type": "in(A100, H100)"}, True),
        ({"type": "!in(A100, H100)"}, False),
        ({"type": "H100", "zone": "a"}, False),
        ({"zone": "!a"}, True),
    ],
)
def test_labels_of_a_node_are_compared_as_ray_does(wanted, has):
    assert capacity.has_labels({"type": "H100"}, wanted) == has


def test_a_replica_with_labels_fits_on_nodes_that_have_them(monkeypatch):
    alike = {"NodeManagerAddress": "x", "Resources": {"GPU": 2.0, "CPU": 8.0}}
    nodes = [{**alike, "Labels": {"type": "H100"}}, {**alike, "Labels": {"type": "A100"}}, alike]
    monkeypatch.setattr(capacity, "living_nodes", lambda: nodes)
    labeled = model(gpus=1, labels={"type": "H100"})
    assert capacity.replicas_that_fit(labeled) == 2
    with pytest.raises(UserError, match=r"with the labels.*H100"):
        capacity.check_fit(ClusterSettings(replicas=3), labeled)


@pytest.mark.parametrize(("replicas", "runners"), [(1, 1), (8, 1), (9, 2), (17, 3), ("fit", 2)])
def test_a_runner_is_started_for_every_eight_replicas(nodes, replicas, runners):
    nodes(9)
    assert capacity.count_runners(ClusterSettings(replicas=replicas), model(gpus=1)) == runners
    assert capacity.count_runners(ClusterSettings(replicas=replicas, runners=5), model(gpus=1)) == 5
