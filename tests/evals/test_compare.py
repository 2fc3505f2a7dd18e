"""Two sides on the same games: what is paired, what is left out, what has flipped, and what is said to differ."""

import dataclasses
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.analysis.compare import LOOKED_AT, Side, comparison_tables, flip_table, flips, in_one_cell
from evals.analysis.differences import _sampled_pairs, differences_table, flat_settings
from evals.analysis.evidence import evidence_table
from evals.analysis.forest import forest_figure
from evals.analysis.fresh import _effort, fresh_table, suites_of_both, suites_of_other_games
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS
from evals.stats.anytime import difference_capital, difference_sequence, e_holm
from evals.suites.bundle import Bundle
from evals.suites.kidgym import KidGymSuite
from evals.suites.multistar import MultiStarSuite
from evals.summary.paired import Measure, Observation, column_measure, holm, paired_effects
from tests.runs import Often, run_of
from tests.toy import ToySuite

SUITE = ToySuite(episodes=40)


def sides(first=None, second=None, suite=SUITE, other=None, **of_second):
    runs = [
        run_of(suite, {"m": Often(first or 0.8, 1)}),
        run_of(other or suite, {"m": Often(second or 0.4, 2)}, **of_second),
    ]
    return [Side(label, "m", run, each) for label, run, each in zip("AB", runs, (suite, other or suite), strict=True)]


def row_of(table, number=0):
    return dict(zip(table.columns, table.rows[number], strict=True))


def won(side):
    return dict(
        zip(*(side.run.episodes(["index", "success"])[name].to_pylist() for name in ("index", "success")), strict=True)
    )


def test_games_that_failed_on_one_side_are_the_same_games_without_a_value():
    first, second = sides(failing=range(40))
    with pytest.raises(ValueError, match="no game has a value of steps on both sides, A and B; a failed"):
        comparison_tables(first, second, column="steps")
    assert comparison_tables(first, second, column="success")


def test_the_difference_is_that_of_the_successes():
    first, second = sides()
    (overall,) = comparison_tables(first, second)
    row = row_of(overall)
    means = [sum(won(side).values()) / 40 for side in (first, second)]
    assert (row["A"], row["B"]) == pytest.approx(means)
    assert row["A - B"].mean == pytest.approx(means[0] - means[1]) and row["games"] == 40
    assert row["measure"] == "toy: success" and 0 < row["detects"] < 1
    (backwards,) = comparison_tables(second, first)
    assert row_of(backwards)["B - A"].mean == pytest.approx(-row["A - B"].mean)


def test_a_failed_episode_has_no_success_and_an_unplayed_one_is_left_out():
    first, second = sides(1.0, 1.0, failing=(3, 4))
    row = row_of(comparison_tables(first, second)[0])
    assert row["A - B"].mean == pytest.approx(2 / 40) and row["games"] == 40
    first, second = sides(1.0, 1.0, most=30)
    (overall,) = comparison_tables(first, second)
    assert row_of(overall)["games"] == 30 and any("10 observations" in note for note in overall.notes)


def test_a_failed_episode_is_left_out_of_columns_that_it_has_no_value_in():
    first, second = sides(failing=(3, 4))
    row, failed = (row_of(comparison_tables(first, second, column=name)[0]) for name in ("steps", "seconds"))
    assert row["games"] == 38 and row["A"] == row["B"] > 0
    assert failed["games"] == 40, "how long it took is known of a failed one too"


class ThreeTimes(ToySuite):
    def plan(self):
        return [dataclasses.replace(episode, repeat=repeat) for episode in super().plan() for repeat in range(3)]


def test_evidence_counts_a_game_once_however_often_it_is_repeated():
    pairs = [sides(1.0, 1e-9, suite(episodes=4)) for suite in (ToySuite, ThreeTimes)]
    once, again = (row_of(evidence_table(first, [second])) for first, second in pairs)
    assert once == again and once["games"] == 4 and once["difference"].mean == 1


class Measured(ToySuite):
    """Measures the given values."""

    bounded = True

    def measures(self, run, player):
        return [
            Measure(name, (), [Observation((), n, 0, x) for n, x in enumerate(xs)], bounded=self.bounded)
            for name, xs in self.found.items()
        ]


