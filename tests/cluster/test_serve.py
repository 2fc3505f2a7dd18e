"""`raycade serve`: games that programs play from outside have the same rows as games of a run, and nothing of them leaks."""

import argparse
import asyncio
import contextlib
import copy
import dataclasses
import io
import itertools
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import httpx
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError
from rich.console import Console

from cluster import stop_signals
from cluster.commands import serve
from cluster.commands.serve import _limits, serve_overrides
from cluster.config.model import ModelSettings, ReplicaNeeds
from cluster.config.settings import check_environment, load_settings
from cluster.engines.base import Sampling
from cluster.errors import RunFailedError, UserError
from cluster.listening import listen
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.serve import commits as commits_module
from cluster.serve import host
from cluster.serve.commits import Commits
from cluster.serve.games import KEPT_SECONDS, WAIT_SECONDS, Games
from cluster.serve.host import over_http, token_of
from cluster.serve.limits import LOOPBACK, Limits
from cluster.serve.shown import new_messages
from cluster.serve.taken import Answer, read_answer
from cluster.serve.tools import Tools
from cluster.serve.web import Web
from cluster.stopping.watch import StopWatch
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stop_rule import StoredRule, write_rule
from evals.conversation import Conversation, Record
from evals.ledger.records import records_to_table
from evals.players import BUILT_IN_PLAYERS
from evals.sessions.session import text_reply
from evals.stopping.rules import StopRule
from evals.suite import Suite, ledger_columns, plan_for, play_episode
from evals.suites.kidgym.suite import KidGymSuite
from evals.suites.kumo.suite import KumoSuite
from evals.suites.multistar.suite import MultiStarSuite
from evals.types import Episode, Outcome, Reply, Turn, message, stable_seed
from examples import agent_with_memory
from tests.asgi import hang_up
from tests.cluster.test_cli import run_here
from tests.toy import ToySuite

TOKEN = "token-of-the-tests"
LIMITS = Limits()
SUITES = {
    "kidgym": KidGymSuite(tasks=("CL", "SE", "MMA"), levels=(1,), modes=("zero_shot",), episodes=2),
    "kumo": KumoSuite(domains=("medical",), difficulties=("easy",), tasks_per_domain=3, repeats=2),
    "multistar": MultiStarSuite(subtask="direct", configurations=("center_single",), attributes=("shape",), puzzles=3),
    "multistar_labels": MultiStarSuite(configurations=("center_single",), attributes=("shape",), puzzles=1),
    "toy": ToySuite(episodes=6),
}


def choice(turn_number: int, task: str, choices: Sequence[str]) -> str:
    """A fixed policy that any client can follow: it needs no picture, no text and no id."""
    return choices[stable_seed(task, turn_number) % len(choices)] if choices else "I do not know."


class Policy:
    """The policy as a player of a run."""

    async def reply(self, turn: Turn) -> Reply:
        return text_reply(turn, choice(turn.number, turn.episode.task, turn.labels or turn.options))


class Served:
    """Games of a suite, in memory, and a client of their server."""

    def __init__(self, suite: Suite, limits: Limits = LIMITS, feedback: bool = False, most: int = 6) -> None:
        self.suite, self.records, self.now = suite, list[Record](), 0.0
        self.plan = plan_for(suite, {"agent": "1"})[:most]
        self.games = Games(suite, self.plan, self.commit, limits, clock=lambda: self.now)
        app = Web(self.games, "agent", feedback).app(TOKEN, ["testserver"])
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://testserver",
            headers={"Authorization": f"Bearer {TOKEN}"},
            event_hooks={"response": [self.keep]},
        )
        self.said = list[str]()

    async def commit(self, record: Record) -> None:
        await asyncio.sleep(0)
        self.records.append(record)

    async def keep(self, response: httpx.Response) -> None:
        await response.aread()
        self.said.append(f"{response.headers} {response.text}")

    async def open(self, **wish: str) -> dict:
        return (await self.client.post("/v1/sessions", json=wish)).json()

    async def answer(self, game: dict, text: str, number: int | None = None, **more: object) -> httpx.Response:
        number = game["turn"]["number"] if number is None else number
        return await self.client.post(f"/v1/sessions/{game['session']}/turns/{number}", json={"text": text, **more})

    async def play(self, game: dict) -> dict:
        while game["turn"] is not None:
            turn = game["turn"]
            text = choice(turn["number"], game["episode"]["task"], turn["labels"] or turn["options"])
            game = (await self.answer(game, text)).json()
        return game

    async def play_one(self) -> None:
        await self.play(await self.open())

    async def play_all(self) -> None:
        while (game := await self.open())["session"] is not None:
            await self.play(game)


def rows(suite: Suite, records: Sequence[Record]) -> list[dict]:
    """As in the ledger, but for times."""
    found = records_to_table(records, ledger_columns(suite)).to_pylist()
    for row in found:
        del row["seconds"]
        for turn in row["turns"]:
            del turn["seconds"]
    return sorted(found, key=lambda row: row["episode_id"])


