"""A person plays in the browser: a page on this machine's loopback address, behind a random token.

The page asks for the state, shows it and posts the number of the chosen option. Texts travel as JSON and are shown as plain
text; pictures are PNG files of the question in hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib import resources
from typing import Any, Final

import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from envs.files import Bounds, parse_json
from envs.picture import Picture
from evals.human.player import Question, QuitError
from evals.types import Part

HOST: Final = "127.0.0.1"
_ANSWER: Final = Bounds(size=1000, depth=2)
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
FILES: Final = {"": "text/html", "play.js": "text/javascript", "play.css": "text/css"}
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
            *(Route(f"/{name}", _file(name)) for name in FILES),
            Route("/state", self._state),
            Route("/pictures/{key}.png", self._picture),
            Route("/answer", self._answered, methods=["POST"]),
            Route("/quit", self._quit, methods=["POST"]),
        ]
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])  # against DNS rebinding
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
        state: dict[str, Any] = {"version": self._version, "game": number, "games": games, "over": self._over}
        if question := self._question:
            episode = question.episode
            state["question"] = {
                "title": f"{episode.suite}, {episode.task}, {episode.level}",
                "rules": _parts(question.rules),
                "past": [{"role": said.role, "parts": _parts(said.parts)} for said in question.past],
                "shown": _parts(question.shown),
                "options": [*question.options],
                "captions": [*question.captions],
            }
        return state

    async def _picture(self, request: Request) -> Response:
        for part in _all_parts(self._question) if self._question else ():
            if isinstance(part, Picture) and part.key == request.path_params["key"]:
                png = io.BytesIO()
                Image.fromarray(await asyncio.to_thread(part.render)).save(png, "PNG")
                return Response(png.getvalue(), media_type="image/png", headers=HEADERS)
        return Response(status_code=404, headers=HEADERS)

    async def _answered(self, request: Request) -> Response:
        """Take an answer to the question in hand; one to an earlier question, or no option of this one, is refused."""
        try:
            posted = parse_json(await _body(request), "answer", _ANSWER)
            version, option = posted["version"], posted["option"]
        except (ValueError, KeyError, TypeError, ClientDisconnect):
            return Response(status_code=400, headers=HEADERS)
        question = self._question
        if version != self._version or question is None or self._answer is None or self._answer.done():
            return Response(status_code=409, headers=HEADERS)
        if type(option) is not int or not 0 <= option < len(question.options):
            return Response(status_code=400, headers=HEADERS)
        self._answer.set_result(option)
        return Response(status_code=204, headers=HEADERS)

    async def _quit(self, request: Request) -> Response:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(QuitError())
        return Response(status_code=204, headers=HEADERS)

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[str]:
        """Serve the page on an open socket (``listen``); yields the page's address."""
        server = _Server(
            uvicorn.Config(self.app, log_level="error", lifespan="off", ws="none", timeout_graceful_shutdown=1)
        )
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


def _file(name: str) -> Any:
    async def send(request: Request) -> Response:
        content = resources.files(__package__).joinpath(name or "play.html").read_bytes()
        return Response(content, media_type=FILES[name], headers=HEADERS)

    return send


async def _body(request: Request) -> bytes:
    """What was posted, as much of it as can be an answer."""
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > _ANSWER.size:
            raise ValueError("too large for an answer")
    return content


def _all_parts(question: Question) -> tuple[Part, ...]:
    return (*question.rules, *(part for said in question.past for part in said.parts), *question.shown)


def _parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [
        {"text": part} if isinstance(part, str) else {"picture": part.key, "size": list(part.size)} for part in parts
    ]
