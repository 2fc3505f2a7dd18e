"""Anthropic's client: messages as a stream, thoughts sent back with their signatures, cache marks at the growing prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from cluster.engines.api_answer import Answer, Usage, usage_in_parts, whole
from cluster.engines.api_errors import EndpointError
from cluster.engines.base import Request
from cluster.engines.providers.base import ProviderEngine
from cluster.engines.providers.connection import http_client, plain
from cluster.engines.providers.messages import messages_of, system_texts
from evals.chat_json import png
from evals.types import Finish, Part

FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
"""Stop reasons; all others mean that the model had said what it wanted to."""
DEFAULT_CACHE: Final = "5m"


@dataclass(kw_only=True, eq=False)
class AnthropicEngine(ProviderEngine):
    """Claude models."""

    package: ClassVar[str] = "anthropic"
    extra: ClassVar[str] = "anthropic"
    provider: ClassVar[str] = "anthropic"
    key_variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    headers_variable: ClassVar[str] = "ANTHROPIC_CUSTOM_HEADERS"
    url: ClassVar[str] = "https://api.anthropic.com"
    batches: ClassVar[str] = "cluster.engines.batch.formats:AnthropicBatches"
    sampled: ClassVar[Mapping[str, str]] = {
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "stop": "stop_sequences",
    }
    operational: ClassVar[frozenset[str]] = ProviderEngine.operational | {"cache"}

    api_key_env: str | None = "ANTHROPIC_API_KEY"

    thinking_tokens: int | None = None
    """Most tokens of thoughts, for models that take a number: 1024 at least, below `model.sampling.max_tokens`."""
    cache: Literal["5m", "1h", "off"] = DEFAULT_CACHE
    """How long the prompt so far is kept for the next turn; writing it costs more than a plain prompt, reading far less."""

    @property
    def thinks(self) -> bool:
        """Whether the settings make the model think before it answers."""
        return self.thinking_tokens is not None or super().thinks

    def _check_sampling(self) -> None:
        super()._check_sampling()
        if self.thinking_tokens is not None and not 1024 <= self.thinking_tokens < self.sampling.max_tokens:
            raise ValueError(
                f"thinking_tokens={self.thinking_tokens}: must be from 1024 to below model.sampling.max_tokens="
                f"{self.sampling.max_tokens}, which includes them"
            )

    def _make_client(self, key: str, headers: Mapping[str, str]) -> Any:
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(
            api_key=key,
            base_url=self.address,
            default_headers=dict(headers),
            max_retries=0,
            timeout=None,
            http_client=http_client(self.max_num_seqs, self.timeout_seconds, self.batch),
        )

    async def ask_whether_there(self) -> None:
        """Ask for the list of models."""
        await self._client.models.list(limit=1)

    async def ask(self, body: Mapping[str, Any]) -> Any:
        """One message, as a stream: a connection that says nothing for minutes is cut by what lies between."""
        # The client has keywords for few parameters only, and passes all others on.
        keywords = {name: body[name] for name in ("model", "max_tokens", "messages")}
        others = {name: value for name, value in body.items() if name not in keywords}
        async with self._client.messages.stream(**keywords, extra_body={**others, **(self.extra_body or {})}) as stream:
            began = False
            try:
                async for event in stream:
                    began = began or event.type == "message_start"
            except Exception as error:
                # It had begun to answer, and told tokens of the prompt.
                error.began = began  # type: ignore[attr-defined]
                raise
            return plain(await stream.get_final_message())

    def body(self, request: Request) -> dict[str, Any]:
        """What is sent for one turn."""
        system = [{"type": "text", "text": text} for text in system_texts(request.chat)]
        messages = messages_of(request.chat, self.earlier(request), _block)
        if self.cache != "off":
            _mark(system, messages, self.cache)
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.most_tokens(request),
            "messages": messages,
        }
        if system:
            body["system"] = system
        body |= self.drawn()
        if self.thinking_tokens is not None:
            body["thinking"] = {"type": "enabled", "budget_tokens": self.thinking_tokens}
        elif self.thinks:
            body["thinking"] = {"type": "adaptive", "display": "summarized"}
        if self.effort is not None:
            body["output_config"] = {"effort": self.effort}
        return body

    def known_by(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """As ``ProviderEngine.known_by``: however long prompts are kept, a turn is known by the marks of the default."""
        marked = {**body, "messages": [{**message, "content": [*message["content"]]} for message in body["messages"]]}
        if "system" in body:
            marked["system"] = [*body["system"]]
        _mark(marked.get("system", []), marked["messages"], DEFAULT_CACHE)
        return marked

    def read_answer(self, data: Any, scored: bool) -> Answer:
        """What a message says, block by block."""
        if not data.get("stop_reason"):
            raise EndpointError("the message broke off before its end", unreadable=True)
        blocks = [_sent_back(block) for block in data["content"]]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        return Answer(
            text=whole("".join(texts)),
            finish=FINISHES.get(data["stop_reason"], "stop"),
            reasoning=whole("\n".join(thoughts)),
            usage=self.read_usage(data),
            top={},
            kept=blocks,
        )

    def read_usage(self, data: Any) -> Usage:
        """Its tokens; those of the prompt are counted in three parts."""
        used = data["usage"]
        # A stream that broke off has told the tokens of its first words only.
        broke_off = not data.get("stop_reason")
        completion = None if broke_off else used.get("output_tokens")
        return _usage(used, completion, wrote=bool(data.get("content")) or broke_off)

    def read_error_usage(self, data: Any) -> Usage:
        """As of an answer; tokens of a reply that are not told may be any."""
        completion = data["usage"].get("output_tokens")
        return _usage(data["usage"], completion, wrote=completion is None)


def _usage(used: Mapping[str, Any], completion: Any, wrote: bool) -> Usage:
    prompt = [used.get(name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
    thought = (used.get("output_tokens_details") or {}).get("thinking_tokens")
    return usage_in_parts(prompt, [completion], thought, wrote)


def _mark(system: list[dict[str, Any]], messages: list[dict[str, Any]], kept: str) -> None:
    """Mark where the prompt is cached: after the system's words, and after this question and the one before it.

    The mark of the question before is where the last turn wrote; this turn reads up to there and writes the rest.
    """
    asked = [message for message in messages if message["role"] == "user"][-2:]
    for blocks in [system, *(message["content"] for message in asked)]:
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral", "ttl": kept}}


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(part)}}


def _sent_back(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block of a reply as it is sent back: thoughts exactly as they came, of texts what a request may hold."""
    return {"type": "text", "text": block["text"]} if block["type"] == "text" else dict(block)
