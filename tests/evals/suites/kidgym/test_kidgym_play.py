"""KidGym's plan and play: perfect play, chance, and models that slip."""

import asyncio
import dataclasses
import itertools
import os
import pickle
import random
import re
import signal
import sys
from collections import Counter

import pytest

from envs.kidgym import TASKS, Frame, make, solve
from evals.players import OraclePlayer, RandomPlayer, ShortcutPlayer
from evals.suite import play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kidgym.example import example_seed, worked_example
from evals.suites.kidgym.feedback import Acted
from evals.suites.kidgym.presentation import DEFAULT
from evals.suites.kidgym.prompts import Dialogue
from evals.suites.kidgym.published_environment.worker import GameProcess
from evals.suites.kidgym.reasons import reason
from evals.suites.kidgym.shortcuts import SHORTCUTS, shortcut_action
from evals.suites.kidgym.templates import load_templates
from evals.types import PlayerError, Reply

MEMORY_TASKS = ["SE", "MMA", "MDE", "MFI"]
PLAIN_TASKS = [task for task in TASKS if task not in MEMORY_TASKS]


class ScriptedPlayer:
    """Replies what a function of the turn says, and remembers what it was asked."""

    def __init__(self, script):
        self.script = script
        self.turns = []

    async def reply(self, turn):
        self.turns.append(turn)
        text = self.script(turn)
        if isinstance(text, Exception):
            raise text
        return Reply(text, prompt_tokens=100, completion_tokens=10)


def perfect(turn):
    """The oracle's choice as a model would write it."""
    return f"<think>This one.</think>\n<answer>{turn.oracle()}</answer>"


def play(suite, player, episode=None):
    return asyncio.run(play_episode(suite, episode or suite.plan()[0], player))


def small(task, level=1, mode="zero_shot", **settings):
    return KidGymSuite(**{"tasks": [task], "levels": [level], "modes": [mode], "episodes": 3, **settings})


def pictures(chat):
    return [part for message in chat for part in message.parts if isinstance(part, Frame)]


def texts(chat):
    return "\n".join(part for message in chat for part in message.parts if isinstance(part, str))


# --- the plan --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full_plan():
    return KidGymSuite().plan()


@pytest.mark.slow
def test_the_default_plan_is_the_papers(full_plan):
    assert len(full_plan) == 10_800 == len({episode.id for episode in full_plan})
    cells = Counter((episode.task, episode.level, episode.mode) for episode in full_plan)
    assert cells == {
        (task, level, mode): 100 for task in TASKS for level in "123" for mode in ("zero_shot", "cot", "icl")
    }


@pytest.mark.slow
def test_all_modes_and_players_meet_the_identical_games(full_plan):
    seeds = {}
    for episode in full_plan:
        seeds.setdefault((episode.task, episode.level, episode.index), set()).add(episode.seed)
    assert all(len(of_game) == 1 for of_game in seeds.values())
    assert len({seed for of_game in seeds.values() for seed in of_game}) == 3600
    prefix = KidGymSuite(tasks=["SE"], levels=[2], episodes=7, modes=["icl"], resolution=32).plan()
    wanted = {(episode.index, episode.seed) for episode in prefix}
    assert wanted <= {
        (episode.index, episode.seed) for episode in full_plan if (episode.task, episode.level) == ("SE", "2")
    }


