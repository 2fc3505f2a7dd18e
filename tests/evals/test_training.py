"""Training: rewards that perfect play maximizes, games that are none of the evaluation's, and Gymnasium on top."""

import asyncio
import dataclasses
import json
import math
import os
import random
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.utils.env_checker import check_env
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster.cli import main
from cluster.commands.trained_on import KEPT_AS, training_lines
from cluster.errors import UserError
from cluster.storage.stored_run import Run
from envs import plugins
from envs.files import FileError
from envs.settings import Several as SeveralOf
from evals.chat_json import chat_to_json
from evals.conversation import PlayedTurn, Record
from evals.players import OraclePlayer, RandomPlayer
from evals.sessions.session import Session, text_reply
from evals.suite import plan_for, play_episode
from evals.suites.kidgym.suite import KidGymSuite
from evals.suites.kumo.suite import KumoSuite
from evals.suites.multistar.suite import MultiStarSuite
from evals.training import play
from evals.training.command import _try_out
from evals.training.games import EvaluationGames, TrainingGames, seed_hash, suite_of, trained_games, training_keys
from evals.training.gymnasium_env import SuiteEnv, register_suites
from evals.training.gymnasium_text import AnyText
from evals.training.nemo_gym_files import new_text, write_server
from evals.training.play import Step, TrainingError, TrainingPlay, _replied, ending_of, text_of
from evals.training.reward import NoRewardError, Rewards, potential
from evals.types import Episode, Outcome, Reply, Turn, message, stable_seed
from tests.test_tutorials import files_of
from tests.toy import OPTIONS, ToySuite

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("success", "regret", "shaped")
SMALL = {
    "kidgym": KidGymSuite(tasks=("SE", "PU", "CL"), levels=(1,), modes=("zero_shot",), episodes=2),
    "kumo": KumoSuite(domains=("medical",), truths=3, actions=3, tasks_per_domain=3, repeats=1, max_steps=3),
    "multistar": MultiStarSuite(configurations=("center_single",), subtask="direct", puzzles=1, reply="text"),
    "toy": ToySuite(episodes=2, turns=2),
}
DIRECT = {
    "KidGym": {"tasks": ["CL", "MDE"], "levels": [1], "modes": ["zero_shot"], "episodes": 3},
    "Kumo": {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 3},
    "MultiStar": {"configurations": ["center_single"], "subtask": "direct", "puzzles": 2},
}


# --- rewards -----------------------------------------------------------------------------------------------------------


async def searched(suite, episode: Episode, kind: str) -> float:
    """The highest total of any sequence of options, by trying them all."""
    best = -math.inf
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        replies = waiting.pop()
        total, options = await played(suite, episode, kind, replies)
        if options is None:
            best = max(best, total)
        else:
            waiting += [(*replies, option) for option in options]
    return best


async def played(suite, episode: Episode, kind: str, replies: tuple[str, ...]):
    """The total after these replies, and the options that come next; None if the game is over."""
    session = Session(suite, episode)
    turn = await session.begin()
    rewards = Rewards(kind, turn)
    await rewards.asked(turn)
    for text in replies:
        asked, turn = turn, await session.answer(text_reply(turn, text))
        await rewards.answered(session.played[asked.number], turn, session.record)
    await session.close()
    return rewards.total, None if turn is None else turn.options


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SMALL)
def test_no_policy_scores_above_perfect_play(name, kind):
    suite = SMALL[name]
    games = list(plan_for(suite, {"oracle": ""}))[:6]
    if kind != "success" and name not in ("kidgym", "kumo"):
        with pytest.raises(NoRewardError, match="use reward=success"):
            asyncio.run(searched(suite, games[0], kind))
        return
    for episode in games:
        record = asyncio.run(play_episode(suite, episode, OraclePlayer()))
        perfect, left = asyncio.run(played(suite, episode, kind, tuple(turn.reply.text for turn in record.turns)))
        assert left is None and record.outcome.success
        assert asyncio.run(searched(suite, episode, kind)) == pytest.approx(perfect)
        if kind != "shaped":
            assert perfect == 1


class Stepping:
    """A game whose distance to its win is given; as the policy plays it, without a suite."""

    def __init__(self, budget: int, distances: list[float], credit: float) -> None:
        episode = Episode("x", "t", "1", "m", index=0, repeat=0, seed=0, fingerprint="", budget=budget)
        self.turns = [Turn(episode, n, (), remaining=lambda _, left=left: left) for n, left in enumerate(distances)]
        outcome = Outcome(success=credit == 1, steps=len(distances), score=credit)
        self.record = Record(episode, outcome, "", (), 0.0)

    def total(self) -> float:
        async def sum_up() -> float:
            rewards = Rewards("shaped", self.turns[0])
            await rewards.asked(self.turns[0])
            for turn, following in zip(self.turns, [*self.turns[1:], None], strict=True):
                record = self.record if following is None else None
                await rewards.answered(PlayedTurn(turn, Reply("")), following, record)
            return rewards.total

        return asyncio.run(sum_up())


