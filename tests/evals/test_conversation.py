"""What a turn carries, what is kept of a reply, and how the built-in players answer."""

import asyncio
import math
import sys
import threading
from contextvars import ContextVar

import pytest

from evals.conversation import Conversation, PlayedTurn
from evals.players import OraclePlayer, RandomPlayer, ShortcutPlayer
from evals.replies.reasoning import separate_reasoning
from evals.searches import AT_ONCE, found_by
from evals.types import (
    LabelScores,
    Outcome,
    PlayerError,
    PromptTooLong,
    Reply,
    Turn,
    message,
    stable_hash,
    stable_seed,
)
from tests.evals.test_records import an_episode

EPISODE = an_episode()
CHAT = (message("system", "Be brief."), message("user", "Red or green?"))


class Echo:
    """Replies with the number of the turn, the first turn last."""

    async def reply(self, turn):
        if turn.number == 0:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return Reply(f"<think>hm {turn.number}</think>{turn.number}", finish="length", completion_tokens=7)


def answer(player, turn):
    return asyncio.run(player.reply(turn))


# --- ids and seeds ---------------------------------------------------------------------------------------------------


def test_hashes_and_seeds_are_the_same_in_every_process_and_version():
    """They name the rows of ledgers that are already written: a change here makes every one of them foreign."""
    assert stable_hash("a", 1, None, ["é", {"y": 1.5, "x": True}]) == "006469abcc1b942b18663827d535a303"
    assert stable_seed("a", 1) == 2604826087015489387
    assert stable_hash("a", {"x": 1, "y": 2}) == stable_hash("a", {"y": 2, "x": 1})
    assert stable_hash("a", "b") != stable_hash("ab") and stable_hash(1) != stable_hash("1")
    assert all(0 <= stable_seed(number) < 2**63 for number in range(200))
    assert max(stable_seed(number) for number in range(200)) > 2**62


@pytest.mark.parametrize(
    "change",
    [
        *({"suite": "go"}, {"task": "music"}, {"level": "hard"}, {"mode": "cot"}, {"index": 1}, {"repeat": 0}),
        *({"seed": 5}, {"fingerprint": "abd"}, {"player": "other"}),
    ],
)
def test_an_id_depends_on_what_defines_the_episode(change):
    assert an_episode(**change).id != EPISODE.id


def test_an_id_does_not_depend_on_what_the_scheduler_expects():
    assert an_episode(budget=1, calls=9.0, prompt_tokens=3.0, group="g").id == EPISODE.id == an_episode().id


def test_an_assigned_episode_is_the_same_game_for_that_player():
    one, same, other = (EPISODE.assigned("p", fingerprint) for fingerprint in ("x", "x", "y"))
    assert one == same and one.id != other.id and one.player == other.player == "p"
    assert (one.seed, one.index, one.budget) == (EPISODE.seed, EPISODE.index, EPISODE.budget)
    assert one.fingerprint == stable_hash("abc", "x"), "the suite's own part stays in it"
    assert EPISODE.assigned("q", "x").id != one.id


def test_an_episode_without_a_group_is_its_own():
    assert EPISODE.affinity == EPISODE.id and an_episode(group="g").affinity == "g"


def test_a_turns_seed_depends_on_episode_and_number():
    seeds = {Turn(episode, number, ()).seed for episode in (EPISODE, an_episode(1)) for number in (0, 1)}
    assert len(seeds) == 4 and Turn(EPISODE, 1, CHAT).seed == Turn(EPISODE, 1, ()).seed


# --- errors and outcomes ---------------------------------------------------------------------------------------------


def test_an_error_says_whose_it_is():
    assert PlayerError("why").kind == PromptTooLong("why").kind == "model"
    assert PlayerError("why", "endpoint").kind == "endpoint" and str(PlayerError("why", "engine")) == "why"
    assert str(PlayerError()) == ""


def test_credit_is_the_score_or_what_success_stands_for():
    assert [Outcome(success, 1).credit for success in (True, False)] == [1.0, 0.0]
    assert [Outcome(True, 1, score).credit for score in (0.0, 0.25)] == [0.0, 0.25]


@pytest.mark.parametrize(
    ("finish", "cut"), [("stop", False), ("refusal", False), ("length", True), ("content_filter", True)]
)
def test_a_reply_is_cut_off_where_the_model_was_not_done(finish, cut):
    assert Reply("x", finish=finish).cut_off is cut


# --- asking ----------------------------------------------------------------------------------------------------------


