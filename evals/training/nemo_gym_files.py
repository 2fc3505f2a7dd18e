"""A folder that NeMo Gym takes as one of its resources servers: entry point, configuration, games as rows, a test."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from evals.chat_json import chat_to_json
from evals.training.games import TrainingGames
from evals.training.play import TrainingError, TrainingPlay
from evals.types import Chat

ENTRY_POINT: Final = '''"""The games of a suite of raycade, as a resources server."""

from evals.training.nemo_gym_server import SuiteServer

if __name__ == "__main__":
    SuiteServer.run_webserver()
'''
TEST: Final = """import json
from pathlib import Path

from evals.training.games import TrainingGames

FOLDER = Path(__file__).parents[1]


def test_rows_are_games_that_there_are():
    config = json.loads((FOLDER / "games.json").read_text())
    games = TrainingGames(config["suite"], **config["settings"])
    for line in (FOLDER / "data" / "train.jsonl").read_text().splitlines():
        row = json.loads(line)
        _, episodes = games.block(row["game"]["block"])
        assert episodes[row["game"]["place"]].task and row["responses_create_params"]["input"]
"""
EXAMPLES: Final = 5
"""Rows of the example data set."""


def write_server(folder: Path, suite: str, settings: Mapping[str, Any], count: int) -> None:
    """Write the folder; its name is the server's.

    Args:
        folder: Must not exist; ``resources_servers/NAME`` where NeMo Gym is started.
        suite: Registered name.
        settings: Of the suite and of training.
        count: Games, as rows of ``data/train.jsonl``.

    Raises:
        ValueError: the folder exists, or a setting is wrong.
        TrainingError: there are no games to train on, or the suite has a defect.
    """
    if folder.exists():
        raise ValueError(f"{folder}: is there already; name a new folder, or remove it")
    if count < 1:
        raise ValueError(f"{count} games: must be 1 or more")
    games = TrainingGames(suite, **settings)
    agent = f"{folder.name}_gymnasium_agent"
    rows = asyncio.run(_rows(games, count, agent))
    texts = {
        "app.py": ENTRY_POINT,
        "requirements.txt": "nemo-gym\nraycade\n",
        "games.json": json.dumps({"suite": suite, "settings": settings}),
        f"configs/{folder.name}.yaml": yaml.safe_dump(
            _config(folder.name, agent, games, dict(settings)), sort_keys=False
        ),
        "data/train.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
        "data/example.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows[:EXAMPLES]),
        "tests/test_app.py": TEST,
    }
    folder.mkdir(parents=True)
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def _rows(games: TrainingGames, count: int, agent: str) -> list[dict[str, Any]]:
    """Games in blocks, each with its first prompt; those of the evaluation are left out."""
    play = TrainingPlay(games)
    rows: list[dict[str, Any]] = []
    for block in itertools.count():
        suite, episodes = games.block(block)
        for place, episode in enumerate(episodes):
            turn = await play.begin_with(suite, episode)
            if turn is None:
                continue
            rows.append(
                {
                    "responses_create_params": {"input": _input(turn.chat)},
                    "game": {"block": block, "place": place},
                    "agent_ref": {"type": "responses_api_agents", "name": agent},
                }
            )
            if len(rows) == count:
                await play.close()
                return rows
    raise AssertionError("blocks do not end")


def _input(chat: Chat) -> list[dict[str, Any]]:
    """A chat in the form of OpenAI's Responses API."""
    messages = []
    for said in chat_to_json(chat):
        content = said["content"]
        if not isinstance(content, str):
            content = [_part(part) for part in content]
        messages.append({"role": said["role"], "content": content})
    return messages


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}


def _config(name: str, agent: str, games: TrainingGames, settings: dict[str, Any]) -> dict[str, Any]:
    """As the servers that come with NeMo Gym have it: one server, one agent that plays with it."""
    _, episodes = games.block(0)
    server = {
        "entrypoint": "app.py",
        "domain": "games",
        "verified": False,
        "description": f"{games.suite.title or games.suite.name}: games to train on, by raycade.",
        "suite": games.suite.name,
        "settings": settings,
    }
    player = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": name},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "max_steps": max(episode.budget for episode in episodes),
        "datasets": [
            {"name": "example", "type": "example", "jsonl_fpath": f"resources_servers/{name}/data/example.jsonl"}
        ],
    }
    return {
        name: {"resources_servers": {name: server}},
        agent: {"responses_api_agents": {"gymnasium_agent": player}},
    }


def new_text(before: Chat, after: Chat) -> str:
    """What a chat says after the reply to another one.

    Raises:
        TrainingError: it does not go on from there by one text.
    """
    new = after[len(before) + 1 :]
    if after[: len(before)] != before or len(new) != 1 or not all(isinstance(part, str) for part in new[0].parts):
        raise TrainingError(
            "NeMo Gym's gymnasium agent can only add a text to the chat, and this suite shows a picture or begins a new chat; "
            "train on it through verifiers, OpenEnv or Gymnasium"
        )
    return " ".join(str(part) for part in new[0].parts)