DISTANCES = st.lists(st.floats(0, 40) | st.just(math.inf), max_size=6)
CREDIT = st.floats(0, 1)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30), st.floats(0, 40), DISTANCES, DISTANCES, CREDIT, CREDIT)
def test_shaping_telescopes_and_ranks_policies_as_success_does(budget, first, one, other, credit, others_credit):
    games = Stepping(budget, [first, *one], credit), Stepping(budget, [first, *other], others_credit)
    totals = [game.total() for game in games]
    assert totals[0] == pytest.approx(credit - potential(first, budget))
    assert totals[0] - totals[1] == pytest.approx(credit - others_credit)


REGRET = [("a", False, 0.0), ("b", False, -2 / 8), ("c", False, 0.0), (None, False, -1 / 8)]


@pytest.mark.parametrize(
    ("kind", "action", "ends", "reward"),
    [
        *(("regret", *each) for each in REGRET),
        *(("regret", action, True, 0.75 + (less if action else 0.0)) for action, _, less in REGRET),
        *(("success", each, False, 0.0) for each in ("a", "b", None)),
        ("success", "b", True, 0.75),
        ("shaped", "b", False, 3 / 8 - 2 / 8),
        ("shaped", "b", True, 3 / 8 + 0.75),
    ],
)
def test_a_reply_is_worth_credit_at_the_end_and_what_it_lost_or_how_near_it_came(kind, action, ends, reward):
    """Three steps from the win of a game of eight; ``b`` costs two more than the best, ``c`` loses the game."""
    episode = Episode("x", "t", "1", "m", index=0, repeat=0, seed=0, fingerprint="", budget=8)
    left = {None: 3.0, "a": 3.0, "b": 5.0, "c": math.inf}
    turn, following = (
        Turn(episode, number, (), remaining=each) for number, each in enumerate((left.get, lambda _: 2.0))
    )

    async def rewarded(outcome):
        rewards = Rewards(kind, turn)
        await rewards.asked(turn)
        record = Record(episode, outcome, "", (), 0.0) if ends else None
        worth = await rewards.answered(PlayedTurn(turn, Reply(""), action), None if ends else following, record)
        assert rewards.total == worth
        return worth

    assert asyncio.run(rewarded(Outcome(False, 4, 0.75))) == pytest.approx(reward)
    if ends:
        assert asyncio.run(rewarded(None)) == pytest.approx(reward - 0.75), "a failed game has no credit"


@pytest.mark.parametrize("name", ["kidgym", "kumo"])
def test_what_remains_is_the_least_over_all_options(name):
    """Q and V agree at every turn of random play: V is the smallest Q, and no action shortens the way by more than itself."""
    suite = SMALL[name]
    for episode in plan_for(suite, {"random": ""})[:4]:
        record = asyncio.run(play_episode(suite, episode, RandomPlayer()))
        for turn in record.turns:
            names = [turn.action] if name == "kidgym" else turn.turn.options
            values = [turn.turn.remaining(each) for each in names]
            assert min(values) >= turn.turn.remaining(None) - 1e-9
            if name == "kumo":
                assert min(values) == pytest.approx(turn.turn.remaining(None))


def test_a_reply_that_names_no_action_costs_a_step_where_the_game_goes_on():
    games = TrainingGames("kumo", domains=["medical"], difficulties=["easy"], tasks_per_domain=2, reward="regret")
    budget = games.suite.max_steps

    async def steps():
        play = TrainingPlay(games)
        await play.begin()
        return await play.answer("hm"), await play.answer("hm")

    reminded, ended = asyncio.run(steps())
    assert reminded.record is None and reminded.reward == -1 / budget
    assert ended.record is not None and ended.reward == 0


# --- which games are trained on --------------------------------------------------------------------------------------------


@pytest.fixture
def outsiders(tmp_path, plugins_in):
    """The tutorial's suite, and a data set of questions, in a plugin folder."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "number_hunt.py").write_text(files_of("new_suite.md")["number_hunt.py"])
    (folder / "sums.py").write_text(
        "from raycade.suite import Question, QuestionSuite\n\n\n"
        "class Sums(QuestionSuite):\n"
        "    name = 'sums'\n\n"
        "    def __init__(self, first: int = 0):\n"
        "        self.first = first\n\n"
        "    def questions(self):\n"
        "        return [Question(f'{n} + 1 =', f'{n + 1}') for n in range(self.first, self.first + 5)]\n"
    )
    (folder / "plugins.toml").write_text(
        '["raycade.suites"]\nnumber_hunt = "number_hunt:NumberHunt"\nsums = "sums:Sums"\n'
    )
    plugins_in(folder)
    register_suites()  # those of the folder too, where another test of this process has imported the module already
    return folder


async def begun(games: TrainingGames, number: int, seed: int = 0) -> list[Turn]:
    play = TrainingPlay(games, seed)
    turns = [await play.begin() for _ in range(number)]
    await play.close()
    return turns


@pytest.mark.parametrize("name", DIRECT)
def test_games_of_the_evaluation_are_not_trained_on(name):
    games = TrainingGames(name.lower(), **DIRECT[name])
    turns = asyncio.run(begun(games, 12))
    planned = {seed_hash(games.suite, episode) for episode in games.suite.plan()}
    assert not planned & {seed_hash(games.suite, turn.episode) for turn in turns}
    assert len({turn.episode.id for turn in turns}) == 12
    again, other = asyncio.run(begun(games, 12)), asyncio.run(begun(games, 12, seed=1))
    assert [turn.episode.id for turn in again] == [turn.episode.id for turn in turns]
    assert not {turn.episode.seed for turn in other} & {turn.episode.seed for turn in turns}


def test_every_suite_that_comes_with_raycade_draws_blocks_of_games():
    for name in ("kidgym", "kumo", "kumo_likely", "multistar"):
        assert "seeds" in training_keys(name)
    games = TrainingGames("kumo_likely", domains=["medical"], tasks_per_domain=3)
    turns = asyncio.run(begun(games, 4))
    planned = {episode.seed for episode in games.suite.plan()}
    assert len({turn.episode.seed for turn in turns}) == 4 and not planned & {turn.episode.seed for turn in turns}


def test_equal_games_of_other_seeds_are_found_by_what_they_show(outsiders):
    """All games begin with the same words; six numbers can be hidden, and three games are the evaluation's."""
    games = TrainingGames("number_hunt", highest=6, episodes=3)
    hidden = {episode.seed % 6 for episode in games.suite.plan()}
    trained = {turn.episode.seed % 6 for turn in asyncio.run(begun(games, 40))}
    assert trained == set(range(6)) - hidden


