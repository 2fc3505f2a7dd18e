"""Driver, runners and replicas in virtual time; router, queue and admission are the real ones.

The driver and each runner are servers that handle one thing at a time, at the costs that were measured on the real ones:
so a simulation shows where they become the bottleneck.
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
    """What every replica runs on; by default a model of about 7B parameters on one large GPU.

    That one writes 100 tokens/s for a request exclusive and 3,900 tokens/s for 64 of them.
    """

    speed: Speed = field(default_factory=lambda: Speed(step_seconds=0.01, step_seconds_per_seq=0.0001))
    batch: int = 64


GPU = Machine()


@dataclass(frozen=True)
class Costs:
    """Seconds of one core; zeros leave the scheduler's decisions exclusive to be looked at."""

    turn: float = 0.0
    """A runner, for each turn: its share of suite, router, actor call and record."""
    report: float = 0.0
    """A runner, for each report to the driver."""
    exchange: float = 0.0
    """The driver, for each exchange with a runner."""
    row: float = 0.0
    """The driver, for each finished episode: bookkeeping and commit."""
    transport: float = 0.0
    """From one process to another; nobody is busy meanwhile."""


FREE = Costs()


@dataclass
class Result:
    """What a simulated run did."""

    makespan: float
    """Virtual seconds until the last episode ended."""
    share_of_ideal: float
    """The least possible work over the capacity of all replicas, by the makespan."""
    finished: array[float]
    """When each episode ended."""
    hit_rate: float
    """Prompt tokens served by prefix caches."""
    moves: int = 0
    runner_busy: float = 0.0
    """Share of the makespan in which the average runner's core was busy."""
    driver_busy: float = 0.0
    exchanges: int = 0

    @property
    def tail(self) -> float:
        """Time from 99 % of the episodes done to the end, over the makespan."""
        return 1 - sorted(self.finished)[math.ceil(0.99 * len(self.finished)) - 1] / self.makespan


@dataclass
class _Core:
    """One thing at a time, in the order in which things came."""

    clock: Clock
    free_at: float = 0.0
    busy: float = 0.0

    def take(self, seconds: float, delay: float = 0.0) -> float:
        """When something that arrives after ``delay`` and takes so long will be done."""
        self.free_at = max(self.clock.now + delay, self.free_at) + seconds
        self.busy += seconds
        return self.free_at


@dataclass
class _Scene:
    """What all actors of a simulation share."""

    workload: Workload
    machine: Machine
    costs: Costs
    numbers: dict[int, int]
    """From the identity of an episode object to its number."""
    clock: Clock = field(default_factory=Clock)
    finished: array[float] = field(default_factory=lambda: array("d"))
    done: int = 0

    def play(self, episode: Episode) -> Play:
        """The episode, about to ask its first turn."""
        number = self.numbers[id(episode)]
        first, end = self.workload.starts[number], self.workload.starts[number + 1]
        return Play(number, episode.affinity, episode.group or number, episode.task, first, first, end)

    def ended(self, play: Play) -> None:
        """The episode is over."""
        assert self.finished[play.number] < 0, f"episode {play.number} ended twice"
        self.finished[play.number] = self.clock.now
        self.done += 1

    @property
    def over(self) -> bool:
        return self.done == len(self.finished)


