"""A study tells what each setting changes, and why games were lost."""

import dataclasses
import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.cli import main
from cluster.commands import study as study_command
from cluster.commands import sweep
from cluster.commands.study import sweeps
from cluster.errors import UserError
from evals.analysis.compare import Side
from evals.stats.intervals import mean_estimate, student_quantile
from evals.study.conditions import conditions_of, factors_of
from evals.study.effects import effects_figure, effects_table, interactions, main_effects, measured, shared_names
from evals.study.split import PICTURES_ONLY, Pair, Played, pairs_of, split, split_table, splits_of, text_twins
from evals.study.variance import _ends, _shares, variance_shares
from evals.suite import Suite
from evals.suites.bundle import Bundle
from evals.types import Episode, Outcome, Reply, message
from tests.runs import run_of

GAMES = 12


@dataclass(frozen=True)
class Coin(Suite):
    """One question a game: heads wins, tails loses, anything else cannot be read."""

    name = "coin"
    modality: str = "picture"

    def plan(self):
        return [Episode(self.name, "coin", "easy", "zero_shot", index, 0, index, "", 1) for index in range(GAMES)]

    async def play(self, episode, conversation):
        played = await conversation.ask((message("user", "Heads or tails?"),), options=("heads", "tails"))
        played.action = played.reply.text if played.reply.text in ("heads", "tails") else None
        return Outcome(success=played.action == "heads", steps=1)


class Dice(Coin):
    """A game of the same tasks that has no pictures."""

    name = "dice"


class Scripted:
    def __init__(self, replies):
        self.replies = replies

    async def reply(self, turn):
        return Reply(self.replies[turn.episode.index])


def side(replies, player="model", **suite):
    run = run_of(Coin(), {player: Scripted(replies)})
    run = dataclasses.replace(run, settings={"suite": {"name": "coin", **suite}})
    return Side("A", player, run, Coin(), str(suite))


def study(outcomes, factors):
    """Conditions of a factorial design from won games, in the order of the product of the factors' values."""
    sides = [
        side(["heads" if won else "tails" for won in wins], **dict(zip(factors, values, strict=True)))
        for values, wins in zip(itertools.product(*factors.values()), outcomes, strict=True)
    ]
    return conditions_of(sides)


TWO = {"modality": ("picture", "text"), "history": ("all", "2")}
wins = st.lists(st.booleans(), min_size=GAMES, max_size=GAMES)


@settings(max_examples=12)
@given(st.lists(wins, min_size=4, max_size=4))
def test_effects_and_interactions_are_means_over_the_same_games(outcomes):
    conditions = study(outcomes, TWO)
    observations = measured(conditions)
    assert factors_of(conditions) == {"modality": ["picture", "text"], "history": ["all", "2"]}
    (name,) = shared_names(observations)
    base, short, words, both = (sum(each) / GAMES for each in outcomes)
    modality, history = main_effects(conditions, observations, name)
    assert modality.cell == ("modality", "text", "picture") and modality.games == GAMES
    assert modality.difference.mean == pytest.approx((words + both - base - short) / 2)
    assert history.difference.mean == pytest.approx((short + both - base - words) / 2)
    assert (history.first, history.second) == (pytest.approx((short + both) / 2), pytest.approx((base + words) / 2))
    (together,) = interactions(conditions, observations, name)
    assert together.difference.mean == pytest.approx(both - words - short + base)
    assert effects_table(name, [modality, history]).rows[0][:3] == ("modality", "text", "picture")
    figure = effects_figure({name: [modality, history]})
    assert figure.line == 0 and [*figure.panels] == [name], "differences stand beside a line at zero"
    assert figure.series[0].x == ("modality=text (against picture)", "history=2 (against all)")


def test_two_changes_together_may_do_more_than_one_change_can():
    """A difference of differences goes from -2 to 2, also where all sums that were seen are 0 or 1."""
    lost = [False] * GAMES
    conditions = study([lost, [False] + [True] * (GAMES - 1), lost, lost], TWO)
    (together,) = interactions(conditions, measured(conditions), "coin: success")
    assert together.difference.mean == pytest.approx(-(GAMES - 1) / GAMES)
    assert -2 <= together.difference.low < -1, "not cut off at what a single difference can be"


