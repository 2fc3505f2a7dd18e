"""Amazon Bedrock through boto3's ``converse``: one form for the models of several makers.

Credentials come from where boto3 looks for them on the engine's machine (API key of Bedrock, environment, profile, role), never
from settings.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar

from cluster.engines.api_answer import Answer, Usage, usage_in_parts, whole, with_total
from cluster.engines.api_endpoint import connect_seconds
from cluster.engines.api_errors import EndpointError
from cluster.engines.api_secrets import read_headers
from cluster.engines.base import Request
from cluster.engines.providers.base import ProviderEngine
from cluster.engines.providers.messages import messages_of, system_texts
from evals.chat_json import png
from evals.types import Finish, Part

FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "refusal": "refusal",
}
"""Stop reasons; all others mean that the model had said what it wanted to."""
STATUSES = {"ModelErrorException": 500, "ModelTimeoutException": 504, "ExpiredTokenException": 401}
"""Errors whose status says something else than that of other providers."""
API_KEY = "AWS_BEARER_TOKEN_BEDROCK"
"""Environment variable of an API key of Bedrock, which boto3 sends in place of a signature."""
OTHER_ADDRESSES = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL")
"""Environment variables that name another endpoint."""


@dataclass(kw_only=True, eq=False)
class BedrockEngine(ProviderEngine):
    """Models of Amazon Bedrock; ``model`` is the id of a model or of an inference profile."""

    package: ClassVar[str] = "boto3"
    extra: ClassVar[str] = "bedrock"
    provider: ClassVar[str] = "bedrock"
    key_variable: ClassVar[str] = "AWS_SECRET_ACCESS_KEY"
    sampled: ClassVar[Mapping[str, str]] = {"temperature": "temperature", "top_p": "topP", "stop": "stopSequences"}
    always_sent: ClassVar[frozenset[str]] = frozenset({"temperature"})
    operational: ClassVar[frozenset[str]] = ProviderEngine.operational | {"cache", "region"}

    region: str | None = None
    """Of Amazon's data centers; by default the one that boto3's configuration names."""
    thinking_tokens: int | None = None
    """Most tokens of thoughts, of Claude models that take a number."""
    cache: bool = False
    """Whether prompts are marked to be kept for the next turn, where the model can."""

    @property
    def address(self) -> str:
        """Where requests go, for people."""
        return self.base_url or f"Bedrock in {self.region or 'the configured region'}"

    @property
    def thinks(self) -> bool:
        """Whether the settings make the model think before it answers."""
        return self.thinking_tokens is not None or super().thinks

    @staticmethod
    def status_of(status: int, words: str) -> int:
        """Some errors of a model have statuses of refused requests."""
        return next((number for name, number in STATUSES.items() if name in words), status)

    @classmethod
    def _read_secrets(cls, settings: Mapping[str, Any]) -> tuple[str, dict[str, str], list[str]]:
        import boto3

        sent, secrets = read_headers(settings.get("headers") or {})
        if sent:
            raise ValueError("model.engine.headers: boto3 signs its requests and sends no others")
        elsewhere = [name for name in OTHER_ADDRESSES if os.environ.get(name)]
        if elsewhere and not settings.get("base_url"):
            raise ValueError(f"{elsewhere[0]} is set, but no run would record it: give model.engine.base_url")
        api_key = os.environ.get(API_KEY)
        if api_key is not None:
            _check_api_key(api_key, settings.get("base_url"))
            return api_key, sent, secrets
        found = boto3.Session().get_credentials()
        if found is None:
            raise ValueError(
                f"no AWS credentials where the engine runs: set {API_KEY} (an API key of Bedrock), AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or a profile, before Ray starts there"
            )
        frozen = found.get_frozen_credentials()
        return frozen.secret_key or "", sent, [*secrets, frozen.access_key or "", frozen.token or ""]

    def _make_client(self, key: str, headers: Mapping[str, str]) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=connect_seconds(self.timeout_seconds),
            read_timeout=self.timeout_seconds,
            retries={"total_max_attempts": 1},
            max_pool_connections=self.max_num_seqs + 2,
        )
        try:
            return boto3.client("bedrock-runtime", region_name=self.region, endpoint_url=self.base_url, config=config)
        except Exception as error:  # botocore's errors have no common class but Exception
            raise ValueError(f"model.engine.region={self.region}: {error}") from None

    async def close_client(self) -> None:
        """Close the client's connections."""
        self._client.close()

    async def ask_whether_there(self) -> None:
        """Nothing: what is free of charge needs rights of its own; the first request will tell."""

    async def ask(self, body: Mapping[str, Any]) -> Any:
        """One reply."""
        try:
            arguments = _with_bytes(dict(body))
        except ValueError:  # nothing was sent
            raise EndpointError("bytes must be base64: see model.engine.extra_body", 400) from None
        found = await _in_its_own_thread(lambda: self._client.converse(**arguments))
        found.pop("ResponseMetadata", None)
        return json.loads(json.dumps(found, default=lambda value: base64.b64encode(value).decode()))

    def body(self, request: Request) -> dict[str, Any]:
        """What is sent for one turn."""
        system: list[dict[str, Any]] = [{"text": text} for text in system_texts(request.chat)]
        messages = messages_of(request.chat, self.earlier(request), _block)
        if self.cache:
            _mark(system, messages)
        further: dict[str, Any] = {}
        if self.thinking_tokens is not None:
            further["thinking"] = {"type": "enabled", "budget_tokens": self.thinking_tokens}
        elif self.thinks:
            further["thinking"] = {"type": "adaptive"}
        if self.effort is not None:
            further["output_config"] = {"effort": self.effort}
        if self.extra_body:
            further |= self.extra_body
        body: dict[str, Any] = {"modelId": self.model, "messages": messages}
        if system:
            body["system"] = system
        body["inferenceConfig"] = {"maxTokens": self.most_tokens(request), **self.drawn()}
        if further:
            body["additionalModelRequestFields"] = further
        return body

    def read_answer(self, data: Any, scored: bool) -> Answer:
        """What a reply says, block by block."""
        blocks = data["output"]["message"]["content"]
        texts, thoughts = list[str](), list[str]()
        for block in blocks:
            if "text" in block:
                texts.append(block["text"])
            if "reasoningContent" in block:
                # An encrypted thought has no text.
                thought = block["reasoningContent"].get("reasoningText") or {}
                thoughts.append(thought.get("text", ""))
        return Answer(
            text=whole("".join(texts)),
            finish=FINISHES.get(data.get("stopReason") or "", "stop"),
            reasoning=whole("\n".join(thoughts)),
            usage=self.read_usage(data),
            top={},
            kept=blocks or None,
        )

    def read_usage(self, data: Any) -> Usage:
        """Its tokens; those of the prompt are counted in three parts."""
        used = data.get("usage") or {}
        prompt = [used.get(name) for name in ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")]
        wrote = bool(data["output"]["message"].get("content"))
        found = usage_in_parts(prompt, [used.get("outputTokens")], 0, wrote)
        return with_total(found, used.get("totalTokens"))


def _check_api_key(key: str, base_url: str | None) -> None:
    """See that boto3 can send an API key of Bedrock, which it does as it stands in the environment.

    Raises:
        ValueError: it cannot; the message does not repeat the key.
    """
    if not re.fullmatch(r"[!-~]+", key):
        raise ValueError(
            f"{API_KEY} cannot be sent: it is empty, or has blanks or characters that no key has; correct or unset it"
        )
    if base_url is not None and not base_url.startswith("https://"):
        raise ValueError(
            f"model.engine.base_url: must begin with https:// where {API_KEY} is set: boto3 sends it encrypted only"
        )


def _in_its_own_thread(call: Callable[[], Any]) -> asyncio.Future[Any]:
    """What a call returns that blocks: boto3's.

    Nothing ends an exchange of boto3 whose answer drips in for ever. It keeps its thread, and no later one waits for that.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        outcome.set_running_or_notify_cancel()
        try:
            outcome.set_result(call())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="bedrock", daemon=True).start()
    return asyncio.wrap_future(outcome)


def _mark(system: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
    """Set cache marks: behind the system message, and behind the last two that were asked."""
    asked = [message["content"] for message in messages if message["role"] == "user"]
    marked = asked[-2:]
    if system:
        marked.append(system)
    for blocks in marked:
        blocks.append({"cachePoint": {"type": "default"}})


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    return {"image": {"format": "png", "source": {"bytes": png(part)}}}


def _with_bytes(value: Any) -> Any:
    """JSON with bytes where boto3 wants them: pictures, and thoughts that are encrypted."""
    if isinstance(value, list):
        return [_with_bytes(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, inner in value.items():
        is_encoded = name in ("bytes", "redactedContent")
        found[name] = base64.b64decode(inner) if is_encoded else _with_bytes(inner)
    return found
