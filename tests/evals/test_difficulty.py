"""Success over difficulty, for any suite whose levels get harder."""

import dataclasses
from dataclasses import astuple, dataclass
from types import SimpleNamespace

import pytest

from evals.report.joint import with_labels
from evals.stats.intervals import proportion_estimate
from evals.suite import Suite
from evals.suite_results import difficulty_curves, suite_figures
from evals.suites.bundle import Bundle
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.summary.difficulty import _stated
from evals.types import Episode, Outcome, Reply, message
from evals.viewer.difficulty import shown_curves
from tests.runs import run_of

LEVELS = {
    "add": ("10", "2", "1"),
    "take": ("2", "1", "10"),
    "guess": ("1", "2"),
    "sing": ("1",),
    "talk": ("low", "high"),
}


@dataclass(frozen=True)
class Sums(Suite):
    """Wins are written in the replies."""

    name = "sums"
    title = "Sums"
    known: bool = False

    def plan(self):
        return [
            Episode("sums", task, level, "zero_shot", index, 0, index, "", 1)
            for task, levels in LEVELS.items()
            for level in levels
            for index in range(4)
        ]

    async def play(self, episode, conversation):
        played = await conversation.ask((message("user", "?"),), options=("right", "wrong"), oracle=lambda: "right")
        return Outcome(success=played.reply.text == "right", steps=1)

    def known_success(self, task, level):
        return {"chance": 0.5 / float(level), "perfect play": 1.0} if self.known else {}


class Strength:
    """Wins as many games of four as a level leaves it."""

    async def reply(self, turn):
        wins = {"1": 3, "2": 2, "10": 0}.get(turn.episode.level, 1) + (turn.episode.task == "take")
        return Reply("right" if turn.episode.index < wins else "wrong")


class Always:
    def __init__(self, reply):
        self.text = reply

    async def reply(self, turn):
        return Reply(self.text)


def test_repeats_are_of_one_game_and_failed_episodes_are_no_success():
    class Repeated(Sums):
        def plan(self):
            return [
                Episode("sums", "guess", level, "zero_shot", index, repeat, index, "", 1)
                for level in "12"
                for index in range(4)
                for repeat in range(3)
            ]

    run = run_of(Repeated(), {"model": Always("right")}, failing=[3])
    [own] = [curve for curve in difficulty_curves(Repeated(), run) if curve.player == "model"]
    games = [(index, index < 3) for index in range(4) for _ in range(3)]
    expected = proportion_estimate([won for _, won in games], [index for index, _ in games])
    assert [astuple(value) for value in own.success] == [pytest.approx(astuple(expected))] * 2


def test_the_viewer_shows_intervals_that_hold_for_runs_that_may_stop():
    run = run_of(Sums(), {"model": Strength()})
    stopping = dataclasses.replace(run, stopping=("goes on",))
    [fixed, anytime] = [shown_curves("run", data, Sums())[0]["success"][0] for data in (run, stopping)]
    assert anytime["low"] < fixed["low"] <= fixed["mean"] == anytime["mean"] <= fixed["high"] < anytime["high"]


def test_chance_and_perfect_play_stay_such_under_the_labels_of_a_report():
    run = run_of(Sums(), {"model": Strength(), "random": Always("wrong"), "oracle": Always("right")})
    labeled = with_labels(run, {"random": "random (x)", "oracle": "oracle (x)"})
    plain, told = difficulty_curves(Sums(), run), difficulty_curves(Sums(), labeled)
    assert {curve.player for curve in told} == {"model", "chance (x)", "perfect play (x)"}
    assert [dataclasses.replace(curve, player=curve.player.removesuffix(" (x)")) for curve in told] == plain
    assert {curve.player for curve in plain if curve.is_reference} == {"chance", "perfect play"}
    known = difficulty_curves(Sums(known=True), labeled)
    assert {curve.player for curve in known} == {"model", "chance", "perfect play"}, "what holds for every run"


def test_curves_of_a_bundle_bear_the_names_of_their_suites():
    bundle = Bundle("bundle", (Sums(),))
    shown = shown_curves("run", run_of(Sums(), {"model": Strength()}), bundle)
    assert shown and {curve["title"] for curve in shown} == {"Sums"}


def test_tasks_drawn_in_another_way_or_over_other_levels_are_averaged_apart():
    """Published and balanced games of a run of both, and tasks that go up to level 4."""
    both = KidGymSuite(
        tasks=["CL", "SO", "MA"], levels=[1, 2], modes=["zero_shot"], episodes=1, variant=["published", "balanced"]
    )
    run = run_of(both, {"model": Always("A")})
    curves = difficulty_curves(both, run)
    assert {curve.title for curve in curves if "," in curve.title} == {"all tasks, published", "all tasks, balanced"}
    further = [Episode("sums", task, level, "zero_shot", 0, 0, 0, "", 1) for task in ("up", "on") for level in "1234"]

    class Further(Sums):
        def plan(self):
            return [*super().plan(), *further]

    titles = {curve.title for curve in difficulty_curves(Further(), run_of(Further(), {"model": Strength()}))}
    assert {title for title in titles if "," in title} == {"all tasks, levels 1 to 10", "all tasks, levels 1 to 4"}


def test_a_run_of_one_level_or_of_built_in_players_only_has_no_curve():
    alone = KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot"], episodes=2)
    for suite, players in ((alone, {"model": Always("A")}), (Sums(), {"oracle": Always("right")})):
        assert not [each for each in suite_figures(suite, run_of(suite, players)) if "difficulty" in each.name]


@pytest.mark.parametrize(
    ("suite", "task", "levels", "chance"),
    [
        (KidGymSuite(), "SO", ("1", "2", "3"), [1 / 2, 1 / 6, 1 / 24]),
        (KumoSuite(), "medical", ("easy", "6x8", "hard"), [None] * 3),
    ],
)
def test_suites_know_how_hard_their_levels_are(suite, task, levels, chance):
    hard = [suite.difficulty_of(task, level) for level in levels]
    assert hard == sorted(hard) and len(set(hard)) == 3
    assert [suite.known_success(task, level).get("chance") for level in levels] == chance
    assert suite.known_success(task, levels[0])["perfect play"] == 1
    assert suite.difficulty_of(task, "other") is None


def test_what_a_suite_says_of_some_tasks_is_not_said_of_all():
    known = {"a": {"chance": 0.25}, "b": {"chance": 0.75, "perfect play": 1.0}}
    rules = SimpleNamespace(known=lambda task, level: known[task])
    told = [_stated(name, rules, tasks, "1") for name in ("chance", "perfect play") for tasks in ("a", "b", "ab")]
    assert told == [0.25, 0.75, 0.5, None, 1.0, None]
