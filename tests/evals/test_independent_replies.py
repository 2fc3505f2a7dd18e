"""Replies by two authors who had not seen the decoders: none is misread, and the share read right does not fall."""

import pytest

from benchmarks.decoders import measure


@pytest.mark.parametrize(
    ("suite", "rule", "share"), [("kidgym", "lenient", 0.76), ("kumo", "lenient", 0.54), ("multistar", "ours", 0.52)]
)
def test_replies_by_independent_authors_are_read_right_or_not_at_all(suite, rule, share):
    own = measure(suite, independent=True)[rule]
    assert own.right + len(own.misread) + len(own.unread) == 320
    assert [row for row in own.misread if "debated" not in row] == []
    assert sum("debated" in row for row in own.misread) <= 2
    assert own.share >= share
