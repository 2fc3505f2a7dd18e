"""Text that a model, an endpoint or a file wrote, made safe to show: it can neither command a terminal nor reorder a line."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Text with control, invisible and direction characters and lone surrogates as escapes, such as ``\x1b``.

    Tabs and line feeds stay.

    >>> print(printable("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
