"""Checks settings against their declared types; every error names the key, its value, and what would be right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from cluster.errors import UserError
from envs.suggest import did_you_mean

COUNTS = frozenset(
    {
        "block_size",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_tokens",
        "max_tries",
        "nodes",
        "pipeline_parallel_size",
        "replicas",
        "runners",
        "tensor_parallel_size",
    }
)
"""Settings that must be at least 1; all other numbers except ``SIGNED`` must be at least 0."""

ABOVE_ZERO = frozenset(
    {
        "commit_seconds",
        "gpu_memory_utilization",
        "grace_seconds",
        "health_seconds",
        "health_timeout",
        "prefill_tokens_per_second",
        "repetition_penalty",
        "requests_per_minute",
        "timeout_seconds",
        "tokens_per_minute",
        "top_p",
    }
)

SHARES = frozenset({"failure_rate", "gpu_memory_utilization", "min_p", "top_p"})
"""Settings that must be at most 1."""

SIGNED = frozenset({"frequency_penalty", "presence_penalty"})
"""Settings that may be negative."""

WORDS: Mapping[Any, str] = {
    NoneType: "null",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
}


def check_keys(section: str, known: Iterable[str], values: Iterable[str]) -> None:
    """Check that all keys are known; values of unknown keys may be secrets and are not quoted.

    Raises:
        UserError: one is not.
    """
    known = sorted(known)
    if unknown := sorted(set(map(str, values)) - set(known)):
        where = f"{section}: unknown key" if section else "unknown key"
        near = "".join(did_you_mean(key, known) for key in unknown)
        raise UserError(f"{where} {', '.join(unknown)}; choose from {', '.join(known)}{near}")


def check_values(section: str, types: Mapping[str, Any], values: Mapping[str, Any], bounded: bool = True) -> None:
    """Check each value's type and, if ``bounded``, its range; types not handled here accept anything.

    Raises:
        UserError: one is not.
    """
    for key, value in values.items():
        kind = types.get(key, Any)
        if not _is(value, kind) or (bounded and _is(value, float) and not _within(key, value)):
            raise UserError(
                f"{section}.{key}={value}: must be {describe_type(kind)}{_bounds(key, kind) if bounded else ''}"
                f"{did_you_mean(value, _words_of(kind))}"
            )


def _is(value: Any, kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    if origin in (tuple, list, Sequence):
        return isinstance(value, list | tuple) and all(_is(each, arguments[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind) if kind in WORDS else True


def _words_of(kind: Any) -> list[str]:
    """All words that a declared type accepts."""
    if get_origin(kind) is Literal:
        return [word for word in get_args(kind) if isinstance(word, str)]
    return [word for each in get_args(kind) for word in _words_of(each)]


def _within(key: str, value: float) -> bool:
    enough = key in SIGNED or (value >= 1 if key in COUNTS else value > 0 if key in ABOVE_ZERO else value >= 0)
    return enough and (value <= 1 or key not in SHARES)


def describe_type(kind: Any) -> str:
    """A declared type in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return ", or ".join(describe_type(each) for each in arguments)
    if origin is Literal:
        return "one of " * (len(arguments) > 1) + ", ".join(map(str, arguments))
    if origin in (tuple, list, Sequence):
        return f"a list, each {describe_type(arguments[0])}"
    return "a mapping" if origin is Mapping else WORDS.get(kind, str(kind))


def _bounds(key: str, kind: Any) -> str:
    if key in SIGNED or not {int, float} & {kind, *get_args(kind)}:
        return ""
    least = ", from 1 up" if key in COUNTS else ", above 0" if key in ABOVE_ZERO else ", from 0 up"
    return least + (" and at most 1" if key in SHARES else "")
