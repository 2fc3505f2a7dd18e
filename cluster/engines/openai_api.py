"""Models behind an OpenAI-compatible endpoint: a commercial API, or a server such as ``vllm serve``.

Keys are read from the environment where the engine runs; they never enter a configuration, a log or the ledger.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Mapping
from typing import Any, Literal

from cluster.engines.api_endpoint import Endpoint
from cluster.engines.api_engine import ApiEngine
from cluster.engines.api_limited import LimitedEndpoint
from cluster.engines.api_request import RequestForm, check_extra_body, model_reasons
from cluster.engines.api_secrets import check_base_url, check_no_secrets, read_headers, read_key
from cluster.engines.base import MANY, Capabilities, Sampling
from cluster.engines.limits import AdaptiveConcurrency, PerMinute
from cluster.engines.providers.prices import Prices
from cluster.engines.spend import Price, Spend
from envs.settings import Count, Positive, Seconds
from evals.summary.cost import HIGHEST_PRICE

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIEngine(ApiEngine):
    """Completes chats through ``chat/completions``."""

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """Pictures as the endpoint's model takes them; label scores except from models that reason first."""
        server = settings.get("choices") == "vllm"
        reasons = model_reasons(bool(settings.get("reasoning")), settings.get("reasoning_effort"))
        return Capabilities(pictures=MANY, options=server, label_scores=not reasons)

    def __init__(
        self,
        sampling: Sampling,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        max_num_seqs: Count = 32,
        timeout_seconds: Seconds = 600.0,
        max_tries: Count = 8,
        requests_per_minute: Positive | None = None,
        tokens_per_minute: Positive | None = None,
        prompt_price: Price = 0.0,
        completion_price: Price = 0.0,
        cache_read_price: Price | None = None,
        spend_cap: Positive | None = None,
        choices: Literal["refuse", "vllm"] = "refuse",
        reasoning: bool = False,
        reasoning_effort: str | None = None,
    ) -> None:
        """Build a client; nothing is sent yet.

        Args:
            sampling: temperature, top_p, max_tokens and stop are sent; the others where they are not neutral.
            model: the name that the endpoint knows.
            base_url: the endpoint; OpenAI's own by default.
            api_key_env: name of the environment variable that holds the key.
            headers: sent with every request; a value ``env:NAME`` is read from the environment, as secrets must be.
            extra_body: further parameters of a request as the endpoint knows them; null takes one out.
            max_num_seqs: most requests at once; fewer while the server says it has too many. Like the limits per minute
                of this engine alone: two replicas may do twice as much.
            timeout_seconds: for one try of one request, up to the answer's last byte.
            max_tries: tries of one request, while others are answered, before its episode fails.
            requests_per_minute: limit that the provider sets, if any.
            tokens_per_minute: likewise, prompt and completion tokens together.
            prompt_price: per million prompt tokens.
            completion_price: per million completion tokens, reasoning included.
            cache_read_price: per million prompt tokens that the endpoint's cache served; null for ``prompt_price``.
            spend_cap: the run stops when this much was spent (see ``add_spent_elsewhere``) and can be resumed; the
                last request may exceed it. A try that was sent and is given up, breaks off, or reports no tokens,
                counts with the most it can cost.
            choices: whether the server can constrain replies to options: ``vllm`` servers can.
            reasoning: the model reasons before it answers, as the o-series does: the limit of tokens, reasoning
                included, is sent as ``max_completion_tokens``; temperature and top_p, which must be 1, are not sent.
            reasoning_effort: sent unchanged, if given: ``low``, ``high``, or another value that the endpoint knows.

        Raises:
            ValueError: there is no key that could be sent, a setting holds a secret, or a limit or price is invalid.
        """
        self.check_settings(
            {
                "model": model,
                "base_url": base_url,
                "api_key_env": api_key_env,
                "headers": headers,
                "extra_body": extra_body,
            }
        )
        if not 0 < timeout_seconds < math.inf:
            raise ValueError(f"timeout_seconds={timeout_seconds}: must be above 0, and finite")
        if base_url is None and os.environ.get("OPENAI_BASE_URL"):
            raise ValueError("OPENAI_BASE_URL is set, but no run would record it: give model.engine.base_url")
        form = RequestForm(model, sampling, choices, reasoning, reasoning_effort, dict(extra_body or {}))
        limit = "max_completion_tokens" if reasoning else "max_tokens"
        if spend_cap is not None and limit in form.extra_body:
            raise ValueError(f"spend_cap: without {limit} (model.engine.extra_body) nothing bounds what a reply costs")
        key, sent, secrets = _read_secrets(api_key_env, headers or {}, base_url)
        cached = prompt_price if cache_read_price is None else cache_read_price
        if cached > HIGHEST_PRICE:
            raise ValueError(f"cache_read_price={cached}: must be from 0 to {HIGHEST_PRICE:g}")
        prices = Prices(prompt_price, completion_price, cache_read=cached, cache_write=prompt_price)
        endpoint = LimitedEndpoint(
            Endpoint(check_base_url(base_url) or OPENAI_URL, key, sent, secrets, timeout_seconds, max_num_seqs),
            AdaptiveConcurrency(max_num_seqs),
            PerMinute(requests_per_minute),
            PerMinute(tokens_per_minute),
            Spend(prompt_price, completion_price, spend_cap),
            price=prices.of,
        )
        self._connect(form, endpoint, max_num_seqs, max_tries)

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """Check, before anything is stored or started, that settings hold no secret and what they need is installed.

        Raises:
            ValueError: a secret, a missing package, a further parameter that is set elsewhere, or a spend cap without
                prices; the message repeats no secret.
        """
        check_no_secrets(settings)
        check_extra_body(settings.get("extra_body") or {})
        has_prices = settings.get("prompt_price") or settings.get("completion_price")
        if settings.get("spend_cap") is not None and not has_prices:
            raise ValueError(
                "model.engine.spend_cap: would never be reached: give model.engine.prompt_price and "
                "model.engine.completion_price, per million tokens"
            )
        if importlib.util.find_spec("httpx") is None:
            raise ValueError("model=openai needs the Python package httpx: pip install httpx")

    @classmethod
    def check_environment(cls, settings: Mapping[str, Any]) -> None:
        """As ``Engine.check_environment``: the key, and headers with values from the environment."""
        variable = settings.get("api_key_env", "OPENAI_API_KEY")
        _read_secrets(variable, settings.get("headers") or {}, settings.get("base_url"))


def _read_secrets(
    variable: str, headers: Mapping[str, str], base_url: str | None
) -> tuple[str, dict[str, str], list[str]]:
    """The key, headers as they are sent, and which of their values are secret.

    Raises:
        ValueError: a variable of the environment is missing; only an endpoint of one's own does without a key.
    """
    sent, secrets = read_headers(headers)
    if any(name.lower() == "authorization" for name in sent):
        return "", sent, secrets
    return read_key(variable, needed=base_url is None), sent, secrets
