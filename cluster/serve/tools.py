"""The MCP interface (Model Context Protocol): four tools, by which an agent finds its games and answers turns.

The first text of each result is JSON for programs: session, turn, options, or how the game ended. Then come the messages that
are new, texts and pictures in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, TextIO

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import Field, ValidationError
from starlette.types import Receive, Scope, Send

from cluster.console import warn
from cluster.serve.games import Game, Games, RefusedError
from cluster.serve.shown import game_to_parts, progress_to_json
from cluster.serve.taken import BODY, Answer, Taken, what_is_wrong
from evals.chat_json import png
from evals.types import Part

INSTRUCTIONS: Final = (
    "You play games of reasoning. Call next_game to begin one and read its turn; reply with answer, which shows the next "
    "turn, until the outcome is told; then call next_game again until it says that all is over. What a turn asks for is the "
    "text of your answer: keep to the form that it asks for. Where labels are listed, answer with one of them and nothing "
    "else."
)


class _Next(Taken):
    episode: Annotated[str, Field(description="an episode's id; by default the next one of the queue")] = ""


class _Answer(Answer):
    session: Annotated[str, Field(description="as next_game has named it")]
    turn: Annotated[int, Field(ge=0, strict=False, description="number of the turn that is answered")]


class _Session(Taken):
    session: Annotated[str, Field(description="as next_game has named it")]


class _Nothing(Taken):
    pass


_TOOLS: Final[dict[str, tuple[type[Taken], str]]] = {
    "next_game": (_Next, "Begin a game and see its first turn."),
    "answer": (_Answer, "Answer a turn and see the next one, or that the game is over."),
    "state": (_Session, "See the waiting turn of a game again, with all messages that belong to it."),
    "progress": (_Nothing, "How many games are left, in play, and finished."),
}


class Tools:
    """The tools of one run."""

    def __init__(self, games: Games, player: str, feedback: bool) -> None:
        """``feedback`` says whether clients are told if a game was won."""
        self._games, self._player, self._feedback = games, player, feedback

    def server(self) -> Server[Any]:
        """An MCP server with these tools, for any transport."""
        return Server("raycade", instructions=INSTRUCTIONS, on_list_tools=_listed, on_call_tool=self._called)

    def over_http(self) -> StreamableHttp:
        """The tools as an application."""
        return StreamableHttp(self.server())

    @contextlib.asynccontextmanager
    async def over_stdio(self, output: TextIO) -> AsyncIterator[asyncio.Event]:
        """Serve the client at standard input, which reads ``output``; the event says that it has hung up."""
        reader = asyncio.StreamReader(limit=BODY.size)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        serving = asyncio.create_task(_serve_lines(self.server(), _Lines(reader), output))
        closed = asyncio.Event()
        serving.add_done_callback(lambda task: closed.set())
        try:
            yield closed
        finally:
            serving.cancel()
            [ended] = await asyncio.gather(serving, return_exceptions=True)
            if isinstance(ended, Exception):  # the client is gone in the middle of a message
                warn(f"--stdio: {ended}")

    async def _called(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        if params.name not in _TOOLS:
            return _refusal(f"there is no tool of this name; there are {', '.join(_TOOLS)}")
        kind, _ = _TOOLS[params.name]
        try:
            given = kind.model_validate(params.arguments or {})
            return CallToolResult(content=await self._result(given))
        except ValidationError as error:
            return _refusal(what_is_wrong(error))
        except RefusedError as error:
            return _refusal(str(error))

    async def _result(self, given: Taken) -> list[ContentBlock]:
        """What a tool shows; its arguments say which one it is."""
        games = self._games
        if isinstance(given, _Next):
            begun = await games.open(given.episode)
            if begun is None:
                return [TextContent(text=json.dumps({"session": None, "over": games.over}))]
            return await self._shown(begun, 0)
        if isinstance(given, _Answer):
            answered = await games.answer(given.session, given.turn, given)
            return await self._shown(answered, given.turn + 1)
        if isinstance(given, _Session):
            found = games.find(given.session)
            return await self._shown(found, found.waiting, whole=True)
        return [TextContent(text=json.dumps(progress_to_json(games, self._player)))]

    async def _shown(self, game: Game, number: int, whole: bool = False) -> list[ContentBlock]:
        parts = game_to_parts(game, number, self._feedback, whole)
        return await asyncio.to_thread(lambda: [_block(part) for part in parts])


async def _listed(context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
    tools = [
        Tool(name=name, description=what, input_schema=kind.model_json_schema())
        for name, (kind, what) in _TOOLS.items()
    ]
    return ListToolsResult(tools=tools)


def _refusal(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _block(part: Part) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(text=part)
    return ImageContent(data=png(part), mime_type="image/png")


class StreamableHttp:
    """The tools at one address, as an application; it must be ``running`` meanwhile. Sessions are the games' own."""

    def __init__(self, server: Server[Any]) -> None:
        """Nothing runs yet."""
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=BODY.size
        )

    def running(self) -> contextlib.AbstractAsyncContextManager[None]:
        """What must run while requests are answered."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._manager.asgi_app(scope, receive, send)


async def _serve_lines(server: Server[Any], lines: _Lines, output: TextIO) -> None:
    # Not the library's own reader of standard input: it waits in a thread, which nothing can end.
    async with stdio_server(lines, anyio.wrap_file(output)) as (read, write):  # type: ignore[arg-type]
        await server.run(read, write, server.create_initialization_options())


class _Lines:
    """Lines of text, none longer than the reader's limit."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        except ValueError:
            warn(f"--stdio: a line of the client has more than {BODY.size:,} bytes; its input is not read any further")
            raise StopAsyncIteration from None
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")
