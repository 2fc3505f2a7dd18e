"""One OpenAI-compatible endpoint over HTTP: every exchange ends, in time and size, and every error is safe to show."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cluster.engines.api_errors import WORDS_SHOWN, EndpointError, clean, error_from, error_within
from cluster.engines.api_secrets import EPISODE, OF_TURN, TURN
from cluster.engines.redaction import redacted

MOST_BYTES = 2**24
"""An answer that is larger is no reply; reading it could fill the memory."""
MOST_ERROR_BYTES = 2**16
REFUSAL_SECONDS = 5.0
"""For the words of a refusal, which are waited for no longer: its status says whom it concerns without them."""
CONNECT_SECONDS = 30.0
HEALTH_SECONDS = 10.0
"""For an answer to the question whether the endpoint is there."""


def connect_seconds(timeout_seconds: float) -> float:
    """For a connection, and as long for its encryption: less than a try may take, as what was never sent is free.

    >>> connect_seconds(600.0), connect_seconds(6.0)
    (30.0, 2.0)
    """
    return min(CONNECT_SECONDS, timeout_seconds / 3)


class WithoutJournal:
    """The part of ``Connection`` that keeps a journal, for one that needs none: its requests end with the session."""

    @property
    def notes_reserved(self) -> bool:
        """No: nothing is to be noted."""
        return False

    def counted_before(self, body: Mapping[str, Any], name: str = "") -> float | None:
        """None: each request is new."""
        return None

    def note_reserved(self, body: Mapping[str, Any], name: str, most: float) -> None:
        """Nothing is to be noted."""

    def note_price(self, body: Mapping[str, Any], name: str, price: float, failed: bool = False) -> None:
        """Nothing is to be noted."""


class Endpoint(WithoutJournal):
    """Sends requests and reads answers; retries and limits are the engine's."""

    def __init__(
        self,
        base_url: str,
        key: str,
        headers: Mapping[str, str],
        secrets: Collection[str],
        timeout_seconds: float,
        connections: int,
    ) -> None:
        """Nothing is sent yet.

        Args:
            base_url: without a slash at its end.
            key: sent as a bearer token; none is sent if it is empty.
            headers: sent with every request; an ``Authorization`` of theirs takes the key's place. Values of ``OF_TURN``
                are replaced by what they name, and sent with turns alone.
            secrets: what no error and no reply may show.
            timeout_seconds: for one whole exchange, from connecting to the answer's last byte.
            connections: most at once.

        """
        import httpx

        self.base_url = base_url
        self._seconds = timeout_seconds
        self._of_turn = {name: value for name, value in headers.items() if value in OF_TURN}
        """Headers that tell a server with a memory which turn of which episode it is asked."""
        self._secrets = tuple(secret for secret in (key, *secrets) if secret)
        self._http_error = httpx.HTTPError
        self._no_connection = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
        sent = {"authorization": f"Bearer {key}"} if key else {}
        for name, value in headers.items():
            if name not in self._of_turn:
                sent[name.lower()] = value
        certificates = _certificates()
        try:
            self._client = httpx.AsyncClient(
                headers={**sent, "accept-encoding": "identity"},
                # the bound for the whole exchange is ours: the client's own count from byte to byte
                timeout=httpx.Timeout(None, connect=connect_seconds(timeout_seconds)),
                verify=certificates,
                limits=httpx.Limits(max_connections=connections + 2, max_keepalive_connections=connections + 2),
            )
        except (ValueError, ImportError):  # without the proxy's address, which may hold a password
            raise ValueError(
                "a proxy of the environment (all_proxy, https_proxy, http_proxy) cannot be used: write http://, https:// or "
                "socks5:// before its address; the latter needs pip install 'httpx[socks]'"
            ) from None
        self._heard = time.monotonic()

    @property
    def silent_seconds(self) -> float:
        """Since the endpoint last answered anything but that it is out of order."""
        return time.monotonic() - self._heard

    def redacted(self, text: str) -> str:
        """What a model wrote, without the secrets that the endpoint may have repeated in it."""
        return redacted(text, self._secrets)

    async def complete(self, body: Mapping[str, Any], name: str = "") -> Any:
        """The JSON that answers one chat completion request.

        Raises:
            EndpointError: there is none.
        """
        episode, _, turn = name.rpartition("-")
        told = {EPISODE: episode, TURN: turn}
        headers = {header.lower(): told[value] for header, value in self._of_turn.items()} if episode else {}
        return await self._exchange("POST", "/chat/completions", self._seconds, json.dumps(body).encode(), headers)

    async def check(self) -> None:
        """Ask for the list of models, which costs nothing; any answer shows that the endpoint is there.

        Raises:
            EndpointError: none came, or it says that it is out of order or refuses the key.
        """
        before = self._heard
        try:
            await self._exchange("GET", "/models", HEALTH_SECONDS)
        except EndpointError as error:
            knows_no_get = error.status == 501  # "not implemented", as Python's own server says by itself
            is_there = self._heard != before or knows_no_get
            if error.status == 401 or not is_there:
                raise

    async def close(self) -> None:
        """Close connections."""
        await self._client.aclose()

    async def _exchange(
        self,
        method: str,
        path: str,
        seconds: float,
        content: bytes | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        try:
            async with asyncio.timeout(seconds):
                headers = {"content-type": "application/json", **more} if content else {}
                async with self._client.stream(
                    method, self.base_url + path, content=content, headers=headers
                ) as response:
                    if response.status_code < 500:
                        self._heard = time.monotonic()
                    if response.status_code >= 300:
                        pieces = response.aiter_bytes() if _is_readable(response) else None
                        said = await refusal_words(pieces, self._http_error)
                        raise error_from(response.status_code, response.headers, said, self._secrets)
                    answer = await _read(response, MOST_BYTES)
        except TimeoutError:
            error = EndpointError(f"no whole answer within {seconds:g} s", may_cost=True)
        except self._http_error as caught:
            unsent = isinstance(caught, self._no_connection)
            what = "no connection" if unsent else "the connection broke"
            why = clean(str(caught), self._secrets)[:WORDS_SHOWN] or "no reason given"
            # A request that was sent may have been answered and billed, whatever became of the connection.
            error = EndpointError(f"{what}: {why}", may_cost=not unsent)
        else:
            return self._parse(answer)
        raise error  # out of the handlers, so that the client's own words, key and all, do not come along

    def _parse(self, answer: bytes) -> Any:
        if len(answer) > MOST_BYTES:
            raise EndpointError(f"the answer has more than {MOST_BYTES >> 20} MiB", unreadable=True)
        data: Any = None
        wrong: EndpointError | None = None
        try:
            data = json.loads(answer, parse_constant=_no_number, object_pairs_hook=_one_value_each)
        except RecursionError:
            wrong = EndpointError("the answer's JSON is nested too deeply", unreadable=True)
        except ValueError:
            wrong = EndpointError("the answer is no JSON, or names something twice", may_cost=True)
        # Raised outside the handlers: the decoder's error, which holds the whole answer, is not kept as the context.
        if wrong is not None:
            raise wrong
        # Some servers send an error with a status of success.
        within = error_within(data)
        if within is not None:
            status, said = within
            error = error_from(status, {}, json.dumps({**data, "error": said}), self._secrets)
            # As free as a refusal with a status of its own, unless a reply had begun.
            error.may_cost |= bool(data.get("choices"))
            raise error
        return data


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Those that the client trusts by itself; reading them takes a tenth of a second.

    Raises:
        ValueError: the environment names others, which cannot be read.
    """
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:
        named = " and ".join(name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name))
        raise ValueError(
            f"{named or 'certificates'}: cannot be read as certificates: {error.strerror or error}"
        ) from error


_ENCODINGS = ("identity", "gzip", "deflate")
"""One of them, once: each piece of a body is at most a thousand times as long when it is unpacked."""


def _no_number(word: str) -> float:
    raise ValueError(word)


def _one_value_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of tokens that are told twice nobody knows which ones are billed."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _is_readable(response: Any) -> bool:
    return response.headers.get("content-encoding", "identity").lower() in _ENCODINGS


async def refusal_words(pieces: AsyncIterator[bytes] | None, broken: type[Exception]) -> str:
    """What a refusal says, as far as it comes whole and in time.

    Args:
        pieces: Of its body; None where it cannot be read.
        broken: What the client raises where the connection breaks, or a body is not what its head says.
    """
    said = bytearray()
    if pieces is None:
        return ""
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            async for piece in pieces:
                said += piece
                if len(said) > MOST_ERROR_BYTES:
                    break
    except (TimeoutError, broken):
        pass
    return said.decode("utf-8", "replace")


async def _read(response: Any, most: int) -> bytes:
    """The body as far as ``most`` bytes, and a little more where it has more.

    Raises:
        EndpointError: it is packed in a way of which a few bytes can stand for gigabytes.
    """
    if not _is_readable(response):
        raise EndpointError("the answer's content-encoding is none of identity, gzip and deflate", unreadable=True)
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > most:
            break
    return bytes(body)
