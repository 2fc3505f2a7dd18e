"""What a suite gets by default, and what is done with it: plans, ids, columns, results, suites joined into one."""

import asyncio
import dataclasses
import math
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pytest

from evals import suite as module
from evals.errors import SuiteError
from evals.figures import Series
from evals.ledger.columns import Column
from evals.ledger.parts import LedgerChangedError, LedgerDamagedError
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS, ShortcutPlayer
from evals.stats.intervals import NO_ESTIMATE, mean_estimate, proportion_estimate
from evals.suite import (
    MOST_EPISODES,
    Needs,
    Suite,
    built_in_names,
    built_in_players,
    check_plan_size,
    counting_pictures,
    ledger_columns,
    people_fingerprint,
    picture_tokens,
    plan_for,
    play_episode,
    unassigned_games,
)
from evals.suite_results import suite_figures, suite_measures, suite_results, suite_view
from evals.suites.bundle import Bundle
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.multistar import MultiStarSuite
from evals.summary.cells import success_figure, success_table
from evals.tables import Table
from evals.types import Outcome, PlayerError, PromptTooLong, Reply, stable_hash
from evals.view import EpisodeView, StepView, default_view
from tests.evals.test_records import an_episode, done
from tests.toy import ToySuite


@dataclasses.dataclass(frozen=True)
class Coins(Suite):
    """Two questions at once in each episode; ``cheat`` is a shortcut."""

    count: int = 2
    asks: Needs = dataclasses.field(default_factory=Needs)
    name: ClassVar[str] = "coins"
    shortcuts: ClassVar = {"cheat": "Says heads."}
    columns: ClassVar = {"heads": Column(pa.int64(), "Heads."), "note": Column(pa.string(), "A note.")}

    @property
    def needs(self):
        return self.asks

    def plan(self):
        return [an_episode(index, suite=self.name, fingerprint="c", player="") for index in range(self.count)]

    async def play(self, episode, conversation):
        said = {"oracle": lambda: "heads", "shortcuts": {"cheat": lambda: "heads"}}
        played = await asyncio.gather(*(conversation.ask((), options=("heads", "tails"), **said) for _ in range(2)))
        heads = sum(each.reply.text == "heads" for each in played)
        return Outcome(heads == 2, 2, heads / 2, {"heads": heads})

    def results(self, run, section):
        heads = run.episodes(["heads"])["heads"].to_pylist()
        yield Table(f"coins_{section}", "Coins", ("planned", "heads"), ((run.plan.num_rows, sum(heads)),))


class NewCoins(Coins):
    version = 2


def short(plan):
    return [(episode.suite, episode.player, episode.index) for episode in plan]


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_has_every_episode_for_each_player_in_order():
    plan = plan_for(Coins(), {"a": "x", "b": "y"})
    assert short(plan) == [("coins", "a", 0), ("coins", "a", 1), ("coins", "b", 0), ("coins", "b", 1)]
    assert plan == plan_for(Coins(), {"a": "x", "b": "y"}) and isinstance(plan, tuple)


def test_ids_depend_on_suite_version_player_and_what_decides_its_answers():
    plans = [(Coins(), "a", "x"), (Coins(), "b", "x"), (Coins(), "a", "y"), (NewCoins(), "a", "x")]
    assert len({plan_for(suite, {player: fingerprint})[0].id for suite, player, fingerprint in plans}) == 4
    (first, _) = plan_for(Coins(), {"a": "x"})
    assert first.fingerprint == stable_hash(stable_hash(1, "c"), "x")


def test_a_shortcut_plays_only_those_suites_that_offer_it():
    both = Bundle("both", (ToySuite(episodes=1), Coins(count=1)))
    assert short(plan_for(both, {"cheat": "", "oracle": ""})) == [
        ("coins", "cheat", 0),
        ("toy", "oracle", 0),
        ("coins", "oracle", 0),
    ]


