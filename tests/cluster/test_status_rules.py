"""What `raycade status` counts and foretells, against sums in plain Python."""

import datetime
import os
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.observe.run_status import CAUSES_SHOWN, _causes, _pace, _players, _state
from cluster.runner.episode_queue import expected_work
from cluster.storage.lock import Writer
from evals.ledger.records import plan_to_table
from tests.cluster.test_observe import episode

ENDINGS = ("won", "lost", "failed", "waiting", "dropped")
ROWS = st.lists(st.tuples(st.sampled_from(["m", "oracle"]), st.sampled_from(ENDINGS), st.integers(0, 9)), max_size=12)


def rows_of(chosen, session="now"):
    played = [(one, ending, cost) for one, ending, cost in chosen if ending in ENDINGS[:3]]
    return pa.table(
        {
            "episode_id": pa.array([one.id for one, _, _ in played], pa.string()),
            "player": pa.array([one.player for one, _, _ in played], pa.string()),
            "status": pa.array(["failed" if ending == "failed" else "done" for _, ending, _ in played], pa.string()),
            "error": pa.array(
                [f"Odd: {cost}" if ending == "failed" else "" for _, ending, cost in played], pa.string()
            ),
            "success": pa.array(
                [None if ending == "failed" else ending == "won" for _, ending, _ in played], pa.bool_()
            ),
            "session": pa.array([session] * len(played), pa.string()),
            **{
                name: pa.array([cost * scale for _, _, cost in played], pa.int64())
                for scale, name in enumerate(("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost"))
            },
        }
    )


@given(ROWS, st.booleans())
@settings(deadline=None)
def test_each_planned_episode_is_counted_once(chosen, ruled):
    plan = [(episode(number, player), ending, cost) for number, (player, ending, cost) in enumerate(chosen)]

    def is_late(ending, cost):
        """Finished after the decision that needed it."""
        return ruled and ending in ENDINGS[:3] and cost % 4 == 0

    needed = (
        {one.id for one, ending, cost in plan if ending != "dropped" and not is_late(ending, cost)} if ruled else None
    )
    table = _players(plan_to_table(one for one, _, _ in plan), rows_of(plan), needed)
    assert [row[0] for row in table.rows] == list(dict.fromkeys(player for player, _, _ in chosen))
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        mine = [(ending, cost) for player, ending, cost in chosen if player == cells["player"]]
        count = {ending: sum(one == ending for one, _ in mine) for ending in ENDINGS}
        assert cells["planned"] == len(mine) and cells["failed"] == count["failed"]
        assert cells["done"] == count["won"] + count["lost"]
        assert cells["left"] == count["waiting"] + (0 if ruled else count["dropped"])
        assert cells.get("not needed", 0) == (count["dropped"] if ruled else 0)
        wins = [ending == "won" for ending, cost in mine if ending in ENDINGS[:3] and not is_late(ending, cost)]
        assert cells["won"] == (sum(wins) / len(wins) if wins else None)
        total = sum(cost for ending, cost in mine if ending in ENDINGS[:3])
        assert cells.get("completion tokens", 0) == total and cells.get("cost", 0) == 3 * total
    late = sum(is_late(ending, cost) for _, ending, cost in plan)
    said = f"{late} finished after a decision for which they were not needed: neither won nor the report counts them"
    assert (table.notes[-1:] == (said,)) == bool(late)


def test_the_most_frequent_causes_come_first_and_the_others_are_counted():
    plan = [(episode(10 * kind + n), "failed", kind) for kind in range(CAUSES_SHOWN + 2) for n in range(kind + 1)]
    lines = list(_causes(rows_of(plan)))
    assert lines[:-1] == [f"{kind + 1} failed: Odd: {kind}" for kind in range(CAUSES_SHOWN + 1, 1, -1)]
    assert lines[-1] == "and 2 other causes of failure"
    assert len(list(_causes(rows_of(plan[:6])))) == CAUSES_SHOWN, "all are shown"
    assert list(_causes(rows_of(plan[:1]))) == ["1 failed: Odd: 0"] and list(_causes(rows_of([]))) == []


@pytest.mark.parametrize("state", ["at work", "done"])
def test_the_time_left_is_by_work_at_the_latest_session_s_pace(tmp_path, state):
    light, heavy = episode(0, calls=1, prompt_tokens=500.0), episode(1, calls=5, prompt_tokens=500.0)
    old, left = episode(2, calls=50), episode(3, calls=3, prompt_tokens=500.0)
    part = tmp_path / "episodes" / "part.parquet"
    part.parent.mkdir()
    part.touch()
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=600)
    os.utime(part, times=(began.timestamp() + 60,) * 2)
    sessions = [{"id": "before", "began": "2020-01-01T00:00:00+00:00"}, {"id": "now", "began": began.isoformat()}]
    run = SimpleNamespace(path=tmp_path, sessions=sessions, timings=[], plan=[light, heavy, old, left])
    rows = pa.concat_tables([rows_of([(old, "won", 1)], "before"), rows_of([(light, "won", 1), (heavy, "failed", 1)])])
    pace = _pace(run, rows, Writer("somebody", state, 1.0))
    share = expected_work(left) / (expected_work(light) + expected_work(heavy))
    if state == "at work":
        assert pace.seconds == pytest.approx(600, abs=60) and pace.seconds_left == pytest.approx(share * pace.seconds)
    else:
        assert pace.seconds == pytest.approx(60) and pace.seconds_left is None, "until the last part"
    assert pace.finished == 2
    assert _pace(run, rows, None) is None


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("state", ["at work", "silent", "gone", "done", "elsewhere"])
def test_the_state_names_who_writes_or_how_the_run_goes_on(state, left):
    said = _state(Writer("process 7", state, 61.0), left)
    if state == "at work":
        assert said.startswith("at work: process 7") and "1:01" in said
    elif not left:
        assert said == "complete"
    else:
        assert "The same command" in said and "resumes" in said and ("process 7" in said) == (state != "done")
    assert _state(None, left) == "not started"
