"""What engines behind endpoints send, read, refuse, pay and wait, on record in ``tests/golden``: any word or figure shows."""

import asyncio
import datetime
import json
import math
import os
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import httpx
import httpx2
import pytest

from cluster.engines import api_answer, api_engine, api_errors, api_limited, api_request, api_secrets, guard, limits
from cluster.engines.api_answer import Answer, Usage
from cluster.engines.api_endpoint import Endpoint
from cluster.engines.api_errors import EndpointError, error_from
from cluster.engines.api_request import RequestForm
from cluster.engines.base import Request, Sampling
from cluster.engines.batch import connection as batch_connection
from cluster.engines.batch import formats
from cluster.engines.batch import store as batch_store
from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from cluster.engines.openai_api import OpenAIEngine
from cluster.engines.prompt_bound import PromptBound
from cluster.engines.prompt_check import BlankPicture
from cluster.engines.providers import anthropic_client, connection, errors, gemini, gemini_jobs, openai_clients, prices
from cluster.engines.providers.thoughts import Thoughts
from cluster.engines.redaction import _forms, redacted
from cluster.engines.vllm import VLLMEngine
from evals.types import PlayerError, message
from tests.cluster.openai_api.test_requests import Dot
from tests.cluster.providers.engines import SETTINGS
from tests.golden import check_said, plain

KEY = "sk-test-abcdefgh-secret-9876"
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PNG = re.compile(r"iVBORw0KGgo[\w+/=]+")
"""A picture in base64, as machines may compress it."""
TEXTS = ("answers", "refusals", "requests", "replies", "settings", "raised", "tries", "secrets", "http", "vllm")
TEXTS += ("batches",)


def shown(value) -> str:
    if isinstance(value, EndpointError):
        return meant(value)
    return PNG.sub("PNG", value if isinstance(value, str) else plain(value)).replace(KEY, "KEY")


# --- answers and refusals of an endpoint ---


def chat(content="A", finish="stop", usage=None, top=None, **fields) -> dict:
    """A chat completion; ``top`` are the first token's most likely values."""
    choice = {"message": {"content": content, **fields}, "finish_reason": finish}
    if top is not None:
        values = [{"token": token, "logprob": value} for token, value in top]
        choice["logprobs"] = {"content": [{"top_logprobs": values}]}
    return {"choices": [choice], "usage": usage}


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm "}, {"text": "so."}, 5]},
    {"type": "reasoning", "thinking": "", "text": "And ", "summary": "no"},
    {"type": "reasoning", "summary": [{"text": "then."}]},
    {"type": "thinking"},
    {"type": "text", "text": "A"},
    {"type": "output_text", "text": "B"},
    {"text": "C"},
    {"type": "text", "text": None},
]


def tokens(prompt=None, completion=None, total=None, cached=None, reasoning=None, written=None, **fields) -> dict:
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    found = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **fields}
    thoughts = {"completion_tokens_details": {"reasoning_tokens": reasoning}, "prompt_tokens_details": details}
    return {"usage": {**found, **thoughts}}


def read(data, scored=False) -> str:
    try:
        return plain(api_answer.read_answer(data, scored))
    except EndpointError as error:
        return meant(error)


STATUSES = (0, 301, 302, 303, 307, 308, 399, 400, 401, 402, 403, 404, 405, 408, 409, 418, 422, 425, 429, 499)
STATUSES += (500, 503, 504, 524)
NAMES = ["stop", "top_p", "model", "n", "max_tokens", "seed", "top_k"]


def meant(error: EndpointError) -> str:
    """All that a refusal means."""
    kinds = [name for name in ("too_many", "unreadable", "unscored", "may_cost") if getattr(error, name)]
    words = str(error) if len(str(error)) < 200 else f"{str(error)[:20]}...{str(error)[-3:]} of {len(str(error))}"
    if error.words not in words:
        words += f", words ...{error.words[-5:]} of {len(error.words)}"
    told = {"param": error.param, "wait": plain(error.retry_after), "stated": error.stated, "names": error.named(NAMES)}
    about = [f"{name} {value}" for name, value in told.items() if value and value != "0"]
    return f"{words} -> {', '.join([error.meaning, *kinds, *about])}"


def meanings(words) -> dict:
    found = {}
    for status in STATUSES:
        found.setdefault(error_from(status, {}, words, ()).meaning, []).append(status)
    return found


# --- engines of providers, without their clients ---