def test_ids_are_the_same_alone_and_in_a_bundle():
    both = Bundle("both", (ToySuite(), Coins()))
    alone = [*plan_for(ToySuite(), {"a": "x"}), *plan_for(Coins(), {"a": "x"})]
    assert plan_for(both, {"a": "x"}) == tuple(alone)


async def test_an_episode_is_played_by_its_own_suite_even_where_another_s_name_begins_its_name():
    class Longer(Coins):
        name = "toy_coins"

        def plan(self):
            return [dataclasses.replace(episode, suite=self.name) for episode in super().plan()]

        async def play(self, episode, conversation):
            return "coins"

    class Shorter(ToySuite):
        async def play(self, episode, conversation):
            return "toy"

    for suites in ((Shorter(), Longer()), (Longer(), Shorter())):
        both = Bundle("both", suites)
        assert {episode.suite: await both.play(episode, None) for episode in both.plan()} == {
            "toy": "toy",
            "toy_coins": "coins",
        }


def test_the_players_without_a_model_are_the_built_in_ones_and_the_shortcuts():
    assert built_in_players(ToySuite()) == BUILT_IN_PLAYERS
    both = Bundle("both", (ToySuite(), Coins()))
    assert built_in_players(both) == {"cheat": ShortcutPlayer("cheat"), **BUILT_IN_PLAYERS}


class OnRecord(Coins):
    """Has players of its own: one takes the oracle's name, one plays the first game only."""

    name = "on record"
    people_version = 5
    missing: ClassVar[Exception | None] = None

    @property
    def players(self):
        if self.missing:
            raise self.missing
        return {"oracle": "own", "cheat": "own", "replay": f"replay of {self.count}"}

    def plays(self, player, episode):
        return episode.index == 0


class Later(OnRecord):
    name = "later"
    people_version = 6


def test_a_suites_own_players_stand_behind_the_built_in_ones_and_its_shortcuts():
    both = Bundle("both", (OnRecord(count=1), Later(count=2)))
    own = {"replay": "replay of 2", "cheat": ShortcutPlayer("cheat")}
    assert built_in_players(both) == {**own, **BUILT_IN_PLAYERS}
    assert built_in_names(both) == {*own, *BUILT_IN_PLAYERS}


@pytest.mark.parametrize("error", [ValueError("no such file"), FileNotFoundError("gone"), PermissionError("not ours")])
def test_names_of_players_whose_files_are_missing_here_are_left_out(error, monkeypatch):
    monkeypatch.setattr(OnRecord, "missing", error)
    assert built_in_names(Bundle("both", (OnRecord(), ToySuite()))) == {"cheat", *BUILT_IN_PLAYERS}
    with pytest.raises(type(error)):
        built_in_players(OnRecord())


def test_a_player_of_a_parts_own_plays_what_the_last_part_that_has_it_offers():
    both = Bundle("both", (OnRecord(count=2), Later(count=3), Coins()))
    assert [(each.suite, each.index) for each in plan_for(both, {"replay": ""})] == [("later", 0)]
    assert len(plan_for(both, {"m": ""})) == 7
    assert len(plan_for(Bundle("both", (Later(count=3), Coins())), {"replay": "", "m": ""})) == 1 + 5


@pytest.mark.parametrize("suite", [Coins(), NewCoins(), Bundle("both", (ToySuite(), NewCoins()))])
def test_games_that_nobody_plays_yet_become_those_of_a_plan(suite):
    games = unassigned_games(suite)
    assert tuple(each.assigned("m", "f") for each in games) == plan_for(suite, {"m": "f"})
    assert {each.player for each in games} == {""}


def test_what_people_read_counts_among_what_decides_their_answers_and_the_version_does_not():
    def told(*parts):
        return people_fingerprint(Bundle("both", parts))

    assert told(Coins()) == told(NewCoins()), "games that change have other ids anyway"
    assert len({told(Coins()), told(OnRecord()), told(Later()), told(Coins(), OnRecord()), told(ToySuite())}) == 5