def test_a_data_set_has_no_other_games_unless_the_evaluation_is_another_one(outsiders):
    with pytest.raises(TrainingError, match="1000 games in a row are games of the evaluation"):
        asyncio.run(begun(TrainingGames("sums"), 1))
    apart = TrainingGames("sums", first=3, evaluation={"first": 0})
    prompts = {turn.chat[0].parts[0] for turn in asyncio.run(begun(apart, 20))}
    assert prompts == {"5 + 1 =", "6 + 1 =", "7 + 1 ="}, "those from 5 up are no questions of the evaluation"


@dataclass(frozen=True)
class Worded(ToySuite):
    """A data set: its questions follow no seed, and each mode has words of its own for them."""

    questions: SeveralOf[int] = (0, 1, 2, 3)
    modes: SeveralOf[str] = ("plain",)
    strict: bool = False

    def plan(self):
        first = super().plan()[0]
        return [
            dataclasses.replace(first, mode=mode, index=number, seed=stable_seed(number))
            for mode in self.modes
            for number in self.questions
        ]

    async def play(self, episode, conversation):
        if self.strict and episode.mode not in self.modes:
            raise KeyError(episode.mode)
        played = await conversation.ask((message("user", f"{episode.mode}: {episode.index}?"),), options=OPTIONS)
        return Outcome(played.reply.text == "red", 1)


def test_games_that_are_left_out_end_a_training_only_where_they_come_in_a_row():
    """Every second game is one of the evaluation; over a long training they are many, and never two in a row."""
    with mock.patch.object(plugins, "load", return_value=Worded), mock.patch.object(play, "TRIES", 3):
        games = TrainingGames("toy", questions=[0, 1], evaluation={"questions": [0]})
        player = TrainingPlay(games, 0)
        suite, episodes = games.block(0)
        left_out, trained_on = sorted(episodes, key=lambda episode: episode.index)

        async def long_training():
            for _ in range(10):
                assert await player.begin_with(suite, left_out) is None
                assert await player.begin_with(suite, left_out) is None
                assert await player.begin_with(suite, trained_on) is not None
            await player.close()

        asyncio.run(long_training())


MODES_ASKED = st.lists(st.sampled_from(["plain", "polite", "curt"]), min_size=1, unique=True)


@settings(max_examples=30, deadline=None)
@given(MODES_ASKED, MODES_ASKED, st.sets(st.integers(0, 3), min_size=1))
@example(["plain"], ["polite"], {0, 1, 2, 3})
def test_a_game_of_the_evaluation_is_not_trained_on_in_any_mode(modes, evaluated, questions):
    with mock.patch.object(plugins, "load", return_value=Worded), mock.patch.object(play, "TRIES", 40):
        evaluation = {"modes": evaluated, "questions": sorted(questions)}
        games = TrainingGames("toy", modes=modes, evaluation=evaluation)
        if len(questions) == 4:
            with pytest.raises(TrainingError, match="40 games in a row are games of the evaluation"):
                asyncio.run(begun(games, 1))
            return
        shown = {turn.chat[0].parts[0] for turn in asyncio.run(begun(games, 12))}
    assert shown == {f"{mode}: {number}?" for mode in modes for number in {0, 1, 2, 3} - questions}


def test_an_evaluation_that_cannot_be_shown_in_the_mode_of_training_is_named(monkeypatch):
    monkeypatch.setattr(plugins, "load", lambda group, name: Worded)
    unknown = TrainingGames("toy", strict=True, evaluation={"modes": ["polite"], "questions": [0]})
    with pytest.raises(
        ValueError, match=r"cannot be shown in the mode 'plain'.* let the evaluation have this mode.*KeyError"
    ):
        asyncio.run(begun(unknown, 1))
    known = TrainingGames("toy", strict=True, evaluation={"modes": ["polite", "plain"], "questions": [0]})
    assert {turn.episode.index for turn in asyncio.run(begun(known, 9))} == {1, 2, 3}


