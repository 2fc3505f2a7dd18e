"""Ray's own metrics endpoint shows what a runner is doing."""

import dataclasses
import time
import urllib.request
from collections import defaultdict

import pytest
import ray

from cluster.ray_backend import metrics as module
from cluster.ray_backend.metrics import RunnerMetrics
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report


def test_counters_stand_at_the_latest_report_and_gauges_at_its_values(monkeypatch):
    shown = defaultdict(float)

    class Metric:
        def __init__(self, name, description, tag_keys):
            self.name, self.keys = name, tag_keys

        def inc(self, more, tags):
            assert more > 0 and tuple(tags) == self.keys == ("runner",), "as Ray demands"
            shown[self.name, tags["runner"]] += more

        def set(self, value, tags):
            assert tuple(tags) == self.keys
            shown[self.name, *tags.values()] = value

    monkeypatch.setattr(module, "Counter", Metric)
    monkeypatch.setattr(module, "Gauge", Metric)
    metrics = RunnerMetrics("m/0")
    names = [field.name for field in dataclasses.fields(PlayerCounts)]
    for times in (0, 1, 1, 3, 4):
        counts = PlayerCounts(**{name: times * 2 * (place + 1) for place, name in enumerate(names)})
        use = {"r0": ReplicaUse(5, 8.0 * times, 2.0 * times), "r1": ReplicaUse(6, 4.0, 3.0)}
        metrics.show(Report(None, 1, 40 + times, counts=counts, use=use, moves=31 * times, waiting=50 + times))
    counted = {
        **{"requests": counts.turns, "retries": counts.retries, "preempted_requests": counts.preemptions},
        **{"hedged_requests": counts.hedges, "episode_moves": 124, "prompt_tokens": counts.prompt_tokens},
        **{"cached_prompt_tokens": counts.cached_tokens, "completion_tokens": counts.completion_tokens},
        **{"queueing_seconds": counts.queueing_seconds, "replica_seconds": counts.replica_seconds},
        **{"engine_seconds": counts.engine_seconds},
    }
    assert shown == {
        **{(f"raycade_{name}_total", "m/0"): value for name, value in counted.items()},
        **{("raycade_episodes_running", "m/0"): 44, ("raycade_requests_queued", "m/0"): 54},
        **{("raycade_replica_requests", "m/0", "r0"): 5, ("raycade_replica_requests", "m/0", "r1"): 6},
        ("raycade_replica_slot_utilization_ratio", "m/0", "r0"): 0.25,
        ("raycade_replica_slot_utilization_ratio", "m/0", "r1"): 0.75,
    }


@pytest.mark.ray
def test_a_runner_s_report_is_served_by_its_node(monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):  # of the cluster that other tests share
        monkeypatch.delenv(name, raising=False)
    ray.init(address="local", include_dashboard=False, logging_level=40, log_to_driver=False, num_cpus=1)
    try:
        metrics = RunnerMetrics("tiny/runner-0")
        port = next(node["MetricsExportPort"] for node in ray.nodes())
        if port < 0:
            pytest.skip("this Ray serves no metrics: they need the packages of ray[default]")
        end = time.monotonic() + 60
        served = ""
        while "raycade_replica_requests" not in served:
            assert time.monotonic() < end, "never served"
            metrics.show(Report(None, 0, 7, counts=PlayerCounts(turns=5), use={"replica-0.0": ReplicaUse(3)}))
            time.sleep(1)
            try:
                served = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
            except OSError:
                continue
        lines = [line for line in served.splitlines() if line.startswith("ray_raycade_")]
        assert any(
            "episodes_running" in line and 'runner="tiny/runner-0"' in line and line.endswith(" 7.0") for line in lines
        )
        assert any(
            "replica_requests" in line and 'replica="replica-0.0"' in line and line.endswith(" 3.0") for line in lines
        )
        (counter,) = (line for line in lines if line.startswith("ray_raycade_requests_total"))
        assert counter.endswith(" 5.0") and "_total_total" not in served
    finally:
        ray.shutdown()
