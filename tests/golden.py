"""Golden texts: what a fixed run prints, kept in ``tests/golden`` and reviewed as a diff when it changes.

UPDATE_GOLDEN=1 pytest tests/path      # write them anew, then read the diff
"""

import difflib
import hashlib
import os
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")
_SHOWN = 80
"""Lines of a difference."""


def check_golden(name: str, text: str) -> None:
    """Compare a text with the one on record.

    Args:
        name: Of the file in ``tests/golden``, without its ending.
        text: As it is now.
    """
    path = FOLDER / f"{name}.txt"
    text = text.rstrip() + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    changed = list(difflib.unified_diff(known.splitlines(), text.splitlines(), str(path), "now", lineterm="", n=1))
    assert text == known, "\n".join([*changed[:_SHOWN], "UPDATE_GOLDEN=1 writes it anew; then review the diff"])


def digest(content: str | bytes) -> str:
    """What stands for a long text."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()[:12]


class Watched:
    """Plays as another player, and keeps what each turn tells of its options without being sent anywhere."""

    def __init__(self, player):
        self.player, self.features, self.shortcuts, self.remaining = player, [], [], []

    async def reply(self, turn):
        told = turn.features() if turn.features else []
        self.features.append(told)
        self.shortcuts.append({name: reply() for name, reply in turn.shortcuts.items()})
        if turn.remaining:
            self.remaining.append([round(turn.remaining(each.action), 9) for each in told])
        return await self.player.reply(turn)

    @property
    def digests(self) -> str:
        return " ".join(digest(repr(kept)) for kept in (self.features, self.shortcuts, self.remaining))
