"""Plays of a fixed policy, each in the library's own environment: ``python -m benchmarks.training.plays WHAT SECONDS ...``.

One line of JSON per measurement. The bare environment is ``play_episode`` in this process, measured before and after.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from envs.picture import Picture
from evals.conversation import Record
from evals.ledger.records import records_to_table
from evals.sessions.session import text_reply
from evals.suite import ledger_columns, plan_for, play_episode
from evals.training.games import PLAYER, TrainingGames
from evals.types import Reply, Turn, stable_seed

SUITES: dict[str, dict[str, Any]] = {
    "number_hunt": {"highest": 50, "episodes": 50},
    "kumo": {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 50, "repeats": 1},
    "kidgym": {"tasks": ["CL", "SE"], "levels": [1], "modes": ["zero_shot"], "episodes": 25},
}
SAME_EPISODES = {
    "kumo": {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 100, "repeats": 1},
    "kidgym": {"tasks": ["CL", "SE"], "levels": [1], "modes": ["zero_shot"], "episodes": 50},
}
"""Two hundred episodes."""
CLASSES = {"number_hunt": "NumberHunt", "kumo": "Kumo", "kidgym": "KidGym"}
TIMES = {"seconds", "started_at", "finished_at", "session", "attempt"}
"""Columns that differ from play to play."""


def choose(place: int, options: Sequence[str]) -> str:
    """The fixed policy: by the number of options and of the turn."""
    return options[stable_seed(place, len(options)) % len(options)]


class Fixed:
    """The policy as a player; it renders pictures where a library would."""

    def __init__(self, pictures: bool) -> None:
        self.pictures, self.steps = pictures, 0

    async def reply(self, turn: Turn) -> Reply:
        """Choose."""
        self.steps += 1
        if self.pictures:
            [part for said in turn.chat for part in said.parts if isinstance(part, Picture)][-1].render()
        return text_reply(turn, choose(turn.number, turn.options or turn.labels))


def bare(name: str, seconds: float, pictures: bool = False) -> float:
    """Steps per second without any library."""
    games = TrainingGames(name, **SUITES[name])
    policy = Fixed(pictures)

    async def play() -> float:
        stream = games.stream(1)
        await play_episode(*next(stream), policy)  # compiled and read at its first use
        policy.steps, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            await play_episode(*next(stream), policy)
        return policy.steps / (time.process_time() - start)

    return asyncio.run(play())


def compare(library: str, name: str, pictures: bool, steps: Iterator[None], seconds: float) -> None:
    """Measure a library between two measurements of the bare environment, and print the line."""
    first = bare(name, seconds, pictures)
    for _ in range(20):  # the first games compile and read what later ones have
        next(steps)
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        next(steps)
        count += 1
    rate = count / (time.process_time() - start)
    direct = (first + bare(name, seconds, pictures)) / 2
    print(
        json.dumps({"library": library, "suite": name, "pictures": pictures, "bare": direct, "rate": rate}), flush=True
    )


# --- Gymnasium -------------------------------------------------------------------------------------------------------


def gymnasium_steps(name: str, pictures: bool) -> Iterator[None]:
    """Game after game; a step for each item."""
    import gymnasium

    env = gymnasium.make(f"raycade.gymnasium:raycade/{CLASSES[name]}-v0", pictures=pictures, **SUITES[name])
    _, info = env.reset(seed=1)
    number = 0
    while True:
        action = stable_seed(number, len(info["options"])) % len(info["options"])
        _, _, over, _, info = env.step(action)
        number += 1
        if over:
            _, info = env.reset()
            number = 0
        yield


# --- OpenEnv ---------------------------------------------------------------------------------------------------------


def serve(games: TrainingGames, finished: Callable[[Record], None] | None = None) -> str:
    """Serve games in a thread; returns the address."""
    import uvicorn

    from evals.training.openenv_server import app_of

    server = uvicorn.Server(uvicorn.Config(app_of(games, finished=finished), port=0, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def openenv_steps(address: str, name: str) -> Iterator[None]:
    """Game after game through OpenEnv's own client."""
    from openenv import GenericEnvClient

    with GenericEnvClient(base_url=address).sync() as env:
        while True:
            result, number = env.reset(), 0
            while not result.done:
                result = env.step({"text": choose(number, result.observation["options"])})
                number += 1
                yield


def same_rows(name: str) -> dict[str, Any]:
    """The same episodes played through OpenEnv and directly, compared row by row."""
    settings = SAME_EPISODES[name]
    with tempfile.TemporaryDirectory() as folder:
        games = TrainingGames(name, **settings, evaluation_games=True, trained_on=str(Path(folder, "trained.txt")))
        records: list[Record] = []
        steps = openenv_steps(serve(games, records.append), name)
        plan = plan_for(games.suite, {PLAYER: ""})
        while len(records) < len(plan):
            next(steps)
        steps.close()  # type: ignore[attr-defined]
    direct = [asyncio.run(play_episode(games.suite, episode, Fixed(False))) for episode in plan]
    columns = ledger_columns(games.suite)
    through, alone = (
        {row["episode_id"]: row for row in records_to_table(each, columns).to_pylist()} for each in (records, direct)
    )
    different = sorted(
        {
            column
            for key, row in alone.items()
            for column, value in row.items()
            if column not in TIMES and _timeless(value) != _timeless(through[key][column])
        }
    )
    return {
        "library": "openenv",
        "suite": name,
        "episodes": len(plan),
        "same": through.keys() == alone.keys(),
        "different": different,
    }


def _timeless(value: Any) -> Any:
    """Turns without their seconds."""
    if not isinstance(value, list):
        return value
    return [
        {key: each for key, each in item.items() if key not in TIMES} if isinstance(item, dict) else item
        for item in value
    ]


# --- a model for the libraries that bring their own client ---------------------------------------------------------------


def serve_model(port: int) -> None:
    """An OpenAI-compatible server whose model replies A to pictures and 7 to texts, for as long as the process lives."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def chat(request: Request) -> JSONResponse:
        body = await request.json()
        pictures = any(isinstance(said["content"], list) for said in body["messages"])
        message = {"role": "assistant", "content": "A" if pictures else "7"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
            "usage": usage,
        }
        return JSONResponse(answer)

    async def models(request: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": "fixed", "object": "model"}]})

    routes = [Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/models", models)]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="error")


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "model":
        serve_model(int(rest[0]))
        return
    seconds = float(rest[0])
    if what == "bare":
        for name in rest[1:]:
            print(json.dumps({"suite": name, "bare": bare(name, seconds, name == "kidgym")}), flush=True)
    if what == "gymnasium":
        for name in SUITES:
            compare(what, name, False, gymnasium_steps(name, False), seconds)
        compare(what, "kidgym", True, gymnasium_steps("kidgym", True), seconds)
    if what == "openenv":
        for name in SUITES:
            address = serve(TrainingGames(name, **SUITES[name]))
            compare(what, name, name == "kidgym", openenv_steps(address, name), seconds)
        for name in SAME_EPISODES:
            print(json.dumps(same_rows(name)), flush=True)


if __name__ == "__main__":
    main()
