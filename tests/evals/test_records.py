"""The ledger keeps whole episodes, and never drops what it cannot read without saying so."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from envs.picture import Picture
from evals.conversation import PlayedTurn, Record
from evals.records import (
    COLUMNS,
    PARQUET_OPTIONS,
    chat_of,
    ledger_schema,
    plan_from_table,
    plan_to_table,
    read_ledger,
    records_to_table,
)
from evals.types import Episode, LabelScores, Outcome, Reply, Turn, message

EXTRA = {"tests": pa.int32(), "predicted": pa.string()}


@dataclass(frozen=True)
class Patch(Picture):
    kind: ClassVar[str] = "test_patch"
    colour: tuple[int, int, int]

    @property
    def size(self):
        return 8, 8

    def render(self):
        return np.full((8, 8, 3), self.colour, np.uint8)


def an_episode(index=0, **changes):
    fields = {"suite": "kumo", "task": "medical", "level": "easy", "mode": "zero_shot", "repeat": 2, "seed": 2**62 + 1}
    return Episode(**{**fields, "index": index, "identity": "abc", "budget": 50, "player": "tiny", **changes})


def a_record(index=0, outcome=None, error="", **changes):
    episode = an_episode(index, **changes)
    chat = (message("system", "Rules"), message("user", "Look:", Patch((1, 2, 3)), "and say."))
    turns = []
    for number, text in enumerate(["first", "second", "third"]):
        turn = Turn(episode, number, chat, options=("a", "b"))
        reply = Reply(text, prompt_tokens=10 * (number + 1), completion_tokens=2, cached_tokens=number, seconds=0.5)
        turns.append(PlayedTurn(turn, reply, action="a", rule="exact"))
        chat = (*chat, message("assistant", text), message("user", "Next", Patch((number, 0, 0))))
    return Record(episode, outcome, error, tuple(turns), 1.5)


def done(index=0, **changes):
    return a_record(index, Outcome(True, 3, {"tests": 2, "predicted": "Flu"}), **changes)


def write_part(run_dir, name, records, extra=EXTRA):
    (run_dir / "episodes").mkdir(exist_ok=True)
    path = run_dir / "episodes" / f"{name}.parquet"
    pq.write_table(records_to_table(records, extra), path, **PARQUET_OPTIONS)
    return path


def test_a_done_and_a_failed_episode_become_rows_with_all_columns():
    table = records_to_table([done(), a_record(1, error="PromptTooLong: 9,000 tokens")], EXTRA)
    assert table.schema == ledger_schema(EXTRA)
    assert table.column_names == [*COLUMNS, *EXTRA]
    first, second = table.drop_columns("turns").to_pylist()
    assert first == {
        "episode_id": an_episode().id,
        "suite": "kumo",
        "task": "medical",
        "level": "easy",
        "mode": "zero_shot",
        "index": 0,
        "repeat": 2,
        "seed": 2**62 + 1,
        "player": "tiny",
        "status": "done",
        "error": "",
        "success": True,
        "steps": 3,
        "budget": 50,
        "prompt_tokens": 60,
        "completion_tokens": 6,
        "cached_tokens": 3,
        "seconds": 1.5,
        "tests": 2,
        "predicted": "Flu",
    }
    assert (second["status"], second["error"]) == ("failed", "PromptTooLong: 9,000 tokens")
    assert second["success"] is second["steps"] is second["tests"] is None
    assert second["prompt_tokens"] == 60, "what a failed episode consumed counts too"


def test_no_records_make_an_empty_table():
    assert records_to_table([], EXTRA) == ledger_schema(EXTRA).empty_table()


def test_every_turns_chat_comes_back_with_its_pictures(tmp_path):
    record = done()
    write_part(tmp_path, "a", [record])
    turns = read_ledger(tmp_path, ["turns"]).table["turns"][0].as_py()
    assert [turn["kept"] for turn in turns] == [0, 2, 4]
    assert [len(turn["prompt"]) for turn in turns] == [2, 2, 2], "what was said before is not stored again"
    for number, played in enumerate(record.turns):
        assert chat_of(turns, number) == played.turn.chat
    assert chat_of(turns, -1) == record.turns[-1].turn.chat
    assert chat_of(turns, 2)[1].parts[1].render()[0, 0].tolist() == [1, 2, 3]
    assert (turns[1]["reply"], turns[1]["action"], turns[1]["rule"]) == ("second", "a", "exact")
    assert turns[0]["options"] == ["a", "b"]
    assert turns[0]["labels"] is turns[0]["label_mass"] is turns[0]["exact"] is None


def test_a_chat_that_was_not_only_appended_to_comes_back_too():
    episode = an_episode()
    chats = [
        (message("user", "one"), message("user", "two")),
        (message("user", "one"), message("user", "other")),
        (message("user", "one"),),
        (message("user", "new"),),
    ]
    turns = tuple(PlayedTurn(Turn(episode, number, chat), Reply("")) for number, chat in enumerate(chats))
    table = records_to_table([Record(episode, Outcome(False, 1), "", turns, 0.0)], {})
    stored = table["turns"][0].as_py()
    assert [chat_of(stored, number) for number in range(4)] == chats


def test_label_scores_are_kept_with_what_the_engine_did_not_say():
    episode = an_episode()
    scores = LabelScores((-0.5, -math.inf, math.nan), mass=0.6, argmax_is_label=False, exact=False)
    turn = Turn(episode, 0, (message("user", "A, B or C?"),), labels=("A", "B", "C"))
    record = Record(episode, Outcome(True, 1), "", (PlayedTurn(turn, Reply("A", label_scores=scores)),), 0.1)
    stored = records_to_table([record], {})["turns"][0].as_py()[0]
    assert [entry["label"] for entry in stored["labels"]] == ["A", "B", "C"]
    assert [entry["logprob"] for entry in stored["labels"]] == pytest.approx([-0.5, -math.inf, math.nan], nan_ok=True)
    assert (stored["label_mass"], stored["argmax_is_label"], stored["exact"]) == (0.6, False, False)


def test_a_column_that_no_suite_declares_is_refused():
    with pytest.raises(ValueError, match="'kumo' does not declare the columns oops"):
        records_to_table([a_record(0, Outcome(True, 1, {"oops": 1}))], EXTRA)
    with pytest.raises(ValueError, match="own columns: steps"):
        ledger_schema({"steps": pa.int64()})


def test_parts_are_read_together_without_the_bulky_turns(tmp_path):
    write_part(tmp_path, "b", [done(2), done(3)])
    write_part(tmp_path, "a", [done(0), done(1)])
    (tmp_path / "episodes" / "c.parquet.tmp").write_bytes(b"being written")
    contents = read_ledger(tmp_path)
    assert contents.damaged == []
    assert contents.table["index"].to_pylist() == [0, 1, 2, 3]
    assert set(contents.table.column_names) == {*COLUMNS, *EXTRA} - {"turns"}
    assert read_ledger(tmp_path, ["player", "tests"]).table.column_names == ["player", "tests"]


def test_a_run_without_a_ledger_has_an_empty_one(tmp_path):
    contents = read_ledger(tmp_path)
    assert contents.table.num_rows == 0 and contents.damaged == []
    assert contents.table["success"].type == pa.bool_()


def test_suites_with_different_columns_share_a_ledger(tmp_path):
    write_part(tmp_path, "a", [done(0)])
    write_part(tmp_path, "b", [a_record(1, Outcome(False, 1, {"score": 0.5}))], {"score": pa.float64()})
    table = read_ledger(tmp_path).table
    assert table["tests"].to_pylist() == [2, None]
    assert table["score"].to_pylist() == [None, 0.5]


def alien(path):
    pq.write_table(pa.table({"x": [1, 2]}), path)


def mistyped(path):
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("steps"), "steps", pa.array(["three"])), path)


def clashing(path):
    pq.write_table(pq.read_table(path).drop_columns("tests").append_column("tests", pa.array([["a"]])), path)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def not_parquet(path):
    path.write_text("episode_id,success\n1,true\n")


def emptied(path):
    path.write_bytes(b"")


def bit_rotten(path):
    content = bytearray(path.read_bytes())
    content[40:60] = bytes(20)
    path.write_bytes(bytes(content))


def unreadable(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [alien, mistyped, clashing, truncated, not_parquet, emptied, bit_rotten, unreadable],
    ids=lambda f: f.__name__,
)
def test_a_damaged_part_is_reported_and_the_others_still_read(tmp_path, damage):
    write_part(tmp_path, "a", [done(0)])
    bad = write_part(tmp_path, "b", [done(1)])
    write_part(tmp_path, "c", [done(2)])
    damage(bad)
    contents = read_ledger(tmp_path)
    assert contents.table["index"].to_pylist() == [0, 2]
    [(path, reason)] = contents.damaged
    assert path == bad and reason and "\n" not in reason


def test_an_episode_that_occurs_twice_counts_once_and_is_reported(tmp_path):
    write_part(tmp_path, "a", [done(0), done(1)])
    again = write_part(tmp_path, "b", [done(1), done(2)])
    contents = read_ledger(tmp_path)
    assert contents.table["index"].to_pylist() == [0, 1, 2]
    [(path, reason)] = contents.damaged
    assert path == again
    assert an_episode(1).id in reason and "a.parquet" in reason


def test_a_plan_survives_its_table_and_an_edited_one_is_refused():
    episodes = [an_episode(index, calls=4.5, prompt_tokens=1e4, group="g") for index in range(3)]
    table = plan_to_table(episodes)
    assert table["episode_id"].to_pylist() == [episode.id for episode in episodes]
    assert plan_from_table(table) == episodes
    assert plan_from_table(plan_to_table([])) == []
    position = table.column_names.index("task")
    edited = table.set_column(position, "task", pa.array(["music"] * 3))
    with pytest.raises(ValueError, match=f"{episodes[0].id} is not what its row says"):
        plan_from_table(edited)
    with pytest.raises(ValueError, match="no column seed"):
        plan_from_table(table.drop_columns("seed"))