def direct(suite: Suite, plan: Sequence[Episode]) -> list[dict]:
    parts = {part.name: part for part in suite.parts}
    return rows(suite, [asyncio.run(play_episode(parts[each.suite], each, Policy())) for each in plan])


@pytest.mark.parametrize("name", SUITES)
def test_rows_over_http_equal_those_of_a_run(name: str) -> None:
    served = Served(SUITES[name])
    asyncio.run(served.play_all())
    # As text: label scores may be nan, which is not equal to itself.
    assert str(rows(served.suite, served.records)) == str(direct(served.suite, served.plan))
    assert served.games.over and len(served.records) == len(served.plan)


@pytest.mark.parametrize("pictures", ["data", "url"])
async def test_a_turn_is_an_openai_chat_with_pictures(pictures: str) -> None:
    served = Served(SUITES["kidgym"])
    game = await served.open(pictures=pictures)
    messages = game["turn"]["messages"]
    assert {said["role"] for said in messages} <= {"system", "user", "assistant"}
    [url] = {part["image_url"]["url"] for part in messages[-1]["content"] if part["type"] == "image_url"}
    if pictures == "data":
        assert url.startswith("data:image/png;base64,iVBOR")
        return
    served.client.headers.pop("authorization")
    found = await served.client.get(url)
    assert found.content.startswith(b"\x89PNG") and found.headers["content-type"] == "image/png"
    for other in (url.replace("0.png", "7.png"), url.replace(game["session"], "x" * 32), url.replace("0.png", "²")):
        assert (await served.client.get(other)).status_code == 404


async def test_a_turn_asked_or_answered_again_is_the_same() -> None:
    served = Served(SUITES["toy"])
    first = await served.open()
    path = f"/v1/sessions/{first['session']}"
    assert (await served.client.get(path)).json() == first
    second = (await served.answer(first, "red")).json()
    assert second["turn"]["number"] == 1
    third = (await served.answer(second, "green")).json()
    assert (await served.answer(first, "red")).json() == second, "the turn after the first, not the latest one"
    assert (await served.answer(second, "green")).json() == third == (await served.client.get(path)).json()
    assert (await served.answer(first, "blue")).status_code == 409
    assert (await served.answer(first, "blue", number=5)).status_code == 409
    together = await asyncio.gather(*(served.answer(third, "red") for _ in range(5)))
    assert len({answered.text for answered in together}) == 1
    end = await served.play(together[0].json())
    assert end["outcome"] == {"status": "done"} and len(served.records) == 1
    assert (await served.client.get(path)).json() == end
    assert (await served.answer(first, "red", number=6)).status_code == 409
    assert [played.reply.text for played in served.records[0].turns][:3] == ["red", "green", "red"]


async def test_what_is_new_to_a_client_follows_its_own_reply() -> None:
    served = Served(SUITES["toy"])
    game = await served.open()
    assert game["turn"]["new_from"] == 0
    chat = (await served.answer(game, "red")).json()["turn"]
    assert [said["content"] for said in chat["messages"][chat["new_from"] :]] == ["Game 0, question 1?"]


SYSTEM, ASKED, SAID, AGAIN = (
    message(*each) for each in (("system", "s"), ("user", "q"), ("assistant", "r"), ("user", "p"))
)


@pytest.mark.parametrize(
    ("before", "chat", "new_from"),
    [
        ((), (SYSTEM, ASKED), 0),
        ((SYSTEM, ASKED), (SYSTEM, ASKED, SAID, AGAIN), 3),
        ((SYSTEM, ASKED), (SYSTEM, ASKED, AGAIN), 2),
        ((SYSTEM, ASKED), (SYSTEM, AGAIN), 1),
        ((SYSTEM, ASKED), (ASKED, SAID), 0),
        ((SYSTEM, ASKED, SAID, AGAIN), (SYSTEM, ASKED), 2),
        ((ASKED,), (SAID, AGAIN), 0),
    ],
)
def test_messages_are_new_from_the_first_that_differs_but_for_the_client_s_reply(before, chat, new_from) -> None:
    assert new_messages(before, chat) == new_messages(copy.deepcopy(before), chat) == new_from


