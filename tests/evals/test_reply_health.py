"""Reply health: every reply is read or counts under one trouble, each with its remedy and an example."""

import random

import pyarrow as pa
import pytest

from evals.ledger.ledger import open_ledger
from evals.ledger.records import records_to_table
from evals.ledger.run_data import RunData
from evals.summary.reply_health import TROUBLES, ReplyHealth, reply_health, reply_table, reply_warnings
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


def test_every_reply_is_read_or_counts_under_one_trouble():
    health = reply_health(run(*ROWS))
    assert list(health) == [("a", "kumo"), ("b", "kidgym"), ("b", "kumo")]
    mine = health["b", "kumo"]
    assert (mine.episodes, mine.replies, mine.read) == (4, 8, 2)
    assert mine.troubled == {"cut off": 3, "filtered": 2, "unread": 1}, "a filtered reply is not cut off"
    assert mine.affected == {"cut off": 2, "filtered": 2, "unread": 1}
    assert mine.examples == {"cut off": "e00", "filtered": "e01", "unread": "e01"}
    assert health["a", "kumo"].troubled == {"empty": 1} and health["b", "kidgym"].troubled == {"refused": 1}
    assert reply_health(run()) == {}


def test_the_order_of_the_ledger_changes_nothing():
    table = pa.concat_tables(list(run(*ROWS).batches(["episode_id", "player", "suite", "turns"])))
    shuffled = table.take(random.Random(1).sample(range(len(table)), len(table)))
    assert reply_health(RunData.of_tables(pa.table({}), shuffled)) == reply_health(run(*ROWS))


def test_the_table_adds_up_and_names_remedy_and_example_of_what_occurred():
    table = reply_table(reply_health(run(*ROWS)))
    for row in table.rows:
        numbers = dict(zip(table.columns, row, strict=True))
        assert numbers["replies"] == numbers["read"] + sum(numbers[trouble] for trouble in TROUBLES)
    notes = "\n".join(table.notes)
    assert all(remedy.advice in notes for remedy in TROUBLES.values()) and "e02" in notes
    assert reply_table(reply_health(run(("a", "kumo", [READ])))) is None, "nothing to tell"
    only = reply_table(reply_health(run(("a", "kumo", [FILTERED]))))
    assert "max_tokens" not in "\n".join(only.notes), "a larger token limit does not help against a filter"


@pytest.mark.parametrize(("affected", "warned"), [(0, False), (2, False), (3, True)])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_warning_comes_above_the_tolerated_share_with_the_remedy_of_its_trouble(trouble, affected, warned):
    one = ReplyHealth(episodes=100, replies=900)
    one.troubled[trouble], one.affected[trouble], one.examples[trouble] = 7 * affected, affected, "0123456789abcdef"
    warnings = reply_warnings({("m", "kumo"): one, ("n", "kumo"): ReplyHealth(5, 5)})
    assert len(warnings) == (warned and trouble != "unread")
    if warnings:
        words = ("m", "kumo", "3 of 100", "3.0%", "21", "0123456789ab", TROUBLES[trouble].advice)
        assert all(word in warnings[0] for word in words)


def test_a_part_of_the_turns_is_read_without_the_rest(tmp_path):
    write_part(tmp_path, "a", [done(0), done(1)])
    stored = RunData.of_ledger(PLAN, open_ledger(tmp_path, PLAN), {}, [])
    whole = [turn for batch in stored.batches(["turns"]) for row in batch.to_pylist() for turn in row["turns"]]
    part = [row for batch in stored.batches(["player", "turns.finish", "turns.reply"]) for row in batch.to_pylist()]
    assert whole and [turn for row in part for turn in row["turns"]] == [
        {"finish": turn["finish"], "reply": turn["reply"]} for turn in whole
    ]
