"""KUMO's plan and play: perfect play, chance, and models that slip."""

import asyncio
import dataclasses
import itertools
import pickle
from collections import Counter

import pytest

from envs.kumo import generate_tasks, load_domain, write_book, write_tasks
from evals.players import OraclePlayer
from evals.suite import play_episode
from evals.suites.kumo import KumoSuite, optima, prompts
from evals.suites.kumo.searched_game import puzzles_of
from evals.types import Reply, message

SMALL = KumoSuite(domains=["medical", "music"], difficulties=["easy"], tasks_per_domain=6, repeats=2)


class ScriptedPlayer:
    """Replies from a script, in order, and remembers what it was asked."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.turns = []

    async def reply(self, turn):
        self.turns.append(turn)
        reply = self.replies[len(self.turns) - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Reply) else Reply(reply, prompt_tokens=100, completion_tokens=10)


def answer(name):
    return f"Let me think.\n<ANSWER> {name} </ANSWER>"


def play(suite, player, episode=None):
    return asyncio.run(play_episode(suite, episode or suite.plan()[0], player))


@pytest.fixture(scope="module")
def task():
    return puzzles_of("medical", "easy", 6)[0].task


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_default_plan_is_the_papers():
    plan = KumoSuite(tasks_per_domain=2).plan()
    assert Counter((episode.task, episode.level) for episode in plan) == {
        (domain, level): 10
        for domain in ("medical", "chemical", "music", "education", "fantasy")
        for level in ("easy", "hard")
    }
    assert {episode.mode for episode in plan} == {"zero_shot"} and {episode.budget for episode in plan} == {50}
    assert KumoSuite().tasks_per_domain == 50


def test_a_larger_plan_contains_the_smaller_one():
    larger = KumoSuite(difficulties=["easy"], tasks_per_domain=8, repeats=3).plan()
    assert {episode.id for episode in SMALL.plan()} < {episode.id for episode in larger}


@pytest.mark.parametrize("change", [{"decoder": "strict"}, {"max_steps": 9}, {"book": "table"}])
def test_what_changes_the_conversation_changes_the_ids(change):
    changed = dataclasses.replace(SMALL, **change).plan()
    assert not {episode.id for episode in changed} & {episode.id for episode in SMALL.plan()}


@pytest.mark.parametrize("version", ["READER_VERSION", "PROMPT_FINGERPRINT"])
def test_another_reading_or_other_words_change_the_ids(version, monkeypatch):
    before = {episode.id for episode in SMALL.plan()}
    monkeypatch.setattr(f"evals.suites.kumo.suite.{version}", "another")
    assert not before & {episode.id for episode in SMALL.plan()}


def test_an_edited_domain_changes_the_ids(tmp_path):
    from envs.kumo.domain_file import DOMAINS

    text = (DOMAINS / "medical.yaml").read_text(encoding="utf-8")
    plans = []
    for folder, content in (("a", text), ("b", text), ("c", text.replace("goal: ", "goal: Mind that "))):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "medical.yaml"
        path.write_text(content, encoding="utf-8")
        if folder == "c":
            assert load_domain(path).goal != load_domain("medical").goal
        plans.append(dataclasses.replace(SMALL, domains=[str(path)]).plan())
    same, copy, edited = ({episode.id for episode in plan} for plan in plans)
    assert same == copy and not same & edited
    assert same < {episode.id for episode in SMALL.plan()}, "a path to the same content is the same game"


def test_a_task_file_is_played_instead_of_generated_tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    medical = generate_tasks(load_domain("medical"), count=3)
    write_tasks(path, [*generate_tasks(load_domain("music"), count=4, seed=8), *medical])
    suite = KumoSuite(tasks=str(path), repeats=1)
    plan = suite.plan()
    assert Counter((episode.task, episode.level) for episode in plan) == {("music", "easy"): 4, ("medical", "easy"): 3}
    assert {episode.id for episode in plan if episode.task == "medical"} < {episode.id for episode in SMALL.plan()}
    for episode in plan:
        assert play(suite, OraclePlayer(), episode).outcome.success
    assert len(dataclasses.replace(suite, tasks_per_domain=2).plan()) == 4
    assert len(dataclasses.replace(suite, domains="music").plan()) == 4
    with pytest.raises(
        ValueError, match=r"no hard tasks of medical, fantasy; it has 4 of 4x6 \(music\), 3 of 4x6 \(medical\)"
    ):
        dataclasses.replace(suite, domains=["medical", "fantasy"], difficulties=["hard"]).plan()
    assert suite.puzzle("medical", "easy", 2).task == medical[2]
    with pytest.raises(
        ValueError, match=r"tasks.jsonl holds 3 easy tasks of medical, fewer than when the game was planned"
    ):
        suite.puzzle("medical", "easy", 3)


def tiny_domain(folder):
    """Five truths and six actions; enough for a few easy tasks."""
    truths = "".join(f"  T{i}: A thing of the made-up kind, number {i}.\n" for i in range(5))
    actions = "".join(
        f"  Look {i}: {{definition: One looks from side number {i}., outcomes: "
        f"{{plain: [T{i % 5}], odd: [T{(i + 1) % 5}]}}}}\n"
        for i in range(6)
    )
    path = folder / "tiny.yaml"
    path.write_text(
        "name: tiny\ntitle: Tiny\ngoal: Find it.\ntruth: {singular: thing, plural: things}\n"
        f"action: {{singular: look, plural: looks}}\ntruths:\n{truths}actions:\n{actions}"
    )
    return path


def test_a_suite_takes_lists_names_and_all_and_can_be_pickled():
    assert KumoSuite(domains="medical") == KumoSuite(domains=["medical"])
    assert set(KumoSuite(domains="all").domains) >= {"medical", "chemical", "music", "education", "fantasy"}
    assert KumoSuite(domains=["all", "my.yaml"]).domains == (*KumoSuite(domains="all").domains, "my.yaml")
    assert pickle.loads(pickle.dumps(SMALL)) == SMALL
    assert hash(SMALL) == hash(dataclasses.replace(SMALL))


# --- the built-in players --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", ["lenient", "strict"])
@pytest.mark.parametrize("difficulty", ["easy", "hard"])
def test_the_oracle_names_the_valid_truth_of_every_task_in_the_optimal_number_of_actions(difficulty, decoder):
    suite = KumoSuite(difficulties=[difficulty], tasks_per_domain=4, repeats=1, decoder=decoder)
    known = [optima.game_key(puzzle.task) in optima.known_optima() for puzzle in suite.puzzles()]
    assert difficulty == "easy" or all(known), "searching would take minutes: run python -m evals.suites.kumo"
    for episode in suite.plan():
        record = play(suite, OraclePlayer(), episode)
        outcome = record.outcome
        assert outcome.success, (episode.task, episode.index)
        assert outcome.steps == outcome.extra["tests"] + 1 == outcome.extra["optimal_actions"] == len(record.turns)
        assert outcome.extra["n_actions"] == {"easy": 6, "hard": 16}[difficulty]
        assert outcome.extra["parse_errors"] == 0


# --- the conversation ------------------------------------------------------------------------------------------------


def test_a_game_is_one_growing_chat(task):
    first, second = task.action_names[:2]
    player = ScriptedPlayer(answer(first), answer(second), answer(task.valid_truth))
    record = play(SMALL, player)
    chats = [turn.chat for turn in player.turns]
    assert [[entry.role for entry in chat] for chat in chats] == [
        ["system", "user"],
        ["system", "user", "assistant", "user"],
        ["system", "user", "assistant", "user", "assistant", "user"],
    ]
    for before, after in itertools.pairwise(chats):
        assert after[: len(before)] == before
    assert chats[1][2] == message("assistant", answer(first))
    assert f"Outcome of {first}: {task.observation_text(first)}" in chats[1][3].parts[0]
    assert all(chat[-1].parts[0].endswith("<ANSWER> name </ANSWER>") for chat in chats)
    assert player.turns[0].options == (*task.action_names, *task.truths)
    assert [(played.action, played.rule) for played in record.turns] == [
        (first, "tag, name"),
        (second, "tag, name"),
        (task.valid_truth, "tag, name"),
    ]
    assert (record.outcome.success, record.outcome.steps) == (True, 3)


def test_repeating_a_test_shows_the_same_and_counts_again(task):
    first = task.action_names[0]
    player = ScriptedPlayer(answer(first), answer(first), answer(task.valid_truth))
    outcome = play(SMALL, player).outcome
    assert (outcome.steps, outcome.extra["tests"]) == (3, 2)
    assert player.turns[1].chat[-1] == player.turns[2].chat[-1]
    assert player.turns[1].oracle() == player.turns[2].oracle(), "perfect play goes on from what is known"


def test_one_unread_reply_is_answered_with_a_reminder_and_noted(task):
    first = task.action_names[0]
    player = ScriptedPlayer("Hm, hard to say.", answer(first), answer("the moon"), answer(task.valid_truth))
    record = play(SMALL, player)
    assert (record.outcome.success, record.outcome.steps) == (True, 2)
    assert record.outcome.extra["parse_errors"] == 2 and record.outcome.extra["parse_failed"] is False
    assert [(played.action, played.rule) for played in record.turns] == [
        (None, "two answers"),
        (first, "tag, name"),
        (None, "no answer"),
        (task.valid_truth, "tag, name"),
    ]
    assert "cannot be read" in player.turns[1].chat[-1].parts[0]
    assert "cannot be read" not in player.turns[2].chat[-1].parts[0]


def test_a_name_that_a_reply_did_not_live_to_finish_is_not_taken(task):
    cut = Reply(f"<ANSWER> {task.valid_truth}", finish="length")
    record = play(SMALL, ScriptedPlayer(cut, answer(task.valid_truth)))
    assert (record.outcome.success, record.outcome.extra["parse_errors"]) == (True, 1)
    assert [(played.action, played.rule) for played in record.turns] == [
        (None, "cut off"),
        (task.valid_truth, "tag, name"),
    ]
    complete = Reply(f"{answer(task.valid_truth)} And now", finish="length")
    assert play(SMALL, ScriptedPlayer(complete)).outcome.success
    strict = dataclasses.replace(SMALL, decoder="strict")
    record = play(strict, ScriptedPlayer(complete), strict.plan()[0])
    assert record.outcome.extra["parse_failed"] and record.turns[0].rule == "parse error"


def test_the_reminder_after_a_cut_reply_says_that_it_was_cut(task):
    cut = Reply("Let me consider each of the", finish="length")
    player = ScriptedPlayer(cut, answer(task.valid_truth))
    record = play(SMALL, player)
    assert record.outcome.success and record.turns[0].rule == "cut off"
    reminder = player.turns[1].chat[-1].parts[0]
    assert "cut off" in reminder and "cannot be read" not in reminder
    player = ScriptedPlayer("Hm.", answer(task.valid_truth))
    play(SMALL, player)
    assert "cut off" not in player.turns[1].chat[-1].parts[0]


def test_two_unread_replies_in_a_row_end_the_game(task):
    record = play(SMALL, ScriptedPlayer("Hm.", "Still: hm.", answer(task.valid_truth)))
    outcome = record.outcome
    assert (outcome.success, outcome.steps, len(record.turns)) == (False, 0, 2)
    assert (outcome.extra["parse_errors"], outcome.extra["parse_failed"], outcome.extra["predicted"]) == (2, True, None)


def test_strict_decoding_ends_at_the_first_slip_that_lenient_decoding_forgives(task):
    strict = dataclasses.replace(SMALL, decoder="strict")
    reply = answer(f"**{task.valid_truth.lower()}**")
    assert play(SMALL, ScriptedPlayer(reply)).outcome.success
    record = play(strict, ScriptedPlayer(reply), strict.plan()[0])
    assert (record.outcome.success, record.outcome.steps) == (False, 0)
    assert record.outcome.extra["parse_failed"] and record.turns[0].rule == "parse error"


def test_a_game_without_end_ends_at_the_step_limit(task):
    suite = dataclasses.replace(SMALL, max_steps=5)
    names = task.action_names
    record = play(suite, ScriptedPlayer(*(answer(names[i % 6]) for i in range(9))), suite.plan()[0])
    assert (record.outcome.success, record.outcome.steps, len(record.turns)) == (False, 5, 5)
    assert record.outcome.extra["parse_failed"] is False and record.outcome.extra["predicted"] is None


@pytest.mark.parametrize("count", [1, 2])
def test_a_prompt_speaks_of_as_many_right_truths_as_there_are(count):
    domain = load_domain("medical")
    [task] = generate_tasks(domain, 6, 8, 1, valid_truths=count)
    rules = prompts.opening(task, domain, write_book(task, domain, "symbolic"), 20)[0].parts[0]
    right = "right disease" if count == 1 else "right diseases"
    assert (
        f"would leave only the {right}; so" in rules
        and f"Find {'the' if count == 1 else 'a'} right disease in" in rules
    )
    assert ("Exactly 2 diseases of the list" in rules) == (count == 2)
