"""Names that moved between vLLM 0.26 and 0.32; everything else that raycade uses is the same in both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def client_errors() -> tuple[type[Exception], ...]:
    """Errors of a request, not of the engine; 0.26 raises plain ValueErrors, 0.32 has a class for them."""
    from vllm import exceptions

    return tuple({getattr(exceptions, "VLLMClientError", ValueError), ValueError})


def reads_pictures(model_config: Any) -> bool:
    """Whether a model takes pictures; 0.26 asks its registry, 0.32 the model's configuration."""
    known = getattr(model_config, "supports_multimodal_inputs", None)
    if known is None:
        from vllm.multimodal import MULTIMODAL_REGISTRY

        known = MULTIMODAL_REGISTRY.supports_multimodal_inputs(model_config)
    return bool(known)


def preemptions(metrics: Any) -> int:
    """How often a request was interrupted for want of memory; 0.26 does not count it by request, and then it is 0."""
    return int(getattr(metrics, "num_preemptions", 0))


def choice(options: Sequence[str]) -> dict[str, Any]:
    """Arguments of StructuredOutputsParams for one of some texts; 0.26 does not escape line breaks in its own grammar."""
    from vllm.v1.structured_output.utils import choice_as_grammar

    if "\n" in choice_as_grammar(["\n"]):
        # The escapes of JSON strings are those of the grammar.
        return {"grammar": "root ::= " + " | ".join(json.dumps(option, ensure_ascii=False) for option in options)}
    return {"choice": list(options)}
