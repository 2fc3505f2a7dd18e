"""Stored replies played again: the same reading gives the same run, another one changes what it should."""

import dataclasses
import itertools
import re
from dataclasses import replace

import pytest

from evals.analysis import recorded
from evals.analysis.recorded import stored_reply
from evals.analysis.rescore import changes_table, planned_anew, reread_turn, rescore, rescored_run, rescored_table
from evals.analysis.retest import Again, agreement_table, disagreement_table, label_shift, sample_turns_to_ask
from evals.conversation import PlayedTurn, Record
from evals.ledger.records import plan_from_table, records_to_table
from evals.players import BUILT_IN_PLAYERS
from evals.stats.intervals import proportion_estimate
from evals.suite import ledger_columns
from evals.suite_results import suite_results
from evals.suites.kumo import KumoSuite
from evals.types import LabelScores, PlayerError, Reply, Turn, message
from tests.runs import Often, run_of
from tests.toy import ToySuite

SUITE = ToySuite(episodes=10)
KUMO = {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 3, "repeats": 1}


class Untagged:
    """Perfect play that only a lenient decoder reads."""

    async def reply(self, turn):
        return Reply(f"I choose {turn.oracle()}.".replace("I choose <ANSWER>", "").replace("</ANSWER>", ""))


class Thoughtful(Untagged):
    """Thinks before each reply."""

    async def reply(self, turn):
        text = turn.oracle()
        return Reply(text, reasoning=f"It should be {text}.")


def rows_of(run):
    return run.find(run.plan["episode_id"].to_pylist())


def rescored(suite, run):
    episodes = {episode.id: episode for episode in plan_from_table(run.plan)}
    return rescore(suite, episodes, rows_of(run))


