"""The same episodes played through `raycade serve` and directly, by a fixed policy: are the rows of the ledgers the same?

    python -m benchmarks.serve [EPISODES] [KILLS]

EPISODES (200) of all three suites are played four times: directly in one process (``play_episode``, committed one by one),
over HTTP, over MCP with the client of the package ``mcp``, and over HTTP while the server is killed with SIGKILL so many times
(3) and started again with the same command. Rows are compared in all columns but the session and times. Speed is steps per
second from the first game to the last, relative to playing directly, where no picture is rendered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.arguments import whole_numbers
from cluster.commands.run import run
from cluster.commands.serve import serve_overrides
from cluster.config.settings import Settings, load_settings
from cluster.console import show
from cluster.storage.run_directory import RunDirectory
from evals.ledger.ledger import open_ledger
from evals.ledger.sound_rows import sound_rows
from evals.sessions.session import text_reply
from evals.suite import ledger_columns, play_episode
from evals.tables import Table
from evals.types import Episode, Reply, Turn, stable_seed

SHARES = {
    "kidgym": ("suite.tasks=[CL,SE,PU,MMA,MDE]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes={}"),
    "kumo": ("suite.domains=[medical]", "suite.difficulties=[easy]", "suite.repeats=1", "suite.tasks_per_domain={}"),
    "multistar": (
        "suite.subtask=direct",
        "suite.configurations=[center_single]",
        "suite.attributes=[shape]",
        "suite.puzzles={}",
    ),
}
"""Settings that play so many games of a suite, or about so many."""
PLAYER = ("player=fixed_policy", "version=1")
READY_SECONDS = 120.0


def choose(task: str, number: int, choices: Sequence[str]) -> str:
    """The fixed policy: it needs no text, no picture and no id, so any client can follow it."""
    return choices[stable_seed(task, number) % len(choices)] if choices else "I do not know."


class Policy:
    """The policy as a player."""

    def __init__(self) -> None:
        self.steps = 0

    async def reply(self, turn: Turn) -> Reply:
        """Answer one turn."""
        self.steps += 1
        return text_reply(turn, choose(turn.episode.task, turn.number, turn.labels or turn.options))


# --- ways to play ----------------------------------------------------------------------------------------------------


def play_directly(overrides: Sequence[str], run_dir: Path) -> float:
    """Steps per second without any server."""
    rate = 0.0

    def play(settings: Settings, todo: list[Episode], directory: RunDirectory, *_: Any) -> bool:
        nonlocal rate
        policy, start = Policy(), time.monotonic()
        for episode in todo:
            record = asyncio.run(play_episode(settings.suite, episode, policy))
            directory.commit(sound_rows([record], ledger_columns(settings.suite)))
        rate = policy.steps / (time.monotonic() - start)
        return False

    settings = load_settings(serve_overrides([*overrides, *PLAYER, f"run_dir={run_dir}"]))
    with contextlib.redirect_stdout(sys.stderr):
        code, _ = run(settings, play)
    assert code == 0
    return rate


class Server:
    """`raycade serve` in a process of its own."""

    def __init__(self, overrides: Sequence[str], run_dir: Path) -> None:
        self._token_file = run_dir.with_suffix(".token")
        self._log = run_dir.with_suffix(".log")
        serve = ["--token-file", str(self._token_file), *overrides, *PLAYER, f"run_dir={run_dir}"]
        self._command = [sys.executable, "-m", "cluster", "serve", *serve]
        self.start()

    def start(self) -> None:
        """Start it and wait until it says where it listens."""
        with self._log.open("w") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + READY_SECONDS
        while not (found := re.search(r"games offered at (http\S+):", self.said())):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(self.said())
            time.sleep(0.05)
        self.url, self.token = found[1], self._token_file.read_text().strip()

    def kill(self) -> None:
        """End it as a machine that loses its power would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """Wait until it has ended by itself, since all is played."""
        assert self.process.wait(READY_SECONDS) == 0, self.said()

    def said(self) -> str:
        """What it has printed since it was started."""
        return self._log.read_text()


def steps_over_http(server: Server, pictures: str = "data") -> Iterator[None]:
    """Plays one game after the other over HTTP, step by step; pictures as data URLs, or as addresses (``url``)."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=READY_SECONDS) as client:
        while (game := client.post("/v1/sessions", json={"pictures": pictures}).raise_for_status().json())["session"]:
            while (turn := game["turn"]) is not None:
                text = choose(game["episode"]["task"], turn["number"], turn["labels"] or turn["options"])
                path = f"/v1/sessions/{game['session']}/turns/{turn['number']}"
                game = client.post(path, json={"text": text}).raise_for_status().json()
                yield


async def play_by_tools(server: Server) -> int:
    """Plays all games over MCP; returns the steps."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    steps = 0

    async def call(client: Client, tool: str, **arguments: object) -> Any:
        result = await client.call_tool(tool, arguments)
        first: Any = result.content[0]
        assert not result.is_error, first
        return json.loads(first.text)

    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=READY_SECONDS) as http:
        async with Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client:
            while (game := await call(client, "next_game"))["session"] is not None:
                while game["turn"] is not None:
                    text = choose(game["episode"]["task"], game["turn"], game["labels"] or game["options"])
                    game = await call(client, "answer", session=game["session"], turn=game["turn"], text=text)
                    steps += 1
    return steps


