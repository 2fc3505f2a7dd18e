"""MultiStAR's tables: MSEval and accuracy of players whose behavior is known, and what is said of what is missing."""

import argparse
import dataclasses
import math
import re

import pytest

from envs.raven import CONFIGURATIONS, generate
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS, ShortcutPlayer
from evals.stats.intervals import proportion_estimate
from evals.suite import ledger_columns
from evals.suites.multistar import MultiStarSuite
from evals.suites.multistar.answers import Answered, scores_of
from evals.suites.multistar.commands import main
from evals.suites.multistar.comparison import ERRORS, error_table
from evals.suites.multistar.data_set import asked_of, data_set_tables
from evals.suites.multistar.effects import answer_measures, effect_tables
from evals.suites.multistar.figures import multistar_figures
from evals.suites.multistar.mseval import Convention, Score
from evals.suites.multistar.paper import paper_tables
from evals.suites.multistar.published import run_cells
from evals.suites.multistar.questions import chain_questions, direct_questions
from evals.suites.multistar.score import _measures_table
from evals.tables import WRITERS
from evals.types import LabelScores, PlayerError, Reply
from tests.evals.suites.multistar.multistar_fakes import (
    Refusing,
    Scripted,
    nodes_of,
    played,
    row_of,
    rows_of,
    tables_of,
)
from tests.evals.suites.test_uneven_runs import written
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


@pytest.mark.parametrize("convention", ["decoded", "model_prior", "soft_distributions+model_prior"])
def test_scores_do_not_depend_on_the_order_in_which_a_sweep_was_asked(follower, convention):
    suite, (record,) = follower
    nodes = [*nodes_of(record, suite).values()]
    turned = [
        {**node, "sweep": [{**each, "turn": 1_000 - each["turn"]} for each in reversed(node["sweep"])]}
        for node in reversed(nodes)
    ]
    scores = scores_of(nodes, Convention.named(convention))
    assert scores_of(turned, Convention.named(convention)) == scores and len(scores) == 8


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


@pytest.mark.parametrize("order", [("words", "place"), ("place", "words")])
def test_beside_every_player_stands_the_best_of_several_shortcuts(order):
    rights = {"me": (1, 0, 1, 0), "words": (1, 1, 1, 0), "place": (1, 0, 0, 0)}
    answers = [
        one_answer(player, "vanilla", puzzle, "single_panel_1", bool(right))
        for player in ("me", *order)
        for puzzle, right in enumerate(rights[player])
    ]
    of_shortcuts = [answer for answer in answers if answer.player != "me"]
    table = _measures_table("stages", "by stage", (), answers, of_shortcuts, ())
    place = table.columns.index("best shortcut")
    assert {row[place] for row in table.rows} == {0.75}