async def test_a_hanging_up_client_loses_nothing() -> None:
    served = Served(SUITES["toy"])
    game = await served.open()
    sent = asyncio.create_task(served.games.answer(game["session"], 0, Answer(text="red")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    await served.play((await served.answer(game, "red")).json())
    assert len(served.records) == 1


async def test_silent_clients_lose_their_game_and_then_it_fails() -> None:
    served = Served(SUITES["toy"], Limits(turn_seconds=10, episode_seconds=35, attempts=3), most=1)
    for left in (1, 2):
        game = await served.open()
        await served.answer(game, "red")
        served.now += 11
        await served.games.sweep()
        assert (await served.answer(game, "red", number=1)).status_code == 404, "the session is gone"
        assert not served.records and served.games.left == 1, f"left {left} times"
    game = await served.open()
    async with asyncio.timeout(5), served.games._games[game["session"]].busy:
        served.now += 11
        await served.games.sweep()  # its client is being answered
    served.now -= 1
    for _ in range(2):
        await served.games.sweep()
    served.now -= 10
    for _ in range(4):
        served.now += 9
        game = (await served.answer(game, "red")).json()
    await served.games.sweep()
    end = (await served.client.get(f"/v1/sessions/{game['session']}")).json()
    assert end["outcome"] == {"status": "failed"} and served.games.over
    [record] = served.records
    assert record.error.startswith("PlayerError: left 3 times") and "35 s" in record.error
    assert record.error_kind == "endpoint" and len(record.turns) == 4
    for silent, status in ((KEPT_SECONDS - 1, 200), (KEPT_SECONDS + 1, 404)):
        served.now += silent
        await served.games.sweep()
        assert (await served.client.get(f"/v1/sessions/{game['session']}")).status_code == status


async def test_a_game_that_is_given_back_is_offered_again_as_long_as_it_is_needed() -> None:
    served = Served(SUITES["toy"], most=3)
    games = [await served.open() for _ in range(3)]
    kept = {games[0]["episode"]["id"], games[2]["episode"]["id"]}
    served.games.keep(kept)
    for game in games:
        await served.client.delete(f"/v1/sessions/{game['session']}")
    assert served.games.left == 2 and {(await served.open())["episode"]["id"] for _ in range(2)} == kept
    assert not served.records and not served.games.over


async def test_a_client_waits_for_a_game_that_may_come_back() -> None:
    served = Served(SUITES["toy"], most=1)
    game = await served.open()
    waiting = asyncio.create_task(served.open())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert (await served.client.delete(f"/v1/sessions/{game['session']}")).status_code == 204
    again = await asyncio.wait_for(waiting, WAIT_SECONDS / 2)
    assert again["episode"] == game["episode"] and again["session"] != game["session"]
    waiting = asyncio.create_task(served.open())
    await served.play(again)
    assert await asyncio.wait_for(waiting, WAIT_SECONDS / 2) == {"session": None, "over": True}


async def test_a_named_episode_is_played_once() -> None:
    served = Served(SUITES["toy"])
    listed = (await served.client.get("/v1/episodes")).json()
    assert listed["left"] == 6 and [each["id"] for each in listed["episodes"]] == [each.id for each in served.plan]
    game = await served.open(episode=served.plan[4].id)
    assert game["episode"]["id"] == served.plan[4].id
    for name in (served.plan[4].id, "nonsense"):
        assert (await served.client.post("/v1/sessions", json={"episode": name})).status_code == 409
    served.games.keep({served.plan[1].id})
    assert (await served.open())["episode"]["id"] == served.plan[1].id
    await served.client.delete(f"/v1/sessions/{game['session']}")
    assert served.games.left == 0, "what a stopping rule no longer needs does not come back"
    served.games.drain()
    assert (await served.client.post("/v1/sessions")).status_code == 503


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
async def test_games_that_are_given_back_are_offered_in_their_places_again(order: tuple[int, ...]) -> None:
    plan = list(plan_for(ToySuite(episodes=4), {"agent": "1"}))
    games = Games(ToySuite(episodes=4), plan, lambda record: asyncio.sleep(0))
    opened = [await games.open() for _ in order]
    for place in order:
        await games.give_back(opened[place].id)
    assert games.open_episodes(4) == plan


async def test_what_a_client_says_of_its_reply_is_in_the_row() -> None:
    served = Served(ToySuite(episodes=2, turns=1))
    game = await served.open(episode=served.plan[1].id)
    served.now += 2.5
    usage = {"prompt_tokens": 70, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}
    more = {"reasoning": "It was red before.", "usage": usage, "cost": 0.25, "finish": "length"}
    await served.answer(game, "<think>Hm.</think>red", **more)
    [row] = records_to_table(served.records, ledger_columns(served.suite)).to_pylist()
    [turn] = row["turns"]
    assert (turn["reply"], turn["reasoning"], turn["finish"]) == ("red", "It was red before.\nHm.", "length")
    told = [turn[name] for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost", "seconds")]
    assert told == [70, 9, 4, 0.25, 2.5] and row["cost"] == 0.25


async def test_labels_are_answered_with_labels() -> None:
    served = Served(SUITES["multistar_labels"])
    game = await served.open()
    assert game["turn"]["labels"]
    refused = await served.answer(game, "none of them")
    assert refused.status_code == 422 and "answered with one of" in refused.json()["error"]
    assert (await served.answer(game, game["turn"]["labels"][0])).status_code == 200


@dataclass(frozen=True)
class Secretive(Suite):
    """Whose secrets are words that can be looked for."""

    name = "secretive"

    def plan(self) -> Sequence[Episode]:
        return [Episode("secretive", "t", "1", "m", 0, 0, seed=918273645, fingerprint="SECRET-prompts", budget=3)]

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        def secret() -> str:
            raise AssertionError("nobody may call the oracle of a served game")

        for number in range(3):
            asked = await conversation.ask(
                (message("user", f"{number}?"),), options=("a", "b"), oracle=secret, shortcuts={"SECRET-way": secret}
            )
            asked.action, asked.rule = "SECRET-action", "SECRET-rule"
        return Outcome(success=True, steps=3, score=0.918273645)


@pytest.mark.parametrize("feedback", [False, True])
async def test_no_response_holds_a_secret(feedback: bool) -> None:
    served = Served(Secretive(), feedback=feedback)
    game = await served.open()
    await served.client.get("/v1/episodes")
    await served.client.get("/v1/progress")
    await served.answer(game, "a", number=7)
    end = await served.play(game)
    told = {"status": "done", "success": True, "score": 0.918273645} if feedback else {"status": "done"}
    assert end["outcome"] == told
    everything = "\n".join(said for said in served.said if "outcome" not in said or '"outcome":null' in said)
    for secret in ("SECRET", "918273645", "oracle", "shortcut", "seed", "success", "score", "fingerprint"):
        assert secret not in everything, secret
    assert ("success" in served.said[-1]) == feedback


@pytest.mark.parametrize("name", ["kidgym", "kumo", "multistar"])
async def test_games_show_the_listed_fields_only(name: str) -> None:
    served = Served(SUITES[name], most=2)
    await served.play_all()
    for said in served.said:
        game = json.loads(said.partition("}) ")[2])
        if game["session"] is None:
            continue
        assert set(game) == {"session", "episode", "turn", "outcome"}
        assert set(game["episode"]) == {"id", "suite", "task", "level", "mode", "budget"}
        if game["turn"]:
            assert set(game["turn"]) == {"number", "messages", "new_from", "options", "labels", "schema"}
        else:
            assert game["outcome"] == {"status": "done"}


ROUTES = [
    ("GET", "/v1/progress"),
    ("GET", "/v1/episodes"),
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/x"),
    ("DELETE", "/v1/sessions/x"),
    ("POST", "/v1/sessions/x/turns/0"),
    ("GET", "/elsewhere"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("sent", ["", "Bearer ", f"Bearer {TOKEN}x", TOKEN, "Bearer \xe4", f"Basic {TOKEN}"])
async def test_without_the_token_nothing_is_answered(method: str, path: str, sent: str) -> None:
    served = Served(SUITES["toy"])
    refused = await served.client.request(method, path, headers={"Authorization": sent.encode("latin-1")})
    assert refused.status_code == 401 and served.games.left == 6


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
async def test_the_scheme_before_the_token_may_be_written_in_lower_case(scheme: str) -> None:
    served = Served(SUITES["toy"])
    opened = await served.client.post("/v1/sessions", headers={"Authorization": f"{scheme} {TOKEN}"}, content="{}")
    assert opened.status_code == 201


async def test_another_host_name_is_refused() -> None:
    served = Served(SUITES["toy"])
    assert (await served.client.post("/v1/sessions", headers={"Host": "evil.example"})).status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 400),
        ("{", 400),
        ('{"text": "red", "text": "blue"}', 400),
        ("[" * 100_000, 400),
        ('{"text": ' + "[" * 40 + "]" * 40 + "}", 400),
        ('{"text": 1}', 400),
        ('{"text": "red", "extra": 1}', 400),
        ('{"text": "red", "cost": NaN}', 400),
        ('{"text": "red", "cost": 1e999}', 400),
        ('{"text": "red", "cost": -1}', 400),
        ('{"text": "red", "finish": "bored"}', 400),
        ('{"text": "\\ud800", "reasoning": "\\udc00"}', 200),
        ('{"text": "' + "x" * (9 << 20) + '"}', 413),
        ('{"text": "red", "usage": {"prompt_tokens": -5, "completion_tokens": "many"}}', 200),
    ],
)
async def test_bodies_are_bounded_and_checked(body: str, status: int) -> None:
    served = Served(SUITES["toy"])
    game = await served.open()
    answered = await served.client.post(f"/v1/sessions/{game['session']}/turns/0", content=body)
    assert answered.status_code == status, answered.text
    assert (await served.client.post(f"/v1/sessions/{game['session']}/turns/{'9' * 5000}")).status_code == 404


async def test_a_client_that_hangs_up_within_a_post_changes_nothing() -> None:
    served = Served(SUITES["toy"])
    game = await served.open()
    told = [(b"authorization", f"Bearer {TOKEN}".encode())]
    for path in ("/v1/sessions", f"/v1/sessions/{game['session']}/turns/0", "/mcp"):
        await hang_up(served.client._transport.app, path, "testserver", told)
    assert served.games.left == 5


STEPS = st.lists(
    st.tuples(st.sampled_from(["open", "answer", "again", "back", "silence"]), st.integers(0, 3)), max_size=40
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_whatever_clients_do_each_episode_is_played_once(steps: list[tuple[str, int]]) -> None:
    suite = ToySuite(episodes=3, turns=1)

    async def played() -> Served:
        served = Served(suite, Limits(attempts=1000))
        mine: list[dict] = []
        for step, which in steps:
            if step == "open" and served.games.left:
                mine.append(await served.open())
            elif step == "silence":
                served.now += 601
                await served.games.sweep()
            elif mine:
                game = mine[which % len(mine)]
                turn = game["turn"]
                if step == "back":
                    await served.client.delete(f"/v1/sessions/{game['session']}")
                elif turn is not None:
                    answered = await served.answer(game, choice(turn["number"], "colors", turn["options"]))
                    if step == "answer" and answered.status_code == 200:
                        game |= answered.json()
        served.now += 601
        await served.games.sweep()
        await served.play_all()
        return served

    served = asyncio.run(played())
    assert rows(suite, served.records) == direct(suite, served.plan)


# --- MCP -------------------------------------------------------------------------------------------------------------


async def play_by_tools(client: Client) -> None:
    """The policy as an MCP client."""

    async def call(tool: str, **arguments: object) -> dict:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return json.loads(result.content[0].text)

    while (game := await call("next_game"))["session"] is not None:
        while game["turn"] is not None:
            text = choice(game["turn"], game["episode"]["task"], game["labels"] or game["options"])
            game = await call("answer", session=game["session"], turn=game["turn"], text=text)


@pytest.mark.parametrize("name", SUITES)
def test_rows_over_mcp_equal_those_of_a_run(name: str) -> None:
    served = Served(SUITES[name])

    async def played() -> None:
        async with Client(Tools(served.games, "agent", False).server()) as client:
            await play_by_tools(client)

    asyncio.run(played())
    assert str(rows(served.suite, served.records)) == str(direct(served.suite, served.plan))


async def test_a_tool_shows_what_is_new_and_state_shows_all() -> None:
    served = Served(SUITES["kidgym"])
    async with Client(Tools(served.games, "agent", False).server()) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"next_game", "answer", "state", "progress"}
        begun = (await client.call_tool("next_game", {"episode": served.plan[0].id})).content
        game = json.loads(begun[0].text)
        assert [block.text for block in begun[1:2]] == ["[system]"] and "image" in {block.type for block in begun}
        arguments = {"session": game["session"], "turn": "0", "text": game["options"][0], "usage": {"prompt_tokens": 3}}
        after = (await client.call_tool("answer", arguments)).content
        assert "[system]" not in [block.text for block in after if block.type == "text"]
        whole = (await client.call_tool("state", {"session": game["session"]})).content
        assert whole[0] == after[0] and len(whole) > len(after)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("answer", {"session": "x", "turn": 0, "text": "a"}, "no such session"),
        ("answer", {"session": "x", "turn": -1, "text": "a"}, "turn"),
        ("answer", {"session": "x"}, "Field required"),
        ("state", {"session": 5}, "session: "),
        ("next_game", {"seed": 1}, "Extra inputs"),
        ("next_game", {"episode": "x"}, "not among those left"),
        ("cheat", {}, "next_game, answer, state, progress"),
    ],
)
async def test_a_tool_says_what_is_wrong(tool: str, arguments: dict, said: str) -> None:
    served = Served(SUITES["toy"])
    async with Client(Tools(served.games, "agent", False).server()) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error and said in result.content[0].text


