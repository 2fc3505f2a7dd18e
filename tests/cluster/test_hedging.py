"""When a turn counts as late."""

import math

import pytest

from cluster.runner.hedging import CHECK_SECONDS, LATE, LONGEST_CHECK_SECONDS, LatencyTracker


def tracker(*answers: tuple[float, float]) -> LatencyTracker:
    """Has seen turns that were sent and answered at these times."""
    made = LatencyTracker()
    for sent, back in answers:
        made.sent(sent)
        made.returned(sent, back, answered=True)
    return made


def test_before_any_answer_nothing_is_late():
    made = tracker()
    assert made.late_at(0.0, 1e9) == math.inf
    made.sent(0.0)
    made.returned(0.0, 5.0, answered=False)
    assert made.late_at(0.0, 1e9) == math.inf


def test_a_turn_is_late_after_so_many_times_the_mean():
    assert tracker((10.0, 12.0)).late_at(100.0, 100.0) == 100.0 + LATE * 2.0
    assert tracker((10.0, 12.0), (20.0, 26.0)).late_at(100.0, 100.0) == 100.0 + LATE * 4.0


def test_turns_that_are_out_count_with_the_time_they_have_taken_so_far():
    made = tracker((0.0, 2.0), (0.0, 4.0))
    made.sent(10.0)
    made.sent(13.0)
    assert made.late_at(10.0, 20.0) == 10.0 + LATE * (2 + 4 + 10 + 7) / 2
    assert made.late_at(10.0, 21.0) == 10.0 + LATE * (2 + 4 + 11 + 8) / 2
    made.returned(10.0, 22.0, answered=True)
    assert made.late_at(13.0, 23.0) == 13.0 + LATE * (2 + 4 + 12 + 10) / 3


def test_the_time_of_a_turn_that_failed_counts_but_it_is_no_answer():
    made = tracker((0.0, 2.0))
    made.sent(5.0)
    made.returned(5.0, 8.0, answered=False)
    assert made.late_at(10.0, 10.0) == 10.0 + LATE * 5.0


@pytest.mark.parametrize(
    ("sent", "wait"),
    [
        (100.0, 3.0),  # late at 103
        (97.5, CHECK_SECONDS),  # late in half a second
        (97.2, CHECK_SECONDS),  # late already at the next look
        (50.0, CHECK_SECONDS),  # late for long
        (107.0, 10.0),
        (120.0, LONGEST_CHECK_SECONDS),
    ],
)
def test_the_next_check_is_when_the_turn_is_late_within_bounds(sent, wait):
    assert tracker((0.0, 1.0)).next_check(sent, 100.0) == pytest.approx(100.0 + wait)


def test_where_nothing_can_be_late_it_is_looked_at_seldom():
    assert tracker().next_check(3.0, 5.0) == 5.0 + LONGEST_CHECK_SECONDS