@pytest.mark.parametrize("bounded", [True, False])
def test_evidence_needs_bounds_on_both_sides_whatever_was_seen(bounded):
    suites = [Measured(episodes=2), Measured(episodes=2)]
    suites[0].found, suites[1].found = {"share": (1.0, 0.0)}, {"share": (0.0, 1.0)}
    suites[1].bounded = bounded
    for one, other in (suites, suites[::-1]):
        first, second = sides(suite=one, other=other)
        assert (evidence_table(first, [second]) is not None) == bounded


@pytest.mark.parametrize(
    ("column", "known"),
    [("success", True), ("score", True), ("toy.lost", True), ("cost", False), ("attempt", False)],
)
def test_columns_have_known_bounds_by_what_they_are(column, known):
    first, second = sides()
    rows = first.run.episodes()
    with_truth = rows.append_column("toy.lost", pa.array([False] * len(rows)))
    first, second = (
        dataclasses.replace(side, run=RunData.of_tables(side.run.plan, with_truth)) for side in (first, second)
    )
    assert (evidence_table(first, [second], column) is not None) == known


def test_evidence_against_several_is_corrected_for_their_number():
    wins = {"A": [1.0] * 18, "B": [0.0] * 18, "C": [0.0, 1.0] * 9, "D": [1.0] * 17 + [0.0]}
    made = []
    for label, found in wins.items():
        suite = Measured(episodes=2)
        suite.found = {"success": found}
        made.append(dataclasses.replace(sides(suite=suite, other=suite)[0], label=label))
    first, *others = made
    differences = [[a - b for a, b in zip(wins["A"], wins[each], strict=True)] for each in "BCD"]
    e_values = [difference_capital(each).e_value for each in differences]
    assert e_values[0] > 1000 > e_values[1] > e_values[2]
    shown = [[f"{value:.1e}" if value >= 1000 else value for value in each] for each in (e_values, e_holm(e_values))]
    assert evidence_table(first, others).rows == tuple(
        (f"A - {label}", "toy: success", 18, difference_sequence(each), e_value, corrected, found)
        for label, each, e_value, corrected, found in zip("BCD", differences, *shown, ("yes", "yes", "no"), strict=True)
    )


def test_games_of_other_seeds_are_not_the_same_games(monkeypatch):
    first, _ = sides()
    monkeypatch.setattr("tests.toy.stable_seed", lambda *parts: hash(parts) % 1000)
    strange = Side("B", "m", run_of(SUITE, {"m": Often(0.5)}), SUITE)
    with pytest.raises(ValueError, match="same"):
        comparison_tables(first, strange)
    assert flips(first, strange) == []


def test_how_many_games_it_takes():
    first, second = sides()
    row = row_of(comparison_tables(first, second, detect=0.05)[0])
    expected = 40 * (row["detects"] / 0.05) ** 2
    assert row["games for 0.05"] == pytest.approx(expected, abs=1)
    for games, known in ((1, False), (2, True)):
        few = comparison_tables(*sides(1.0, 1.0, suite=ToySuite(episodes=games)), detect=0.05)[0]
        assert (row_of(few)["games for 0.05"] is not None) == known, "one game says nothing of how games differ"


@pytest.mark.parametrize("stopped", [(), (0,), (1,), (0, 1)])
def test_runs_that_a_rule_may_stop_say_that_their_intervals_are_too_narrow(stopped):
    both = [
        dataclasses.replace(side, run=dataclasses.replace(side.run, stopping=("It stopped",) * (n in stopped)))
        for n, side in enumerate(sides())
    ]
    notes = comparison_tables(*both)[0].notes
    assert (LOOKED_AT in notes) == bool(stopped)
    assert [note for note in notes if "It stopped" in note] == [f"{'AB'[n]}: It stopped." for n in stopped]


def test_other_columns_can_be_compared_and_text_cannot():
    first, second = sides()
    row = row_of(comparison_tables(first, second, column="steps")[0])
    assert row["measure"] == "toy: steps" and row["A - B"].mean == 0
    for column in ("right", "toy.right"):
        row = row_of(comparison_tables(first, second, column=column)[0])
        assert row["A"] > 1 and row["measure"] == "toy: right", "a suite's own column"
    for column, cause in (("rihgt", "no column"), ("kumo.right", "no column"), ("error", "not numbers")):
        with pytest.raises(ValueError, match=cause):
            comparison_tables(first, second, column=column)