def test_tokens_of_pictures_are_counted_by_the_rule_of_the_model_meanwhile():
    picture = SimpleNamespace(size=(100, 57))
    assert picture_tokens(picture) == 4 * 2, "cells of 28 pixels"
    with counting_pictures(lambda width, height: width + 1000 * height):
        assert picture_tokens(picture) == 57_100
        with counting_pictures(None):
            assert picture_tokens(picture) == 8
        assert picture_tokens(picture) == 57_100
    with pytest.raises(KeyError), counting_pictures(lambda width, height: 1.0):
        raise KeyError
    assert picture_tokens(picture) == 8


def test_the_first_turn_is_the_first_that_is_asked_of_several():
    turn = asyncio.run(Coins().first_turn(an_episode(1)))
    assert (turn.number, turn.options, turn.episode) == (0, ("heads", "tails"), an_episode(1))


def test_columns_are_stored_under_their_suites_name():
    both = Bundle("both", (ToySuite(), Coins()))
    assert ledger_columns(both) == {"toy.right": pa.int32(), "coins.heads": pa.int64(), "coins.note": pa.string()}


# --- playing ---------------------------------------------------------------------------------------------------------


class Slow:
    """Answers the first turn after the second one; raises at turn ``fails``."""

    def __init__(self, fails=None, error=None):
        self.fails, self.error = fails, error

    async def reply(self, turn):
        for _ in range(3 * (turn.number == 0)):
            await asyncio.sleep(0)
        if turn.number == self.fails:
            raise self.error
        return Reply("heads" if turn.number else "tails")


def test_a_played_episode_becomes_a_record_with_its_turns_in_order(monkeypatch):
    times = iter([10.0, 12.5])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    (episode, *_) = plan_for(Coins(), {"a": "x"})
    record = asyncio.run(play_episode(Coins(), episode, Slow()))
    assert record.episode == episode and record.outcome == Outcome(False, 2, 0.5, {"heads": 1})
    assert [(played.turn.episode, played.turn.number) for played in record.turns] == [(episode, 0), (episode, 1)]
    assert [played.reply.text for played in record.turns] == ["tails", "heads"]
    assert (record.error, record.error_kind, record.seconds) == ("", "", 2.5)


@pytest.mark.parametrize(
    ("error", "said", "kind"),
    [
        (PlayerError("not now", "endpoint"), "PlayerError: not now", "endpoint"),
        (PromptTooLong("9 tokens"), "PromptTooLong: 9 tokens", "model"),
    ],
)
def test_a_players_error_makes_a_failed_record_that_keeps_the_turns_before(error, said, kind):
    (episode, *_) = plan_for(Coins(), {"a": "x"})
    record = asyncio.run(play_episode(Coins(), episode, Slow(0, error)))
    assert (record.outcome, record.error, record.error_kind) == (None, said, kind)
    assert [played.turn.number for played in record.turns] == [1]


def test_any_other_error_is_not_the_players():
    (episode, *_) = plan_for(Coins(), {"a": "x"})
    with pytest.raises(ZeroDivisionError):
        asyncio.run(play_episode(Coins(), episode, Slow(0, ZeroDivisionError())))


# --- results ---------------------------------------------------------------------------------------------------------


def test_each_suite_of_a_bundle_scores_its_own_rows_under_short_names():
    toy, coins = ToySuite(episodes=3), Coins()
    both = Bundle("both", (toy, coins))
    plan = plan_for(both, {"oracle": ""})
    records = [asyncio.run(play_episode(both, episode, BUILT_IN_PLAYERS["oracle"])) for episode in plan]
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(both)))
    scores = suite_results(both, run, "scores")
    assert [(table.name, table.rows) for table in scores] == [("toy", ((3, 15),)), ("coins_scores", ((2, 4),))]
    (only,) = suite_results(both, run, "performance")
    assert (only.name, only.section) == ("coins_performance", "performance"), "whatever section the suite gave it"
    assert scores[0].section == "scores"


