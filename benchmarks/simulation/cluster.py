"""Driver, runners and replicas in virtual time, with the real router, queue and admission control.

The driver and each runner are modeled as one core each, which handles events in sequence at costs measured on the real
classes, so a simulation shows when they become the bottleneck.
"""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.simulation.replica import Clock, Play, VirtualReplica
from benchmarks.simulation.workload import Workload
from cluster.engines.simulated import Speed
from cluster.runner.admission import REPLICAS_PER_RUNNER, fair_share, free_slots, room
from cluster.runner.episode_queue import EpisodeQueue, longest_first
from cluster.runner.hedging import LatencyTracker
from cluster.runner.router import OVERCOMMIT, Policy, Router
from cluster.runner.runner import REPORT_SECONDS, TICK
from evals.types import Episode


@dataclass(frozen=True)
class Machine:
    """Hardware of every replica; by default a model of about 7B parameters on one large GPU.

    It generates 100 tokens/s for a single request and 3,900 tokens/s for a batch of 64.
    """

    speed: Speed = field(default_factory=lambda: Speed(step_seconds=0.01, step_seconds_per_seq=0.0001))
    batch: int = 64


GPU = Machine()


@dataclass(frozen=True)
class Costs:
    """CPU seconds of one core; with zeros, only the scheduling decisions are simulated."""

    turn: float = 0.0
    """Runner, per turn: suite, router, actor call and record."""
    report: float = 0.0
    """Runner, per report to the driver."""
    exchange: float = 0.0
    """Driver, per exchange with a runner."""
    row: float = 0.0
    """Driver, per finished episode: bookkeeping and commit."""
    transport: float = 0.0
    """Latency between processes; uses no CPU."""


FREE = Costs()


@dataclass
class Result:
    """Result of a simulated run."""

    makespan: float
    """Virtual seconds until the last episode finished."""
    share_of_ideal: float
    """The minimum work over the capacity of all replicas, divided by the makespan."""
    finished: array[float]
    """Finish time of each episode."""
    hit_rate: float
    """Prefix-cache hit rate."""
    moves: int = 0
    runner_busy: float = 0.0
    """Mean CPU utilization of the runners' cores."""
    driver_busy: float = 0.0
    exchanges: int = 0

    @property
    def tail(self) -> float:
        """Time from 99 % of the episodes done to the end, over the makespan."""
        return 1 - sorted(self.finished)[math.ceil(0.99 * len(self.finished)) - 1] / self.makespan


@dataclass
class _Core:
    """A core that handles events in order of arrival."""

    clock: Clock
    free_at: float = 0.0
    busy: float = 0.0

    def take(self, seconds: float, delay: float = 0.0) -> float:
        """Completion time of an event that arrives after ``delay`` and takes ``seconds``."""
        self.free_at = max(self.clock.now + delay, self.free_at) + seconds
        self.busy += seconds
        return self.free_at


@dataclass
class _Simulation:
    """State that all actors of a simulation share."""

    workload: Workload
    machine: Machine
    costs: Costs
    numbers: dict[int, int]
    """Number of each episode, by the ``id()`` of its object."""
    clock: Clock = field(default_factory=Clock)
    finished: array[float] = field(default_factory=lambda: array("d"))
    done: int = 0

    def play(self, episode: Episode) -> Play:
        """The episode, before its first turn."""
        number = self.numbers[id(episode)]
        first, end = self.workload.starts[number], self.workload.starts[number + 1]
        return Play(number, episode.affinity, episode.group or number, episode.task, first, first, end)

    def finish(self, play: Play) -> None:
        """The episode is finished."""
        assert self.finished[play.number] < 0, f"episode {play.number} finished twice"
        self.finished[play.number] = self.clock.now
        self.done += 1

    @property
    def over(self) -> bool:
        return self.done == len(self.finished)