def test_flips_are_the_games_that_one_side_won():
    first, second = sides()
    found = flips(first, second)
    ours, theirs = won(first), won(second)
    assert {flip.game[3] for flip in found} == {index for index in ours if ours[index] != theirs[index]}
    ids = dict(
        zip(*(first.run.episodes(["index", "episode_id"])[n].to_pylist() for n in ("index", "episode_id")), strict=True)
    )
    for flip in found:
        assert flip.won_by == ("A" if ours[flip.game[3]] else "B") and flip.ids[0] == ids[flip.game[3]]
        assert flip.ids[0] != flip.ids[1] or first.player == second.player
    table = flip_table(found, first, second, 2)
    assert [row[0] for row in table.rows] == ["B"] * min(2, sum(f.won_by == "B" for f in found)) + ["A", "A"]
    gained = sum(flip.won_by == "A" for flip in found)
    assert f"A won {gained} " in table.notes[0]
    assert flip_table(found, first, second, 0).rows == ()


def test_cells_have_their_own_p_values_corrected_for_their_number():
    suite = KidGymSuite(tasks=["CL", "SE"], levels=[1], modes=["zero_shot", "cot"], episodes=4)
    players = {name: BUILT_IN_PLAYERS[name] for name in ("random", "oracle")}
    run = run_of(suite, players)
    first, second = Side("A", "random", run, suite), Side("B", "oracle", run, suite)
    overall, cells = comparison_tables(first, second)
    assert cells.columns[:2] == ("task", "mode") and len(cells.rows) == 4, "the level does not vary"
    assert row_of(overall)["games"] == 8, "a game in two modes is one game"
    row = row_of(cells)
    assert row["games"] == 4 and row["Holm p"] >= row["p"] and row["B"] == 1
    assert [cell[:2] for cell in cells.rows] == [("CL", "zero_shot"), ("CL", "cot"), ("SE", "zero_shot"), ("SE", "cot")]


class OneTaskLost(Often):
    async def reply(self, turn):
        return await (Often(0.0) if turn.episode.task == "SE" else super()).reply(turn)


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 5, 30])
def test_a_forest_plot_draws_the_table_s_differences_the_largest_where_there_are_too_many(most, monkeypatch):
    monkeypatch.setattr("evals.analysis.forest.MOST_CELLS", most)
    suite = KidGymSuite(tasks=["CL", "SE", "MA"], levels=[1, 2], modes=["zero_shot"], episodes=6)
    run = run_of(suite, {"m": OneTaskLost(1.0, 1), "n": Often(0.8, 3)})
    first, second = Side("A", "m", run, suite), Side("B", "n", run, suite)
    overall, cells = comparison_tables(first, second)
    means = [row_of(cells, place)["A - B"].mean for place in range(6)]
    assert 0 < max(means) < -min(means), "the largest is one that the first side loses"
    (drawn,) = forest_figure(first, second).series
    whole, *rows = zip(drawn.x, drawn.y, strict=True)
    assert whole == ("all", row_of(overall)["A - B"])
    told = {f"{row['task']} {row['level']}": row["A - B"] for row in (row_of(cells, place) for place in range(6))}
    assert dict(rows).items() <= told.items() and len(rows) == min(most, 6)
    assert [name for name, _ in rows] == [name for name in told if name in dict(rows)], "in the order of the plan"
    left = [abs(told[name].mean) for name in told.keys() - dict(rows).keys()]
    assert max(left, default=0) <= min(abs(difference.mean) for _, difference in rows)


def test_multistar_compares_its_questions():
    suite = MultiStarSuite(subtask="chain", puzzles=1, configurations=["center_single"], priors=["none", "model"])
    run = run_of(suite, {name: BUILT_IN_PLAYERS[name] for name in ("random", "oracle")})
    first, second = Side("A", "oracle", run, suite), Side("B", "random", run, suite)
    overall, accuracy, mseval = comparison_tables(first, second)
    assert [row[0] for row in overall.rows] == ["multistar: accuracy", "multistar: MSEval of perfect"]
    assert accuracy.columns[:2] == ("prior", "stage") and all(row[2] == 1 for row in (*accuracy.rows, *mseval.rows))


