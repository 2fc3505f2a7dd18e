"""An agent with a memory that plays what `raycade serve` offers: ``python -m examples.agent_with_memory URL TOKEN``."""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.request import Request, urlopen


def call(url: str, token: str, body: dict[str, Any]) -> Any:
    """What the server answers to a message."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=60) as response:
        return json.load(response)


def play(url: str, token: str) -> int:
    """Play all games; returns how many."""
    played = 0
    while True:
        game = call(f"{url}/v1/sessions", token, {"pictures": "url"})
        if game["session"] is None and game["over"]:
            return played
        memory: list[str] = []  # what it has said in this game; an agent of yours remembers more
        while game["session"] is not None and game["turn"] is not None:
            turn = game["turn"]
            choices = turn["labels"] or turn["options"] or ["I do not know."]
            text = min(choices, key=memory.count)  # the first of those that it has tried least
            memory.append(text)
            answer = {"text": text, "reasoning": f"I have said it {memory.count(text) - 1} times before."}
            game = call(f"{url}/v1/sessions/{game['session']}/turns/{turn['number']}", token, answer)
        played += game["session"] is not None


if __name__ == "__main__":
    print(f"{play(*sys.argv[1:3])} games played")