TWO = {"node": "two_panels_1_2", "parents": ("single_panel_1", "single_panel_2")}
ERRING = [
    # Told something wrong, and right when told the truth; told nothing wrong; nobody knows what it was told.
    *(one_answer("a", "vanilla/model", 1, f"single_panel_{panel}", panel == 2) for panel in (1, 2)),
    *(one_answer("a", "vanilla/model", 2, f"single_panel_{panel}", True) for panel in (1, 2)),
    *(one_answer("a", "vanilla/truth", puzzle, right=True, **TWO) for puzzle in (1, 2)),
    *(one_answer(player, f"{style}/truth", 1, **TWO) for player, style in (("a", "structured"), ("b", "vanilla"))),
    *(one_answer("a", "vanilla/model", puzzle, **TWO) for puzzle in (1, 2, 3)),
    *(one_answer(player, f"{style}/model", 1, **TWO) for player, style in (("a", "structured"), ("b", "vanilla"))),
    one_answer("c", "vanilla", 1, "single_a", answer=None, names_absent=True),
    one_answer("c", "vanilla", 1, "single_b", mass=0.49, names_absent=True),
    one_answer("c", "vanilla", 1, "single_c", argmax_is_label=False),
    one_answer("c", "vanilla", 1, "single_d", mass=0.5, names_absent=True),
    one_answer("c", "vanilla", 1, "single_e", argmax_is_label=None, mass=None),
    one_answer("c", "vanilla", 2, "single_f", failed=True, answer=None),
    one_answer("c", "vanilla", 2, "two_g", names_absent=True),
    one_answer("c", "vanilla", 2, "two_h"),
    one_answer("c", "vanilla", 3, "two_i", right=True),
    one_answer("c", "vanilla", 3, "two_j", counts=False),
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


def answers_with_and_without(without, told):
    """Of 10 questions of one stage each way, so many right; all of them with the truth."""
    return [
        Answered(
            "tiny", f"vanilla/{prior}", "center_single", puzzle, "n", "1R", "number", "", False, 4, True, puzzle < right
        )
        for prior, right in (("none", without), ("model", told), ("truth", 10))
        for puzzle in range(10)
    ]


def test_errors_measures_and_figures_of_mixed_answers_are_as_on_record():
    """Links, as questions on shape are here, count nowhere but among the weights."""
    parts = []
    for answers in (MIXED, ERRING, answers_with_and_without(4, 5), answers_with_and_without(0, 5)):
        tables = [error_table(answers), *paper_tables(answers), *effect_tables(answers)]
        figures = [figure for subtask in ("chain", "direct") for figure in multistar_figures(answers, subtask)]
        parts += written(tables, figures)
        for cell in (cell for subtask in ("chain", "direct") for cell in run_cells(answers, subtask)):
            parts.append(f"{cell.player} {cell.measure} {cell.cell} {[*cell.values]} {[*cell.games]}")
        for player in dict.fromkeys(answer.player for answer in answers):
            for measure in answer_measures(answers, player):
                seen = [(*one.cell, *one.unit, round(one.value, 6)) for one in measure.observations]
                parts.append(f"{player} {measure.name} {measure.bounded} {seen}")
    check_golden("multistar_mixed", "\n".join(parts))


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


@pytest.mark.parametrize(("mass", "doubtful"), [(0.5, False), (0.499, True)])
def test_labels_with_half_of_the_probability_are_an_answer(mass, doubtful):
    suite = MultiStarSuite(**{**NUMBERS, "puzzles": 1}, priors=["none"])
    wrong = Scripted(questions(suite), lambda question, _: (question.key + 1) % len(question.options), mass=mass)
    tables = tables_of(suite, played(suite, wrong))
    told = [note for note in tables["multistar_stages"].notes if "less than 50% probability" in note]
    assert len(told) == doubtful and all(note.startswith("8 answers had") for note in told)
    for row in rows_of(tables["multistar_errors"]):
        assert row["invalid"] == (row["wrong"] if doubtful else 0) and row["wrong"] > 0


class Odd:
    """Answers, probabilities and oddities that go by the number of the turn; fails some episodes."""

    async def reply(self, turn):
        number, labels = turn.number + turn.episode.index, turn.labels or turn.options
        if turn.episode.index % 100 == 1 and turn.episode.mode.endswith(("model", "structured")):
            raise PlayerError("gone")
        seen = ("There are two stars.", "There is a circle.", "I cannot see it.")[number % 3]
        if turn.options:
            return Reply(f"{seen}\n{labels[number % len(labels)]}", finish="length" if number % 4 == 2 else "stop")
        weights = [1 + (number + 3 * place) % 5 for place in range(len(labels))]
        mass = (1.0, 0.4, 0.75)[number % 3]
        values = tuple(math.log(mass * weight / sum(weights)) for weight in weights)
        scores = LabelScores(values, mass, number % 4 != 3, number % 23 != 20)
        return Reply(labels[weights.index(max(weights))], label_scores=scores, prompt_tokens=10 + number)


UNEVEN = {
    "chain": {"priors": ["none", "model", "truth"], "puzzles": 2},
    "direct": {"subtask": "direct", "styles": ["structured", "vanilla"], "attributes": ["number", "shape"]},
    "described": {"subtask": "direct", "reply": "described", "attributes": ["number", "shape"]},
    "unswept": {"priors": ["model"], "styles": ["structured", "vanilla"], "sweep": False},
}


@pytest.mark.parametrize("name", UNEVEN)
def test_an_uneven_run_is_told_as_on_record(name):
    suite = MultiStarSuite(
        **{"configurations": ["center_single"], "attributes": ["shape"], "puzzles": 3, **UNEVEN[name]}
    )
    players = {"small:base_rates": ShortcutPlayer("base_rates"), "gpt-4o": Odd()}
    records = [record for player in players.items() for record in played(suite, player[1], player[0])]
    kept = [record for number, record in enumerate(records) if number % 7 != 4]
    run = RunData.of_tables(
        plan_to_table([record.episode for record in records]), records_to_table(kept[::-1], ledger_columns(suite))
    ).of(suite.name)
    tables = [table for section in ("paper", "scores", "diagnostics") for table in suite.results(run, section)]
    check_golden(f"multistar_uneven_{name}", "\n".join(written(tables, suite.figures(run))))


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