# --- what differs ----------------------------------------------------------------------------------------------------


def test_where_nothing_differs_it_says_so():
    first, second = sides()
    table = differences_table(first, second, ())
    assert not table.rows and "chance" in table.notes[0]
    (named,) = differences_table(first, Side("B", "other", second.run, SUITE), ()).rows
    assert named == ("player", "m", "other")


def test_prompts_and_pictures_that_differ_are_found_in_what_was_shown(monkeypatch):
    first, second = sides()
    assert not any("differ in" in note for note in differences_table(first, second, ()).notes)
    real = ToySuite.play

    async def play(self, episode, conversation):
        ask = conversation.ask
        conversation.ask = lambda chat, **more: ask(
            (chat[0].__class__("system", ("Another text.",)), *chat[1:]), **more
        )
        return await real(self, episode, conversation)

    monkeypatch.setattr(ToySuite, "play", play)
    other = Side("B", "m", run_of(SUITE, {"m": Often(0.4)}), SUITE)
    (note,) = [note for note in differences_table(first, other, ()).notes if "differ in" in note]
    assert note.startswith("Texts differ in 12 of 12")
    fine, coarse = (KidGymSuite(tasks=["CL"], levels=[1], modes=["cot"], episodes=2, resolution=r) for r in (64, 32))
    pictures = [Side(label, "oracle", run_of(suite), suite) for label, suite in (("A", fine), ("B", coarse))]
    assert any(note.startswith("Pictures differ in 2 of 2") for note in differences_table(*pictures, ()).notes)


def test_each_game_is_looked_at_in_each_of_its_modes():
    one = KidGymSuite(tasks=["CL"], levels=[1], modes=["zero_shot", "cot"], episodes=2)
    first, second = run_of(one), run_of(dataclasses.replace(one, modes=["cot", "zero_shot"]))
    both = [Side(label, "oracle", run, one) for label, run in (("A", first), ("B", second))]
    assert len(list(_sampled_pairs(*both))) == 4
    assert not any("differ in" in note for note in differences_table(*both, ()).notes)


def test_parts_of_a_bundle_go_by_their_names():
    settings = {"suite": {"suites": [{"type": "kumo", "domains": ["a"]}, {"type": "kidgym", "levels": [1, 2]}]}}
    assert dict(flat_settings(settings)) == {
        "suite.suites.kumo.type": "kumo",
        "suite.suites.kumo.domains": ["a"],
        "suite.suites.kidgym.type": "kidgym",
        "suite.suites.kidgym.levels": [1, 2],
    }
    assert dict(flat_settings({"a": {"b": 1, "c": 2}}, {"a.b"})) == {"a.c": 2}
    named = [{"name": "mine", "type": "kumo", "x": 1}, {"x": 2}, 3]
    assert dict(flat_settings({"a": named})) == {
        **{"a.mine.name": "mine", "a.mine.type": "kumo", "a.mine.x": 1, "a.1.x": 2, "a.2": 3}
    }


def with_settings(side, settings, sessions=()):
    return dataclasses.replace(side, run=dataclasses.replace(side.run, settings=settings, sessions=sessions))


def test_all_versions_of_all_sessions_count_and_what_a_session_says_of_itself_does_not():
    first, second = sides()
    own = {"began": 1, "config": {"a": 1}, "complete": True, "retry": 0, "ray": "2"}
    sessions = [{"id": "1", **own, "vllm": "0.2", "gone": None}, {"id": "2", **own, "vllm": "0.1", "old": "1"}]
    other = [{"id": "3", **own, "began": 2, "config": {}, "complete": False, "retry": 1, "vllm": "0.2", "new": 7}]
    settings = {"a": {"list": [1, {"deep": 2}], "same": [1], "none": None}}
    changed = {"a": {"list": [1, {"deep": 3}], "same": [1], "none": 0}}
    table = differences_table(with_settings(first, settings, sessions), with_settings(second, changed, other), ())
    assert table.columns[1:] == ("A", "B") and table.name == "differences_A_B"
    assert table.rows == (
        ("a.list.1.deep", "2", "3"),
        ("a.none", "–", "0"),
        ("version of vllm", "0.1, 0.2", "0.2"),
        ("version of old", "1", "–"),
        ("version of new", "–", "7"),
    )
    assert not any("chance" in note for note in table.notes)
    one = with_settings(first, settings, sessions)
    same_run = differences_table(one, dataclasses.replace(one, label="B", player="n"), ())
    assert same_run.rows == (("player", "m", "n"),), "one run has one setting"


