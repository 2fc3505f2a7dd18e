"""What a runner reports of the episodes that it plays, in virtual time, as on record in ``tests/golden``."""

import asyncio
import dataclasses
from types import SimpleNamespace

from cluster.engines.base import EngineClosedError, EngineDiedError, EngineError, EngineWaitsError
from cluster.runner import model_player, runner
from cluster.runner.messages import Assignment, NewReplica, PlayerCounts
from cluster.runner.model_player import ModelPlayer
from cluster.runner.router import Router
from evals import players
from evals.types import PromptTooLong, Reply
from tests import toy
from tests.clock import Clock
from tests.golden import plain
from tests.said import Said
from tests.toy import ToySuite

NUMBERS = {"prompt_tokens": 10, "completion_tokens": 3, "reasoning_tokens": 2, "cached_tokens": 4, "cost": 0.5}
NUMBERS |= {"retries": 1, "preemptions": 2, "seconds": 0.25}


class Port:
    """A replica by a script: seconds and what comes of its requests, in their order; then a second and a reply."""

    def __init__(self, clock, name, *script):
        self.clock, self.name, self.script = clock, name, iter(script)

    async def complete(self, request):
        seconds, answer = next(self.script, (1.0, None))
        episode, _, turn = request.id.rpartition("-")
        self.clock.tell(f"  {self.name} is asked {self.clock.names[episode]}-{turn}, for {seconds:g} s")
        try:
            await self.clock.sleep(seconds)
        except asyncio.CancelledError:
            self.clock.tell(f"  {self.name} is no longer asked {self.clock.names[episode]}-{turn}")
            raise
        if isinstance(answer, Exception):
            raise answer
        return Reply(request.options[0] if request.options else "free text", **NUMBERS)


class Odd(ToySuite):
    """Its sixth game has a defect."""

    async def play(self, episode, conversation):
        if episode.index == 5:
            raise ZeroDivisionError("a defect")
        return await super().play(episode, conversation)


async def test_runners(capsys, monkeypatch):
    said = Said(capsys)
    clock = Clock(said)

    async def in_this_thread(function, *given):
        return function(*given)

    time = SimpleNamespace(monotonic=lambda: clock.now)
    virtual = {"sleep": clock.sleep, "to_thread": in_this_thread, "wait": clock.wait}
    monkeypatch.setattr(players, "found_by", in_this_thread)
    for module in (runner, model_player, toy):
        monkeypatch.setattr(module, "time", time, raising=False)
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(**{**vars(asyncio), **virtual}))
    monkeypatch.setattr(runner, "within", clock.within)
    monkeypatch.setattr(runner, "TICK", 0.25)
    monkeypatch.setattr(runner, "REPORT_SECONDS", 2.0)
    monkeypatch.setattr(
        runner.logger, "error", lambda text, *given: said("error", *given[1:3], given[3].splitlines()[-1])
    )

    async def played(title, seconds, *orders, player="m", model=True, listens=False, thinking=0.0):
        """Exchange orders at their times, and without news in between."""
        clock.begin()
        said(f"--- {title}")
        suite = Odd(episodes=8, turns=2, thinking_seconds=thinking)
        plan = [episode.assigned(player, "") for episode in suite.plan()]
        clock.names = {episode.id: f"{player}{episode.index}" for episode in plan}
        tell = lambda what: lambda each: clock.tell(" ", what, clock.names[getattr(each, "episode", each).id])  # noqa: E731
        ended = lambda name: clock.tell("  ended", clock.names[name])  # noqa: E731
        news = iter([("line 1", "line 2"), ("line 3",)])
        listener = SimpleNamespace(began=tell("began"), ended=ended, news=lambda: next(news, ()))
        made = runner.Runner(suite, ModelPlayer(Router(), "choice") if model else None, listener if listens else None)
        orders, before, lasting = list(orders), PlayerCounts(), {}

        async def exchanging():
            nonlocal before, lasting
            report = None
            while clock.now < seconds and not (report and report.engine_closed):
                order = orders.pop(0)[1] if orders and orders[0][0] <= clock.now else {}
                lasting |= {name: order[name] for name in ("remaining", "draining") if name in order}
                numbers = order.pop("episodes", ())
                report = await made.exchange(Assignment(tuple(plan[number] for number in numbers), **order | lasting))
                rows = report.finished.to_pylist() if report.finished is not None else []
                told = [f"{clock.names[row['episode_id']]} {row['error'] or row['success']}" for row in rows]
                counts = {name: value for name, value in vars(report.counts).items() if value != getattr(before, name)}
                before = dataclasses.replace(report.counts)
                found = {"finished": told, "lost": report.lost, "counts": counts, "closed": report.engine_closed}
                found |= {"resumable": report.resumable, "moves": report.moves, "waiting": report.waiting}
                if rows or clock.now >= seconds:
                    found["use"] = {name: [*vars(use).values()] for name, use in report.use.items()}
                found["heard"] = report.heard
                found = {name: value for name, value in found.items() if value}
                clock.tell(f"room {report.room}, running {report.running}", plain(found))

        await clock.during(exchanging())
        made.end()
        await clock.during(clock.sleep(0.0))

    def replica(name, batch, *script, metered=False):
        return NewReplica(name, Port(clock, name, *script), batch, metered)

    first = {"episodes": range(6), "replicas": (replica("r0", 2), replica("r1", 1, (30.0, None))), "remaining": 2}
    then = (3, {"episodes": (6, 7), "remaining": 0})
    await played("two replicas, one of them late", 13, (0, first), then, listens=True)
    metered = {"episodes": range(3), "replicas": (replica("r0", 1, (14.0, None)), replica("paid", 2, metered=True))}
    await played("nothing is asked twice where it costs money", 15, (0, metered))
    dies = replica("r0", 2, (0.5, None), (1.0, EngineDiedError("gone")))
    order = (0, {"episodes": (0, 1, 2), "replicas": (dies,)})
    await played("an engine dies", 7, order, (3, {"removed": ("r0", "none"), "replicas": (replica("r2", 1),)}))
    left = (0, {"episodes": (1, 3), "replicas": (replica("r0", 1, (3.0, None)), replica("r1", 1))})
    await played("a replica is given to another runner", 4, left, (1, {"removed": ("r0",)}))
    errors = [(0.5, EngineError("once")), (0.5, PromptTooLong("by 3")), (0.5, None), (0.5, ValueError("odd"))]
    await played("errors", 2, (0, {"episodes": (1, 3, 5, 7), "replicas": (replica("r0", 2, *errors),)}))
    for error in (EngineClosedError("the key is refused"), EngineWaitsError("the budget is spent")):
        closes = {"episodes": (1, 3, 7), "replicas": (replica("r0", 1, (0.5, None), (0.5, error)),)}
        await played("the engine closes", 3, (0, closes))
    drains = {"episodes": range(5), "replicas": (replica("r0", 1),)}
    await played("it drains", 5, (0, drains), (0.5, {"draining": True}))
    queued = {"episodes": range(6), "replicas": (replica("r0", 1), replica("r1", 2))}
    await played("episodes wait", 3, (0, queued))
    await played("no replica yet", 3, (0, {"episodes": (1,)}), (1, {"replicas": (replica("r0", 3),), "remaining": 1}))
    monkeypatch.setattr(runner, "BUILT_IN_AT_ONCE", 2)
    built_in = {"player": "oracle", "model": False, "listens": True, "thinking": 0.5}
    await played("built-in players", 5, (0, {"episodes": range(6), "removed": ("r",), "remaining": 2}), **built_in)
    said.check("runners")
