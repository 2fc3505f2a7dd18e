"""OpenAI's client: the responses API and chat completions, at OpenAI, Azure and OpenRouter.

Replies of the responses API go back as they came, encrypted reasoning included, since nothing is stored at OpenAI
(``store: false``); OpenRouter takes its ``reasoning_details`` back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from cluster.engines import api_answer
from cluster.engines.api_answer import Answer, Usage
from cluster.engines.api_errors import FILTERED, EndpointError, error_within
from cluster.engines.api_request import RequestForm
from cluster.engines.base import MANY, Capabilities, Request
from cluster.engines.providers.base import ProviderEngine
from cluster.engines.providers.connection import http_client, plain
from evals.chat_json import png
from evals.types import Finish, Part

MOST_COST = 1e9
"""No answer costs this much; more is invalid."""
_CHAT_NAMES = ("temperature", "top_p", "stop", "presence_penalty", "frequency_penalty")


@dataclass(kw_only=True, eq=False)
class OpenAIClientEngine(ProviderEngine):
    """OpenAI's models."""

    package: ClassVar[str] = "openai"
    extra: ClassVar[str] = "openai"
    provider: ClassVar[str] = "openai"
    key_variable: ClassVar[str] = "OPENAI_API_KEY"
    headers_variable: ClassVar[str] = "OPENAI_CUSTOM_HEADERS"
    url: ClassVar[str] = "https://api.openai.com/v1"
    batches: ClassVar[str] = "cluster.engines.batch.formats:OpenAIBatches"
    chat_tells_thoughts: ClassVar[bool] = False
    """Whether a chat completion holds what the model thought, in a form that can be sent back."""
    sampled: ClassVar[Mapping[str, str]] = {name: name for name in _CHAT_NAMES}

    api_key_env: str | None = "OPENAI_API_KEY"

    api: Literal["responses", "chat"] = "responses"
    """`responses` keeps thoughts over the turns; `chat` gives probabilities of labels of models that do not think."""

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Label scores from chat completions, where the model does not think first."""
        thinks = settings.get("effort") not in (None, "none")
        chat = settings.get("api", cls.api) == "chat"
        return Capabilities(
            pictures=MANY,
            label_scores=chat and not thinks,
            without_labels="only model.engine.api=chat gives them, of models that do not think",
        )

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """As ``Engine.check_settings``: thoughts are kept only where they can be had."""
        super().check_settings(settings)
        if not settings.get("keeps_reasoning"):
            return
        if settings.get("api", cls.api) == "chat":
            if not cls.chat_tells_thoughts:
                raise ValueError(
                    "history.reasoning=kept: chat completions tell no thoughts; model.engine.api=responses"
                )
        elif settings.get("batch") and settings.get("effort") is None:
            # Directly, a request that is refused for asking for thoughts is sent again without.
            raise ValueError(
                "history.reasoning=kept: a batch must know whether the model thinks: set model.engine.effort for one that "
                "does, else history.reasoning=dropped"
            )

    def __post_init__(self) -> None:
        """As ``ProviderEngine``."""
        super().__post_init__()
        is_said = self.thinks or "include" in (self.extra_body or {})
        self._asks_in_case = self.keeps_reasoning and not is_said
        """Whether thoughts are asked for though no setting says that the model thinks: some do by themselves."""
        self._may_think = True

    def _check_sampling(self) -> None:
        super()._check_sampling()
        others = set(self._changing()) - {"temperature", "top_p"}
        if self.api == "responses" and others:
            raise ValueError(f"model.sampling: the responses API takes no {' and no '.join(sorted(others))}")

    def _make_client(self, key: str, headers: Mapping[str, str]) -> Any:
        from openai import AsyncOpenAI

        self._http = http_client(self.max_num_seqs, self.timeout_seconds, self.batch)
        client = AsyncOpenAI(
            api_key=key,
            base_url=self.address,
            default_headers=dict(headers),
            max_retries=0,
            timeout=None,
            http_client=self._http,
        )
        if not _is_openais(self.address):
            _name_no_account(client)
        return client

    async def ask_whether_there(self) -> None:
        """Ask for the list of models."""
        await self._client.models.list()

    async def ask(self, body: Mapping[str, Any]) -> Any:
        """One response, or chat completion."""
        from openai import BadRequestError
        from openai.types.chat import ChatCompletion
        from openai.types.responses import Response

        path, kind = ("/responses", Response) if self.api == "responses" else ("/chat/completions", ChatCompletion)
        try:
            return plain(await self._client.post(path, body=dict(body), cast_to=kind))
        except BadRequestError as refused:
            # Of a model that does not think, to ask for its thoughts is an error.
            if not self._asks_in_case or refused.param != "include":
                raise
        self._may_think = False
        without = {name: value for name, value in body.items() if name != "include"}
        return plain(await self._client.post(path, body=without, cast_to=kind))

    def body(self, request: Request) -> dict[str, Any]:
        """What is sent for one turn."""
        return self._response_body(request) if self.api == "responses" else self._chat_body(request)

    def read_answer(self, data: Any, scored: bool) -> Answer:
        """What a response, or chat completion, says."""
        if self.api == "chat":
            within = error_within(data)
            if within is not None:
                raise self.refusal_within(*within, data, began=bool(data.get("choices")))
            return api_answer.read_answer(data, scored)
        began = bool(data.get("output"))
        if data.get("error"):
            raise self.refusal_within(_status_of_failed(data["error"]), data["error"], data, began)
        status = data.get("status")
        if status in ("failed", "cancelled"):
            raise self.refusal_within(500, {"message": f"the response is {status}"}, data, began)
        if status in ("queued", "in_progress"):
            raise EndpointError(f"the response is {status}, not an answer", unreadable=True)
        return _read_response(data)

    def read_usage(self, data: Any) -> Usage:
        """Its tokens."""
        return _response_usage(data) if self.api == "responses" else api_answer.read_usage(data)

    def read_error_usage(self, data: Any) -> Usage:
        """As of an answer without a reply."""
        of_api = _response_usage if self.api == "responses" else api_answer.read_usage
        return of_api(data, wrote=False)

    # --- chat completions ---

    def _chat_body(self, request: Request) -> dict[str, Any]:
        form = RequestForm(self.model, self.sampling, "refuse", self.thinks, self.effort, dict(self.extra_body or {}))
        body = form.body(request)
        if "max_tokens" in body:  # OpenAI's newer models take the other name only
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body

    # --- responses ---

    def _response_body(self, request: Request) -> dict[str, Any]:
        items: list[Any] = []
        for message, earlier in zip(request.chat, self.earlier(request), strict=True):
            if earlier is not None:
                items += earlier
            elif message.role == "assistant":
                items.append({"role": "assistant", "content": "".join(map(str, message.parts))})
            else:
                items.append({"role": message.role, "content": [_input_part(part) for part in message.parts]})
        body: dict[str, Any] = {
            "model": self.model,
            "input": items,
            "max_output_tokens": self.most_tokens(request),
            "store": False,
            **self.drawn(),
        }
        if self.effort is not None:
            body["reasoning"] = {"effort": self.effort}
        if self.thinks or (self._asks_in_case and self._may_think):
            body["include"] = ["reasoning.encrypted_content"]
        return body | dict(self.extra_body or {})


def _input_part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{png(part)}"}


def _status_of_failed(error: Mapping[str, Any]) -> int:
    """The status that the error of a response would have, had it been refused at once."""
    if error.get("code") == "rate_limit_exceeded":
        return 429
    is_filtered = FILTERED.search(f"{error.get('code')} {error.get('message')}") is not None
    return 400 if is_filtered else 500


def _read_response(data: Any) -> Answer:
    """A response's texts, refusals and thoughts, item by item."""
    texts, refusals, thoughts = list[str](), list[str](), list[str]()
    for item in data["output"]:
        if item["type"] == "reasoning":
            parts = (*item.get("summary", ()), *item.get("content", ()))
            thoughts += [part["text"] for part in parts]
        elif item["type"] == "message":
            for part in item["content"]:
                match part["type"]:
                    case "output_text":
                        texts.append(part["text"])
                    case "refusal":
                        refusals.append(part["refusal"])
    finish: Finish = "stop"
    if data.get("status") == "incomplete":
        details = data.get("incomplete_details") or {}
        is_filtered = details.get("reason") == "content_filter"
        finish = "content_filter" if is_filtered else "length"
    elif refusals:
        finish = "refusal"
    return Answer(
        text=api_answer.whole("".join([*texts, *refusals])),
        finish=finish,
        reasoning=api_answer.whole("\n".join(thoughts)),
        usage=_response_usage(data),
        top={},
        kept=data["output"] if _can_go_back(data["output"]) else None,
    )