def test_of_surroundings_each_thing_that_differs_has_a_row_and_few_packages_are_shown():
    def session(number, **around):
        packages = {f"p{each:02}": str(number * each) for each in range(15)} | {"vllm": str(number), "a.b": "1"}
        return [{"id": str(number), "vllm": str(number), "surroundings": {"packages": packages, **around}}]

    first, second = sides()
    ours = session(1, gpus=None, variables={"VLLM_X": "0", "VLLM_Y": "1"}, weights="abc")
    theirs = session(2, gpus=["H100"], variables={"VLLM_X": "1", "VLLM_Y": "1"}, weights="abc")
    table = differences_table(with_settings(first, {}, ours), with_settings(second, {}, theirs), ())
    assert table.rows == (
        ("version of vllm", "1", "2"),
        ("variable VLLM_X", "0", "1"),
        ("gpus", "–", "['H100']"),
        *((f"package p{each:02}", str(each), str(2 * each)) for each in range(1, 13)),
    )
    assert "2 more packages differ" in table.notes[-1]
    # Twelve that differ are all shown.
    fewer = {
        name: version for name, version in ours[0]["surroundings"]["packages"].items() if name not in ("p13", "p14")
    }
    others = {"p13": "26", "p14": "28"}
    twelve = [{**ours[0], "surroundings": {"packages": fewer | others}}]
    notes = differences_table(with_settings(first, {}, twelve), with_settings(second, {}, theirs), ()).notes
    assert not any("more packages" in note for note in notes)


def test_only_games_that_both_sides_were_shown_are_looked_at():
    players = {"n": BUILT_IN_PLAYERS["random"], "m": Often(0.5)}
    fine, coarse = (KidGymSuite(tasks=["CL"], levels=[1], modes=["cot"], episodes=6, resolution=r) for r in (64, 32))
    first, second = (
        Side(label, player, run_of(suite, players, **more), suite)
        for label, player, suite, more in (
            ("A", "m", fine, {"failing": (0,)}),
            ("B", "n", coarse, {"most": 5}),
        )
    )
    (note,) = [note for note in differences_table(first, second, ()).notes if "differ in" in note]
    assert re.findall(r"\d+", note) == ["4", "4"], "five were played by both, and one of them failed at once"


def test_suites_of_one_side_only_and_other_players_of_a_run_are_not_compared():
    players = {"other": Often(0.0), "m": Often(1.0)}
    both = Bundle("both", (KidGymSuite(tasks=["CL"], levels=[1], modes=["cot"], episodes=2), SUITE))
    first, second = Side("A", "m", run_of(both, players), both, "here"), sides(1.0, 0.5)[1]
    for one, other in ((first, second), (second, first)):
        (table,) = comparison_tables(one, other)
        assert [row[0] for row in table.rows] == ["toy: success"] and table.headline
        assert row_of(table)["A"] == 1 and row_of(table)["games"] == 40
        assert {flip.suite for flip in flips(one, other)} == {"toy"}
        assert {flip.won_by for flip in flips(one, other)} == {"A"}
        assert len(flips(one, other)) == 40 * (1 - row_of(table)["B"])
    assert comparison_tables(first, second)[0].notes[0] == "A: m, here."
    (column,) = comparison_tables(first, second, column="steps")
    assert [row[0] for row in column.rows] == ["toy: steps"]
    again = dataclasses.replace(first, label="B", player="other")
    assert [row[0] for row in comparison_tables(first, again, column="toy.right")[0].rows] == ["toy: right"]
    for one, names in ((first, ["kidgym: steps", "toy: steps"]), (second, ["toy: steps"])):
        assert [row[0] for row in comparison_tables(one, again, column="steps")[0].rows] == names


