"""Answers that a browser keeps and asks for again: what has not changed is not sent again (RFC 9110, section 13)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

_PROCESS: Final = secrets.token_hex(8)
"""Versions are counted anew in each process."""

Answer = Callable[[Request], Response]


def kept(answer: Answer, version: Callable[[Request], str] | None = None) -> Answer:
    """The same answers with an entity tag, and without content where the browser has it.

    Args:
        answer: Makes the content.
        version: Of all that the content depends on beside its address: where it is as the browser knows it, nothing is made. By
            default the content is made and compared.
    """

    def tagged(request: Request) -> Response:
        tag = _tag(version(request).encode()) if version is not None else ""
        if tag and _is_known(request, tag):
            return _unchanged(tag)
        response = answer(request)
        tag = tag or _tag(bytes(response.body))
        if _is_known(request, tag):
            return _unchanged(tag)
        response.headers.update({"ETag": tag, "Cache-Control": KEPT})
        return response

    return tagged


KEPT: Final = "private, no-cache"
"""A browser may keep an answer, and asks each time whether it still holds."""


def _tag(content: bytes) -> str:
    """Weak: what is compressed differs byte for byte from what is not."""
    return f'W/"{hashlib.blake2b(content, digest_size=16, key=_PROCESS.encode()).hexdigest()}"'


def _is_known(request: Request, tag: str) -> bool:
    return tag in [each.strip() for each in request.headers.get("if-none-match", "").split(",")]


def _unchanged(tag: str) -> Response:
    return Response(status_code=304, headers={"ETag": tag, "Cache-Control": KEPT})