def test_turns_are_numbered_as_asked_and_recorded_with_all_they_carry():
    conversation = Conversation(EPISODE, Echo())

    def oracle():
        return "red"

    def left(action):
        return 3.0

    def told():
        return ()

    async def ask():
        return await asyncio.gather(
            conversation.ask(CHAT, options=("red", "green"), oracle=oracle, shortcuts={"first": oracle}),
            conversation.ask(CHAT[:1], labels=("A", "B"), schema="{}", remaining=left, features=told),
        )

    first, second = asyncio.run(ask())
    assert first.turn == Turn(EPISODE, 0, CHAT, ("red", "green"), (), oracle, {"first": oracle})
    assert second.turn == Turn(EPISODE, 1, CHAT[:1], (), ("A", "B"), None, {}, "{}", left, told)
    assert conversation.turns == {0: first, 1: second} and list(conversation.turns) == [1, 0]
    assert (first.reply.text, first.reply.reasoning, first.reply.finish) == ("0", "hm 0", "length")
    assert (second.reply.text, second.reply.completion_tokens) == ("1", 7)
    assert first == PlayedTurn(first.turn, first.reply, None, "")


def test_a_turn_that_was_not_answered_is_not_recorded():
    conversation = Conversation(EPISODE, OraclePlayer())
    with pytest.raises(PlayerError):
        asyncio.run(conversation.ask(CHAT))
    assert conversation.turns == {}
    for _ in range(2):
        asyncio.run(conversation.ask(CHAT, oracle=lambda: "x"))
    assert list(conversation.turns) == [1, 2], "a number is never given twice"


@pytest.mark.parametrize(
    ("said", "text", "thought"),
    [
        ("red", "red", ""),
        ("<think>warm</think>\n\n red \n", "red \n", "warm"),
        ("  <thinking> warm\n</thinking>red", "red", "warm"),
        ("<reasoning>warm</reasoning>red", "red", "warm"),
        ("warm, so</think>red", "red", "warm, so"),
        ("<think>one</think>two<think>three</think>red", "red", "one</think>two<think>three"),
        ("<think>never done", "", "never done"),
        ("\n<think>never done", "", "never done"),
        ("red <think>after", "red <think>after", ""),
        ("</think>red", "red", ""),
        ("<thinker>red", "<thinker>red", ""),
        ("[THINK]warm[/THINK]red", "red", "warm"),
        ("<seed:think>warm</seed:think>red", "red", "warm"),
        ("◁think▷warm◁/think▷red", "red", "warm"),
        ("<|START_THINKING|>warm<|END_THINKING|><|START_RESPONSE|>red<|END_RESPONSE|>", "red", "warm"),
        ("<|channel>thought\nwarm\n<channel|>red", "red", "warm"),
        (
            "<|channel|>analysis<|message|>warm<|end|><|start|>assistant<|channel|>final<|message|>red<|return|>",
            "red",
            "warm",
        ),
        ("analysisIt is warm.assistantfinalred", "red", "It is warm."),
        ("analysisIt is warm, so", "", "It is warm, so"),
        ("analysis of the colors: assistantfinal red", "analysis of the colors: assistantfinal red", ""),
        ("<think>warm</think><|begin_of_box|>red<|end_of_box|>", "red", "warm"),
        ("<|begin_of_thought|>warm<|end_of_thought|><|begin_of_solution|>red<|end_of_solution|>", "red", "warm"),
        ("<unused94>thought\nwarm<unused95>red", "red", "warm"),
        ("<unused94>thought\nnever done", "", "never done"),
        ("<scratchpad>\nwarm\n</scratchpad>\nred", "red", "warm"),
        ("<antThinking>warm</antThinking>red", "red", "warm"),
        ("<|thinking|>warm<|/thinking|>red", "red", "warm"),
        ("<analysis>warm</analysis>\n<reflection>so</reflection>\nred", "red", "warm\nso"),
        ("<think>warm</think><thought>so</thought>red", "red", "warm\nso"),
        # tags that any model writes hold no thought elsewhere, nor where nothing is said behind them
        ("red\n<reflection>warm</reflection>", "red\n<reflection>warm</reflection>", ""),
        ("<Action>red</Action><Thought>warm</Thought>.", "<Action>red</Action><Thought>warm</Thought>.", ""),
        ("<analysis>so red</analysis>\n", "<analysis>so red</analysis>\n", ""),
        ("<analysis>so red", "<analysis>so red", ""),
        ("<thought>warm</analysis>red", "<thought>warm</analysis>red", ""),
    ],
)
def test_thinking_is_told_from_the_answer(said, text, thought):
    reply = separate_reasoning(Reply(said, finish="length", completion_tokens=3))
    assert reply == Reply(text, finish="length", completion_tokens=3, reasoning=thought)


