"""Means with confidence intervals that respect clusters: repeated runs of one task are not independent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval; ``n`` counts observations, not clusters."""

    mean: float
    low: float
    high: float
    n: int
