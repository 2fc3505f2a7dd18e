"""What all servers do: refuse host names of others, and at their end cut off who still sends a request, without a traceback."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import re
import resource
import socket
import time
from collections.abc import Callable, Collection, Sized
from typing import Any, Final, cast

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import WSProtocolType
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.server import ServerState

THIS_MACHINE_ALONE: Final = ("127.0.0.1", "::1", "localhost")
"""Hosts at which no other machine reaches a server."""
GRACE_SECONDS: Final = 2
"""Without a limit, a client that never ends its request keeps the server running."""
SILENT_SECONDS: Final = 10.0
"""A connection over which nothing has come for so long after it was opened is closed."""
BACKLOG: Final = 64
"""Connections that are taken at a time, so that there are never many more than there should be."""
TOLD_EVERY: Final = 60.0
"""Seconds after which it is said again that no connection can be opened; asyncio would say so thousands of times a second."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, by IPv4 or IPv6 as the host's address is, and by both at ``::``; port 0 takes any free one.

    Raises:
        ValueError: that is not possible.
    """
    try:
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
        by_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=by_both)
    except (OSError, OverflowError, UnicodeError) as error:  # UnicodeError: no host can have this name
        raise ValueError(f"cannot listen on {host}:{port}: {error}") from error


def server_config(
    app: Any, grace_seconds: int = GRACE_SECONDS, ws: WSProtocolType = "none", **options: Any
) -> uvicorn.Config:
    """The configuration of a server for an application; ``options`` are those of uvicorn."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    logging.getLogger("asyncio").addFilter(_OUT_OF_HANDLES)
    silent = _Silent()
    make: Callable[..., asyncio.Protocol] = AutoHTTPProtocol

    def protocol(server_state: ServerState, **given: Any) -> asyncio.Protocol:
        then = make(server_state=server_state, **given)
        return _Awaited(then, silent, server_state.connections)

    # uvicorn calls what it takes for a class, and no more.
    http = cast("type[asyncio.Protocol]", protocol)
    return uvicorn.Config(app, http=http, ws=ws, backlog=BACKLOG, timeout_graceful_shutdown=grace_seconds, **options)


class _Silent:
    """The connections of a server over which nothing has come yet, the oldest first.

    They cost their client nothing, and would take all files that the server may open.
    """

    def __init__(self) -> None:
        self._timers: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def add(self, transport: asyncio.Transport, connections: int) -> None:
        """Close a new connection later, unless it is removed; and the oldest one now, where there are too many in all.

        A quarter of the files that this process may open are left to what it reads and writes.
        """
        loop = asyncio.get_running_loop()
        self._timers[transport] = loop.call_later(SILENT_SECONDS, self._close, transport)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_limited = files != resource.RLIM_INFINITY
        if is_limited and connections > files * 3 // 4:
            self._close(next(iter(self._timers)))

    def remove(self, transport: asyncio.Transport) -> None:
        """Something has come, or the connection is closed."""
        timer = self._timers.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def _close(self, transport: asyncio.Transport) -> None:
        self.remove(transport)
        transport.close()


class _Awaited(asyncio.Protocol):
    """A connection until something comes over it; then uvicorn's own protocol takes it."""

    def __init__(self, then: asyncio.Protocol, silent: _Silent, connections: Sized) -> None:
        self._then, self._silent, self._connections = then, silent, connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._then.connection_made(transport)  # at its end, the server closes the connections that it knows
        self._silent.add(self._transport, len(self._connections))

    def data_received(self, data: bytes) -> None:
        self._silent.remove(self._transport)
        self._transport.set_protocol(self._then)
        self._then.data_received(data)

    def eof_received(self) -> bool | None:
        return self._then.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._silent.remove(self._transport)
        self._then.connection_lost(exc)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record says more than that the server's end has cut a request off."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    return "timeout graceful shutdown exceeded" not in record.getMessage()


class _OutOfHandles(logging.Filter):
    """Says in one line, now and then, that this process may open no more files."""

    def __init__(self) -> None:
        super().__init__()
        self._told = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "_start_serving" in message:  # what was to be tried again, after the end of the server
            return False
        if "accept() out of system resource" not in message:
            return True
        record.msg, record.args, record.exc_info = (
            "too many connections: new ones wait (ulimit -n bounds them)",
            (),
            None,
        )
        since = time.monotonic() - self._told
        if since >= TOLD_EVERY:
            self._told = time.monotonic()
        return since >= TOLD_EVERY


_OUT_OF_HANDLES = _OutOfHandles()


_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
"""A ``Host`` header, HOST or HOST:PORT (RFC 9110, section 7.2), without what browsers never send: user names, paths."""


def is_known_host(headers: Collection[str], hosts: Collection[str]) -> bool:
    """Whether a request has one ``Host`` header, and it holds an IP address or one of the names."""
    if len(headers) != 1:
        return False
    [header] = headers
    found = _HOST.fullmatch(header)
    if found is None:
        return False
    if found["name"] is not None and found["name"].lower() in hosts:
        return True
    try:
        address = ipaddress.ip_address(found["name"] or found["ipv6"])
    except ValueError:
        return False
    # IPv6 addresses stand in brackets, and only they do.
    return (address.version == 6) == (found["ipv6"] is not None)


def is_own_page(origins: Collection[str], host: str) -> bool:
    """Whether a request has no ``Origin`` header, as those of programs, or one that names the host which it addresses."""
    return not origins or list(origins) in ([f"http://{host}"], [f"https://{host}"])


class AnyTextResponse(JSONResponse):
    """JSON of texts that may be anybody's: a name on disk that is not UTF-8 holds halves of surrogate pairs."""

    def render(self, content: Any) -> bytes:
        """The JSON; half a surrogate pair stands in it as JSON's escape."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return with_escapes(text)


def with_escapes(json_text: str) -> bytes:
    r"""JSON text in UTF-8, halves of surrogate pairs as JSON's escapes.

    >>> with_escapes('["\udce9"]')
    b'["\\udce9"]'
    """
    return json_text.encode("utf-8", "backslashreplace")


class KnownHosts:
    """Middleware against DNS rebinding, where a page elsewhere has its own name resolved to this machine.

    A server may be addressed by its names and by any IP address; requests under other names are refused, and so are
    WebSockets of other servers' pages, which browsers open to anybody.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """``hosts`` are names in lower case."""
        self._app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 400."""
        text = ""
        if scope["type"] in ("http", "websocket"):
            text = self._refusal(Headers(scope=scope), is_websocket=scope["type"] == "websocket")
        if text:
            await PlainTextResponse(text, 400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers, *, is_websocket: bool) -> str:
        hosts = headers.getlist("host")
        if not is_known_host(hosts, self._hosts):
            return "This server is not known under this host name: use the address that it has printed."
        if is_websocket and not is_own_page(headers.getlist("origin"), hosts[0]):
            return "Pages of other servers may open no connection."
        return ""
