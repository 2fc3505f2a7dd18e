"""Serves the games of a run until all are played, or a stop signal arrives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, TextIO

import uvicorn
from starlette.applications import Starlette

from cluster import stop_signals
from cluster.errors import RunFailedError, UserError
from cluster.observe.progress import Progress
from cluster.serve.commits import Commits
from cluster.serve.games import Games
from cluster.stopping.watch import StopWatch
from envs.files import FileError, read_text
from evals.serving import server_config

TICK_SECONDS: Final = 0.2
GOODBYE_SECONDS: Final = 2.0
"""How long clients can still learn that all is played."""
KEEP_ALIVE_SECONDS: Final = 120
"""A connection is kept while an agent thinks."""
_TOKEN: Final = re.compile(r"[\w-]{16,256}", re.ASCII)


async def offer(
    games: Games,
    commits: Commits,
    stopping: StopWatch,
    progress: Progress,
    interface: AbstractAsyncContextManager[asyncio.Event],
    grace_seconds: float,
) -> None:
    """Return when nothing is left to play, the interface has closed, or after a stop signal and its grace time.

    Args:
        games: What is offered.
        commits: Where finished games go.
        stopping: What the run's stopping rule says, if it has one.
        progress: Is kept current.
        interface: The way clients come, open within its context; its event says that no client can come any more.
        grace_seconds: How long games may go on after a stop signal.

    Raises:
        RunFailedError: the ledger cannot be written.
    """
    looked, end = 0, None
    async with interface as closed:
        while not (games.over or closed.is_set()):
            await asyncio.sleep(TICK_SECONDS)
            if commits.failure is not None:
                raise commits.failure
            await games.sweep()
            # The stopping rule looks only where a game has ended since it looked last.
            if games.finished > looked:
                looked = games.finished
                state = await asyncio.to_thread(stopping.look)
                if state is not None:
                    progress.stats.stopping = state
                    games.keep(state.needed)
            progress.stage = f"games in play: {games.playing}"
            progress.update()
            # The first signal lets games in play end within the grace time; a second one does not wait for them.
            if stop_signals.received and end is None:
                end = time.monotonic() + grace_seconds
                games.drain()
                if games.playing:
                    progress.say(f"stopping: games in play have {grace_seconds:g} s; send a second signal to stop now")
            if len(stop_signals.received) > 1:
                break
            # After the first signal, until no game is left in play or the grace time is over.
            if end is not None:
                grace_is_over = time.monotonic() > end
                if grace_is_over or not games.playing:
                    break
        # Clients that ask once more are told that it is over.
        if games.over:
            await asyncio.sleep(GOODBYE_SECONDS)
        settling = asyncio.create_task(commits.settle())
        while not settling.done():
            grace_is_over = end is not None and time.monotonic() > end
            if grace_is_over or len(stop_signals.received) > 1:
                commits.hurry()
            await asyncio.wait([settling], timeout=TICK_SECONDS)
        await settling
        if commits.failure is not None:
            progress.say(str(commits.failure))
        # The last line says what came of all games, also of those within the last tick.
        progress.stats.stopping = await asyncio.to_thread(stopping.look)
    if games.playing:
        progress.say(f"stopping: games not finished: {games.playing}; they will be played again")


@contextlib.asynccontextmanager
async def over_http(app: Starlette, listener: socket.socket) -> AsyncIterator[asyncio.Event]:
    """Serve an application on an open socket."""
    config = server_config(
        app, log_level="warning", access_log=False, lifespan="on", timeout_keep_alive=KEEP_ALIVE_SECONDS
    )
    server = uvicorn.Server(config)  # within stop_signals.counted its handlers of signals are not installed
    serving = asyncio.create_task(_served(server, listener))
    closed = asyncio.Event()
    serving.add_done_callback(lambda task: closed.set())
    try:
        yield closed
    finally:
        server.should_exit = True
        await serving


async def _served(server: uvicorn.Server, listener: socket.socket) -> None:
    try:
        await server.serve(sockets=[listener])
    except SystemExit as error:  # how it gives up when it cannot start
        raise RunFailedError("the server did not start") from error


def take_output() -> TextIO:
    """Standard output, for a client alone: from now on all else that is printed there goes to standard error.

    Raises:
        UserError: nobody is at the other end of standard input.
    """
    kind = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(0)):
        raise UserError("--stdio: standard input is no pipe; an MCP client starts this command and speaks to it")
    taken = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return taken


def token_of(file: Path | None) -> str:
    """A random token, or that of a file, which is made where there is none.

    Raises:
        UserError: the file cannot be read or written, is open to others, or holds no token.
    """
    if file is None:
        return secrets.token_urlsafe(24)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _stored_token(file)
    except OSError as error:
        raise UserError(f"--token-file={file}: {error}") from error
    token = secrets.token_urlsafe(24)
    with os.fdopen(descriptor, "w", encoding="ascii") as written:
        written.write(token + "\n")
    return token


def _stored_token(file: Path) -> str:
    try:
        token = read_text(file, 1024).strip()
        others = file.stat().st_mode & 0o077
    except (FileError, OSError) as error:
        raise UserError(f"--token-file={file}: {error}") from error
    if others:
        raise UserError(f"--token-file={file}: others may read it; chmod 600 {file}")
    if not _TOKEN.fullmatch(token):
        raise UserError(f"--token-file={file}: must hold 16 to 256 letters, digits, - or _")
    return token
