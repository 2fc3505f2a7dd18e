"""Ray's own metrics endpoint shows what a runner is doing."""

import time
import urllib.request

import pytest
import ray

from cluster.ray_backend.metrics import RunnerMetrics
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report

pytestmark = pytest.mark.ray


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
