"""Runs in memory: a suite's plan played by scripted players, for tests of what is read from a ledger."""

import asyncio
import random

from evals.conversation import Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS
from evals.suite import ledger_columns, plan_for, play_episode
from evals.types import Reply


class Often:
    """Replies what perfect play would in a share of all episodes, else something wrong; the same each time."""

    def __init__(self, share, seed=0, tokens=0, cost=0.0):
        self.share, self.seed, self.tokens, self.cost = share, seed, tokens, cost

    async def reply(self, turn):
        right = random.Random(f"{self.seed} {turn.episode.index} {turn.episode.repeat}").random() < self.share
        text = turn.oracle() if right else next(each for each in turn.options if each != turn.oracle())
        return Reply(
            text,
            prompt_tokens=10 * self.tokens,
            completion_tokens=self.tokens,
            reasoning_tokens=self.tokens // 2,
            cost=self.cost,
        )


def records_of(suite, players, failing=()):
    """Every planned episode of every player; the numbers in ``failing`` (by index) are failed."""
    records = []
    for name, player in players.items():
        for episode in plan_for(suite, {name: ""}):
            if episode.index in failing:
                records.append(Record(episode, None, "PlayerError: no", (), 0.5, "endpoint"))
            else:
                records.append(asyncio.run(play_episode(suite, episode, player)))
    return records


def run_of(suite, players=None, failing=(), most=None, **settings):
    """A run with its plan; ``most`` limits how many episodes were played."""
    players = players or {"oracle": BUILT_IN_PLAYERS["oracle"]}
    plan = [episode for name in players for episode in plan_for(suite, {name: ""})]
    ledger = records_to_table(records_of(suite, players, failing)[:most], ledger_columns(suite))
    return RunData.of_tables(plan_to_table(plan), ledger, settings)
