"""A person plays in the browser: a page on this machine's loopback address, behind a random token (``evals.human.page``)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from evals.human.page import HEADERS, all_parts, file_routes, picture_response, question_state, read_answer
from evals.human.player import Question, QuitError
from evals.serving import KnownHosts, server_config

HOST: Final = "127.0.0.1"
WAIT_SECONDS: Final = 20.0
"""How long a request for the next state may take; the page then asks again."""
GOODBYE_SECONDS: Final = 2.0
"""How long the server stays for the page to learn that the games are over."""


class Browser:
    """The interface, and the page's server (``app``)."""

    def __init__(self, token: str | None = None) -> None:
        """``token`` is drawn unless given; whoever knows it can play."""
        self.token = token or secrets.token_urlsafe(24)
        self._games = (0, 0)
        self._question: Question | None = None
        self._answer: asyncio.Future[int] | None = None
        self._version = 0
        self._changed = asyncio.Event()
        self._over = False
        self._told = asyncio.Event()
        """Whether a page knows that the games are over."""

    # --- the interface ---

    def begin(self, number: int, games: int) -> None:
        """Note which game it is."""
        self._games = (number, games)

    async def ask(self, question: Question) -> int:
        """Put a question on the page and wait for the answer.

        Raises:
            QuitError: the person presses the button to stop.
        """
        self._answer = asyncio.get_running_loop().create_future()
        self._change(question)
        try:
            return await self._answer
        finally:
            self._change(None)

    async def end(self) -> None:
        """Tell the page that no further question comes."""
        self._over = True
        self._change(None)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._told.wait(), GOODBYE_SECONDS)

    def _change(self, question: Question | None) -> None:
        self._question = question
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    # --- the server ---

    @property
    def app(self) -> Starlette:
        """The page, its state, its pictures, and what it posts."""
        routes = [
            *file_routes(),
            Route("/state", self._state),
            Route("/pictures/{key}.png", self._picture),
            Route("/answer", self._answered, methods=["POST"]),
            Route("/quit", self._quit, methods=["POST"]),
        ]
        hosts = Middleware(KnownHosts, hosts=["localhost"])
        return Starlette(routes=[Mount(f"/{self.token}", routes=routes)], middleware=[hosts])

    async def _state(self, request: Request) -> Response:
        """The state once it is another one than the page knows, or the same after a while."""
        if request.query_params.get("known") == str(self._version):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), WAIT_SECONDS)
        if self._over:
            self._told.set()
        return JSONResponse(self._to_json(), headers=HEADERS)

    def _to_json(self) -> dict[str, Any]:
        number, games = self._games
        state: dict[str, Any] = {"key": str(self._version), "progress": {"word": "Game", "at": number, "of": games}}
        if self._over:
            text = "The games are over. Thank you! You can close this page."
            return {**state, "phase": "over", "text": text}
        if self._question is None:
            return {**state, "phase": "wait"}
        return {**state, **question_state(self._question), "stop": "Stop and keep finished games"}

    async def _picture(self, request: Request) -> Response:
        parts = all_parts(self._question) if self._question else ()
        return await picture_response(parts, request.path_params["key"])

    async def _answered(self, request: Request) -> Response:
        """Take an answer to the question in hand; one to an earlier question, or no option of this one, is refused."""
        try:
            answer = await read_answer(request)
        except (ValueError, ClientDisconnect):
            return Response(status_code=400, headers=HEADERS)
        question, awaited = self._question, self._answer
        if answer.key != str(self._version):
            return Response(status_code=409, headers=HEADERS)
        # Nothing is asked now.
        if question is None or awaited is None:
            return Response(status_code=409, headers=HEADERS)
        if awaited.done():
            return Response(status_code=409, headers=HEADERS)
        if len(answer.choices) != 1:
            return Response(status_code=400, headers=HEADERS)
        chosen = answer.choices[0]
        if not 0 <= chosen < len(question.options):
            return Response(status_code=400, headers=HEADERS)
        awaited.set_result(chosen)
        return JSONResponse({"phase": "wait", "key": answer.key}, headers=HEADERS)

    async def _quit(self, request: Request) -> Response:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(QuitError())
        return Response(status_code=204, headers=HEADERS)

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[str]:
        """Serve the page on an open socket (``listen``); yields the page's address."""
        server = _Server(server_config(self.app, grace_seconds=1, log_level="error", lifespan="off"))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}/{self.token}/"
            await self.end()
        finally:
            server.should_exit = True
            await task


def listen(port: int = 0) -> socket.socket:
    """A socket on the loopback address; 0 takes any free port.

    Raises:
        OSError: the port is taken, or may not be used.
        OverflowError: there is no such port.
    """
    return socket.create_server((HOST, port))


class _Server(uvicorn.Server):
    """Leaves signals to the run."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield
