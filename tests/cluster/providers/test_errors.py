"""Errors of each provider mean what they mean elsewhere: overload passes, keys and money end the run; keys reach nobody."""

import itertools
import json
from types import SimpleNamespace

import pytest
from botocore.exceptions import BotoCoreError

from cluster.config.settings import load_settings
from cluster.engines import api_endpoint
from cluster.engines.api_answer import Usage
from cluster.engines.api_errors import EndpointError, error_from
from cluster.engines.base import EngineClosedError, Sampling
from cluster.engines.providers.connection import http_client
from cluster.engines.providers.errors import endpoint_error
from cluster.engines.providers.prices import prices_for, table
from cluster.errors import UserError
from evals.types import PlayerError, PromptTooLong
from tests.cluster.providers.engines import SETTINGS, engine, request
from tests.cluster.providers.stub import KEY, sse
from tests.cluster.refusals import KINDS, check_refusals


def openai_error(message, code=None, kind="x"):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic_error(kind, message):
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google_error(code, status, message, details=()):
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def bedrock_error(kind):
    return {"x-amzn-errortype": kind}


PASSING = [
    ("anthropic", (529, anthropic_error("overloaded_error", "Overloaded"))),
    ("anthropic", (429, anthropic_error("rate_limit_error", "Slow down"), {"retry-after": "0.01"})),
    ("responses", (503, openai_error("Overloaded"))),
    ("responses", (200, {"error": {"code": "rate_limit_exceeded", "message": "x"}, "output": [], "status": "failed"})),
    ("chat", (429, openai_error("Rate limit", "rate_limit_exceeded"), {"retry-after-ms": "10"})),
    ("azure", (429, openai_error("429"), {"retry-after": "0"})),
    ("openrouter", (502, openai_error("provider down", 502))),
    ("gemini", (503, google_error(503, "UNAVAILABLE", "The model is overloaded."))),
    ("gemini", (429, google_error(429, "RESOURCE_EXHAUSTED", "x", [{"@type": "RetryInfo", "retryDelay": "0.01s"}]))),
    ("bedrock", (429, {"message": "Too many requests"}, bedrock_error("ThrottlingException"))),
    ("bedrock", (424, {"message": "The model broke"}, bedrock_error("ModelErrorException"))),
    ("bedrock", (503, {"message": "Down"}, bedrock_error("ServiceUnavailableException"))),
]
LASTING = [
    ("anthropic", (401, anthropic_error("authentication_error", f"invalid x-api-key {KEY}"))),
    ("anthropic", (400, anthropic_error("invalid_request_error", "Your credit balance is too low"))),
    ("anthropic", (404, anthropic_error("not_found_error", "model: claude-0"))),
    ("responses", (401, openai_error(f"Incorrect API key provided: {KEY}", "invalid_api_key"))),
    ("responses", (429, openai_error("You exceeded your current quota", "insufficient_quota"))),
    ("azure", (401, openai_error("Access denied", "401"))),
    ("openrouter", (402, openai_error("Insufficient credits", 402))),
    ("gemini", (400, google_error(400, "INVALID_ARGUMENT", "API key not valid.", [{"reason": "API_KEY_INVALID"}]))),
    ("gemini", (403, google_error(403, "PERMISSION_DENIED", "no"))),
    (
        "bedrock",
        (403, {"message": f"The security token {KEY} is invalid"}, bedrock_error("UnrecognizedClientException")),
    ),
]
TOO_LONG = [
    (
        "anthropic",
        (400, anthropic_error("invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum")),
    ),
    (
        "responses",
        (400, openai_error("Your input exceeds the context window of this model.", "context_length_exceeded")),
    ),
    ("gemini", (400, google_error(400, "INVALID_ARGUMENT", "The input token count (2) exceeds the maximum of 1."))),
    ("bedrock", (400, {"message": "Input is too long for requested model."}, bedrock_error("ValidationException"))),
]


