"""From requests to vLLM's sampling parameters, and from its log-probabilities to label scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.engines import vllm_compat
from cluster.engines.base import Request, Sampling
from evals.types import LabelScores, PlayerError

_FREE_ONLY = frozenset({"ignore_eos", "min_tokens", "repetition_detection", "stop_token_ids"})
"""Further parameters that would cut or lengthen constrained replies, which are whole by themselves."""


def label_parameters(labels: Sequence[int]) -> Any:
    """Parameters of a request for the log-probabilities of some tokens.

    Requested by id, these are exact. Never mix such requests with top-k ones (logprobs=k) on one engine: in one batch with
    these, vLLM's V1 model runner returns wrong rows for those.
    """
    return _parameters(detokenize=False, max_tokens=1, temperature=0.0, logprob_token_ids=list(labels))


def reply_parameters(
    sampling: Sampling, request: Request, room: int, *, lossless: bool, skip_special_tokens: bool, reasons: bool
) -> Any:
    """Parameters of a request for text, free or constrained to options or a JSON schema.

    Args:
        sampling: The model's.
        request: Its options and seed count.
        room: Tokens that the context has left.
        lossless: Whether the reply may be detokenized once, at its end, which takes a fraction of the time.
        skip_special_tokens: Whether special tokens are left out of the text.
        reasons: Whether a constrained reply may reason first, within the limit of free replies.
    """
    extra = _converted(sampling.extra)
    drawn: dict[str, Any] = {
        "temperature": sampling.temperature,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "skip_special_tokens": skip_special_tokens,
        **extra,
    }
    if sampling.temperature > 0:
        drawn |= {name: getattr(sampling, name) for name in ("top_p", "top_k", "min_p")}
        drawn["seed"] = request.seed
    if request.options or request.schema:
        from vllm.sampling_params import StructuredOutputsParams

        constraint: dict[str, Any] = {"json": request.schema}
        most = sampling.max_tokens
        if request.options:
            constraint = vllm_compat.choice(request.options)
            # No token is shorter than a byte, so the longest option always fits, whatever the limit for free text.
            longest = max(len(option.encode()) for option in request.options) + 1
            most = longest + (sampling.max_tokens if reasons else 0)
        drawn = {name: value for name, value in drawn.items() if name not in _FREE_ONLY}
        return _parameters(
            detokenize=not lossless,
            max_tokens=min(most, room),
            structured_outputs=StructuredOutputsParams(**constraint),
            **drawn,
        )
    stop = list(sampling.stop) or None
    plain = lossless and not stop and not extra
    most = min(sampling.max_tokens, room)
    if "min_tokens" in drawn:  # the warm-up and a full context leave less room, which vLLM refuses
        drawn["min_tokens"] = min(drawn["min_tokens"], most)
    return _parameters(detokenize=not plain, max_tokens=most, stop=stop, **drawn)


def label_scores(tokens: Sequence[int], answer: Any) -> LabelScores:
    """Label scores from vLLM's output; at temperature 0 the generated token is the most probable one.

    Raises:
        PlayerError: vLLM returned none.
    """
    if not answer.logprobs:
        raise PlayerError("vLLM returned no log-probabilities of the labels; with speculative decoding it cannot")
    row = answer.logprobs[0]
    logprobs = tuple(float(row[token].logprob) for token in tokens)
    mass = math.fsum(math.exp(logprob) for logprob in logprobs)
    return LabelScores(logprobs, mass=mass, argmax_is_label=answer.token_ids[0] in tokens)


def _converted(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Further parameters in vLLM's own types."""
    converted = dict(extra)
    bias = converted.get("logit_bias")
    if bias:
        converted["logit_bias"] = {int(token): float(value) for token, value in bias.items()}
    repetition = converted.get("repetition_detection")
    if repetition:
        from vllm.sampling_params import RepetitionDetectionParams

        converted["repetition_detection"] = RepetitionDetectionParams(**repetition)
    return converted


def _parameters(**settings: Any) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **settings)
