"""What engines over providers' own clients share: settings, prices, thoughts that are sent back.

A provider's engine says how a turn is written and a reply is read, and how its client is built and asked; it is registered
like an outsider's (entry point ``raycade.engines``). Keys are read from the environment where the engine runs.
"""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import importlib.util
import json
import os
import pkgutil
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from cluster.engines.api_answer import Answer, Usage
from cluster.engines.api_engine import ApiEngine
from cluster.engines.api_errors import EndpointError, error_from
from cluster.engines.api_limited import LimitedEndpoint, Reading
from cluster.engines.api_request import NEUTRAL
from cluster.engines.api_secrets import OF_TURN, check_base_url, check_no_secrets, read_headers, read_key
from cluster.engines.base import MANY, Capabilities, Request, Sampling
from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from cluster.engines.providers.connection import ClientConnection
from cluster.engines.providers.connection import http_client as http_client
from cluster.engines.providers.prices import NAMES, listed, prices_for, table
from cluster.engines.providers.thoughts import Thoughts
from cluster.engines.spend import UNTIL_BILLED, Price, Spend
from envs.settings import Count, Positive, Seconds
from evals.replies.reasoning import separate_reasoning
from evals.types import Reply, stable_hash

OWN_FIELDS = frozenset(
    {"background", "candidate_count", "contents", "http_options", "input", "logprobs", "messages", "model", "n"}
    | {"response_logprobs", "stream", "system", "system_instruction", "top_logprobs"}
)
"""What the engine itself writes into a request, by any provider's name, and where it is sent; ``extra_body`` may not
touch it."""
TOKEN_LIMITS = frozenset({"max_completion_tokens", "max_output_tokens", "max_tokens"})
"""Names of the most tokens of a reply, by which costs are reserved."""
PRICED_FIELDS = frozenset(
    {"cache_control", "inference_geo", "performance_config", "service_tier", "speed", "tools", "web_search_options"}
)
"""Fields of requests, by any provider's name, with which a request costs otherwise than the price table says."""
USUAL_VALUES = frozenset({"auto", "default", "global", "standard", "standard_only"})
"""Of these fields, those at the table's prices."""
TOLD_FIELDS = ("service_tier", "speed", "inference_geo")
"""Fields of answers, or of what they say of tokens, that tell how a request was served: an account may set another default."""
DEARER_VALUES = frozenset({"fast", "priority", "ultrafast", "us"})
"""Of these fields, those above the table's prices."""
NO_LABELS = "this provider gives no probabilities of labels; the suite's written answers need none"