PLAIN = Sampling(max_tokens=4000, temperature=1.0)
ODD_SAMPLING = Sampling(7, 0.0, 0.9, 5, 0.1, 0.2, -0.3, 1.1, ("x", "y"))
FIRST = (message("system", "Play.", "Be brief."), message("user", "Look:", Dot(9), " \n", Dot(9)))
REPLIED = (*FIRST, message("assistant", "A"), message("user", "", "More."))
LATER = (*REPLIED, message("assistant", "B"), message("user", "On."))
FORMS = {
    "plain": RequestForm("m", PLAIN),
    "greedy": RequestForm("m", Sampling()),
    "all": RequestForm("m", ODD_SAMPLING, extra_body={"top_k": None, "max_tokens": None, "user": "u"}),
    "reasoning": RequestForm("m", PLAIN, reasoning=True, reasoning_effort="high"),
    "vllm": RequestForm("m", PLAIN, "vllm", reasoning_effort="none"),
}
DOLLARS = {"prompt_price": 1.0, "completion_price": 100.0, "cache_read_price": 0.1, "cache_write_price": 10.0}


made = {}
"""Engines, of which each is made once."""


def make(name, **settings):
    engine, usual = SETTINGS[name]
    key = f"{name} {settings}"
    if key not in made:
        made[key] = engine(**{"sampling": PLAIN, "base_url": "http://127.0.0.1:9/v1/", **usual, **settings})
    return made[key]


def request(turn=0, chat=FIRST, **fields) -> Request:
    return Request(f"a-b-{turn}", chat, **{"seed": 2**31 + 5, **fields})


ASKED = {
    "plain": request(),
    "text alone": request(chat=(message("user", "Go."),), seed=3),
    "labels": request(labels=("A", "B")),
    "options": request(options=("A", "B"), schema='{"type": "object"}'),
    "schema": request(schema='{"type": "object"}'),
}


def written(form, asked) -> str:
    """What is sent for a turn and what of it may be refused, or why nothing is sent."""
    body = form.body(asked)
    return form.lacks(asked) or f"{json.dumps(body)}\n{sorted(form.parameter_names(body))}"


def later(engine, reply) -> str:
    """What is sent for the third turn, after a first reply that came with thoughts and other replies that came elsewhere."""
    nothing = Usage()
    for text, kept in (("A", reply), ("other", [{"text": "other"}])):
        engine._reply(request(), Answer(text, "stop", "", nothing, {}, kept), 0, 0)
    labeled = request(labels=("B",), chat=REPLIED)
    engine._reply(labeled, Answer("B", "stop", "", nothing, {"B": 0.0}, [{"text": "no"}]), 0, 0)
    return json.dumps(engine.body(request(1, LATER)))


def bounds(asked, body) -> str:
    """Tokens of a prompt: as guessed, at most, and at most after an answer told what such a prompt has."""
    bound = PromptBound()
    before = bound.most_tokens(asked, body)
    bound.learn(asked, 301)
    return f"{api_request.expected_tokens(asked)}, {before}, {bound.most_tokens(asked, body)}"


def learned(*steps) -> list[int]:
    """The most tokens of a prompt with pictures of two sizes, after each answer to one with these told what it had."""
    bound, found = PromptBound(), []
    for pictures, tokens in steps:
        bound.learn(request(chat=(message("user", *pictures),)), tokens)
        found.append(bound.most_tokens(request(chat=(message("user", "é", Dot(9), BlankPicture(), Dot(9)),)), {}))
    return found


def told(engine, reply) -> str:
    """What a reply says, and its price in millionths."""
    usage = engine._usage_or_nothing(reply)
    price = plain(engine._endpoint._price_of(usage) * 1e6)
    try:
        answer = plain(engine._read_or_refuse(reply, False))
    except EndpointError as error:
        answer = meant(error)
    return f"{answer}\n{plain(usage)} costs {price}"


def addresses(name) -> str:
    own = {"region": "here"} if name == "bedrock" else {}
    engine = make(name)
    return f"{engine.package} {engine.extra} {engine.address} {make(name, base_url=None, **own).address}"


def checked(name, settings) -> str:
    engine = SETTINGS[name][0]
    try:
        engine.check_settings(settings)
        refusal = ""
    except ValueError as error:
        refusal = f"{error}\n"
    return f"{refusal}{engine.price_note(settings)}\n{engine.known_prices(settings)}"


MAKE_CLIENT = {name: engine._make_client for name, (engine, _) in SETTINGS.items()}


