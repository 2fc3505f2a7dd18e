"""Causes of failure: messages that say the same are one cause, and each names the episodes that it ended."""

import random

import pytest

from evals.players import BUILT_IN_PLAYERS
from evals.summary.failures import EPISODES_KEPT, Causes, causes_of, failure_table, failures_to_json
from evals.types import PlayerError
from tests.runs import run_of
from tests.toy import ToySuite

SUITE = ToySuite(episodes=12)


def grouped(*errors: str) -> dict[str, int]:
    causes = Causes()
    for error in errors:
        causes.add(error)
    return {cause.text: cause.count for cause in causes.most_common()}


@pytest.mark.parametrize(
    ("errors", "causes"),
    [
        (["A: by 12 tokens of 4,096", "A: by 7 tokens of 4,096"], {"A: by # tokens of 4,096": 2}),
        (["A: by 12", "A: by 12", "B: by 12"], {"A: by 12": 2, "B: by 12": 1}),
        (["at 0x7f3a died", "at 0x11 died"], {"at # died": 2}),
        (["request 4fa91c2d33 failed", "request 99bb01cd00 failed"], {"request # failed": 2}),
        (["replica 1.2 at 10:41:07", "replica 3.2 at 10:41:08"], {"replica # at #": 2}),
        (["one\n  line", "one line"], {"one line": 2}),
        (["decoded", "defaced", ""], {"": 1, "decoded": 1, "defaced": 1}),
        (["PlayerError: x", "PlayerError: y"], {"PlayerError: x": 1, "PlayerError: y": 1}),
    ],
)
def test_messages_that_differ_in_numbers_are_one_cause(errors, causes):
    assert grouped(*errors) == causes


def test_a_megabyte_of_message_is_cut():
    [text] = grouped("x" * 1_000_000)
    assert len(text) < 500 and text.endswith("...")
    assert len(grouped("x" * 400, "x" * 401, "x" * 402)) == 2, "what is cut alike is one cause"
    assert "x" * 400 in grouped("x" * 400)


def test_the_commonest_comes_first_and_kinds_are_kept_apart():
    causes = Causes()
    for error, kind in (("b", "engine"), ("c", "model"), ("a", "engine"), ("b", "engine"), ("b", "model")):
        causes.add(error, kind=kind)
    found = [(cause.text, cause.kind, cause.count) for cause in causes.most_common()]
    assert found == [("b", "engine", 2), ("a", "engine", 1), ("b", "model", 1), ("c", "model", 1)]


def test_the_order_of_the_ledger_does_not_matter():
    failed = [(f"died after {number} s", f"{number:04}") for number in range(3 * EPISODES_KEPT)]
    told = []
    for _ in range(3):
        random.Random(len(told)).shuffle(failed)
        causes = Causes()
        for error, episode in failed:
            causes.add(error, episode, "engine")
        told.append(failures_to_json({("p", "s"): causes.most_common()}))
    assert told[0] == told[1] == told[2]
    [entry] = told[0]
    assert entry["count"] == 60 and entry["cause"] == "died after # s"
    assert entry["episodes"] == [f"{number:04}" for number in range(EPISODES_KEPT)]


def test_no_failure_no_table():
    assert failure_table({}) is None
    assert causes_of(run_of(SUITE)) == {}


class Breaks:
    """A player whose failures name a number: the same cause each time."""

    async def reply(self, turn):
        raise PlayerError(f"no answer to game {turn.episode.index}", "model")


def test_each_players_failures_are_counted_by_cause_and_name_their_episodes():
    players = {"m": Breaks(), "oracle": BUILT_IN_PLAYERS["oracle"], "b": Breaks()}
    run = run_of(SUITE, players, failing=(1, 3, 5, 7, 9))
    causes = causes_of(run)
    assert list(causes) == [("m", "toy"), ("oracle", "toy"), ("b", "toy")], "in the order of the plan"
    rows = run.episodes(["player", "index", "episode_id"]).to_pylist()

    def ids(player, *places):
        return sorted(row["episode_id"] for row in rows if row["player"] == player and row["index"] in places)

    odd, even = range(1, 10, 2), (0, *range(2, 10, 2), *range(10, 12))
    own = [("model", 7, even), ("endpoint", 5, odd)]
    expected = [(player, *each) for player, found in (("m", own), ("oracle", own[1:]), ("b", own)) for each in found]
    told = failures_to_json(causes)
    assert [(entry["player"], entry["kind"], entry["count"]) for entry in told] == [each[:3] for each in expected]
    assert [entry["episodes"] for entry in told] == [ids(player, *places) for player, _, _, places in expected]
    assert {entry["suite"] for entry in told} == {"toy"} and "#" in told[0]["cause"] and "#" not in told[1]["cause"]
    table = failure_table(causes)
    assert table.columns[:4] == ("player", "suite", "failed", "failure of")
    assert table.rows == tuple(
        (*(entry[name] for name in ("player", "suite", "count", "kind", "cause")), entry["episodes"][0])
        for entry in told
    )
    assert table.headline
