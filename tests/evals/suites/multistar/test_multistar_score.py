"""MultiStAR's tables: MSEval and accuracy of players whose behavior is known, and what is said of what is missing."""

import argparse
import dataclasses
import math
import re

import pytest

from envs.raven import CONFIGURATIONS, generate
from evals.players import BUILT_IN_PLAYERS
from evals.stats.intervals import proportion_estimate
from evals.suites.multistar import MultiStarSuite
from evals.suites.multistar.answers import Answered
from evals.suites.multistar.commands import main
from evals.suites.multistar.comparison import ERRORS, error_table
from evals.suites.multistar.data_set import asked_of, data_set_tables
from evals.suites.multistar.effects import answer_measures
from evals.suites.multistar.figures import multistar_figures
from evals.suites.multistar.gains import gain_figures, gain_tables
from evals.suites.multistar.mseval import Score
from evals.suites.multistar.paper import paper_tables
from evals.suites.multistar.published import run_cells
from evals.suites.multistar.questions import chain_questions, direct_questions
from evals.tables import WRITERS
from evals.types import LabelScores, Reply
from tests.evals.suites.multistar.multistar_fakes import Refusing, Scripted, played, row_of, rows_of, tables_of
from tests.golden import check_golden

NUMBERS = {"configurations": ["center_single"], "attributes": ["number"], "puzzles": 1, "options": "uniform"}
"""Options drawn uniformly: then all questions count, those with one answer in every puzzle too."""


def questions(suite):
    return [question for episode in suite.plan() for question in suite._asked(episode)]


def following(question, text):
    """A player that answers by what it is told, and by nothing else.

    1P: the first option. 2P: the first option if the left panel holds what the first option of its question says, else the
    second. 1R: the option with the number of what it is told of the left and the middle panel. 2R: always the third. Final:
    the number of the rule that it is told.
    """
    if question.stage in ("1P", "2R"):
        return {"1P": 0, "2R": 2}[question.stage]
    if question.stage == "2P":
        first = BY_NODE[question.parents[0]].options[0]
        return 0 if f"- There {'is' if first == '1' else 'are'} {first} object" in text.split("left panel")[0] else 1
    told = BY_NODE["number/two_panels_1_2" if question.stage == "1R" else "number/two_rows"]
    (line,) = re.findall(r"- The left panel has .*|- The rule .*", text)
    return next(number for number, option in enumerate(told.options) if option in line)


BY_NODE = {}


@pytest.fixture
def follower():
    suite = MultiStarSuite(**NUMBERS, priors=["none", "model", "truth"])
    BY_NODE.update({question.node: question for question in questions(suite)[:8]})
    told = MultiStarSuite(**NUMBERS, priors=["model"])
    return told, played(told, Scripted(list(BY_NODE.values()), following, sure=0.7))


def test_a_player_that_is_known_gets_the_mseval_computed_by_hand(follower):
    suite, records = follower
    table = tables_of(suite, records)["multistar_attributes"]

    def r(node, answer):
        """p |A|: 0.7 for the option that was chosen, the rest shared."""
        question = BY_NODE[node]
        count = len(question.options)
        return count * (0.7 if question.key == answer else 0.3 / (count - 1))

    one = [r(f"number/single_panel_{panel}", 0) for panel in (1, 2, 3)]
    assert row_of(table, stage="1P")["MSEval"].mean == pytest.approx(sum(one) / 3)

    # 2P (3 options): the left panel's 4 options give A B B B, 0.811 bits; the right panel's give no change, 0 bits.
    # 1P always answers its first option, so that the actual answers to both 2P are their first.
    quarter = -0.25 * math.log2(0.25) - 0.75 * math.log2(0.75)
    left, right, own = math.exp(quarter), math.exp(0), math.exp(math.log2(3))
    pairs = {}
    for pair, panels in (("1_2", one[:2]), ("2_3", one[1:])):
        own_r = r(f"number/two_panels_{pair}", 0)
        pairs[pair] = (left * panels[0] + right * panels[1] + own * own_r) / (left + right + own)
    assert row_of(table, stage="2P")["MSEval"].mean == pytest.approx(sum(pairs.values()) / 2)

    # 1R (4 options): follows 2P_12 alone, whose 3 options give A B C, log2 3 bits; the four others give none.
    parents = [*one, r("number/two_panels_1_2", 0), r("number/two_panels_2_3", 0)]
    powers = [1, 1, 1, math.exp(math.log2(3)), 1, math.exp(2)]
    row = sum(w * value for w, value in zip(powers, [*parents, r("number/one_row", 0)], strict=True)) / sum(powers)
    assert row_of(table, stage="1R")["MSEval"].mean == pytest.approx(row)

    # 2R (4 options): never changes its answer. Final (8 options): follows 2R, whose 4 options give four answers, 2 bits.
    rows = (r("number/one_row", 0) + math.exp(2) * r("number/two_rows", 2)) / (1 + math.exp(2))
    assert row_of(table, stage="2R")["MSEval"].mean == pytest.approx(rows)
    final = math.exp(2) * r("number/two_rows", 2) + math.exp(3) * r("final", 2)
    assert row_of(table, stage="final")["MSEval"].mean == pytest.approx(final / (math.exp(2) + math.exp(3)))