def client_of(name, **settings) -> str:
    """How an engine makes its provider's client."""
    said = []

    made_client = SimpleNamespace(organization="of the environment", project="of the environment")

    def client(form):
        def make(*given, **how):
            said.append(f"{form} {plain(given)} {plain(how)}")
            return made_client

        return make

    def values(form):
        return lambda **how: f"{form}({plain(how)})"

    genai = SimpleNamespace(Client=client("genai"), types=SimpleNamespace())
    genai.types = SimpleNamespace(HttpOptions=values("options"), HttpRetryOptions=values("retries"))
    packages = {
        "anthropic": SimpleNamespace(AsyncAnthropic=client("anthropic")),
        "openai": SimpleNamespace(AsyncOpenAI=client("openai"), AsyncAzureOpenAI=client("openai of azure")),
        "google": SimpleNamespace(genai=genai),
        "google.genai": genai,
        "boto3": SimpleNamespace(client=client("boto3")),
        "botocore.config": SimpleNamespace(Config=values("config")),
    }
    engine, usual = SETTINGS[name]
    made = engine(**{"sampling": PLAIN, "base_url": "http://h/v1/", "max_num_seqs": 3, **usual, **settings})
    with pytest.MonkeyPatch.context() as patch:
        for package, found in packages.items():
            patch.setitem(sys.modules, package, found)
        for module in (anthropic_client, gemini, openai_clients):
            patch.setattr(
                module, "http_client", lambda *given: f"http{[getattr(each, '__name__', each) for each in given]}"
            )
        MAKE_CLIENT[name](made, "the key", {"x-own": "1"})
    account = "" if made_client.organization else "; names no account"
    return f"{said[0]}{account}"


def at_once(name) -> str:
    """How much is asked at once and kept, in batches where there are some; and what concerns no answer."""
    engine = make(name, batch=bool(SETTINGS[name][0].batches), batch_requests=7, max_num_seqs=3)
    most = (engine.max_num_seqs, engine._endpoint.concurrency.most, engine._thoughts._most)
    return f"{most}, {engine._endpoint.spend._until_billed}; {' '.join(sorted(engine.operational))}"


class Noting:
    """A client that notes what is called of it, and answers the same to everything, at once or when it is waited for."""

    def __init__(self, said, name="client", answer=None):
        self._said, self._name, self._answer = said, name, answer

    def __getattr__(self, name):
        return Noting(self._said, f"{self._name}.{name}", self._answer)

    def __call__(self, *given, **how):
        self._said.append(
            f"{self._name}({', '.join([*map(plain, given), *(f'{key}={plain(how[key])}' for key in how)])})"
        )
        return self if self._answer is None else self._answer

    def __await__(self):
        yield from ()
        return self


def client_calls(name, *calls, answer=None, **settings) -> str:
    """What an engine's methods ask of its provider's client, and what they make of its answer."""
    said = []
    engine, usual = SETTINGS[name]
    made = engine(**{"sampling": PLAIN, "base_url": "http://h/v1/", **usual, **settings})
    made._client, made._threads = Noting(said, answer=answer), None

    async def run():
        for call, *given in calls:
            try:
                said.append(f"= {await getattr(made, call)(*given)}")
            except EndpointError as error:
                said.append(meant(error))
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gemini, "typed", lambda body: (body["contents"], int(body["config"])))
        patch.setattr(gemini, "plain", lambda found: f"plain {found._name}")
        if name == "bedrock":
            made._threads = Noting(said, "threads")
            patch.setattr("asyncio.base_events.BaseEventLoop.run_in_executor", _at_once)
        asyncio.run(run())
    return "\n".join(said)


async def _at_once(loop, threads, call):
    return call()


def credentials(found=None, **settings) -> str:
    """What is read of the credentials that Amazon's client has found."""
    session = SimpleNamespace(get_credentials=lambda: found and SimpleNamespace(get_frozen_credentials=lambda: found))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "boto3", SimpleNamespace(Session=lambda: session))
        return plain(SETTINGS["bedrock"][0]._read_secrets(settings))


# --- what clients raise, and what they want back ---


def raised(name, words="it broke", bases=(Exception,), **fields):
    """What a client might raise."""
    error = type(name, bases, {})(words)
    vars(error).update(fields)
    return error


def after(error, cause, context=None):
    error.__cause__, error.__context__ = cause, context
    return error


def deep(number):
    """An error that another one led to, and so on."""
    error = raised("ConnectError")
    for _ in range(number):
        error = after(raised("Outer"), error)
    return error


def response(text="", headers=(), consumed=False):
    """A client's response."""
    return SimpleNamespace(text=text, headers=dict(headers), is_stream_consumed=consumed)


AWS = {
    "ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"Retry-After": "3"}},
    "Error": {"Message": "slow", "Code": "C"},
}
GOOGLE = {"error": {"message": "slow", "details": [{"retryDelay": "34.5s"}]}}
USED_UP = {"X-RateLimit-Remaining-Tokens": " 0", "x-ratelimit-reset-tokens": "1m30s"}


def refused(error) -> str:
    return meant(
        errors.endpoint_error(error, [KEY], lambda status, words: 401 if "API_KEY_INVALID" in words else status)
    )


def remembered(name) -> str:
    """What is given back to a turn where the latest two of three episodes are kept."""
    thoughts = Thoughts(2)
    said = (message("user", "Go."), message("assistant", "A"), message("user", "On."), message("assistant", "A"))
    for episode in "abc":
        thoughts.keep(Request(f"{episode}-0", said[:1]), "A", f"{episode}0")
        thoughts.keep(Request(f"{episode}-1", said[:3]), "A", f"{episode}1")
    in_parts = (message("user", "Go."), message("assistant", "A", "B"), message("assistant", Dot(9)))
    found = []
    for asked in ((*said, message("user", ".")), in_parts, said[:1]):
        try:
            found.append(plain(thoughts.earlier(Request(name, asked))))
        except PlayerError as error:
            found.append(f"{error.kind}: {str(error)[:40]}")
    return ", ".join(found)


