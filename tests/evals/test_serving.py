"""A server ends although a client never ends its request, without a traceback."""

import asyncio
import logging
import socket

import pytest
import uvicorn

from evals.serving import KnownHosts, server_config


async def test_a_server_ends_without_a_word_though_half_a_request_is_open(capsys):
    begun = asyncio.Event()

    async def app(scope, receive, send):
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(app, grace_seconds=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server._serve([listener]))
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{")
        await begun.wait()
        server.should_exit = True
        await asyncio.wait_for(serving, 10)
        await asyncio.sleep(0)
    logging.getLogger("uvicorn.error").error("a defect")
    assert capsys.readouterr().err == "ERROR:    a defect\n"


@pytest.mark.parametrize(("files", "seconds"), [(4, 1000.0), (1000, 0.0)])
async def test_connections_over_which_nothing_comes_are_closed_and_others_are_answered(monkeypatch, files, seconds):
    """The oldest ones where they are too many, all after some time."""
    monkeypatch.setattr("evals.serving.resource.getrlimit", lambda kind: (files, files))
    monkeypatch.setattr("evals.serving.SILENT_SECONDS", seconds)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(app, grace_seconds=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server._serve([listener]))
    silent = [await asyncio.open_connection(*listener.getsockname()) for _ in range(20)]
    closed = silent[:-3] if seconds else silent
    async with asyncio.timeout(10):
        assert [await reader.read() for reader, _ in closed] == [b""] * len(closed)
        if seconds:
            asked, writer = silent[-1]
            for _ in range(2):
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await asked.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        assert not any(reader.at_eof() for reader, _ in silent if (reader, _) not in closed)
        server.should_exit = True
        await serving
    for _, writer in silent:
        writer.close()


def test_that_no_more_files_can_be_opened_is_said_once_a_minute(caplog, monkeypatch):
    now = 5.0
    monkeypatch.setattr("evals.serving.time.monotonic", lambda: now)
    monkeypatch.setattr("evals.serving._OUT_OF_HANDLES._told", -100.0)
    server_config(None)
    for now in (5.0, 5.1, 64.9, 65.0):  # noqa: B007
        logging.getLogger("asyncio").error("socket.accept() out of system resource", exc_info=OSError(24, "too many"))
    logging.getLogger("asyncio").error("Exception in callback BaseSelectorEventLoop._start_serving(...)")
    logging.getLogger("asyncio").error("something else")
    said = "too many connections: new ones wait (ulimit -n bounds them)"
    assert [(each.getMessage(), each.exc_info) for each in caplog.records] == (
        [(said, None), (said, None), ("something else", None)]
    )


def test_only_requests_are_asked_for_the_name_under_which_they_come():
    def answered(kind, host):
        passed, sent = [], []

        async def app(scope, receive, send):
            passed.append(scope["type"])

        async def send(message):
            sent.append(message.get("status"))

        scope = {"type": kind, "headers": [(b"host", host)]}
        asyncio.run(KnownHosts(app, ["known"])(scope, None, send))
        return passed, sent[:1]

    for kind in ("http", "websocket", "lifespan"):
        assert answered(kind, b"Known:80") == answered(kind, b"127.0.0.1") == ([kind], [])
    assert answered("lifespan", b"other") == (["lifespan"], [])
    assert answered("http", b"other") == ([], [400])
    assert answered("websocket", b"other")[0] == []
