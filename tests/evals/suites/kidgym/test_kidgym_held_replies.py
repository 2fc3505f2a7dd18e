"""A thousand replies as models write them, each with the reading that a careful person gives."""

import pytest

from benchmarks.decoders import measure


@pytest.fixture(scope="module")
def figures():
    return measure("kidgym")


def test_replies_are_read_as_a_careful_person_reads_them(figures):
    own = figures["lenient"]
    assert own.right + len(own.unread) >= 1000
    assert len(own.misread) <= 1, own.misread[:3]
    assert own.share >= 0.95, own.unread[:3]


def test_the_published_rules_misread_what_ours_does_not(figures):
    for rule in ("paper", "published"):
        assert figures[rule].misread and figures[rule].share < figures["lenient"].share