def remembered_longest() -> str:
    """What is given back where two episodes are kept and the first one goes on: the one that has been silent is forgotten."""
    thoughts, said = Thoughts(2), (message("user", "Go."), message("assistant", "A"), message("user", "On."))
    for turn, reply in (("a-0", "first"), ("a-0", "again"), ("b-0", "b")):
        thoughts.keep(Request(turn, said[:1]), "A", reply)
    thoughts.earlier(Request("b-1", said)), thoughts.earlier(Request("a-1", said))
    thoughts.keep(Request("c-0", said[:1]), "A", "c")
    return plain([thoughts.earlier(Request(f"{episode}-0", said)) for episode in "acb"])


# --- tries of requests, on a clock of their own ---


class Clock:
    """Seconds that pass only where somebody sleeps; it notes for how long."""

    def __init__(self):
        self.now, self.slept = 1000.0, []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds
        if seconds:
            self.slept.append(seconds)
        await asyncio.sleep(0)


clock = Clock()


class Scripted:
    """A connection that answers as scripted: an answer, an error, or seconds of silence; the last one repeats."""

    base_url, counted, spend = "the endpoint", None, None

    def __init__(self, script):
        self.script, self.asked, self.notes, self.checks = list(script), [], [], 0
        self.silent_seconds, self.holds = 0.0, 0

    def _next(self):
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    async def complete(self, body, name=""):
        self.asked.append(name)
        if self.spend is not None:
            self.notes.append(f"reserved {plain([each.most for each in self.spend._reserved.values()])}")
        step = self._next()
        if isinstance(step, int | float):
            clock.now += step
            step = self._next()
        if isinstance(step, EndpointError):
            raise step
        return step

    notes_reserved = True

    def note_reserved(self, body, name, most):
        self.notes.append(f"{name} reserved {plain(most)}")

    def counted_before(self, body, name=""):
        self.notes.append(f"{name} {body.get('model')}")
        if len(self.notes) == self.holds:
            self.hold(5.0)
        return self.counted

    def note_price(self, body, name, price, failed=False):
        self.notes.append(f"{name} {plain(price)}{' failed' if failed else ''}")

    async def check(self):
        self.checks += 1
        if isinstance(self.script[0], EndpointError):
            raise self.script[0]

    def redacted(self, text):
        return text.replace("secret", "***")

    async def close(self):
        self.notes.append("closed")


GOOD = chat("A secret", reasoning="a secret", usage={"prompt_tokens": 30, "completion_tokens": 4})
SCORES = [("Z", -0.3), ("B", -1.6), ("A", -3.0)]
SCORED = chat("Z", "length", {"prompt_tokens": 30, "completion_tokens": 1}, SCORES)
BUSY, DOWN, ODD = EndpointError("busy", 429), EndpointError("down", 503), EndpointError("odd", unreadable=True)
SOON, LONG_AFTER, NEVER = (EndpointError("wait", 503, retry_after=seconds) for seconds in (3, 600, 601))
BILLED = EndpointError("gone", may_cost=True)
USED = {"usage": {"prompt_tokens": 20, "completion_tokens": 2}}
STATED = EndpointError("told", 500, may_cost=True, stated=USED)
UNSCORED = EndpointError("no top", unreadable=True, unscored=True)
LONG = EndpointError("long", 400, words="context size")
FILTER, NO, KEYLESS = (
    EndpointError("f", 400, words="content_filter"),
    EndpointError("no", 400),
    EndpointError("key", 401),
)
DEAR = {"prompt_price": 1000.0, "completion_price": 10_000.0, "cache_read_price": 100.0}
HERE = "http://127.0.0.1:9/v1"


class Amounts:
    """A limit per minute that notes what is taken of it and given back."""

    budget = None

    def __init__(self):
        self._left = []

    def delay(self, amount):
        self._left.append(amount)
        return 0.0

    def correct(self, amount):
        self._left.append(f"{amount:+g}")


