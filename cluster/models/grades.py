"""How far a model was tried."""

from __future__ import annotations

from typing import Final

PLAYED: Final = "played"
EXACT: Final = "played, labels exact"
LOADED: Final = "loaded"
CONFIG: Final = "config and processor"
UNTRIED: Final = "not tried"
GRADES: Final = (EXACT, PLAYED, LOADED, CONFIG, UNTRIED)
"""From the best: ``loaded`` answers, but not every turn that was asked; ``config and processor`` does not start here."""
