"""Where servers listen, how their addresses are written, and by which names they may be addressed."""

import http.client
import socket
import threading

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

from cluster.errors import UserError
from cluster.listening import address_of, listen
from evals.serving import KnownHosts, server_config


def answers(hosts):
    """A server that says yes to who addresses it by a name that it knows."""
    route = Route("/", lambda request: PlainTextResponse("yes"))
    return Starlette(routes=[route], middleware=[Middleware(KnownHosts, hosts=hosts)])


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("::1", "http://[::1]:80"),
        ("a.b", "http://a.b:80"),
        *((host, "http://here:80") for host in ("", "0.0.0.0", "::")),
    ],
)
def test_an_address_can_be_opened_as_it_is_written(host, address):
    assert address_of(host, 80, of_all="here") == address
    assert address_of("0.0.0.0", 80) == "http://localhost:80"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_server_answers_at_the_address_that_is_written(host):
    try:
        listener = listen(host, 0)
    except UserError:
        if host == "::1":
            pytest.skip("this machine has no IPv6")
        raise
    address = address_of(host, listener.getsockname()[1])
    server = uvicorn.Server(server_config(answers(["localhost"]), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        connection = http.client.HTTPConnection(address.removeprefix("http://"))
        connection.request("GET", "/")
        assert (connection.getresponse().status, connection.host in (host, f"[{host}]")) == (200, True)
        connection.close()
    finally:
        server.should_exit = True
        thread.join()


def test_all_addresses_are_those_of_both_kinds():
    """The address that is written is ``localhost``, which may be either."""
    try:
        listener = listen("::", 0)
    except UserError:
        pytest.skip("this machine has no IPv6")
    with listener:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, listener.getsockname()[1]), timeout=10).close()


def test_where_nobody_can_listen_is_told():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        for host, number in (("127.0.0.1", port), ("no.such.host.invalid", 0), ("a" * 70, 0), ("127.0.0.1", 70000)):
            with pytest.raises(UserError, match=f"cannot listen on {host}:{number}: "):
                listen(host, number)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("known", "KNOWN:80", "10.0.0.1", "10.0.0.1:8000", "[::1]", "[::1]:80")),
        *(
            (host, 400)
            for host in ("unknown", "known.evil", "", "::1", "[10.0.0.1]", "a@known", "known/", "known:port")
        ),
    ],
)
def test_a_server_is_addressed_by_its_names_and_by_ip_addresses(host, status):
    answered = TestClient(answers(["known"])).get("/", headers={"Host": host})
    assert answered.status_code == status
    if status == 400:
        assert answered.text == "This server is not known under this host name: use the address that it has printed."


def test_another_name_opens_no_websocket_either():
    route = WebSocketRoute("/", said_yes)
    client = TestClient(Starlette(routes=[route], middleware=[Middleware(KnownHosts, hosts=["known"])]))
    with client.websocket_connect("/", headers={"Host": "known"}) as connection:
        assert connection.receive_text() == "yes"
    with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect("/", headers={"Host": "unknown"}):
        pass
    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    ("origin", "opens"),
    [
        *((origin, True) for origin in (None, "http://localhost:8000", "https://localhost:8000")),
        *(
            (origin, False)
            for origin in ("http://evil.example", "http://localhost", "http://127.0.0.1:8000", "null", "")
        ),
    ],
)
def test_only_programs_and_a_server_s_own_pages_open_a_websocket(origin, opens):
    route = WebSocketRoute("/", said_yes)
    client = TestClient(Starlette(routes=[route], middleware=[Middleware(KnownHosts, hosts=["localhost"])]))
    headers = {"Host": "localhost:8000"} | ({} if origin is None else {"Origin": origin})
    if opens:
        with client.websocket_connect("/", headers=headers) as connection:
            assert connection.receive_text() == "yes"
        return
    with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect("/", headers=headers):
        pass
    assert (refused.value.status_code, refused.value.text) == (400, "Pages of other servers may open no connection.")


async def said_yes(connection):
    await connection.accept()
    await connection.send_text("yes")
    await connection.close()