def test_one_change_at_a_time_has_effects_but_neither_interactions_nor_shares():
    won, lost = ["heads"] * GAMES, ["tails"] * GAMES
    sides = [side(lost, modality="picture", history="all"), side(won, modality="text", history="all")]
    conditions = conditions_of([*sides, side(lost, modality="picture", history="2")])
    observations = measured(conditions)
    effects = main_effects(conditions, observations, "coin: success")
    assert [effect.difference.mean for effect in effects] == [1.0, 0.0]
    assert interactions(conditions, observations, "coin: success") == []
    assert variance_shares(conditions, observations, "coin: success") == {}


@pytest.mark.parametrize(
    ("outcome", "source"),
    [
        (lambda game, modality, history: game % 2, "game"),
        (lambda game, modality, history: modality, "modality"),
        (lambda game, modality, history: history, "history"),
        (lambda game, modality, history: modality ^ history, "modality by history"),
        (lambda game, modality, history: game % 2 ^ modality, "game by modality"),
    ],
)
def test_variance_is_found_where_it_was_put(outcome, source):
    outcomes = [[outcome(game, *cell) for game in range(GAMES)] for cell in itertools.product((0, 1), (0, 1))]
    conditions = study(outcomes, TWO)
    shares = variance_shares(conditions, measured(conditions), "coin: success")
    assert shares[source].mean == pytest.approx(1)
    assert sum(share.mean for share in shares.values()) == pytest.approx(1)


