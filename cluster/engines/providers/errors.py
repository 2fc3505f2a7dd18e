"""What a provider's client raises, as the errors that all endpoints share."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from cluster.engines.api_errors import WORDS_SHOWN, EndpointError, clean, error_from

UNSENT = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "EndpointConnectionError", "ConnectTimeoutError"})
"""What clients raise (httpx2, botocore) where no request has left this machine, so that none is billed."""
BROKEN = frozenset(
    {
        *("HTTPError", "TransportError", "APIConnectionError"),
        *("HTTPClientError", "ConnectionError", "IncompleteReadError", "ChecksumError", "FlexibleChecksumError"),
    }
)
"""Base classes of what they raise where the exchange broke; the second row is botocore's."""
LOGIN = re.compile(r"Credential|Token|Login|SSO|RefreshWithMFA")
"""Within the names of what botocore raises where nobody is logged in any more: NoCredentialsError, TokenRetrievalError, ..."""
STREAMED: Mapping[str, int] = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 402,
    "invalid_request_error": 400,
}
"""Statuses of errors that Anthropic sends within a stream that began with status 200."""

Status = Callable[[int, str], int]
"""From the status and the words of a refusal to the status that says whom it concerns."""


def endpoint_error(caught: Exception, secrets: Collection[str], status_of: Status) -> EndpointError:
    """What a client raised, in words that are safe to show.

    Args:
        caught: raised by the client.
        secrets: what no error may show.
        status_of: corrects statuses of a provider that say something else than those of other providers.
    """
    if isinstance(caught, EndpointError):
        return caught
    said = _said(caught)
    if said is not None:
        error = _refusal(said, secrets, status_of)
        error.may_cost |= getattr(caught, "began", False)
        return error
    why = clean(str(caught), secrets)[:WORDS_SHOWN] or type(caught).__name__
    own_names = {cls.__name__ for cls in type(caught).__mro__}
    if "BotoCoreError" in own_names and not own_names & (UNSENT | BROKEN):
        # botocore found the request wrong, or could not sign it: what concerns the login concerns all requests
        status = 401 if LOGIN.search(type(caught).__name__) else 400
        return EndpointError(f"no request was sent: {why}", status)
    if isinstance(caught, TypeError) and "unexpected keyword argument" in str(caught):
        return EndpointError(f"no request was sent: {why}", 400)  # this version of the client takes no such parameter
    names = set[str]()
    for cause in _causes(caught):
        names |= {cls.__name__ for cls in type(cause).__mro__}
    if names & UNSENT:
        return EndpointError(f"no connection: {why}")
    if names & BROKEN:
        return EndpointError(f"the connection broke: {why}", may_cost=True)
    return EndpointError(f"the client cannot read the answer: {why}", unreadable=True)


Refusal = tuple[int, Mapping[str, str], str]
"""Status, headers and body."""


def _refusal(said: Refusal, secrets: Collection[str], status_of: Status) -> EndpointError:
    status, headers, body = said
    waits = {name.lower(): value for name, value in headers.items()}
    says_how_long = not waits.keys().isdisjoint({"retry-after", "retry-after-ms"})
    if status == 429 and not says_how_long:
        waits["retry-after"] = str(seconds_to_reset(waits, body))
    return error_from(status_of(status, body), waits, body, secrets)


def _said(caught: Exception) -> Refusal | None:
    """What a provider answered, out of its client's exception; None where there was no answer."""
    response: Any = getattr(caught, "response", None)
    if isinstance(response, Mapping):
        return _said_by_aws(response, str(caught))
    # google-genai
    code, details = getattr(caught, "code", None), getattr(caught, "details", None)
    if isinstance(code, int) and isinstance(details, Mapping):
        headers = getattr(response, "headers", None) or {}
        return code, headers, json.dumps(details)
    # OpenAI and Anthropic
    status = getattr(caught, "status_code", None)
    if isinstance(status, int) and response is not None:
        return _said_by_openai(status, response, getattr(caught, "body", None))
    return None


def _said_by_aws(response: Mapping[str, Any], words: str) -> Refusal:
    """As botocore keeps an answer, its words where it has no others."""
    about = response.get("ResponseMetadata") or {}
    error = response.get("Error") or {}
    message = error.get("Message") or words
    body = json.dumps({"error": {"message": message, "code": error.get("Code")}})
    return int(about.get("HTTPStatusCode") or 500), about.get("HTTPHeaders") or {}, body


def _said_by_openai(status: int, response: Any, body: Any) -> Refusal:
    """As the clients of OpenAI and Anthropic keep an answer; an error within a stream comes with the stream's 200."""
    text = body if isinstance(body, str) else json.dumps(body, default=str)
    if status >= 300 and getattr(response, "is_stream_consumed", False):
        text = response.text  # the clients keep the error alone, without the tokens that may stand beside it
    if status < 300:
        named = [number for kind, number in STREAMED.items() if kind in text]
        status = named[0] if named else 500
    return status, response.headers, text


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it, ten at most."""
    found: BaseException | None = error
    for _ in range(10):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


# --- rate limits -----------------------------------------------------------------------------------------------------


def _is_used_up(name: str, left: str) -> bool:
    """Whether a header says that nothing is left of a limit."""
    if "ratelimit" not in name or "remaining" not in name:
        return False
    return left.strip() == "0"


def seconds_to_reset(headers: Mapping[str, str], body: str, now: datetime.datetime | None = None) -> float:
    """Seconds until a limit that is used up refills, where a 429 says so in another way than ``retry-after``; else 0.

    OpenAI and OpenRouter: ``x-ratelimit-remaining-tokens: 0`` with ``x-ratelimit-reset-tokens: 6m0s``; Anthropic:
    ``anthropic-ratelimit-tokens-remaining: 0`` with ``...-reset`` as a time; Gemini: ``retryDelay`` in the error's details.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    waits = [0.0]
    for name, left in headers.items():
        if _is_used_up(name, left):
            reset = headers.get(name.replace("remaining", "reset"), "")
            waits.append(_until(reset, now))
    delay = re.search(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"', body)
    if delay:
        waits.append(float(delay[1]))
    return max(waits)


def _until(reset: str, now: datetime.datetime) -> float:
    """Seconds until a reset that is given as a duration (``1m30s``, ``20ms``) or as a time; 0 if it is neither."""
    units = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
    if re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", reset):
        return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h)", reset))
    try:
        return max(0.0, (datetime.datetime.fromisoformat(reset) - now).total_seconds())
    except (ValueError, TypeError):
        return 0.0