class VirtualRunner:
    """``cluster.runner.runner.Runner`` in virtual time."""

    def __init__(self, scene: _Scene, policy: Policy, driver: VirtualDriver, hedging: bool) -> None:
        """Replicas are added to ``replicas`` and to the router by whoever builds the scene."""
        self.scene, self.driver, self.hedging = scene, driver, hedging
        self.router = Router(policy)
        self.replicas: dict[str, VirtualReplica] = {}
        self.core = _Core(scene.clock)
        self._ready = EpisodeQueue()
        self.held = 0
        """Episodes given to it and not reported yet: the driver's count."""
        self._silent = 0
        self._finished = 0
        self._asked = False
        """The driver waits for a report."""
        self._report_at = math.inf
        self._out: dict[int, Play] = {}
        """Turns that are with replicas, by episode."""
        self._latency = LatencyTracker()
        self._remaining = 0
        self._tail = False

    def orders(self, episodes: Sequence[Episode], remaining: int) -> None:
        """The driver's side of an exchange has arrived; ``remaining`` episodes it still has."""
        self._ready.put(episodes)
        self._remaining = remaining
        self._admit()
        self._asked = True
        if self._finished:
            self._report_by(self.scene.clock.now)
        else:
            self._report_by(self.scene.clock.now + (TICK if self._room() else REPORT_SECONDS))

    def _admit(self) -> None:
        for episode in self._ready.take(max(0, self._free())):
            self._silent += 1
            self.scene.clock.at(self.core.take(0.0), self._first_turn, self.scene.play(episode))
        if self.hedging and not (self._tail or self._ready or self._remaining):
            self._tail = True
            for play in self._out.values():
                self._watch(play)

    def _free(self) -> int:
        return free_slots(self.router.capacity, self.router.sent + self.router.waiting, self._silent)

    def _room(self) -> int:
        return room(self.router.capacity, self._free(), len(self._ready))

    def _first_turn(self, play: Play) -> None:
        self._silent -= 1
        self._ask(play)

    def _ask(self, play: Play) -> None:
        play.twin, play.second = None, False
        play.ticket = self.router.request(play.affinity, lambda replica: self._send(play, replica))

    def _send(self, play: Play, replica: str) -> None:
        play.sent = self.scene.clock.now
        self._latency.sent(play.sent)
        self._out[play.number] = play
        self.replicas[replica].send(play)
        if self._tail:
            self._watch(play)

    # --- late turns, as ``cluster.runner.model_player`` asks them twice ---

    def _watch(self, play: Play) -> None:
        self.scene.clock.at(self._latency.next_look(play.sent, self.scene.clock.now), self._look, (play, play.turn))

    def _look(self, watched: tuple[Play, int]) -> None:
        play, turn = watched
        if play.turn != turn or self._out.get(play.number) is not play:
            return  # answered meanwhile
        assert play.ticket is not None
        now = self.scene.clock.now
        ticket = self.router.hedge(play.ticket) if self._latency.late_at(play.sent, now) <= now else None
        if ticket is None or ticket.replica is None:
            self._watch(play)
            return
        play.twin = dataclasses.replace(play, ticket=ticket, twin=play, second=True)
        self.replicas[ticket.replica.name].send(play.twin)

    def _give_up(self, late: Play, winner: Play) -> None:
        assert late.ticket is not None and winner.ticket is not None and late.ticket.replica is not None
        self.replicas[late.ticket.replica.name].cancel(late)
        if winner.second:
            self.router.hedge_won(late.ticket, winner.ticket)
        self.router.release(late.ticket)
        late.turn = -1  # its answer may be on its way already

    def answered(self, play: Play) -> None:
        """A replica's reply is on its way here."""
        costs = self.scene.costs
        self.scene.clock.at(self.core.take(costs.turn, costs.transport), self._go_on, play)

    def _go_on(self, play: Play) -> None:
        if play.turn < 0:
            return
        assert play.ticket is not None
        self._out.pop(play.number)
        self._latency.back(play.sent, self.scene.clock.now, answered=True)
        self.router.release(play.ticket)
        if play.twin is not None:
            self._give_up(play.twin, play)
        play.turn += 1
        if play.turn < play.end:
            self._ask(play)
            return
        self.scene.ended(play)
        self._finished += 1
        self._admit()
        if self._asked:
            self._report_by(self.scene.clock.now + TICK)

    # --- reporting ---

    def _report_by(self, when: float) -> None:
        if when < self._report_at:
            self._report_at = when
            self.scene.clock.at(when, self._report, when)

    def _report(self, when: float) -> None:
        if when != self._report_at:
            return
        self._report_at, self._asked = math.inf, False
        costs, finished, self._finished = self.scene.costs, self._finished, 0
        self.core.take(costs.report)
        self.driver.report(self, finished, self._room())


class VirtualDriver:
    """The driver's loop in virtual time: answers reports one after the other with episodes from its queue."""

    def __init__(self, scene: _Scene, queue: EpisodeQueue, replicas: int, fair: bool) -> None:
        """``queue`` holds the plan."""
        self.scene, self.queue = scene, queue
        self.replicas, self.fair = replicas, fair
        self.core = _Core(scene.clock)
        self.exchanges = 0

    def report(self, runner: VirtualRunner, finished: int, more: int) -> None:
        """A runner's report is on its way here."""
        costs = self.scene.costs
        self.exchanges += 1
        when = self.core.take(costs.exchange + costs.row * finished, costs.transport)
        self.scene.clock.at(when, self._answer, (runner, finished, more))

    def _answer(self, report: tuple[VirtualRunner, int, int]) -> None:
        runner, finished, more = report
        runner.held -= finished
        if self.scene.over:
            return
        if self.fair:
            unfinished = len(self.scene.finished) - self.scene.done
            more = min(more, fair_share(unfinished, runner.held, len(runner.replicas), self.replicas))
        episodes = self.queue.take(more)
        runner.held += len(episodes)
        runner.orders(episodes, len(self.queue))