def test_variance_is_shared_out_by_size():
    game = np.array([1.0, -1.0] * (GAMES // 2))[:, None, None]
    modality = np.array([1.0, -1.0])[None, :, None]
    shares = _shares(np.broadcast_to(3 * game + 2 * modality, (GAMES, 2, 2)).copy(), ["modality", "history"])
    of_games, of_modality = (
        9 * GAMES / (GAMES - 1),
        4.0,
    )  # games are drawn from many, a factor's values are all there are
    assert shares["game"] == pytest.approx(of_games / (of_games + of_modality))
    assert shares["modality"] == pytest.approx(of_modality / (of_games + of_modality))


def test_each_condition_with_pictures_has_the_twin_that_differs_in_nothing_else():
    twins = text_twins(study([[True] * GAMES] * 4, TWO))
    assert [(one.levels["history"], other.levels["history"]) for one, other in twins] == [("all", "all"), ("2", "2")]


def test_shares_are_of_the_variance_that_there_is_and_what_games_have_in_common_is_of_the_game():
    generator = np.random.default_rng(0)
    of_game, by_a = generator.normal(0, 1, (20_000, 1, 1)), generator.normal(0, 1, (20_000, 3, 1))
    values = of_game + by_a + generator.normal(0, 1, (20_000, 3, 2))
    shares = _shares(values, ["a", "b"])
    assert shares["game"] == pytest.approx((1 + 1 / 3) / 3, abs=0.02)
    assert shares["game by a"] == pytest.approx((1 - 1 / 3) / 3, abs=0.02)
    assert shares["chance and the rest"] == pytest.approx(1 / 3, abs=0.02)


def test_an_interval_of_a_share_reaches_beyond_the_draws_and_stays_within_0_and_1():
    drawn = np.linspace(0.2, 0.4, 400)
    low, high = _ends(0.3, drawn, 10)
    assert 0.1 < low < 0.2 and 0.4 < high < 0.5
    few, many = _ends(0.3, drawn, 5), _ends(0.3, drawn, 1000)
    assert few[0] < low < many[0] and few[1] > high > many[1]
    halves = [0.4, 0.6] * 200
    margin = 2.776445 * math.sqrt(5 / 4) * 0.1 * math.sqrt(400 / 399)  # Student's t with 4 degrees of freedom
    assert _ends(0.5, halves, 5) == pytest.approx((0.5 - margin, 0.5 + margin), abs=1e-6)
    assert _ends(0.8, halves, 5) == pytest.approx((0.4, 1)), "the percentile is farther"
    assert _ends(0.02, drawn - 0.2, 10)[0] == 0 and _ends(0.98, drawn + 0.6, 10)[1] == 1


def test_of_a_single_setting_games_by_setting_cannot_be_told_from_chance():
    outcomes = [[game % 2 for game in range(GAMES)], [game // 2 % 2 for game in range(GAMES)]]
    conditions = study(outcomes, {"history": ("all", "2")})
    shares = variance_shares(conditions, measured(conditions), "coin: success")
    assert shares.keys() == {"game", "history", "chance and the rest"}
    assert shares["chance and the rest"].mean == pytest.approx(1)


played = st.sampled_from([Played(True, True), Played(False, True), Played(False, False)])


@pytest.mark.slow
@given(st.lists(st.tuples(played, played), min_size=1, max_size=40))
def test_shares_of_lost_games_add_up_and_follow_the_counts(games):
    pairs = [Pair(("CL", "1"), number // 2, *each) for number, each in enumerate(games)]  # each game twice
    found = split(pairs)
    lost = [each for each in games if not each[0].won]
    form = [each for each in lost if not each[0].readable]
    assert (found.lost, found.games) == (len(lost), -(-len(games) // 2))
    assert found.won_in_words_only == sum(a.readable and b.won for a, b in lost)
    assert found.won_from_pictures_only == sum(a.won and not b.won and b.readable for a, b in games)
    told = [each for each in lost if each[0].readable and each[1].readable]
    causes = Counter(pair.cause for pair in pairs)
    assert (causes["form"], causes[PICTURES_ONLY]) == (len(form), found.won_from_pictures_only)
    assert causes["seeing"] == found.won_in_words_only == len(told) - causes["planning"]
    if not lost or not told:
        return
    assert found.form.mean == pytest.approx(len(form) / len(lost))
    net = found.won_in_words_only - found.won_from_pictures_only
    expected = (1 - len(form) / len(lost)) * net / len(told)
    assert found.seeing.mean == pytest.approx(min(1, max(0, expected)))
    if 0 <= expected <= 1 - len(form) / len(lost):
        assert found.form.mean + found.seeing.mean + found.planning.mean == pytest.approx(1)


def test_shares_of_lost_games_have_intervals_clustered_by_game():
    """Where all is lost, form has the interval of a mean; the others, near it, that of leaving out one game at a time."""
    draw = np.random.default_rng(2)
    kinds = [Played(False, True), Played(False, False), Played(True, True)]
    all_lost = [Pair(("CL", "1"), number // 3, kinds[draw.integers(2)], kinds[0]) for number in range(60)]
    form = mean_estimate([float(not pair.picture.readable) for pair in all_lost], [pair.game for pair in all_lost])
    assert dataclasses.astuple(split(all_lost).form) == pytest.approx(dataclasses.astuple(form))
    sides = [draw.choice(3, 160, p=chances) for chances in ((0.5, 0.2, 0.3), (0.3, 0.1, 0.6))]
    pairs = [
        Pair(("CL", "1"), number // 2, kinds[picture], kinds[text])
        for number, (picture, text) in enumerate(zip(*sides, strict=True))
    ]
    found = split(pairs)
    left = [split([pair for pair in pairs if pair.game != game]) for game in range(80)]
    for cause in ("form", "seeing", "planning"):
        estimate = getattr(found, cause)
        margin = student_quantile(0.975, 79) * math.sqrt(79 * np.var([getattr(each, cause).mean for each in left]))
        assert (estimate.high - estimate.low) / 2 == pytest.approx(margin, rel=0.05), cause
        assert (estimate.high + estimate.low) / 2 == pytest.approx(estimate.mean)
        assert estimate.n == found.lost


def test_lost_games_are_split_over_all_and_by_task_and_level():
    won, lost, unread = Played(True, True), Played(False, True), Played(False, False)
    outcomes = {("SO", "2"): [(lost, won), (lost, lost), (won, won)], ("CL", "1"): [(unread, won), (won, lost)]}
    pairs = [Pair(cell, (cell, number), *each) for cell, games in outcomes.items() for number, each in enumerate(games)]
    assert [
        (cell, one.games, one.lost, one.won_in_words_only, one.won_from_pictures_only) for cell, one in splits_of(pairs)
    ] == [
        (("all", ""), 5, 3, 1, 1),
        (("CL", "1"), 2, 1, 0, 1),
        (("SO", "2"), 3, 2, 1, 0),
    ]
    assert [cell for cell, _ in splits_of(pairs[:3])] == [("all", "")], "one cell is all there is"
    mixed = [*pairs[::2], *pairs[1::2]]
    counts = [
        [(cell, one.games, one.lost, one.won_in_words_only) for cell, one in splits_of(each)] for each in (pairs, mixed)
    ]
    assert counts[0] == counts[1], "games of a cell need not follow one another"


def test_lost_games_whose_twins_all_tell_nothing_are_split_by_form_only():
    lost, unread = Played(False, True), Played(False, False)
    found = split([Pair(("CL", "1"), number, lost if number else unread, unread) for number in range(8)])
    assert (found.lost, found.form.mean, found.form.n) == (8, 1 / 8, 8)
    assert found.seeing.n == found.planning.n == 0 and math.isnan(found.seeing.mean) and math.isnan(found.planning.mean)
    none = split([Pair(("CL", "1"), number, Played(True, True), lost) for number in range(8)])
    assert (none.lost, none.form.n, none.seeing.n, none.won_from_pictures_only) == (0, 0, 0, 8)


def test_a_player_that_wins_in_words_what_it_loses_from_pictures_cannot_see():
    pictures = ["heads"] * 4 + ["tails"] * 6 + ["well..."] * 2
    words = ["heads"] * 9 + ["tails"] * 3
    conditions = conditions_of([side(pictures, modality="picture"), side(words, modality="text")])
    ((picture, text),) = text_twins(conditions)
    table = split_table(picture, pairs_of(picture, text))
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert (cells["lost"], cells["won in words only"], cells["won from pictures only"]) == (8, 5, 0)
    assert [round(cells[cause].mean, 4) for cause in ("form", "seeing", "planning")] == [0.25, 0.625, 0.125]


def test_games_of_a_bundle_that_are_the_same_in_both_conditions_are_not_among_those_lost_from_pictures():
    def bundle_side(modality, replies):
        suite = Bundle("both", (Coin(modality), Dice(modality="")))
        run = run_of(suite, {"model": Scripted(replies)})
        parts = [{"type": "coin", "modality": modality}, {"type": "dice"}]
        run = dataclasses.replace(run, settings={"suite": {"name": "both", "suites": parts}})
        return Side("A", "model", run, suite, modality)

    sides = [bundle_side("picture", ["tails"] * GAMES), bundle_side("text", ["heads"] * GAMES)]
    ((picture, text),) = text_twins(conditions_of(sides))
    pairs = pairs_of(picture, text)
    assert {pair.game[0] for pair in pairs} == {"coin"} and len(pairs) == GAMES
    assert split(pairs).lost == GAMES


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ([side(["heads"] * GAMES, modality="picture")], "two runs or more"),
        ([side(["heads"] * GAMES)] * 2, "differ in no setting"),
        ([side(["heads"] * GAMES, player, modality=player) for player in ("a", "b")], "of one player.*--player"),
        ([side(["heads"] * GAMES, modality=each) for each in ("picture", "text", "text")], "have the same settings"),
    ],
)
def test_runs_that_are_no_study_are_refused(sides, message):
    with pytest.raises(ValueError, match=message):
        conditions_of(sides)


def test_factors_are_what_a_player_is_told_and_how_it_answers_by_their_shortest_names_and_values_as_words():
    first = side(["heads"] * GAMES)
    settings = [
        {
            "suite": {"modality": "both", "examples": given, "feedback": [], "reasoning": "kept"},
            "history": {"reasoning": kept, "turns": 2},
            "model": {"sampling": {"temperature": heat}, "system_role": role, "name": role, "engine": {"type": role}},
            **{"decoding": "free", "run_dir": role},
        }
        for given, kept, heat, role in ((True, "a", 0.5, "x"), (["legal", 3], "b", None, "y"))
    ]
    settings[1]["suite"]["reasoning"] = "dropped"
    del settings[0]["suite"]["feedback"]
    sides = [dataclasses.replace(first, run=dataclasses.replace(first.run, settings=each)) for each in settings]
    assert factors_of(conditions_of(sides)) == {
        **{"examples": ["true", "legal+3"], "suite.reasoning": ["kept", "dropped"], "history.reasoning": ["a", "b"]},
        **{"temperature": ["0.5", "none"], "system_role": ["x", "y"], "feedback": ["none", ""]},
    }


def test_a_design_plays_every_combination_or_one_change_at_a_time():
    asked = ["suite=kidgym", "suite.modality=picture,text,both", "suite.feedback=[],[legal,changed]"]
    assert sweeps(asked, one_at_a_time=False) == [asked]
    assert sweeps(asked, one_at_a_time=True) == [
        ["suite=kidgym", "suite.modality=picture,text,both", "suite.feedback=[]"],
        ["suite=kidgym", "suite.modality=picture", "suite.feedback=[legal,changed]"],
    ]
    with pytest.raises(UserError, match="several values"):
        sweeps(["suite=kidgym"], one_at_a_time=True)


@pytest.mark.parametrize("codes", itertools.permutations((0, 1, 75)))
def test_a_study_ends_with_the_worst_exit_code_of_its_multiruns_and_plays_them_all(codes, monkeypatch):
    left = list(codes)
    monkeypatch.setattr("cluster.commands.sweep.play_all", lambda overrides: [sweep.Outcome((), left.pop(0))])
    assert exit_code("study", "run", "--one-at-a-time", "suite=kidgym", "a=1,2", "b=1,2", "c=1,2") == 75 and not left


def test_a_stop_signal_ends_a_whole_study(monkeypatch, capsys):
    begun = []

    def play_all(overrides):
        begun.append(overrides)
        return [sweep.Outcome((), 0), sweep.Outcome((), 75, stopped=len(begun) == 2)]

    monkeypatch.setattr("cluster.commands.sweep.play_all", play_all)
    asked = ["suite=kidgym", "a=1,2", "b=1,2", "c=1,2"]
    assert exit_code("study", "run", "--one-at-a-time", *asked) == 75
    assert begun == sweeps(asked, one_at_a_time=True)[:2] and "report on the study" not in capsys.readouterr().out


def test_a_report_tells_causes_effects_interactions_and_shares_in_this_order(monkeypatch):
    pictures, words = ["heads"] * 4 + ["tails"] * 8, ["heads"] * 9 + ["tails"] * 3
    sides = [
        side(replies, modality=modality, history=history)
        for modality, replies in (("picture", pictures), ("text", words))
        for history in ("all", "2")
    ]
    asked = []
    monkeypatch.setattr(study_command, "sides_of", lambda runs, players: asked.append((runs, players)) or sides)
    tables, figure = study_command.report(["a", "b"], "model")
    assert asked == [(["a", "b"], ["model"])]
    kinds = ("effects", "interactions", "variance")
    assert [table.name for table in tables] == [
        *("study_split_history-all", "study_split_history-2", *(f"study_{kind}_coin_success" for kind in kinds))
    ]
    assert [row[:2] for row in tables[2].rows] == [("modality", "text"), ("history", "2")] and figure.series
    assert not any(study_command._STOPPED in table.notes for table in tables)
    stopped = dataclasses.replace(sides[1], run=dataclasses.replace(sides[1].run, stopping=("stopped: decided",)))
    sides[1] = stopped
    assert all(study_command._STOPPED in table.notes for table in study_command.report(["a"])[0])
    assert asked[-1] == (["a"], None)
    monkeypatch.setattr(study_command, "sides_of", lambda runs, players: sides[:1])
    with pytest.raises(UserError, match="two runs or more"):
        study_command.report(["a"])
    apart = [side(pictures, modality="picture"), side(words, modality="text")]
    moved = apart[1].run.renamed(apart[1].run.plan, lambda table: table.slice(0, 0))
    monkeypatch.setattr(
        study_command, "sides_of", lambda runs, players: [apart[0], dataclasses.replace(apart[1], run=moved)]
    )
    with pytest.raises(UserError, match="no game was played in two of these runs"):
        study_command.report(["a", "b"])


def exit_code(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


@pytest.mark.slow
def test_a_study_is_played_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["suite=kidgym", "suite.tasks=[CL]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes=8"]
    factors = ["suite.modality=picture,text", "suite.history=published,2"]
    assert exit_code("study", "run", "--one-at-a-time", *small, *factors, "model=random") == 0
    runs = sorted(str(path) for path in (tmp_path / "runs").iterdir())
    assert len(runs) == 3 and capsys.readouterr().err.count("#0 :") == 2  # jobs are announced once
    assert exit_code("study", "report", *runs, "--out", "told") == 0
    told = capsys.readouterr().out
    assert "Effects on kidgym: success" in told and "Why games were lost" in told
    assert {"study.tex", "study_effects.pdf", "study_effects_kidgym_success.csv"} <= {
        path.name for path in (tmp_path / "told").iterdir()
    }
    assert exit_code("study", "report", runs[0]) == 2
    assert "two runs or more" in capsys.readouterr().err