def test_each_seed_has_a_stream_of_its_own_and_others_are_refused(monkeypatch):
    monkeypatch.setattr(plugins, "load", lambda group, name: ToySuite)
    games = TrainingGames("toy", evaluation={"episodes": 1})
    assert len({next(games.stream(seed))[1].seed for seed in range(9)}) == 9
    play = TrainingPlay(games)
    for seed in (-7, 1.5, "7", None):
        with pytest.raises(ValueError, match=f"seed={seed}: must be an integer, from 0 up"):
            play.restart(seed)


def test_a_game_that_cannot_be_rewarded_is_given_up_and_not_written_down(monkeypatch, tmp_path):
    monkeypatch.setattr(plugins, "load", lambda group, name: ToySuite)
    games = TrainingGames("toy", reward="regret", trained_on=str(tmp_path / "file"))

    async def refused():
        with pytest.raises(NoRewardError):
            await TrainingPlay(games).begin()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(refused()) == set()
    assert not (tmp_path / "file").exists()


class Untold(ToySuite):
    """Begins all games alike, and knows no perfect play."""

    async def play(self, episode, conversation):
        played = await conversation.ask((message("user", "Which color?"),))
        return Outcome(played.reply.text == str(episode.seed), 1)


def test_games_that_nothing_tells_apart_are_the_same():
    suite = Untold(episodes=3)
    shown = EvaluationGames(suite)

    async def contents():
        return {
            await shown.content_of(suite, episode, await suite.first_turn(episode))
            for episode in (*suite.plan(), dataclasses.replace(suite.plan()[0], seed=99))
        }

    assert len(asyncio.run(contents())) == 1


class Several(ToySuite):
    """Made of two suites, as a bundle is."""

    @property
    def parts(self):
        return ToySuite(), Threefold()


