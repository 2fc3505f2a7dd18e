"""A runner's state as Ray metrics: every Ray node serves them to Prometheus, and Ray's dashboard shows them.

Names follow Prometheus's conventions: counters end in ``_total``, and names contain the unit.
"""

from __future__ import annotations

from ray.util.metrics import Counter, Gauge

from cluster.runner.messages import Report


class RunnerMetrics:
    """Metrics of one runner, with its name as the ``runner`` label."""

    def __init__(self, runner: str) -> None:
        """``runner`` is its name in the run."""
        self._runner = runner
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        self._counted: dict[str, float] = {}

    def show(self, report: Report) -> None:
        """Publish the runner's latest report."""
        counts = report.counts
        self._gauge("episodes_running", report.running, "Episodes being played")
        self._gauge("requests_queued", report.waiting, "Requests queued at the router")
        self._count("requests_total", counts.turns, "Requests answered")
        self._count("retries_total", counts.retries, "Requests sent again after an engine failed")
        self._count("preempted_requests_total", counts.preemptions, "Requests put back by engines with a full cache")
        self._count("hedged_requests_total", counts.hedges, "Late requests sent to a second replica")
        self._count("episode_moves_total", report.moves, "Episodes that moved to another replica")
        self._count("prompt_tokens_total", counts.prompt_tokens, "Prompt tokens")
        self._count("cached_prompt_tokens_total", counts.cached_tokens, "Prompt tokens served by the prefix cache")
        self._count("completion_tokens_total", counts.completion_tokens, "Completion tokens")
        self._count("queueing_seconds_total", counts.queueing_seconds, "Time that requests queued at the router")
        self._count("replica_seconds_total", counts.replica_seconds, "Time of requests at replicas, transport included")
        self._count("engine_seconds_total", counts.engine_seconds, "Time of requests inside engines")
        for replica, use in report.use.items():
            busy = use.busy_slot_seconds / max(use.slot_seconds, 1e-9)
            self._gauge("replica_requests", use.requests, "Requests at a replica", replica=replica)
            self._gauge("replica_slot_utilization_ratio", busy, "Share of batch slots busy, over time", replica=replica)

    def _gauge(self, name: str, value: float, description: str, **tags: str) -> None:
        if name not in self._gauges:
            self._gauges[name] = Gauge(f"raycade_{name}", description, tag_keys=("runner", *tags))
        self._gauges[name].set(value, {"runner": self._runner, **tags})

    def _count(self, name: str, total: float, description: str) -> None:
        """Raise a counter to ``total``; Ray's counters take increments above 0 only."""
        if name not in self._counters:
            self._counters[name] = Counter(f"raycade_{name}", description, tag_keys=("runner",))
        if (more := total - self._counted.get(name, 0.0)) > 0:
            self._counters[name].inc(more, {"runner": self._runner})
            self._counted[name] = total
