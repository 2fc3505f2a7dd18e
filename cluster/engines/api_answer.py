"""An endpoint's answer, checked piece by piece: what cannot be read is an error in plain words, never a guess.

Answers come in many dialects. Read here are those of OpenAI, vLLM, SGLang, OpenRouter, DeepSeek, Mistral, Groq and Gemini.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.engines.api_errors import EndpointError
from evals.types import Finish, LabelScores

MOST_TOKENS = 10**9
"""No reply has this many tokens; a larger count is invalid."""

MOST_TOGETHER = 1.05
"""Probabilities of different tokens add up to 1 at most; rounding each makes some a little more."""

_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "token_limit": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
    "sensitive": "content_filter",
    "error_toxic": "content_filter",
    "refusal": "refusal",
}
"""Why a reply ended, in the endpoints' words; all others mean that the model had said what it wanted to."""
_BROKEN = frozenset(
    {"error", "abort", "aborted", "cancelled", "timeout", "network_error", "insufficient_system_resource"}
)
"""The endpoint gave up within the reply."""


@dataclass(frozen=True)
class Usage:
    """Tokens as far as an endpoint tells them; None where it does not, or tells nonsense."""

    prompt: int | None = None
    completion: int | None = None
    """Reasoning included."""
    cached: int = 0
    reasoning: int = 0
    written: int = 0
    """Prompt tokens that were written into a cache, where that has a price of its own."""
    cost: float | None = None
    """What the endpoint says that the answer cost."""


@dataclass(frozen=True)
class Answer:
    """What one chat completion says."""

    text: str
    finish: Finish
    reasoning: str
    usage: Usage
    top: Mapping[str, float]
    """Log-probabilities of the most likely first tokens; empty unless asked for."""
    kept: Any = None
    """The reply as the endpoint wants it back in later turns, thoughts and their signatures included; None for its words."""

    def label_scores(self, labels: Sequence[str]) -> LabelScores:
        """What the top tokens tell of the labels; a label that is not among them is nan, never zero."""
        values = tuple(self.top.get(label, math.nan) for label in labels)
        mass = min(1.0, sum(math.exp(value) for value in values if not math.isnan(value)))
        best = max(self.top, key=lambda token: self.top[token])
        return LabelScores(values, mass, best in labels, exact=False)


def read_answer(data: Any, scored: bool = False) -> Answer:
    """Check an answer and take from it what counts.

    Args:
        data: the answer's JSON.
        scored: whether log-probabilities were asked for.

    Raises:
        EndpointError: it is no sound answer (``unreadable``).
    """
    choices = _field(data, "choices", list, "the answer")
    if not choices:
        raise _unreadable("the answer's list of choices is empty")
    choice = choices[0]
    message = _field(choice, "message", dict, "the answer's choice")
    text, thought = _content(message.get("content"))
    finish = _finish(choice.get("finish_reason"))
    refusal = _text(message, "refusal")
    if refusal:
        text = "\n".join(filter(None, (text, refusal)))
        finish = "refusal"
    top: dict[str, float] = {}
    if scored and finish != "content_filter":
        # A whole answer without any is what the endpoint does; an empty or refused one may have had nothing to score.
        whole_answer = bool(text) and finish != "refusal"
        top = _top_logprobs(choice.get("logprobs"), whole_answer)
    return Answer(
        text=whole(text),
        finish=finish,
        reasoning=whole(_reasoning(message) or thought),
        usage=read_usage(data, wrote=bool(text or thought)),
        top=top,
    )


