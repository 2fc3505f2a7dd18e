"""The ledger keeps whole episodes, and never drops what it cannot read without saying so."""

import asyncio
import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from envs.picture import Picture
from evals.conversation import PlayedTurn, Record
from evals.ledger.columns import COLUMNS, METADATA, SCHEMA_VERSION, VERSION_KEY, ledger_schema
from evals.ledger.ledger import open_ledger
from evals.ledger.records import (
    _DIGEST_KEY,
    PARQUET_OPTIONS,
    PLAN_SCHEMA,
    _digest,
    chat_of,
    check_plan,
    plan_from_table,
    plan_to_table,
    records_to_table,
)
from evals.suite import ledger_columns, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.types import Episode, LabelScores, Message, Outcome, Reply, Turn, message

EXTRA = {"kumo.tests": pa.int32(), "kumo.predicted": pa.string()}


@dataclass(frozen=True)
class Patch(Picture):
    kind: ClassVar[str] = "test_patch"
    color: tuple[int, int, int]

    @property
    def size(self):
        return 8, 8

    def render(self):
        return np.full((8, 8, 3), self.color, np.uint8)


def an_episode(index=0, **changes):
    fields = {"suite": "kumo", "task": "medical", "level": "easy", "mode": "zero_shot", "repeat": 2, "seed": 2**62 + 1}
    return Episode(**{**fields, "index": index, "fingerprint": "abc", "budget": 50, "player": "tiny", **changes})


def a_record(index=0, outcome=None, error="", **changes):
    episode = an_episode(index, **changes)
    chat = (message("system", "Rules"), message("user", "Look:", Patch((1, 2, 3)), "and say."))
    turns = []
    for number, text in enumerate(["first", "second", "third"]):
        turn = Turn(episode, number, chat, options=("a", "b"))
        reply = Reply(
            text,
            finish="length" if number == 1 else "stop",
            prompt_tokens=10 * (number + 1),
            completion_tokens=7 + number,
            cached_tokens=number,
            seconds=0.5 * 3**number,
            reasoning=f"thought {number}",
            reasoning_tokens=number * 2 - (number == 1),
            cost=0.25 * 2**number,
        )
        turns.append(PlayedTurn(turn, reply, action="a" if number else None, rule=f"rule {number}"))
        chat = (*chat, Message("assistant", (text,), reply.reasoning), message("user", "Next", Patch((number, 0, 0))))
    return Record(episode, outcome, error, tuple(turns), 1.5, "model" if error else "")


def done(index=0, **changes):
    return a_record(index, Outcome(True, 3, extra={"tests": 2, "predicted": "Flu"}), **changes)


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
        "error_kind": "",
        "success": True,
        "score": 1.0,
        "steps": 3,
        "budget": 50,
        "prompt_tokens": 60,
        "completion_tokens": 24,
        "reasoning_tokens": 5,
        "cached_tokens": 3,
        "seconds": 1.5,
        "cost": 1.75,
        "cut_off": 1,
        "session": "",
        "attempt": 1,
        "kumo.tests": 2,
        "kumo.predicted": "Flu",
    }
    assert (second["status"], second["error"]) == ("failed", "PromptTooLong: 9,000 tokens")
    assert second["error_kind"] == "model"
    assert second["success"] is second["score"] is second["steps"] is second["kumo.tests"] is None
    assert second["prompt_tokens"] == 60, "what a failed episode consumed counts too"


def test_no_records_make_an_empty_table():
    assert records_to_table([], EXTRA) == ledger_schema(EXTRA).empty_table()


