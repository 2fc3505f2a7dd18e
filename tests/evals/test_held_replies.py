"""Held replies, each with the reading that a careful person gives: how each of them is read is on record."""

import itertools
import textwrap

import pytest

from benchmarks import decoders
from evals.replies.words import plain_words
from tests.golden import check_golden

FILES = [*itertools.product(decoders.SUITES, decoders.KINDS)]


@pytest.fixture(scope="module")
def readings():
    """For each file its rows with what the suite's own rule reads in them."""
    found = {}
    for suite, kind in FILES:
        held = decoders.SUITES[suite]()
        own = next(iter(held.readers.values()))
        rows = [held.prepare(row) for row in decoders._lines(suite, kind)]
        found[suite, kind] = [(row, own(row)) for row in rows]
    return found


def mark(row, read):
    if read == row["reading"]:
        return "."
    return "-" if read is None else "x"


def test_every_held_reply_is_read_as_it_was(readings):
    parts = ["# A mark for each held reply: . read right, - not read, x misread"]
    for (suite, kind), rows in readings.items():
        parts += ["", f"# {suite}, {kind}", *textwrap.wrap("".join(mark(row, read) for row, read in rows), 100)]
    check_golden("readings", "\n".join(parts))


@pytest.mark.parametrize(("suite", "kind"), FILES)
def test_none_is_misread_but_what_people_debate(readings, suite, kind):
    rows = readings[suite, kind]
    assert len(rows) >= {"own": 1000, "natural": 200, "hard": 320}[kind]
    misread = [row for row, read in rows if mark(row, read) == "x"]
    assert len(misread) <= 1 and all("debated" in row for row in misread if kind != "own")


@pytest.mark.parametrize("suite", decoders.SUITES)
def test_the_published_rules_read_natural_replies_worse(suite):
    own, *others = decoders.measure(suite, "natural").values()
    assert all(other.share < own.share - 0.1 for other in others)


def test_the_longest_sign_is_read_first():
    read = {sign: plain_words(sign) for sign in ("ではない", "ではありません", "かも", "または", "一下", "です")}
    assert read == {
        "ではない": ["not", ","],
        "ではありません": ["not", ","],
        "かも": ["maybe"],
        "または": ["or"],
        "一下": [],
        "です": [],
    }