@dataclass(kw_only=True, eq=False)
class ProviderEngine(ApiEngine, abc.ABC):
    """Completes chats through one provider's client."""

    package: ClassVar[str]
    """The client's package, as it is imported."""
    extra: ClassVar[str]
    """Of raycade, which installs it."""
    provider: ClassVar[str]
    """Section of the price table."""
    key_variable: ClassVar[str]
    """Environment variable of the key, unless ``api_key_env`` names another."""
    headers_variable: ClassVar[str] = ""
    """Environment variable from which the client would read headers by itself."""
    url: ClassVar[str] = ""
    """Where requests go without ``base_url``; empty where the client knows."""
    batches: ClassVar[str] = ""
    """The format of the provider's batch jobs, ``module:class``; imported only where they are used."""
    cost_is_told: ClassVar[bool] = False
    """Whether answers say what they cost."""
    sampled: ClassVar[Mapping[str, str]]
    """The sampling parameters that the provider takes, with their names there."""
    always_sent: ClassVar[frozenset[str]] = frozenset()
    """Those that are sent even where they change nothing, since the provider's own default is another."""
    operational: ClassVar[frozenset[str]] = ApiEngine.operational | {
        *NAMES,
        "batch",
        "batch_poll_seconds",
        "batch_quiet_seconds",
        "batch_requests",
        "batch_wait_hours",
    }

    sampling: Sampling
    model: str
    """The name that the provider knows."""
    base_url: str | None = None
    """The endpoint; the provider's own by default."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; by default the one that the client's users know."""
    headers: Mapping[str, str] | None = None
    """Sent with every request; a value `env:NAME` is read from the environment, as secrets must be."""
    extra_body: Mapping[str, Any] | None = None
    """Further parameters of a request as the provider knows them."""
    max_num_seqs: Count = 32  # type: ignore[assignment]
    """Most requests at once; fewer while the provider says it has too many."""
    timeout_seconds: Seconds = 600.0
    """For one try of one request."""
    max_tries: Count = 8
    """Tries of one request, while others are answered, before its episode fails."""
    requests_per_minute: Positive | None = None
    """Limit that the provider sets, if any."""
    tokens_per_minute: Positive | None = None
    """Likewise, prompt and completion tokens together."""
    prompt_price: Price | None = None
    """Per million tokens; null takes this and the next three from raycade's table, for a batch those of a batch."""
    completion_price: Price | None = None
    """Per million tokens, reasoning included."""
    cache_read_price: Price | None = None
    """Per million prompt tokens that a cache served; null with a `prompt_price` by hand: the same."""
    cache_write_price: Price | None = None
    """Per million prompt tokens that were written into a cache; null with a `prompt_price` by hand: the same."""
    spend_cap: Positive | None = None
    """The run stops when this much was spent and can be resumed; the last request may exceed it."""
    effort: str | None = None
    """How much the model should think, in the provider's words (low, high, ...); null sends nothing."""
    keeps_reasoning: bool = False
    """Whether earlier thoughts are sent back, with their signatures, as the provider wants them."""
    batch: bool = False
    """Send the turns that all games wait for as batch jobs, at the price of a batch."""
    batch_requests: Count = 1000
    """Games at once, and so most turns of a job."""
    batch_quiet_seconds: Seconds = 10.0
    """A job is sent when no further turn has come for so long."""
    batch_poll_seconds: Seconds = 60.0
    """Between looks at a job."""
    batch_wait_hours: Positive = 26.0
    """How long a job may take before the run stops; it can be resumed."""

    def __post_init__(self) -> None:
        """Build the client; nothing is sent yet.

        Raises:
            ValueError: there is no key that could be sent, a setting holds a secret, or a limit or price is invalid.
        """
        self.check_settings(self._settings())
        self._check_sampling()
        if not self.timeout_seconds > 0:
            raise ValueError(f"timeout_seconds={self.timeout_seconds}: must be above 0")
        if self.batch:
            self.max_num_seqs = self.batch_requests
        self._thoughts = Thoughts(4 * self.max_num_seqs)
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock for each turn of a batch that is being asked."""
        prices = prices_for(self.provider, self._settings())
        key, sent, secrets = self._read_secrets(self._settings())
        self._secrets = [key, *secrets]
        self._client = self._make_client(key, sent)
        # a first job of few turns would take as long as one of all, and makers of models bill by their lists
        doubt = 1.0 if self.batch else UNTIL_BILLED
        spend = Spend(prices.prompt, prices.completion, self.spend_cap, self.cost_is_told, doubt)
        endpoint = LimitedEndpoint(
            self._connection(self._secrets),
            *self._limits(),
            spend,
            Reading(self._read_or_refuse, self._usage_or_nothing, self._error_usage_or_nothing),
            prices.of,
        )
        self._connect(self, endpoint, self.max_num_seqs, self.max_tries)

    def _settings(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "sampling"}

    def _limits(self) -> tuple[AdaptiveConcurrency, PerMinute, PerMinute]:
        """Of requests at once, and of requests and tokens per minute."""
        if not self.batch:
            return (
                AdaptiveConcurrency(self.max_num_seqs),
                PerMinute(self.requests_per_minute),
                PerMinute(self.tokens_per_minute),
            )
        # A job takes all turns that there are, also those that replicas are given beyond their number at once. No turn of
        # it waits for another one, and no limit per minute concerns it.
        most = 2 * self.max_num_seqs
        return AdaptiveConcurrency(most, least=most), PerMinute(None), PerMinute(None)

    def _connection(self, secrets: list[str]) -> ClientConnection:
        if not self.batch:
            return ClientConnection(self, secrets, self.timeout_seconds)
        make: Any = pkgutil.resolve_name("cluster.engines.batch.connection:connect")
        found: ClientConnection = make(self, secrets)
        return found

    async def _send(self, request: Request, body: Mapping[str, Any]) -> tuple[Answer, float]:
        """As ``ApiEngine._send``; in a batch one try of a turn at a time.

        A game whose runner died is played again while its turn is under way, whose answer is paid for once.
        """
        if not self.batch:
            return await super()._send(request, body)
        turn = stable_hash(request.id, body)
        one_at_a_time = self._under_way.setdefault(turn, asyncio.Lock())
        async with one_at_a_time:
            return await super()._send(request, body)

    def keep_in(self, directory: Path) -> None:
        """As ``Engine.keep_in``: the journal of batch jobs."""
        if self.batch:
            self._endpoint.http.open(directory)  # type: ignore[attr-defined]

    async def _fails_alone(self, error: EndpointError) -> bool:
        """In a batch each turn fails alone, hours after the last one was answered."""
        return self.batch or await super()._fails_alone(error)

    async def _wait(self, attempt: int, error: EndpointError) -> None:
        """In a batch a turn is tried again in the next job, together with all others that wait."""
        if not self.batch:
            await super()._wait(attempt, error)

    def known_by(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """What of a request tells its turn from others: all but what may change while a batch job is open."""
        return body

    def _check_sampling(self) -> None:
        """See that the provider takes all sampling parameters that would change something.

        Raises:
            ValueError: it does not take one, or thinking models would ignore it.
        """
        unknown = [name for name in self._changing() if name not in self.sampled]
        if unknown:
            raise ValueError(f"model.sampling: this provider takes no {' and no '.join(sorted(unknown))}")
        if self.thinks and self.sampling.temperature != 1:
            raise ValueError("a model that thinks draws at temperature 1 only: model.sampling.temperature=1")

    def _changing(self) -> dict[str, Any]:
        """Sampling parameters that differ from drawing from the model's whole distribution."""
        neutral = {**NEUTRAL, "temperature": 1.0, "top_p": 1.0, "stop": ()}
        return {name: getattr(self.sampling, name) for name in neutral if getattr(self.sampling, name) != neutral[name]}

    def drawn(self) -> dict[str, Any]:
        """Sampling parameters as they are sent."""
        sent = {name: getattr(self.sampling, name) for name in sorted(self.always_sent)}
        sent |= self._changing()
        drawn = {}
        for name, value in sent.items():
            drawn[self.sampled[name]] = list(value) if name == "stop" else value
        return drawn

    @property
    def thinks(self) -> bool:
        """Whether the settings make the model think before it answers."""
        return self.effort not in (None, "none")

    # --- before anything starts ---

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Pictures as the model takes them; neither options nor label scores."""
        return Capabilities(pictures=MANY, without_labels="its provider gives none")

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """As ``Engine.check_settings``: no secret, and the client is installed."""
        variable = settings.get("api_key_env") or cls.key_variable
        check_no_secrets({**settings, "api_key_env": variable})
        if not _is_installed(cls.package):
            raise ValueError(f"this engine needs the Python package {cls.package}: pip install 'raycade[{cls.extra}]'")
        if settings.get("batch") is True and not cls.batches:
            raise ValueError("model.engine.batch=true: raycade has no batch jobs of this provider")
        cls.check_extra_body(settings.get("extra_body") or {})
        prices = ("prompt_price", "completion_price")
        missing = [name for name in prices if settings.get(name) is None]
        if len(missing) == 1 and not cls._knows_prices(settings):
            raise ValueError(
                f"model.engine.{missing[0]}: prompt_price and completion_price must be set together, as the price table has "
                f"no entry for {settings.get('model')} (model.engine.{missing[0]}=0 for tokens that cost nothing)"
            )
        if missing and cls._knows_prices(settings) and not cls.cost_is_told:
            _check_usual_prices(settings.get("extra_body") or {})
        if settings.get("spend_cap") is not None and not cls._has_prices(settings):
            raise ValueError(f"model.engine.spend_cap: {cls.price_note(settings)}")
        is_free = all(settings.get(name) == 0 for name in prices) and not cls.cost_is_told
        if settings.get("spend_cap") is not None and is_free:
            raise ValueError(
                "model.engine.spend_cap: would never be reached, as prompt_price and completion_price are 0"
            )

    @classmethod
    def check_extra_body(cls, extra_body: Mapping[str, Any]) -> None:
        """See that further parameters of a request are none that is set elsewhere.

        Raises:
            ValueError: one is.
        """
        settings = {snake_case(name): setting for setting, name in cls.sampled.items()}
        settings |= dict.fromkeys(TOKEN_LIMITS, "max_tokens")
        for name, value in extra_body.items():
            known = snake_case(name)  # some clients take maxOutputTokens as well
            if known in OWN_FIELDS:
                raise ValueError(f"model.engine.extra_body: {name} cannot be set there")
            # Null takes out a parameter that is sent by default, but without a limit nothing bounds what a reply costs.
            if known in TOKEN_LIMITS or (known in settings and value is not None):
                raise ValueError(f"model.engine.extra_body: set {name} as model.sampling.{settings[known]}")

    @classmethod
    def _knows_prices(cls, settings: Mapping[str, Any]) -> bool:
        """Whether answers tell what they cost, or the price table has the model."""
        return cls.cost_is_told or listed(cls.provider, str(settings.get("model"))) is not None

    @classmethod
    def _has_prices(cls, settings: Mapping[str, Any]) -> bool:
        """Whether prices are known, or given by hand."""
        given = settings.get("prompt_price") or settings.get("completion_price")
        return bool(given) or cls._knows_prices(settings)

    @classmethod
    def check_environment(cls, settings: Mapping[str, Any]) -> None:
        """As ``Engine.check_environment``: the key, and headers with values from the environment."""
        cls._read_secrets(settings)

    @classmethod
    def known_prices(cls, settings: Mapping[str, Any]) -> Mapping[str, float]:
        """As ``Engine.known_prices``: those of the table, for the model and for batches or not."""
        found = prices_for(cls.provider, settings)
        amounts = (found.prompt, found.completion, found.cache_read, found.cache_write)
        return dict(zip(NAMES, amounts, strict=True)) if listed(cls.provider, str(settings.get("model"))) else {}

    @classmethod
    def price_note(cls, settings: Mapping[str, Any]) -> str:
        """As ``Engine.price_note``."""
        model = str(settings.get("model"))
        if listed(cls.provider, model):
            others = {name: value for name, value in settings.items() if name not in NAMES}
            known = cls.known_prices(others)
            if any(settings.get(name) not in (None, known[name]) for name in NAMES):
                return f"prices of {model} as set by hand; the table of {table().date} has others"
            return f"prices of {model} as of {table().date} (model.engine.prompt_price and its like set others)"
        if settings.get("prompt_price") or settings.get("completion_price"):
            return ""
        if cls.cost_is_told:
            return f"prices of {model} are not known before it is asked; each answer says what it cost"
        return (
            f"the prices of {model} are unknown: costs count as 0, and no spend_cap can be kept; set "
            "model.engine.prompt_price and model.engine.completion_price, per million tokens"
        )

    @classmethod
    def _read_secrets(cls, settings: Mapping[str, Any]) -> tuple[str, dict[str, str], list[str]]:
        """The key, headers as they are sent, and which of their values are secret.

        Raises:
            ValueError: a variable of the environment is missing.
        """
        if cls.headers_variable and os.environ.get(cls.headers_variable):
            raise ValueError(
                f"{cls.headers_variable} is set, but no run would record these headers, nor keep secrets in them out of its "
                "results: unset it, and give model.engine.headers"
            )
        sent, secrets = read_headers(settings.get("headers") or {})
        if any(value in OF_TURN for value in sent.values()):
            raise ValueError("model.engine.headers: only model=openai sends episode and turn")
        return read_key(settings.get("api_key_env") or cls.key_variable, needed=True), sent, secrets

    # --- what each provider says ---

    @abc.abstractmethod
    def _make_client(self, key: str, headers: Mapping[str, str]) -> Any:
        """The provider's client; it neither tries again nor follows redirects."""

    @abc.abstractmethod
    async def ask(self, body: Mapping[str, Any]) -> Any:
        """What the client answers to one request: JSON."""

    @abc.abstractmethod
    async def ask_whether_there(self) -> None:
        """Ask something that costs nothing."""

    @abc.abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """As ``RequestFormat.body``: JSON."""

    @abc.abstractmethod
    def read_answer(self, data: Any, scored: bool) -> Answer:
        """What an answer's JSON says.

        Raises:
            EndpointError, LookupError, TypeError, ValueError, AttributeError: it is no sound answer.
        """

    @abc.abstractmethod
    def read_usage(self, data: Any) -> Usage:
        """The tokens that an answer's JSON says it took."""

    def read_error_usage(self, data: Any) -> Usage:
        """The tokens that an error's JSON says were used, in the provider's own names; there need be no reply."""
        return self.read_usage(data)

    @property
    def address(self) -> str:
        """Where requests go, for people."""
        return check_base_url(self.base_url) or self.url or self.provider

    @staticmethod
    def status_of(status: int, words: str) -> int:
        """The status that says whom a refusal concerns, where the provider's own does not."""
        return status

    async def close_client(self) -> None:
        """Close the client's connections."""
        await self._client.close()

    # --- a request's format, and its answer ---

    def most_tokens(self, request: Request) -> int:
        """As ``RequestFormat.most_tokens``."""
        return 1 if request.labels else self.sampling.max_tokens

    def parameter_names(self, body: Mapping[str, Any]) -> set[str]:
        """As ``RequestFormat.parameter_names``: the names on the top level, and those of nested settings."""
        names = set(body)
        for value in body.values():
            if isinstance(value, dict):
                names.update(value)
        return names - {"messages", "contents", "input"}

    def lacks(self, request: Request) -> str:
        """As ``RequestFormat.lacks``."""
        if request.options or request.schema:
            return "this provider's replies cannot be constrained here: use decoding=free"
        if request.labels and not self.capabilities(self._settings()).label_scores:
            return NO_LABELS
        return ""

    def earlier(self, request: Request) -> list[Any | None]:
        """For each message of a chat the reply as it came; None for those that are sent as their words."""
        return self._thoughts.earlier(request) if self.keeps_reasoning else [None] * len(request.chat)

    def _read_or_refuse(self, data: Any, scored: bool) -> Answer:
        """``read_answer``, whose errors are those of an answer that cannot be read."""
        try:
            answer = self.read_answer(data, scored)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise EndpointError(
                f"the answer cannot be read: {type(error).__name__}", unreadable=True
            ) from None  # its words may hold what the endpoint said
        dearer = _dearer(data)
        by_hand_or_told = self.prompt_price is not None or self.cost_is_told
        if dearer and not by_hand_or_told and self._knows_prices(self._settings()):
            # What has been paid for counts, and nothing more is asked: a spend cap could not hold.
            self._close(
                f"the endpoint served a request with {dearer}, which costs more than the price table says; set "
                "model.engine.prompt_price and model.engine.completion_price to the prices that apply"
            )
        return answer

    def refusal_within(self, status: int, error: Any, data: Any = None, began: bool = True) -> EndpointError:
        """The error that an answer holds in place of a reply, as free as a refusal with a status of its own.

        Args:
            status: That it would have had, had it been refused at once.
            error: What stands for it in the answer.
            data: The answer, where it may tell tokens, which count.
            began: Whether it holds a part of a reply, whose tokens count, too.
        """
        found = error_from(status, {}, json.dumps({"error": error}), [secret for secret in self._secrets if secret])
        found.may_cost |= began or self._usage_or_nothing(data) != Usage()
        return found

    def _usage_or_nothing(self, data: Any) -> Usage:
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            return self.read_usage(data)
        return Usage()

    def _error_usage_or_nothing(self, data: Any) -> Usage:
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            return self.read_error_usage(data)
        return Usage()

    def _reply(self, request: Request, answer: Answer, cost: float, seconds: float) -> Reply:
        reply = super()._reply(request, answer, cost, seconds)
        if self.keeps_reasoning and answer.kept is not None and not request.labels:
            # As the chat will repeat it, without marks of thoughts that the model has written.
            words = separate_reasoning(reply).text
            # Thoughts alone, of a reply that was cut off before its first word, are refused by OpenAI, Anthropic and Bedrock.
            if words.strip():
                self._thoughts.keep(request, words, answer.kept)
        return reply


def snake_case(name: str) -> str:
    """``max_output_tokens`` of ``maxOutputTokens``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of a package within a package, such as google.genai
        return False


def _dearer(data: Any) -> str:
    """What an answer tells of how it was served, where that costs more than usual: ``service_tier=priority``."""
    found = data if isinstance(data, dict) else {}
    usage = found.get("usage")
    for told in (found, usage if isinstance(usage, dict) else {}):
        for name in TOLD_FIELDS:
            value = told.get(name)
            if isinstance(value, str) and value in DEARER_VALUES:
                return f"{name}={value}"
    return ""


def _check_usual_prices(extra_body: Mapping[str, Any]) -> None:
    """See that no field of a request changes what the table says that a token costs."""
    for name, value in extra_body.items():
        is_usual = value is None or (isinstance(value, str) and value in USUAL_VALUES)
        if snake_case(name) in PRICED_FIELDS and not is_usual:
            raise ValueError(
                f"model.engine.extra_body: with {name} the prices of the table may not hold; set model.engine.prompt_price and "
                "model.engine.completion_price to those that apply"
            )
