"""Checkpoints of a training that is under way: each is found when it is complete, played, and added to a curve."""

from __future__ import annotations

from typing import Final

SETTLED: Final = 5.0
"""Seconds without a change after which a folder counts as written; the trainer's last file says so at once."""
