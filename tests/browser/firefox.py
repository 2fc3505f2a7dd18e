"""Firefox without a driver: it speaks WebDriver BiDi itself (https://w3c.github.io/webdriver-bidi)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

NAMES = ("firefox-esr", "firefox")
START_SECONDS = 120


class Firefox:
    """One page of a headless Firefox."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._calls = 0
        self._context = ""
        self.complaints: list[str] = []
        """Errors that pages have logged."""

    async def call(self, method: str, **params: Any) -> Any:
        """Send a command; its result.

        Raises:
            RuntimeError: the browser refuses it.
        """
        self._calls += 1
        await self._socket.send(json.dumps({"id": self._calls, "method": method, "params": params}))
        while True:
            said = json.loads(await self._socket.recv())
            if said.get("method") == "log.entryAdded" and said["params"]["level"] == "error":
                self.complaints.append(said["params"]["text"])
            if said.get("id") == self._calls:
                if said["type"] == "error":
                    raise RuntimeError(said["message"])
                return said["result"]

    async def begin(self, width: int, height: int) -> None:
        """Start the session with a window of this size."""
        await self.call("session.new", capabilities={})
        await self.call("session.subscribe", events=["log.entryAdded"])
        tree = await self.call("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]
        await self.call(
            "browsingContext.setViewport", context=self._context, viewport={"width": width, "height": height}
        )

    async def open(self, address: str) -> None:
        """Load a page."""
        await self.call("browsingContext.navigate", context=self._context, url=address, wait="complete")

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, or of the promise that it gives, by way of JSON."""
        said = await self.call(
            "script.evaluate",
            expression=f"Promise.resolve({expression}).then(value => JSON.stringify(value ?? null))",
            target={"context": self._context},
            awaitPromise=True,
        )
        if said["type"] != "success":
            raise RuntimeError(said["exceptionDetails"]["text"])
        return json.loads(said["result"]["value"])

    async def until(self, expression: str) -> None:
        """Wait for an expression to be true.

        Raises:
            TimeoutError: it has not become true in half a minute.
        """
        async with asyncio.timeout(30):
            while not await self.evaluate(expression):
                await asyncio.sleep(0.05)

    async def screenshot(self, path: Path) -> None:
        """What the window shows, as PNG."""
        said = await self.call("browsingContext.captureScreenshot", context=self._context)
        path.write_bytes(base64.b64decode(said["data"]))


def installed() -> str | None:
    """The path of Firefox; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.asynccontextmanager
async def firefox(width: int = 1400, height: int = 900) -> AsyncIterator[Firefox]:
    """A headless Firefox with a fresh profile."""
    import websockets

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = (installed() or NAMES[0], "--headless", "--no-remote", "--profile", profile)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, "--remote-debugging-port", "0", stdout=asyncio.subprocess.DEVNULL, stderr=pipe
        )
        try:
            address = await asyncio.wait_for(_address_of(process), START_SECONDS)
            assert process.stderr
            reading = asyncio.create_task(process.stderr.read())  # a full pipe would stop the browser
            async with websockets.connect(f"{address}/session", max_size=None) as socket:
                browser = Firefox(socket)
                await browser.begin(width, height)
                yield browser
            reading.cancel()
        finally:
            process.terminate()
            await process.wait()


async def _address_of(process: asyncio.subprocess.Process) -> str:
    assert process.stderr
    async for line in process.stderr:
        found = re.search(rb"ws://\S+", line)
        if found:
            return found[0].decode()
    raise RuntimeError("Firefox ended before it could be driven")
