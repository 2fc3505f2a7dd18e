"""What the page for people is sent and sends: states as JSON, pictures, answers. ``raycade play`` and studies share it.

A state is a question, a page of text, the word to wait, or the end. The page answers a question by its key; the reply to an
answer is the state that follows. Texts travel as JSON and are shown as plain text; pictures are PNG files.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from envs.files import Bounds, parse_json
from envs.picture import Picture
from evals.human.player import Question
from evals.types import Part

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the token is in the address
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
FILES: Final = {
    "": ("play.html", "text/html"),
    "play.js": ("play.js", "text/javascript"),
    "play-style.css": ("play-style.css", "text/css"),
    "licenses.txt": ("licenses.txt", "text/plain"),
}
"""By address: the file and what it is."""
_ANSWER: Final = Bounds(size=2000, depth=3)
_LONGEST_SECONDS: Final = 1e6
_MOST_IGNORED: Final = 10_000


@dataclass(frozen=True)
class Answer:
    """What a person chose, as the page says."""

    key: str
    """Of the question."""
    choices: tuple[int, ...]
    """The chosen option of each thing that was asked."""
    visible: float
    """Seconds from the question to its answer while the page was in sight."""
    hidden: float
    """Seconds while it was not: another tab, another window, a locked screen."""
    ignored: int
    """Clicks that came too soon after the question to be meant for it."""


async def read_answer(request: Request) -> Answer:
    """The answer that the page has posted.

    Raises:
        ValueError: it is none.
        ClientDisconnect: the browser hung up.
    """
    posted = parse_json(await _body(request), "answer", _ANSWER)
    if not isinstance(posted, dict):
        raise ValueError("an answer is an object")
    key, choices = posted.get("key"), posted.get("choices")
    if not isinstance(key, str) or not isinstance(choices, list) or any(type(each) is not int for each in choices):
        raise ValueError("an answer has a key and choices")
    ignored = _number(posted.get("ignored", 0), _MOST_IGNORED)
    visible, hidden = (_number(posted.get(name, 0), _LONGEST_SECONDS) for name in ("visible", "hidden"))
    return Answer(key, tuple(choices), visible, hidden, int(ignored))


def _number(value: object, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError("times and counts are numbers from 0")
    return min(float(value), most)


async def _body(request: Request) -> bytes:
    """What was posted, as much of it as can be an answer."""
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > _ANSWER.size:
            raise ValueError("too large for an answer")
    return content


def question_state(question: Question) -> dict[str, Any]:
    """A question as the page shows it: one choice among its options."""
    asked = {"name": "answer", "text": "", "options": [*question.options], "captions": [*question.captions]}
    return {**texts_state(question), "asks": [asked]}


def texts_state(question: Question) -> dict[str, Any]:
    """The texts and pictures of a question, without what can be chosen."""
    episode = question.episode
    return {
        "phase": "question",
        "title": f"{episode.suite}, {episode.task}, {episode.level}",
        "rules": _parts(question.rules),
        "past": [{"role": said.role, "parts": _parts(said.parts)} for said in question.past],
        "shown": _parts(question.shown),
        "for_models": question.for_models,
    }


def all_parts(question: Question) -> tuple[Part, ...]:
    """Everything that a question shows."""
    return (*question.rules, *(part for said in question.past for part in said.parts), *question.shown)


async def picture_response(parts: Iterable[Part], key: str) -> Response:
    """The picture of this key among some parts."""
    for part in parts:
        if isinstance(part, Picture) and part.key == key:
            png = io.BytesIO()
            Image.fromarray(await asyncio.to_thread(part.render)).save(png, "PNG")
            return Response(png.getvalue(), media_type="image/png", headers=HEADERS)
    return Response(status_code=404, headers=HEADERS)


def file_routes() -> list[Route]:
    """The page itself, below the address that a token makes."""
    return [Route(f"/{address}", _file(name, kind)) for address, (name, kind) in FILES.items()]


def _file(name: str, kind: str) -> Any:
    async def send(request: Request) -> Response:
        content = resources.files(__package__).joinpath("static", name).read_bytes()
        return Response(content, media_type=kind, headers=HEADERS)

    return send


def _parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [
        {"text": part} if isinstance(part, str) else {"picture": part.key, "size": list(part.size)} for part in parts
    ]
