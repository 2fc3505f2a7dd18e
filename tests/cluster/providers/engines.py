"""The engines of all providers, against the stub."""

from cluster.engines.base import Request, Sampling
from cluster.engines.providers.anthropic_client import AnthropicEngine
from cluster.engines.providers.bedrock import BedrockEngine
from cluster.engines.providers.gemini import GeminiEngine
from cluster.engines.providers.openai_clients import AzureEngine, OpenAIClientEngine, OpenRouterEngine
from evals.types import message

SETTINGS = {
    "anthropic": (AnthropicEngine, {"model": "claude-opus-5", "effort": "high"}),
    "responses": (OpenAIClientEngine, {"model": "gpt-5.6", "effort": "low"}),
    "chat": (OpenAIClientEngine, {"model": "gpt-5.6", "api": "chat", "keeps_reasoning": False}),
    "azure": (AzureEngine, {"model": "my-deployment", "effort": "low"}),
    "azure_dated": (
        AzureEngine,
        {"model": "my-deployment", "api": "chat", "api_version": "2024-10-21", "keeps_reasoning": False},
    ),
    "openrouter": (OpenRouterEngine, {"model": "some/model", "effort": "low"}),
    "gemini": (GeminiEngine, {"model": "gemini-3.6-flash", "effort": "low"}),
    "bedrock": (BedrockEngine, {"model": "us.anthropic.claude-opus-5-v1:0", "thinking_tokens": 2000, "cache": True}),
}
THINKING = sorted(set(SETTINGS) - {"chat", "azure_dated"})
"""Engines that send thoughts back."""


def engine(name, stub, sampling=None, **settings):
    made, usual = SETTINGS[name]
    return made(
        sampling=sampling or Sampling(max_tokens=4000, temperature=1.0),
        base_url=stub.url,
        **{"keeps_reasoning": True, **usual, **settings},
    )


def request(number=0, said="Go.", turn=0, **fields) -> Request:
    chat = fields.pop("chat", (message("system", "Play."), message("user", said)))
    return Request(f"episode{number}-{turn}", chat, seed=number, **fields)
