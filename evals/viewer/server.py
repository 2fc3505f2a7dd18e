"""The viewer's web server: one page, and JSON for it. Every request needs the token; nothing that a model wrote is markup."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evals.ledger.parts import LedgerChangedError
from evals.serving import AnyTextResponse, is_known_host, with_escapes
from evals.viewer.cache import kept
from evals.viewer.episode import Episodes, for_the_page, whole
from evals.viewer.filters import CELL, Filter, filter_of
from evals.viewer.index import EpisodeIndex
from evals.viewer.live import LiveRuns
from evals.viewer.results import Results
from evals.viewer.runs import ViewedRun
from evals.viewer.search import TextSearches

STATIC = Path(__file__).with_name("static")
MOST_ROWS = 500
"""Rows of the list in one answer."""
MOST_DIGITS = 18
"""Of a number in a request: it fits into the 64 bits of a database's whole numbers."""
REFRESH_SECONDS = 2.0
CLOSE_SECONDS = 5.0
"""How long ending waits for a ledger that is being read."""
UNFINISHED_SECONDS = 10.0
"""Between a page's looks at runs that nobody plays at the moment, or that cannot be read whole."""
SMALLEST_PACKED = 1_000
"""Bytes: a shorter answer is not compressed."""
PACKING = 4
"""Level of compression: higher ones take three times as long for a tenth less."""
PAUSE = 10
"""Times as long as reading took is waited before the next look, so that watching a large run costs it little."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Next = Callable[[Request], Awaitable[Response]]


class Viewer:
    """What the server knows: the list of episodes, searches in it, and the episodes opened last."""

    def __init__(
        self,
        index: EpisodeIndex,
        discover: Callable[[], list[ViewedRun]] = lambda: [],
        also: Callable[[], None] = lambda: None,
    ) -> None:
        """``discover`` gives runs that were not there before; ``also`` reads what stands beside the ledgers."""
        self.index = index
        self.searches = TextSearches(index)
        self.episodes = Episodes(index)
        self.results = Results(index)
        self.live = LiveRuns(index)
        self.loaded = False
        self.trouble = ""
        """Why the ledgers cannot be read at the moment."""
        self._discover = discover
        self._also = also
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._refreshing = threading.Lock()

    def watch(self) -> None:
        """Read the runs, and what is added to them, until ``close`` is called."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching and searching, and wait for that: DuckDB complains of threads that outlive the interpreter."""
        self._stop.set()
        self.searches.close()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def refresh(self) -> None:
        """Read what is new."""
        with self._refreshing:
            for run in self._discover():
                self.index.add_run(run)
            self.index.refresh()
            self._also()
            self.loaded = True

    def _watch(self) -> None:
        while not self._stop.is_set():
            start = time.monotonic()
            try:
                self.refresh()
                self.trouble = ""
            except Exception as error:  # whatever it is, the page says so, and what was read can be looked at
                self.trouble = f"reading the ledgers: {type(error).__name__}: {error}"
            self._stop.wait(max(REFRESH_SECONDS, PAUSE * (time.monotonic() - start)))

    # --- what is asked ---

    def asked(self, request: Request) -> tuple[Filter, int | None, dict[str, Any] | None]:
        """The filter of a request; the number and progress of its text search, if it has one."""
        chosen = _or_400(lambda: filter_of(request.query_params.multi_items()))
        search = self.searches.of(chosen.text)
        if search is None:
            return chosen, None, None
        return chosen, search.number, {"searched": len(search.parts), "of": search.total, "running": search.running}

    def state(self, request: Request) -> Response:
        """What runs there are and how far they have come; ``version`` says whether anything else may have changed."""
        known = {"version": self.index.version, "loaded": self.loaded, "trouble": self.trouble}
        runs = self.index.status()
        changing = not self.loaded or self.searches.running or any(run["live"] or run["waiting"] for run in runs)
        unfinished = any(run["damage"] or run["done"] + run["failed"] < run["planned"] for run in runs)
        again = REFRESH_SECONDS if changing else UNFINISHED_SECONDS if unfinished else 0
        return AnyTextResponse({**known, "again": again, "runs": runs})

    def running(self, request: Request) -> Response:
        """Unfinished runs, and their running episodes."""
        return AnyTextResponse(self.live.overview())

    def turns(self, request: Request) -> Response:
        """What was said in a running episode, from the turn ``from`` on."""
        run, episode = self._followed(request)
        found = self.live.turns(run, episode, _whole_number(request, "from", 0))
        if found is None:
            raise HTTPException(404, "this episode is not running, or is not followed")
        return AnyTextResponse(found)

    def live_picture(self, request: Request) -> Response:
        """A picture of a running episode."""
        content = self.live.picture(*self._followed(request), request.path_params["key"])
        return _png(content)

    def _followed(self, request: Request) -> tuple[ViewedRun, str]:
        name, _, episode = request.query_params.get("at", "").rpartition("/")
        number = self.index.run_number(name)
        if number < 0:
            raise HTTPException(404, f"there is no run {name!r}")
        return self.index.runs[number], episode

    def version_of(self, request: Request) -> str:
        """Of what a list's answer depends on beside its address: the ledgers as read, and a text search."""
        progress = self.asked(request)[2] if "text" in request.query_params else None
        return f"{self.index.version} {self.loaded} {progress}"

    def values(self, request: Request) -> Response:
        """What the filters may choose from."""
        return AnyTextResponse(self.index.values())

    def rows(self, request: Request) -> Response:
        """Some rows of the list."""
        chosen, search, progress = self.asked(request)
        start = _whole_number(request, "from", 0)
        count = min(_whole_number(request, "count", 100), MOST_ROWS)
        sort = request.query_params.get("sort", "")
        page = _or_400(lambda: self.index.page(chosen, search, sort, start, count))
        return AnyTextResponse({**page, "search": progress, "version": self.index.version})

    def cells(self, request: Request) -> Response:
        """The cells of the heat map, of each player and run apart; a choice of cells does not narrow it."""
        chosen, search, _ = self.asked(request)
        return AnyTextResponse(self.index.cells(chosen.without(*CELL), search))

    def causes(self, request: Request) -> Response:
        """Failures by cause."""
        chosen, search, _ = self.asked(request)
        return AnyTextResponse(self.index.causes(chosen, search))

    def overview(self, request: Request) -> Response:
        """Runs by suites, what can be told apart, and differences to a baseline."""
        return AnyTextResponse(_or_400(lambda: self.results.results(request.query_params.get("baseline", ""))))

    def difficulty(self, request: Request) -> Response:
        """Success over difficulty, of all runs."""
        return AnyTextResponse({"curves": self.results.difficulty()})

    def compare(self, request: Request) -> Response:
        """Two rows of the results on identical games."""
        sides = [request.query_params.get(side, "") for side in ("first", "second")]
        return AnyTextResponse(_or_400(lambda: self.results.compare(*sides)))

    def episode(self, request: Request) -> Response:
        """One episode, where it stands in the list, and who else played the same game."""
        run, row = self._row(request)
        chosen, search, _ = self.asked(request)
        sort = request.query_params.get("sort", "")
        shown = self._open(run, row)
        return AnyTextResponse(
            {
                **for_the_page(shown),
                "listed": row,
                "place": _or_400(lambda: self.index.neighbors(chosen, search, sort, row["id"])),
                "same_game": self.index.same_game(row),
                "folder": str(run.path),
            }
        )

    def raw(self, request: Request) -> Response:
        """One episode as JSON text to be copied, pictures as descriptions."""
        return Response(with_escapes(whole(self._open(*self._row(request)))), media_type="application/json")

    def picture(self, request: Request) -> Response:
        """A picture of an episode, rendered again."""
        run, row = self._row(request)
        return _png(self.episodes.picture(run, row, request.path_params["key"]))

    def _row(self, request: Request) -> tuple[ViewedRun, dict[str, Any]]:
        name, _, episode = request.query_params.get("at", "").rpartition("/")
        attempt = _whole_number(request, "attempt", 0) or None
        row = self.index.find(name, episode, attempt)
        if row is None:
            raise HTTPException(404, f"run {name!r} has no episode {episode!r}" + ("" if self.loaded else " yet"))
        return self.index.runs[self.index.run_number(name)], row

    def _open(self, run: ViewedRun, row: Mapping[str, Any]) -> dict[str, Any]:
        try:
            try:
                return self.episodes.open(run, row)
            except LedgerChangedError:  # its part was merged into another one meanwhile
                self.refresh()
                found = self.index.find(run.name, row["episode_id"], row["attempt"])
                if found is None:
                    raise  # another run has taken the place of this one
                return self.episodes.open(self.index.runs[self.index.run_number(run.name)], found)
        except LedgerChangedError as error:
            raise HTTPException(410, f"{run.path}: the file {error} of the ledger is no longer there") from error
        except (OSError, ValueError, pa.ArrowException) as error:
            raise HTTPException(500, f"{run.path}: the ledger cannot be read: {error}") from error


