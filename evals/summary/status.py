"""What a reader must know of a run before its scores: that it is empty, partial, or failed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evals.summary.failures import Cause

IMPORTED_STOPPING: Final = "imported_stopping"
"""In a session: what the stopping rule of an imported run said, a sentence for each decision, one a line."""


def status_lines(
    summary: Mapping[str, int],
    causes: Mapping[tuple[str, str], Sequence[Cause]],
    imported: bool = False,
    by_rule: bool = False,
) -> list[str]:
    """Plain sentences, none for a run that is complete and without failures.

    Args:
        summary: ``planned``, ``done``, ``failed`` and ``missing`` episodes, as in ``summary.json``.
        causes: Of the failures (``evals.summary.failures.causes_of``).
        imported: Whether all rows are from files of other formats (``is_imported``), so that no command plays the rest.
        by_rule: Whether a rule may stop the run: its intervals then hold at every look.
    """
    planned, done, failed, missing = (summary[name] for name in ("planned", "done", "failed", "missing"))
    if missing == planned:
        return ["Empty run: no episode has been played yet, so there are no scores."]
    lines = []
    if missing:
        rest = "the imported files lack these" if imported else "the same command resumes the run"
        line = (
            f"Partial run: {missing:,} of {planned:,} planned episodes have not been played. "
            f"Scores cover the others; {rest}."
        )
        if not by_rule:
            line += (
                " Their intervals hold for a number of games that is fixed before, not for one at which somebody looks."
            )
        lines.append(line)
    if failed:
        share = f"{failed:,} of {planned - missing:,}" if done else "All"
        line = f"{share} played episodes failed; they count as not successful."
        every = sorted(itertools.chain.from_iterable(causes.values()), key=lambda cause: -cause.count)
        if every:
            times = "once" if every[0].count == 1 else f"{every[0].count:,} times"
            line += f" Most frequent cause ({times}): {every[0].text}"
        lines.append(line)
    return lines


def is_imported(sessions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether nothing of a run was played here: all its sessions are imports."""
    return bool(sessions) and all(session.get("imported_format") for session in sessions)


def imported_lines(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each format that rows were imported from (`raycade import`); the rows name their session."""
    files: dict[str, list[str]] = {}
    unchecked = 0
    for session in sessions:
        if not session.get("imported_format"):
            continue
        files.setdefault(str(session["imported_format"]), []).append(str(session.get("imported_file")))
        count = session.get("imported_unchecked")
        if isinstance(count, int):
            unchecked += count
    lines = []
    for name, (first, *others) in files.items():
        more = f" and {len(others)} more {'file' if len(others) == 1 else 'files'}" if others else ""
        lines.append(f"Imported from {name}: {first}{more}.")
    if unchecked:
        lines.append(f"{unchecked_scores(unchecked).capitalize()}.")
    return lines


def imported_stopping(sessions: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the stopping rules of imported runs said, each sentence once.

    The number of games was chosen by looking at them, so the run's intervals must hold for that.
    """
    found: dict[str, None] = {}
    for session in sessions:
        found |= dict.fromkeys(str(session.get(IMPORTED_STOPPING) or "").splitlines())
    return tuple(found)


def unchecked_scores(episodes: int) -> str:
    """What is said of imported episodes whose replies could not be scored here."""
    return f"scores of {episodes:,} episodes are as their files say: their replies could not be scored here"