def test_every_turns_chat_comes_back_with_its_pictures(tmp_path):
    record = done()
    write_part(tmp_path, "a", [record])
    turns = open_ledger(tmp_path).table(["turns"])["turns"][0].as_py()
    assert [turn["kept"] for turn in turns] == [0, 2, 4]
    assert [len(turn["prompt"]) for turn in turns] == [2, 2, 2], "what was said before is not stored again"
    for number, played in enumerate(record.turns):
        assert chat_of(turns, number) == played.turn.chat
    assert chat_of(turns, -1) == record.turns[-1].turn.chat
    assert chat_of(turns, 2)[1].parts[1].render()[0, 0].tolist() == [1, 2, 3]
    assert {name: value for name, value in turns[1].items() if name not in ("kept", "prompt")} == {
        **{"options": ["a", "b"], "reply": "second", "reasoning": "thought 1", "finish": "length"},
        **{"action": "a", "rule": "rule 1", "labels": None, "label_mass": None, "argmax_is_label": None, "exact": None},
        **{"prompt_tokens": 20, "completion_tokens": 8, "reasoning_tokens": 1, "cached_tokens": 1},
        **{"seconds": 1.5, "cost": 0.5},
    }
    assert [turn["action"] for turn in turns] == [None, "a", "a"]


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


def test_only_an_answer_that_follows_a_turn_comes_back_with_the_reasoning_of_that_turn():
    def turn(kept, *said, **more):
        prompt = [{"role": role, "parts": [{"text": text, "picture": None}]} for role, text in said]
        return {"kept": kept, "prompt": prompt, **more}

    turns = [
        turn(0, ("user", "one"), reasoning="thought"),
        turn(1, ("user", "two"), ("assistant", "of another"), reasoning=None),
        turn(3, ("assistant", "b"), ("user", "three")),
    ]
    one, two, other = message("user", "one"), message("user", "two"), message("assistant", "of another")
    whole = (one, two, other, message("assistant", "b"), message("user", "three"))
    assert [chat_of(turns, number) for number in (0, 1, 2)] == [whole[:1], whole[:3], whole]
    assert [chat_of(turns, number) for number in (-3, -2, -1)] == [whole[:1], whole[:3], whole]


def test_partial_credit_and_each_reply_that_was_cut_off_count():
    record = a_record(0, Outcome(False, 2, score=0.75))
    cut = tuple(
        dataclasses.replace(each, reply=dataclasses.replace(each.reply, finish="length")) for each in record.turns
    )
    rows = [record, a_record(1, Outcome(True, 2, score=0.5)), a_record(2, Outcome(True, 1))]
    table = records_to_table([*rows, dataclasses.replace(record, turns=cut)], EXTRA)
    assert table["score"].to_pylist() == [0.75, 0.5, 1.0, 0.75]
    assert table["cut_off"].to_pylist() == [1, 1, 1, 3]


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
    with pytest.raises(ValueError, match=r"kumo.*kumo\.oops"):
        records_to_table([a_record(0, Outcome(True, 1, extra={"oops": 1}))], EXTRA)
    with pytest.raises(ValueError, match=r"steps, seed$"):
        ledger_schema({"steps": pa.int64(), "kumo.oops": pa.int64(), "seed": pa.int64()})


def test_parts_are_read_together_without_the_bulky_turns(tmp_path):
    write_part(tmp_path, "b", [done(2), done(3)])
    write_part(tmp_path, "a", [done(0), done(1)])
    (tmp_path / "episodes" / "c.parquet.tmp").write_bytes(b"being written")
    ledger = open_ledger(tmp_path)
    assert ledger.damage == [] and len(ledger) == 4
    assert ledger.table()["index"].to_pylist() == [0, 1, 2, 3]
    assert set(ledger.table().column_names) == {*COLUMNS, *EXTRA} - {"turns"}
    assert ledger.table(["player", "kumo.tests"]).column_names == ["player", "kumo.tests"]


def test_a_run_without_a_ledger_has_an_empty_one(tmp_path):
    ledger = open_ledger(tmp_path)
    assert len(ledger) == ledger.table().num_rows == 0 and ledger.damage == []
    assert ledger.table()["success"].type == pa.bool_()


def alien(path):
    pq.write_table(pa.table({"x": [1, 2]}), path)


def mistyped(path):
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("steps"), "steps", pa.array(["three"])), path)