def make_app(
    viewer: Viewer,
    token: str,
    cookie: str = "raycade",
    hosts: Collection[str] = ("localhost",),
    more: Sequence[Route] = (),
) -> Starlette:
    """The web app.

    Args:
        viewer: What it shows.
        token: What the first address must bring as ``token``; a cookie does afterwards. Empty to ask for none.
        cookie: The cookie's name; servers on one host tell theirs apart by it.
        hosts: Names by which it may be addressed, beside any IP address. Other names are refused, because a web page
            elsewhere could have its own name resolved to this machine (DNS rebinding).
        more: What it answers beside episodes and results, to those who have the token.
    """
    api = {
        "state": kept(viewer.state),
        "values": kept(viewer.values, viewer.version_of),
        "episodes": kept(viewer.rows, viewer.version_of),
        "cells": kept(viewer.cells, viewer.version_of),
        "causes": kept(viewer.causes, viewer.version_of),
        "results": kept(viewer.overview),
        "compare": kept(viewer.compare),
        "difficulty": kept(viewer.difficulty),
        "episode": kept(viewer.episode, viewer.version_of),
        "raw": kept(viewer.raw, viewer.version_of),
        "picture/{key}": viewer.picture,
        "live": kept(viewer.running),
        "live/turns": kept(viewer.turns),
        "live/picture/{key}": viewer.live_picture,
    }
    paths = ("/runs", "/episodes", "/suite/{name}", "/compare", "/episode", "/live", "/study")
    pages = [Route(path, _page) for path in paths]
    routes = [Route("/", _first_page), *pages, *(Route(f"/api/{path}", answer) for path, answer in api.items())]
    return Starlette(
        routes=[*routes, *more, Mount("/static", StaticFiles(directory=STATIC))],
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=_guard(token, cookie, hosts)),
            Middleware(GZipMiddleware, minimum_size=SMALLEST_PACKED, compresslevel=PACKING),
        ],
        exception_handlers={HTTPException: _error},  # type: ignore[dict-item]
    )