@pytest.mark.parametrize(
    ("body", "token", "status", "said"),
    [
        ("[" * 100_000, TOKEN, 400, "the body: holds more than 100,000 values"),
        ("x" * (9 << 20), TOKEN, 413, ""),
        ("{}", "none", 401, ""),
        ("{}", TOKEN, 400, "Validation error"),
    ],
)
async def test_bodies_for_mcp_are_bounded_too(body: str, token: str, status: int, said: str) -> None:
    served = Served(SUITES["toy"])
    mcp = Tools(served.games, "agent", False).over_http()
    app = Web(served.games, "agent", False).app(TOKEN, ["testserver"], mcp)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with mcp.running(), httpx.AsyncClient(transport=httpx.ASGITransport(app), headers=headers) as client:
        answer = await client.post("http://testserver/mcp", content=body)
        assert answer.status_code == status and said in answer.text


@contextlib.asynccontextmanager
async def listening(served: Served) -> AsyncIterator[str]:
    """The address of a real server."""
    mcp = Tools(served.games, "agent", False).over_http()
    listener = listen(LOOPBACK, 0)
    async with over_http(Web(served.games, "agent", False).app(TOKEN, [LOOPBACK], mcp), listener):
        yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"


@pytest.mark.slow
async def test_the_example_agent_plays_all_games() -> None:
    served = Served(SUITES["kumo"])
    async with listening(served) as url:
        assert await asyncio.to_thread(agent_with_memory.play, url, TOKEN) == 6
    assert len(served.records) == 6 and all(record.done for record in served.records)
    assert "said it 0 times" in served.records[0].turns[0].reply.reasoning


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_mcp_client_plays_over_http(mode: str) -> None:
    served = Served(SUITES["toy"])
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with listening(served) as url, httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client:
            await play_by_tools(client)
    assert rows(served.suite, served.records) == await asyncio.to_thread(direct, served.suite, served.plan)


