"""The way to a provider through its client: HTTP without redirects and floods, an end to every exchange, safe errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from cluster.engines.api_answer import whole
from cluster.engines.api_endpoint import HEALTH_SECONDS, MOST_BYTES, WithoutJournal, connect_seconds, refusal_words
from cluster.engines.api_errors import EndpointError
from cluster.engines.providers.errors import endpoint_error
from cluster.engines.redaction import redacted


class _Engine(Protocol):
    """What a connection asks of an engine; see ``ProviderEngine``."""

    @property
    def address(self) -> str: ...
    async def ask(self, body: Mapping[str, Any]) -> Any: ...
    async def ask_whether_there(self) -> None: ...
    async def close_client(self) -> None: ...
    @staticmethod
    def status_of(status: int, words: str) -> int: ...


class ClientConnection(WithoutJournal):
    """The way to a provider through its client: every exchange ends in time, and every error is safe to show."""

    def __init__(self, engine: _Engine, secrets: list[str], timeout_seconds: float) -> None:
        """Nothing is sent yet."""
        self.base_url = engine.address
        self._engine = engine
        self._secrets = [secret for secret in secrets if secret]
        self._seconds = timeout_seconds
        self._heard = time.monotonic()

    @property
    def silent_seconds(self) -> float:
        """Since the provider last answered anything but that it is out of order."""
        return time.monotonic() - self._heard

    def redacted(self, text: str) -> str:
        """As ``Connection.redacted``."""
        return redacted(text, self._secrets)

    async def complete(self, body: Mapping[str, Any], name: str = "") -> Any:
        """As ``Connection.complete``."""
        return await self.call(lambda: self._engine.ask(body), self._seconds)

    async def check(self) -> None:
        """As ``Connection.check``; any answer but a refused key shows that the provider is there."""
        before = self._heard
        try:
            await self.call(self._engine.ask_whether_there, HEALTH_SECONDS)
        except EndpointError as error:
            if error.status == 401 or self._heard == before:
                raise

    async def call(self, ask: Callable[[], Any], seconds: float) -> Any:
        """What the client answers.

        Raises:
            EndpointError: it raised, or gave no answer within ``seconds``.
        """
        try:
            async with asyncio.timeout(seconds):
                answer = await ask()
        except TimeoutError:
            error = EndpointError(f"no whole answer within {seconds:g} s", may_cost=True)
        except Exception as caught:
            error = endpoint_error(caught, self._secrets, self._engine.status_of)
            if 0 < error.status < 500:
                self._heard = time.monotonic()
        else:
            self._heard = time.monotonic()
            return answer
        raise error  # out of the handlers, so that the client's own words, key and all, do not come along

    async def close(self) -> None:
        """Close connections."""
        await self._engine.close_client()


MOST_BATCH_BYTES = 2**30
"""What the answers of one batch job may take."""


def http_client(
    connections: int, timeout_seconds: float, batch: bool = False, mend: Callable[[bytes], bytes] | None = None
) -> Any:
    """An HTTP client for a provider's client: it follows no redirect, which would take the key along, and reads no flood.

    Args:
        connections: At once.
        timeout_seconds: For one whole exchange.
        batch: Whether answers are those of whole batch jobs.
        mend: Makes of each whole answer what the provider's client is given.
    """
    import httpx2

    most_bytes = MOST_BATCH_BYTES if batch else MOST_BYTES

    # the bound for a whole exchange is that of the connection: the client's own counts from byte to byte
    timeout = httpx2.Timeout(None, connect=connect_seconds(timeout_seconds))

    async def limit_connecting(request: Any) -> None:
        # Providers' clients replace the HTTP client's limits by their own.
        request.extensions["timeout"] = timeout.as_dict()

    async def bound(response: Any) -> None:
        # Nothing that is packed was asked for: a few bytes of it can stand for gigabytes.
        is_packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        if response.status_code >= 300:
            # The client gets status and headers whatever becomes of the body: they say whom the refusal concerns.
            body = response.stream
            said = await refusal_words(None if is_packed else aiter(body), httpx2.HTTPError)
            await body.aclose()
            response.headers.pop("content-encoding", None)
            response.stream = httpx2.ByteStream(said.encode())
            return
        if is_packed:
            raise EndpointError("the answer is compressed, which was not asked for", unreadable=True)
        response.stream = _Bounded(response.stream)
        if mend is not None:
            response.stream = _Mended(response.stream)

    class _Bounded(httpx2.AsyncByteStream):
        """A body that ends with an error after ``most_bytes``."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            read = 0
            async for piece in self._stream:
                read += len(piece)
                if read > most_bytes:
                    raise EndpointError(f"the answer has more than {most_bytes >> 20} MiB", unreadable=True)
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    class _Mended(_Bounded):
        """A whole body, mended."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            assert mend is not None
            yield mend(b"".join([piece async for piece in self._stream]))

    return httpx2.AsyncClient(
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        timeout=timeout,
        limits=httpx2.Limits(max_connections=connections + 2, max_keepalive_connections=connections + 2),
        event_hooks={"request": [limit_connecting], "response": [bound]},
    )


def plain(answer: Any) -> Any:
    """A client's typed answer as JSON.

    Raises:
        EndpointError: the client returned something else.
    """
    if not hasattr(answer, "model_dump"):
        raise EndpointError(f"the answer is {type(answer).__name__}, not what was asked for", unreadable=True)
    return _whole(answer.model_dump(mode="json", exclude_none=True, warnings=False))


def _whole(value: Any) -> Any:
    """JSON without halves of surrogate pairs, which no client sends back; ``model_dump_json`` fails at them."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {whole(name): _whole(each) for name, each in value.items()}
    return value