@pytest.mark.slow
def test_the_budget_is_the_games_and_longer_games_are_expected_to_cost_more(full_plan):
    assert {(episode.task, episode.level): episode.budget for episode in full_plan} == {
        (task, str(level)): TASKS[task].budgets[level - 1] for task in TASKS for level in (1, 2, 3)
    }
    expected = {(episode.task, episode.level, episode.mode): episode.prompt_tokens for episode in full_plan}
    for task in TASKS:
        for level in "123":
            assert expected[task, level, "icl"] > expected[task, level, "zero_shot"] > 441
    assert expected["CL", "3", "cot"] > expected["CL", "1", "cot"]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "told", [{}, {"history": "all"}, {"history": 1}, {"modality": "text"}, {"history": "all", "past_pictures": "text"}]
)
def test_estimates_of_calls_and_tokens_are_those_of_perfect_play(task, told):
    for mode in ("zero_shot", "icl"):
        suite = small(task, 2, mode, **told)
        for episode in suite.plan():
            record = play(suite, OraclePlayer(), episode)
            shown = [pictures(played.turn.chat) for played in record.turns]
            tokens = sum(441 * len(frames) for frames in shown)
            tokens += sum(len(texts(played.turn.chat)) / 4 for played in record.turns)
            assert episode.calls == pytest.approx(len(record.turns), abs=1.01)
            assert episode.prompt_tokens / episode.calls == pytest.approx(tokens / len(record.turns), rel=0.25)


def test_what_is_asked_is_part_of_an_episodes_fingerprint(tmp_path):
    def ids(**settings):
        return [episode.id for episode in small("SE", **settings).plan()]

    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "view_memory.txt").write_text("Look well.")
    assert ids() == ids()
    others = [ids(resolution=32), ids(mode="cot"), ids(mode="icl"), ids(templates=str(tmp_path / "words"))]
    others += [ids(decoder="paper"), ids(decoder="published")]
    assert len({tuple(other) for other in [ids(), *others]}) == 7
    assert ids() == ids(mde_decoys="published"), "decoys are MDE's affair"
    tables, anything = (
        [episode.id for episode in small("MDE", mde_decoys=decoys).plan()] for decoys in ("table", "published")
    )
    assert tables != anything, "although the first picture is the same"


@pytest.mark.slow
def test_a_skin_counts_by_its_content_not_by_its_place(tmp_path):
    from envs.kidgym.render.skins import export_skin

    for name in ("one", "two", "three"):
        export_skin(str(tmp_path / name), pixels=32)
    (tmp_path / "three" / "wall.png").write_bytes((tmp_path / "three" / "chest.png").read_bytes())
    first, same, other = (
        small("CL", skin=str(tmp_path / name), episodes=1).plan()[0].id for name in ("one", "two", "three")
    )
    assert first == same != other != small("CL", episodes=1).plan()[0].id


def test_settings_may_be_typed_as_on_the_command_line():
    suite = KidGymSuite(tasks="CL", levels=1, modes="cot", episodes=2)
    assert [(episode.task, episode.level, episode.mode) for episode in suite.plan()] == [("CL", "1", "cot")] * 2
    assert KidGymSuite(tasks="all") == KidGymSuite()
    assert pickle.loads(pickle.dumps(suite)) == suite


def test_a_task_of_a_plugin_folder_can_be_played(tmp_path, monkeypatch, plugins_in):
    turned_task(tmp_path, monkeypatch)
    plugins_in(tmp_path)
    suite = KidGymSuite(tasks=["PT"], levels=[1, 2], modes=["icl"], episodes=2)
    assert [play(suite, OraclePlayer(), episode).outcome.success for episode in suite.plan()] == [True] * 4
    del TASKS["PT"]  # monkeypatch would put it back


def turned_task(folder, monkeypatch):
    """A plugin folder whose module registers the task PT."""
    (folder / "plugins.toml").write_text('["raycade.kidgym"]\nturned = "turned_task"\n')
    (folder / "turned_task.py").write_text(
        "from envs.kidgym import TASKS\nfrom envs.kidgym.tasks.placement import Placement\n"
        "TASKS['PT'] = type('PT', (Placement,), {'name': 'PT', 'budgets': (1, 1)})\n"
    )
    monkeypatch.delitem(sys.modules, "turned_task", raising=False)


# --- perfect play and chance -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_chance_always_gives_a_valid_answer_within_the_budget(task):
    suite = KidGymSuite(tasks=[task], modes=["zero_shot"], episodes=8)
    for episode in suite.plan():
        outcome = play(suite, RandomPlayer(), episode).outcome
        assert not outcome.extra["invalid"] and outcome.steps <= episode.budget
        assert outcome.extra["terminated"] != outcome.extra["truncated"]


