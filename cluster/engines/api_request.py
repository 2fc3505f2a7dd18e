"""A turn as the body of a chat completion request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cluster.engines.base import Request, Sampling
from evals.chat_json import chat_to_json

TOP_LOGPROBS = 20
"""The most that chat completions give."""
PICTURE_TOKENS = 500
"""A guess, until answers tell."""

_RESERVED = frozenset(
    {"logprobs", "messages", "model", "n", "reasoning_effort", "stream", "structured_outputs", "top_logprobs"}
)
"""What ``extra_body`` may not touch."""
_SAMPLED = {
    **{name: name for name in ("frequency_penalty", "max_tokens", "min_p", "presence_penalty")},
    **{name: name for name in ("repetition_penalty", "stop", "temperature", "top_k", "top_p")},
    "max_completion_tokens": "max_tokens",
}
"""Parameters that ``extra_body`` may take out but not set, with the setting of ``model.sampling`` that does."""


def check_extra_body(extra_body: Mapping[str, Any]) -> None:
    """See that further parameters of a chat completion are none that is set elsewhere.

    Raises:
        ValueError: one is.
    """
    reserved = sorted(_RESERVED & set(extra_body))
    if reserved:
        raise ValueError(f"model.engine.extra_body: {', '.join(reserved)} cannot be set there")
    for name, value in extra_body.items():
        # Null takes one out that would be sent.
        if value is None:
            continue
        if name in _SAMPLED:
            raise ValueError(f"model.engine.extra_body: set {name} as model.sampling.{_SAMPLED[name]}")


@dataclass(frozen=True)
class RequestForm:
    """What of a request is the same for all turns, and how an endpoint wants it."""

    model: str
    sampling: Sampling
    choices: Literal["refuse", "vllm"] = "refuse"
    reasoning: bool = False
    """The limit of tokens is sent as ``max_completion_tokens``, and neither temperature nor top_p."""
    reasoning_effort: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters; null takes one out that would be sent."""

    def __post_init__(self) -> None:
        """See that every setting has one place.

        Raises:
            ValueError: ``extra_body`` holds what is set elsewhere, or reasoning models would ignore the sampling.
        """
        draws_plainly = self.sampling.temperature == self.sampling.top_p == 1
        if self.reasoning and not draws_plainly:
            raise ValueError(
                "reasoning=true: such models draw at temperature 1 and top_p 1 only: model.sampling.temperature=1"
            )
        check_extra_body(self.extra_body)

    def body(self, request: Request) -> dict[str, Any]:
        """What is sent for one turn."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": chat_to_json(request.chat),
            "max_completion_tokens" if self.reasoning else "max_tokens": self.most_tokens(request),
            **self._drawn(request),
        }
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        if request.labels:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        if request.options:
            body["structured_outputs"] = {"choice": list(request.options)}
        elif request.schema:
            body["structured_outputs"] = {"json": json.loads(request.schema)}
        body |= self.extra_body
        return {name: value for name, value in body.items() if value is not None}

    def lacks(self, request: Request) -> str:
        """As ``RequestFormat.lacks``."""
        if (request.options or request.schema) and self.choices == "refuse":
            return "this endpoint cannot constrain replies: use decoding=free"
        if request.labels and model_reasons(self.reasoning, self.reasoning_effort):
            return "a model that reasons first (reasoning=true, or reasoning_effort) gives no label probabilities"
        return ""

    def parameter_names(self, body: Mapping[str, Any]) -> set[str]:
        """As ``RequestFormat.parameter_names``: parameters, and pictures."""
        names = set(body) - {"messages"}
        for sent in body["messages"]:
            content = sent["content"]
            if isinstance(content, list) and any(part["type"] == "image_url" for part in content):
                names.add("image_url")
        return names

    def most_tokens(self, request: Request) -> int:
        """Most tokens that the reply may have."""
        return 1 if request.labels else self.sampling.max_tokens

    def _drawn(self, request: Request) -> dict[str, Any]:
        """Sampling parameters: the universal ones, and of the others those that differ from what is the default anywhere."""
        sampling = self.sampling
        drawn: dict[str, Any] = {}
        if not self.reasoning:
            drawn |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
        for name, neutral in NEUTRAL.items():
            value = getattr(sampling, name)
            if value != neutral:
                drawn[name] = value
        if sampling.stop:
            drawn["stop"] = list(sampling.stop)
        if sampling.temperature > 0:
            drawn["seed"] = request.seed % 2**31
        return drawn


NEUTRAL: Mapping[str, float] = {
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Sampling parameters that not every endpoint knows, with the values that change nothing."""


def model_reasons(reasoning: bool, effort: str | None) -> bool:
    """Whether the settings say that the model reasons before it answers."""
    return reasoning or effort not in (None, "none")


def expected_tokens(request: Request) -> int:
    """A guess at a prompt's tokens."""
    tokens = 0
    for message in request.chat:
        for part in message.parts:
            tokens += len(part) // 4 if isinstance(part, str) else PICTURE_TOKENS
    return tokens
