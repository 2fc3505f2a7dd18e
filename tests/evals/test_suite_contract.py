"""``check_suite`` accepts the suites that come with raycade, and refuses each way to break the contract."""

import dataclasses
import itertools
import os
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from envs.picture import Picture
from evals import testing
from evals.ledger.columns import Column
from evals.suite import Needs, check_openings
from evals.suites.bundle import Bundle
from evals.suites.kidgym.suite import KidGymSuite
from evals.suites.kumo.suite import KumoSuite
from evals.suites.multistar.suite import MultiStarSuite
from evals.tables import Table
from evals.testing import check_suite
from evals.types import Message, Outcome, PlayerError, stable_hash
from evals.view import EpisodeView, default_view
from tests.toy import ToySuite

COUNT = itertools.count()

GOOD = [
    ToySuite(episodes=4),
    KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=2, repeats=2),
    KidGymSuite(tasks=["CL", "SE"], levels=[1], modes=["zero_shot", "icl"], episodes=1, resolution=32),
    MultiStarSuite(subtask="direct", configurations=["center_single"], attributes=["shape"], puzzles=1),
    MultiStarSuite(configurations=["center_single"], attributes=["shape"], puzzles=1, reply="text", sweep=False),
]


@pytest.mark.parametrize("suite", GOOD, ids=lambda suite: f"{suite.name} {getattr(suite, 'subtask', '')}".strip())
def test_the_suites_that_come_with_raycade_keep_the_contract(suite):
    check_suite(suite, episodes=3)


# --- broken suites ---------------------------------------------------------------------------------------------------


class ChangedPlan(ToySuite):
    """The toy suite with its episodes changed one by one."""

    def plan(self):
        return [self.change(episode) for episode in super().plan()]

    def change(self, episode):
        return dataclasses.replace(episode, mode="cot") if episode.index % 2 else episode


class IdsOfTheProcess(ChangedPlan):
    def change(self, episode):
        return dataclasses.replace(episode, fingerprint=stable_hash(os.getpid()))


class IdsOfTheMoment(ChangedPlan):
    def change(self, episode):
        return dataclasses.replace(episode, fingerprint=stable_hash(next(COUNT)))


class IdsShared(ChangedPlan):
    def change(self, episode):
        return dataclasses.replace(episode, index=0, seed=1)


class SeedOfTheMode(ToySuite):
    def plan(self):
        games = super().plan()
        return [*games, *(dataclasses.replace(game, mode="cot", seed=game.seed + 1) for game in games)]


class SeedOfTheRepeat(ToySuite):
    def plan(self):
        games = super().plan()
        return [*games, *(dataclasses.replace(game, repeat=1, seed=game.seed + 1) for game in games)]


class NothingPlanned(ToySuite):
    def plan(self):
        return []


class NamedOtherwise(ChangedPlan):
    def change(self, episode):
        return dataclasses.replace(episode, suite="another")


class ColumnWithoutHelp(ToySuite):
    columns: ClassVar = {"right": Column(pa.int32(), "")}


class ColumnWithADot(ToySuite):
    columns: ClassVar = {**ToySuite.columns, "far.left": Column(pa.int32(), "Left.")}


class ColumnOfEveryLedger(ToySuite):
    columns: ClassVar = {**ToySuite.columns, "cost": Column(pa.float64(), "Points paid.")}


class ChangedOutcome(ToySuite):
    """The toy suite with its outcomes changed."""

    async def play(self, episode, conversation):
        return self.change(await super().play(episode, conversation))

    def change(self, outcome):
        return outcome


class OtherStepsTheSecondTime(ChangedOutcome):
    def change(self, outcome):
        return dataclasses.replace(outcome, steps=next(COUNT))


class OtherColumnsTheSecondTime(ChangedOutcome):
    def change(self, outcome):
        return dataclasses.replace(outcome, extra={"right": next(COUNT)})


class OtherCreditTheSecondTime(ChangedOutcome):
    def change(self, outcome):
        return dataclasses.replace(outcome, score=1 / (1 + next(COUNT)))