class Bare(Suite):
    """Only what is required."""

    name = "bare"

    def plan(self):
        return []

    async def play(self, episode, conversation):
        return Outcome(True, 1)


def test_a_suite_has_defaults_for_all_that_is_not_required():
    bare = Bare()
    assert (bare.version, bare.columns, bare.shortcuts, bare.needs) == (1, {}, {}, Needs(0, False, 0))
    assert bare.parts == (bare,)
    run = run_of([])
    assert bare.results(run, "diagnostics") == bare.results(run, "performance") == []
    assert [table.name for table in bare.results(run, "scores")] == ["bare_success"]
    row = records_to_table([done()], {"kumo.tests": pa.int32(), "kumo.predicted": pa.string()}).to_pylist()[0]
    assert bare.view(row) == default_view(row)


def test_the_default_view_shows_each_turn_and_how_the_episode_ended():
    table = records_to_table([done()], {"kumo.tests": pa.int32(), "kumo.predicted": pa.string()})
    row = table.to_pylist()[0]
    view = default_view(row)
    assert view.facts == {"status": "done", "error": "", "success": True, "steps": 3, "budget": 50}
    assert view.steps[1] == StepView(tuple(row["turns"][1]["prompt"]), "second", "thought 1", "a", "rule 1")
    assert len(view.steps) == 3 and view.steps[1].shown[0]["role"] == "assistant"
    turns = [{"prompt": [], "reply": "x", "action": None, "rule": "none"}]
    older = default_view({**row, "turns": turns})
    assert older == EpisodeView((StepView((), "x", "", None, "none"),), view.facts)


# --- success by cell -------------------------------------------------------------------------------------------------


def run_of(games, cells=(("p", "t", "easy", "cot"),), credit=None):
    """A run in which each cell plans three games; ``games`` are (cell, index, status, success, cut off).

    Each game's score is ``credit``, or what its success stands for.
    """
    names = ("player", "task", "level", "mode")
    planned = [dict(zip(names, cell, strict=True)) | {"suite": "s"} for cell in cells for _ in range(3)]
    rows = [
        dict(zip(names, cells[cell], strict=True))
        | {"suite": "s", "index": index, "status": status, "success": success, "cut_off": cut}
        | {"score": None if success is None else success if credit is None else credit}
        for cell, index, status, success, cut in games
    ]
    types = {name: pa.string() for name in (*names, "suite", "status")}
    schema = pa.schema(
        {**types, "success": pa.bool_(), "score": pa.float64(), "index": pa.int32(), "cut_off": pa.int32()}
    )
    return RunData.of_tables(pa.Table.from_pylist(planned), pa.Table.from_pylist(rows, schema=schema))


CELLS = (("p", "t", "easy", "cot"), ("p", "t", "hard", "cot"), ("q", "u", "easy", "icl"), ("q", "t", "easy", "cot"))


def test_success_counts_every_planned_game_of_every_cell():
    games = [
        (0, 0, "done", True, 0),
        (0, 0, "done", True, 2),
        (0, 1, "done", False, 1),
        (0, 2, "failed", None, 4),
        (2, 0, "failed", None, 0),
        (3, 0, "done", True, 0),
        (3, 1, "done", True, 0),
    ]
    table = success_table("s", run_of(games, CELLS))
    assert table.name == "s_success" and table.title == "s" and table.headline and table.section == "scores"
    assert table.columns == ("player", "task", "level", "mode", "planned", "done", "failed", "cut off", "success")
    assert table.rows == (
        (*CELLS[0], 3, 3, 1, 7, proportion_estimate([True, True, False, False], [0, 0, 1, 2])),
        (*CELLS[1], 3, 0, 0, 0, table.rows[1][-1]),
        (*CELLS[2], 3, 0, 1, 0, proportion_estimate([False])),
        (*CELLS[3], 3, 2, 0, 0, proportion_estimate([True, True])),
    )
    assert table.rows[1][-1].n == NO_ESTIMATE.n == 0
    assert len(table.notes) == 1
    mapped = success_figure("s", run_of([(1, 0, "done", True, 0), *games], CELLS))
    shown = {cell: table.rows[number][-1] for number, cell in enumerate(CELLS)}
    both = ("easy", "hard")
    assert mapped.series == (
        Series("t", both, (shown[CELLS[0]], proportion_estimate([True])), "p, cot"),
        Series("u", both, (shown[CELLS[2]], None), "q, icl"),
        Series("t", both, (shown[CELLS[3]], None), "q, cot"),
    ), "what nobody has played yet is empty"


