"""Errors of a suite that works on rows which are stored already."""

from __future__ import annotations


class SuiteError(ValueError):
    """A suite cannot score, show or read again what a run holds.

    A file that its settings name is not on this machine, or the rows hold what no game of the suite gives.
    """

    def __init__(self, suite: str, act: str, error: BaseException) -> None:
        """``act`` is what the suite was to do, as "make its scores"."""
        super().__init__(suite, act, f"{type(error).__name__}: {error}")

    def __str__(self) -> str:
        suite, act, reason = self.args
        return f"the suite {suite} cannot {act} of this run: {reason}"
