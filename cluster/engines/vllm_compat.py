"""Names that moved between vLLM 0.26 and 0.32; everything else that raycade uses is the same in both."""

from __future__ import annotations

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