def test_reasoning_that_came_apart_is_kept_in_front():
    assert separate_reasoning(Reply("<think>b</think>red", reasoning="a")).reasoning == "a\nb"
    assert separate_reasoning(Reply("red", reasoning="a")) == Reply("red", reasoning="a")


# --- built-in players ------------------------------------------------------------------------------------------------

CERTAIN = LabelScores((-math.inf, 0.0, -math.inf), mass=1.0, argmax_is_label=True)


def test_the_oracle_says_what_the_suite_knows():
    assert answer(OraclePlayer(), Turn(EPISODE, 0, CHAT, oracle=lambda: "red")) == Reply("red")
    labeled = Turn(EPISODE, 0, CHAT, labels=("A", "B", "C"), oracle=lambda: "B")
    assert answer(OraclePlayer(), labeled) == Reply("B", label_scores=CERTAIN)
    with pytest.raises(PlayerError, match="kumo"):
        answer(OraclePlayer(), Turn(EPISODE, 0, CHAT, shortcuts={"first": lambda: "red"}))


def test_a_shortcut_says_what_the_suite_offers_under_its_name():
    shortcuts = {"first": lambda: "B", "last": lambda: "C"}
    turn = Turn(EPISODE, 0, CHAT, oracle=lambda: "A", shortcuts=shortcuts)
    assert answer(ShortcutPlayer("first"), turn) == Reply("B")
    assert answer(ShortcutPlayer("last"), turn) == Reply("C")
    labeled = Turn(EPISODE, 0, CHAT, labels=("A", "B", "C"), shortcuts=shortcuts)
    assert answer(ShortcutPlayer("first"), labeled) == Reply("B", label_scores=CERTAIN)
    with pytest.raises(PlayerError, match=r"kumo.*middle"):
        answer(ShortcutPlayer("middle"), turn)


def test_random_draws_every_option_about_as_often_and_the_same_one_when_asked_again():
    turns = [Turn(an_episode(index), 0, CHAT, options=("a", "b", "c")) for index in range(300)]
    drawn = [answer(RandomPlayer(), turn) for turn in turns]
    assert drawn == [answer(RandomPlayer(), turn) for turn in turns]
    counts = [drawn.count(Reply(option)) for option in "abc"]
    assert sum(counts) == 300 and min(counts) > 70


def test_random_scores_all_labels_alike_and_prefers_options():
    reply = answer(RandomPlayer(), Turn(EPISODE, 0, CHAT, labels=("A", "B", "C", "D")))
    assert reply.text in "ABCD"
    assert reply.label_scores == LabelScores((-math.log(4),) * 4, mass=1.0, argmax_is_label=True)
    assert answer(RandomPlayer(), Turn(EPISODE, 0, CHAT, options=("x",), labels=("A",))).text == "x"
    with pytest.raises(PlayerError):
        answer(RandomPlayer(), Turn(EPISODE, 0, CHAT))


async def test_a_search_that_finds_nothing_fails_and_is_not_waited_for():
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(found_by(lambda: next(iter(()))), 10)


def test_a_search_under_way_keeps_neither_a_stopped_loop_nor_the_program_waiting():
    ended, begun = threading.Event(), []
    rescue = threading.Timer(20, ended.set)
    rescue.start()

    def search():
        begun.append(threading.current_thread())
        ended.wait()

    async def stopped():
        playing = [asyncio.ensure_future(found_by(search)) for _ in range(AT_ONCE + 5)]
        while len(begun) < AT_ONCE:
            await asyncio.sleep(0.01)
        for each in playing:
            each.cancel()
        await asyncio.gather(*playing, return_exceptions=True)

    asyncio.run(stopped())
    assert not ended.is_set(), "the end of the loop has waited for the searches"
    rescue.cancel()
    ended.set()
    assert len(begun) == AT_ONCE, "more searches run at the same time"
    assert all(thread.daemon for thread in begun), "the end of the program would wait for them"


async def test_a_search_sees_the_settings_of_its_episode_and_what_it_raises_is_raised():
    setting = ContextVar("setting", default="none")
    setting.set("of the episode")
    assert await found_by(lambda number, *, named: (setting.get(), number, named), 1, named=2) == (
        "of the episode",
        1,
        2,
    )
    with pytest.raises(ZeroDivisionError):
        await found_by(lambda: 1 // 0)
    with pytest.raises(SystemExit):
        async with asyncio.timeout(10):
            await found_by(sys.exit)
