"""Scripted players of MultiStAR, and how to have them play a suite."""

import asyncio
import math
from collections import Counter

from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import ledger_columns, play_episode
from evals.suites.multistar.prompts import labels_of
from evals.types import LabelScores, PlayerError, Reply


class Scripted:
    """Answers by a rule: ``choose(question, text)`` is the option it gives ``sure`` probability; the others share the rest."""

    def __init__(self, questions, choose, sure=0.7, mass=1.0, exact=True, argmax_is_label=True):
        self.questions = {(question.picture.key, question.text, question.options): question for question in questions}
        self.choose, self.sure, self.mass = choose, sure, mass
        self.exact, self.argmax_is_label = exact, argmax_is_label
        self.asked = []
        """Question and text of each call."""

    async def reply(self, turn):
        question, text = self.question(turn)
        self.asked.append((question, text))
        await asyncio.sleep(0)
        chosen, count = self.choose(question, text), len(question.options)
        shares = [self.sure if option == chosen else (1 - self.sure) / (count - 1) for option in range(count)]
        scores = LabelScores(
            tuple(math.log(share * self.mass) for share in shares), self.mass, self.argmax_is_label, self.exact
        )
        return Reply(labels_of(question)[chosen], label_scores=scores if turn.labels else None, prompt_tokens=100)

    def question(self, turn):
        picture, text = turn.chat[-1].parts
        found = [
            question
            for (key, words, options), question in self.questions.items()
            if key == picture.key
            and words in text
            and all(f": {option}" in text for option in options if len(turn.labels or turn.options) < 8)
        ]
        assert len(found) == 1, text
        return found[0], text


class Refusing:
    """Cannot answer what ``when`` says; else as another player."""

    def __init__(self, player, when):
        self.player, self.when = player, when

    async def reply(self, turn):
        if self.when(turn):
            raise PlayerError("cannot")
        return await self.player.reply(turn)


def played(suite, player, name="model", episodes=None):
    """All episodes of a suite played by one player, in order."""

    async def run():
        planned = suite.plan() if episodes is None else episodes
        return [await play_episode(suite, episode.assigned(name, name), player) for episode in planned]

    return asyncio.run(run())


def tables_of(suite, records, planned=None):
    plan = plan_to_table([record.episode for record in records] if planned is None else planned)
    run = RunData.of_tables(plan, records_to_table(records, ledger_columns(suite))).of(suite.name)
    return {table.name: table for section in ("scores", "diagnostics") for table in suite.results(run, section)}


def rows_of(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def row_of(table, **keys):
    found = [row for row in rows_of(table) if all(row[name] == value for name, value in keys.items())]
    assert len(found) == 1, (keys, len(found))
    return found[0]


def nodes_of(record, suite):
    """The ``nodes`` of a record as the ledger gives them back, by name."""
    rows = records_to_table([record], ledger_columns(suite))["multistar.nodes"].to_pylist()[0]
    assert not [name for name, count in Counter(node["node"] for node in rows).items() if count > 1]
    return {node["node"]: node for node in rows}
