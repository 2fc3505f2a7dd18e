"""Timings of a run's sessions: noted, read again whatever became of the file, and summed into tables."""

import json
import os
import time

import pytest

from cluster.observe import performance
from cluster.observe.performance import (
    TIMINGS,
    cache_hint,
    note_session,
    performance_table,
    replica_table,
    replica_use,
)
from cluster.observe.run_statistics import RunStatistics
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report
from cluster.storage.stored_run import Run

COUNTS = PlayerCounts(
    turns=50,
    shared=9,
    prompt_tokens=1000,
    completion_tokens=200,
    cached_tokens=250,
    retries=3,
    preemptions=1,
    hedges=4,
    hedges_won=2,
    queueing_seconds=25.0,
    replica_seconds=200.0,
    engine_seconds=150.0,
)


def statistics(playing: float = 20.0, use=None, counts: PlayerCounts = COUNTS) -> RunStatistics:
    stats = RunStatistics(replicas_wanted=2, replicas_lost=1, playing_since=100.0, playing_until=100.0 + playing)
    stats.report("runner", Report(None, 0, 0, counts=counts, moves=7, use=use or {}))
    return stats


def values(table) -> dict[str, object]:
    return {row[0]: row[1] for row in table.rows}


def test_a_session_is_noted_as_one_line_of_json(tmp_path):
    note_session(Run(tmp_path), statistics(use={"replica-0.0": ReplicaUse(1, 8.0, 6.0, 1.0)}))
    note_session(Run(tmp_path), statistics(playing=5.0))
    first, second = (json.loads(line) for line in (tmp_path / TIMINGS).read_text().splitlines())
    assert 0 <= first.pop("seconds") < 1000
    use = {"requests": 1, "slot_seconds": 8.0, "busy_slot_seconds": 6.0, "idle_slot_seconds": 1.0}
    assert first == {
        "playing_seconds": 20.0,
        "replicas": 2,
        "replicas_lost": 1,
        "moves": 7,
        "gpu_hours": 0.0,
        "gpu_cost": 0.0,
        **vars(COUNTS),
        "use": {"replica-0.0": use},
    }
    assert second["playing_seconds"] == 5.0 and second["use"] == {}
    assert [session["playing_seconds"] for session in Run(tmp_path).timings] == [20.0, 5.0]