class OtherRuleTheSecondTime(ToySuite):
    async def play(self, episode, conversation):
        outcome = await super().play(episode, conversation)
        conversation.turns[0].rule = f"rule {next(COUNT)}"
        return outcome


class OtherQuestionTheSecondTime(ToySuite):
    async def play(self, episode, conversation):
        outcome = await super().play(episode, conversation)
        turn = conversation.turns[0].turn
        (*before, last) = turn.chat
        changed = dataclasses.replace(last, parts=(f"Question {next(COUNT)}?",))
        conversation.turns[0].turn = dataclasses.replace(turn, chat=(*before, changed))
        return outcome


class UndeclaredColumn(ChangedOutcome):
    def change(self, outcome):
        return dataclasses.replace(outcome, extra={**outcome.extra, "wrong": 1})


class MistypedColumn(ChangedOutcome):
    def change(self, outcome):
        return dataclasses.replace(outcome, extra={"right": "three"})


class OracleThatLoses(ChangedOutcome):
    def change(self, outcome):
        return dataclasses.replace(outcome, success=False)


class OracleThatFails(ToySuite):
    async def play(self, episode, conversation):
        if episode.player == "oracle":
            raise PlayerError("never")
        return await super().play(episode, conversation)


class FailuresHidden(ToySuite):
    async def play(self, episode, conversation):
        try:
            return await super().play(episode, conversation)
        except PlayerError:
            return Outcome(success=False, steps=0, extra={"right": 0})


class ShortcutWithoutAReply(ToySuite):
    shortcuts: ClassVar = {"cheat": "Is never asked."}


class ViewWithAnObject(ToySuite):
    def view(self, row):
        return EpisodeView(default_view(row).steps, {"suite": self})


class ViewWithAnObjectInAStep(ToySuite):
    def view(self, row):
        steps = [dataclasses.replace(step, facts={"pixels": np.zeros(2)}) for step in default_view(row).steps]
        return EpisodeView(tuple(steps))


class ViewWithNan(ToySuite):
    def view(self, row):
        return EpisodeView(default_view(row).steps, {"share": float("nan")})


class ViewWithoutItsLastStep(ToySuite):
    def view(self, row):
        return EpisodeView(default_view(row).steps[:-1])


class ScoresOfRowOrder(ToySuite):
    def results(self, run, section):
        return [Table("toy", "Toy", ("first",), ((run.episodes(["index"])["index"].to_pylist() or [0])[:1],))]


class DiagnosticsOfRowOrder(ToySuite):
    def results(self, run, section):
        games = run.episodes(["episode_id"])["episode_id"].to_pylist() if section == "diagnostics" else []
        return [Table("toy", "Toy", ("game",), tuple((game,) for game in games))]


class ScoresOfWholeLedgersOnly(ToySuite):
    def results(self, run, section):
        right = run.episodes(["right"])["right"].to_pylist()
        assert len(right) > 1
        return []


class TablesWithAnObject(ToySuite):
    def results(self, run, section):
        if section != "scores":
            return []
        return [Table("toy", "Toy", ("schema",), ((run.plan.schema,),))]


BROKEN = [
    *(IdsOfTheMoment, IdsShared, SeedOfTheMode, SeedOfTheRepeat, NothingPlanned, NamedOtherwise),
    *(ColumnWithoutHelp, ColumnWithADot, ColumnOfEveryLedger),
    *(
        OtherStepsTheSecondTime,
        OtherColumnsTheSecondTime,
        OtherCreditTheSecondTime,
        OtherRuleTheSecondTime,
        OtherQuestionTheSecondTime,
        UndeclaredColumn,
        MistypedColumn,
        OracleThatLoses,
    ),
    *(OracleThatFails, FailuresHidden, ShortcutWithoutAReply, ViewWithAnObject, ViewWithAnObjectInAStep, ViewWithNan),
    *(ViewWithoutItsLastStep, ScoresOfRowOrder, DiagnosticsOfRowOrder, ScoresOfWholeLedgersOnly, TablesWithAnObject),
]