def test_the_weight_of_the_questions_before_is_that_computed_by_hand(follower):
    table = tables_of(*follower)["multistar_ncmi"]
    three = math.exp(math.log2(3))
    by_hand = {
        "1P to 2P": 1 - three / (math.exp(0.8112781244591328) + 1 + three),
        "1P, 2P to 1R": 1 - math.exp(2) / (4 + three + math.exp(2)),
        "1R to 2R": 1 / (1 + math.exp(2)),
        "2R to final": math.exp(2) / (math.exp(2) + math.exp(3)),
    }
    assert {row["step"]: pytest.approx(row["NCMI"].mean) for row in rows_of(table)} == by_hand
    # With no information from any parent the weights are at their least: n / (n + e^H).
    assert row_of(table, step="1R to 2R")["least"] == pytest.approx(by_hand["1R to 2R"])
    assert row_of(table, step="1P, 2P to 1R")["least"] == pytest.approx(0.404, abs=5e-4)


def test_conventions_change_the_weights_and_need_no_new_run(follower):
    suite, records = follower
    means = {}
    for convention in ("decoded", "natural_logs", "model_prior", "soft_distributions", "natural_logs+model_prior"):
        other = MultiStarSuite(**NUMBERS, priors=["model"], convention=convention)
        means[convention] = row_of(tables_of(other, records)["multistar_stages"], stage="1R")["MSEval"].mean
    assert len({round(value, 9) for value in means.values()}) == 5
    assert suite.plan() == other.plan()


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["none", "model"])
def test_guessing_scores_one_everywhere_and_gets_the_share_that_guessing_gets(prior):
    suite = MultiStarSuite(priors=[prior], puzzles=1, options="uniform")
    tables = tables_of(suite, played(suite, BUILT_IN_PLAYERS["random"], "random"))
    expected = {"1P": 0.3106, "2P": 0.3167, "1R": 0.25, "2R": 0.25, "final": 0.125}
    for row in rows_of(tables["multistar_stages"]):
        assert row["MSEval"].mean == pytest.approx(1)
        assert row["chance"] == pytest.approx(expected[row["stage"]], abs=5e-5)
        spread = math.sqrt(row["chance"] * (1 - row["chance"]) / row["questions"])
        assert abs(row["accuracy"].mean - row["chance"]) < 4 * spread
    assert {row["configuration"] for row in rows_of(tables["multistar_configurations"])} == set(CONFIGURATIONS)
    calls = row_of(tables["multistar_calls"], player="random")
    assert calls["calls"] == calls["planned calls"] and calls["questions"] == 392


