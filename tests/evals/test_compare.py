"""Two sides on the same games: what is paired, what is left out, what has flipped, and what is said to differ."""

import pytest

from evals.compare import Side, comparison_tables, flip_table, flips
from evals.differences import differences_table, flat_settings
from evals.kidgym import KidGymSuite
from evals.multistar import MultiStarSuite
from evals.players import BUILT_IN_PLAYERS
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


def test_other_columns_can_be_compared_and_text_cannot():
    first, second = sides()
    row = row_of(comparison_tables(first, second, column="steps")[0])
    assert row["measure"] == "toy: steps" and row["A - B"].mean == 0
    assert row_of(comparison_tables(first, second, column="right")[0])["A"] > 1, "a suite's own column"
    for column, cause in (("rihgt", "no column"), ("error", "not numbers")):
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


def test_multistar_compares_its_questions():
    suite = MultiStarSuite(subtask="chain", puzzles=1, configurations=["center_single"], priors=["none", "model"])
    run = run_of(suite, {name: BUILT_IN_PLAYERS[name] for name in ("random", "oracle")})
    first, second = Side("A", "oracle", run, suite), Side("B", "random", run, suite)
    overall, accuracy, mseval = comparison_tables(first, second)
    assert [row[0] for row in overall.rows] == ["multistar: accuracy", "multistar: MSEval of perfect"]
    assert accuracy.columns[:2] == ("prior", "stage") and all(row[2] == 1 for row in (*accuracy.rows, *mseval.rows))


# --- what differs ----------------------------------------------------------------------------------------------------


def test_settings_and_versions_that_differ_are_named():
    first, second = sides()
    first, second = (
        Side(label, "m", side.run.__class__(**{**vars(side.run), "settings": settings, "sessions": sessions}), SUITE)
        for label, side, settings, sessions in (
            ("A", first, {"suite": {"decoder": "lenient"}, "cluster": {"replicas": 1}}, [{"id": "1", "vllm": "0.1"}]),
            (
                "B",
                second,
                {"suite": {"decoder": "strict", "new": 1}, "cluster": {"replicas": 2}},
                [{"id": "2", "vllm": "0.2"}],
            ),
        )
    )
    table = differences_table(first, second, {"cluster"})
    assert table.rows == (
        ("suite.decoder", "lenient", "strict"),
        ("suite.new", "–", "1"),
        ("version of vllm", "0.1", "0.2"),
    )


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


def test_parts_of_a_bundle_go_by_their_names():
    settings = {"suite": {"suites": [{"type": "kumo", "domains": ["a"]}, {"type": "kidgym", "levels": [1, 2]}]}}
    assert dict(flat_settings(settings)) == {
        "suite.suites.kumo.type": "kumo",
        "suite.suites.kumo.domains": ["a"],
        "suite.suites.kidgym.type": "kidgym",
        "suite.suites.kidgym.levels": [1, 2],
    }
    assert dict(flat_settings({"a": {"b": 1, "c": 2}}, {"a.b"})) == {"a.c": 2}
