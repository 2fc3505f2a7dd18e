"""Errors that a person reads."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user asked for cannot be; the message names it and says what would be right. Exit code 2."""


class RunFailedError(Exception):
    """The run cannot go on; what was finished is in the ledger, and the same command goes on from there. Exit code 1."""