class _Shard:
    """A peer without a scheduler: keeps a number of episodes going on one replica, from its own queue."""

    def __init__(self, scene: _Scene, queue: deque[Episode], alive: int, slower: float = 1.0) -> None:
        self.scene, self.queue, self.alive = scene, queue, alive
        self.replica = _replica(scene, self._answered, slower)

    def begin(self) -> None:
        """Start as many episodes as may be alive."""
        for _ in range(min(self.alive, len(self.queue))):
            self._next()

    def _next(self) -> None:
        self.replica.send(self.scene.play(self.queue.popleft()))

    def _answered(self, play: Play) -> None:
        play.turn += 1
        if play.turn < play.end:
            self.replica.send(play)
            return
        self.scene.ended(play)
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
        workload: What to play.
        replicas: Their number.
        policy: The routers'.
        per_runner: Replicas in one runner's care.
        costs: What scheduling costs.
        fair: Whether runners are held to their share of the episodes, or take what they have room for.
        hedging: Whether late turns of the tail are asked a second time.
        slower: The first replica takes so many times longer for everything.
        machine: What the replicas run on.
    """
    scene = _scene(workload, machine, costs)
    driver = VirtualDriver(scene, EpisodeQueue(workload.episodes), replicas, fair)
    runners = [VirtualRunner(scene, policy, driver, hedging) for _ in range(math.ceil(replicas / per_runner))]
    machines = []
    for number in range(replicas):
        runner, name = runners[number % len(runners)], f"replica-{number}"
        machines.append(_replica(scene, runner.answered, 1.0 if number else slower))
        runner.replicas[name] = machines[-1]
        runner.router.add(name, machine.batch)
    for runner in runners:
        runner.orders((), len(driver.queue))
    scene.clock.run()
    result = _result(scene, machines)
    result.moves = sum(runner.router.moves for runner in runners)
    result.runner_busy = sum(runner.core.busy for runner in runners) / len(runners) / result.makespan
    result.driver_busy = driver.core.busy / result.makespan
    result.exchanges = driver.exchanges
    return result


def play_static_shards(workload: Workload, replicas: int, slower: float = 1.0) -> Result:
    """The plan dealt out like cards before the start; each replica keeps its batch full for as long as its hand lasts."""
    scene = _scene(workload, GPU, FREE)
    hands = [deque(workload.episodes[number::replicas]) for number in range(replicas)]
    alive = math.ceil(GPU.batch * OVERCOMMIT)
    return _play_shards(scene, [_Shard(scene, hand, alive, 1.0 if n else slower) for n, hand in enumerate(hands)])


def play_one_at_a_time(workload: Workload, replicas: int) -> Result:
    """Each replica plays one episode after the other, all from one queue, the longest first."""
    scene = _scene(workload, GPU, FREE)
    queue = deque(longest_first(workload.episodes))
    return _play_shards(scene, [_Shard(scene, queue, 1) for _ in range(replicas)])


def _play_shards(scene: _Scene, shards: list[_Shard]) -> Result:
    for shard in shards:
        shard.begin()
    scene.clock.run()
    return _result(scene, [shard.replica for shard in shards])


def _replica(scene: _Scene, answered: Callable[[Play], None], slower: float = 1.0) -> VirtualReplica:
    usual = scene.machine.speed
    speed = Speed(
        usual.step_seconds * slower, usual.step_seconds_per_seq * slower, usual.prefill_tokens_per_second / slower
    )
    return VirtualReplica(scene.clock, scene.workload, speed, scene.machine.batch, answered)


def _scene(workload: Workload, machine: Machine, costs: Costs) -> _Scene:
    numbers = {id(episode): number for number, episode in enumerate(workload.episodes)}
    return _Scene(workload, machine, costs, numbers, finished=array("d", [-1.0]) * len(workload.episodes))


def _result(scene: _Scene, machines: Sequence[VirtualReplica]) -> Result:
    assert min(scene.finished) >= 0, "an episode never ended"
    makespan = max(scene.finished)
    ideal = scene.workload.ideal_work(scene.machine.speed, scene.machine.batch) / len(machines)
    return Result(
        makespan=makespan,
        share_of_ideal=ideal / makespan,
        finished=scene.finished,
        hit_rate=sum(each.cached_tokens for each in machines) / sum(each.prompt_tokens for each in machines),
    )