def test_the_oracle_finds_back_to_the_goal_after_a_detour():
    """DMA grants one step more than needed: a wrong first move can be made good."""
    suite = small("DMA", 1)
    for episode in suite.plan():
        first = []

        def script(turn, first=first):
            wrong = [letter for letter in turn.options if letter != turn.oracle()]
            first.append(turn.number)
            return wrong[-1] if len(first) == 1 else turn.oracle()

        assert play(suite, ScriptedPlayer(script), episode).outcome.success


def test_the_oracle_answers_even_where_nothing_can_be_won_any_more():
    suite = small("SO", 3)

    def script(turn):
        return turn.options[-1] if turn.number == 0 and turn.oracle() != turn.options[-1] else turn.oracle()

    outcomes = [play(suite, ScriptedPlayer(script), episode).outcome for episode in suite.plan()]
    assert not all(outcome.success for outcome in outcomes) and {outcome.steps for outcome in outcomes} == {4}


# --- replies ---------------------------------------------------------------------------------------------------------


def test_a_reply_that_names_no_action_ends_the_episode_as_invalid():
    suite = small("CL", 2)
    player = ScriptedPlayer(lambda turn: perfect(turn) if turn.number < 2 else "I'm sorry, I cannot see anything.")
    record = play(suite, player)
    assert not record.outcome.success and record.outcome.steps == 2
    assert record.outcome.extra["invalid"]
    assert not record.outcome.extra["terminated"] and not record.outcome.extra["truncated"]
    assert (record.turns[-1].action, record.turns[-1].rule) == (None, "no answer")


class CutOff:
    """Every reply ends at the token limit."""

    def __init__(self, text):
        self.text = text

    async def reply(self, turn):
        return Reply(self.text.replace("$", turn.oracle()), finish="length")


@pytest.mark.parametrize("decoder", ["lenient", "paper", "published"])
def test_a_reply_that_was_cut_off_is_read_only_where_it_had_answered(decoder):
    suite = small("PL", decoder=decoder)
    thought = play(suite, CutOff("I choose $. Hmm wait, is label 1 a pig"))
    assert thought.outcome.extra["invalid"] and thought.turns[0].rule == "cut off"
    assert thought.outcome.extra["mistake"] == "unread reply: cut off" and thought.turns[0].action is None
    assert play(suite, CutOff("<answer>$</answer> because the opposite is so")).outcome.success
    assert play(suite, CutOff("<answer>$")).outcome.extra["invalid"]


def test_an_answer_at_the_end_of_reasoning_that_never_ended_is_read():
    suite = small("PL")
    assert play(suite, ScriptedPlayer(lambda turn: f"<think>South. <answer>{turn.oracle()}</answer>")).outcome.success
    for text in ("<think>Perhaps <answer>$</answer>, or not.</think>", "<think>So it must be $"):
        record = play(suite, ScriptedPlayer(lambda turn, text=text: text.replace("$", turn.oracle())))
        assert record.outcome.extra["invalid"]


@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_shortcuts_play_every_task_and_choose_offered_letters(shortcut):
    suite = KidGymSuite(levels=[2], modes=["zero_shot"], episodes=1)
    for episode in suite.plan():
        record = play(suite, ShortcutPlayer(shortcut), episode)
        again = play(suite, ShortcutPlayer(shortcut), episode)
        assert not record.outcome.extra["invalid"]
        assert [played.action for played in record.turns] == [played.action for played in again.turns]


@pytest.mark.parametrize("seed", range(8))
def test_a_basket_that_took_one_of_two_things_leaves_the_other_basket_for_the_other(seed):
    world, puts = make("CL", 1, seed), []
    while not world.done:
        action = shortcut_action("fills_evenly", world)
        accepted = world.take(action).accepted
        puts += [accepted] * (action.verb == "put")
    assert world.success == puts[0]
    filling = make("FI", 1, seed)
    assert filling.take(shortcut_action("right_and_missing", filling)).accepted and filling.success


