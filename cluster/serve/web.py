"""The HTTP interface: JSON in and out, behind a bearer token."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cluster.errors import RunFailedError
from cluster.serve import taken
from cluster.serve.games import Game, Games, RefusedError
from cluster.serve.shown import episode_to_json, game_to_json, progress_to_json
from cluster.serve.taken import BadRequestError
from envs.files import FileError, parse_json
from evals.chat_json import png
from evals.serving import KnownHosts

MOST_LISTED: Final = 1000
"""Episodes in one answer."""
MOST_DIGITS: Final = 9
"""Of a number in an address."""
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Mcp(Protocol):
    """An application that must be running while it answers."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """What must run meanwhile."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...


class Web:
    """The sessions of one run over HTTP."""

    def __init__(self, games: Games, player: str, feedback: bool) -> None:
        """``feedback`` says whether clients are told if a game was won."""
        self._games, self._player, self._feedback = games, player, feedback

    def app(
        self,
        token: str,
        hosts: Collection[str],
        mcp: Mcp | None = None,
    ) -> Starlette:
        """The application.

        Args:
            token: What every request must bring, except those for pictures, whose addresses hold a session's random id.
            hosts: Names by which it may be addressed: a page elsewhere could have its own name resolved to this machine.
            mcp: Answers at ``/mcp``, where the package for it is installed.
        """
        routes = [
            Route("/v1/progress", self._progress),
            Route("/v1/episodes", self._episodes),
            Route("/v1/sessions", self._open, methods=["POST"]),
            Route("/v1/sessions/{session}", self._state, methods=["GET"]),
            Route("/v1/sessions/{session}", self._give_back, methods=["DELETE"]),
            Route("/v1/sessions/{session}/turns/{number}", self._answer, methods=["POST"]),
            Route("/pictures/{session}/{number}.png", self._picture),
        ]
        if mcp is not None:
            routes.append(Route("/mcp", _Bounded(mcp)))

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with mcp.running() if mcp is not None else contextlib.nullcontext():
                yield

        return Starlette(
            routes=routes,
            middleware=[
                Middleware(KnownHosts, hosts=hosts),
                Middleware(_Guard, token=token),
            ],
            exception_handlers={
                RefusedError: _refused,
                BadRequestError: _bad_request,
                HTTPException: _http_error,
                RunFailedError: _failed,
            },
            lifespan=lifespan,
        )

    async def _progress(self, request: Request) -> Response:
        return JSONResponse(progress_to_json(self._games, self._player), headers=HEADERS)

    async def _episodes(self, request: Request) -> Response:
        listed = [episode_to_json(episode) for episode in self._games.open_episodes(MOST_LISTED)]
        return JSONResponse({"left": self._games.left, "episodes": listed}, headers=HEADERS)

    async def _open(self, request: Request) -> Response:
        wish = taken.read_wish(await _body(request))
        game = await self._games.open(wish.episode, wish.pictures == "url")
        if game is None:
            return JSONResponse({"session": None, "over": self._games.over}, headers=HEADERS)
        return await self._at(request, game, 0, 201)

    async def _state(self, request: Request) -> Response:
        game = self._games.find(request.path_params["session"])
        return await self._at(request, game, game.waiting)

    async def _answer(self, request: Request) -> Response:
        number = _number(request)
        answer = taken.read_answer(await _body(request))
        game = await self._games.answer(request.path_params["session"], number, answer)
        return await self._at(request, game, number + 1)

    async def _give_back(self, request: Request) -> Response:
        await self._games.give_back(request.path_params["session"])
        return Response(status_code=204, headers=HEADERS)

    async def _picture(self, request: Request) -> Response:
        game = self._games.find(request.path_params["session"])
        number = _number(request)
        if number >= len(game.pictures):
            raise RefusedError(404, "this game has shown no such picture")
        content = await asyncio.to_thread(png, game.pictures[number])
        return Response(base64.b64decode(content), media_type="image/png", headers=HEADERS)

    async def _at(self, request: Request, game: Game, number: int, status: int = 200) -> Response:
        base = f"{request.base_url}pictures/{game.id}"
        shown = await asyncio.to_thread(game_to_json, game, number, self._feedback, base)
        return JSONResponse(shown, status, headers=HEADERS)


class _Guard:
    """Lets in who brings the token (``Authorization: Bearer TOKEN``)."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/pictures/"):
            await self._app(scope, receive, send)
            return
        # RFC 9110, section 11.1: the scheme may be written in lower or upper case.
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        is_right = secrets.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        if scheme.lower() == "bearer" and is_right:
            await self._app(scope, receive, send)
            return
        text = (
            "the token is missing or wrong: send the header Authorization: Bearer TOKEN that `raycade serve` has shown"
        )
        refused = JSONResponse({"error": text}, 401, headers={**HEADERS, "WWW-Authenticate": "Bearer"})
        await refused(scope, receive, send)


class _Bounded:
    """Passes on requests whose body our own reader takes: bounded in size, depth and number of values."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(Request(scope, receive))
        if body:
            try:
                parse_json(body, "the body", taken.BODY)
            except FileError as error:
                raise BadRequestError(str(error)) from None
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, again, send)


async def _body(request: Request) -> bytes:
    """What was posted, unless it is larger than any message."""
    content = bytearray()
    try:
        async for piece in request.stream():
            content += piece
            if len(content) > taken.BODY.size:
                raise RefusedError(413, f"the body has more than {taken.BODY.size:,} bytes")
    except ClientDisconnect:  # nobody reads the answer; without one, the server would print a traceback
        raise BadRequestError("the client hung up before the end of the body") from None
    return bytes(content)


def _number(request: Request) -> int:
    text = request.path_params["number"]
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise RefusedError(404, "the address ends with a number that is none")
    return int(text)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return JSONResponse({"error": str(error)}, error.status, headers=HEADERS)


async def _bad_request(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400, headers=HEADERS)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=HEADERS)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the run cannot go on; its console says why"}, 500, headers=HEADERS)
