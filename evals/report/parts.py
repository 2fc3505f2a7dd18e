"""How runs were made, as parts of a page: versions of each session and the resolved configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from evals.tables import Table


def versions_table(run_sessions: Sequence[Mapping[str, Any]], name: str) -> Table | None:
    """Versions of each session, one row for each package; None where no session is on record."""
    # What is nested, such as the configuration and all installed packages, is no version; versions.json has it.
    sessions = [
        {key: value for key, value in session.items() if not isinstance(value, Mapping)} for session in run_sessions
    ]
    rows = tuple(
        (key, *(_version(session.get(key)) for session in sessions))
        for key in dict.fromkeys(key for session in sessions for key in session)
    )
    columns = ("package", *(f"session {number}" for number in range(1, len(sessions) + 1)))
    return Table(f"versions_{name}", f"Versions: {name}", columns, rows) if rows else None


def _version(value: Any) -> str | None:
    return None if value is None else str(value)


def settings_text(settings: Mapping[str, Any]) -> str:
    """The resolved configuration."""
    text: str = yaml.safe_dump(json.loads(json.dumps(settings, default=str)), sort_keys=False, allow_unicode=True)
    return text