def test_without_the_package_there_is_http_alone(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cluster.serve.tools", None)  # as if what it imports were missing
    assert serve._tools(Served(SUITES["toy"]).games, "agent", False, needed=False) is None
    with pytest.raises(UserError, match=r"raycade\[mcp\]"):
        serve._tools(Served(SUITES["toy"]).games, "agent", False, needed=True)


# --- commits ---------------------------------------------------------------------------------------------------------


class Disk:
    """A run directory's part in commits."""

    def __init__(self, failures: int) -> None:
        self.failures, self.parts = failures, list[list[str]]()

    def commit(self, table) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(28, "no space")
        time.sleep(0.01)
        self.parts.append(table["episode_id"].to_pylist())

    def compact(self) -> None:
        return


def commits_to(disk: Disk) -> Commits:
    return Commits(ToySuite(), disk, RunStatistics(), StopWatch(None, None), Watcher(None))


@pytest.mark.parametrize("failures", [0, 3])
async def test_what_finishes_together_is_one_part_and_nothing_is_lost(failures, monkeypatch) -> None:
    monkeypatch.setattr(commits_module, "RETRY_SECONDS", 0.001)
    disk = Disk(failures)
    commits = commits_to(disk)
    records = [await play_episode(ToySuite(), each, Policy()) for each in plan_for(ToySuite(), {"agent": ""})]
    await asyncio.gather(*(commits.add(record) for record in records))
    await commits.settle()
    written = [name for part in disk.parts for name in part]
    assert sorted(written) == sorted(record.episode.id for record in records)
    assert len(disk.parts) <= 2


async def test_tokens_of_served_games_are_counted_by_their_kind() -> None:
    commits = commits_to(Disk(0))
    [episode, *_] = plan_for(ToySuite(), {"agent": ""})
    record = await play_episode(ToySuite(), episode, Policy())
    reply = dataclasses.replace(
        record.turns[0].reply, prompt_tokens=1000, completion_tokens=100, cached_tokens=10, reasoning_tokens=1
    )
    turns = (dataclasses.replace(record.turns[0], reply=reply), *record.turns[1:])
    await commits.add(dataclasses.replace(record, turns=turns))
    counts = commits._stats.counts
    assert counts.turns == len(turns)
    assert (counts.prompt_tokens, counts.completion_tokens) == (1000, 100)
    assert (counts.cached_tokens, counts.reasoning_tokens) == (10, 1)


async def test_a_disk_that_stays_full_ends_the_run(monkeypatch) -> None:
    monkeypatch.setattr(commits_module, "RETRY_SECONDS", 0.001)
    commits = commits_to(Disk(1000))
    record = await play_episode(ToySuite(), ToySuite().plan()[0], Policy())
    found = await asyncio.gather(*(commits.add(record) for _ in range(2)), return_exceptions=True)
    assert all(isinstance(error, RunFailedError) for error in found) and "no space" in str(commits.failure)


# --- until when ------------------------------------------------------------------------------------------------------


class Decided:
    """A stopping rule that needs no further game once one has ended."""

    groups = (None,)

    def __init__(self, served: Served) -> None:
        self.served = served

    @property
    def needed(self) -> frozenset[str]:
        return frozenset() if self.served.records else frozenset(each.id for each in self.served.plan)

    def decisions(self) -> list[str]:
        return ["decided"]

    def look(self) -> "Decided":
        return self


@pytest.fixture
def offering(monkeypatch):
    """Offers games to a client until that ends; returns them, and what was said."""
    monkeypatch.setattr(host, "GOODBYE_SECONDS", 0.0)
    monkeypatch.setattr(stop_signals, "received", [])

    async def offer(rule, grace: float, client, commits: Commits | None = None) -> tuple[Served, str]:
        served = Served(SUITES["toy"])
        console = Console(file=io.StringIO(), width=200)
        progress = Progress(RunStatistics(), console)

        @contextlib.asynccontextmanager
        async def interface():
            played = asyncio.create_task(client(served))
            yield asyncio.Event()
            await played

        stopping = rule(served) if rule else StopWatch(None, None)
        await host.offer(served.games, commits or commits_to(Disk(0)), stopping, progress, interface(), grace)
        return served, console.file.getvalue()

    return offer


async def test_all_is_offered_until_all_is_played(offering) -> None:
    served, _ = await offering(None, 20.0, Served.play_all)
    assert served.games.over and len(served.records) == 6


async def test_a_stopping_rule_ends_it_early(offering) -> None:
    served, said = await offering(Decided, 20.0, lambda served: served.play_one())
    assert served.games.over and len(served.records) == 1 and "decided" in said


@pytest.mark.slow
async def test_after_a_stop_signal_games_in_play_may_end_and_none_begins(offering) -> None:
    async def client(served: Served) -> None:
        game = await served.open()
        stop_signals.received.append(signal.SIGTERM)
        while (await served.client.post("/v1/sessions", json={"episode": "x"})).status_code != 503:
            await asyncio.sleep(0.01)
        await served.play(game)

    served, said = await offering(None, 20.0, client)
    assert "have 20 s" in said and not served.games.over and served.games.playing == 0
    assert len({record.episode.id for record in served.records}) == len(served.records)


@pytest.mark.parametrize(("signals", "grace"), [(1, 0.0), (2, 1e9)])
async def test_the_grace_time_ends_and_so_does_a_second_signal(offering, signals: int, grace: float) -> None:
    async def client(served: Served) -> None:
        await served.open()
        stop_signals.received.extend([signal.SIGINT] * signals)

    served, said = await offering(None, grace, client)
    assert not served.records and "games not finished: 1" in said


@pytest.mark.parametrize(("signals", "grace"), [(1, 0.0), (2, 1e9)])
async def test_nobody_waits_for_room_on_a_disk_after_a_second_signal_or_the_grace_time(
    offering, signals, grace, monkeypatch
) -> None:
    monkeypatch.setattr(commits_module, "TRIES", 10**9)
    monkeypatch.setattr(commits_module, "RETRY_SECONDS", 0.001)
    commits = commits_to(Disk(10**9))
    record = await play_episode(ToySuite(), ToySuite().plan()[0], Policy())
    writing = asyncio.create_task(commits.add(record))

    async def client(served: Served) -> None:
        await asyncio.sleep(0.01)
        stop_signals.received.extend([signal.SIGINT] * signals)

    _, said = await asyncio.wait_for(offering(None, grace, client, commits), 20)
    assert "1 finished episodes are in memory only" in said
    with pytest.raises(RunFailedError):
        await writing


# --- the player ------------------------------------------------------------------------------------------------------


def served_settings(*more: str):
    return load_settings(serve_overrides(["suite=kidgym", "suite.tasks=[SE]", "suite.episodes=1", *more]))


@pytest.mark.slow
def test_another_version_is_another_player_in_the_same_games() -> None:
    one, two = (served_settings("player=my_agent", f"version={version}") for version in (1, 2))
    told = served_settings("player=my_agent", "version=1", "model.engine.feedback=true")
    for first, second, third in zip(one.plan, two.plan, told.plan, strict=True):
        assert len({first.id, second.id, third.id}) == 3 and first.seed == second.seed == third.seed
    assert one.model.name == "my_agent" and one.plan[0].player == "my_agent"
    assert one.run_dir != two.run_dir
    with pytest.raises(UserError, match="raycade serve"):
        check_environment(one)


@pytest.mark.parametrize(
    ("given_words", "named"),
    [
        (["player=a"], "suite"),
        (["suite=kidgym"], "player"),
        (["suite=kidgym", "player=a b"], "player=a b"),
        (["suite=kidgym", "player=a", "version=${oc.env:HOME}"], "version="),
        (["suite=kidgym", "player=a", "model=oracle"], "model=oracle"),
    ],
)
def test_what_cannot_be_served_is_named(given_words: list[str], named: str) -> None:
    with pytest.raises(UserError, match=named.replace("$", r"\$").replace("{", r"\{")):
        serve_overrides(given_words)


@pytest.mark.parametrize("words", [["--attempts", "0"], ["--turn-timeout", "0"], ["--episode-timeout", "nan"]])
def test_options_that_cannot_be_are_named(words, capsys, monkeypatch) -> None:
    monkeypatch.setattr("cluster.commands.serve._play", lambda *given: pytest.fail("a server was started"))
    code, _, err = run_here(capsys, "serve", *words, "suite=kidgym", "player=a")
    assert code == 2 and words[0] in err


def test_each_limit_is_the_option_of_its_name() -> None:
    options = argparse.Namespace(turn_timeout=5.0, episode_timeout=70.0, attempts=2)
    assert _limits(options) == Limits(turn_seconds=5.0, episode_seconds=70.0, attempts=2)


@pytest.mark.parametrize(("cost", "sound"), [(0, True), (1e9, True), (-1e-9, False), (1.1e9, False)])
def test_an_answer_may_cost_nothing(cost: float, sound: bool) -> None:
    with contextlib.nullcontext() if sound else pytest.raises(ValidationError):
        assert Answer.model_validate({"text": "red", "cost": cost}).cost == cost


@pytest.mark.parametrize("name", ["oracle", "human"])
def test_names_of_other_players_are_taken(name: str) -> None:
    with pytest.raises(UserError, match="belongs to a built-in player"):
        served_settings(f"player={name}")


def test_a_token_file_is_made_once_and_private(tmp_path) -> None:
    file = tmp_path / "token"
    made = token_of(file)
    assert token_of(file) == made and file.stat().st_mode & 0o777 == 0o600
    assert token_of(None) != token_of(None) and len(token_of(None)) >= 32
    file.chmod(0o644)
    with pytest.raises(UserError, match="others may read it"):
        token_of(file)
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(UserError, match="16 to 256"):
        token_of(file)


@pytest.mark.parametrize(
    ("mine", "over", "others", "stopped", "left"),
    [
        (2, True, 3, False, False),
        (2, True, 3, True, True),
        (2, False, 3, False, True),
        (0, True, 3, False, False),
        (2, True, 0, True, False),
    ],
)
def test_the_program_s_games_come_first_and_baselines_play_only_when_none_is_left(
    mine, over, others, stopped, left, tmp_path, monkeypatch
) -> None:
    plan = [*plan_for(SUITES["toy"], {"agent": ""})[:mine], *plan_for(SUITES["toy"], {"oracle": ""})[:others]]
    model = ModelSettings("agent", {"type": "agent", "feedback": True}, Sampling(), ReplicaNeeds())
    settings = Made(SUITES["toy"], model)
    directory = begun_at(tmp_path, plan)
    served, played = [], []

    async def offered(options, settings, games, commits, stopping, progress):
        served.append(games.left)
        while not games.over and over:
            await games.open()
            games._free, games._begun = {}, 0

    def play_on_cluster(settings, todo, *others):
        played.append((settings.model.engine, [episode.player for episode in todo]))
        return stopped

    monkeypatch.setattr(serve, "_serve", offered)
    monkeypatch.setattr(serve, "play_on_cluster", play_on_cluster)
    stats = RunStatistics()
    found = serve._play(None, LIMITS, settings, plan, directory, stats, Progress(stats), Watcher(None))
    assert found is left and served == [mine] * bool(mine)
    assert played == [(None, ["oracle"] * others)] * (bool(others) and (over or not mine))
    directory.release()


@pytest.mark.parametrize(
    ("rule", "least"),
    [(StopRule("precise", precision=0.3), 0), (StopRule("decided", against="oracle"), 60)],
    ids=["precise", "decided"],
)
def test_a_rule_ends_the_games_of_the_program_and_those_of_the_baselines(rule, least, tmp_path, monkeypatch) -> None:
    suite = ToySuite(episodes=60, turns=1)
    plan = [*plan_for(suite, {"agent": ""}), *plan_for(suite, {"oracle": ""})]
    directory, stats, played = begun_at(tmp_path, plan), RunStatistics(), []
    write_rule(directory.path, StoredRule(rule, "agent", None))

    async def client(games: Games) -> None:
        """Plays one game after the other, each when the rule has looked at the one before."""
        while (game := await games.open()) is not None:
            while not game.over:
                await games.answer(game.id, game.waiting, Answer(text="red"))
            played.append("agent")
            while stats.stopping is None or 0 < stats.stopping.groups[0].decision.games < played.count("agent"):
                if stats.stopping is not None and stats.stopping.ended:
                    break
                await asyncio.sleep(0)

    async def offered(options, settings, games, commits, stopping, progress) -> None:
        @contextlib.asynccontextmanager
        async def interface():
            playing = asyncio.create_task(client(games))
            yield asyncio.Event()
            await playing

        await host.offer(games, commits, stopping, progress, interface(), 20.0)

    def play_on_cluster(settings, todo, directory, stats, progress, watcher, stopping) -> bool:
        records = [asyncio.run(play_episode(suite, episode, BUILT_IN_PLAYERS["oracle"])) for episode in todo]
        rows = records_to_table(records, ledger_columns(suite))
        directory.commit(rows)
        stopping.add(rows)
        stats.stopping = stopping.look()
        played.extend(episode.player for episode in todo)
        return False

    monkeypatch.setattr(host, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(host, "GOODBYE_SECONDS", 0.0)
    monkeypatch.setattr(serve, "_serve", offered)
    monkeypatch.setattr(serve, "play_on_cluster", play_on_cluster)
    settings = Made(suite, ModelSettings("agent", None, Sampling(), ReplicaNeeds()), balanced=True)
    progress = Progress(stats, Console(file=io.StringIO()))
    assert serve._play(None, LIMITS, settings, plan, directory, stats, progress, Watcher(None)) is False
    taken = stats.stopping.groups[0].decision.games
    assert stats.stopping.stopped and taken < 60
    assert Counter(played) == {"agent": taken, "oracle": max(least, taken)}
    directory.refresh()
    assert directory.stopping.decisions() == stats.stopping.decisions()
    directory.release()


@dataclasses.dataclass(frozen=True)
class Made:
    suite: Suite
    model: ModelSettings
    balanced: bool = False


def begun_at(tmp_path, plan) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    directory.begin(plan, {"config.yaml": "suite: {}"})
    return directory


def test_half_a_surrogate_pair_of_a_client_can_be_written():
    answer = read_answer(b'{"text": "left \\ud83d", "reasoning": "hm \\ud83d"}')
    assert (answer.text.encode(), answer.reasoning.encode()) == (b"left ?", b"hm ?")