def test_accuracy_is_clustered_by_puzzle():
    suite = MultiStarSuite(configurations=["Center", "2x2Grid"], puzzles=3, priors=["none"], options="uniform")
    # All questions of half of the puzzles right, of the others wrong: six clusters, not 90 observations.
    records = []
    for episode in suite.plan():
        asked = suite._asked(episode)
        luck = episode.index % 2
        player = Scripted(asked, lambda question, _, luck=luck: (question.key + luck) % len(question.options))
        records += played(suite, player, episodes=[episode])
    row = row_of(tables_of(suite, records)["multistar_stages"], stage="1P")
    assert row["accuracy"].mean == pytest.approx(4 / 6) and row["questions"] == 90
    assert row["accuracy"].low < 0.45, "90 observations of their own would give 0.56"
    right = [puzzle % 3 != 1 for puzzle in range(6) for _ in range(15)]
    by_hand = proportion_estimate(right, [puzzle for puzzle in range(6) for _ in range(15)])
    assert (row["accuracy"].low, row["accuracy"].high) == pytest.approx((by_hand.low, by_hand.high))


# --- with and without prior information ------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_prior_information_adds_is_a_difference_on_the_same_questions():
    suite = MultiStarSuite(configurations=["Center"], puzzles=4, priors=["none", "model"], options="uniform")
    asked = questions(suite)

    def helped(question, text):
        return question.key if "- " in text or question.stage == "1P" else (question.key + 1) % len(question.options)

    tables = tables_of(suite, played(suite, Scripted(asked, helped)))
    (accuracy,) = (table for name, table in tables.items() if name.startswith("multistar_with_prior_accuracy"))
    (mseval,) = (table for name, table in tables.items() if name.startswith("multistar_with_prior_mseval"))
    assert {row["stage"]: row["difference"].mean for row in rows_of(accuracy)} == {
        "2P": 1,
        "1R": 1,
        "2R": 1,
        "final": 1,
    }
    assert {row["stage"]: row["difference"].n for row in rows_of(accuracy)}["2P"] == 40, "each question on both sides"
    assert all(row["difference"].mean > 0 for row in rows_of(mseval))