async def _told_of_tries(made, script, requests, labels=(), holds=0, parts=("Go.",), **about) -> str:
    """``holds``: before which note all requests are held back, as another one's refusal would do."""
    made._endpoint.http = through = Scripted(script)
    vars(through).update(about)
    through.holds, through.hold = holds, made._endpoint.concurrency.hold
    said = []
    for number in range(requests):
        clock.slept.clear()
        began = clock.now
        try:
            asked = Request(f"r{number}", (message("user", *parts),), labels=labels, seed=number)
            text = plain(await made.complete(asked))
        except Exception as error:
            text = f"{type(error).__name__} {getattr(error, 'kind', '')}: {error}"
        said.append(f"{text}; slept {plain(clock.slept)} of {plain(clock.now - began)}")
    account = plain(await made.settle(9, 0.0))
    await made.close()
    said += [f"asked {' '.join(through.asked)}", f"noted {', '.join(through.notes)}"]
    left = plain([made._endpoint._requests._left, made._endpoint._tokens._left])
    return "\n".join([*said, f"{account}, limit {plain(made._endpoint.concurrency.limit)}, left {left}"])


def tried(*script, requests=2, labels=(), holds=0, amounts=False, parts=("Go.",), counted=None, **settings) -> str:
    """Some requests after one another, and what is noted meanwhile; with ``amounts`` of limits in place of what is left.

    An earlier session has ``counted`` that much for each of them.
    """
    made = OpenAIEngine(Sampling(max_tokens=50, temperature=1.0), "m", HERE, max_tries=3, **{**DEAR, **settings})
    if amounts:
        made._endpoint._requests, made._endpoint._tokens = Amounts(), Amounts()
    return asyncio.run(_told_of_tries(made, script, requests, labels, holds, parts, counted=counted))


def routed(*script, requests=2, **settings) -> str:
    """The same where only answers tell what they cost."""
    engine, usual = SETTINGS["openrouter"]
    made = engine(**{"sampling": PLAIN, "max_tries": 3, **usual, **settings})
    return asyncio.run(_told_of_tries(made, script, requests))


def with_written_caches(*script, **settings) -> str:
    """The same where the tokens of a prompt cost ten times as much if they are written into a cache; with what is reserved."""
    engine, usual = SETTINGS["chat"]
    made = engine(**{"sampling": PLAIN, "max_tries": 3, **usual, **DOLLARS, **settings})
    return asyncio.run(_told_of_tries(made, script, 2, spend=made._endpoint.spend))


async def _told_of_health(silent, trouble) -> str:
    made = OpenAIEngine(Sampling(), "m", HERE)
    made._endpoint.http = through = Scripted([trouble])
    through.silent_seconds = silent
    said = []
    for call in (made.check_health, made.start, made.close, made.check_health):
        try:
            said.append(f"{call.__name__} {await call()}, {through.checks}")
        except EndpointError as error:
            said.append(f"{call.__name__}: {error}, {through.checks}")
    return "; ".join(said)


def health(silent, trouble) -> str:
    """Checks of an endpoint that has been silent for so long, and then of one that is closed; and how often it was asked."""
    return asyncio.run(_told_of_health(silent, trouble))


def waits(budget) -> list[float]:
    """Seconds to wait for amounts that are asked for at some times; half of one is given back each time."""
    now = [0.0]
    bucket, found = PerMinute(budget, clock=lambda: now[0]), []
    for now[0], amount in ((0, 1), (0, 5), (0, 60), (10, 1), (600, 1), (600, 7), (600, 6), (1200, 0)):
        found.append(bucket.delay(amount))
        bucket.correct(-0.5)
    return found


def concurrency() -> str:
    now, said = [0.0], []
    adaptive = AdaptiveConcurrency(8, clock=lambda: now[0])
    for now[0], what in (
        (0, "-"),
        (0.9, "-"),
        (1.0, "-"),
        (1.5, "+"),
        (1.5, "+"),
        (2.0, "-"),
        (3, "-"),
        (4, "-"),
        (4, "+"),
    ):
        if what == "-":
            adaptive.too_many()
        else:
            adaptive.success()
        said.append(f"{now[0]} {what}{plain(adaptive.limit)}")
    for _ in range(40):
        adaptive.success()
    said.append(plain(adaptive.limit))
    for seconds in (3, 1, 5, 0):
        adaptive.hold(seconds)
        said.append(f"hold {seconds}: {plain(adaptive.held)}")
    now[0] += 5.5
    return ", ".join([*said, plain(adaptive.held)])


# --- what comes over HTTP ---


def parsed(answer: bytes) -> str:
    """An answer of an endpoint whose key is known."""
    if "openai" not in made:
        made["openai"] = OpenAIEngine(Sampling(), "m", HERE)
    try:
        return plain(made["openai"]._endpoint.http._parse(answer))
    except EndpointError as error:
        return meant(error)


async def _exchanged(endpoint, answer, name, ask):
    asked = []

    async def respond(request):
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        if answer == "never":
            await asyncio.Event().wait()
        return answer

    endpoint._client._transport = httpx.MockTransport(respond)
    endpoint._heard = -1e9
    try:
        said = plain(await (endpoint.check() if ask == "check" else endpoint.complete({"a": "é"}, name)))
    except EndpointError as error:
        said = meant(error)
    request = asked[0]
    sent = {
        name: request.headers[name]
        for name in ("authorization", "content-type", "x-a", "x-b", "x-c")
        if name in request.headers
    }
    heard = "heard" if endpoint.silent_seconds < 1e8 else "silent"
    return f"{said}\n{heard}; {request.method} {request.url} {sent} {request.content.decode()}"