def read_usage(data: Any, wrote: bool = True) -> Usage:
    """Tokens that an answer says it took; ``wrote`` is whether there is a reply, which takes a token at least."""
    prompt = token_count(_inner(data, "usage", "prompt_tokens"))
    completion = token_count(_inner(data, "usage", "completion_tokens"))
    total = token_count(_inner(data, "usage", "total_tokens"))
    # Where OpenAI, vLLM and most others have it, then where DeepSeek and Moonshot have it.
    cached = _first_count(
        data, ("prompt_tokens_details", "cached_tokens"), ("prompt_cache_hit_tokens",), ("cached_tokens",)
    )
    reasoning = _first_count(data, ("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",))
    completion = _with_thoughts(prompt, completion, reasoning, total)
    completion = _as_told(completion, wrote)
    written = _first_count(data, ("prompt_tokens_details", "cache_write_tokens"))
    # More tokens than the prompt has were not read from a cache: all count at the full price.
    if cached > (prompt or 0):
        cached = 0
    written = min(written, (prompt or 0) - cached)
    return Usage(prompt or None, completion, cached, min(reasoning, completion or 0), written)


def _with_thoughts(prompt: int | None, completion: int | None, reasoning: int, total: int | None) -> int | None:
    """The completion's tokens with those of thoughts, which Gemini and xAI bill but leave out of completion_tokens."""
    if completion is None:
        return None
    if prompt is not None and total is not None:
        return max(completion, total - prompt)
    # Without a total, thoughts are known to be left out where they are more than the completion.
    if reasoning > completion:
        return completion + reasoning
    return completion


def _as_told(completion: int | None, wrote: bool) -> int | None:
    """The completion's tokens; a reply takes a token at least, so of one that is there 0 is not told."""
    if wrote and not completion:
        return None
    return completion


def usage_in_parts(prompt: Sequence[Any], completion: Sequence[Any], thought: Any, wrote: bool) -> Usage:
    """The usage that a provider tells in parts; a sum of which a part is no number of tokens is not told.

    Args:
        prompt: Tokens that were neither read from a cache nor written into one, those read, those written; the latter two
            are None where there are none.
        completion: The reply's tokens, in parts that add up; None where there are none of one.
        thought: Of these, tokens of thoughts.
        wrote: As of ``read_usage``.
    """
    fresh, cached, written = token_count(prompt[0]), _count_if_told(prompt[1]), _count_if_told(prompt[2])
    prompt_tokens = _sum_of(fresh, cached, written)
    completion_tokens = _as_told(_sum_of(*map(_count_if_told, completion)), wrote)
    reasoning = token_count(thought) or 0
    # A whole that is less than its thoughts contradicts itself, and is not told.
    if completion_tokens is not None and reasoning > completion_tokens:
        completion_tokens = None
    # Of what is not told, thoughts are none.
    if completion_tokens is None:
        reasoning = 0
    # Of a prompt whose sum is not told, the parts are not told either.
    if not prompt_tokens:
        return Usage(None, completion_tokens, 0, reasoning, 0)
    return Usage(prompt_tokens, completion_tokens, cached or 0, reasoning, written or 0)


def with_total(usage: Usage, total: Any) -> Usage:
    """A usage with the total that is billed: tokens that no part tells count as the reply's, which cost more than others."""
    tokens = token_count(total)
    if tokens is None or usage.prompt is None or usage.completion is None:
        return usage
    return dataclasses.replace(usage, completion=max(usage.completion, tokens - usage.prompt))


def _count_if_told(part: Any) -> int | None:
    """The count of a part that may be left out, and is 0 then."""
    return token_count(part or 0)


def _sum_of(*counts: int | None) -> int | None:
    """None where a count is none."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _first_count(data: Any, *places: Sequence[str]) -> int:
    """The first number above 0 in one of these places of an answer's usage; 0 if there is none."""
    for place in places:
        count = token_count(_inner(data, "usage", *place))
        if count:
            return count
    return 0


def whole(text: str) -> str:
    """``text`` without halves of surrogate pairs, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _content(content: Any) -> tuple[str, str]:
    """What a message says, and the thoughts within it; some endpoints send both in parts."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        raise _unreadable(f"message.content is {_what(content)}, not a string")
    texts, thoughts = list[str](), list[str]()
    for part in content:
        match _kind_of(part):
            case "text" | "output_text":
                texts.append(_text(part, "text"))
            case "thinking" | "reasoning":
                thoughts.append(_thought(part))
            case _:
                raise _unreadable(f"message.content has a part that is {_what(part)}, not a string")
    return "".join(texts), "".join(thoughts)