def test_flips_stand_by_side_and_game_and_an_unplayed_game_is_none():
    first, second = sides(0.6, 0.5, most=30)
    found = flips(first, second)
    assert max(flip.game[3] for flip in found) < 30
    gained = [flip for flip in found if flip.won_by == "A"]
    lost = [flip for flip in found if flip.won_by == "B"]
    assert found == [*lost, *gained] and len(gained) > 2 < len(lost), "what the first lost is in front"
    for some in (gained, lost):
        assert [flip.game for flip in some] == sorted(flip.game for flip in some)
    table = flip_table(found, first, second, 2)
    assert table.columns == ("won by", "task", "level", "mode", "game", "A", "B") and table.name == "flips_A_B"
    assert table.rows == tuple(
        (flip.won_by, *flip.game[:3], f"index {flip.game[3]}", *(name[:12] for name in flip.ids))
        for flip in [*lost[:2], *gained[:2]]
    )
    assert f"B won {len(lost)} " in table.notes[0] and "4 are shown" in table.notes[0]


def test_each_cell_has_its_own_figures_and_tables_have_the_names_of_their_files():
    suite = KidGymSuite(tasks=["CL", "SE"], levels=[1, 2], modes=["cot"], episodes=6)
    run = run_of(suite, {name: BUILT_IN_PLAYERS[name] for name in ("random", "oracle")})
    first, second = Side("A", "oracle", run, suite), Side("B", "random", run, suite)
    overall, cells = comparison_tables(first, second)
    assert (overall.name, cells.name) == ("compare_A_B", "compare_A_B_kidgym_success")
    assert overall.columns == ("measure", "A", "B", "A - B", "p", "games", "detects")
    assert cells.columns == ("task", "level", "A", "B", "A - B", "p", "Holm p", "games")
    rows = [dict(zip(cells.columns, row, strict=True)) for row in cells.rows]
    stored = [row for row in run.episodes().to_pylist() if row["player"] == "random"]
    for row in rows:
        wins = [bool(one["success"]) for one in stored if (one["task"], one["level"]) == (row["task"], row["level"])]
        assert (row["A"], row["B"], row["games"]) == (1, sum(wins) / 6, 6)
        assert row["A - B"].mean == pytest.approx(1 - row["B"])
    kept = {one.name: one for one in suite.measures(run, "oracle")}["success"], suite.measures(run, "random")
    effects = paired_effects(kept[0].observations, next(one for one in kept[1] if one.name == "success").observations)
    assert [row["p"] for row in rows] == [effect.p for effect in effects] and min(effect.p for effect in effects) < 1
    assert [row["Holm p"] for row in rows] == holm([effect.p for effect in effects]) != [effect.p for effect in effects]
    total = row_of(overall)
    assert (total["A"], total["games"]) == (1, 24) and total["p"] == "<0.001"
    assert total["B"] == pytest.approx(sum(row["B"] for row in rows) / 4)


def test_the_same_games_are_looked_at_each_time(monkeypatch):
    first, second = sides()
    real = ToySuite.play

    async def play(self, episode, conversation):
        ask = conversation.ask
        if episode.index % 2:
            conversation.ask = lambda chat, **more: ask((chat[0].__class__("system", ("!",)), *chat[1:]), **more)
        return await real(self, episode, conversation)

    monkeypatch.setattr(ToySuite, "play", play)
    first, second = (dataclasses.replace(side, run=run_of(SUITE, {"m": Often(0.5)})) for side in (first, second))
    monkeypatch.setattr(ToySuite, "play", real)
    plain = dataclasses.replace(second, run=run_of(SUITE, {"m": Often(0.5)}))
    assert not any("differ in" in note for note in differences_table(first, second, ()).notes)
    assert len({differences_table(first, plain, ()).notes for _ in range(5)}) == 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 1)), unique=True))
def test_cells_that_are_pooled_keep_their_observations_apart(chosen):
    """Two levels may play a game of one number, and ask questions of one name."""
    observations = [Observation((cell,), game, unit, 1.0) for cell, game, unit in chosen]
    pooled = in_one_cell(observations)
    assert len({(one.cell, one.game, one.unit) for one in pooled}) == len(chosen)
    assert all(one.cell == () for one in pooled) and [one.game for one in pooled] == [game for _, game, _ in chosen]


SHARES = st.sampled_from([0.0, 0.3, 0.6, 1.0])