def _guard(token: str, cookie: str, hosts: Collection[str]) -> Callable[[Request, Next], Awaitable[Response]]:
    """Lets in who has the token, in the address or as a cookie, and adds the security headers to every answer."""

    def knows(given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), token.encode())

    async def answered(request: Request, call_next: Next) -> Response:
        if not is_known_host(request.headers.getlist("host"), hosts):
            text = "This viewer is not known under this host name: open the address that `raycade view` has printed."
            return Response(text, 400, media_type="text/plain; charset=utf-8")
        # Nobody needs a token.
        if not token:
            return await call_next(request)
        # The address that was printed: the cookie takes the token's place.
        if knows(request.query_params.get("token")) and request.url.path == "/":
            rest = [item for item in request.query_params.multi_items() if item[0] != "token"]
            response = RedirectResponse(f"/?{urlencode(rest)}", 303)
            response.set_cookie(cookie, token, httponly=True, samesite="strict")
            return response
        if not knows(request.cookies.get(cookie)):
            text = "This viewer asks for its token: open the address that `raycade view` has printed."
            return Response(text, 403, media_type="text/plain; charset=utf-8")
        return await call_next(request)

    async def guard(request: Request, call_next: Next) -> Response:
        response = await answered(request, call_next)
        for name, value in HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return guard


def _first_page(request: Request) -> Response:
    """The page of results; where the address is of a time when all was one page, that of the episode or the list."""
    query = f"?{request.url.query}" if request.url.query else ""
    page = "episode" if "episode" in request.query_params else "episodes" if query else "runs"
    return RedirectResponse(f"/{page}{query}", 303)


def _page(request: Request) -> Response:
    return Response((STATIC / "index.html").read_bytes(), media_type="text/html; charset=utf-8")


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return AnyTextResponse({"error": error.detail}, error.status_code)


def _png(content: bytes | None) -> Response:
    if content is None:
        raise HTTPException(404, "no such picture, or it cannot be rendered any more")
    return Response(content, media_type="image/png", headers={"Cache-Control": "private, max-age=86400, immutable"})


def _or_400(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


def _whole_number(request: Request, name: str, default: int) -> int:
    given = request.query_params.get(name, "")
    if given and not (given.isdecimal() and len(given) <= MOST_DIGITS):
        shown = json.dumps(given[:MOST_DIGITS])
        raise HTTPException(400, f"{name}: {shown} is not a whole number of at most {MOST_DIGITS} digits")
    return int(given) if given else default
