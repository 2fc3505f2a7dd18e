"""What a run has spent: kept over sessions, never lowered, never guessed."""

import pytest

from cluster.errors import UserError
from cluster.observe.run_statistics import RunStatistics
from cluster.runner.messages import PlayerCounts, Report
from cluster.storage.spending import SPENDING, read_spent, write_spent


def test_the_sum_of_all_sessions_is_kept(tmp_path):
    assert read_spent(tmp_path) == 0
    write_spent(tmp_path, 1.25)
    assert read_spent(tmp_path) == 1.25


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"spent": "x"}', '{"spent": NaN}', '{"spent": -1}', '{"spent": null}']
)
def test_a_damaged_note_is_refused_rather_than_read_as_nothing(tmp_path, text):
    (tmp_path / SPENDING).write_text(text)
    with pytest.raises(UserError, match=SPENDING):
        read_spent(tmp_path)


def test_spent_is_what_replicas_said_or_what_replies_cost_whichever_is_more():
    stats = RunStatistics(spent_before=10.0)
    assert stats.spent == 10
    stats.report("runner-0", Report(None, 0, 0, counts=PlayerCounts(cost=0.5)))
    stats.report("runner-0", Report(None, 0, 0, counts=PlayerCounts(cost=0.75)))
    assert stats.spent == 10.75
    stats.replica_spent("replica-0.0", 0.5)
    stats.replica_spent("replica-0.1", 0.5)
    assert stats.spent == 11
    stats.runner_ended("runner-0")
    stats.report("runner-0", Report(None, 0, 0, counts=PlayerCounts(cost=0.5)))
    assert stats.spent == 11.25, "what a dead runner's replies cost stays counted"
    assert stats.to_json()["spent"] == 11.25


@pytest.mark.parametrize("spent", [0.0, 0.25])
def test_any_sum_from_0_up_is_kept(tmp_path, spent):
    write_spent(tmp_path, spent)
    assert read_spent(tmp_path) == spent