def exchanged(answer, name="", ask="complete", seconds=5.0, **headers) -> str:
    """What an endpoint makes of an answer, and what it was sent."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    endpoint = Endpoint("http://h/v1", "" if "authorization" in given else KEY, given, ["own secret"], seconds, 3)
    return asyncio.run(_exchanged(endpoint, answer, name, ask))


def answer(status=200, body=b'{"b": 1}', **headers):
    return httpx.Response(
        status, content=body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


async def _called(ask, seconds, check):
    async def close_client():
        said.append("closed")

    async def asked(*body):
        said.append(f"asked {body}")
        if isinstance(ask, Exception):
            raise ask
        if ask == "never":
            await asyncio.Event().wait()
        return ask

    said = []
    engine = SimpleNamespace(address="here", ask=asked, ask_whether_there=asked, close_client=close_client)
    engine.status_of = lambda status, words: 401 if "wrong key" in words else status
    through = connection.ClientConnection(engine, [KEY, ""], seconds)
    through._heard = -1e9
    try:
        said.append(plain(await (through.check() if check else through.complete({"a": 1}, "e-0"))))
    except EndpointError as error:
        said.append(meant(error))
    await through.close()
    heard = "heard" if through.silent_seconds < 1e8 else "silent"
    return f"{', '.join(said)}; {heard} {through.base_url} {through.redacted(f'a {KEY}')} {through.counted_before({})}"


def called(ask, seconds=5.0, check=False) -> str:
    """What a connection through a client makes of what the client does."""
    return asyncio.run(_called(ask, seconds, check))


async def _bounded(body, headers, settings):
    client = connection.http_client(3, 600.0, **settings)
    client._transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, stream=httpx2.ByteStream(body), headers=headers)
    )
    async with client:
        try:
            found = (await client.get("http://h/x")).content
        except EndpointError as error:
            return meant(error)
    return f"{len(found)} {found[:9]!r}"


def bounded(body, headers=(), **settings) -> str:
    return asyncio.run(_bounded(body, dict(headers), settings))


# --- batch jobs ---


def told_of_store(store) -> str:
    jobs = [(job.key[:8], job.turns, job.since, job.batch, job.over) for job in store.jobs.values()]
    still_open = [job.batch for job in store.open_jobs]
    return f"{jobs}\nopen {still_open}, counted {store.counted}, failures {store.failures}\nanswers {store.answers}"


def journal(happens, lines="") -> str:
    """What a journal holds after something has happened, and again when it is read by the next session."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_store, "time", SimpleNamespace(time=lambda: 1000.0, time_ns=lambda: 5))
        path = batch_store.journal_of(Path(folder))
        path.parent.mkdir()
        if lines:
            path.write_text(lines)
        try:
            store = batch_store.Store.open(Path(folder))
        except ValueError as error:
            return str(error).replace(folder, "")
        happens(store)
        again = batch_store.Store.open(Path(folder))
        kept = path.read_text().replace(folder, "") if path.exists() else ""
        same = vars(again) == vars(store)
        return f"{kept}{told_of_store(store)}\nread again as {'the same' if same else told_of_store(again)}"


async def _worked(work, turns, batch, waits, script) -> str:
    said, clock.now = [], 10_000.0
    clock.slept.clear()

    class Steps:
        def __getattr__(self, name):
            async def step(*given):
                shown = [sorted(each) if isinstance(each, dict) else each for each in given]
                said.append(f"-> {name} {shown}".replace(job.key, "KEY"))
                clock.now += 7.0
                found = script[name].pop(0) if len(script[name]) > 1 else script[name][0]
                if isinstance(found, Exception):
                    raise found
                return found

            return step

    async def call(ask, seconds):
        return await ask()

    with tempfile.TemporaryDirectory() as folder:
        batch_store.journal_of(Path(folder)).parent.mkdir()
        made = object.__new__(batch_connection.BatchConnection)
        made._store = store = batch_store.Store.open(Path(folder))
        other = store.announce({"other-0": 1.0})
        store.sent(other, "known")
        job = store.announce(dict.fromkeys(turns, 2.0))
        if batch:
            store.sent(job, batch)
        made._format, made._seconds, made._secrets, made.call = Steps(), 5.0, [KEY], call
        made._pace = batch_connection.Pace(1.0, 100.0, 0.5)
        made.redacted = lambda text: text.replace(KEY, "***")
        made._bodies, made._queue, made._came = {turn: {"of": turn} for turn in turns}, {}, asyncio.Event()
        made._waiting = {turn: asyncio.get_running_loop().create_future() for turn in waits}
        futures = dict(made._waiting)
        try:
            said.append(f"= {await getattr(made, work)(job)}")
        except EndpointError as error:
            said.append(f"{type(error).__name__} {meant(error)}".replace(folder, ""))
        told = {turn: future.result() if future.done() else "waits" for turn, future in futures.items()}
        jobs = [(each.batch, each.over) for each in store.jobs.values()]
        said.append(f"slept {clock.slept}, jobs {jobs}, answers {store.answers}")
        said.append(f"told {told}, queue {made._queue} {made._came.is_set()}, bodies {[*made._bodies]}")
    return "\n".join(said)


