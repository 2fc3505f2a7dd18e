"""Shared summaries against sums in plain Python, whatever the rows are."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.reliability import design_effect
from evals.summary.cost import total_usage
from evals.summary.failures import Cause
from evals.summary.reliability import reliability_table
from evals.summary.status import status_lines
from evals.summary.usage import usage_table
from evals.types import Reply
from tests.runs import run_of
from tests.toy import ToySuite

AMOUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cost", "seconds")


class Counting:
    """Uses tokens and money that differ from game to game; ``scale`` 0 uses none."""

    def __init__(self, scale, cost=0.0):
        self.scale, self.cost = scale, cost

    async def reply(self, turn):
        number = (turn.episode.index + 1) * self.scale
        return Reply(
            "red", "stop", 100 * number, 7 * number, 30 * number, reasoning_tokens=2 * number, cost=self.cost * number
        )


def test_usage_is_what_the_rows_add_up_to():
    run = run_of(ToySuite(episodes=5), {"m": Counting(1, 0.25), "free": Counting(2), "none": Counting(0)}, failing=(3,))
    table = usage_table(run)
    rows = run.episodes(["player", *AMOUNTS]).to_pylist()
    expected = []
    for name in ("m", "free"):  # who used no token is left out
        mine = [row for row in rows if row["player"] == name]
        prompt, cached, completion, reasoning, cost, seconds = (
            math.fsum(row[each] for row in mine) for each in AMOUNTS
        )
        times = (seconds / len(mine), seconds / 3600)
        expected.append((name, "toy", 5, prompt, cached / prompt, completion, reasoning, cost or None, *times))
    assert [row[:2] for row in table.rows] == [row[:2] for row in expected]
    for row, same in zip(table.rows, expected, strict=True):
        assert row[2:] == pytest.approx(same[2:])
    assert 0 < table.rows[0][4] < 1 and table.rows[1][7] is None
    assert usage_table(run_of(ToySuite(episodes=2), {"none": Counting(0)})) is None
    sums = {name: math.fsum(row[name] for row in rows) for name in AMOUNTS}
    assert total_usage(run) == {
        name: sums[name] for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost")
    }
    assert total_usage(run_of(ToySuite(episodes=2), {"none": Counting(0)})) == {}
    whole = run.episodes(["player", "suite", *AMOUNTS])
    pieces = [whole.slice(start, 4) for start in range(0, len(whole), 4)]
    in_pieces = usage_table(SimpleNamespace(plan=run.plan, batches=lambda names: iter(pieces)))
    assert [row[:6] for row in in_pieces.rows] == [row[:6] for row in table.rows]


# --- plain words -------------------------------------------------------------------------------------------------------


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_what_a_run_lacks_is_told_in_numbers(done, failed, missing, by_rule):
    planned = done + failed + missing
    causes = {("m", "toy"): [Cause(["rare"], count=1), Cause(["often"], count=5)]} if failed else {}
    lines = status_lines(
        {"planned": planned, "done": done, "failed": failed, "missing": missing}, causes, by_rule=by_rule
    )
    if not done + failed:
        assert len(lines) == 1 and lines[0].startswith("Empty run")
        return
    assert len(lines) == bool(missing) + bool(failed)
    if missing:
        assert f"{missing} of {planned} planned" in lines[0]
        assert ("a number of games that is fixed before" in lines[0]) != by_rule, "anytime-valid intervals hold for any"
    if failed:
        share = f"{failed} of {done + failed} played" if done else "All played"
        assert lines[-1].startswith(share) and "(5 times): often" in lines[-1]


# --- reliability -------------------------------------------------------------------------------------------------------


def test_only_games_with_all_their_repeats_are_drawn_from():
    class Repeated(ToySuite):
        def plan(self):
            counts = {0: 4, 1: 4, 2: 3, 3: 4, 4: 4, 5: 4, 6: 4}
            return [
                dataclasses.replace(episode, repeat=repeat)
                for episode in super().plan()
                for repeat in range(counts[episode.index])
            ]

        async def play(self, episode, conversation):
            outcome = await super().play(episode, conversation)
            return dataclasses.replace(outcome, success=episode.repeat < episode.index % 5, score=None)

    table = reliability_table(run_of(Repeated(episodes=7), {"m": Counting(1)}))
    [row] = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    won = [0, 1, 3, 4, 0, 1]  # of four runs, by game; the game that was played three times is left out
    assert row["games"] == 6 and row["repeats"] == 4
    assert row["success"].mean == pytest.approx(sum(won) / 24)
    assert row["pass^2"].mean == pytest.approx(sum(math.comb(w, 2) / math.comb(4, 2) for w in won) / 6)
    assert row["pass@2"].mean == pytest.approx(sum(1 - math.comb(4 - w, 2) / math.comb(4, 2) for w in won) / 6)
    assert row["pass^4"].mean == pytest.approx(sum(w == 4 for w in won) / 6)
    assert row["design effect"] == pytest.approx(design_effect(row["ICC"], 4))