@given(SHARES, SHARES, st.sets(st.integers(0, 12), max_size=3), st.integers(1, 12))
@settings(max_examples=25)
def test_exchanging_the_sides_exchanges_all_that_is_said(share, other, failing, most):
    suite = ToySuite(episodes=12)
    first = Side("A", "m", run_of(suite, {"m": Often(share, 1)}, failing=failing), suite)
    second = Side("B", "n", run_of(suite, {"n": Often(other, 2)}, most=most), suite)
    for side in (first, second):
        won, credit = (column_measure(side.run, side.player, name).observations for name in ("success", "score"))
        assert credit == won, "without partial credit, a failed game scores 0 as it has no success"
    exchanged = comparison_tables(second, first)
    for table, back in zip(comparison_tables(first, second), exchanged, strict=True):
        assert len(table.rows) == len(back.rows)
        for number in range(len(table.rows)):
            row, mirrored = row_of(table, number), row_of(back, number)
            difference, opposite = row.pop("A - B"), mirrored.pop("B - A")
            each_side_keeps_its_own = {
                name: str(value) for name, value in row.items()
            }  # as text: nan differs from itself
            assert each_side_keeps_its_own == {name: str(mirrored[name]) for name in row}
            ends = [difference.mean, difference.low, difference.high]
            assert ends == pytest.approx([-opposite.mean, -opposite.high, -opposite.low], nan_ok=True)
    found, back = flips(first, second), flips(second, first)
    assert {(flip.game, flip.won_by, flip.ids) for flip in found} == {
        (flip.game, flip.won_by, flip.ids[::-1]) for flip in back
    }
    of_first = set(first.run.episodes(["episode_id"])["episode_id"].to_pylist())
    assert all(flip.ids[0] in of_first and flip.ids[1] not in of_first for flip in found)


SEEDS = st.sampled_from(["", "sealed:a", "training:1"])


@dataclasses.dataclass(frozen=True)
class Seeded(ToySuite):
    """A suite that may draw other games."""

    name: str = "toy"
    seeds: str = ""


@given(
    st.dictionaries(st.sampled_from("abcd"), SEEDS, min_size=1),
    st.dictionaries(st.sampled_from("abcd"), SEEDS, min_size=1),
)
def test_only_suites_of_both_runs_can_have_other_games(first, second):
    """Neither the order of the suites nor further ones of one run matter."""
    sides = []
    for seeds in (first, second):
        suites = tuple(Seeded(name=name, seeds=value) for name, value in seeds.items())
        sides.append(Side("A", "m", EMPTY, suites[0] if len(suites) == 1 else Bundle("several", suites)))
    both = first.keys() & second.keys()
    assert suites_of_both(*sides) == both
    assert suites_of_other_games(*sides) == {name for name in both if first[name] != second[name]}


def test_a_suite_without_seeds_has_no_other_games():
    side = Side("A", "m", EMPTY, SUITE)
    assert suites_of_both(side, side) == {"toy"} and not suites_of_other_games(side, side)


EMPTY = run_of(ToySuite(episodes=1))


@dataclasses.dataclass(frozen=True)
class TwoCells(ToySuite):
    """Even games are of one level, odd ones of another; ``longer`` games take more steps."""

    longer: int = 0

    def plan(self):
        levels = ("easy", "hard")
        return [
            dataclasses.replace(each, level=levels[each.index % 2], seed=each.seed + self.longer)
            for each in super().plan()
        ]

    def _length(self, index):
        return super()._length(index) + self.longer * (1 + index % 2)


class TwoMore(TwoCells):
    """Another suite of this kind."""

    name = "two_more"

    def plan(self):
        return [dataclasses.replace(each, suite="two_more") for each in super().plan()]


