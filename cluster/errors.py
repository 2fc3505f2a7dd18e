"""Errors that a person reads, and exit codes."""

from __future__ import annotations

BAD_INPUT = 2
RUN_FAILED = 1
CONTINUE = 75
"""Exit code of a run that was stopped before its end: run the same command again (EX_TEMPFAIL)."""
INTERRUPTED = 130


class UserError(Exception):
    """Something that the user asked for cannot be; the message names it and says what would be right. Exit code 2."""


class RunFailedError(Exception):
    """The run cannot go on; what was finished is in the ledger, and the same command goes on from there. Exit code 1."""