def _can_go_back(output: Sequence[Mapping[str, Any]]) -> bool:
    """Whether its thoughts are encrypted: OpenAI, which stores nothing, knows the others no more, nor what followed them."""
    thoughts = [item for item in output if item["type"] == "reasoning"]
    return all(thought.get("encrypted_content") for thought in thoughts)


def _response_usage(data: Any, wrote: bool = True) -> Usage:
    """A response counts as a chat completion does, by other names."""
    used = data.get("usage") or {}
    renamed = {
        "prompt_tokens": used.get("input_tokens"),
        "prompt_tokens_details": used.get("input_tokens_details"),
        "completion_tokens": used.get("output_tokens"),
        "completion_tokens_details": used.get("output_tokens_details"),
        "total_tokens": used.get("total_tokens"),
    }
    return api_answer.read_usage({"usage": renamed}, wrote)


def _is_openais(address: str) -> bool:
    """Whether an address is one of OpenAI's own, such as ``https://eu.api.openai.com/v1``."""
    host = urlsplit(address).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _name_no_account(client: Any) -> None:
    """Do not send ``OPENAI_ORG_ID`` and ``OPENAI_PROJECT_ID``: the client reads them, and sends them to any address."""
    client.organization = client.project = None


@dataclass(kw_only=True, eq=False)
class AzureEngine(OpenAIClientEngine):
    """OpenAI's models in Azure; ``model`` names the deployment, ``base_url`` the resource."""

    extra: ClassVar[str] = "azure"
    batches: ClassVar[str] = ""
    key_variable: ClassVar[str] = "AZURE_OPENAI_API_KEY"

    api_key_env: str | None = "AZURE_OPENAI_API_KEY"

    api_version: str = "v1"
    """`v1`, or the date of an older version of Azure's interface."""

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """As ``Engine.check_settings``."""
        super().check_settings(settings)
        if not settings.get("base_url"):
            raise ValueError("model.engine.base_url: is missing: https://NAME.openai.azure.com, the resource's address")

    def _make_client(self, key: str, headers: Mapping[str, str]) -> Any:
        from openai import AsyncAzureOpenAI, AsyncOpenAI

        self._http = http_client(self.max_num_seqs, self.timeout_seconds, self.batch)
        common: dict[str, Any] = {
            "api_key": key,
            "default_headers": dict(headers),
            "max_retries": 0,
            "timeout": None,
            "http_client": self._http,
        }
        if self.api_version == "v1":
            client = AsyncOpenAI(base_url=f"{self.address}/openai/v1", **common)
        else:
            client = AsyncAzureOpenAI(azure_endpoint=self.address, api_version=self.api_version, **common)
        _name_no_account(client)
        return client


