"""What a misspelled name was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 3


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """A question that names up to three similar names, to be put behind an error message; empty where none is similar."""
    names = {str(name).lower(): str(name) for name in known}
    close = difflib.get_close_matches(str(word).lower(), names, n=MOST, cutoff=0.6)
    return f". Did you mean {' or '.join(names[name] for name in close)}?" if close else ""
