"""Replies by authors who had not seen the decoders: none is misread, and the share read right does not fall."""

import pytest

from benchmarks.decoders import measure

RULES = {"kidgym": "lenient", "kumo": "lenient", "multistar": "ours"}


@pytest.mark.parametrize(("suite", "right"), [("kidgym", 278), ("kumo", 242), ("multistar", 230)])
def test_hard_replies_are_read_right_or_not_at_all(suite, right):
    own = measure(suite, "hard")[RULES[suite]]
    assert own.right + len(own.misread) + len(own.unread) == 320
    assert [row for row in own.misread if "debated" not in row] == []
    assert sum("debated" in row for row in own.misread) <= 1
    assert own.right >= right


@pytest.mark.parametrize(("suite", "unread"), [("kidgym", 0), ("kumo", 0), ("multistar", 2)])
def test_natural_replies_are_read_right_and_better_than_by_the_published_rules(suite, unread):
    figures = measure(suite, "natural")
    own = figures.pop(RULES[suite])
    assert own.right + len(own.misread) + len(own.unread) == 200
    assert own.misread == ()
    assert len(own.unread) <= unread, own.unread
    assert all(other.share < own.share - 0.1 for other in figures.values())
