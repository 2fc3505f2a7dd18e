"""Bedrock: keys as Amazon gives them, and exchanges of boto3, which nothing ends."""

import asyncio
import json
import socket
from types import SimpleNamespace

import pytest
from botocore.awsrequest import AWSResponse

from cluster.engines.api_secrets import check_no_keys
from cluster.engines.base import Sampling
from cluster.engines.providers.bedrock import BedrockEngine
from evals.types import message
from tests.cluster.providers.engines import engine, request

API_KEY = "AWS_BEARER_TOKEN_BEDROCK"
TOKEN = "ABSKQmVkcm9ja0FQSUtleS1zZWNyZXQ"
MODEL = {"model": "us.anthropic.claude-opus-5-v1:0"}


def _without_credentials(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")


@pytest.mark.parametrize("beside_credentials", [False, True])
async def test_an_api_key_is_sent_and_redacted_from_replies(stub, monkeypatch, beside_credentials):
    if not beside_credentials:
        _without_credentials(monkeypatch)
    monkeypatch.setenv(API_KEY, TOKEN)
    BedrockEngine.check_environment(MODEL)
    made = BedrockEngine(sampling=Sampling(temperature=1.0), **MODEL)
    sent = []

    def answer(request, **_):
        sent.append(request.headers["Authorization"])
        content = [{"text": f"Your key is {TOKEN}."}]
        body = json.dumps({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "end_turn"})
        raw = SimpleNamespace(stream=lambda **_: iter([body.encode()]))
        return AWSResponse(request.url, 200, {}, raw)

    made._client.meta.events.register("before-send.bedrock-runtime.Converse", answer)
    reply = await made.complete(request())
    assert (sent, reply.text) == ([f"Bearer {TOKEN}".encode()], "Your key is [redacted].")
    with pytest.raises(ValueError, match="API key"):
        check_no_keys({"model": {"name": f"my {TOKEN}"}})


def test_what_boto3_could_not_send_is_refused_before_the_run(stub, monkeypatch):
    for key, base_url, said in (
        ("", None, "cannot be sent"),
        (f"{TOKEN}\n", None, "cannot be sent"),
        ("two words", None, "cannot be sent"),
        (TOKEN, "http://127.0.0.1:1", "must begin with https://"),
    ):
        monkeypatch.setenv(API_KEY, key)
        with pytest.raises(ValueError, match=said) as refused:
            BedrockEngine.check_environment({**MODEL, "base_url": base_url})
        assert TOKEN not in str(refused.value) and "two words" not in str(refused.value)
    monkeypatch.delenv(API_KEY)
    _without_credentials(monkeypatch)
    with pytest.raises(ValueError, match=API_KEY):
        BedrockEngine.check_environment(MODEL)


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"])
def test_an_address_that_no_run_would_record_is_refused(stub, monkeypatch, variable):
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    with pytest.raises(ValueError, match=f"{variable} is set, but no run would record it"):
        BedrockEngine.check_environment(MODEL)
    BedrockEngine.check_environment({**MODEL, "base_url": "http://127.0.0.1:1"})


async def test_exchanges_that_never_end_keep_no_later_one_waiting(stub):
    endless = []

    def begin_an_answer(handler):
        handler.send_response(200)
        handler.send_header("content-length", "100000")
        handler.end_headers()
        handler.close_connection = False
        endless.append(handler.connection)

    stub.script = [begin_an_answer] * 4
    made = engine("bedrock", stub, max_num_seqs=1)
    body = made.body(request())
    asked = [asyncio.create_task(made.ask(body)) for _ in range(4)]
    try:
        async with asyncio.timeout(60):
            while len(endless) < 4:
                await asyncio.sleep(0.01)
        for task in asked:
            task.cancel()
        answer = await made.ask(body)
    finally:
        for connection in endless:
            connection.shutdown(socket.SHUT_RDWR)
    assert answer["output"]["message"]["content"][-1] == {"text": "A"}


async def test_bytes_that_are_none_are_no_failure_of_the_endpoint(stub):
    made = engine("bedrock", stub, extra_body={"bytes": "zz"})
    with pytest.raises(Exception, match="must be base64"):
        await made.complete(request(chat=(message("user", "Go."),)))
    assert stub.bodies == []
