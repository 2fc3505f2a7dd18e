"""Figures that the papers report, as data: one YAML file per suite, each saying where its figures come from."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml


def load_reference(suite: str) -> dict[str, Any]:
    """The published figures beside which a suite's results are reported."""
    text = resources.files(__name__).joinpath(f"{suite}.yaml").read_text(encoding="utf-8")
    figures: dict[str, Any] = yaml.safe_load(text)
    return figures