def _kind_of(part: Any) -> str:
    """The type that a part of a content names; a part with a text that names none is one of text."""
    kind = _text(part, "type")
    if kind:
        return kind
    if isinstance(part, dict) and "text" in part:
        return "text"
    return ""


def _thought(part: Mapping[str, Any]) -> str:
    """A part of a thought: a string, or strings one level down."""
    for name in ("thinking", "text", "summary"):
        inner = part.get(name)
        if isinstance(inner, str) and inner:
            return inner
        if isinstance(inner, list):
            return "".join(_text(each, "text") for each in inner)
    return ""


def _reasoning(message: Mapping[str, Any]) -> str:
    """A message's reasoning field: DeepSeek's, SGLang's and older vLLM's, newer vLLM's and OpenRouter's, or its details."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            return str(message[name])
    thoughts = []
    for each in _items(message.get("reasoning_details")):
        if isinstance(each, dict):
            thoughts.append(_thought(each))
    return "".join(thoughts)


def _items(value: Any) -> list[Any]:
    """What a list holds; nothing where an answer has something else in its place."""
    return value if isinstance(value, list) else []


def _finish(reason: Any) -> Finish:
    if reason is not None and not isinstance(reason, str):
        raise _unreadable(f"finish_reason is {_what(reason)}, not a string")
    word = (reason or "").lower()
    if word in _BROKEN:
        raise _unreadable("the endpoint broke off within the reply")
    return _FINISHES.get(word, "stop")


def _top_entries(logprobs: Any, whole_answer: bool) -> list[Any]:
    """The entries of the first token's most likely values, as they were sent."""
    tokens = _items(_inner(logprobs, "content"))
    first = tokens[0] if tokens else None
    told = _inner(first, "top_logprobs")
    entries = _items(told)
    if entries:
        return entries
    # Either no log-probabilities at all, or a token without any.
    first_has_none = isinstance(first, dict) and not told
    none_at_all = not logprobs or first_has_none
    raise EndpointError(
        "the answer has no top_logprobs: this endpoint or model gives no token probabilities",
        unreadable=True,
        unscored=whole_answer and none_at_all,
    )


def _top_logprobs(logprobs: Any, whole_answer: bool) -> dict[str, float]:
    """The first token's most likely values, by token; ``whole_answer`` is whether there must be some."""
    top: dict[str, float] = {}
    for entry in _top_entries(logprobs, whole_answer):
        token, value = _inner(entry, "token"), _inner(entry, "logprob")
        if not isinstance(token, str) or type(value) not in (int, float):
            raise _unreadable("top_logprobs has an entry without token and log-probability")
        if not -1e6 < value <= 0.01:  # rounding makes some a little more than 0
            raise _unreadable("top_logprobs has a log-probability that is none: it must be 0 at most")
        top.setdefault(token, min(float(value), 0.0))
    together = sum(map(math.exp, top.values()))
    if together > MOST_TOGETHER:
        raise _unreadable(f"top_logprobs has probabilities that add up to {together:.2f}, more than 1")
    return top


def _field(data: Any, name: str, kind: type, where: str) -> Any:
    if not isinstance(data, dict):
        raise _unreadable(f"{where} is {_what(data)}, not an object")
    if not isinstance(data.get(name), kind):
        found = f"is {_what(data[name])}" if name in data else "is missing"
        raise _unreadable(f"{where} cannot be read: {name} {found}")
    return data[name]


def _text(data: Any, name: str) -> str:
    value = _inner(data, name)
    return value if isinstance(value, str) else ""


def _inner(data: Any, *names: str) -> Any:
    """What stands below these names, one within the other; None where anything is missing on the way."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def token_count(value: Any) -> int | None:
    """A number of tokens; None where it is missing, or no sensible one."""
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def _what(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds[type(value)]


def _unreadable(message: str) -> EndpointError:
    return EndpointError(message, unreadable=True)