def test_timings_that_cannot_be_written_stop_nothing(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(performance, "warn", said.append)
    note_session(Run(tmp_path / "gone"), statistics())
    assert len(said) == 1 and "timings" in said[0]


def test_timings_are_appended_to_no_pipe(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(performance, "warn", said.append)
    os.mkfifo(tmp_path / TIMINGS)
    reader = os.open(tmp_path / TIMINGS, os.O_RDONLY | os.O_NONBLOCK)  # without one, opening to write waits forever
    note_session(Run(tmp_path), statistics())
    assert os.read(reader, 1) == b"" and len(said) == 1 and "not a regular file" in said[0]
    os.close(reader)


def test_a_run_without_sessions_has_no_tables(tmp_path):
    assert Run(tmp_path).timings == []
    assert performance_table(Run(tmp_path).timings) is None and replica_table(Run(tmp_path).timings) is None


def test_the_table_sums_all_sessions(tmp_path):
    note_session(Run(tmp_path), statistics(use={"replica-0.0": ReplicaUse(0, 100.0, 60.0, 10.0)}))
    note_session(Run(tmp_path), statistics(playing=30.0, use={"replica-0.0": ReplicaUse(0, 100.0, 80.0, 20.0)}))
    path = tmp_path / TIMINGS
    sessions = [
        json.loads(line) | {"seconds": seconds} for line, seconds in zip(path.open(), (40.0, 60.0), strict=True)
    ]
    path.write_text("".join(json.dumps(session) + "\n" for session in sessions))
    table = performance_table(Run(tmp_path).timings)
    assert values(table) == pytest.approx(
        {
            "sessions": 2,
            "wall-clock seconds": 100.0,
            "playing seconds": 50.0,
            "requests": 100,
            "requests/s": 2.0,
            "completion tokens/s": 8.0,
            "prefix-cache hit rate": 0.25,
            "queueing time": 0.5,
            "transport time": 1.0,
            "engine time": 3.0,
            "slot utilization": 0.7,
            "slots idle while work was queued": 0.15,
            "slots idle in the tail": 0.15,
            "episodes moved": 14,
            "shared calls": 18,
            "retries": 6,
            "preemptions": 2,
            "hedged requests": 8,
            "hedges won": 4,
            "replicas lost": 2,
        }
    )
    assert (table.name, table.title, table.section) == ("performance", "Performance", "performance") and table.headline
    assert table.columns == ("metric", "value", "note") and {len(row) for row in table.rows} == {3}
    notes = {row[0]: row[2] for row in table.rows}
    assert notes["sessions"] == notes["requests"] == notes["requests/s"] == ""
    assert notes["slots idle while work was queued"] == "share"


def test_what_engines_told_is_in_the_table_with_a_hint_where_their_cache_is_too_small(tmp_path):
    def told(blocks, **more):
        return {"cache_blocks": blocks, "cache_tokens": 16 * blocks, "largest_concurrency": blocks / 7, **more}

    note_session(Run(tmp_path), statistics())
    engines = {"replica-0": told(70, model_runner="V2"), "replica-1": told(90, model_runner="V1")}
    table = performance_table(Run(tmp_path).timings, [{}, {"engines": engines}])
    shown = values(table)
    assert shown["cache blocks"] == "70 to 90" and shown["model runner"] == "V1, V2"
    assert shown["largest concurrency"] == "10 to 12.86" and "attention backend" not in shown
    (hint,) = table.notes
    assert "1 preemptions in 50 requests" in hint and "max_num_seqs=46," in hint, "1,120 tokens of cache, 24 a request"
    counts = {"turns": 1000, "preemptions": 9, "prompt_tokens": 10_000}
    assert not cache_hint(counts, []) and "max_num_seqs lower" in cache_hint(counts | {"preemptions": 10}, [])


@pytest.mark.parametrize("session", [statistics(counts=PlayerCounts()), statistics(playing=0.0)])
def test_a_run_in_which_the_model_did_nothing_has_no_performance(tmp_path, session):
    note_session(Run(tmp_path), session)
    assert performance_table(Run(tmp_path).timings) is None


def test_without_tokens_and_slots_shares_are_zero_or_absent(tmp_path):
    note_session(Run(tmp_path), statistics(counts=PlayerCounts(turns=1, cached_tokens=0)))
    shown = values(performance_table(Run(tmp_path).timings))
    assert shown["prefix-cache hit rate"] == 0
    for name in ("slot utilization", "slots idle while work was queued", "slots idle in the tail"):
        assert shown[name] is None


def test_one_prompt_token_is_enough_for_a_hit_rate(tmp_path):
    note_session(Run(tmp_path), statistics(counts=PlayerCounts(turns=1, prompt_tokens=1, cached_tokens=1)))
    assert values(performance_table(Run(tmp_path).timings))["prefix-cache hit rate"] == 1.0


def test_use_is_summed_over_the_restarts_of_a_replica():
    part = {"requests": 0, "slot_seconds": 10.0, "busy_slot_seconds": 4.0, "idle_slot_seconds": 1.0}
    use = replica_use([{"use": {"r-0.0": part, "r-0.1": part, "r-1.0": part}}, {"use": {"r-1.4.2": part}}, {}])
    assert use == {"r-0": ReplicaUse(0, 20.0, 8.0, 2.0), "r-1": ReplicaUse(0, 20.0, 8.0, 2.0)}


def test_each_replica_has_a_row_in_the_order_of_its_number(tmp_path):
    use = {f"replica-{number}.0": ReplicaUse(0, 10.0, number / 2, 1.0) for number in (10, 9, 1, 2)}
    use["replica-3.0"] = ReplicaUse()
    note_session(Run(tmp_path), statistics(use=use))
    table = replica_table(Run(tmp_path).timings)
    assert [row[0] for row in table.rows] == ["replica-1", "replica-2", "replica-9", "replica-10"]
    assert table.rows[1][1:] == pytest.approx((0.1, 0.1, 0.8))
    assert (table.name, table.section, len(table.columns)) == ("replicas", "performance", 4)
    assert table.columns[:2] == ("replica", "busy") and len(table.notes) == 1


def test_a_first_line_that_lacks_figures_hides_none_of_the_others(tmp_path):
    (tmp_path / performance.TIMINGS).write_text(
        '{"turns": 1}\n' + json.dumps({"turns": 3, "playing_seconds": 2.0}) + "\n"
    )
    found = values(performance.performance_table(Run(tmp_path).timings))
    assert (found["sessions"], found["requests"], found["requests/s"], found["retries"]) == (2, 4, 2.0, 0)


def test_gpu_hours_are_those_of_all_replicas_and_cost_what_they_are_said_to(tmp_path):
    stats = statistics()
    stats.gpus, stats.gpu_hour_price, stats._started = 2.0, 3.0, time.monotonic() - 1800
    assert stats.gpu_hours == pytest.approx(2.0, rel=0.01) and stats.gpu_cost == pytest.approx(6.0, rel=0.01)
    assert {"gpu_hours", "gpu_cost"} <= stats.to_json().keys()
    note_session(Run(tmp_path), stats)
    note_session(Run(tmp_path), stats)
    found = values(performance_table(Run(tmp_path).timings))
    assert found["GPU hours"] == pytest.approx(4.0, rel=0.01) and found["cost of GPUs"] == pytest.approx(12.0, rel=0.01)
    (tmp_path / "cpu").mkdir()
    note_session(Run(tmp_path / "cpu"), statistics())
    assert "GPU hours" not in values(performance_table(Run(tmp_path / "cpu").timings))