def test_of_a_suite_of_several_one_is_named_to_train_on(monkeypatch):
    monkeypatch.setattr(plugins, "load", lambda group, name: Several)
    with pytest.raises(ValueError, match="several: is made of several suites; train on one of toy, threefold"):
        suite_of("several", {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": "sealed:x"}, "training draws games of its own"),
        ({"evaluation_games": True}, "must be written down"),
        ({"task": ["CL"]}, "tasks"),
        ({"rewards": "regret"}, "Did you mean reward.* trained_on"),
        ({"reward": "luck"}, "one of success, regret, shaped"),
        ({"episodes": 0}, "from 1 up"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainingGames("kidgym", **settings)


def test_a_mistyped_keyword_of_an_environment_is_told_apart_from_settings():
    with pytest.raises(ValueError, match=r"unknown key most_option\. Did you mean most_options"):
        SuiteEnv("kidgym", most_option=3)


def test_games_from_files_have_no_others(tmp_path):
    games = TrainingGames("multistar", problems=str(tmp_path))
    with pytest.raises(ValueError, match="no others that could be drawn"):
        asyncio.run(begun(games, 1))


@pytest.mark.slow
def test_a_run_on_games_that_were_trained_on_says_so(tmp_path, capsys):
    """In other modes, too: by their seeds."""
    small = {"tasks": ["SE"], "levels": [1], "episodes": 4}
    file = tmp_path / "trained.txt"
    games = TrainingGames("kidgym", **small, modes=["cot"], evaluation_games=True, trained_on=str(file))
    assert len({turn.episode.seed for turn in asyncio.run(begun(games, 3))}) == 3
    words = ["suite=kidgym", "suite.tasks=[SE]", "suite.levels=[1]", "suite.modes=[zero_shot]", "model=oracle"]

    def command(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            main([*arguments])
        assert end.value.code == 0
        return capsys.readouterr().out

    command("run", *words, "suite.episodes=5", f"run_dir={tmp_path / 'run'}")
    assert "Trained on: 3 of 5 games" in command("trained-on", str(tmp_path / "run"), str(file))
    assert "Trained on: 3 of 5 games" in command("report", str(tmp_path / "run"))


def test_a_server_that_starts_again_keeps_the_games_that_were_trained_on_before(tmp_path):
    file = tmp_path / "trained.txt"
    file.write_text("what an earlier server wrote\n")
    games = TrainingGames("kidgym", tasks=["SE"], levels=[1], evaluation_games=True, trained_on=str(file))
    asyncio.run(_try_out(games))
    assert file.read_text() == "what an earlier server wrote\n"


def test_trained_games_are_counted_once_by_their_seed_or_by_what_they_show(tmp_path):
    settings = {"tasks": ["SE"], "levels": [1], "modes": ["zero_shot", "cot"], "episodes": 5}
    suite, path = suite_of("kidgym", settings), tmp_path / "file"
    one, two, three, four, _ = [episode for episode in suite.plan() if episode.mode == "zero_shot"]

    async def content(episode):
        return await EvaluationGames(suite).content_of(suite, episode, await suite.first_turn(episode))

    contents = {episode.index: asyncio.run(content(episode)) for episode in (one, two, three, four)}
    assert len({*contents.values()}) == 4
    none = "0" * 32
    lines = [
        (seed_hash(suite, one), contents[0]),
        (seed_hash(suite, two), none),
        (none, contents[2]),
        (none, contents[2]),
    ]
    path.write_text("".join(f"{seed} {shown}\n" for seed, shown in lines))
    assert asyncio.run(trained_games(suite, path)) == (3, 5), "a game in two modes is one"
    path.write_text(f"{none} {contents[3]}\n")
    assert asyncio.run(trained_games(suite, path)) == (1, 5)
    path.write_text("")
    assert asyncio.run(trained_games(suite, path)) == (0, 5)


def test_a_run_on_training_games_says_so_and_a_damaged_note_is_reported(tmp_path):
    bundle = "suite: {type: bundle, suites: [{type: kumo}, {type: kidgym, seeds: 'training:7'}]}\n"
    (tmp_path / "config.yaml").write_text(bundle)
    assert training_lines(Run(tmp_path)) == ["Games to train on (suite.seeds=training:7), not those of an evaluation."]
    note = '{"trained": %s, "games": 1234, "file": "there.txt"}'
    for trained, shown in (("0", "0"), ("1234", "1,234")):
        (tmp_path / KEPT_AS).write_text(note % trained)
        assert training_lines(Run(tmp_path))[1:] == [
            f"Trained on: {shown} of 1,234 games are among those that there.txt says were trained on."
        ]
    for trained, games in (('"x"', 3), (-5, 3), (4, 3), ("1e300", "1e308"), ("true", 3), (2.5, 3), (0, 2**60)):
        (tmp_path / KEPT_AS).write_text(f'{{"trained": {trained}, "games": {games}, "file": "f"}}')
        with pytest.raises(UserError, match="damaged"):
            training_lines(Run(tmp_path))


def test_games_of_the_evaluation_that_are_trained_on_are_written_down_in_their_order(tmp_path):
    file = tmp_path / "trained.txt"
    games = TrainingGames("kumo", **DIRECT["Kumo"], evaluation_games=True, trained_on=str(file))
    turns = asyncio.run(begun(games, 7))
    lines = [line.split() for line in file.read_text().splitlines()]
    assert [seed for seed, _ in lines] == [seed_hash(games.suite, turn.episode) for turn in turns]
    assert len({seed for seed, _ in lines}) == 3 == len({content for _, content in lines}), (
        "the plan's, again and again"
    )
    first, second = ({turn.episode.seed for turn in turns[start : start + 3]} for start in (0, 3))
    assert first == second == {episode.seed for episode in games.suite.plan()}


def test_a_chat_is_told_as_text_and_an_ending_as_plain_values():
    picture = KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=1)
    opening = asyncio.run(picture.first_turn(picture.plan()[0]))
    shown = next(part for said in opening.chat for part in said.parts if not isinstance(part, str))
    assert text_of((message("system", "Rules."), message("user", "Look:", shown, "Well?"))) == (
        "system: Rules.\n\nuser: Look: [picture] Well?"
    )
    episode = opening.episode
    record = Record(episode, Outcome(False, 4, 0.75), "", (), 0.0)
    assert ending_of(Step(None, 0.5, record)) == {"success": False, "credit": 0.75, "steps": 4, "error": ""}
    failed = Record(episode, None, "PlayerError: no", (), 0.0)
    assert ending_of(Step(None, 0.5, failed)) == {
        "success": False,
        "credit": 0.0,
        "steps": 0,
        "error": "PlayerError: no",
    }
    assert ending_of(Step(opening, 0.5, None)) == {}


@pytest.mark.parametrize("line", ["README", "0" * 32, f"{'0' * 32} {'1' * 31}", f"{'0' * 32} {'1' * 32} x", "\0"])
def test_a_file_that_is_none_of_trained_games_is_refused(line, tmp_path):
    (tmp_path / "file").write_text(f"{'0' * 32} {'1' * 32}\n{line}\n{'0' * 32} {'1' * 32}\n")
    suite = suite_of("kidgym", {"tasks": ["SE"], "levels": [1], "episodes": 1})
    with pytest.raises(FileError, match="line 2"):
        asyncio.run(trained_games(suite, tmp_path / "file"))


# --- Gymnasium ---------------------------------------------------------------------------------------------------------


def environment(name: str, **settings) -> gymnasium.Env:
    return gymnasium.make(f"raycade.gymnasium:raycade/{name}-v0", **settings)


def test_of_two_suites_of_one_class_name_the_later_one_is_registered(monkeypatch):
    try:
        for name in ("early", "early", "late"):
            found = {name: f"{name}:OddlyNamedSuite"}
            monkeypatch.setattr("evals.training.gymnasium_env.plugins.registered", lambda group, found=found: found)
            with warnings.catch_warnings():
                warnings.simplefilter("error" if name == "early" else "ignore")
                register_suites()
            assert gymnasium.registry["raycade/OddlyNamed-v0"].kwargs == {"suite": name}
    finally:
        gymnasium.registry.pop("raycade/OddlyNamed-v0", None)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DIRECT, "NumberHunt"])
@pytest.mark.filterwarnings("error::UserWarning")
def test_gymnasiums_own_check_passes(name, outsiders):
    env = environment(name, render_mode="ansi", **DIRECT.get(name, {"highest": 100, "most_options": 100}))
    check_env(env.unwrapped, skip_render_check=False)
    env.close()


@pytest.mark.parametrize("name", [*DIRECT, "NumberHunt"])
def test_masks_texts_and_pictures_are_those_of_the_turn(name, outsiders):
    env = environment(name, **DIRECT.get(name, {"highest": 50}))
    rng = random.Random(0)
    won: set[bool] = set()
    observation, info = env.reset(seed=0)
    while len(won) < 2:
        over = False
        while not over:
            assert observation in env.observation_space
            assert observation["text"] == text_of(info["chat"])
            legal = np.flatnonzero(observation["action_mask"])
            assert legal.tolist() == list(range(len(info["options"])))
            if "picture" in observation:
                pictures = [part for said in info["chat"] for part in said.parts if not isinstance(part, str)]
                pixels = pictures[-1].render()
                height, width = pixels.shape[:2]
                assert (observation["picture"][:height, :width] == pixels).all()
                assert not observation["picture"][height:].any()
            observation, reward, over, truncated, info = env.step(rng.choice(legal.tolist()))
            assert not truncated and reward == (info["credit"] if over else 0)
        won.add(info["success"])
        observation, info = env.reset()
    env.close()


def test_a_seed_begins_its_stream_of_games_again_and_without_one_the_stream_goes_on():
    env = environment("KidGym", **DIRECT["KidGym"], pictures=False)

    def game(seed=None):
        _, info = env.reset(seed=seed)
        return info["game"]

    for seed in (0, 1, 2**31):
        first, *others = game(seed), game(), game()
        assert first not in others and game(seed) == first and game() == others[0]
    assert game(0) != game(1)
    env.close()


def test_an_action_beyond_the_mask_wins_nothing():
    env = environment("KidGym", **DIRECT["KidGym"], pictures=False)
    env.reset(seed=1)
    *_, terminated, _, info = env.step(63)
    assert terminated and not info["success"]
    env.close()


def test_texts_are_actions_where_they_are_asked_for(outsiders):
    env = environment("Sums", action_form="text", first=3, evaluation={"first": 0})
    _, info = env.reset(seed=1)
    number = int(info["chat"][0].parts[0].split()[0])
    _, reward, over, _, info = env.step(str(number + 1))
    assert over and info["success"] and reward == 1
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("1")
    env.close()
    with pytest.raises(ValueError, match="action_form='text'"):
        environment("Sums", first=3, evaluation={"first": 0}).reset()


@given(st.text(max_size=20))
@settings(max_examples=30)
@example("\u732b\u00e9")
def test_a_space_holds_texts_of_so_many_bytes_and_its_memory_brings_them_back(text):
    size = len(text.encode())
    assert [AnyText(most).contains(text) for most in (size - 1, size, size + 1)] == [False, True, True]
    space, shown = AnyText(size), ["", text, ""]
    memory = create_shared_memory(space, 3)
    for place in (1, 0, 2):
        write_to_shared_memory(space, place, shown[place], memory)
    assert list(read_from_shared_memory(space, memory, 3)) == shown
    assert space.sample() in space and not any(space.contains(each) for each in (None, 1, b"", [""], "\ud800"))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(st.characters(categories=["Cs", "L"]), max_size=4), min_size=2, max_size=2))
