"""Figures that the papers report, as data, each with its table, its conditions and, where it is wrong, its correction."""

from __future__ import annotations

from evals.reference.figures import Conditions, Correction, Figure, Paper, published
from evals.reference.models import Model, model_named, models, nearest, parameters_of

__all__ = [
    "Conditions",
    "Correction",
    "Figure",
    "Model",
    "Paper",
    "model_named",
    "models",
    "nearest",
    "parameters_of",
    "published",
]
