"""A runner's state as Ray metrics: every Ray node serves them to Prometheus, and Ray's dashboard shows them."""

from __future__ import annotations

from ray.util.metrics import Gauge

from cluster.runner import Report

STAGES = {
    "router_seconds": "waited for a place",
    "replica_seconds": "were with replicas, transport included",
    "engine_seconds": "were inside engines",
}


class RunnerMetrics:
    """Gauges of one runner, told apart by its ``runner`` tag."""

    def __init__(self, runner: str) -> None:
        """``runner`` is its name in the run."""
        self._gauges: dict[str, Gauge] = {}
        self._runner = runner

    def show(self, report: Report) -> None:
        """Set all gauges from the runner's latest report."""
        counts = report.counts
        self._set("episodes_alive", report.begun, "Episodes being played")
        self._set("turns_waiting", report.waiting, "Turns that wait for a place at a replica")
        self._set("turns_answered", counts.turns, "Turns answered so far")
        self._set("turns_retried", counts.retries, "Turns asked again so far")
        self._set("episodes_moved", report.moves, "Times that an episode changed its replica so far")
        self._set("prompt_tokens", counts.prompt_tokens, "Prompt tokens so far")
        self._set("cached_tokens", counts.cached_tokens, "Prompt tokens that the prefix cache served so far")
        self._set("completion_tokens", counts.completion_tokens, "Completion tokens so far")
        self._set("turns_asked_twice", counts.hedges, "Late turns asked a second time so far")
        for name, what in STAGES.items():
            self._set(name, getattr(counts, name), f"Time that turns {what} so far, summed")
        for replica, use in report.use.items():
            self._set("replica_requests", use.requests, "Requests with a replica", replica=replica)
            filled = use.filled_seconds / max(use.place_seconds, 1e-9)
            self._set("replica_filled_share", filled, "Of a replica's places, over time", replica=replica)

    def _set(self, name: str, value: float, description: str, **tags: str) -> None:
        if name not in self._gauges:
            self._gauges[name] = Gauge(f"raycade_{name}", description, tag_keys=("runner", *tags))
        self._gauges[name].set(value, {"runner": self._runner, **tags})