WON = {
    "first_option": {"SO": (13, 1, 2, 180)},
    "ignores_rule": {"SO": (11, 11, 12, 180), "PL": (0, 0, 0, 60), "DMA": (4, 0, 0, 359)},
    "any_listed": {"MDE": (20, 10, 6, 120)},
    "right_kind": {"FI": (19, 7, 2, 120), "MDE": (4, 4, 3, 120), "MFI": (20, 14, 3, 180)},
    "not_on_board": {"FI": (4, 0, 1, 120), "PU": (20, 7, 3, 120), "MFI": (8, 0, 2, 180)},
    "remembers_label": {"MMA": (20, 20, 20, 360)},
    "skips_the_beginning": {"MMA": (9, 7, 9, 360), "MFI": (20, 20, 20, 180)},
    "nearest_pile": {"CO": (6, 9, 8, 189)},
    "whatever_works": {"MA": (20, 20, 20, 300), "DMA": (20, 20, 20, 306), "MMA": (6, 6, 6, 360)},
    "walks_over_things": {"MA": (20, 18, 15, 300), "DMA": (20, 19, 13, 308), "MMA": (20, 15, 11, 360)},
}
"""Of 20 games at levels 1, 2 and 3; then the steps of all."""


@pytest.mark.slow
def test_shortcuts_win_what_their_rules_can_win():
    found: dict = {name: {} for name in WON}
    for name, task in [(each, task) for each in WON for task in WON[each]]:
        worlds = [[make(task, level, seed) for seed in range(20)] for level in (1, 2, 3)]
        for world in itertools.chain.from_iterable(worlds):
            while not world.done:
                world.take(shortcut_action(name, world))
        steps = sum(world.steps for level in worlds for world in level)
        found[name][task] = (*(sum(bool(world.success) for world in level) for level in worlds), steps)
    assert found == WON


def test_who_ignores_the_table_unlocks_a_door_of_the_key_s_color_before_another_key_is_taken():
    found = 0
    for seed in range(20):
        world, rng = make("DMA", 3, seed), random.Random(seed)
        while not world.done:
            keys = {place: item.sprite.removeprefix("key/") for place, item in enumerate(world.backpack)}
            alike = [
                action
                for action in world.options
                if action.verb == "unlock" and world.scene[action.cell].sprite == f"door/{keys[action.slot]}"
            ]
            assert not alike or shortcut_action("ignores_rule", world) in alike
            found += bool(alike)
            legal = [action for action in world.ordered if world.copy().take(action).accepted]
            world.take(rng.choice(legal or list(world.ordered)))
    assert found > 10


def test_refused_actions_use_up_the_budget_and_are_counted():
    suite = small("MA", 3)
    world = make("MA", 3, suite.plan()[0].seed)
    diamond = next(item.label for item in world.scene.values() if item.sprite == "diamond")
    record = play(suite, ScriptedPlayer(lambda turn: f"<answer>obtain item with label {diamond}</answer>"))
    assert record.outcome.extra == {
        **{"invalid": False, "terminated": False, "truncated": True, "forced_steps": 0},
        **{"refused_steps": 7, "refused_blocked": 7, "refused_misfit": 0, "refused_full": 0},
        **{"lost_step": 1, "mistake": "way blocked", "miscount": None},
    }


def test_a_players_error_fails_the_episode_and_keeps_its_turns():
    suite = small("CL", 1)
    record = play(suite, ScriptedPlayer(lambda turn: perfect(turn) if turn.number < 2 else PlayerError("no answer")))
    assert record.outcome is None and record.error == "PlayerError: no answer" and len(record.turns) == 2


