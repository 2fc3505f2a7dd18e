"""Held replies, each with the reading that a careful person gives."""

import json
from collections import Counter
from pathlib import Path

import pytest

from evals.suites.kumo.readers import readers

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def games():
    return json.loads((DATA / "kumo_reply_games.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rows():
    lines = (DATA / "kumo_replies.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_held_replies_are_many_and_their_readings_are_names_of_their_games(rows, games):
    assert len(rows) >= 1000 and len({row["hand"] for row in rows}) >= 8
    for row in rows:
        names = games[row["game"]]["tests"] + games[row["game"]]["truths"]
        assert row["reading"] is None or row["reading"] in names
    assert sum(row["reading"] is None for row in rows) > 200
    assert sum(row.get("cut", False) for row in rows) > 30


def test_ours_reads_99_of_100_as_a_careful_person_does(rows, games):
    read = readers(games)["lenient"]
    wrong = [(row["reply"], found, row["reading"]) for row in rows if (found := read(row)) != row["reading"]]
    assert sum(found is not None for _, found, _ in wrong) <= 1, wrong
    assert len(wrong) <= 0.01 * len(rows), wrong


def test_the_published_parser_reads_about_half_of_them(rows, games):
    read = readers(games)["published"]
    kinds = Counter("right" if (found := read(row)) == row["reading"] else found is not None for row in rows)
    assert kinds["right"] < 0.6 * len(rows) and kinds[True] > 0
