"""The licenses of all that pages are made of."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from evals.viewer.server import STATIC


def licenses() -> str:
    """The license of raycade, whose drawings are others' (its NOTICE), and those of the packages in the page's script."""
    own = [_own_text(name) for name in ("LICENSE", "NOTICE")]
    return "\n\n".join([*own, (STATIC / "licenses.txt").read_text(encoding="utf-8")])


def _own_text(name: str) -> str:
    """A license file of raycade, as installed; a checkout's metadata beside its source has none, the checkout itself does."""
    for installed in importlib.metadata.distributions(name="raycade"):
        text = installed.read_text(f"licenses/{name}")
        if text:
            return text
    return (Path(__file__).parents[2] / name).read_text(encoding="utf-8")
