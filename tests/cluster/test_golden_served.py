"""What programs that play through ``raycade serve`` are told, over HTTP and MCP, as on record in ``tests/golden``."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import stat
from types import SimpleNamespace

import httpx
from mcp_types import CallToolRequestParams

from cluster.errors import RunFailedError
from cluster.serve import commits, games, host, taken, tools, web
from cluster.serve.limits import Limits
from cluster.serve.tools import Tools, _listed
from cluster.serve.web import Web
from envs.files import Bounds
from evals.conversation import Record
from evals.suite import plan_for
from tests.clock import Clock
from tests.cluster.openai_api.test_requests import Dot
from tests.golden import plain
from tests.said import Said, Thing
from tests.toy import ToySuite

SUITE = ToySuite(episodes=5, turns=1)
PLAN = plan_for(SUITE, {"agent": "1"})
NAMES = {episode.id: f"EPISODE{episode.index}" for episode in PLAN}


class Served:
    """Games by a clock of their own, and clients of both interfaces; what they are told is noted."""

    def __init__(self, said, monkeypatch, feedback=False, **limits):
        self.said, self.now, numbers = said, 0.0, itertools.count()
        monkeypatch.setattr(games, "secrets", SimpleNamespace(token_urlsafe=lambda size: f"s{next(numbers)}of{size}"))
        monkeypatch.setattr(games, "WAIT_SECONDS", 0.0)
        limits = Limits(**{"turn_seconds": 10.0, "episode_seconds": 25.0, "attempts": 2, **limits})
        self.games = games.Games(SUITE, PLAN, self.commit, limits, clock=lambda: self.now)
        app = Web(self.games, "agent", feedback).app("TOKEN", ["here"])
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")
        self.tools = Tools(self.games, "agent", feedback)

    async def commit(self, record):
        turns = [plain(turn.reply) for turn in record.turns]
        self.said("  committed", record.episode.id, record.outcome and record.outcome.success, record.error, *turns)

    async def __call__(self, method, path, body=None, token="TOKEN", address="here", **headers):
        headers |= {"host": address, **({"authorization": f"Bearer {token}"} if token else {})}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        found = await self.client.request(method, path, content=content, headers=headers)
        sent = str(body)[:60] if body is not None else ""
        self.said(f"{self.now:g} {method} {path} {sent}\n  {found.status_code} {found.text[:1500]}")
        return found

    async def tool(self, name, **arguments):
        found = await self.tools._called(None, CallToolRequestParams(name=name, arguments=arguments))
        told = [getattr(part, "text", part) for part in found.content]
        self.said(
            f"{self.now:g} {name} {arguments}", "refused" if found.is_error else "", *(f"\n  {part}" for part in told)
        )

    def counts(self):
        self.said(
            f"  {self.games.left} left, {self.games.playing} in play, {self.games.finished} finished, {self.games.over}"
        )


async def in_this_thread(function, *given):
    return function(*given)


def check(said, name):
    said.lines = [re.sub(r"\b[0-9a-f]{32}\b", lambda found: NAMES.get(found[0], found[0]), line) for line in said.lines]
    said.check(name)


async def test_http(capsys, monkeypatch):
    said = Said(capsys)
    served = Served(said, monkeypatch)
    for wrong in ({"token": None}, {"token": "TOKE"}, {"token": "TOKENS"}, {"address": "elsewhere"}):
        found = await served("GET", "/v1/progress", **wrong)
    headers = (await served("GET", "/v1/progress")).headers
    said(sorted(headers.items()), found.headers.get("www-authenticate"))
    await served("GET", "/v1/episodes")
    for body in (b"", b"[", {}, {"pictures": "png"}, {"episode": 5}, {"x": 1}, {"episode": "none"}, b"{" * 20):
        await served("POST", "/v1/sessions", body)
    await served("POST", "/v1/sessions", {"episode": PLAN[3].id, "pictures": "url"})
    await served("POST", "/v1/sessions", {"episode": PLAN[3].id})
    one = "/v1/sessions/s0of24"
    await served("GET", one)
    for number, body in (
        *(("0", {}), ("0", {"text": 5}), ("0", {"text": "red", "x": 1}), ("0", {"text": "red", "cost": -1.0})),
        *(
            ("0", {"text": "red", "x" * 150: 1}),
            ("1", {"text": "red"}),
            ("a", {"text": "red"}),
            ("1" * 10, {"text": "red"}),
            ("-1", {"text": "red"}),
        ),
        ("0", {"text": "red", "cost": 0.5, "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "reasoning": "so"}),
        *(("0", {"text": "red"}), ("0", {"text": "blue"}), ("1", {"text": "nothing of this", "finish": "length"})),
        *(("1", {"text": "nothing of this"}), ("2", {"text": "red"}), ("1", {"text": "red"})),
    ):
        served.now += 1.5
        await served("POST", f"{one}/turns/{number}", body)
    for method, path in (
        *(("GET", one), ("DELETE", one), ("GET", "/v1/sessions/none"), ("DELETE", "/v1/sessions/none"), ("PUT", one)),
        *(("GET", "/pictures/s0of24/0.png"), ("GET", "/pictures/none/0.png"), ("GET", "/pictures/s0of24/x.png")),
        *(("GET", "/mcp"), ("GET", "/"), ("GET", "/v1/sessions/s1of24")),
    ):
        await served(method, path, token=None if path.startswith("/pictures") else "TOKEN")
    await served("DELETE", "/v1/sessions/s1of24")
    await served("GET", "/v1/sessions/s1of24")
    await served("GET", "/v1/episodes")
    await served("GET", "/v1/progress")
    monkeypatch.setattr(games, "MOST_SESSIONS", 1)
    for _ in range(2):
        await served("POST", "/v1/sessions")
    served.games.keep({PLAN[0].id})
    await served("GET", "/v1/episodes")
    monkeypatch.setattr(games, "MOST_SESSIONS", 9)
    for _ in range(2):
        await served("POST", "/v1/sessions")
    served.games.drain()
    await served("POST", "/v1/sessions")

    async def fails(*given):
        raise RunFailedError("a secret place is full")

    monkeypatch.setattr(served.games, "answer", fails)
    await served("POST", f"{one}/turns/1", {"text": "red"})
    check(said, "served_http")


async def test_bodies_of_mcp(capsys, monkeypatch):
    said = Said(capsys)
    monkeypatch.setattr(taken, "BODY", Bounds(9, 2, 4))

    class Inner:
        @contextlib.asynccontextmanager
        async def running(self):
            said("-> running")
            yield
            said("-> ended")

        async def __call__(self, scope, receive, send):
            said("-> asked", scope["path"], await receive(), await receive(), send)

    served = Served(said, monkeypatch)
    bounded = web._Bounded(Inner())
    for pieces in (
        [],
        [b""],
        [b"[1,", b"2]"],
        [b"[1,2", b",345]"],
        [b"[1,2", b",3456]"],
        [b"[["],
        [b"[1,2,3,4]"],
        [b"[[[1]]]"],
    ):
        messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        if pieces:
            messages[-1]["more_body"] = False
        left = iter([*messages, {"type": "http.disconnect"}])

        async def receive(left=left):
            return next(left)

        try:
            await bounded({"type": "http", "path": "/mcp"}, receive, "send")
        except (web.BadRequestError, web.RefusedError) as error:
            said(pieces, repr(error), getattr(error, "status", ""))
    app = Web(served.games, "agent", False).app("TOKEN", ["here"], Inner())
    async with app.router.lifespan_context(app):
        said("served")
    async with Web(served.games, "agent", False).app("TOKEN", ["here"]).router.lifespan_context(app):
        said("served without")
    said.check("served_bodies")


async def test_silence(capsys, monkeypatch):
    said = Said(capsys)
    served = Served(said, monkeypatch, feedback=True)
    opened = [await served.games.open() for _ in range(3)]

    async def sweep(now):
        served.now = now
        await served.games.sweep()
        said(f"at {now:g}:", *sorted(served.games._games))
        served.counts()

    await sweep(10.0)
    await served("GET", f"/v1/sessions/{opened[0].id}")
    await sweep(10.5)
    async with opened[0].busy:
        await sweep(20.5)
    await sweep(20.5)
    again = [await served.games.open() for _ in range(5)]
    said(*(game and game.episode.id for game in again))
    for now in (25.0, 30.0, 35.0, 40.0, 45.0):
        served.now = now
        for game in again:
            served.games.find(game.id)
    await sweep(45.5)
    await sweep(46.0)
    await sweep(46.5)
    for game in again[:3]:
        served.now += 1.0
        await served("GET", f"/v1/sessions/{game.id}")
    await sweep(46.5 + games.KEPT_SECONDS)
    await sweep(50.0 + games.KEPT_SECONDS)
    await sweep(51.0 + games.KEPT_SECONDS)
    while (game := await served.games.open()) is not None:
        while game.session.turn is not None:
            await served("POST", f"/v1/sessions/{game.id}/turns/{game.waiting}", {"text": "green"})
    await served("POST", "/v1/sessions")
    served.counts()
    check(said, "served_silence")


async def test_waits(capsys, monkeypatch):
    said = Said(capsys)
    served = Served(said, monkeypatch, attempts=9)
    monkeypatch.setattr(games, "WAIT_SECONDS", 60.0)
    ranked = games.Games(SUITE, sorted(PLAN, key=lambda each: (each.index - 2) ** 2), served.commit)
    said(*(each.index for each in ranked.open_episodes(9)), "|", *(each.index for each in ranked.open_episodes(2)))
    offered, served.now = served.games, 3.0

    async def waiting(*given):
        """Who asks for a game, and whether it waits."""
        task = asyncio.create_task(offered.open(*given))
        for _ in range(50):
            await asyncio.sleep(0)
        said("waits" if not task.done() else task.exception() or task.result().episode.index)
        return task

    opened = [(await waiting("", number % 2 == 1)).result() for number in range(5)]
    said(*((game.id, game.opened, game.heard, game.asked, game.pictures_by_address) for game in opened))
    said(*(opened[0].address(Dot(gray)) for gray in (3, 4, 3)), opened[0].pictures)
    await waiting(PLAN[0].id)
    first = await waiting()
    await asyncio.gather(*(offered.give_back(opened[1].id) for _ in range(2)), return_exceptions=True)
    said(
        (await asyncio.wait_for(first, 20)).episode.index,
        "is given out again; left",
        offered._left[PLAN[1].id],
        "times",
    )
    served.counts()
    second = await waiting()
    offered.keep({PLAN[2].id})
    await offered.give_back(opened[3].id)
    served.counts()
    await offered.give_back(opened[2].id)
    said((await asyncio.wait_for(second, 20)).episode.index, "is needed")
    third = await waiting()
    for game in (opened[0], opened[4], await first, await second):
        while game.session.turn is not None:
            await offered.answer(game.id, game.waiting, taken.Answer(text="green"))
    said("nothing is left:", await asyncio.wait_for(third, 20))
    served.counts()
    await offered.give_back(opened[0].id)
    served.counts()
    drained = games.Games(SUITE, PLAN[:1], served.commit)
    offered = drained
    await waiting()
    last = await waiting()
    drained.drain()
    said(*await asyncio.gather(last, return_exceptions=True))
    check(said, "served_waits")


async def test_tools(capsys, monkeypatch):
    said = Said(capsys)
    served = Served(said, monkeypatch, feedback=True)
    for tool in (await _listed(None, None)).tools:
        said(tool.name, tool.description, json.dumps(tool.input_schema, sort_keys=True))
    for name, arguments in (
        *(("guess", {}), ("progress", {}), ("progress", {"x": 1}), ("next_game", {"episode": "none"})),
        *(("next_game", {"episode": PLAN[1].id}), ("next_game", {}), ("next_game", {"episode": 3}), ("state", {})),
        *(
            ("state", {"session": "s0of24"}),
            ("state", {"session": "none"}),
            ("answer", {"session": "s0of24", "turn": 0}),
        ),
        *(("answer", {"session": "s1of24", "turn": "0", "text": "red"}), ("state", {"session": "s1of24"})),
        *(("answer", {"session": "s1of24", "turn": -1, "text": "red"}), ("progress", {})),
        *(("answer", {"session": "s1of24", "turn": 1, "text": "green"}), ("state", {"session": "s1of24"})),
        *(("answer", {"session": "s0of24", "turn": 0, "text": "nothing"}), ("next_game", {"episode": PLAN[0].id})),
    ):
        await served.tool(name, **arguments)
    served.games.keep(set())
    await served.tool("next_game")
    check(said, "served_tools")


async def test_offers(capsys, monkeypatch):
    said = Said(capsys)
    clock = Clock(said)

    virtual = {"sleep": clock.sleep, "to_thread": in_this_thread}
    monkeypatch.setattr(host, "asyncio", SimpleNamespace(**{**vars(asyncio), **virtual}))
    monkeypatch.setattr(host, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(host.stop_signals, "received", [])
    monkeypatch.setattr(host, "TICK_SECONDS", 1.0)

    async def offered(title, *steps, failure=None):
        """Each step: seconds, and what is different from then on; a signal is sent by its number."""
        clock.begin()
        said(f"--- {title}")
        host.stop_signals.received.clear()
        state = SimpleNamespace(over=False, finished=0, playing=2, swept=0)
        closed = asyncio.Event()

        async def sweep():
            state.swept += 1

        async def happens():
            for seconds, change in steps:
                await clock.sleep(seconds - clock.now)
                clock.tell("now", change)
                for name, value in change.items():
                    if name == "signal":
                        host.stop_signals.received.append(value)
                    elif name == "closed":
                        closed.set()
                    else:
                        setattr(state, name, value)

        told = lambda what: lambda *given: clock.tell(what, *given)  # noqa: E731
        state.sweep, state.drain, state.keep = sweep, told("drain"), told("keep")
        looks = itertools.count(1)
        look = lambda: clock.tell("look") or SimpleNamespace(needed=f"needed {next(looks)}")  # noqa: E731

        async def settle():
            clock.tell("settle")

        class Interface:
            async def __aenter__(self):
                clock.tell("open")
                return closed

            async def __aexit__(self, *error):
                clock.tell("closed")

        stats = SimpleNamespace(stopping=None)
        progress = SimpleNamespace(stats=stats, say=told("say"), stage="", update=lambda: None)
        writes = SimpleNamespace(failure=failure, settle=settle, hurry=told("hurry"))
        happening = asyncio.ensure_future(happens())
        try:
            await clock.during(
                host.offer(state, writes, SimpleNamespace(look=look), progress, Interface(), grace_seconds=5.0)
            )
        except RunFailedError as error:
            clock.tell(error)
        happening.cancel()
        clock.tell(progress.stage, f"swept {state.swept}", stats.stopping and stats.stopping.needed)

    await offered(
        "all is played",
        (1.5, {"finished": 1}),
        (3.5, {"finished": 2, "playing": 1}),
        (5.5, {"over": True, "playing": 0}),
    )
    await offered("the client hangs up", (2.5, {"closed": True}))
    await offered("a signal, and games end in time", (1.5, {"signal": 15}), (3.5, {"playing": 0}))
    await offered("a signal, and they do not", (1.5, {"signal": 15}))
    await offered("a signal with nothing in play", (0.5, {"playing": 0}), (1.5, {"signal": 2}))
    await offered("two signals", (1.5, {"signal": 15}), (2.5, {"signal": 15}))
    await offered("it cannot be written", failure=RunFailedError("full"))
    said.check("served_offers")


async def test_commits(capsys, monkeypatch):
    said = Said(capsys)
    clock = Clock(said)
    virtual = {"sleep": clock.sleep, "to_thread": in_this_thread}
    monkeypatch.setattr(commits, "asyncio", SimpleNamespace(**{**vars(asyncio), **virtual}))
    errors = iter([OSError("full"), None, None, RunFailedError("taken over"), *[OSError("full")] * 9])
    calls = []

    def commit(rows):
        calls.append(rows.num_rows)
        clock.tell("commit", rows.num_rows)
        if error := next(errors):
            raise error

    def compact():
        raise OSError("no room")

    stats = Thing(
        said,
        "stats",
        counts=SimpleNamespace(
            **dict.fromkeys(("turns", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"), 0)
        ),
    )
    stats.finished, stats.to_json = (
        lambda rows, by_model: clock.tell("finished", rows.num_rows, by_model),
        lambda: "numbers",
    )
    watch = SimpleNamespace(add=lambda rows: clock.tell("watch", rows.num_rows))
    directory = SimpleNamespace(commit=commit, compact=compact)
    watcher = SimpleNamespace(log=lambda numbers: clock.tell("log", numbers))
    clock.begin()
    writes = commits.Commits(SUITE, directory, stats, watch, watcher)
    records = [Record(episode, None, "PlayerError: left", (), 0.5, "endpoint") for episode in PLAN]

    async def added(*some):
        found = await clock.during(asyncio.gather(*(writes.add(each) for each in some), return_exceptions=True))
        clock.tell(*(repr(each) for each in found), "| waiting", len(writes._waiting), "failure", writes.failure)

    await added(*records[:3])
    await clock.during(writes.settle())
    await added(records[3])
    await added(records[4])
    monkeypatch.setattr(commits, "TRIES", 2)
    writes = commits.Commits(SUITE, directory, stats, watch, watcher)
    await added(*records[:2])
    said(calls)
    writes._compacting = asyncio.ensure_future(clock.sleep(3.0))
    await clock.during(writes.settle())
    said("merged", writes._compacting.done())
    said.check("served_commits")


async def test_interfaces(capsys, monkeypatch):
    said = Said(capsys)
    monkeypatch.setattr(host, "server_config", said.calls("config", "a config"))

    class Server:
        fails, should_exit = False, False

        def __init__(self, config):
            said("server of", config)

        async def serve(self, sockets):
            said("serves", sockets)
            while not self.should_exit:
                await asyncio.sleep(0)
                if self.fails:
                    raise SystemExit(1)
            said("ends")

    monkeypatch.setattr(host.uvicorn, "Server", Server)
    for Server.fails in (False, True):
        try:
            async with host.over_http("an app", "a socket") as closed:
                for _ in range(5):
                    await asyncio.sleep(0)
                said("closed", closed.is_set())
        except RunFailedError as error:
            said(repr(error))
    reader, writer = os.pipe()
    ends = [None, ConnectionError("gone"), asyncio.CancelledError()]

    async def serve(server, lines, output):
        said("serves", type(server).__name__, await lines._reader.readline(), output)
        end = ends.pop(0)
        try:
            await (asyncio.sleep(60) if end is None else asyncio.sleep(0))
        except asyncio.CancelledError:
            said("is canceled")
            raise
        raise end

    monkeypatch.setattr(tools, "_serve_lines", serve)
    for _ in range(3):
        os.write(writer, "é\n".encode())
        with os.fdopen(os.dup(reader)) as given:
            monkeypatch.setattr(tools.sys, "stdin", given)
            async with Tools(None, "agent", False).over_stdio("output") as closed:
                for _ in range(9):
                    await asyncio.sleep(0.001)
                said("closed", closed.is_set())
    os.close(reader)
    os.close(writer)
    said.check("served_interfaces")


def test_tokens(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    monkeypatch.setattr(host.secrets, "token_urlsafe", lambda size: f"a token of {size}")
    said(host.token_of(None))
    made = tmp_path / "made"
    said(host.token_of(made), oct(made.stat().st_mode), repr(made.read_text()))
    for number, (text, mode) in enumerate(
        [
            *(("t" * 16 + "\n", 0o600), ("t" * 15, 0o600), ("t" * 256, 0o400), ("t" * 257, 0o600), ("t" * 2000, 0o600)),
            *(("tö" * 10, 0o600), ("t-_9" * 5, 0o640), ("t-_9" * 5, 0o604), ("t t" * 9, 0o600)),
        ]
    ):
        file = tmp_path / f"file{number}"
        file.write_text(text)
        file.chmod(mode)
        said.tried(f"{text[:20]!r} {mode:o}", host.token_of, file)
    said.tried("a folder", host.token_of, tmp_path)
    said.tried("nowhere", host.token_of, tmp_path / "none/file")
    noted = {"dup": said.calls("dup", 5), "dup2": said.calls("dup2"), "fdopen": said.calls("fdopen", "taken")}
    for kind, terminal in ((stat.S_IFIFO, False), (stat.S_IFSOCK, False), (stat.S_IFREG, False), (stat.S_IFCHR, True)):
        found = {
            "fstat": lambda file, kind=kind: SimpleNamespace(st_mode=kind if file == 0 else stat.S_IFIFO),
            "isatty": lambda file: terminal and file == 0,
        }
        monkeypatch.setattr(host, "os", SimpleNamespace(**noted, **found))
        said.tried(oct(kind), host.take_output)
    said.check("served_tokens")
