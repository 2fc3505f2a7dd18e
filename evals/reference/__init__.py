"""Figures that the papers report, as data, each with its table, its conditions and, where it is wrong, its correction."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

from evals.reference.figures import Conditions, Correction, Figure, Paper, published
from evals.reference.models import Model, model_named, models, nearest, parameters_of

__all__ = [
    "Conditions",
    "Correction",
    "Figure",
    "Model",
    "Paper",
    "load_reference",
    "model_named",
    "models",
    "nearest",
    "parameters_of",
    "published",
]


def load_reference(suite: str) -> dict[str, Any]:
    """The published figures beside which a suite's results are reported."""
    text = resources.files(__name__).joinpath(f"{suite}.yaml").read_text(encoding="utf-8")
    figures: dict[str, Any] = yaml.safe_load(text)
    return figures
