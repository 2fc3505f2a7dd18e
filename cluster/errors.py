"""Errors that are shown to the user, and exit codes."""

from __future__ import annotations

BAD_INPUT = 2
RUN_FAILED = 1
CONTINUE = 75
"""Exit code of a run that was stopped before its end: run the same command again (EX_TEMPFAIL)."""
INTERRUPTED = 130


SEE_DOCTOR = "`raycade doctor` with the same settings looks for the cause"
"""Ends errors of starts whose cause may lie in the machines."""


class UserError(Exception):
    """A user error: the message names the bad value and what would be right. Exit code 2."""


class RunFailedError(Exception):
    """The run cannot continue. Finished episodes are in the ledger; the same command resumes. Exit code 1."""


class ResumableError(RunFailedError):
    """The run has spent, or waited, as much as it may. It resumes with a higher limit. Exit code 75."""


def cannot_write(place: object, error: OSError) -> UserError | RunFailedError:
    """The error for a file that cannot be written: the user's for a wrong place, not for a full disk."""
    from envs.disk import disk_refuses  # reads YAML, which takes time; signals are heeded before

    message = f"{place}: cannot be written: {error}"
    return RunFailedError(message) if disk_refuses(error) else UserError(message)
