"""Text that a model, an endpoint or a file wrote, made safe to show: it can neither command a terminal nor reorder a line."""

from __future__ import annotations

import re

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u2029\ud800-\udfff"
"""Obeyed by terminals, ends of lines, and halves of surrogate pairs; not tabs and line feeds."""
_IGNORABLE = (
    r"\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Shown as nothing, or marks of direction: Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt, 16.0)."""
_BLANK = r"\u2800\ufff9-\ufffb\U00013430-\U0001343f"
"""Shown as nothing as well: an empty Braille cell, marks of annotations, and those that join hieroglyphs."""
_EMOJI = r"#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
"""Characters that a variation selector turns into text or emoji (emoji-variation-sequences.txt)."""
_UNSAFE = re.compile(rf"[{_CONTROLS}{_IGNORABLE}{_BLANK}]|(?<![{_EMOJI}])[\ufe0e\ufe0f]")


def printable(text: str) -> str:
    r"""Text with control, invisible and direction characters and lone surrogates as escapes, such as ``\x1b``.

    Tabs and line feeds stay.

    >>> print(printable("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
