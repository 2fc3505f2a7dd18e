"""What goes wrong at an OpenAI-compatible endpoint: whom it concerns, how long to wait, and words that are safe to show."""

from __future__ import annotations

import datetime
import email.utils
import json
import math
import re
import time
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from cluster.engines.base import EngineError
from cluster.engines.redaction import redacted

PASSING = frozenset({408, 409, 425, 429})
"""Statuses that pass, as do all from 500 on."""
LASTING = frozenset({301, 302, 303, 307, 308, 401, 402, 403, 404})
"""Statuses that concern the key, the account, the model or the address: every request would meet them."""
GATEWAY_TIMEOUTS = frozenset({504, 524})
"""A gateway gave up waiting; the server behind it may have answered, and billed the answer."""
NO_MONEY = (
    *("insufficient_quota", "insufficient balance", "billing_hard_limit", "billing_not_active", "credit balance"),
    *("api usage limits", "organization has been disabled", "free tier is not available", "billing account"),
)
"""What endpoints say, whatever the status, when nothing is left to pay with, or an account may not ask: Anthropic and Google
do so with 400."""
NO_MODEL = re.compile(
    r"is not a valid model id|model not exist|model not found|model identifier is invalid|invalid_model|invalid model:"
    r"|模型不存在|model_not_available|on-demand throughput isn.t supported|use case details have not been submitted"
    r"|marked by provider as legacy|organization must be verified|unsupported_country_region_territory",
    re.I,
)
"""What endpoints (OpenRouter, DeepSeek, xAI, Bedrock, Mistral, Zhipu, Together, OpenAI) say with 400 or 422 when the model is
not there, or the account may not ask it."""
FILTERED = re.compile(
    r"content_filter|content filtering policy|content_policy_violation|responsibleaipolicyviolation|data_inspection_failed"
    r"|flagged_input|flagged as potentially violating|limited access to this content|bio_policy|misalignment_policy_violation"
    r"|content violates usage guidelines|content exists risk",
    re.I,
)
"""What endpoints say (OpenAI, Azure, Alibaba, OpenRouter, Anthropic, Bedrock, xAI, DeepSeek) when a filter stopped the prompt
or the reply."""
TOO_LONG = re.compile(
    r"context[_ ](?:length|size|window|limit)|prompt is too long|input is too long|maximum (?:model|prompt|input) length"
    r"|input token count|input tokens exceeded|range of input length|prompt exceeds max length|exceeded model token limit"
    r"|too many tokens:|tokens \+ .max_new_tokens. must be",
    re.I,
)
"""What endpoints say (OpenAI, vLLM, SGLang, llama.cpp, Anthropic, Bedrock, Gemini, TGI, Nova, Qwen, Zhipu, Moonshot, Cohere,
TensorRT-LLM) of a prompt that does not fit."""
WORDS_KEPT = 5000
"""Characters of an error that are looked at; people are shown ``WORDS_SHOWN`` of them."""
WORDS_SHOWN = 500

Meaning = Literal["lasting", "passing", "filtered", "too long", "refused"]


class EndpointError(EngineError):
    """One try failed at the endpoint or on the way there; the message is safe to show."""

    kind = "endpoint"
    goes_on: ClassVar[bool] = False
    """Whether nothing is wrong: the run has waited as long as it may, and the same command goes on waiting."""

    def __init__(
        self,
        message: str,
        status: int = 0,
        *,
        words: str = "",
        param: str = "",
        retry_after: float = 0.0,
        unreadable: bool = False,
        unscored: bool = False,
        may_cost: bool = False,
        stated: Any = None,
    ) -> None:
        """Nothing is cleaned here: texts of an endpoint come through ``error_from``.

        Args:
            message: for people.
            status: HTTP status; 0 where no answer came.
            words: all that the endpoint said, cleaned.
            param: the parameter that it names; compared, never shown.
            retry_after: seconds that it asks to wait.
            unreadable: it answered, but the answer is not one.
            unscored: it answered, but without the log-probabilities that were asked for.
            may_cost: tokens may have been charged.
            stated: the JSON in which the endpoint says how many, if it does.
        """
        super().__init__(message)
        self.status = status
        self.words = words or message
        self.param = param
        self.retry_after = retry_after
        self.unreadable = unreadable or unscored
        self.unscored = unscored
        self.may_cost = may_cost or self.unreadable
        self.stated = stated
        self.price = 0.0
        """What the try cost, as far as that can be known."""

    @property
    def meaning(self) -> Meaning:
        """Whether every request would meet it, it may pass, or it concerns this request only, and how."""
        if any(word in self.words.lower() for word in NO_MONEY):
            return "lasting"
        if FILTERED.search(self.words) and 400 <= self.status < 500:
            return "filtered"
        if self.status in LASTING:
            return "lasting"
        if NO_MODEL.search(self.words) and self.status in (400, 422):
            return "lasting"
        if self.status in PASSING or self.status >= 500 or not self.status or self.unreadable:
            return "passing"
        return "too long" if TOO_LONG.search(self.words) else "refused"

    @property
    def too_many(self) -> bool:
        """Whether fewer requests at once might help."""
        return self.status == 429 or self.status >= 500

    def named(self, names: Collection[str]) -> list[str]:
        """Which parameters a refusal is about: names that are English words count in quotes or before a colon."""
        return [name for name in sorted(names) if self._is_about(name)]

    def _is_about(self, name: str) -> bool:
        if name == self.param:
            return True
        # It is no English word; Google writes Logprobs at the beginning of a sentence, and maxOutputTokens.
        is_no_word = "_" in name or name == "logprobs"
        first, *others = name.split("_")
        in_camel_case = first + "".join(map(str.title, others))
        if is_no_word and (name in self.words.lower() or in_camel_case in self.words):
            return True
        if name == "model":
            return False
        pattern = re.escape(name)
        return re.search(rf"""['"`]{pattern}['"`]|(?<!\w){pattern}: """, self.words) is not None


