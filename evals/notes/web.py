"""Notes in the viewer: read with an episode, and the only thing that its page may write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from envs.files import Bounds, FileError, parse_json
from evals.notes.note import NoteError, new_note
from evals.notes.store import NotesFile
from evals.serving import AnyTextResponse
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import NO_FILE, FileState, ViewedRun, file_state
from evals.viewer.schema.notes import NotesAnswer

MOST_POSTED = 64 * 2**10
"""Bytes of a request."""


class Posted(TypedDict):
    """What the page sends: a note to be added (``tag``, ``text``), or the id of one to be removed (``remove``)."""

    at: str
    tag: str
    text: str
    author: str
    remove: str


def _state_of(path: Path) -> FileState:
    """The state of a file; ``NO_FILE`` where none can be looked at."""
    try:
        return file_state(path)
    except OSError:
        return NO_FILE


def _note_damage(run: ViewedRun, file: str, damage: Sequence[str]) -> None:
    """Say what is wrong with a run's notes, in place of what was wrong before."""
    for place in [each for each in run.damage if each.startswith(file)]:
        del run.damage[place]
    run.damage |= {f"{file}, {place}": what for place, what in enumerate(damage, 1)}


class ViewerNotes:
    """The notes of the runs that a viewer shows."""

    def __init__(self, index: EpisodeIndex, author: str, refusal: str = "") -> None:
        """Notes on the episodes of a list.

        Args:
            index: The list, which filters by tags.
            author: Who writes notes, unless the page says otherwise.
            refusal: Why the page may write none; empty where it may.
        """
        self._index = index
        self._author = author
        self._refusal = refusal
        self._seen: dict[int, tuple[int, FileState]] = {}
        """Of each run with notes: its ``beginning`` and the state of its file of notes when they were read."""

    def refresh(self) -> None:
        """Tell the list of tags that were added or removed since."""
        for number, run in enumerate(self._index.runs):
            file = NotesFile(run.path)
            seen = run.beginning, _state_of(file.path)
            if seen == self._seen.get(number, (run.beginning, NO_FILE)):
                continue
            notes = file.read()
            self._index.set_tags(number, [(note.episode, note.tag) for note in notes.notes if note.tag])
            _note_damage(run, file.path.name, notes.damage)
            self._seen[number] = seen

    def routes(self) -> list[Route]:
        """What the viewer's server answers beside its own."""
        return [Route("/api/notes", self._read), Route("/api/notes", self._write, methods=["POST"])]

    def _read(self, request: Request) -> Response:
        run, episode = self._episode(request.query_params.get("at", ""))
        return AnyTextResponse(self._answer(run, episode))

    async def _write(self, request: Request) -> Response:
        """Add or remove a note, for a page of this server only: others cannot name its origin."""
        if self._refusal:
            raise HTTPException(403, self._refusal)
        hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
        if len(origins) != 1 or origins[0] not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
            raise HTTPException(403, "notes are taken from the viewer's own page only")
        given = _posted(await _body(request))
        # in a thread: a disk that hangs, or a lock that another process holds, must not stop the other pages
        return await run_in_threadpool(self._change, given)

    def _change(self, given: Posted) -> Response:
        run, episode = self._episode(given["at"])
        file = NotesFile(self._index.runs[run].path)
        author = given["author"].strip() or self._author
        try:
            if given["remove"]:
                file.remove(given["remove"], author)
            else:
                file.add([new_note(episode, given["tag"], given["text"], author)])
        except NoteError as error:
            raise HTTPException(400, str(error)) from error
        self.refresh()
        return AnyTextResponse(self._answer(run, episode))

    def _episode(self, at: str) -> tuple[int, str]:
        """The number of the run and the id of an episode RUN/ID that is in the list."""
        name, _, episode = at.rpartition("/")
        if self._index.find(name, episode) is None:
            raise HTTPException(404, f"run {name!r} has no episode {episode!r}")
        return self._index.run_number(name), episode

    def _answer(self, run: int, episode: str) -> NotesAnswer:
        file = NotesFile(self._index.runs[run].path)
        notes = file.read().by_episode().get(episode, [])
        return {
            "notes": [{**note.to_json()} for note in notes],  # type: ignore[typeddict-item]
            "tags": sorted(self._index.tags()),
            "refusal": self._refusal or file.why_not_writable(),
            "author": self._author,
        }


async def _body(request: Request) -> bytes:
    content = b""
    try:
        async for piece in request.stream():
            content += piece
            if len(content) > MOST_POSTED:
                raise HTTPException(413, f"a note has at most {MOST_POSTED:,} bytes")
    except ClientDisconnect as error:  # nobody reads the answer; without one, the server would print a traceback
        raise HTTPException(400, "the browser hung up before the end of the note") from error
    return content


def _posted(content: bytes) -> Posted:
    try:
        given: Any = parse_json(content, "note", Bounds(MOST_POSTED, depth=2, nodes=20))
    except (FileError, UnicodeDecodeError) as error:
        raise HTTPException(400, str(error)) from error
    names = tuple(Posted.__annotations__)
    no_note = HTTPException(400, f"a note is a JSON object of texts: {', '.join(names)}")
    if not isinstance(given, dict):
        raise no_note
    unknown = set(given) - set(names)
    if unknown:
        raise no_note
    for value in given.values():
        if not isinstance(value, str):
            raise no_note
    at, tag, text, author, remove = (str(given.get(name, "")) for name in names)
    return {"at": at, "tag": tag, "text": text, "author": author, "remove": remove}