@example(["\ud800", "\ud83d\ude00"])
def test_whatever_is_replied_what_is_asked_next_can_be_sent_as_json(replies):
    with mock.patch.object(plugins, "load", return_value=ToySuite):
        games = TrainingGames("toy", turns=3, evaluation={"episodes": 1})

    async def told():
        play = TrainingPlay(games)
        await play.begin()
        steps = [await play.answer(reply) for reply in replies]
        await play.close()
        return chat_to_json(steps[-1].turn.chat)

    chat = asyncio.run(told())
    json.dumps(chat, ensure_ascii=False).encode()
    said = [message["content"] for message in chat if message["role"] == "assistant"]
    assert [len(text) for text in said] == [len(reply) for reply in replies]


def test_a_reply_that_is_no_valid_unicode_is_shown_in_a_valid_text():
    env = environment("Kumo", domains="medical", difficulties=("easy",), repeats=1, action_form="text")
    env.reset(seed=0)
    shown, *_ = env.step("\ud800 I do not know.")
    assert env.observation_space.contains(shown) and "? I do not know." in shown["text"]
    env.close()


def test_pictures_are_as_large_as_those_of_training_where_the_evaluation_has_none():
    env = environment("KidGym", **DIRECT["KidGym"], evaluation={"modality": "text"})
    observation, info = env.reset(seed=0)
    pictures = [part for said in info["chat"] for part in said.parts if not isinstance(part, str)]
    assert (observation["picture"] == pictures[-1].render()).all()
    env.close()