def test_tokens_and_cut_off_replies_count_as_they_did():
    """Of the turns that the new reading still plays; the turns themselves are left out."""
    run = run_of(SUITE, {"m": Often(0.5)})
    summed = ["prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "cost", "cut_off"]
    turn = {"prompt_tokens": 5, "completion_tokens": 4, "reasoning_tokens": 3, "cached_tokens": 2, "cost": 0.5}
    rows = [{**row, "turns": [{**each, **turn, "finish": "length"} for each in row["turns"]]} for row in rows_of(run)]
    found = rescore(SUITE, {episode.id: episode for episode in plan_from_table(run.plan)}, rows).rows[0]
    turns = [len(row["turns"]) for row in rows]
    assert found.select(summed).to_pylist() == [
        {**{name: turn.get(name, 1) * count for name in summed}, "cut_off": count} for count in turns
    ]
    assert found["turns"].to_pylist() == [[]] * len(rows)


def test_read_by_the_same_rules_nothing_changes():
    run = run_of(SUITE, {"m": Often(0.5)}, failing=(3,))
    found = rescored(SUITE, run)
    ((_, _, turns, differently, episodes, other, _, old, new),) = rescored_table(found).rows
    assert (turns, differently, episodes, other) == (sum(map(SUITE._length, range(10))) - 3, 0, 10, 0)
    assert old == new and changes_table(found, 5).rows == ()
    tables = [suite_results(SUITE, each, "scores") for each in (run, rescored_run(found, run))]
    assert tables[0][0].rows == tables[1][0].rows
    failed = ["episode_id", "error", "error_kind"]
    old_failures, new_failures = (
        [row for row in each.episodes(failed).to_pylist() if row["error"]] for each in (run, rescored_run(found, run))
    )
    assert new_failures == old_failures and len(old_failures) == 1


def test_replies_with_reasoning_are_read_like_others():
    found = rescored(KumoSuite(**KUMO), run_of(KumoSuite(**KUMO), {"m": Thoughtful()}))
    ((_, _, turns, differently, episodes, other, _, old, new),) = rescored_table(found).rows
    assert turns > episodes == 3 and (differently, other) == (0, 0) and old == new


def test_another_decoder_reads_otherwise_and_the_ledger_is_only_read():
    run = run_of(KumoSuite(**KUMO), {"m": Untagged()})
    before = run.episodes().to_pylist()
    assert all(row["success"] for row in before)
    found = rescored(KumoSuite(**KUMO, decoder="strict"), run)
    ((_, _, _, differently, episodes, other, _, old, new),) = rescored_table(found).rows
    assert (differently, episodes, other) == (3, 3, 0), "the first reply that cannot be read ends a game"
    assert (old.mean, new.mean) == (1, 0)
    row = changes_table(found, 2).rows[0]
    assert row[1] == 0 and row[3] != "–" and row[4:] == ("–", "parse error") and len(changes_table(found, 2).rows) == 2
    assert run.episodes().to_pylist() == before


def test_games_have_the_budgets_of_the_new_settings_and_only_planned_ones_are_read():
    suite = KumoSuite(**KUMO, tell_budget=False)
    run = run_of(suite, {"oracle": BUILT_IN_PLAYERS["oracle"]})
    stored = {episode.id: episode for episode in plan_from_table(run.plan)}
    assert planned_anew(suite, stored) == stored
    shorter = replace(suite, max_steps=1)
    ((_, _, turns, _, episodes, other, _, old, new),) = rescored_table(
        rescore(shorter, planned_anew(shorter, stored), rows_of(run))
    ).rows
    assert (old.mean, new.mean, turns > episodes, other) == (1, 0, True, 0)
    for fewer in (replace(suite, seed=5), replace(suite, tasks_per_domain=1), replace(suite, domains=("knots",))):
        with pytest.raises(ValueError, match=r"do not plan .*decide how replies are read"):
            planned_anew(fewer, stored)


def test_a_game_that_goes_on_otherwise_has_no_new_outcome():
    run = run_of(KumoSuite(**KUMO, decoder="strict"), {"m": Untagged()})
    found = rescored(KumoSuite(**KUMO), run)
    ((_, _, turns, differently, episodes, other, _, _, new),) = rescored_table(found).rows
    assert (turns, differently, other) == (3, 3, 3 - episodes) and other > 0
    assert new.n == episodes


def test_prompts_of_another_version_are_another_course(monkeypatch):
    run = run_of(SUITE, {"m": Often(0.5)})
    found = rescored(ToySuite(episodes=10, turns=4), run)
    assert found.counts["m", "toy"]["other course"] == 10 and not found.cells


def test_episodes_whose_games_cannot_be_played_anew_are_not_lost_ones(monkeypatch):
    """Files of a data set may be gone. One that failed like this when it was played is a failed one still."""
    run = run_of(SUITE, {"m": Often(1.0)})
    real = ToySuite.play

    async def play(self, episode, conversation):
        if episode.index in (2, 5, 6):
            raise PlayerError(f"file {episode.index} is gone")
        return await real(self, episode, conversation)

    monkeypatch.setattr(ToySuite, "play", play)
    rows = rows_of(run)
    failed_then = {
        **rows[6],
        "success": False,
        "error": "PlayerError: file 6 is gone",
        "error_kind": "suite",
        "turns": [],
    }
    episodes = {episode.id: episode for episode in plan_from_table(run.plan)}
    found = rescore(SUITE, episodes, [*rows[:6], failed_then, *rows[7:]])
    ((_, _, _, _, read, other, unread, old, new),) = rescored_table(found).rows
    assert (read, other, unread) == (8, 0, 2) and old == new
    assert any(
        "1 x PlayerError: file 2 is gone; 1 x PlayerError: file 5 is gone" in note
        for note in rescored_table(found).notes
    )


def test_one_reply_is_read_in_place_of_the_stored_one():
    import asyncio

    run = run_of(SUITE, {"m": Often(1.0)})
    row, episode = rows_of(run)[0], plan_from_table(run.plan)[0]
    replies = {1: Reply("purple"), 0: stored_reply(row["turns"][0]), 99: Reply("red")}
    again = asyncio.run(reread_turn(SUITE, episode, row, replies))
    assert again == [(1, "purple"), (0, row["turns"][0]["action"]), (99, None)], "no turn has the number 99"


class Several(ToySuite):
    """Games of several tasks and levels, whose indices are the same, each three times."""

    def plan(self):
        games = [
            replace(each, task=task, level=level)
            for task in "ab"
            for level in "12"
            for each in super(Several, self).plan()
        ]
        return [replace(each, repeat=repeat, seed=each.index) for each in games for repeat in range(3)]


def test_repeats_of_a_game_are_one_cluster_and_every_player_has_a_row():
    suite = Several(episodes=3, turns=1)
    run = run_of(suite, {"m": Often(0.5), "oracle": BUILT_IN_PLAYERS["oracle"]}, failing=(2,))
    rows = rescored_table(rescored(suite, run)).rows
    assert [row[:2] for row in rows] == [("m", "toy"), ("oracle", "toy")]
    for row in rows:
        stored = [each for each in run.episodes().to_pylist() if each["player"] == row[0]]
        games = [(each["task"], each["level"], each["index"]) for each in stored]
        assert len(set(games)) == 12
        expected = proportion_estimate([bool(each["success"]) for each in stored], games)
        assert (row[4], row[7], row[8]) == (36, expected, expected)


def test_many_episodes_are_read_anew_each_once(monkeypatch):
    monkeypatch.setattr("evals.analysis.rescore.AT_ONCE", 4)
    run = run_of(SUITE, {"m": Often(0.5)})
    found = rescored(SUITE, run)
    assert [len(rows) for rows in found.rows] == [4, 4, 2]
    columns = ["episode_id", "success", "toy.right"]
    assert rescored_run(found, run).episodes(columns).to_pylist() == run.episodes(columns).to_pylist()


def test_an_episode_that_cannot_be_shown_again_is_another_course_and_the_next_one_is_read(monkeypatch):
    run = run_of(SUITE, {"m": Often(1.0)})
    real = recorded.chat_of

    def chat_of(turns, number):
        if any(game in repr(turns[0]["prompt"]) for game in ("Game 0,", "Game 4,")):
            raise ValueError("a picture of another version")
        return real(turns, number)

    monkeypatch.setattr(recorded, "chat_of", chat_of)
    found = rescored(SUITE, run)
    ((_, _, turns, differently, episodes, other, _, old, new),) = rescored_table(found).rows
    assert (turns, differently, episodes, other) == (sum(map(SUITE._length, range(10))), 0, 8, 2)
    assert (old.mean, new.mean, new.n) == (1, 1, 8)


def test_a_change_says_what_was_read_then_and_is_read_now(monkeypatch):
    run = run_of(SUITE, {"m": Often(1.0)})
    real = ToySuite.play

    async def play(self, episode, conversation):
        outcome = await real(self, episode, conversation)
        if episode.index == 1:
            conversation.turns[0].action, conversation.turns[0].rule = None, "nothing"
            conversation.turns[2].action, conversation.turns[2].rule = "other", "guess"
        return outcome

    monkeypatch.setattr(ToySuite, "play", play)
    row = rows_of(run)[1]
    found = rescored(SUITE, run)
    replies = [turn["reply"] for turn in row["turns"]]
    assert found.changes == [
        (row["episode_id"], 0, replies[0], replies[0], "exact", None, "nothing"),
        (row["episode_id"], 2, replies[2], replies[2], "exact", "other", "guess"),
    ]
    assert found.counts["m", "toy"]["read differently"] == 2
    table = changes_table(found, 9)
    name = row["episode_id"][:12]
    assert table.rows == (
        (name, 0, replies[0], replies[0], "–", "nothing"),
        (name, 2, replies[2], replies[2], "other", "guess"),
    )
    assert [int(number) for number in re.findall(r"\d+", changes_table(found, 1).notes[0])] == [1, 2, 60]


SCORES = [None, *(LabelScores((-0.1, -3.0), 0.9, *flags) for flags in itertools.product((True, False), repeat=2))]


@pytest.mark.parametrize("scores", SCORES)
def test_stored_replies_come_back_whole(scores):
    reply = Reply("A", "length", 80, 8, 3, 0.25, scores, "thought", 4, 0.5)
    turn = Turn(SUITE.plan()[0], 0, (message("user", "A or B?"),), labels=("A", "B"))
    record = Record(turn.episode, None, "stopped", (PlayedTurn(turn, reply),), 0.5, "engine")
    [row] = records_to_table([record], ledger_columns(SUITE)).to_pylist()
    assert stored_reply(row["turns"][0]) == reply


# --- asked again -----------------------------------------------------------------------------------------------------


def test_a_sample_is_a_share_of_all_turns_and_the_same_each_time():
    turns = {f"e{number}": 10 for number in range(20)}
    chosen = sample_turns_to_ask(turns, 0.1)
    assert sum(map(len, chosen.values())) == 20 and chosen == sample_turns_to_ask(dict(reversed(turns.items())), 0.1)
    assert chosen != sample_turns_to_ask(turns, 0.1, seed=1)
    assert len(sample_turns_to_ask({"e": 3}, 0.0001)["e"]) == 1
    assert sample_turns_to_ask({"e": 2}, 1.0) == {"e": [0, 1]}
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


SCORED = Reply("A", label_scores=LabelScores((-0.5, -2.125), 0.5, True))


def test_the_largest_shift_of_a_label_is_shown():
    stored = {"labels": [{"label": "A", "logprob": -1.0}, {"label": "B", "logprob": -2.0}]}
    shift = label_shift(stored, Reply("A", label_scores=LabelScores((-1.25, -2.125), 0.5, True)))
    assert shift == 0.25 and label_shift({"labels": None}, Reply("A")) is None
    assert label_shift(stored, Reply("A")) is None and label_shift({"labels": None}, SCORED) is None
    assert label_shift(stored, SCORED) == 0.5, "a rise counts as much as a fall"
    table = agreement_table([again(0, shift=0.25), again(1, shift=0.125)], 0)
    assert table.columns[-1] == "largest shift" and table.rows[0][-1] == 0.25


def test_agreement_is_clustered_by_episode_and_every_suite_has_its_row():
    asked = [dataclasses.replace(again(number, text="ab" if number < 3 else "a"), episode="e") for number in range(3)]
    asked += [dataclasses.replace(again(number), episode="f") for number in range(3)]
    asked.insert(2, dataclasses.replace(again(7, action="y", shift=0.5), suite="other"))
    (suite, turns, texts, actions, none), other = agreement_table(asked, 0).rows
    assert (suite, turns, texts, actions.mean, none) == (
        *("toy", 6, proportion_estimate([False] * 3 + [True] * 3, ["e"] * 3 + ["f"] * 3), 1.0, None),
    )
    assert (*other[:2], other[2].mean, other[3].mean, other[4]) == ("other", 1, 1.0, 0.0, 0.5)
    assert actions == proportion_estimate([True] * 6, ["e"] * 3 + ["f"] * 3) != proportion_estimate([True] * 6)


def test_where_replies_differ_is_said_by_character():
    asked = [Again("toy", "e", 0, old, new, "x", action) for old, new, action in DIFFERING]
    assert [row[4] for row in disagreement_table(asked, 9).rows] == [
        *("nowhere", "character 2 of 4", "character 1 of 3", "character 3 of 3")
    ]
    assert [int(number) for number in re.findall(r"\d+", disagreement_table(asked, 2).notes[0])] == [2, 4]


DIFFERING = [
    *(("abcd", "abXd", "x"), ("abc", "a", "x"), ("abc", "abcd", "x")),
    *(("same", "same", "y"), ("same", "same", "x")),
]
"""Old and new reply, and the new action where the old one is x."""


def test_two_replies_that_cannot_be_read_have_no_action_in_common():
    unread = Again("toy", "e", 0, "riddle", "riddle", None, None)
    assert unread.same_text and not unread.same_action
    assert agreement_table([unread], 0).rows[0][3].mean == 0