# --- what is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", PLAIN_TASKS)
def test_tasks_without_memory_are_asked_afresh_with_the_present_picture(task):
    suite = small(task, 2)
    episode = suite.plan()[0]
    record = play(suite, OraclePlayer(), episode)
    world = make(task, 2, episode.seed)
    for played in record.turns:
        chat = played.turn.chat
        assert [message.role for message in chat] == ["system", "user"] and pictures(chat) == [world.frame]
        assert world.goal in texts(chat) and all(f") {action}" in texts(chat) for action in world.actions)
        world.step(world.actions.index(played.action))


@pytest.mark.parametrize("mode", ["zero_shot", "cot", "icl"])
@pytest.mark.parametrize("task", MEMORY_TASKS)
def test_memory_tasks_show_all_pictures_so_far_in_a_chat_that_is_only_appended_to(task, mode):
    suite = small(task, 3, mode)
    episode = suite.plan()[0]
    record = play(suite, ScriptedPlayer(perfect), episode)
    world = make(task, 3, episode.seed)
    frames = [world.frame]
    world.step(0)
    before = ()
    for played in record.turns:
        frames.append(world.frame)
        chat = played.turn.chat
        assert chat[: len(before)] == before and pictures(chat)[-len(frames) :] == frames
        assert mode == "icl" or pictures(chat) == frames
        roles = [message.role for message in chat]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]
        before = chat
        world.step(world.actions.index(played.action))
    assert record.outcome.success


def test_past_answers_are_bare_and_past_reasoning_is_left_out():
    suite = small("SE", 3, "cot")
    record = play(suite, ScriptedPlayer(lambda turn: f"<think>A secret note.</think><answer>{turn.oracle()}</answer>"))
    last = record.turns[-1].turn.chat
    assert "secret" not in texts(last)
    assert [message.parts for message in last if message.role == "assistant"] == [
        (played.reply.text,) for played in record.turns[:-1]
    ]


def test_a_step_without_a_choice_is_not_asked():
    """The diamond is the only action left in a maze whose doors are open; continue the only one of a memory task."""
    for task, level, asked in (("MA", 1, 2), ("SO", 1, 1), ("SE", 2, 2), ("MDE", 1, 1)):
        record = play(small(task, level), OraclePlayer())
        assert record.outcome.success and len(record.turns) == asked
        assert record.outcome.extra["forced_steps"] == 1
        assert all(len(played.turn.options) > 1 for played in record.turns)


# --- the worked example ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_the_worked_example_is_a_won_game_with_all_pictures_actions_and_reasons(task):
    suite = small(task, 3, "icl")
    chat = play(suite, OraclePlayer()).turns[0].turn.chat
    world = make(task, 1, example_seed(task))
    expected, count = [world.frame], 0
    goals = [world.goal]
    for action in solve(world):
        goals += [world.goal] * (world.goal != goals[-1])
        assert all(f") {text}" in texts(chat) for text in world.actions)
        world.take(action)
        expected.append(world.frame)
        count += 1
    assert world.success and pictures(chat)[: len(expected)] == expected
    assert texts(chat).count("Reason: ") == count
    example = "".join(part for part in worked_example(task, load_templates("")) if isinstance(part, str))
    assert "\n".join(goals) in example and all(example.count(goal) == 1 for goal in goals), "each goal once"
    assert "shortest way to the goal" not in texts(chat), "every task of the paper has reasons of its own"


REASONS = {
    "FI": ["Position I lacks the upper left quarter of the monkey, and slot D holds just that."],
    "PU": [
        "In the hint block, the triangle at position I has its right angle at the lower right. "
        "Slot B holds the triangle that is turned like this."
    ],
    "CO": [
        "I have 0 of 1. The pile with label 0 holds 1; then that is what the goal asks for.",
        "The backpack holds 1, as many as the goal asks for.",
    ],
    "MMA": [
        "The diamond lies at label 3. I remember that place.",
        "The blue key, label 0, is within reach, and I need it for the blue door.",
        "The blue key in slot A opens the blue door, label 4, which has its color.",
        "The diamond lay where the chest with label 3 stands now, and the way to it is free.",
    ],
}