class Threefold(ToySuite):
    """Asks for labels, three at once."""

    name = "threefold"

    async def play(self, episode, conversation):
        asked = (message("user", "?"),)
        await asyncio.gather(*(conversation.ask(asked, labels=("A", "B")) for _ in range(3)))
        return Outcome(True, 3)


def test_a_text_that_is_no_label_fails_all_that_was_asked_at_once():
    async def ended():
        session = Session(Threefold(), Threefold().plan()[0])
        turn = await session.begin()
        return await _replied(session, turn, "C"), session.record

    following, record = asyncio.run(ended())
    assert following is None and record is not None and record.error_kind == "model"


def test_a_label_that_there_is_not_fails_the_game():
    env = environment("MultiStar", **DIRECT["MultiStar"])
    env.reset(seed=0)
    _, reward, over, _, info = env.step(63)
    assert over and reward == 0 and "answered with one of" in info["error"]
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NumberHunt", pytest.param("KidGym", marks=pytest.mark.slow)])
def test_spawned_vector_environments_show_each_its_own_game(name, outsiders):
    settings = DIRECT.get(name, {"highest": 50})
    envs = gymnasium.make_vec(
        f"raycade.gymnasium:raycade/{name}-v0",
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"context": "spawn"},
        **settings,
    )
    alone = environment(name, **settings)
    observations, infos = envs.reset(seed=[3, 4])
    for place, seed in enumerate((3, 4)):
        expected, _ = alone.reset(seed=seed)
        assert observations["text"][place] == expected["text"]
        assert infos["game"]["seed"][place] == alone.unwrapped._play.turn.episode.seed
    for _ in range(5):
        last = np.maximum(observations["action_mask"].sum(1) - 1, 0)
        observations, *_ = envs.step(last)
        assert all(text.startswith(("system:", "user:")) or text == "" for text in observations["text"])
    envs.close()
    alone.close()


# --- other libraries: what needs none of them (python -m benchmarks.training plays through all) -------------------------


def test_rows_for_nemo_gym_are_training_games_with_their_first_prompts(tmp_path, outsiders):
    folder = tmp_path / "resources_servers" / "hunt"
    words = ["nemo-gym", "number_hunt", "highest=50", "episodes=4", "--out", str(folder), "--games", "6"]
    with pytest.raises(SystemExit) as end:
        main(["environment", *words])
    assert end.value.code == 0
    rows = [json.loads(line) for line in (folder / "data" / "train.jsonl").read_text().splitlines()]
    games = TrainingGames("number_hunt", highest=50, episodes=4)
    assert len(rows) == 6 and {row["game"]["block"] for row in rows} == {0, 1}
    for row in rows:
        suite, episodes = games.block(row["game"]["block"])
        turn = asyncio.run(suite.first_turn(episodes[row["game"]["place"]]))
        assert row["responses_create_params"]["input"] == chat_to_json(turn.chat)
    config = yaml.safe_load((folder / "configs" / "hunt.yaml").read_text())
    agent = config[rows[0]["agent_ref"]["name"]]["responses_api_agents"]["gymnasium_agent"]
    assert agent["max_steps"] == 6 and agent["resources_server"]["name"] == "hunt"
    assert config["hunt"]["resources_servers"]["hunt"]["settings"] == {"highest": 50, "episodes": 4}


@pytest.mark.parametrize("tasks", [["SE", "CL"], ["CL", "SE"]])
def test_an_agent_of_nemo_gym_may_take_as_many_steps_as_the_longest_game(tmp_path, tasks):
    settings = {"tasks": tasks, "levels": [1], "modes": ["zero_shot"], "episodes": 1}
    write_server(tmp_path / "games", "kidgym", settings, 1)
    _, episodes = TrainingGames("kidgym", **settings).block(0)
    config = yaml.safe_load((tmp_path / "games" / "configs" / "games.yaml").read_text())
    (agent,) = (
        each["responses_api_agents"]["gymnasium_agent"] for each in config.values() if "responses_api_agents" in each
    )
    budgets = {episode.budget for episode in episodes}
    assert len(budgets) > 1 and agent["max_steps"] == max(budgets)
    described = config["games"]["resources_servers"]["games"]["description"]
    assert described == "KidGym: games to train on, by raycade."


@pytest.mark.parametrize("count", [0, -5])
def test_a_server_has_a_game_at_least(tmp_path, count):
    with pytest.raises(ValueError, match="1 or more"):
        write_server(tmp_path / "hunt", "kumo", {}, count)


def test_pictures_of_a_first_prompt_are_as_the_responses_api_has_them(tmp_path):
    write_server(tmp_path / "stars", "multistar", {**DIRECT["MultiStar"], "reply": "text"}, 1)
    (row,) = [json.loads(line) for line in (tmp_path / "stars" / "data" / "train.jsonl").read_text().splitlines()]
    parts = [part for said in row["responses_create_params"]["input"] for part in said["content"] if part != said]
    images = [part for part in parts if isinstance(part, dict) and part["type"] == "input_image"]
    assert images and all(image["image_url"].startswith("data:image/png;base64,") for image in images)


