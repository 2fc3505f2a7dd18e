"""Secrets stay out of settings, errors and the ledger."""

import base64
import re
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.model import make_model
from cluster.config.settings import load_settings
from cluster.engines import api_endpoint
from cluster.engines.api_errors import clean
from cluster.engines.base import EngineClosedError, Sampling
from cluster.engines.openai_api import OpenAIEngine
from cluster.engines.redaction import redacted
from cluster.errors import UserError
from evals.replies.reasoning import separate_reasoning
from evals.types import PlayerError
from tests.cluster.openai_api.stub import KEY, completion, engine, request


@pytest.mark.parametrize("shown", [KEY, KEY[:20] + "*******", "sk-*******" + KEY[-4:], KEY[3:12]])
async def test_a_refused_key_stops_everything_and_is_not_repeated_in_words(stub, shown):
    stub.script = [(401, f"Incorrect API key provided: {shown}.", {})]
    with pytest.raises(EngineClosedError, match="Incorrect API key") as error:
        await engine(stub).complete(request())
    assert not any(KEY[start : start + 6] in str(error.value) for start in range(len(KEY) - 5))
    assert KEY[-4:] not in str(error.value)
    assert stub.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_blanks_around_a_key_do_no_harm(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    await engine(stub).complete(request())
    assert stub.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", [None, "", "\n"])
async def test_only_an_endpoint_of_ones_own_does_without_a_key(stub, monkeypatch, key):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("MY_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(ValueError, match="MY_KEY is not set"):
        OpenAIEngine(Sampling(), model="stub", api_key_env="MY_KEY")
    assert (await engine(stub, api_key_env="MY_KEY").complete(request())).text == "hello"


SECRET = "hunter2-hunter2-hunter2"
PLAIN = ["suite=kumo", "suite.domains=[medical]", "model=openai", "model.engine.model=stub"]


@pytest.mark.parametrize(
    "override",
    [
        f"model.engine.base_url=http://user:{SECRET}@127.0.0.1:8000/v1",
        f"model.engine.base_url=http://{SECRET}@127.0.0.1/v1",
        f"model.engine.base_url=http://{SECRET}@[::1]/v1",
        f"model.engine.base_url='http://127.0.0.1/v1?api-key={SECRET}'",
        f"model.engine.base_url='http://127.0.0.1/v1#{SECRET}'",
        f"model.engine.base_url='http://127.0.0.1:{SECRET}/v1'",
        f"model.engine.base_url='http://[{SECRET}/v1'",
        f"model.engine.base_url='http://host\\@{SECRET}/v1'",
        f"model.engine.base_url={SECRET}",
        f"model.engine.api_key_env={SECRET}",
        "model.engine.api_key_env=gsk_hunter2hunter2hunter2",
        f"model.engine.headers={{Authorization: 'Bearer {SECRET}'}}",
        f"model.engine.headers={{X-Api-Key: {SECRET}}}",
        f"model.engine.headers={{Cookie: {SECRET}}}",
        f"model.engine.headers='Authorization: {SECRET}'",
        f"model.engine.headers={{X-Title: 'Bearer {SECRET}'}}",
        "model.engine.headers={X-Title: env:gsk_hunter2hunter2hunter2}",
        f"model.engine.headers={{Authorization: [{SECRET}]}}",
        f"model.engine.extra_body={{api_key: {SECRET}}}",
        f"model.engine.extra_body={{provider: {{options: [{{Authorization: {SECRET}}}]}}}}",
        "model.engine.model=sk-proj-hunter2-hunter2-hunter2",
        "model.engine.max_tries=sk-proj-hunter2-hunter2-hunter2",
        f"+model.engine.api_key={SECRET}",
    ],
)
def test_a_secret_in_the_settings_is_refused_and_not_repeated(monkeypatch, override):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError) as error:
        load_settings([*PLAIN, override])
    assert "hunter2" not in str(error.value)
    assert "model.engine" in str(error.value)
    assert error.value.__cause__ is None


def test_the_key_itself_is_known_in_any_setting(monkeypatch):
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2")
    with pytest.raises(UserError, match=r"model\.engine\.reasoning_effort") as error:
        load_settings([*PLAIN, "model.engine.api_key_env=MY_KEY", "model.engine.reasoning_effort=hunter2-hunter2"])
    assert "hunter2" not in str(error.value)


def test_plain_settings_are_no_secrets(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    load_settings(
        [
            *PLAIN,
            "model.engine.base_url=https://some-host.example:8000/some/path/v1",
            "model.engine.headers={X-Title: raycade, Authorization: env:MY_TOKEN}",
            "model.engine.extra_body={max_thinking_tokens: 5, thinking: {type: enabled}}",
        ]
    )


def test_an_address_that_no_run_would_record_is_refused(monkeypatch, stub):
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://{SECRET}@host/v1")
    with pytest.raises(ValueError, match="OPENAI_BASE_URL") as error:
        OpenAIEngine(Sampling(), model="stub")
    assert SECRET not in str(error.value)
    assert engine(stub)._endpoint.http.base_url == stub.url, "one that is given is the run's"


async def test_headers_are_sent_and_secret_ones_come_from_the_environment(stub, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "Basic hunter2-hunter2")
    made = engine(stub, headers={"X-Title": "games", "X-Other-Key": "env:MY_TOKEN"})
    await made.complete(request())
    sent = {name.lower(): value for name, value in stub.headers[0].items()}
    assert (sent["x-title"], sent["x-other-key"]) == ("games", "Basic hunter2-hunter2")
    assert sent["authorization"] == f"Bearer {KEY}"


async def test_a_header_of_ones_own_takes_the_keys_place_and_is_kept_out_of_errors(stub, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "Basic hunter2-hunter2")
    monkeypatch.delenv("OPENAI_API_KEY")
    made = OpenAIEngine(Sampling(), "stub", stub.url, headers={"Authorization": "env:MY_TOKEN"})
    stub.script = [(401, "wrong: Basic hunter2-hunter2", {})]
    with pytest.raises(EngineClosedError) as error:
        await made.complete(request())
    assert stub.headers[0]["authorization"] == "Basic hunter2-hunter2"
    assert "hunter2" not in str(error.value)


NASTY = "\x1b[31mred\x1b[0m \x1b]0;title\x07 a\u202eb\u2066c\u200bd \x00\x07\x9b2J \r\n e\u2028f"


@pytest.mark.parametrize("status", [400, 401])
async def test_control_characters_of_an_endpoint_reach_nobody(stub, status):
    stub.script = [(status, NASTY, {})]
    with pytest.raises((PlayerError, EngineClosedError)) as error:
        await engine(stub).complete(request())
    assert "red" in str(error.value) and "abcd" in str(error.value)
    assert str(error.value).isprintable() and "[31m" not in str(error.value)


@pytest.mark.parametrize("text", [f"your key {KEY[:9]}\u200b{KEY[9:]}", f"your key {KEY[:9]}\x1b[1m{KEY[9:]}"])
def test_a_key_is_found_between_control_characters(text):
    assert "abcdefgh" not in clean(text, [KEY]) and KEY[-4:] not in clean(text, [KEY])


@pytest.mark.parametrize("echo", [KEY, f"Bearer {KEY}", KEY[:20], KEY[5:], "Basic hunter2-hunter2", "hunter2-hunter2"])
async def test_a_secret_that_an_endpoint_repeats_in_a_reply_is_not_kept(stub, monkeypatch, echo):
    monkeypatch.setenv("MY_TOKEN", "Basic hunter2-hunter2")
    stub.script = [completion(content=f"I got {echo}. Move 3", message={"reasoning": f"Hm, {echo}!"})]
    reply = await engine(stub, headers={"X-Other": "env:MY_TOKEN"}).complete(request())
    for text in (reply.text, reply.reasoning):
        assert "[redacted]" in text and "hunter2" not in text
        assert not any(KEY[start : start + 12] in text for start in range(len(KEY) - 11))
    assert reply.text.startswith("I got") and reply.text.endswith(". Move 3")


ENCODINGS = {
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of a header": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "base64 for addresses": lambda key: base64.urlsafe_b64encode(f"??>{key}".encode()).decode(),
    "hexadecimal": lambda key: key.encode().hex().upper(),
    "percent": lambda key: "".join(f"%{ord(sign):02X}" for sign in key),
    "quoted": lambda key: urllib.parse.quote(key, safe="").replace("-", "%2D"),
    "JSON": lambda key: "".join(f"\\u{ord(sign):04x}" for sign in key),
    "HTML": lambda key: key.replace("-", "&#45;"),
    "bracketed": lambda key: f"<{key}>",
    "spelled": lambda key: " ".join(key),
    "capitals": str.upper,
    "marks of gpt-oss": lambda key: "<|end|>".join(key[place : place + 9] for place in range(0, len(key), 9)),
    "begins anew": lambda key: key[:9] + "<|start|>assistant" + key[9:],
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("status", [200, 400])
async def test_a_secret_is_hidden_in_any_encoding(stub, encoding, status):
    echo = ENCODINGS[encoding](KEY)
    if status == 200:
        stub.script = [completion(content=f"I got {echo}. Move 3")]
        shown = separate_reasoning(await engine(stub).complete(request())).text
        assert shown.startswith("I got") and shown.endswith(". Move 3") and "[redacted]" in shown
    else:
        stub.script = [(400, f"Wrong: {echo}", {})]
        with pytest.raises(PlayerError) as error:
            await engine(stub).complete(request())
        shown = str(error.value)
    assert not any(echo[place : place + 8] in shown for place in range(len(echo) - 7)) and KEY not in shown


@pytest.mark.parametrize("value", ["Bearer hunter22xx", "Basic " + base64.b64encode(b"ann:hunter22xx").decode()])
async def test_the_token_within_a_header_is_a_secret_of_its_own(stub, monkeypatch, value):
    monkeypatch.setenv("MY_TOKEN", value)
    stub.script = [completion(content="I got hunter22xx.")]
    reply = await engine(stub, headers={"Authorization": "env:MY_TOKEN"}).complete(request())
    assert reply.text == "I got [redacted]."


@given(st.text(max_size=300), st.text("abcdefXYZ0189-_.", min_size=8, max_size=60))
def test_redaction_hides_the_secret_and_nothing_of_a_text_without_it(text, secret):
    kept = re.sub("[A-Za-z0-9]", "", text)
    assert redacted(kept, [secret]) == kept
    if sum(map(str.isalnum, secret)) >= 8:
        assert redacted(f"{kept} {secret} {kept}", [secret]).count("[redacted]") == 1


async def test_words_that_a_reply_shares_with_a_short_secret_are_kept(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    stub.script = [completion(content="The cell is EMPTY.")]
    assert (await engine(stub).complete(request())).text == "The cell is EMPTY."


@pytest.mark.parametrize(
    "override",
    [
        "tracker.name=sk-proj-hunter2-hunter2-hunter2",
        "tracker.notes=hunter2-hunter2",
        "tracker.tags=[games, hunter2-hunter2]",
        "tracker.project=hunter2-hunter2",
        "model.name=hunter2-hunter2",
        "cluster.address=hunter2-hunter2",
        "run_dir=runs/hunter2-hunter2",
        "baselines=hunter2-hunter2",
    ],
)
def test_no_setting_of_any_run_holds_a_secret(monkeypatch, override):
    monkeypatch.setenv("WANDB_API_KEY", "hunter2-hunter2")
    with pytest.raises(UserError, match="looks like an API key") as error:
        load_settings(["suite=kumo", "suite.domains=[medical]", "model=random", "tracker=wandb", override])
    assert "hunter2" not in str(error.value) and override.partition("=")[0] in str(error.value)


def test_names_that_begin_like_keys_are_no_secrets():
    load_settings(
        ["suite=kumo", "suite.domains=[medical]", "model=random", "run_dir=runs/hf-internal-testing-tiny-random"]
    )


def test_a_missing_key_is_told_before_anything_starts(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    section = {"type": "openai", "model": "stub", "api_key_env": "MY_KEY"}
    for engine_section, missing in (
        (section, True),
        ({**section, "base_url": "http://127.0.0.1:8000/v1"}, False),
        ({**section, "headers": {"Authorization": "env:MY_KEY"}}, True),
        ({**section, "base_url": "http://127.0.0.1:8000/v1", "headers": {"X-Team": "env:MY_KEY"}}, True),
    ):
        model = make_model({"name": "m", "engine": engine_section}, {})
        if missing:
            with pytest.raises(ValueError, match="MY_KEY is not set"):
                model.engine_class.check_environment(model.engine)
        else:
            model.engine_class.check_environment(model.engine)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("all_proxy", "socks://me:pass-word@proxy:1080", "a proxy of the environment"),
        ("https_proxy", "ftp://me:pass-word@proxy", "a proxy of the environment"),
        ("SSL_CERT_FILE", "/nowhere/pass-word.pem", "SSL_CERT_FILE: cannot be read as certificates: No such file"),
    ],
)
def test_what_is_wrong_with_proxies_and_certificates_is_named_without_a_password(name, value, said, monkeypatch):
    for each in ("all_proxy", "https_proxy", "http_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(each, raising=False)
        monkeypatch.delenv(each.upper(), raising=False)
    monkeypatch.setenv(name, value)
    api_endpoint._certificates.cache_clear()
    with pytest.raises(ValueError, match=said) as found:
        api_endpoint.Endpoint("http://h/v1", "key", {}, [], 5.0, 3)
    assert "pass-word" not in str(found.value)
    api_endpoint._certificates.cache_clear()
