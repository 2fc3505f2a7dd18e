"""Google's client (google-genai): pictures inline, thoughts sent back with their signatures, label probabilities."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cluster.engines.api_answer import MOST_TOGETHER, Answer, Usage, token_count, usage_in_parts, whole, with_total
from cluster.engines.api_errors import EndpointError
from cluster.engines.api_request import TOP_LOGPROBS
from cluster.engines.base import MANY, Capabilities, Request
from cluster.engines.providers.base import ProviderEngine, snake_case
from cluster.engines.providers.connection import http_client, plain
from cluster.engines.providers.gemini_jobs import readable
from cluster.engines.providers.messages import messages_of, system_texts
from evals.chat_json import png
from evals.types import Finish, Part

FINISHES: Mapping[str, Finish] = {
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
}
"""Finish reasons; all others mean that the model had said what it wanted to."""


@dataclass(kw_only=True, eq=False)
class GeminiEngine(ProviderEngine):
    """Gemini models of the Gemini API."""

    package: ClassVar[str] = "google.genai"
    extra: ClassVar[str] = "gemini"
    provider: ClassVar[str] = "gemini"
    key_variable: ClassVar[str] = "GEMINI_API_KEY"
    url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    batches: ClassVar[str] = "cluster.engines.batch.formats:GeminiBatches"
    sampled: ClassVar[Mapping[str, str]] = {
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "stop": "stop_sequences",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
    }
    always_sent: ClassVar[frozenset[str]] = frozenset({"temperature", "top_p"})

    api_key_env: str | None = "GEMINI_API_KEY"

    thinking_tokens: int | None = None
    """Most tokens of thoughts: 0 for none, which label probabilities need, -1 for as many as the model wants."""

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Label scores where thoughts are switched off."""
        return Capabilities(
            pictures=MANY,
            label_scores=settings.get("thinking_tokens") == 0,
            without_labels="model.engine.thinking_tokens=0 switches off the thoughts that stand in the way",
        )

    @classmethod
    def check_extra_body(cls, extra_body: Mapping[str, Any]) -> None:
        """As of the base class; the client sends no field that it does not know."""
        super().check_extra_body(extra_body)
        if not extra_body:
            return
        from google.genai import types

        known = set(types.GenerateContentConfig.model_fields)
        known |= {field.alias for field in types.GenerateContentConfig.model_fields.values() if field.alias}
        unknown = sorted(set(extra_body) - known)
        if unknown:
            raise ValueError(f"model.engine.extra_body: Google's client has no field {' or '.join(unknown)}")

    @property
    def thinks(self) -> bool:
        """False: unlike others, these models draw their thoughts at any temperature."""
        return False

    @staticmethod
    def status_of(status: int, words: str) -> int:
        """A wrong key, and a country that may not ask, are refused with status 400."""
        if "API_KEY_INVALID" in words or "API key not valid" in words:
            return 401
        return 403 if status == 400 and "User location is not supported" in words else status

    def _make_client(self, key: str, headers: Mapping[str, str]) -> Any:
        from google import genai
        from google.genai import types

        options = types.HttpOptions(
            base_url=self.address,
            headers=dict(headers),
            httpx_async_client=http_client(
                self.max_num_seqs, self.timeout_seconds, self.batch, readable if self.batch else None
            ),
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        return genai.Client(api_key=key, vertexai=False, http_options=options)

    async def close_client(self) -> None:
        """Close the client's connections."""
        await self._client.aio.aclose()

    async def ask_whether_there(self) -> None:
        """Ask about the model."""
        await self._client.aio.models.get(model=self.model)

    async def ask(self, body: Mapping[str, Any]) -> Any:
        """One reply."""
        try:
            contents, config = typed(body)
        except ValueError:  # nothing was sent
            raise EndpointError("the client takes no such request: see model.engine.extra_body", 400) from None
        found = await self._client.aio.models.generate_content(model=body["model"], contents=contents, config=config)
        return plain(found)

    def body(self, request: Request) -> dict[str, Any]:
        """What is sent for one turn."""
        contents = self._contents(request)
        system = [{"text": text} for text in system_texts(request.chat)]
        config: dict[str, Any] = {"max_output_tokens": self.most_tokens(request), **self.drawn()}
        if self.sampling.temperature > 0:
            config["seed"] = request.seed % 2**31
        if system:
            config["system_instruction"] = {"parts": system}
        if request.labels:
            config |= {"response_logprobs": True, "logprobs": TOP_LOGPROBS}
        config["thinking_config"] = self._thinking_config()
        if self.extra_body:
            config |= self.extra_body
        return {"model": self.model, "contents": contents, "config": config}

    def _contents(self, request: Request) -> list[dict[str, Any]]:
        """The messages but for the system's; replies that were kept stand as they came."""
        contents = []
        for said in messages_of(request.chat, self.earlier(request), _part):
            role = "model" if said["role"] == "assistant" else "user"
            contents.append({"role": role, "parts": said["content"]})
        return contents

    def _thinking_config(self) -> dict[str, Any]:
        """How much the model thinks, and that it tells a summary where it does."""
        thinking: dict[str, Any] = {}
        if self.thinking_tokens is not None:
            thinking["thinking_budget"] = self.thinking_tokens
        if self.effort is not None:
            thinking["thinking_level"] = self.effort.upper()
        if self.thinking_tokens != 0:
            thinking["include_thoughts"] = True
        return thinking

    def read_answer(self, data: Any, scored: bool) -> Answer:
        """What a reply says, part by part."""
        usage = self.read_usage(data)
        candidates = data.get("candidates")
        if not candidates:
            # The prompt was blocked before the model saw it, which Gemini says; anything else is no answer.
            if "block_reason" not in data["prompt_feedback"]:
                raise ValueError("neither a candidate nor a reason")
            return Answer("", "content_filter", "", usage, {})
        candidate = candidates[0]
        if not candidate and not data.get("usage_metadata"):
            raise ValueError("nothing is said at all")
        texts, thoughts, kept = list[str](), list[str](), list[Any]()
        for part in _parts_of(candidate):
            is_thought = part.get("thought")
            if is_thought:
                thoughts.append(part.get("text", ""))
            else:
                texts.append(part.get("text", ""))
            # The summary of a thought, which is for people, is not sent back, nor an empty text, which would be refused;
            # signatures are, wherever they stand.
            is_for_people = is_thought or part.get("text") == ""
            if not is_for_people or part.get("thought_signature"):
                kept.append(part)
        finish = FINISHES.get(candidate.get("finish_reason") or "", "stop")
        top: dict[str, float] = {}
        if scored and finish != "content_filter":
            top = _top(candidate)
        return Answer(whole("".join(texts)), finish, whole("\n".join(thoughts)), usage, top, kept or None)

    def read_usage(self, data: Any) -> Usage:
        """Its tokens; thoughts are counted beside the reply, and results of tools beside the prompt."""
        return _usage(data.get("usage_metadata") or {}, _wrote(data))

    def read_error_usage(self, data: Any) -> Usage:
        """As of an answer; the client leaves the names within an error as they were sent."""
        used = {snake_case(name): told for name, told in data["usageMetadata"].items()}
        tells_reply = used.get("candidates_token_count") is not None
        return _usage(used, wrote=not tells_reply)


def _usage(used: Mapping[str, Any], wrote: bool) -> Usage:
    """Tokens by the names of ``usage_metadata``; ``wrote`` is whether there is a reply."""
    thought, cached = used.get("thoughts_token_count"), used.get("cached_content_token_count")
    # Tokens that a cache served are among those of the prompt: where they are no count, neither is the prompt's.
    prompt = token_count(used.get("prompt_token_count"))
    of_tools = token_count(used.get("tool_use_prompt_token_count") or 0)
    if token_count(cached or 0) is None or of_tools is None:
        prompt = None
    if prompt is not None:
        prompt += of_tools or 0
    completion = [used.get("candidates_token_count"), thought]
    found = usage_in_parts([prompt, 0, 0], completion, thought, wrote)
    # More tokens than the prompt has were not read from a cache.
    known = token_count(cached) or 0
    if known > (found.prompt or 0):
        known = 0
    return with_total(dataclasses.replace(found, cached=known), used.get("total_token_count"))


def _wrote(data: Mapping[str, Any]) -> bool:
    """Whether there is a reply, or a thought, in words; where nothing can be read, there may be."""
    if not data.get("candidates") and not data.get("prompt_feedback"):
        return True
    parts: list[Any] = []
    for candidate in data.get("candidates") or []:
        parts += _parts_of(candidate)
    return any(part.get("text") for part in parts)


def _parts_of(candidate: Mapping[str, Any]) -> list[Any]:
    """The parts of a reply; none where it has no content."""
    content = candidate.get("content") or {}
    parts: list[Any] = content.get("parts") or []
    return parts


def typed(body: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Contents and configuration as the client's types: in JSON, pictures and signatures are base64."""
    from google.genai import types

    contents = [types.Content.model_validate_json(json.dumps(content)) for content in body["contents"]]
    return contents, types.GenerateContentConfig.model_validate_json(json.dumps(body["config"]))


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    return {"inline_data": {"mime_type": "image/png", "data": png(part)}}


def _top(candidate: Mapping[str, Any]) -> dict[str, float]:
    """The first token's most likely values.

    Raises:
        LookupError, ValueError: there are none, or no log-probabilities.
    """
    found: dict[str, float] = {}
    for each in candidate["logprobs_result"]["top_candidates"][0]["candidates"]:
        value = float(each["log_probability"])
        if not -1e6 < value <= 0.01 or math.isnan(value):
            raise ValueError(value)
        found.setdefault(each["token"], min(value, 0.0))
    if sum(map(math.exp, found.values())) > MOST_TOGETHER:
        raise ValueError("probabilities that add up to more than 1")
    return found