def worked(work, turns=("a-0", "b-0"), batch="", waits=("a-0",), **script) -> str:
    """What a job's steps at the provider are, how they end, and what games that wait are told; a last answer repeats."""
    usual = {"create": ["b1"], "candidates": [[]], "has_ended": [True], "answers": [{"a-0": {"data": KEY}}]}
    with pytest.MonkeyPatch.context() as patch:
        now = SimpleNamespace(monotonic=clock, time=clock, time_ns=lambda: int(clock()))
        patch.setattr(batch_connection, "time", now)
        patch.setattr(batch_connection, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": clock.sleep}))
        patch.setattr(batch_store, "time", now)
        return asyncio.run(_worked(work, turns, batch, waits, usual | script))


class Listed:
    """Jobs of an account; each one that is looked at is noted."""

    def __init__(self, said, jobs):
        self.said, self.jobs = said, jobs

    async def __aiter__(self):
        for job in self.jobs:
            self.said.append(f"looks at {job.id}")
            yield job

    def __await__(self):
        yield from ()
        return self


class BatchClient:
    """A provider's client for batch jobs: those that it lists, the one that it tells of, and what its files hold."""

    def __init__(self, said, listed=(), job=None, texts=None, given="b1"):
        self.said, self.listed, self.job, self.texts, self.given = said, listed, job, texts, given
        self.batches = self.messages = self.aio = self.with_raw_response = self
        self.files = SimpleNamespace(create=self.upload, content=self.content)

    async def upload(self, file, purpose):
        self.said.append(f"upload {file[0]} for {purpose}:\n{file[1].read().decode()}")
        return SimpleNamespace(id="f1")

    async def content(self, file):
        self.said.append(f"read {file}")
        return SimpleNamespace(content=self.texts[file].encode())

    async def create(self, **how):
        said = {
            name: each if name != "src" else [one.model_dump(exclude_none=True) for one in each]
            for name, each in how.items()
        }
        self.said.append(f"create {plain(said)}")
        return SimpleNamespace(id=self.given, name=self.given)

    def list(self, **how):
        self.said.append(f"list {plain(how)}")
        return Listed(self.said, self.listed)

    async def retrieve(self, name):
        self.said.append(f"ask of {name}")
        return self.job

    get = retrieve

    async def results(self, batch):
        async def read():
            return self.texts[batch].encode()

        return SimpleNamespace(read=read)


def by_name(kind, call, *given, api="chat", **client) -> str:
    """What a format of batch jobs asks of a client, which has two jobs for a page of a list at most, and what it returns."""
    said = []
    provider = SimpleNamespace(_client=BatchClient(said, **client), api=api, model="m", address="https://api.x/v1")
    provider.extra_body = {"own": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "PAGES_OF_JOBS", 0.03)
        try:
            said.append(
                f"= {plain(asyncio.run(getattr(getattr(formats, kind), call)(getattr(formats, kind)(provider), *given)))}"
            )
        except EndpointError as error:
            said.append(f"{type(error).__name__} {meant(error)}")
    return "\n".join(said)


def jobs_of(*jobs, dated=True):
    """Jobs by id, key, when they were made (None where it is not told) and number of turns."""
    found = []
    for id, key, at, turns in jobs:
        made = datetime.datetime.fromtimestamp(at, datetime.UTC) if dated and at is not None else at
        counts = SimpleNamespace(model_dump=lambda turns=turns: {"succeeded": turns - 1, "errored": 1})
        about = {"metadata": key and {"raycade_job": key}, "display_name": key, "created_at": made, "create_time": made}
        found.append(SimpleNamespace(id=id, name=id, request_counts=counts, **about))
    return found


def job(**told):
    usual = dict.fromkeys(("output_file_id", "error_file_id", "errors", "results_url", "dest", "error"))
    return SimpleNamespace(
        **{**usual, "state": SimpleNamespace(name="JOB_STATE_SUCCEEDED"), "status": "completed", **told}
    )


def of_turns(key, **results) -> str:
    """Lines of a file of Anthropic's, of the job with this key."""
    return "\n".join(json.dumps({"custom_id": f"{key}-{turn}", "result": result}) for turn, result in results.items())


def inline(*answers):
    """Where Google tells the answers of a job."""
    each = [
        SimpleNamespace(
            metadata={"key": turn}, response=SimpleNamespace(model_dump=lambda found=found, **how: found), error=None
        )
        for turn, found in answers
    ]
    return SimpleNamespace(inlined_responses=each or None)


def gemini_answer(key="t", answer=None, error=None):
    """An answer of a job as Google's client has it."""
    data = SimpleNamespace(model_dump=lambda **how: answer) if answer is not None else None
    return formats._gemini_answer(SimpleNamespace(metadata=key and {"key": key}, response=data, error=error))


def waited(error, began, pause, now=10_000.0) -> float:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_connection, "time", SimpleNamespace(monotonic=lambda: now))
        return batch_connection.BatchConnection._wait_after(None, error, began, pause)