def test_only_a_text_that_follows_can_be_told_to_nemo_gyms_agent():
    opening, said = message("user", "Guess."), message("assistant", "7")
    assert new_text((opening,), (opening, said, message("user", "Too low."))) == "Too low."
    for after in ((message("user", "Anew."),), (opening, said), (opening, said, opening, opening)):
        with pytest.raises(TrainingError, match="can only add a text"):
            new_text((opening,), after)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["kumo", "domains"], "must be KEY=VALUE"),
        (["nothing"], "there is no 'nothing'"),
        (["kumo", "--out=."], ".: is there already; name a new folder"),
    ],
)
def test_wrong_words_of_the_command_are_named(words, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["environment", "nemo-gym", "--out", str(tmp_path / "x"), *words])
    assert end.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_the_folder_of_a_server_must_be_named(capsys):
    with pytest.raises(SystemExit) as end:
        main(["environment", "nemo-gym", "kumo"])
    assert end.value.code == 2 and "--out" in capsys.readouterr().err


def test_a_win_out_of_reach_is_as_far_as_the_whole_budget():
    assert [potential(steps, 20) for steps in (0, 5, 20, 30, math.inf)] == [0.0, -0.25, -1.0, -1.0, -1.0]


def test_the_hash_of_a_game_tells_suites_tasks_levels_and_seeds_apart_and_no_modes():
    suite = KidGymSuite(tasks=("CL",), levels=(1,), modes=("zero_shot",), episodes=1)
    one = suite.plan()[0]
    assert seed_hash(suite, one) == seed_hash(suite, dataclasses.replace(one, mode="cot", repeat=3, player="other"))
    others = [{"level": "2"}, {"level": "3"}, {"task": "SE"}, {"suite": "other"}, {"seed": one.seed + 1}]
    hashes = [seed_hash(suite, dataclasses.replace(one, **other)) for other in ({}, *others)]
    assert len(set(hashes)) == len(hashes)


def trained_on(suite, path):
    """Note all games of a suite's plan as trained on."""

    async def line(episode):
        content = await EvaluationGames(suite).content_of(suite, episode, await suite.first_turn(episode))
        return f"{seed_hash(suite, episode)} {content}\n"

    games = [episode for episode in suite.plan() if episode.repeat == 0]
    path.write_text("".join(asyncio.run(line(episode)) for episode in games))


@pytest.mark.parametrize(("written", "read"), [("direct", "chain"), ("chain", "direct")])
def test_puzzles_are_known_as_trained_on_by_whichever_of_their_questions(written, read, tmp_path):
    settings = {"configurations": ["center_single"], "puzzles": 2, "priors": ["none"], "sweep": False, "reply": "text"}
    suites = {subtask: suite_of("multistar", {**settings, "subtask": subtask}) for subtask in ("direct", "chain")}
    trained_on(suites[written], tmp_path / "trained")
    assert asyncio.run(trained_games(suites[read], tmp_path / "trained")) == (2, 2)
    others = suite_of("multistar", {**settings, "subtask": read, "seeds": "training:1"})
    assert asyncio.run(trained_games(others, tmp_path / "trained")) == (0, 2)


@pytest.mark.parametrize("name", ["kumo", "kumo_likely"])
def test_games_of_a_level_with_two_names_are_known_as_trained_on_under_either(name, tmp_path):
    settings = {"domains": ["medical"], "tasks_per_domain": 3}
    suites = {level: suite_of(name, {**settings, "difficulties": [level]}) for level in ("easy", "4x6", "5x6")}
    if name == "kumo":
        suites["by its size"] = suite_of(name, {**settings, "truths": 4, "actions": 6})

    for written, of_another_size in (("4x6", "5x6"), ("easy", "5x6")):
        path = tmp_path / written
        trained_on(suites[written], path)
        for read in suites.keys() - {"5x6"}:
            assert asyncio.run(trained_games(suites[read], path)) == (3, 3), (written, read)
        assert asyncio.run(trained_games(suites[of_another_size], path)) == (0, 3)


def test_training_in_a_level_leaves_out_the_games_that_the_evaluation_has_under_its_other_name():
    settings = {"domains": ["medical"], "tasks_per_domain": 3}
    games = TrainingGames("kumo", **settings, difficulties=["4x6"], evaluation={"difficulties": ["easy"]})
    evaluated = suite_of("kumo", {**settings, "difficulties": ["4x6"]})

    async def admitted(episode):
        return await games.admits(evaluated, episode, await evaluated.first_turn(episode))

    assert not any(asyncio.run(admitted(episode)) for episode in evaluated.plan())


def test_the_documented_code_runs():
    page = (ROOT / "docs" / "training.md").read_text()
    blocks = re.findall(r"^```python\n(import gymnasium.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    exec(blocks[0], {})


@pytest.mark.slow
def test_the_documented_vector_environment_runs_as_a_script(tmp_path):
    page = (ROOT / "docs" / "training.md").read_text()
    (block,) = re.findall(r"^```python\n(if __name__.*?)^```", page, re.MULTILINE | re.DOTALL)
    script = tmp_path / "vector.py"
    script.write_text(f"import gymnasium\n\n{block}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "Error" not in done.stderr, done.stderr[-2000:]