@pytest.mark.slow
@given(SHARES, SHARES, st.integers(1, 3), st.sets(st.integers(0, 11), max_size=3))
@settings(max_examples=6)
def test_other_games_are_compared_by_the_means_of_their_cells(share, other, longer, failing):
    made = []
    for label, name, suite, player, failed in (
        ("A", "m", TwoCells(episodes=12), Often(share, 1), ()),
        ("B", "n", TwoCells(episodes=12, longer=longer), Often(other, 2), failing),
    ):
        run = run_of(suite, {name: player, "oracle": BUILT_IN_PLAYERS["oracle"]}, failing=failed)
        made.append(Side(label, name, run, suite))
    rows = {
        row["cell"]: row
        for row in (
            dict(zip(table.columns, each, strict=True))
            for table in [fresh_table(*made, suites_of_both(*made))]
            for each in table.rows
        )
    }
    assert list(rows) == ["all", "colors easy zero_shot", "colors hard zero_shot"]

    def mean(side, player, column, wanted):
        means = []
        for level in wanted:
            found = [
                row for row in side.run.episodes().to_pylist() if row["player"] == player and row["level"] == level
            ]
            values = [row[column] for row in found if column == "success" or row["status"] == "done"]
            means.append(sum(value or 0 for value in values) / len(values))
        return sum(means) / len(means)

    for cell, levels in zip(rows, (("easy", "hard"), ("easy",), ("hard",)), strict=True):
        row = rows[cell]
        wins, steps = (
            [mean(side, player or side.player, column, levels) for side in made]
            for player, column in (("", "success"), ("oracle", "steps"))
        )
        assert [row["A"], row["B"]] == pytest.approx(wins)
        assert row["A - B"].mean == pytest.approx(wins[0] - wins[1])
        assert row["oracle's steps"].mean == pytest.approx(steps[0] - steps[1])
    assert [row["Holm p"] for row in rows.values()] == holm([row["p"] for row in rows.values()])
    for cell, back in zip(rows, fresh_table(*reversed(made), suites_of_both(*made)).rows, strict=True):
        assert (
            back[1] == cell and back[4].mean == pytest.approx(-rows[cell]["A - B"].mean) and back[5] == rows[cell]["p"]
        )


def test_cells_that_only_one_side_has_are_left_out_of_all_and_told():
    whole = run_of(TwoCells(episodes=8), {"m": Often(0.5, 1)})
    hard = [row["episode_id"] for row in whole.plan.to_pylist() if row["level"] == "hard"]
    both, one = (
        Side(label, "m", run, TwoCells(episodes=8))
        for label, run in zip("AB", (whole, whole.without(hard)), strict=True)
    )
    for made in ((both, one), (one, both)):
        table = fresh_table(*made, suites_of_both(*made))
        assert [row[1] for row in table.rows] == ["all", "colors easy zero_shot"]
        assert table.rows[0][2] == table.rows[0][3] == table.rows[1][2]
        assert any(note.startswith("4 episodes of cells that the other side lacks") for note in table.notes)
    assert not any("lacks" in note for note in fresh_table(both, both, suites_of_both(both, both)).notes)


def test_what_is_left_out_is_counted_over_all_suites():
    suite = Bundle("both", (TwoCells(episodes=8), TwoMore(episodes=4)))
    whole = run_of(suite, {"m": Often(0.5, 1)})
    hard = [row["episode_id"] for row in whole.plan.to_pylist() if row["level"] == "hard"]
    first, second = (
        Side(label, "m", run, suite) for label, run in zip("AB", (whole, whole.without(hard)), strict=True)
    )
    assert any(
        note.startswith("6 episodes of cells that the other side lacks")
        for note in fresh_table(first, second, suites_of_both(first, second)).notes
    )


def test_suites_of_the_same_games_are_paired_beside_those_of_other_games():
    sides = []
    for label, longer in (("A", 0), ("B", 1)):
        suite = Bundle("both", (TwoCells(episodes=8, longer=longer), TwoMore(episodes=8)))
        sides.append(Side(label, "m", run_of(suite, {"m": Often(0.5, 1)}), suite))
    assert {row[0] for row in fresh_table(*sides, {"toy"}).rows} == {"toy"}
    paired, *_ = comparison_tables(*sides)
    assert [(row[0], row[5]) for row in paired.rows] == [("two_more: success", 8)]
    assert not any("no twin" in note for note in paired.notes)


def test_effort_is_how_much_longer_perfect_play_takes_in_the_first_run():
    oracle = {"oracle": BUILT_IN_PLAYERS["oracle"]}
    hard, easy = (run_of(TwoCells(episodes=8, longer=longer), oracle) for longer in (3, 1))

    def steps(run):
        rows = run.episodes(["steps"])["steps"].to_pylist()
        return sum(rows) / len(rows)

    assert steps(hard) > steps(easy)
    for first, second in ((hard, easy), (easy, hard)):
        assert _effort([first, second])["all",].mean == pytest.approx(steps(first) - steps(second))