@pytest.mark.parametrize("task", REASONS)
def test_reasons_of_perfect_play_speak_of_the_game(task):
    world = make(task, 1, example_seed(task))
    said = []
    for action in solve(world):
        said.append(reason(world, action))
        world.take(action)
    assert said == REASONS[task]


@pytest.mark.parametrize("seed", range(5))
def test_reasons_of_counting_add_up(seed):
    """Whatever is collected: what a pile holds and what then is missing make up what was missing before."""
    for variant in ("published", "balanced"):
        world = make("CO", 3, seed, variant=variant)
        for action in solve(world):
            said = reason(world, action)
            if action.verb != "declare" and variant == "published":
                have, target, _, holds = map(int, re.findall(r"\d+", said)[:4])
                left = re.search(r"then (\d+) will", said)
                assert have + holds + (int(left[1]) if left else 0) == target == world.target
            if action.verb != "declare" and variant == "balanced":
                missing = int(re.search(r"missing: (\d+)", said)[1])
                holds = int(re.search(r"holds (\d+)", said)[1])
                left = re.search(r"then (\d+) will", said)
                assert missing == holds + (int(left[1]) if left else 0)
            world.take(action)
        assert world.success


def test_no_evaluated_episode_has_the_examples_seed(full_plan):
    evaluated = {episode.seed for episode in full_plan}
    assert not evaluated & {example_seed(task) for task in TASKS}


def test_all_episodes_of_a_task_share_everything_before_their_goal():
    suite = small("CL", 1, "icl", episodes=2)
    chats = [play(suite, OraclePlayer(), episode).turns[0].turn.chat for episode in suite.plan()]
    (system, ours), (same_system, theirs) = chats
    assert system == same_system and ours.parts[:-3] == theirs.parts[:-3] and len(ours.parts) == len(theirs.parts)
    before_goal, same_before_goal = (user.parts[-3].rpartition("Goal: ")[0] for user in (ours, theirs))
    assert before_goal == same_before_goal != ""


# --- the same everywhere ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["zero_shot", "icl"])
@pytest.mark.parametrize("task", [*MEMORY_TASKS, "CL"])
@pytest.mark.parametrize(
    "told", [{}, *({"history": each} for each in (1, 2, "all", "none")), {"past_pictures": "text"}]
)
def test_a_suite_needs_exactly_the_pictures_of_its_longest_prompt(task, mode, told):
    suite = small(task, 3, mode, episodes=15, **told)
    records = [play(suite, RandomPlayer(), episode) for episode in suite.plan()]
    shown = max(len(pictures(played.turn.chat)) for record in records for played in record.turns)
    assert suite.needs.pictures == shown


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (signal.SIGPROF, "no answer within 7 seconds"),
        (signal.SIGALRM, "no answer within 7 seconds"),
        (9, "exit code -9"),
    ],
)
def test_a_published_game_that_took_too_long_says_so_and_one_that_died_does_not(ending, said):
    game = GameProcess.__new__(GameProcess)  # without a copy of this process
    game.seconds, game.process = 7, os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    os.kill(game.process, ending)
    assert game._cause() == said


@pytest.mark.parametrize("forced", [False, True])
def test_what_became_of_an_action_is_told_with_the_step_that_follows_asked_or_not(forced):
    world = make("MMA", 1, 3)
    dialogue = Dialogue(
        load_templates(), "zero_shot", True, presentation=dataclasses.replace(DEFAULT, feedback=("legal",))
    )
    moment = dialogue.moment(world)
    dialogue.question(moment)
    dialogue.answered(moment, "A", "A")
    dialogue.acted(Acted("go left", False, world.frame, world.frame, 3, 3))
    if forced:
        dialogue.forced(moment)
        dialogue.acted(Acted("continue", True, world.frame, world.frame, 3, 3))
    told = "".join(part for part in dialogue.question(moment)[-1].parts if isinstance(part, str))
    assert told.count("go left. It could not be carried out.") == 1