def test_a_question_that_failed_on_one_side_says_nothing_about_prior_information():
    suite = MultiStarSuite(**{**NUMBERS, "puzzles": 4}, priors=["none", "model"])
    refusing = Refusing(
        BUILT_IN_PLAYERS["oracle"], lambda turn: turn.episode.mode.endswith("model") and turn.episode.index == 0
    )
    tables = tables_of(suite, played(suite, refusing))
    (accuracy,) = (table for name, table in tables.items() if name.startswith("multistar_with_prior_accuracy"))
    for row in rows_of(accuracy):
        assert row["difference"].n == 3 * {"2P": 2}.get(row["stage"], 1), "the failed puzzle is left out"
        assert row["difference"].mean == 0, "the oracle is always right"
    for row in rows_of(tables["multistar_errors"]):
        assert row["failed"] == (row["questions"] // 4 if row["mode"] == "vanilla/model" else 0)
        assert row["wrong"] == 0


def test_errors_are_told_apart_where_they_can_be():
    suite = MultiStarSuite(**NUMBERS, priors=["none", "model", "truth"])
    asked = questions(suite)[:8]
    by_node = {question.node: question for question in asked}

    def clumsy(question, text):
        """Sees one object too many or too few in panel 1, believes what it is told, and never finds the last answer."""
        if question.node == "number/single_panel_1" or question.stage == "final":
            return (question.key + 1) % len(question.options)
        if question.node == "number/two_panels_1_2" and "- " in text:
            truth = by_node["number/single_panel_1"]
            count = truth.options[truth.key]
            told = f"{count} object{'s' if count != '1' else ''} in the left panel."
            return question.key if told in text else (question.key + 1) % len(question.options)
        return question.key

    def errors(records, suite):
        rows = rows_of(tables_of(suite, records)["multistar_errors"])
        return {(row["mode"], row["stage"]): {name: row[name] for name in ERRORS if row[name]} for row in rows}

    found = errors(played(suite, Scripted(asked, clumsy)), suite)
    for mode in ("none", "model", "truth"):
        assert found[f"vanilla/{mode}", "1P"] == {"perception": 1}
        assert found[f"vanilla/{mode}", "1R"] == found[f"vanilla/{mode}", "2R"] == {}
    assert found["vanilla/none", "final"] == {"undecided": 1}, "told nothing"
    assert found["vanilla/model", "2P"] == {"propagation": 1}, "told wrong, and right when told the truth"
    assert found["vanilla/truth", "2P"] == {}
    assert found["vanilla/model", "final"] == found["vanilla/truth", "final"] == {"reasoning": 1}

    alone = MultiStarSuite(**NUMBERS, priors=["model"])
    assert errors(played(alone, Scripted(asked, clumsy)), alone)["vanilla/model", "2P"] == {"undecided": 1}
    records = [
        dataclasses.replace(record, outcome=None, error="PlayerError: gone")
        if "truth" in record.episode.mode
        else record
        for record in played(suite, Scripted(asked, clumsy))
    ]
    assert errors(records, suite)["vanilla/model", "2P"] == {"undecided": 1}, "its twin failed"
    for oddity in ({"argmax_is_label": False}, {"mass": 0.3}):
        table = errors(played(suite, Scripted(asked, clumsy, **oddity)), suite)
        assert table["vanilla/model", "1P"] == {"invalid": 1} and table["vanilla/none", "2R"] == {}


def one_answer(player, mode, puzzle, node, right=False, **more):
    """Of a question on a number with three options, answered with the second one."""
    stages = {"single": "1P", "two": "2P", "one": "1R"}
    asked = {"stage": stages[node.partition("_")[0]], "attribute": "number", "part": "", "failed": False, "options": 3}
    given = {"counts": True, "answer": 1, "argmax_is_label": True, "mass": 0.9}
    return Answered(player, mode, "center_single", puzzle, node, right=right, **asked | given | more)


def test_a_wrong_answer_is_in_the_first_class_that_fits_and_its_twin_is_the_same_players_question_in_the_same_style():
    two = {"node": "two_panels_1_2", "parents": ("single_panel_1", "single_panel_2")}
    seen = [one_answer("a", "vanilla/model", 1, f"single_panel_{panel}", panel == 2) for panel in (1, 2)]
    known = [one_answer("a", "vanilla/model", 2, f"single_panel_{panel}", True) for panel in (1, 2)]
    truth = {
        ("a", "vanilla/truth", 1): True,
        ("a", "structured/truth", 1): False,
        ("b", "vanilla/truth", 1): False,
        ("a", "vanilla/truth", 2): True,
    }
    told = [one_answer(*place, right=right, **two) for place, right in truth.items()]
    puzzles = [one_answer("a", "vanilla/model", puzzle, **two) for puzzle in (1, 2, 3)]
    others = [
        one_answer(player, f"{style}/model", 1, **two) for player, style in (("a", "structured"), ("b", "vanilla"))
    ]
    odd = [
        one_answer("c", "vanilla", 1, "single_a", answer=None, names_absent=True),
        one_answer("c", "vanilla", 1, "single_b", mass=0.49, names_absent=True),
        one_answer("c", "vanilla", 1, "single_c", argmax_is_label=False),
        one_answer("c", "vanilla", 1, "single_d", mass=0.5, names_absent=True),
        one_answer("c", "vanilla", 1, "single_e", argmax_is_label=None, mass=None),
        one_answer("c", "vanilla", 2, "single_f", failed=True, answer=None),
        one_answer("c", "vanilla", 2, "two_g", names_absent=True),
        one_answer("c", "vanilla", 2, "two_h"),
        one_answer("c", "vanilla", 3, "two_i", right=True),
    ]
    rows = rows_of(error_table([*seen, *known, *told, *puzzles, *others, *odd]))
    found = [
        (
            *(row[name] for name in ("player", "mode", "stage", "questions", "failed", "wrong")),
            {name: row[name] for name in ERRORS if row[name]},
            row["share undecided"].n and row["share undecided"].mean,
        )
        for row in rows
    ]
    assert found == [
        ("a", "vanilla/model", "1P", 4, 0, 1, {"perception": 1}, 0),
        # Told something wrong, and right when told the truth; told nothing wrong; nobody knows what it was told.
        ("a", "vanilla/model", "2P", 3, 0, 3, {"propagation": 1, "reasoning": 1, "undecided": 1}, pytest.approx(1 / 3)),
        ("a", "vanilla/truth", "2P", 2, 0, 0, {}, 0),
        ("a", "structured/truth", "2P", 1, 0, 1, {"reasoning": 1}, 0),
        ("b", "vanilla/truth", "2P", 1, 0, 1, {"reasoning": 1}, 0),
        ("a", "structured/model", "2P", 1, 0, 1, {"reasoning": 1}, 0),
        ("b", "vanilla/model", "2P", 1, 0, 1, {"reasoning": 1}, 0),
        ("c", "vanilla", "1P", 6, 1, 5, {"invalid": 3, "hallucination": 1, "perception": 1}, 0),
        ("c", "vanilla", "2P", 3, 0, 2, {"hallucination": 1, "undecided": 1}, 0.5),
    ]


def scored(value, *weights):
    return Score(value, weights, (0.5,) * len(weights), 4)


MIXED = [
    *(
        one_answer("b", "vanilla/model", puzzle, "two_x", puzzle == 1, score=score, parents=("p", "q"))
        for puzzle, score in ((1, scored(1.25, 0.25, 0.125)), (2, scored(2.5, 0.5, 0.125)))
    ),
    one_answer("b", "vanilla/model", 3, "two_x", failed=True),
    *(
        one_answer("b", f"vanilla/{prior}", 3, "two_y", prior == "none", counts=False, attribute="shape", **more)
        for prior, more in (("model", {"score": scored(3.5, 0.75), "parents": ("p",)}), ("none", {"score": scored(3)}))
    ),
    one_answer("b", "vanilla/model", 3, "one_z", attribute="color"),
    one_answer("b", "vanilla/none", 1, "two_x", True, score=scored(2), options=4),
    one_answer("b", "vanilla/none", 1, "single_x", score=scored(0.5)),
    one_answer("a", "structured/truth", 1, "single_x", True, score=scored(2.875), options=2),
    one_answer("a", "structured/truth", 1, "one_x", True, score=scored(3, 0.625), attribute="color", parents=("p",)),
]
"""Of two players; questions on shape are links."""


def test_the_papers_tables_hold_per_cent_and_means_by_player_style_prior_and_stage_without_links():
    measured, own, true, gains = paper_tables(MIXED)
    assert measured.columns == ("Model", "Metric", "Prompt", "Prior", "1P", "2P", "1R")
    rows = [
        tuple(cell if cell is None or isinstance(cell, str) else float(cell) for cell in row) for row in measured.rows
    ]
    assert rows == [
        ("b", "Acc", "vanilla", "w", None, 33.3, 0),
        ("b", "Acc", "vanilla", "w/o", 0, 100, None),
        ("b", "MSEval", "vanilla", "w", None, 1.88, None),
        ("b", "MSEval", "vanilla", "w/o", 0.5, 2, None),
        ("a", "Acc", "structured", "GT", 100, None, 100),
        ("a", "MSEval", "structured", "GT", 2.88, None, 3),
    ]
    weights = [
        (table.name, table.columns[2:], [(*row[:2], *map(float, row[2:])) for row in table.rows])
        for table in (own, true)
    ]
    assert weights == [
        ("multistar_paper_weights_vanilla_model", ("1P to 2P",), [("b", "number", 0.5), ("b", "shape", 0.75)]),
        ("multistar_paper_weights_structured_truth", ("1P, 2P to 1R",), [("a", "color", 0.62)]),
    ]
    assert [(*row[:3], float(row[3])) for row in gains.rows[:2]] == [
        ("b", "Acc", "vanilla", -66.7),
        ("b", "MSEval", "vanilla", -6.2),
    ]


def test_cells_beside_the_paper_and_paired_measures_leave_links_out_as_the_tables_do():
    cells = [
        (cell.player, cell.measure, cell.cell, [*cell.values], [puzzle for _, puzzle in cell.games])
        for cell in run_cells(MIXED[:6], "chain")
    ]
    told = {"subtask": "chain", "style": "vanilla", "prior": "model"}
    assert cells == [
        ("b", "accuracy", {**told, "stage": "2P"}, [1, 0, 0], [1, 2, 3]),
        ("b", "MSEval", {**told, "stage": "2P"}, [1.25, 2.5], [1, 2]),
        ("b", "NCMI", {**told, "attribute": "number", "stage": "2P"}, [0.375, 0.625], [1, 2]),
        ("b", "NCMI", {**told, "attribute": "shape", "stage": "2P"}, [0.75], [3]),
        ("b", "accuracy", {**told, "stage": "1R"}, [0], [3]),
    ]
    accuracy, mseval = answer_measures(MIXED, "b")
    place = ("vanilla", "model", "2P")
    assert [(one.cell, one.unit, one.value) for one in mseval.observations] == [
        (place, ("vanilla/model", "two_x"), 1.25 / 4),
        (place, ("vanilla/model", "two_x"), 2.5 / 4),
        (("vanilla", "none", "2P"), ("vanilla/none", "two_x"), 0.5),
        (("vanilla", "none", "1P"), ("vanilla/none", "single_x"), 0.125),
    ]
    assert [one.value for one in accuracy.observations] == [1, 0, 0, 0, 1, 0] and accuracy.bounded


def test_figures_draw_accuracy_chance_and_weights_by_what_was_told():
    figures = {figure.name.removeprefix("multistar_"): figure for figure in multistar_figures(MIXED, "chain")}
    drawn = {}
    for name in ("stages", "priors", "attributes", "weights"):
        for series in figures[name].series:
            values = [
                value if value is None or isinstance(value, float) else (round(value.mean, 3), value.n)
                for value in series.y
            ]
            drawn[name, series.panel, series.name] = dict(zip(series.x, values, strict=True))
    own, nothing, truth = (
        f"{style}, told {what}"
        for style, what in (("vanilla", "own answers"), ("vanilla", "nothing"), ("structured", "the truth"))
    )
    of_own = {"1P": None, "2P": (0.333, 3), "1R": (0, 1)}
    of_nothing = {"1P": (0, 1), "2P": (1, 1), "1R": None}
    assert drawn == {
        ("stages", own, "b"): of_own,
        ("stages", nothing, "b"): of_nothing,
        ("stages", truth, "a"): {"1P": (1, 1), "2P": None, "1R": (1, 1)},
        ("stages", own, "chance"): {"1P": None, "2P": 1 / 3, "1R": 1 / 3},
        ("stages", nothing, "chance"): {"1P": 1 / 3, "2P": 1 / 4, "1R": None},
        ("stages", truth, "chance"): {"1P": 1 / 2, "2P": None, "1R": 1 / 3},
        ("priors", "b", own): of_own,
        ("priors", "b", nothing): of_nothing,
        ("attributes", own, "b"): {"number": (0.333, 3), "color": (0, 1)},
        ("attributes", nothing, "b"): {"number": (0.5, 2), "color": None},
        ("attributes", truth, "a"): {"number": (1, 1), "color": (1, 1)},
        ("weights", f"b, {own}", "number"): {"1P to 2P": (0.5, 2), "1P, 2P to 1R": None},
        ("weights", f"b, {own}", "shape"): {"1P to 2P": (0.75, 1), "1P, 2P to 1R": None},
        ("weights", f"a, {truth}", "color"): {"1P to 2P": None, "1P, 2P to 1R": (0.625, 1)},
    }
    assert {series.reference for series in figures["stages"].series} == {True, False}


# --- what is missing -------------------------------------------------------------------------------------------------


def test_mseval_is_refused_where_scores_are_not_exact_and_the_tables_say_so():
    suite = MultiStarSuite(**NUMBERS, priors=["none", "model"])
    asked = questions(suite)[:8]
    tables = tables_of(suite, played(suite, Scripted(asked, lambda question, _: question.key, exact=False)))
    for row in rows_of(tables["multistar_stages"]):
        assert row["accuracy"].mean == 1 and row["MSEval"].n == 0
        assert row["without MSEval"] == row["questions"]
    notes = "\n".join(tables["multistar_stages"].notes)
    assert "16 questions have no MSEval: the engine gave no exact probabilities" in notes
    assert not rows_of(tables["multistar_ncmi"])


class Uneven:
    """Guesses; the log-probabilities of some turns are not exact, or not known at all."""

    def __init__(self, odd, exact, value=None):
        self.odd, self.exact, self.value = odd, exact, value

    async def reply(self, turn):
        count = len(turn.labels)
        odd = self.odd(turn.number)
        values = (self.value if odd and self.value is not None else math.log(1 / count),) * count
        return Reply(turn.labels[0], label_scores=LabelScores(values, 1.0, True, self.exact or not odd))


def test_replies_of_the_sweep_have_to_be_exact_too():
    suite = MultiStarSuite(**NUMBERS, priors=["model"])
    records = played(suite, Uneven(lambda number: number >= 8, exact=False))
    table = tables_of(suite, records)["multistar_stages"]
    assert {row["stage"]: row["without MSEval"] for row in rows_of(table)} == {
        "1P": 0,
        "2P": 2,
        "1R": 1,
        "2R": 1,
        "final": 1,
    }
    assert "5 questions have no MSEval: the engine gave no exact probabilities" in "\n".join(table.notes)


@pytest.mark.parametrize("value", [-math.inf, math.nan])
@pytest.mark.parametrize("number", [0, 3, 20])
def test_labels_without_any_probability_cost_the_mseval_of_what_builds_on_them(value, number):
    suite = MultiStarSuite(**NUMBERS, priors=["model"])
    records = played(suite, Uneven(lambda turn: turn == number, exact=True, value=value))
    table = tables_of(suite, records)["multistar_stages"]
    assert sum(row["without MSEval"] for row in rows_of(table)) == {0: 3, 3: 2, 20: 1}[number]
    assert "no exact probabilities" in "\n".join(table.notes)


def test_without_a_sweep_only_questions_that_are_told_nothing_have_an_mseval():
    suite = MultiStarSuite(**NUMBERS, priors=["model"], sweep=False)
    tables = tables_of(suite, played(suite, BUILT_IN_PLAYERS["random"]))
    assert {row["stage"]: row["without MSEval"] for row in rows_of(tables["multistar_stages"])} == {
        "1P": 0,
        "2P": 2,
        "1R": 1,
        "2R": 1,
        "final": 1,
    }
    assert "5 questions with prior information have no MSEval because they were not asked again" in "\n".join(
        tables["multistar_stages"].notes
    )


@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_questions_of_failed_episodes_count_as_wrong_in_all_tables(subtask):
    suite = MultiStarSuite(subtask, ["Center"], puzzles=2, priors=["none"], options="uniform")
    refusing = Refusing(BUILT_IN_PLAYERS["oracle"], lambda turn: turn.episode.index % 100 == 1)
    records = played(suite, refusing)
    tables = tables_of(suite, records)
    for name in ("stages", "attributes", "configurations"):
        rows = rows_of(tables[f"multistar_{name}"])
        assert sum(row["questions"] for row in rows) == (72 if subtask == "chain" else len(records))
        assert sum(row["failed"] for row in rows) == (36 if subtask == "chain" else 2)
        for row in rows:
            assert row["accuracy"].mean == pytest.approx(1 - row["failed"] / row["questions"])
    assert "questions of failed episodes count as answered wrong" in "\n".join(tables["multistar_stages"].notes)


# --- bookkeeping -----------------------------------------------------------------------------------------------------


class Doubtful(Scripted):
    """Of two panels: little probability on all labels. Of the last question: most likely no label."""

    async def reply(self, turn):
        stage = self.question(turn)[0].stage
        self.mass, self.argmax_is_label = 0.25 if stage == "2P" else 1.0, stage != "final"
        return await super().reply(turn)


def test_masses_most_likely_labels_and_calls_are_counted_over_what_was_answered():
    suite = MultiStarSuite(**{**NUMBERS, "puzzles": 3}, priors=["none", "model"])
    doubtful = Doubtful(questions(suite), lambda question, _: question.key)
    refusing = Refusing(doubtful, lambda turn: turn.episode.index == 1 and turn.episode.mode.endswith("none"))
    planned = [episode.assigned("model", "model") for episode in suite.plan()]
    records = played(suite, refusing)
    kept = [record for record in records if not (record.episode.index == 2 and record.episode.mode.endswith("model"))]
    tables = tables_of(suite, kept, planned)
    stages = tables["multistar_stages"]
    assert stages.headline and not tables["multistar_attributes"].headline
    assert set(stages.brief) < set(stages.columns)
    for row in rows_of(stages):
        none, two = row["mode"] == "vanilla/none", row["stage"] == "2P"
        assert row["questions"] == {"1P": 3, "2P": 2}.get(row["stage"], 1) * (3 if none else 2)
        assert row["failed"] == (row["questions"] // 3 if none else 0)
        assert row["label mass"] == pytest.approx(0.25 if two else 1)
        assert row["most likely a label"] == (row["stage"] != "final") and row["without MSEval"] == 0
        assert row["MSEval of perfect"].n == row["questions"] - row["failed"]
        if none:
            assert row["MSEval of perfect"].mean == pytest.approx(0.7)
    calls = {row["mode"]: row for row in rows_of(tables["multistar_calls"])}
    assert {mode: (row["chains done"], row["questions"]) for mode, row in calls.items()} == {
        **{"vanilla/none": (2, 16), "vanilla/model": (2, 16)}
    }
    assert calls["vanilla/none"]["calls"] == calls["vanilla/none"]["planned calls"] == 16
    done = [record for record in kept if record.outcome and record.episode.mode == "vanilla/model"]
    assert calls["vanilla/model"]["calls"] == sum(len(record.turns) for record in done) > 16
    numbers = [[int(number) for number in re.findall(r"\d+", note)] for note in stages.notes]
    assert [8] in numbers, "questions of the failed episode"
    assert [1, 6] in numbers, "episodes that have not been played"
    assert any(found[:1] == [8] and len(found) == 2 for found in numbers), "with little probability on all labels"


def answers_with_and_without(without, told):
    """Of 10 questions of one stage each way, so many right; all of them with the truth."""
    return [
        Answered(
            "tiny", f"vanilla/{prior}", "center_single", puzzle, "n", "1R", "number", "", False, 4, True, puzzle < right
        )
        for prior, right in (("none", without), ("model", told), ("truth", 10))
        for puzzle in range(10)
    ]


def test_what_earlier_answers_add_is_told_in_per_cent_beside_the_papers():
    (table,) = gain_tables(answers_with_and_without(4, 5))
    row, *paper = rows_of(table)
    assert row == {"Model": "tiny", "Metric": "Acc", "Prompt": "vanilla", "1R": pytest.approx(25)}
    gpt = next(each for each in paper if each["Model"] == "GPT-4o (paper)")
    assert float(gpt["1R"]) == pytest.approx(100 * (41.8 / 34.7 - 1), abs=0.05)
    assert not [each for each in paper if each["Model"].startswith("Random")]
    (figure,) = gain_figures(answers_with_and_without(4, 5))
    own = [series for series in figure.series if not series.reference]
    assert [(series.name, series.panel, series.y) for series in own] == [("tiny", "Acc, vanilla", (pytest.approx(25),))]
    assert {series.panel for series in figure.series} == {"Acc, vanilla"}


def test_no_gain_is_told_where_nothing_was_reached_without():
    assert not [*gain_tables(answers_with_and_without(0, 5)), *gain_figures(answers_with_and_without(0, 5))]


def test_sets_are_described_by_their_questions_words_and_steps():
    parts = []
    for subtask, make in (("chain", chain_questions), ("direct", direct_questions)):
        asked = []
        for name in ("distribute_four", "in_distribute_four_out_center_single"):
            asked += asked_of(make(generate(name, 3), 0, "uniform"))
        parts += map(WRITERS[".md"], data_set_tables(asked, subtask))
    check_golden("multistar_data_set", "\n".join(parts))


def test_the_command_describes_a_set(capsys):
    assert main(argparse.Namespace(multistar_command="describe", subtask="direct", puzzles=1)) == 0
    assert "63 pictures, 125 questions" in capsys.readouterr().out


def test_a_set_of_no_puzzles_is_refused(capsys):
    assert main(argparse.Namespace(multistar_command="describe", subtask="direct", puzzles=0)) == 2
    assert "--puzzles 0: must be" in capsys.readouterr().err