@pytest.fixture
def one_process(monkeypatch):
    """Leave out what starts another process."""
    monkeypatch.setattr(testing, "_check_other_process", lambda suite, plan: None)


@pytest.mark.parametrize("suite", BROKEN, ids=lambda suite: suite.__name__)
def test_a_broken_suite_is_refused(suite, one_process):
    with pytest.raises(AssertionError) as refused:
        check_suite(suite(episodes=4), episodes=3)
    assert str(refused.value), "the message says what is wrong"


def test_a_table_that_depends_on_the_order_of_rows_is_named(one_process):
    with pytest.raises(AssertionError, match=r"table 'toy' \(diagnostics\) depends on the order"):
        check_suite(DiagnosticsOfRowOrder(episodes=4), episodes=3)


@pytest.mark.parametrize("suite", [ChangedPlan, ChangedOutcome])
def test_what_the_broken_suites_are_made_from_is_sound(suite, one_process):
    check_suite(suite(episodes=4), episodes=3)


@pytest.mark.slow
def test_ids_that_depend_on_the_process_are_refused():
    with pytest.raises(AssertionError, match="process"):
        check_suite(IdsOfTheProcess(episodes=2))


def test_an_oracle_is_not_asked_of_a_suite_without_one(one_process):
    check_suite(OracleThatLoses(episodes=4), episodes=3, oracle=False)


def test_as_many_episodes_are_played_as_asked_for(one_process, monkeypatch):
    played = []
    real = testing._play
    monkeypatch.setattr(
        testing, "_play", lambda suite, episode, player: played.append(episode) or real(suite, episode, player)
    )
    check_suite(ToySuite(episodes=9), episodes=3)
    assert [episode.index for episode in played if episode.player == "oracle"] == [0, 0, 3, 3, 6, 6]
    assert {episode.player for episode in played} == {"oracle", "random", "silent", "nonsense", "cut_off", "refusing"}


# --- the first turn --------------------------------------------------------------------------------------------------


class Drawn(ToySuite):
    """The toy suite with a picture in each question, of which the drawing of game 2 is missing."""

    looked: ClassVar[list] = []

    @property
    def needs(self):
        return Needs(pictures=1)

    def plan(self):
        return [dataclasses.replace(each, level=str(each.index)) for each in super().plan()]

    async def play(self, episode, conversation):
        self.looked.append(episode.index)
        await conversation.ask(
            (Message("user", ("Look.", *[Sketch(episode.index)] * (1 + (episode.task == "shapes")))),)
        )
        raise AssertionError("was played beyond its first turn")


class Words(ToySuite):
    name = "words"

    async def play(self, episode, conversation):
        raise AssertionError("has no pictures")


@dataclasses.dataclass(frozen=True)
class Sketch(Picture):
    kind: ClassVar[str] = "sketch_of_the_test"
    number: int
    size = property(lambda self: (1, 1))

    def render(self):
        if self.number == 2:
            raise ValueError("no drawing of number 2")
        return np.zeros((1, 1, 3), np.uint8)


def test_the_first_pictures_of_each_task_and_level_are_rendered_before_a_run():
    Drawn.looked.clear()
    assert check_openings(Drawn(episodes=2), [*Drawn(episodes=2).plan()] * 3) == 2
    assert Drawn.looked == [0, 1], "one episode of each"
    with pytest.raises(ValueError, match=r"suite=toy: the first turn of colors, level 2, .* no drawing of number 2"):
        check_openings(Drawn(episodes=3), Drawn(episodes=3).plan())
    assert check_openings(ToySuite(), ToySuite().plan()) == 0, "a suite without pictures is not looked at"
    Drawn.looked.clear()
    twice = [dataclasses.replace(each, task=task) for task in ("colors", "shapes") for each in Drawn(episodes=2).plan()]
    others = [dataclasses.replace(each, suite="words") for each in Drawn(episodes=3).plan()]
    assert check_openings(Bundle("both", (Drawn(), Words())), [*others, *twice]) == 2 * 1 + 2 * 2
    assert Drawn.looked == [0, 1, 0, 1], "not those of a part without pictures"