def test_partial_credit_and_the_title_reach_the_default_table_and_map():
    games = [(0, 0, "done", False, 0), (0, 1, "done", False, 0), (0, 2, "failed", None, 0)]
    table = success_table("s", run_of(games, credit=0.5), "The Suite")
    assert table.title == "The Suite" and table.columns[-1] == "score"
    assert table.rows[0][-1].mean == pytest.approx(1 / 3), "a failed episode has score 0"
    more = [(0, index, "done", False, 0) for index in (0, 0, 1, 3, 4, 5)]
    half = success_table("s", run_of([*games, *more], credit=0.5)).rows[0][-1]
    expected = mean_estimate([0.5, 0.5, 0.0, *[0.5] * 6], [0, 1, 2, 0, 0, 1, 3, 4, 5])
    assert half == expected and half.low > 0, "repeats of a game count as one game"
    assert success_figure("s", run_of(games), "The Suite").title == "The Suite: success"


class Broken(Coins):
    """Fails at whatever it is to show of a run."""

    error = KeyError("x")

    def results(self, run, section):
        raise self.error

    figures = view = lambda self, *given: self.results(*given, "")

    def measures(self, run, player):
        return self.results(run, player)


def test_an_error_of_a_suite_says_whose_it_is_and_at_what_and_a_changing_ledger_is_no_fault_of_a_suite():
    run = run_of([])
    both = Bundle("both", (ToySuite(), Broken()))
    with pytest.raises(SuiteError, match=r"the suite coins cannot make its paper of this run: KeyError: 'x'"):
        suite_results(both, run, "paper")
    with pytest.raises(SuiteError, match=r"the suite coins cannot draw its figures of this run: KeyError: 'x'"):
        suite_figures(both, run)
    with pytest.raises(SuiteError, match=r"the suite coins cannot take its measures of this run: KeyError: 'x'"):
        suite_measures(Broken(), run, "model")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SuiteError, match=r"of this run: SystemExit: 4$"):
        patch.setattr(Broken, "error", SystemExit(4))
        suite_results(Broken(), run, "scores")
    for error in (LedgerChangedError("gone"), LedgerDamagedError([])):
        with pytest.raises(type(error)), pytest.MonkeyPatch.context() as patch:
            patch.setattr(Broken, "error", error)
            suite_results(Broken(), run, "scores")


def test_an_episode_whose_suite_cannot_rebuild_it_is_shown_plainly_with_the_reason_first():
    (row,) = records_to_table([done()], {"kumo.tests": pa.int32(), "kumo.predicted": pa.string()}).to_pylist()
    plain = default_view(row)
    reason = "without the help of the suite coins: KeyError: 'x'"
    shown = suite_view(Broken(), row)
    assert next(iter(shown.facts)) == "shown"
    assert shown == dataclasses.replace(plain, facts={"shown": reason, **plain.facts})
    in_public = suite_view(Broken(), row, public=True)
    assert in_public.facts["shown"] == "without the help of the suite coins: KeyError", "a message may quote any file"
    assert suite_view(Coins(), row) == plain


# --- suites joined into one ------------------------------------------------------------------------------------------


def test_a_bundle_needs_what_any_of_its_suites_needs():
    assert Bundle("b", (Coins(), ToySuite())).needs == Needs() == Bundle("none", ()).needs
    first = Coins(asks=Needs(pictures=3, label_scores=True, context=10))
    second = dataclasses.replace(ToySuite())
    assert Bundle("b", [second, first]).needs == Needs(3, True, 10)
    assert Bundle("b", (Bundle("inner", (first,)), second)).needs == Needs(3, True, 10)


