"""Whatever a suite or a player of its own does wrong fails that episode, and no other, and leaves a sound ledger."""

import asyncio
import logging

import pytest

from cluster.runner.messages import Assignment
from cluster.runner.runner import Runner
from evals.ledger.check import check_rows
from evals.suite import plan_for
from evals.types import Outcome, Reply
from tests.cluster.test_runner import episodes
from tests.toy import ToySuite


class UnprintableError(Exception):
    def __str__(self):
        raise ValueError("no text")


def raising(error):
    def do(episode, outcome):
        raise error

    return do


async def cancelled(episode, outcome):
    task = asyncio.create_task(asyncio.sleep(9))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def cancels_itself(episode, outcome):
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


def renames(episode, outcome):
    object.__setattr__(episode, "task", "other")
    return outcome


DEFECTS = {
    "raises": (raising(ZeroDivisionError("oops")), "ZeroDivisionError: oops"),
    "exits": (raising(SystemExit(0)), "SystemExit: 0"),
    "interrupts": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    "is cancelled": (cancelled, "CancelledError"),
    "cancels itself": (cancels_itself, "CancelledError"),
    "an error without a text": (raising(UnprintableError()), "UnprintableError: its text cannot be made"),
    "an error with half a sign": (raising(ValueError("\ud800")), r"ValueError: \ud800"),
    "no outcome": (lambda *_: None, "not an Outcome"),
    "another outcome": (lambda *_: "won", "not an Outcome"),
    "success in words": (lambda *_: Outcome("no", 1), "neither True nor False"),
    "no success": (lambda *_: Outcome(None, 1), "neither True nor False"),
    "half a step": (lambda *_: Outcome(True, 1.5), "TypeError"),
    "steps below 0": (lambda *_: Outcome(True, -1), "count from 0"),
    "too many steps": (lambda *_: Outcome(True, 2**40), "OverflowError|Invalid"),
    "score above 1": (lambda *_: Outcome(True, 1, 1.01), "from 0 to 1"),
    "score below 0": (lambda *_: Outcome(True, 1, -0.01), "from 0 to 1"),
    "score nan": (lambda *_: Outcome(True, 1, float("nan")), "from 0 to 1"),
    "another column": (lambda *_: Outcome(True, 1, extra={"other": 1}), "does not declare"),
    "renames its episode": (renames, ""),
}
REPLIES = {
    "cost nan": Reply("x", cost=float("nan")),
    "tokens below 0": Reply("x", prompt_tokens=-1),
    "too many tokens": Reply("x", completion_tokens=2**62),
    "no text": Reply(5),
    "none": None,
}


async def rows_of(suite, plan):
    runner, tables = Runner(suite, None), []
    report = await runner.exchange(Assignment(plan))
    while True:
        tables += [] if report.finished is None else [report.finished]
        if sum(map(len, tables)) == len(plan):
            return tables
        report = await runner.exchange(Assignment())


async def check(suite, plan, cause, caplog):
    with caplog.at_level(logging.CRITICAL):
        tables = await asyncio.wait_for(rows_of(suite, plan), 20)
    assert not check_rows(tables, list("abcdefgh"[: len(tables)]), None).problems
    rows = {row["episode_id"]: row for table in tables for row in table.to_pylist()}
    assert [rows[episode.id]["status"] for episode in plan[1:]] == ["done"] * (len(plan) - 1)
    first = rows[plan[0].id]
    assert first["status"] == ("failed" if cause else "done")
    return first


@pytest.mark.parametrize("name", DEFECTS)
async def test_a_defect_of_a_suite_fails_its_episode(name, caplog):
    act, cause = DEFECTS[name]

    class Defective(ToySuite):
        async def play(self, episode, conversation):
            outcome = await super().play(episode, conversation)
            if episode.index:
                return outcome
            done = act(episode, outcome)
            return await done if asyncio.iscoroutine(done) else done

    suite = Defective(episodes=5)
    row = await check(suite, episodes(suite, "oracle"), cause, caplog)
    assert any(part in row["error"] for part in cause.split("|"))
    assert row["error_kind"] == ("suite" if cause else "")


@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_that_no_ledger_can_hold_fails_its_episode(name, caplog):
    class Odd:
        async def reply(self, turn):
            return Reply("x") if turn.episode.index else REPLIES[name]

    class Owner(ToySuite):
        @property
        def players(self):
            return {"odd": Odd()}

    suite = Owner(episodes=5)
    row = await check(suite, plan_for(suite, {"odd": ""}), "failed", caplog)
    assert row["error"] and row["error_kind"] == "suite"


async def test_a_long_error_is_cut_and_controls_no_terminal(caplog):
    class Loud(ToySuite):
        async def play(self, episode, conversation):
            raise RuntimeError("\x1b[31m\u202e" + "x" * 10**6)

    suite = Loud(episodes=1)
    [table] = await rows_of(suite, episodes(suite, "oracle"))
    assert len(table["error"][0].as_py()) < 3000
    assert "\x1b" not in caplog.text and "\u202e" not in caplog.text and len(caplog.text) < 50_000


def test_a_plan_that_ends_the_program_is_an_error():
    class Ends(ToySuite):
        def plan(self):
            raise SystemExit(0)

    with pytest.raises(ValueError, match=r"sys\.exit"):
        plan_for(Ends(), {"oracle": ""})


async def test_an_ended_runner_lets_its_episodes_go(caplog):
    class Endless(ToySuite):
        async def play(self, episode, conversation):
            await asyncio.sleep(60)

    suite = Endless(episodes=2)
    runner = Runner(suite, None)
    await runner.exchange(Assignment(episodes(suite, "oracle")))
    tasks = list(runner._running.values())
    runner.end()
    await asyncio.wait(tasks, timeout=5)
    assert all(task.cancelled() for task in tasks) and not caplog.records
