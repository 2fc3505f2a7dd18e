"""The server of a study: each participant's page behind an unguessable address. Nothing is kept of who connects."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from envs.files import FileError
from evals.human.page import HEADERS, file_routes, picture_response, read_answer
from evals.people.games import Games
from evals.people.seat import RefusedError, Seat
from evals.people.study import Study
from evals.serving import KnownHosts

logger = logging.getLogger(__name__)


class StudyServer:
    """Seats of all participants, each made when its participant first comes."""

    def __init__(self, study: Study, games: Games, check_games: Games | None = None) -> None:
        """Nobody has come yet."""
        self._study, self._games, self._check_games = study, games, check_games
        self._seats: dict[str, Seat] = {}
        self._told: set[str] = set()
        """Errors that were logged; pages ask every few seconds."""

    def app(self, hosts: Collection[str]) -> Starlette:
        """The pages.

        Args:
            hosts: Names by which the server may be called; other ones are refused, against DNS rebinding.
        """
        routes = [
            *file_routes(),
            Route("/state", self._state),
            Route("/pictures/{key}.png", self._picture),
            Route("/answer", self._answer, methods=["POST"]),
        ]
        trusted = Middleware(KnownHosts, hosts=hosts)
        unreadable = dict.fromkeys((FileError, OSError), self._unreadable)
        return Starlette(routes=[Mount("/{token}", routes=routes)], middleware=[trusted], exception_handlers=unreadable)

    def _seat(self, path: Mapping[str, str]) -> Seat | None:
        participant = self._study.by_token.get(path["token"])
        if participant is None:
            return None
        if participant.token not in self._seats:
            self._seats[participant.token] = Seat(self._study, participant, self._games, self._check_games)
        return self._seats[participant.token]

    async def _state(self, request: Request) -> Response:
        seat = self._seat(request.path_params)
        if seat is None:
            return _refused(404)
        return JSONResponse(await seat.state(), headers=HEADERS)

    async def _picture(self, request: Request) -> Response:
        seat = self._seat(request.path_params)
        if seat is None:
            return _refused(404)
        await seat.state()  # after a restart of the server nothing is in hand yet
        return await picture_response(seat.parts, request.path_params["key"])

    async def _answer(self, request: Request) -> Response:
        seat = self._seat(request.path_params)
        if seat is None:
            return _refused(404)
        try:
            state = await seat.answer(await read_answer(request))
        except (ValueError, ClientDisconnect):
            return _refused(400)
        except RefusedError:
            return _refused(409)
        except OSError as error:  # the page sends the answer again
            logger.error("an answer cannot be written: %s", error)
            return _refused(503)
        return JSONResponse(state, headers=HEADERS)

    async def _unreadable(self, request: Request, error: Exception) -> Response:
        """A participant's file is damaged: the page asks again, and goes on once it is mended."""
        text = str(error)
        if text not in self._told:
            self._told.add(text)
            logger.error("a participant's page cannot be shown: %s", text)
        return _refused(503)


def _refused(status: int) -> Response:
    return Response(status_code=status, headers=HEADERS)