def clashing(path):
    pq.write_table(pq.read_table(path).drop_columns("kumo.tests").append_column("kumo.tests", pa.array([["a"]])), path)


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
    ledger = open_ledger(tmp_path)
    assert ledger.table(["index"])["index"].to_pylist() == [0, 2]
    [found] = ledger.damage
    assert found.path == bad and found.reason and "\n" not in found.reason


def test_a_plans_numbers_are_stored_as_declared_whatever_a_suite_gave():
    table = plan_to_table([an_episode(0, calls=4, prompt_tokens=0)])
    assert table.schema == PLAN_SCHEMA and table["calls"].to_pylist() == [4.0]


def digested(table: pa.Table) -> pa.Table:
    """With a digest that fits, as one who edits it may write."""
    return table.replace_schema_metadata({**METADATA, _DIGEST_KEY: _digest(table)})


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"episode_id": ["x"]}),
        digested(pa.table({"episode_id": ["x"]})),
        digested(plan_to_table([an_episode()]).drop_columns("episode_id")),
        plan_to_table([an_episode()]).drop_columns("calls"),
    ],
)
def test_what_is_no_plan_is_refused_when_checked(table):
    with pytest.raises(ValueError):
        check_plan(table)


def test_a_plan_survives_its_table_and_an_edited_one_is_refused():
    episodes = [an_episode(index, calls=4.5, prompt_tokens=1e4, group="g") for index in range(3)]
    table = plan_to_table(episodes)
    assert table["episode_id"].to_pylist() == [episode.id for episode in episodes]
    again = plan_from_table(table)
    assert again == episodes and [episode.id for episode in again] == [episode.id for episode in episodes]
    assert plan_from_table(plan_to_table([])) == []
    check_plan(table)
    position = table.column_names.index("task")
    edited = table.set_column(position, "task", pa.array(["music"] * 3))
    with pytest.raises(ValueError, match="is not what its row says"):
        check_plan(edited)
    with pytest.raises(ValueError, match=episodes[0].id):
        plan_from_table(edited)
    with pytest.raises(ValueError, match="seed"):
        plan_from_table(table.drop_columns("seed"))
    with pytest.raises(ValueError, match=episodes[1].id):
        plan_from_table(plan_to_table([*episodes, episodes[1]]))
    with pytest.raises(ValueError, match="version"):
        plan_from_table(table.replace_schema_metadata({VERSION_KEY: str(SCHEMA_VERSION + 1)}))


def test_a_plan_that_is_as_it_was_written_is_checked_by_one_id(monkeypatch):
    table = plan_to_table([an_episode(index) for index in range(50)])
    computed = []
    monkeypatch.setattr(Episode, "id", property(lambda episode: computed.append(episode) or "another version's"))
    for read in (check_plan, plan_from_table):
        with pytest.raises(ValueError, match="another version"):
            read(table)
    assert len(computed) <= 4
    with pytest.raises(ValueError, match="twice"):
        check_plan(plan_to_table([an_episode(1)] * 2))


class Thinker:
    """Perfect play after a thought that names its turn."""

    async def reply(self, turn):
        return Reply(turn.oracle(), reasoning=f"thought {turn.number}")


@pytest.mark.parametrize(
    "suite",
    [
        KidGymSuite(tasks=["MMA"], levels=[1], modes=["zero_shot"], episodes=1),
        KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=1, repeats=1),
    ],
    ids=lambda suite: suite.name,
)
def test_what_was_thought_stands_at_the_answer_that_followed_in_later_chats_and_in_the_ledger(suite):
    record = asyncio.run(play_episode(suite, suite.plan()[0], Thinker()))
    last = record.turns[-1].turn.chat
    thoughts = [said.reasoning for said in last if said.role == "assistant"]
    assert thoughts and thoughts == [f"thought {number}" for number in range(len(record.turns) - 1)]
    row = records_to_table([record], ledger_columns(suite)).to_pylist()[0]
    assert chat_of(row["turns"], -1) == last