WORDS = {
    "too long": [
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens`",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        "Prompt exceeds max length",
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
        "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs.",
        "Prompt length (40000) exceeds maximum input length (32768).",
        "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
    ],
    "filtered": [
        "Output blocked by content filtering policy",
        "Content Exists Risk",
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again",
        "Invalid prompt: we've limited access to this content for safety reasons.",
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. content_filter",
    ],
    "lasting": [
        "x/y is not a valid model ID",
        "Model Not Exist",
        "Model not found: x",
        "The provided model identifier is invalid.",
        "Invocation of model ID x with on-demand throughput isn\u2019t supported. Retry with the ID of an inference profile.",
        "Model use case details have not been submitted for this account.",
        "Access denied. This Model is marked by provider as Legacy",
        "Invalid model: x",
        "模型不存在，请检查模型代码。",
        "Unable to access model x. model_not_available",
        "Your organization must be verified to use the model `gpt-5`.",
        "Country, region, or territory not supported unsupported_country_region_territory",
    ],
    "refused": ["Invalid Responses API request invalid_prompt", "'max_tokens' is too large: 300000"],
}
"""What providers say with status 400."""


@pytest.mark.parametrize(("meaning", "words"), [(meaning, said) for meaning in WORDS for said in WORDS[meaning]])
def test_the_words_of_a_refusal_tell_whom_it_concerns(meaning, words):
    assert error_from(400, {}, json.dumps({"error": {"message": words}}), ()).meaning == meaning


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("logprobs", "Logprobs is not enabled for models/gemini-2.5-flash"),
        ("thinking_config", "Thinking_config.include_thoughts is only enabled when thinking is enabled"),
        (
            "max_output_tokens",
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is",
        ),
    ],
)
def test_google_writes_the_names_of_parameters_in_other_ways(name, words):
    names = {"logprobs", "thinking_config", "max_output_tokens", "seed", "labels"}
    assert EndpointError(words, 400).named(names) == [name]
    assert EndpointError("Stopped: the prompt has too many output tokens.", 400).named({*names, "top_p"}) == []


def test_a_filter_of_xai_concerns_one_prompt_though_its_status_is_that_of_a_wrong_key():
    no_permission = "The caller does not have permission to execute the specified operation"
    for words, meaning in (
        ("Content violates usage guidelines. Team: 1, Failed check: SAFETY_CHECK_TYPE_BIO", "filtered"),
        ("Your team has no access to this model", "lasting"),
    ):
        refused = error_from(403, {}, json.dumps({"code": no_permission, "error": words}), ())
        assert refused.meaning == meaning


def _in_a_choice(error):
    message = {"role": "assistant", "content": ""}
    return {"choices": [{"index": 0, "finish_reason": "error", "error": error, "message": message}]}


@pytest.mark.parametrize("within", [lambda error: {"error": error}, _in_a_choice], ids=["whole", "choice"])
@pytest.mark.parametrize("name", ["openrouter", "chat"])
async def test_an_error_in_place_of_a_chat_completion_means_what_it_says(stub, name, within):
    stub.script = [
        (200, within({"message": "This endpoint's maximum context length is 100 tokens", "code": 400})),
        (200, within({"message": "moderation", "code": 403, "metadata": {"flagged_input": "a"}})),
        (200, within({"message": "Provider returned error", "code": 502})),
    ]
    made = engine(name, stub)
    with pytest.raises(PromptTooLong):
        await made.complete(request())
    assert (await made.complete(request())).finish == "content_filter"
    assert (await made.complete(request())).retries == 1
    stub.script = [(200, within({"message": "Insufficient credits", "code": 402}))]
    with pytest.raises(EngineClosedError, match="Insufficient credits"):
        await made.complete(request())
    assert len(stub.bodies) == 5


async def test_a_response_that_failed_at_a_filter_is_not_asked_for_again(stub):
    failed = {"code": "invalid_prompt", "message": "your prompt was flagged as potentially violating our usage policy"}
    stub.script = [(200, {"error": failed, "output": [], "status": "failed"})]
    assert (await engine("responses", stub).complete(request())).finish == "content_filter"
    assert len(stub.bodies) == 1


@pytest.mark.parametrize(("name", "step"), PASSING)
async def test_what_passes_is_tried_again(stub, name, step):
    stub.script = [step, step]
    reply = await engine(name, stub).complete(request())
    assert (reply.text, reply.retries, len(stub.bodies)) == ("A", 2, 3)


@pytest.mark.parametrize(("name", "step"), LASTING)
async def test_what_every_request_would_meet_ends_the_run_and_no_key_is_repeated(stub, name, step):
    stub.script = [step]
    with pytest.raises(EngineClosedError) as error:
        await engine(name, stub).complete(request())
    assert len(stub.bodies) == 1
    assert not any(KEY[start : start + 6] in str(error.value) for start in range(len(KEY) - 5))


@pytest.mark.parametrize(("name", "step"), TOO_LONG)
async def test_a_prompt_that_does_not_fit_fails_its_episode_only(stub, name, step):
    stub.script = [step]
    with pytest.raises(PromptTooLong):
        await engine(name, stub).complete(request())


async def test_an_error_within_a_stream_means_what_it_says(stub):
    for kind, meaning in (("overloaded_error", 529), ("invalid_request_error", 400)):
        events = sse([{"type": "error", "error": {"type": kind, "message": "within"}}])
        stub.script = [lambda handler, events=events: handler.send(200, events, {"content-type": "text/event-stream"})]
        made = engine("anthropic", stub)
        with pytest.raises(EndpointError) as error:
            await made._endpoint.http.complete(made.body(request()))
        assert error.value.status == meaning


async def test_a_stream_that_breaks_off_may_have_cost(stub):
    whole = sse([{"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}])

    def broken(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("content-length", str(len(whole) + 500))
        handler.end_headers()
        handler.wfile.write(whole)

    stub.script = [broken]
    made = engine("anthropic", stub)
    reply = await made.complete(request())
    assert reply.retries == 1 and reply.cost > 4000 * 25 / 1e6


@pytest.mark.parametrize("name", SETTINGS)
async def test_what_is_no_answer_is_an_error_and_never_a_reply(stub, name):
    garbage = [b"<html>no</html>", b"{}", b'{"choices": [], "content": 5, "output": 7, "candidates": 3}', b"[" * 5000]
    stub.script = [lambda handler, body=body: handler.send(200, body) for body in garbage]
    with pytest.raises(PlayerError, match="failed 4 times"):
        await engine(name, stub, max_tries=4).complete(request())


@pytest.mark.parametrize("name", SETTINGS)
def test_headers_that_a_client_would_read_by_itself_are_refused_before_the_run(stub, name, monkeypatch):
    kinds = {"anthropic": "ANTHROPIC_CUSTOM_HEADERS", "gemini": "", "bedrock": ""}
    variable = kinds.get(name, "OPENAI_CUSTOM_HEADERS")
    made, usual = SETTINGS[name]
    if variable:
        monkeypatch.setenv(variable, "")
    made.check_environment(usual)
    if variable:
        monkeypatch.setenv(variable, "gateway-authorization: token-of-mine")
        with pytest.raises(ValueError, match=f"{variable} is set, but") as refused:
            made.check_environment(usual)
        assert "token-of-mine" not in str(refused.value)


@pytest.mark.parametrize("name", ["responses", "chat", "azure", "azure_dated", "openrouter"])
async def test_the_names_of_an_openai_account_go_to_openai_alone(stub, name, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj_of_mine")
    await engine(name, stub).complete(request())
    sent = json.dumps(stub.headers)
    assert "of-mine" not in sent and "of_mine" not in sent
    if name in ("responses", "chat"):
        made, usual = SETTINGS[name]
        for address in (None, "https://eu.api.openai.com/v1"):
            client = made(sampling=Sampling(temperature=1.0), base_url=address, **usual)._client
            assert (client.organization, client.project) == ("org-of-mine", "proj_of_mine")
        for address in ("https://openai.com.example/v1", "https://notopenai.com/v1"):
            client = made(sampling=Sampling(temperature=1.0), base_url=address, **usual)._client
            assert (client.organization, client.project) == (None, None)


def _every_botocore_error():
    found, left = [], [BotoCoreError]
    while left:
        found.append(left.pop())
        left += found[-1].__subclasses__()
    return found


SENT = "HTTPClientError ReadTimeoutError ConnectionClosedError ResponseStreamingError SSLError IncompleteReadError"
LOGIN = (
    "NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError UnauthorizedSSOTokenError"
)


def test_what_botocore_refuses_to_send_is_free_and_what_concerns_the_login_ends_the_run():
    free = {}
    for kind in _every_botocore_error():
        caught = kind.__new__(kind)
        Exception.__init__(caught, "why")
        error = endpoint_error(caught, (), lambda status, words: status)
        free[kind.__name__] = (not error.may_cost, error.meaning)
    assert all(free[name] == (False, "passing") for name in [*SENT.split(), "ChecksumError"])
    assert all(free[name] == (True, "lasting") for name in [*LOGIN.split(), "SSOError", "LoginRefreshRequired"])
    assert free["EndpointConnectionError"] == free["ConnectTimeoutError"] == (True, "passing")
    assert free["ParamValidationError"] == (True, "refused"), "of this request only"


def test_what_this_version_of_a_client_does_not_take_is_free_and_named():
    async def stream(self, *, model):
        pass

    with pytest.raises(TypeError) as caught:
        stream(None, model="m", top_k=3)
    error = endpoint_error(caught.value, (), lambda status, words: status)
    assert (error.status, error.may_cost, error.named({"model", "top_k"})) == (400, False, ["top_k"])


@pytest.mark.parametrize("name", SETTINGS)
async def test_a_request_that_got_no_connection_in_time_is_free(stub, deaf_url, name):
    made = engine(name, SimpleNamespace(url=deaf_url), timeout_seconds=1.5)
    with pytest.raises(EndpointError, match="no connection") as error:
        await made._endpoint.http.complete(made.body(request()))
    assert not error.value.may_cost and error.value.meaning == "passing"


BODIES = set(itertools.product(SETTINGS, KINDS)) - {("bedrock", "compressed though nobody asked")}
"""Of an answer that it cannot decode botocore tells no status."""


@pytest.mark.parametrize(("name", "kind"), sorted(BODIES))
async def test_a_refusal_is_known_by_its_status_whatever_becomes_of_its_body(stub, name, kind, monkeypatch):
    monkeypatch.setattr(api_endpoint, "REFUSAL_SECONDS", 0.05)
    made = engine(name, stub)
    await check_refusals(made._endpoint.http, made.body(request()), stub.script, kind)


@pytest.mark.parametrize("name", SETTINGS)
async def test_no_redirect_is_followed(stub, name):
    stub.script = [(307, {}, {"location": f"{stub.url}/elsewhere"})]
    with pytest.raises((EngineClosedError, PlayerError)):
        await engine(name, stub, max_tries=1).complete(request())
    assert len(stub.paths) == 1, "the key went along"


@pytest.mark.parametrize("name", SETTINGS)
async def test_the_key_is_sent_and_redacted_from_replies(stub, name):
    stub.say, stub.thinks = f"Your key is {KEY}!", False
    reply = await engine(name, stub).complete(request())
    assert "[redacted]" in reply.text and "abcdefgh" not in reply.text + reply.reasoning
    sent = json.dumps(stub.headers)
    assert KEY in sent or name == "bedrock", "Bedrock's secret signs requests and is not sent"


PLAN = ["suite=kumo", "suite.domains=[medical]", "suite.difficulties=[easy]", "suite.tasks_per_domain=1"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("anthropic", "its provider gives none"),
        ("bedrock", "its provider gives none"),
        ("gemini", "thinking_tokens=0"),
        ("openai_client", "api=chat"),
    ],
)
def test_label_probabilities_that_there_are_not_are_refused_when_planning(model, said):
    with pytest.raises(UserError, match=said):
        load_settings(["suite=multistar", f"model={model}", "model.engine.model=m"])


def test_prices_of_the_table_are_stored_with_the_run_unless_they_are_given():
    settings = load_settings([*PLAN, "model=anthropic", "model.engine.model=claude-opus-5"])
    assert settings.model.engine["completion_price"] == 25 and "cache_write_price: 6.25" in settings.config
    by_hand = ["model.engine.prompt_price=7", "model.engine.completion_price=0"]
    settings = load_settings([*PLAN, "model=anthropic", "model.engine.model=m", *by_hand])
    assert settings.model.engine["prompt_price"] == 7 and settings.model.engine["cache_read_price"] is None


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("hour", [False, True])
@pytest.mark.parametrize("longer", [0, 1])
def test_an_answer_costs_what_the_table_says_however_long_its_prompt(longer, hour, batch):
    asked = {"cache": "1h" if hour else "5m", "batch": batch}
    for provider, section in table().model_dump(exclude_none=True)["providers"].items():
        for model, row in section["models"].items():
            prices = row["long"] if longer and "long" in row else row
            prompt = row.get("long", {"above": 200_000})["above"] + longer
            write = "cache_write_1h" if hour and "cache_write_1h" in prices else "cache_write"
            parts = {"prompt": prompt - 7_000, "cache_read": 2_000, write: 5_000, "completion": 300}
            dollars = sum(prices.get(kind, prices["prompt"]) * count / 1e6 for kind, count in parts.items())
            cost = prices_for(provider, {"model": model, **asked}).of(Usage(prompt, 300, cached=2_000, written=5_000))
            assert cost == pytest.approx(dollars * (section["batch"] if batch else 1)), model


def test_a_cap_without_prices_is_refused_when_planning(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with pytest.raises(UserError, match="prices"):
        load_settings([*PLAN, "model=anthropic", "model.engine.model=unknown", "model.engine.spend_cap=5"])


def test_thoughts_go_back_where_the_run_keeps_reasoning():
    for history, kept in (("dropped", False), ("kept", True)):
        settings = load_settings([*PLAN, "model=anthropic", "model.engine.model=m", f"history.reasoning={history}"])
        assert settings.model.engine.get("keeps_reasoning", False) is kept


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        ("openai_client", ["api=chat"], "chat completions tell no thoughts"),
        ("azure", ["api=chat", "base_url=https://me.example.com"], "chat completions tell no thoughts"),
        ("openai_client", ["batch=true"], "a batch must know whether the model thinks"),
        ("openai_client", ["batch=true", "effort=low"], ""),
        ("openai_client", ["batch=true", "effort=none"], ""),
        ("openai_client", [], ""),
        ("openrouter", ["api=chat"], ""),
        ("anthropic", ["batch=true"], ""),
    ],
)
def test_thoughts_that_cannot_be_kept_are_refused_when_planning(model, settings, said):
    words = [f"model.engine.{setting}" for setting in settings]
    given = [*PLAN, f"model={model}", "model.engine.model=m", *words]
    assert load_settings(given)
    if not said:
        assert load_settings([*given, "history.reasoning=kept"]).model.engine["keeps_reasoning"] is True
        return
    with pytest.raises(UserError, match=f"history.reasoning=kept: {said}"):
        load_settings([*given, "history.reasoning=kept"])


async def test_an_answer_in_small_pieces_is_bounded_as_a_whole():
    async def pieces():
        for _ in range(20):
            yield bytes(1 << 20)

    response = SimpleNamespace(status_code=200, headers={}, stream=pieces())
    await http_client(1, 600.0).event_hooks["response"][0](response)
    with pytest.raises(EndpointError, match="more than 16 MiB"):
        _ = [piece async for piece in response.stream]


@pytest.mark.parametrize(
    "words",
    [
        "You have reached your specified API usage limits. You will regain access on 2026-12-01",
        "This organization has been disabled.",
        "API free tier is not available in your country. Please enable billing",
    ],
)
def test_a_400_that_concerns_the_whole_account_stops_the_run(words):
    assert EndpointError("status 400", 400, words=words).meaning == "lasting"
    assert EndpointError("status 400", 400, words="a strange request").meaning == "refused"