def test_a_bundle_with_one_suite_twice_is_refused():
    with pytest.raises(ValueError, match=r"mine.*toy"):
        Bundle("mine", (ToySuite(), Coins(), ToySuite(episodes=1)))


@pytest.mark.parametrize(
    ("suite", "factor"),
    [
        (KidGymSuite(tasks=("CL",), levels=(1,), modes=("cot",), episodes=5_000_001), "5,000,001 episodes"),
        (KumoSuite(domains=["medical"], difficulties=["easy"], repeats=10**9), "1,000,000,000 repeats"),
        (KumoSuite(domains=["medical"], tasks_per_domain=10**9), "1,000,000,000 tasks"),
        (MultiStarSuite(configurations=["center_single"], puzzles=10**10), "10,000,000,000 puzzles"),
    ],
)
def test_a_plan_of_absurd_size_is_refused_before_it_is_made(suite, factor):
    with pytest.raises(ValueError, match=factor):
        suite.plan()


def test_the_size_of_a_plan_is_the_product_of_its_settings():
    check_plan_size(tasks=5, episodes=MOST_EPISODES // 5)
    with pytest.raises(ValueError, match=r"12,000,000 episodes \(3 tasks x 4,000,000 episodes\)"):
        check_plan_size(tasks=3, episodes=4_000_000)


class Planning(ToySuite):
    """Plans one episode with other values, or raises an error."""

    changes: ClassVar[dict] = {}
    raised: ClassVar[BaseException | None] = None

    def plan(self):
        if self.raised:
            raise self.raised
        first, *others = super().plan()
        return [dataclasses.replace(first, **self.changes), *others]


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        *((name, value, "a text") for name in ("task", "level", "mode", "group") for value in (None, 3, [], "\ud800")),
        *(
            (name, value, "a whole number")
            for name in ("index", "repeat", "budget")
            for value in (-1, 2**31, 1.0, True, None, {})
        ),
        ("suite", "kumo", "'toy'"),
        *(("seed", value, "a whole number") for value in (2**63, -(2**63) - 1, "1")),
        *(
            (name, value, "a number from 0 up")
            for name in ("calls", "prompt_tokens")
            for value in (math.nan, math.inf, -0.5, None)
        ),
    ],
)
def test_a_plan_that_no_ledger_can_hold_is_refused_before_anything_is_played(field, value, wanted, monkeypatch):
    monkeypatch.setattr(Planning, "changes", {field: value})
    with pytest.raises(
        ValueError, match=rf"^suite={Planning.name}: plans an episode whose {field} is .*; it must be {wanted}"
    ):
        plan_for(Planning(episodes=3), {"m": ""})


def test_a_plan_may_hold_what_the_ledger_can(monkeypatch):
    whole = {"index": 2**31 - 1, "repeat": 0, "budget": 2**31 - 1, "seed": -(2**63), "calls": 0, "prompt_tokens": 1e300}
    monkeypatch.setattr(Planning, "changes", whole)
    first, *_ = plan_for(Planning(episodes=3), {"m": ""})
    assert {name: getattr(first, name) for name in whole} == whole
    [row] = plan_to_table([first]).to_pylist()
    assert {name: row[name] for name in ("index", "repeat", "seed")} == {
        name: whole[name] for name in ("index", "repeat", "seed")
    }


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (SystemExit(3), r"its plan called sys.exit\(3\)"),
        (KeyError("x"), "its plan failed: KeyError: 'x'"),
        (ValueError("no such setting"), "^no such setting$"),
    ],
)
def test_a_plan_that_fails_is_an_error_of_its_suite(raised, said, monkeypatch):
    monkeypatch.setattr(Planning, "raised", raised)
    with pytest.raises(ValueError, match=said):
        plan_for(Planning(), {"m": ""})
