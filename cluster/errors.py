"""Errors that a person reads."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user asked for cannot be; the message names it and says what would be right. Exit code 2."""
