"""Cells that stop by themselves: what is said of them together is of the plan, however many games each of them took."""

import dataclasses

import pytest

from evals.analysis.compare import Side
from evals.analysis.evidence import evidence_table
from evals.exchange.scores import main_score, scores_of
from evals.exchange.source import sources_of
from evals.stats.anytime import confidence_sequence, difference_sequence
from evals.summary.as_planned import overall_estimate
from evals.summary.overview import overview
from evals.summary.paired import column_measure
from tests.runs import Often, run_of
from tests.toy import ToySuite


class TwoCells(ToySuite):
    """Games of two levels."""

    def plan(self):
        found = super().plan()
        return [*found, *(dataclasses.replace(each, level="hard", seed=each.seed + 1000) for each in found)]


SUITE = TwoCells(episodes=20)


def stopped_run(kept, share=0.5, most_easy=20):
    """The hard cell has stopped after ``kept`` games."""
    whole = run_of(SUITE, {"m": Often(share, 1), "n": Often(0.5, 2)})
    dropped = []
    for row in whole.plan.select(["episode_id", "level", "index"]).to_pylist():
        most = kept if row["level"] == "hard" else most_easy
        if row["index"] >= most:
            dropped.append(row["episode_id"])
    return dataclasses.replace(
        whole.without(dropped), stopping=("stopped",), cells_stop=True, with_not_needed=whole.plan
    )


def wins(run, level):
    rows = run.episodes(["player", "level", "success", "index"]).to_pylist()
    return [float(row["success"]) for row in rows if row["player"] == "m" and row["level"] == level]


@pytest.mark.parametrize("kept", [1, 3, 20])
def test_cells_count_as_planned_and_their_intervals_hold_together(kept):
    run = stopped_run(kept)
    easy, hard = (confidence_sequence(wins(run, level), 0.05 / 2) for level in ("easy", "hard"))
    expected = [(getattr(easy, end) + getattr(hard, end)) / 2 for end in ("mean", "low", "high")]
    [line] = overview(run)
    assert [line.success.mean, line.success.low, line.success.high] == pytest.approx(expected)
    assert line.success.n == 20 + kept
    [source] = [each for each in sources_of(run, SUITE) if each.player == "m"]
    exported = main_score(scores_of(source))
    assert [exported.estimate.mean, exported.estimate.low, exported.estimate.high] == pytest.approx(expected)


def test_a_cell_without_games_is_left_out_and_other_cells_than_those_that_stop_have_no_interval():
    run = stopped_run(0)
    observations = column_measure(run, "m").observations
    with run.intervals():
        assert overall_estimate(run, "m", observations).mean == pytest.approx(sum(wins(run, "easy")) / 20)
        others = [one._replace(cell=("question 1",)) for one in observations]
        found = overall_estimate(run, "m", others)
        assert found.n == 20 and not found.has_interval
        assert found.mean == pytest.approx(sum(wins(run, "easy")) / 20)
        assert overall_estimate(run, "m", []).n == 0
    imported = dataclasses.replace(stopped_run(3), with_not_needed=None)
    with imported.intervals():
        found = overall_estimate(imported, "m", column_measure(imported, "m").observations)
    assert found.n == 23 and not found.has_interval, "its plan has only what was needed"


def test_evidence_of_cells_that_stop_apart_stands_apart():
    run = stopped_run(4)
    first, second = (Side(label, player, run, SUITE) for label, player in (("A", "m"), ("B", "n")))
    table = evidence_table(first, [second])
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["measure"], row["games"]) for row in rows] == [
        ("toy: success colors easy zero_shot", 20),
        ("toy: success colors hard zero_shot", 4),
    ]
    ours = {(one.cell, one.game): one.value for one in column_measure(run, "m").observations}
    for one in column_measure(run, "n").observations:
        ours[one.cell, one.game] -= one.value
    for row, level in zip(rows, ("easy", "hard"), strict=True):
        expected = difference_sequence([value for (cell, _), value in ours.items() if cell[1] == level])
        assert (row["difference"].low, row["difference"].high) == (expected.low, expected.high)
