"""Stored replies played again: the same reading gives the same run, another one changes what it should."""

import pytest

from evals.kumo import KumoSuite
from evals.players import BUILT_IN_PLAYERS
from evals.recorded import stored_reply
from evals.records import plan_from_table
from evals.replay import Again, agreement_table, disagreement_table, label_shift, sample_turns_to_ask
from evals.rescore import changes_table, reread_turn, rescore, rescored_run, rescored_table
from evals.suite import suite_results
from evals.types import LabelScores, Reply
from tests.runs import Often, run_of
from tests.toy import ToySuite

SUITE = ToySuite(episodes=10)
KUMO = {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 3, "repeats": 1}


class Untagged:
    """Perfect play that only a lenient decoder reads."""

    async def reply(self, turn):
        return Reply(f"I choose {turn.oracle()}.".replace("I choose <ANSWER>", "").replace("</ANSWER>", ""))


def rows_of(run):
    return run.find(run.plan["episode_id"].to_pylist())


def rescored(suite, run):
    episodes = {episode.id: episode for episode in plan_from_table(run.plan)}
    return rescore(suite, episodes, rows_of(run))


def test_read_by_the_same_rules_nothing_changes():
    run = run_of(SUITE, {"m": Often(0.5)}, failing=(3,))
    found = rescored(SUITE, run)
    ((_, _, turns, differently, episodes, other, old, new),) = rescored_table(found).rows
    assert (turns, differently, episodes, other) == (sum(map(SUITE._length, range(10))) - 3, 0, 10, 0)
    assert old == new and changes_table(found, 5).rows == ()
    tables = [suite_results(SUITE, each, "scores") for each in (run, rescored_run(found, run))]
    assert tables[0][0].rows == tables[1][0].rows


def test_another_decoder_reads_otherwise_and_the_ledger_is_only_read():
    run = run_of(KumoSuite(**KUMO), {"m": Untagged()})
    before = run.episodes().to_pylist()
    assert all(row["success"] for row in before)
    found = rescored(KumoSuite(**KUMO, decoder="strict"), run)
    ((_, _, _, differently, episodes, other, old, new),) = rescored_table(found).rows
    assert (differently, episodes, other) == (3, 3, 0), "the first reply that cannot be read ends a game"
    assert (old.mean, new.mean) == (1, 0)
    row = changes_table(found, 2).rows[0]
    assert row[1] == 0 and row[3] != "–" and row[4:] == ("–", "parse error") and len(changes_table(found, 2).rows) == 2
    assert run.episodes().to_pylist() == before


def test_a_game_that_goes_on_otherwise_has_no_new_outcome():
    run = run_of(KumoSuite(**KUMO, decoder="strict"), {"m": Untagged()})
    found = rescored(KumoSuite(**KUMO), run)
    ((_, _, turns, differently, episodes, other, _, new),) = rescored_table(found).rows
    assert (turns, differently, other) == (3, 3, 3 - episodes) and other > 0
    assert new.n == episodes


def test_prompts_of_another_version_are_another_course(monkeypatch):
    run = run_of(SUITE, {"m": Often(0.5)})
    found = rescored(ToySuite(episodes=10, turns=4), run)
    assert found.counts["m", "toy"]["other course"] == 10 and not found.cells


def test_one_reply_is_read_in_place_of_the_stored_one():
    import asyncio

    run = run_of(SUITE, {"m": Often(1.0)})
    row, episode = rows_of(run)[0], plan_from_table(run.plan)[0]
    again = asyncio.run(reread_turn(SUITE, episode, row, {1: Reply("purple"), 0: stored_reply(row["turns"][0])}))
    assert again == [(1, "purple"), (0, row["turns"][0]["action"])]


def test_stored_replies_come_back_whole():
    run = run_of(SUITE, {"m": Often(1.0, tokens=8, cost=0.5)})
    reply = stored_reply(rows_of(run)[0]["turns"][0])
    assert (reply.prompt_tokens, reply.completion_tokens, reply.reasoning_tokens, reply.cost) == (80, 8, 4, 0.5)
    assert reply.label_scores is None and reply.finish == "stop"


# --- asked again -----------------------------------------------------------------------------------------------------


def test_a_sample_is_a_share_of_all_turns_and_the_same_each_time():
    turns = {f"e{number}": 10 for number in range(20)}
    chosen = sample_turns_to_ask(turns, 0.1)
    assert sum(map(len, chosen.values())) == 20 and chosen == sample_turns_to_ask(dict(reversed(turns.items())), 0.1)
    assert chosen != sample_turns_to_ask(turns, 0.1, seed=1)
    assert sample_turns_to_ask({"e": 3}, 0.0001) and sample_turns_to_ask({"e": 2}, 1.0) == {"e": [0, 1]}
    assert sample_turns_to_ask({}, 0.5) == {}


def again(number, text="a", action="x", shift=None):
    return Again("toy", f"episode{number}", number, "a", text, "x", action, shift)


def test_agreement_is_counted_by_suite():
    asked = [again(0), again(1), again(2, text="ab"), again(3, text="b", action="y")]
    ((suite, turns, texts, actions),) = agreement_table(asked, 2).rows
    assert (suite, turns, texts.mean, actions.mean) == ("toy", 4, 0.5, 0.75)
    assert any("2 turns" in note for note in agreement_table(asked, 2).notes)
    assert not any("turns could" in note for note in agreement_table(asked, 0).notes)
    rows = disagreement_table(asked, 5).rows
    assert [row[:4] for row in rows] == [("episode3", 3, "x", "y"), ("episode2", 2, "x", "x")], "other actions first"
    assert rows[0][4] == "character 0 of 1" and rows[1][4] == "character 1 of 1"
    assert len(disagreement_table(asked, 1).rows) == 1


def test_the_largest_shift_of_a_label_is_shown():
    stored = {"labels": [{"label": "A", "logprob": -1.0}, {"label": "B", "logprob": -2.0}]}
    shift = label_shift(stored, Reply("A", label_scores=LabelScores((-1.25, -2.125), 0.5, True)))
    assert shift == 0.25 and label_shift({"labels": None}, Reply("A")) is None
    table = agreement_table([again(0, shift=0.25), again(1, shift=0.125)], 0)
    assert table.columns[-1] == "largest shift" and table.rows[0][-1] == 0.25


@pytest.mark.parametrize("name", ["oracle", "random"])
def test_every_built_in_player_of_every_suite_reads_the_same_again(name):
    run = run_of(KumoSuite(**KUMO), {name: BUILT_IN_PLAYERS[name]})
    found = rescored(KumoSuite(**KUMO), run)
    assert not found.changes and found.counts[name, "kumo"]["other course"] == 0