class VirtualRunner:
    """``cluster.runner.runner.Runner`` in virtual time."""

    def __init__(self, simulation: _Simulation, policy: Policy, driver: VirtualDriver, hedging: bool) -> None:
        """The caller adds replicas to ``replicas`` and to the router."""
        self.simulation, self.driver, self.hedging = simulation, driver, hedging
        self.router = Router(policy)
        self.replicas: dict[str, VirtualReplica] = {}
        self.core = _Core(simulation.clock)
        self._ready = EpisodeQueue(as_they_come=True)
        self.held = 0
        """Episodes assigned to it and not reported yet, as counted by the driver."""
        self._starting = 0
        self._finished = 0
        self._report_due = False
        """The driver is waiting for a report."""
        self._report_at = math.inf
        self._in_flight: dict[int, Play] = {}
        """Requests in flight, by episode."""
        self._latency = LatencyTracker()
        self._remaining = 0
        self._tail = False

    def assign(self, episodes: Sequence[Episode], remaining: int) -> None:
        """An assignment arrives; ``remaining`` episodes are still in the driver's queue."""
        self._ready.put(episodes)
        self._remaining = remaining
        self._admit()
        self._report_due = True
        if self._finished:
            self._report_by(self.simulation.clock.now)
        else:
            self._report_by(self.simulation.clock.now + (TICK if self._room() else REPORT_SECONDS))

    def _admit(self) -> None:
        for episode in self._ready.take(max(0, self._free())):
            self._starting += 1
            self.simulation.clock.at(self.core.take(0.0), self._first_turn, self.simulation.play(episode))
        if self.hedging and not (self._tail or self._ready or self._remaining):
            self._tail = True
            for play in self._in_flight.values():
                self._watch(play)

    def _free(self) -> int:
        return free_slots(self.router.capacity, self.router.sent + self.router.waiting, self._starting)

    def _room(self) -> int:
        return room(self.router.capacity, self._free(), len(self._ready))

    def _first_turn(self, play: Play) -> None:
        self._starting -= 1
        self._ask(play)

    def _ask(self, play: Play) -> None:
        play.counterpart, play.is_hedge = None, False
        play.ticket = self.router.request(play.affinity, lambda replica: self._send(play, replica))

    def _send(self, play: Play, replica: str) -> None:
        play.sent = self.simulation.clock.now
        self._latency.sent(play.sent)
        self._in_flight[play.number] = play
        self.replicas[replica].send(play)
        if self._tail:
            self._watch(play)

    # --- hedging, as in ``cluster.runner.model_player`` ---

    def _watch(self, play: Play) -> None:
        self.simulation.clock.at(
            self._latency.next_check(play.sent, self.simulation.clock.now), self._check_latency, (play, play.turn)
        )

    def _check_latency(self, watched: tuple[Play, int]) -> None:
        play, turn = watched
        if play.turn != turn or self._in_flight.get(play.number) is not play:
            return  # answered in the meantime
        assert play.ticket is not None
        now = self.simulation.clock.now
        ticket = self.router.hedge(play.ticket) if self._latency.late_at(play.sent, now) <= now else None
        if ticket is None or ticket.replica is None:
            self._watch(play)
            return
        play.counterpart = dataclasses.replace(play, ticket=ticket, counterpart=play, is_hedge=True)
        self.replicas[ticket.replica.name].send(play.counterpart)

    def _cancel(self, late: Play, winner: Play) -> None:
        assert late.ticket is not None and winner.ticket is not None and late.ticket.replica is not None
        self.replicas[late.ticket.replica.name].cancel(late)
        if winner.is_hedge:
            self.router.hedge_won(late.ticket, winner.ticket)
        self.router.release(late.ticket)
        late.turn = -1  # its reply may already be in flight

    def answered(self, play: Play) -> None:
        """A replica has sent a reply."""
        costs = self.simulation.costs
        self.simulation.clock.at(self.core.take(costs.turn, costs.transport), self._handle_reply, play)

    def _handle_reply(self, play: Play) -> None:
        if play.turn < 0:
            return
        assert play.ticket is not None
        self._in_flight.pop(play.number)
        self._latency.returned(play.sent, self.simulation.clock.now, answered=True)
        self.router.release(play.ticket)
        if play.counterpart is not None:
            self._cancel(play.counterpart, play)
        play.turn += 1
        if play.turn < play.end:
            self._ask(play)
            return
        self.simulation.finish(play)
        self._finished += 1
        self._admit()
        if self._report_due:
            self._report_by(self.simulation.clock.now + TICK)

    # --- reporting ---

    def _report_by(self, when: float) -> None:
        if when < self._report_at:
            self._report_at = when
            self.simulation.clock.at(when, self._report, when)

    def _report(self, when: float) -> None:
        if when != self._report_at:
            return
        self._report_at, self._report_due = math.inf, False
        costs, finished, self._finished = self.simulation.costs, self._finished, 0
        self.core.take(costs.report)
        self.driver.report(self, finished, self._room())


class VirtualDriver:
    """The driver's loop in virtual time: answers reports in order, with episodes from its queue."""

    def __init__(self, simulation: _Simulation, queue: EpisodeQueue, replicas: int, fair: bool) -> None:
        """``queue`` holds the plan."""
        self.simulation, self.queue = simulation, queue
        self.replicas, self.fair = replicas, fair
        self.core = _Core(simulation.clock)
        self.exchanges = 0

    def report(self, runner: VirtualRunner, finished: int, more: int) -> None:
        """A runner has sent a report."""
        costs = self.simulation.costs
        self.exchanges += 1
        when = self.core.take(costs.exchange + costs.row * finished, costs.transport)
        self.simulation.clock.at(when, self._answer, (runner, finished, more))

    def _answer(self, report: tuple[VirtualRunner, int, int]) -> None:
        runner, finished, more = report
        runner.held -= finished
        if self.simulation.over:
            return
        if self.fair:
            unfinished = len(self.simulation.finished) - self.simulation.done
            more = min(more, fair_share(unfinished, runner.held, len(runner.replicas), self.replicas))
        episodes = self.queue.take(more)
        runner.held += len(episodes)
        runner.assign(episodes, len(self.queue))


