"""Golden texts: what a fixed run prints, kept in ``tests/golden`` and reviewed as a diff when it changes.

UPDATE_GOLDEN=1 pytest tests/path      # write them anew, then read the diff
"""

import dataclasses
import difflib
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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


def check_said(name: str, names: Mapping[str, Any], shown: Callable[[Any], str] = str) -> None:
    """Compare a text of questions and answers with what is said now; new questions may be added to the text.

    Args:
        name: Of the file in ``tests/golden``; its questions are expressions, on lines that begin with ``>>> ``.
        names: What expressions may use.
        shown: How an answer is written; errors are written by their type and words.
    """
    said = []
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(">>> "):
            try:
                answer = shown(eval(line[4:], {**names}))
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            said += [line, answer]
    check_golden(name, "\n".join(said))


def digest(content: str | bytes) -> str:
    """What stands for a long text."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()[:12]


def plain(value: Any) -> str:
    """Values in one line: dataclasses without what is as by default, floats to six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {plain(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(plain, value)) + ")"
    if not dataclasses.is_dataclass(value):
        return repr(value)
    told = []
    for each in dataclasses.fields(value):
        found = getattr(value, each.name)
        if found != each.default and found not in ("", {}, ()):
            told.append(f"{each.name}={plain(found)}")
    return f"{type(value).__name__}({', '.join(told)})"


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