def filled(lengths, most_turns=3, most_bytes=1000) -> str:
    """Jobs of turns of such lengths."""
    made = object.__new__(batch_connection.BatchConnection)
    made._format = SimpleNamespace(most_turns=most_turns, most_bytes=most_bytes)
    made._bodies = {str(number): "x" * (length - 202) for number, length in enumerate(lengths)}
    made._queue = {**{turn: float(turn) for turn in made._bodies}, "not asked": 9.0}
    return f"{made._jobs_of_queue()} {made._queue}"


def pace(**settings) -> str:
    through = make("chat", batch=True, **settings)._endpoint.http
    return f"{through._pace} {through._format._endpoint} {through._seconds}"


# --- vLLM's engine, not started ---


def vllm_engine(**settings) -> str:
    """Arguments of vLLM that settings stand for, without those that all engines have, and what they can do."""
    usual = VLLMEngine(Sampling(), "m").arguments
    made = VLLMEngine(**{"sampling": Sampling(), "model": "m", **settings})
    changed = {name: value for name, value in made.arguments.items() if usual.get(name, "none") != value}
    can = VLLMEngine.capabilities({"model": "m", **settings})
    own = {name: value for name, value in vars(made).items() if value != vars(VLLMEngine(Sampling(), "m"))[name]}
    kept = {name: value for name, value in own.items() if name not in ("_arguments", "_log", "_pictures")}
    return f"{plain(changed)}\n{plain(can)}\n{plain(kept)}"


# --- settings and secrets ---

ENVIRONMENT = {
    "OPENAI_API_KEY": KEY,
    "MY_PASSWORD": " hunter2-Hunter22xx\n",
    "TWO_WORDS": "two words",
    "TWO_LINES": "a\nb",
    "SHORT_TOKEN": "short-1",
    "MY_KEYS": "plain text",
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": KEY,
    **{f"{name}_API_KEY": KEY for name in ("ANTHROPIC", "GEMINI", "AZURE_OPENAI", "OPENROUTER")},
}


def openai(**settings) -> str:
    http = OpenAIEngine(**{"sampling": Sampling(), "model": "m", "base_url": "http://h", **settings})._endpoint.http
    sent = {name: value for name, value in http._client.headers.items() if name != "user-agent"}
    return f"{http.base_url}, {http._secrets}, {sent}"


@pytest.fixture(scope="module", autouse=True)
def _without_network():
    """Engines are made without clients; only the clock of this module passes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if api_secrets._SECRET_VARIABLE.search(name)]:
            patch.delenv(name)
        patch.delenv("OPENAI_BASE_URL", raising=False)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        for engine, _ in SETTINGS.values():
            patch.setattr(engine, "_make_client", lambda engine, key, headers: MagicMock())
        patch.setattr("cluster.engines.vllm.executor", lambda gpus: f"executor of {gpus}")
        patch.setattr(api_errors, "time", SimpleNamespace(time=lambda: 60.0))
        patch.setattr(api_engine, "random", SimpleNamespace(uniform=lambda low, high: high))
        own = SimpleNamespace(**{**vars(asyncio), "sleep": clock.sleep})
        for module in (api_engine, api_limited, limits):
            patch.setattr(module, "asyncio", own)
        patch.setattr(api_engine, "time", SimpleNamespace(monotonic=clock))
        patch.setattr(AdaptiveConcurrency.__init__, "__defaults__", (1.0, clock, 1.0))
        patch.setattr(PerMinute.__init__, "__defaults__", (clock,))
        make("bedrock"), openai()  # what takes long to import
        yield


@pytest.mark.parametrize("text", TEXTS)
def test_engines_say_what_is_on_record(text):
    named = {name: getattr(api_answer, name) for name in ("read_answer", "read_usage", "usage_in_parts")}
    for module in (api_errors, api_secrets, errors, gemini_jobs, guard, prices):
        named |= vars(module)
    check_said(
        f"engines_{text}",
        {**named, "nan": math.nan, "inf": math.inf, "redacted": redacted, "forms": _forms, **globals()},
        shown,
    )