class _Shard:
    """A peer without a scheduler: plays ``alive`` episodes at once on one replica, from a queue."""

    def __init__(self, simulation: _Simulation, queue: deque[Episode], alive: int, slower: float = 1.0) -> None:
        self.simulation, self.queue, self.alive = simulation, queue, alive
        self.replica = _replica(simulation, self._answered, slower)

    def begin(self) -> None:
        """Start the first ``alive`` episodes."""
        for _ in range(min(self.alive, len(self.queue))):
            self._next()

    def _next(self) -> None:
        self.replica.send(self.simulation.play(self.queue.popleft()))

    def _answered(self, play: Play) -> None:
        play.turn += 1
        if play.turn < play.end:
            self.replica.send(play)
            return
        self.simulation.finish(play)
        if self.queue:
            self._next()


def play(
    workload: Workload,
    replicas: int,
    policy: Policy = "sticky",
    *,
    per_runner: int = REPLICAS_PER_RUNNER,
    costs: Costs = FREE,
    fair: bool = True,
    hedging: bool = True,
    slower: float = 1.0,
    machine: Machine = GPU,
) -> Result:
    """Play the workload as raycade does.

    Args:
        workload: Episodes to play.
        replicas: Number of replicas.
        policy: Routing policy.
        per_runner: Replicas per runner.
        costs: Costs of scheduling.
        fair: Whether runners are limited to their fair share of the episodes.
        hedging: Whether late requests in the tail are hedged.
        slower: Slowdown of the first replica.
        machine: Hardware of the replicas.
    """
    simulation = _make_simulation(workload, machine, costs)
    driver = VirtualDriver(simulation, EpisodeQueue(workload.episodes), replicas, fair)
    runners = [VirtualRunner(simulation, policy, driver, hedging) for _ in range(math.ceil(replicas / per_runner))]
    machines = []
    for number in range(replicas):
        runner, name = runners[number % len(runners)], f"replica-{number}"
        machines.append(_replica(simulation, runner.answered, 1.0 if number else slower))
        runner.replicas[name] = machines[-1]
        runner.router.add(name, machine.batch)
    for runner in runners:
        runner.assign((), len(driver.queue))
    simulation.clock.run()
    result = _result(simulation, machines)
    result.moves = sum(runner.router.moves for runner in runners)
    result.runner_busy = sum(runner.core.busy for runner in runners) / len(runners) / result.makespan
    result.driver_busy = driver.core.busy / result.makespan
    result.exchanges = driver.exchanges
    return result


def play_static_shards(workload: Workload, replicas: int, slower: float = 1.0) -> Result:
    """Assigns the plan round-robin before the start; each replica keeps its batch full until its shard is done."""
    simulation = _make_simulation(workload, GPU, FREE)
    shards = [deque(workload.episodes[number::replicas]) for number in range(replicas)]
    alive = math.ceil(GPU.batch * OVERCOMMIT)
    return _play_shards(
        simulation, [_Shard(simulation, queue, alive, 1.0 if n else slower) for n, queue in enumerate(shards)]
    )


def play_one_at_a_time(workload: Workload, replicas: int) -> Result:
    """Each replica plays one episode at a time from a shared queue, longest first."""
    simulation = _make_simulation(workload, GPU, FREE)
    queue = deque(longest_first(workload.episodes))
    return _play_shards(simulation, [_Shard(simulation, queue, 1) for _ in range(replicas)])


def _play_shards(simulation: _Simulation, shards: list[_Shard]) -> Result:
    for shard in shards:
        shard.begin()
    simulation.clock.run()
    return _result(simulation, [shard.replica for shard in shards])


def _replica(simulation: _Simulation, answered: Callable[[Play], None], slower: float = 1.0) -> VirtualReplica:
    usual = simulation.machine.speed
    speed = Speed(
        usual.step_seconds * slower, usual.step_seconds_per_seq * slower, usual.prefill_tokens_per_second / slower
    )
    return VirtualReplica(simulation.clock, simulation.workload, speed, simulation.machine.batch, answered)


def _make_simulation(workload: Workload, machine: Machine, costs: Costs) -> _Simulation:
    numbers = {id(episode): number for number, episode in enumerate(workload.episodes)}
    return _Simulation(workload, machine, costs, numbers, finished=array("d", [-1.0]) * len(workload.episodes))


def _result(simulation: _Simulation, machines: Sequence[VirtualReplica]) -> Result:
    assert min(simulation.finished) >= 0, "an episode never finished"
    makespan = max(simulation.finished)
    ideal = simulation.workload.ideal_work(simulation.machine.speed, simulation.machine.batch) / len(machines)
    return Result(
        makespan=makespan,
        share_of_ideal=ideal / makespan,
        finished=simulation.finished,
        hit_rate=sum(each.cached_tokens for each in machines) / sum(each.prompt_tokens for each in machines),
    )
