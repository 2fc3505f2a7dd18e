"""`raycade serve` as a process: killed, stopped by a signal, and resumed by a client that starts it itself."""

import asyncio
import json
import signal
import sys

import httpx
import pytest
from mcp import Client, StdioServerParameters

from benchmarks.serve import PLAYER, choose, play_directly, play_with_kills, rows_of
from cluster.storage.stored_run import Run
from tests.cluster.conftest import ROOT

GAMES = ["suite=kidgym", "suite.tasks=[CL,SE]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes=3"]


async def played_over_stdio(run_dir):
    """A client that starts the server plays what is left."""
    arguments = ["-m", "cluster", "serve", "--stdio", *GAMES, *PLAYER, f"run_dir={run_dir}"]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)) as client:
        result = await client.call_tool("next_game", {})
        while (game := json.loads(result.content[0].text))["session"] is not None:
            tool, given = "next_game", {}
            if game["turn"] is not None:
                text = choose(game["episode"]["task"], game["turn"], game["options"])
                tool, given = "answer", {"session": game["session"], "turn": game["turn"], "text": text}
            result = await client.call_tool(tool, given)
        assert game["over"]


@pytest.mark.slow
def test_killed_stopped_and_resumed_the_ledger_is_that_of_a_direct_run(tmp_path):
    served = tmp_path / "served"
    play_directly(GAMES, tmp_path / "direct")
    server = play_with_kills(GAMES, served, kills=1, steps=6)
    try:
        after_kill = len(rows_of(served))
        assert "episodes done; resuming" in server.said()

        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx.Client(base_url=server.url, headers=headers) as client:
            game = client.post("/v1/sessions").json()
            server.process.send_signal(signal.SIGTERM)
            while client.post("/v1/sessions", json={"episode": "x"}).status_code != 503:
                pass
            while (turn := game["turn"]) is not None:
                path = f"/v1/sessions/{game['session']}/turns/{turn['number']}"
                game = client.post(
                    path, json={"text": choose(game["episode"]["task"], turn["number"], turn["options"])}
                ).json()
        assert server.process.wait(60) == 75 and len(rows_of(served)) == after_kill + 1
    finally:
        server.kill()

    asyncio.run(played_over_stdio(served))
    assert rows_of(served) == rows_of(tmp_path / "direct")
    assert len(Run(served).sessions) == 3