@dataclass(kw_only=True, eq=False)
class OpenRouterEngine(OpenAIClientEngine):
    """Models of many providers behind OpenRouter, which says what each answer cost."""

    extra: ClassVar[str] = "openrouter"
    batches: ClassVar[str] = ""
    provider: ClassVar[str] = "openrouter"
    key_variable: ClassVar[str] = "OPENROUTER_API_KEY"
    url: ClassVar[str] = "https://openrouter.ai/api/v1"
    cost_is_told: ClassVar[bool] = True
    chat_tells_thoughts: ClassVar[bool] = True
    sampled: ClassVar[Mapping[str, str]] = {
        name: name for name in (*_CHAT_NAMES, "top_k", "min_p", "repetition_penalty")
    }

    api_key_env: str | None = "OPENROUTER_API_KEY"

    api: Literal["responses", "chat"] = "chat"
    """Chat completions."""

    def _chat_body(self, request: Request) -> dict[str, Any]:
        form = RequestForm(self.model, self.sampling, "refuse", False, None, dict(self.extra_body or {}))
        body = {"usage": {"include": True}, **form.body(request)}
        if self.effort is not None:
            body["reasoning"] = {"effort": self.effort}
        for message, earlier in zip(body["messages"], self.earlier(request), strict=True):
            if earlier is not None:
                message["reasoning_details"] = earlier
        return body

    def read_answer(self, data: Any, scored: bool) -> Answer:
        """What a chat completion, or response, says."""
        answer = super().read_answer(data, scored)
        kept = answer.kept
        if self.api == "chat":
            kept = data["choices"][0]["message"].get("reasoning_details") or None
        return dataclasses.replace(answer, usage=self.read_usage(data), kept=kept)

    def read_usage(self, data: Any) -> Usage:
        """Its tokens, and what they cost."""
        return dataclasses.replace(super().read_usage(data), cost=_told_cost(data.get("usage") or {}))

    def read_error_usage(self, data: Any) -> Usage:
        """As ``read_usage``, of an error."""
        return dataclasses.replace(super().read_error_usage(data), cost=_told_cost(data["usage"]))


def _told_cost(usage: Mapping[str, Any]) -> float | None:
    """What OpenRouter says that an answer cost; None where it does not."""
    charged = _amount(usage.get("cost"))
    # With one's own key at a provider (BYOK), that provider is paid as well; else its part is within ``cost``.
    if usage.get("is_byok") is not True:
        return charged
    paid_there = _amount((usage.get("cost_details") or {}).get("upstream_inference_cost"))
    if charged is None or paid_there is None:
        return None
    return charged + paid_there


def _amount(cost: Any) -> float | None:
    """An amount of money; None where it is none."""
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    return float(cost) if 0 <= cost <= MOST_COST else None
