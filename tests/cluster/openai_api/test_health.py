"""Every exchange ends, whatever the endpoint does; and whether it is there is asked, for nothing."""

import asyncio
import gzip
import sys
import time

import pytest

from cluster.engines import api_endpoint, api_engine
from cluster.engines.base import EngineError
from cluster.engines.openai_api import OpenAIEngine
from tests.cluster.openai_api.stub import completion, engine, request


def drip(handler):
    """One blank after the other, as some endpoints send to keep a connection, and never an answer."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def flood(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 1000)


@pytest.mark.parametrize("endless", [drip, "never"])
async def test_a_request_that_would_last_for_ever_is_given_up(stub, endless):
    stub.script = [endless, "answer"]
    made = engine(stub, timeout_seconds=0.3)
    assert (await asyncio.wait_for(made.complete(request()), 3)).text == "hello"
    assert len(stub.bodies) == 2


async def test_an_answer_without_end_is_not_kept(stub, monkeypatch):
    monkeypatch.setattr(api_endpoint, "MOST_BYTES", 100_000)
    stub.script = [flood, completion(content="x" * 90_000)]
    made = engine(stub)
    assert len((await asyncio.wait_for(made.complete(request()), 5)).text) == 90_000
    assert len(stub.bodies) == 2


async def test_an_answer_that_is_packed_twice_is_not_unpacked(stub):
    """A few bytes of it can stand for gigabytes."""

    def packed(encoding, times):
        content = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'
        for _ in range(times):
            content = gzip.compress(content)

        def send(handler):
            handler.send_response(200)
            handler.send_header("content-encoding", encoding)
            handler.send_header("content-length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)

        return send

    stub.script = [packed("gzip, gzip", 2), packed("GZIP", 1)]
    made = engine(stub)
    assert (await asyncio.wait_for(made.complete(request()), 5)).text == "hello"
    assert len(stub.bodies) == 2, "the first answer could not be read"


async def test_an_error_without_end_is_not_kept(stub, monkeypatch):
    def long_error(handler):
        handler.send_response(400)
        handler.end_headers()
        for _ in range(100_000):
            handler.wfile.write(b"no " * 1000)

    stub.script = [long_error]
    with pytest.raises(Exception, match="no no no") as error:
        await engine(stub).complete(request())
    assert len(str(error.value)) < 1000


async def test_start_asks_whether_the_endpoint_is_there_and_takes_the_key(stub):
    await engine(stub).start()
    assert stub.asked_for_models == 1 and not stub.bodies
    for status in (404, 405, 501):  # not every endpoint lists its models
        stub.models = (status, b"{}")
        await engine(stub).start()
    stub.models = (401, b'{"error": {"message": "Incorrect API key"}}')
    with pytest.raises(EngineError, match="Incorrect API key"):
        await engine(stub).start()
    stub.server.server_close()
    with pytest.raises(EngineError, match="no connection"):
        await OpenAIEngine(engine(stub)._form.sampling, "stub", "http://127.0.0.1:9/v1").start()


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble", [(503, b"{}"), lambda handler: time.sleep(1), lambda handler: handler.connection.close()]
)
async def test_health_fails_after_a_long_outage_and_rides_out_a_short_one(stub, monkeypatch, trouble):
    monkeypatch.setattr(api_engine, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(api_endpoint, "HEALTH_SECONDS", 0.2)
    made = engine(stub)
    stub.models = trouble
    await made.check_health()
    monkeypatch.setattr(api_engine, "OUTAGE_SECONDS", 0.0)
    with pytest.raises(EngineError, match="has not answered"):
        await made.check_health()


async def test_health_costs_nothing(stub, monkeypatch):
    monkeypatch.setattr(api_engine, "QUIET_SECONDS", 0.0)
    made = engine(stub, prompt_price=1000.0, spend_cap=1.0)
    await made.start()
    await made.check_health()
    assert made._spend.spent == 0.0 and not stub.bodies


def test_a_missing_package_is_named(stub, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ValueError, match="pip install httpx"):
        OpenAIEngine.check_settings({"model": "stub"})
