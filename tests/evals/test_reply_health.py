"""Reply health: every reply is read or counts under one trouble, each with its remedy and an example."""

import random

import pyarrow as pa

from evals.ledger.ledger import open_ledger
from evals.ledger.records import records_to_table
from evals.ledger.run_data import RunData
from evals.summary.reply_health import reply_health
from tests.evals.test_ledger import PLAN
from tests.evals.test_records import done, write_part

READ, CUT, CUT_BUT_READ = ("stop", "A", "go"), ("length", "thinking", None), ("length", "<answer>A</answer>", "go")
FILTERED, REFUSED, EMPTY = ("content_filter", "", None), ("refusal", "I cannot", None), ("stop", " \n", None)
UNREAD = ("stop", "a riddle", None)


def run(*rows):
    """A run of rows (player, suite, replies), each reply with its finish, text and action."""
    empty = records_to_table([], {}).schema.field("turns").type
    turns = [
        [{"finish": finish, "reply": text, "action": action} for finish, text, action in each] for *_, each in rows
    ]
    table = {
        "episode_id": pa.array([f"e{number:02}" for number in range(len(rows))], pa.string()),
        "player": pa.array([row[0] for row in rows], pa.string()),
        "suite": pa.array([row[1] for row in rows], pa.string()),
        "turns": pa.array(turns, empty),
    }
    return RunData.of_tables(pa.table({}), pa.table(table))


ROWS = [
    ("b", "kumo", [READ, CUT, CUT_BUT_READ]),
    ("b", "kumo", [READ, FILTERED, UNREAD]),
    ("a", "kumo", [EMPTY]),
    ("b", "kidgym", [REFUSED]),
    ("b", "kumo", []),
    ("b", "kumo", [FILTERED, CUT]),
]


def test_the_order_of_the_ledger_changes_nothing():
    table = pa.concat_tables(list(run(*ROWS).batches(["episode_id", "player", "suite", "turns"])))
    shuffled = table.take(random.Random(1).sample(range(len(table)), len(table)))
    assert reply_health(RunData.of_tables(pa.table({}), shuffled)) == reply_health(run(*ROWS))


def test_a_part_of_the_turns_is_read_without_the_rest(tmp_path):
    write_part(tmp_path, "a", [done(0), done(1)])
    stored = RunData.of_ledger(PLAN, open_ledger(tmp_path, PLAN), {}, [])
    whole = [turn for batch in stored.batches(["turns"]) for row in batch.to_pylist() for turn in row["turns"]]
    part = [row for batch in stored.batches(["player", "turns.finish", "turns.reply"]) for row in batch.to_pylist()]
    assert whole and [turn for row in part for turn in row["turns"]] == [
        {"finish": turn["finish"], "reply": turn["reply"]} for turn in whole
    ]
