"""What an engine is made of (docs/new_engine.md)."""

from cluster.engines.base import (
    Capabilities,
    Engine,
    EngineClosedError,
    EngineDiedError,
    EngineError,
    Request,
    Sampling,
)
from envs.settings import Count, Index, NotNegative, Positive, Seconds, Several, Share
from evals.types import LabelScores, PlayerError, PromptTooLong, Reply

__all__ = [
    "Capabilities",
    "Count",
    "Engine",
    "EngineClosedError",
    "EngineDiedError",
    "EngineError",
    "Index",
    "LabelScores",
    "NotNegative",
    "PlayerError",
    "Positive",
    "PromptTooLong",
    "Reply",
    "Request",
    "Sampling",
    "Seconds",
    "Several",
    "Share",
]