def error_from(status: int, headers: Mapping[str, str], body: str, secrets: Collection[str]) -> EndpointError:
    """What a refusal says, in words without secrets and control characters."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    found = data if isinstance(data, dict) else {}
    # Some servers send the error itself, not a mapping that holds it.
    error = found.get("error", found)
    said, param = body, None
    if isinstance(error, str):
        said = error
    elif isinstance(error, dict):
        said = _said_within(error, body)
        param = error.get("param")
    words = clean(said, secrets) or "no reason given"
    stated = _usage_stated(found, error)
    return EndpointError(
        f"status {status}: {words[:WORDS_SHOWN]}",
        status,
        words=words,
        param=param if isinstance(param, str) else "",
        retry_after=asked_seconds(headers),
        may_cost=status in GATEWAY_TIMEOUTS or stated is not None,
        stated=stated,
    )


def error_within(data: Any) -> tuple[int, Any] | None:
    """Status and words of an error that an answer holds in place of a reply; None where it holds none.

    OpenRouter sends one, as the whole answer or within its choice, where it began to answer before its own endpoint failed.
    """
    found = data if isinstance(data, dict) else {}
    choices = found.get("choices")
    if choices:
        found = choices[0] if isinstance(choices, list) and isinstance(choices[0], dict) else {}
    error = found.get("error")
    if not error:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return status, error


def _said_within(error: Mapping[str, Any], body: str) -> str:
    """An error's words; the whole body where it has none."""
    message, detail = error.get("message"), error.get("detail")
    if isinstance(message, str):
        details = [error.get("code"), error.get("type"), *_flagged(error)]
        return " ".join([message, *(str(each) for each in details if isinstance(each, str | int))])
    if isinstance(detail, list):
        return "; ".join(map(_validation, detail)) or body
    return body


def _usage_stated(*places: Any) -> Mapping[str, Any] | None:
    """The first of these that tells tokens: what does has been answered, and may be billed."""
    for place in places:
        if not isinstance(place, dict):
            continue
        if place.get("usage") or place.get("usageMetadata"):
            return place
    return None


def _flagged(error: Mapping[str, Any]) -> list[str]:
    """OpenRouter refuses a prompt that its filter stopped as it refuses keys; only a detail tells the two apart."""
    metadata = error.get("metadata")
    return ["flagged_input"] if isinstance(metadata, dict) and "flagged_input" in metadata else []


def _validation(item: Any) -> str:
    """One entry of FastAPI's list of what is wrong with a request."""
    if not isinstance(item, dict) or not isinstance(item.get("loc"), list):
        return ""
    return f"{'.'.join(map(str, item['loc']))}: {item.get('msg')}"


def asked_seconds(headers: Mapping[str, str]) -> float:
    """Seconds to wait that a refusal asks for (``retry-after-ms``, or ``retry-after`` in seconds or as a date), else 0."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else 0.0
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        if date.tzinfo is None:  # dates of HTTP are those of UTC, also in the form that names no zone
            date = date.replace(tzinfo=datetime.UTC)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


# --- words that are safe to show -------------------------------------------------------------------------------------

_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")


def clean(text: str, secrets: Collection[str]) -> str:
    """An endpoint's words in one line: no secrets, which some repeat in part, and no terminal or text-direction codes."""
    text = _ANSI.sub("", text[:WORDS_KEPT])
    text = "".join(sign for sign in text if not _is_code(sign))
    text = redacted(text, secrets)
    for secret in secrets:
        text = without_secret(text, secret)
    printable = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(printable.split())


def _is_code(sign: str) -> bool:
    """Whether it controls a terminal or the direction of text, in place of being shown; spaces do not."""
    if sign.isspace():
        return False
    return unicodedata.category(sign).startswith("C")


def without_secret(text: str, secret: str) -> str:
    """``text`` with stars for every run of six characters of the secret, and for its last four."""
    hidden = _places(text, _runs(secret, 6) | {secret[-4:]}) if len(secret) >= 4 else set()
    return "".join("*" if place in hidden else sign for place, sign in enumerate(text))


def _runs(secret: str, length: int) -> set[str]:
    return {secret[start : start + length] for start in range(len(secret) - length + 1)}


def _places(text: str, pieces: Collection[str]) -> set[int]:
    """Positions in ``text`` that belong to one of the pieces, those that overlap included."""
    places: set[int] = set()
    for piece in pieces:
        for found in re.finditer(f"(?={re.escape(piece)})", text):
            places.update(range(found.start(), found.start() + len(piece)))
    return places
