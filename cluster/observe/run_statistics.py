"""Running totals of a run, for the live display and the tracker. The ledger is the source of truth."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cluster.runner.episode_queue import expected_work
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report
from evals.ledger.run_data import count_rows
from evals.stopping.outcomes import StopState
from evals.summary.failures import Causes
from evals.types import Episode

WINDOW = 15.0
"""Seconds over which rates are averaged."""


@dataclass
class PlayerStatistics:
    """One player's episodes."""

    planned: int = 0
    done: int = 0
    failed: int = 0
    successes: int = 0

    @property
    def finished(self) -> int:
        """Done or failed."""
        return self.done + self.failed


@dataclass
class RunStatistics:
    """Counts planned episodes, those in the ledger at the start, and those finished since."""

    players: dict[str, PlayerStatistics] = field(default_factory=dict)
    errors: Causes = field(default_factory=Causes)
    """Causes of failed episodes."""
    stopping: StopState | None = None
    """What the stopping rule said at its latest look; None without a rule."""
    cut_off: int = 0
    """Replies that ended before the model was done."""
    replicas_wanted: int = 0
    replicas_up: int = 0
    replicas_lost: int = 0
    engines: dict[str, Mapping[str, str | float]] = field(default_factory=dict)
    """What the engine of each replica says of itself (``Engine.facts``), of the latest one where it was replaced."""
    playing_since: float | None = None
    """When the first replica was ready."""
    playing_until: float | None = None
    """When the last episode of the model finished."""
    gpus: float = 0.0
    """Of one replica, over all its nodes."""
    gpu_hour_price: float = 0.0
    """Price of one GPU for an hour; 0 for unknown."""
    spent_before: float = 0.0
    """Money that earlier sessions spent."""
    _spent: dict[str, float] = field(default_factory=dict)
    """Spending reported by each replica, failed tries included."""
    _counted_before: dict[str, float] = field(default_factory=dict)
    """By replica: what earlier sessions counted for requests that this one has settled."""
    _reports: dict[str, Report] = field(default_factory=dict)
    counts: PlayerCounts = field(default_factory=PlayerCounts)
    """Sum over all runners, dead ones included."""
    _past_use: dict[str, ReplicaUse] = field(default_factory=dict)
    _past_moves: int = 0
    _work: dict[str, float] = field(default_factory=dict)
    _work_left: float = 0.0
    _work_done: float = 0.0
    _started: float = field(default_factory=time.monotonic)
    _history: deque[tuple[float, int, int]] = field(default_factory=deque)

    def plan(self, episodes: Sequence[Episode], left: Sequence[Episode] | None = None) -> None:
        """Count planned episodes.

        Args:
            episodes: All of them.
            left: Those that are still to be played; all if not given.
        """
        for player, count in Counter(episode.player for episode in episodes).items():
            self.players.setdefault(player, PlayerStatistics()).planned += count
        to_play = episodes if left is None else left
        self._work |= {episode.id: expected_work(episode) for episode in to_play}
        self._work_left = sum(self._work.values())

    def resume(self, ledger: pa.Table) -> None:
        """Count the episodes that are in the ledger at the start."""
        self._count(ledger)
        if self._work:
            self._work_left -= sum(self._work.pop(episode_id, 0.0) for episode_id in ledger["episode_id"].to_pylist())

    def finished(self, rows: pa.Table, by_model: bool) -> None:
        """Count newly finished rows of the model or of a built-in player."""
        self._count(rows)
        if by_model and self.playing_since is not None:
            self.playing_until = time.monotonic()
        for episode_id in rows["episode_id"].to_pylist():
            work = self._work.pop(episode_id, 0.0)
            self._work_left -= work
            self._work_done += work

    def report(self, runner: str, report: Report) -> None:
        """Add a runner's latest report."""
        before = self._reports.get(runner)
        add(self.counts, report.counts)
        if before is not None:
            add(self.counts, before.counts, sign=-1)
        self._reports[runner] = dataclasses.replace(report, finished=None, counts=dataclasses.replace(report.counts))
        now, counts = time.monotonic(), self.counts
        # For the rates shown: totals at each report of the last seconds.
        self._history.append((now, counts.turns, counts.completion_tokens + counts.prompt_tokens))
        while self._history[0][0] < now - WINDOW:
            self._history.popleft()

    def replica_up(self) -> None:
        """A replica is ready."""
        self.replicas_up += 1
        if self.playing_since is None:
            self.playing_since = time.monotonic()
            self._work_done = 0.0  # what built-in players did meanwhile says nothing of the model's speed

    def replica_spent(self, replica: str, spent: float, counted_before: float = 0.0) -> None:
        """Record a replica's spending, and what earlier sessions counted of it; dead replicas stay counted."""
        total = self._spent.get(replica, 0.0) + self._counted_before.get(replica, 0.0)
        if spent + counted_before >= total:
            self._spent[replica] = spent
            self._counted_before[replica] = counted_before

    @property
    def spent(self) -> float:
        """Money spent by all sessions: as reported by replicas or as the sum of reply costs, whichever is more.

        A killed replica may have spent more than it last reported.
        """
        replies = self.counts.cost - sum(self._counted_before.values())
        # An engine takes back what was counted too high before it; sums in another order differ in their last digits.
        return max(0.0, self.spent_before + max(sum(self._spent.values()), replies))

    @property
    def gpu_hours(self) -> float:
        """GPUs that this session has reserved, times hours."""
        return self.replicas_wanted * self.gpus * self.seconds / 3600

    @property
    def gpu_cost(self) -> float:
        """What they cost; 0 without a price."""
        return self.gpu_hours * self.gpu_hour_price

    @property
    def playing_seconds(self) -> float:
        """From the first ready replica to the last finished episode."""
        if not self.playing_until:
            return 0.0
        return self.playing_until - (self.playing_since or 0.0)

    def runner_ended(self, runner: str) -> None:
        """A runner is gone; its counts are kept."""
        report = self._reports.pop(runner, None)
        if report is not None:
            for name, use in report.use.items():
                add(self._past_use.setdefault(name, ReplicaUse()), dataclasses.replace(use, requests=0))
            self._past_moves += report.moves

    def _count(self, rows: pa.Table) -> None:
        for (player, status, success), count in count_rows(rows, ("player", "status", "success")).items():
            stats = self.players.setdefault(player, PlayerStatistics())
            stats.done += count * (status == "done")
            stats.failed += count * (status == "failed")
            stats.successes += count * bool(success)
        self.cut_off += pc.sum(rows["cut_off"], min_count=0).as_py()
        for error in rows.filter(pc.equal(rows["status"], "failed"))["error"].to_pylist():
            self.errors.add(error)

    # --- for display ---

    @property
    def planned(self) -> int:
        """Episodes of all players."""
        return sum(stats.planned for stats in self.players.values())

    @property
    def done(self) -> int:
        """Episodes played to their end."""
        return sum(stats.done for stats in self.players.values())

    @property
    def failed(self) -> int:
        """Episodes that ended with an error."""
        return sum(stats.failed for stats in self.players.values())

    @property
    def use(self) -> Mapping[str, ReplicaUse]:
        """Slot use of each replica, dead ones included."""
        use: defaultdict[str, ReplicaUse] = defaultdict(ReplicaUse)
        for each in (self._past_use, *(report.use for report in self._reports.values())):
            for name, part in each.items():
                add(use[name], part)
        return use

    @property
    def waiting(self) -> int:
        """Requests queued at the routers."""
        return sum(report.waiting for report in self._reports.values())

    @property
    def alive(self) -> int:
        """Episodes being played."""
        return sum(report.running for report in self._reports.values())

    @property
    def moves(self) -> int:
        """How often an episode moved to another replica."""
        return self._past_moves + sum(report.moves for report in self._reports.values())

    @property
    def replicas_busy(self) -> int:
        """Replicas with at least one request."""
        return sum(each.requests > 0 for each in self.use.values())

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def rates(self) -> tuple[float, float]:
        """Requests and tokens per second over the last ``WINDOW`` seconds."""
        if len(self._history) < 2:
            return 0.0, 0.0
        (then, turns, tokens), (now, turns_now, tokens_now) = self._history[0], self._history[-1]
        elapsed = max(now - then, 1e-3)
        return (turns_now - turns) / elapsed, (tokens_now - tokens) / elapsed

    def seconds_left(self) -> float | None:
        """Estimated time to completion, from the work done so far; None before any is done, and while the model loads."""
        loading = self.replicas_wanted > 0 and self.playing_since is None
        if loading or self._work_done <= 0:
            return None
        since = self._started if self.playing_since is None else self.playing_since
        return max(self._work_left, 0.0) / self._work_done * (time.monotonic() - since)

    def to_json(self) -> dict[str, float]:
        """Flat metrics for a tracker."""
        requests, tokens = self.rates()
        counts, use = self.counts, self.use
        flat: dict[str, float] = {
            "episodes/done": self.done,
            "episodes/failed": self.failed,
            "episodes/planned": self.planned,
            "requests_per_second": requests,
            "tokens_per_second": tokens,
            "replicas/up": self.replicas_up,
            "replicas/busy": self.replicas_busy,
            "replicas/lost": self.replicas_lost,
            "episodes/alive": self.alive,
            "episodes/queued": self.planned - self.done - self.failed - self.alive,
            "episodes/moved": self.moves,
            "requests/queued": self.waiting,
            "requests/retries": counts.retries,
            "requests/preempted": counts.preemptions,
            "requests/hedged": counts.hedges,
            "replies/cut_off": self.cut_off,
        }
        if counts.turns:
            flat["tokens/prompt"] = counts.prompt_tokens
            flat["tokens/completion"] = counts.completion_tokens
            flat["tokens/reasoning"] = counts.reasoning_tokens
        if self.spent:
            flat["spent"] = self.spent
        if self.gpus:
            flat["gpu_hours"] = self.gpu_hours
        if self.gpu_cost:
            flat["gpu_cost"] = self.gpu_cost
        if self.stopping is not None:
            flat |= self.stopping.to_numbers()
        for name, stats in self.players.items():
            if stats.finished:
                flat[f"success/{name}"] = stats.successes / stats.finished
        if counts.prompt_tokens:
            flat["prefix_cache_hit_rate"] = counts.cached_tokens / counts.prompt_tokens
        if counts.turns:
            flat["seconds_per_request/queueing"] = counts.queueing_seconds / counts.turns
            flat["seconds_per_request/transport"] = (counts.replica_seconds - counts.engine_seconds) / counts.turns
            flat["seconds_per_request/engine"] = counts.engine_seconds / counts.turns
        slots = sum(each.slot_seconds for each in use.values())
        if slots:
            flat["slots/utilization"] = sum(each.busy_slot_seconds for each in use.values()) / slots
            flat["slots/idle_while_work_was_queued"] = sum(each.idle_slot_seconds for each in use.values()) / slots
        for name, each in use.items():
            if each.slot_seconds:
                flat[f"slot_utilization/{name.partition('.')[0]}"] = each.busy_slot_seconds / each.slot_seconds
        return flat


Counts = TypeVar("Counts", PlayerCounts, ReplicaUse)


def add(total: Counts, part: Counts, sign: int = 1) -> None:
    """Add each number of ``part`` (or subtract it, ``sign=-1``) to the one of the same name."""
    for name, value in vars(part).items():
        setattr(total, name, getattr(total, name) + sign * value)
