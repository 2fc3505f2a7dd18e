"""Plays a few toy games through batch jobs, in a process that may be killed at any moment, and goes on when run again.

As the real driver does, it writes down what may be spent before it is, and each game when it is over.
"""

import asyncio
import os
from types import SimpleNamespace

from cluster.runner.model_player import request_for
from cluster.storage.spending import Spending, SpendingJournal
from evals.suite import plan_for, play_episode
from tests.cluster.providers.engines import engine
from tests.toy import ToySuite

PACE = {"batch": True, "batch_quiet_seconds": 0.15, "batch_poll_seconds": 0.1}


class Asking:
    def __init__(self, engine):
        self.engine = engine

    async def reply(self, turn):
        return await self.engine.complete(request_for(turn, "free"))


async def keep_account(engine, journal):
    """As the replica pool does."""
    covered = 0
    while True:
        account = await engine.settle(covered, 0.1)
        journal.note("engine", Spending(account.spent, account.in_flight, account.highest))
        journal.write()
        covered = account.number


async def main(provider, url, run_dir, games):
    at = SimpleNamespace(url=url)
    suite = ToySuite(episodes=games, turns=2)
    (run_dir / "plan.parquet").touch()
    done = run_dir / "done"
    over = set(done.read_text().split()) if done.exists() else set()
    journal = SpendingJournal(run_dir)
    made = engine(provider, at, **PACE)
    made.add_spent_elsewhere(journal.now.total, journal.now.highest)
    made.keep_in(run_dir)
    await made.settle(0, 0.0)
    keeping = asyncio.create_task(keep_account(made, journal))

    async def play(episode):
        record = await play_episode(suite, episode, Asking(made))
        assert record.done, record.error
        with done.open("a") as file:
            file.write(f"{episode.id}\n")
            file.flush()
            os.fsync(file.fileno())

    await asyncio.gather(*(play(each) for each in plan_for(suite, {"m": ""}) if each.id not in over))
    await asyncio.sleep(0.3)  # the last account is written
    keeping.cancel()
    await made.close()


def start(*arguments):
    asyncio.run(main(*arguments))