def play_over_http(overrides: Sequence[str], run_dir: Path, pictures: str) -> float:
    """Steps per second over HTTP."""
    server = Server(overrides, run_dir)
    start = time.monotonic()
    steps = sum(1 for _ in steps_over_http(server, pictures))
    seconds = time.monotonic() - start
    server.end()
    return steps / seconds


def play_over_mcp(overrides: Sequence[str], run_dir: Path) -> float:
    """Steps per second over MCP."""
    server = Server(overrides, run_dir)
    start = time.monotonic()
    steps = asyncio.run(play_by_tools(server))
    seconds = time.monotonic() - start
    server.end()
    return steps / seconds


def play_with_kills(overrides: Sequence[str], run_dir: Path, kills: int, steps: int) -> Server:
    """Play over HTTP while the server is killed again and again; returns it when it was started for the last time.

    Args:
        overrides: Of the run.
        run_dir: Of the run.
        kills: How often.
        steps: How many steps it lives each time; it dies some milliseconds later, whatever it does then.
    """
    server = Server(overrides, run_dir)
    for kill in range(kills):
        killer = threading.Timer(0.004 * kill, server.kill)
        with contextlib.suppress(httpx.TransportError):
            for step, _ in enumerate(steps_over_http(server), 1):
                if step == steps:
                    killer.start()
            server.kill()
            raise RuntimeError("all was played before the server was killed: give more episodes")
        killer.join()
        server.start()
    return server


# --- comparison ------------------------------------------------------------------------------------------------------


def rows_of(run_dir: Path) -> dict[str, str]:
    """The ledger's rows by episode, as text, without the session and times.

    Raises:
        AssertionError: an episode was played twice.
    """
    ledger = open_ledger(run_dir)
    rows = ledger.table(ledger.schema.names).to_pylist()
    found = {}
    for row in rows:
        del row["seconds"], row["session"]
        for turn in row["turns"]:
            del turn["seconds"]
        assert row["attempt"] == 1 and row["episode_id"] not in found
        found[row["episode_id"]] = str(row)
    return found


def main() -> None:
    """Print the comparison; 1 if anything differs."""
    episodes, kills = whole_numbers(__doc__, episodes=200, kills=3)
    rows, same = [], True
    with tempfile.TemporaryDirectory(prefix="raycade-") as folder:
        for suite, settings in SHARES.items():
            each = 1 if suite == "kumo" else 5  # tasks of KidGym; questions on a RAVEN problem, or about so many
            count = -(-episodes // (len(SHARES) * each))
            overrides = [f"suite={suite}", *(setting.format(count) for setting in settings)]
            base = Path(folder) / suite
            direct = play_directly(overrides, base.with_name(f"{suite}-direct"))
            expected = rows_of(base.with_name(f"{suite}-direct"))
            turns = sum(row.count("'kept':") for row in expected.values())
            rows.append((suite, "direct", len(expected), turns, None, direct, 1.0))
            ways: dict[str, Callable[[Path], float | None]] = {
                "HTTP": lambda path, given=overrides: play_over_http(given, path, "data"),
                "HTTP, pictures not fetched": lambda path, given=overrides: play_over_http(given, path, "url"),
                "MCP": lambda path, given=overrides: play_over_mcp(given, path),
            }
            for number, (way, play) in enumerate(ways.items()):
                path = base.with_name(f"{suite}-{number}")
                rate = play(path)
                rows.append((suite, way, *_compared(expected, path, turns), rate, rate / direct))
            path = base.with_name(f"{suite}-killed")
            server = play_with_kills(overrides, path, kills, turns // (2 * kills + 2))
            for _ in steps_over_http(server):
                pass
            server.end()
            rows.append((suite, f"HTTP, {kills} kills", *_compared(expected, path, turns), None, None))
            same = same and all(row[4] in (None, 0) for row in rows)
    columns = ("suite", "way", "episodes", "turns", "rows that differ", "steps/s", "of direct")
    show([Table("serve", "Episodes through raycade serve and directly", columns, tuple(rows))])
    sys.exit(0 if same else 1)


def _compared(expected: dict[str, str], path: Path, turns: int) -> tuple[int, int, int]:
    """Episodes, turns, and how many rows differ or are in one ledger only."""
    found = rows_of(path)
    names = expected.keys() | found.keys()
    return len(found), turns, sum(expected.get(name) != found.get(name) for name in names)


if __name__ == "__main__":
    main()
