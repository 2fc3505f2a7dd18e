"""Analysis of KUMO's runs: graphs, tables and correlations against independent computations."""

import dataclasses
import itertools
import math
import re
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from cluster.cli import main
from cluster.suite_commands.kumo import analyze as kumo_analyze
from envs.kumo import Action, State, Task, load_domain
from evals.figures import middle
from evals.players import BUILT_IN_PLAYERS
from evals.reference import published
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.lab.analysis.analyze import Analysis, OpenedRun, analyze
from evals.suites.kumo.lab.analysis.association import associate
from evals.suites.kumo.lab.analysis.correlation import (
    Scores,
    correlation_table,
    correlations,
    measured_scores,
    published_scores,
    read_scores,
)
from evals.suites.kumo.lab.analysis.counts import optimal_tests
from evals.suites.kumo.lab.analysis.figures import analysis_figures
from evals.suites.kumo.lab.analysis.graphs import communities_of, signature
from evals.suites.kumo.lab.analysis.ranking import category_table, concordance, ranking_table
from evals.suites.kumo.lab.analysis.structure import majority, structure_associations, structure_table
from evals.suites.kumo.repeats import Run
from evals.tables import Table
from tests.evals.suites.test_uneven_runs import RUNS, made_up, written
from tests.golden import check_golden
from tests.runs import Often, run_of
from tests.small_runs import MODELS, SUITES, small_run

# --- graphs ----------------------------------------------------------------------------------------------------------


def test_a_domain_graph_connects_truths_of_one_outcome_and_its_modularity_is_equation_5():
    domain = load_domain("knots")
    found = communities_of(domain)
    size = len(domain.truths)
    adjacency = np.zeros((size, size))
    for action in domain.actions:
        together = np.zeros((size, size), bool)
        for state in action.states:
            member = np.array([truth in state.rules_out for truth in domain.truths])
            together |= np.outer(member, member)
        np.fill_diagonal(together, False)
        adjacency += together
    ours = nx.to_numpy_array(found.graph, nodelist=domain.truths)
    assert (ours == adjacency).all()
    degrees, twice = adjacency.sum(axis=0), adjacency.sum()
    group = {truth: number for number, members in enumerate(found.groups) for truth in members}
    same = np.array([[group[one] == group[two] for two in domain.truths] for one in domain.truths])
    q = ((adjacency - np.outer(degrees, degrees) / twice) * same).sum() / twice
    assert found.modularity == pytest.approx(q) and q > 0.1
    assert sorted(truth for members in found.groups for truth in members) == sorted(domain.truths)
    assert communities_of(domain).groups == found.groups, "the same each time"
    assert list(map(len, found.groups)) == sorted(map(len, found.groups), reverse=True)
    assert set(found.places) == set(domain.truths)


def test_communities_are_those_that_were_put_in():
    truths = tuple(f"{side}{number}" for side in "xyz" for number in range(6))
    actions = tuple(
        Action(f"{side}{test}", "str", (State("a", tuple(t for t in truths if t[0] == side)), State("b", ())))
        for side in "xyz"
        for test in range(3)
    )
    domain = dataclasses.replace(load_domain("knots"), truths=truths, actions=actions)
    found = communities_of(domain)
    assert set(found.groups) == {frozenset(t for t in truths if t[0] == side) for side in "xyz"}
    assert found.modularity == pytest.approx(2 / 3)


@pytest.mark.parametrize("count", [1, 5, 12, 13, 40])
def test_graphs_are_drawn_evenly_from_the_highest_modularity_to_the_lowest(count):
    def graph(number):
        return SimpleNamespace(
            domain=SimpleNamespace(name=f"d_{number}"),
            modularity=number / 100,
            graph=nx.Graph(),
            groups=[{"t"}],
            places={"t": (0, 0)},
        )

    [figure] = analysis_figures({}, [graph(number) for number in range(count)], {}, [])
    drawn = [int(panel.split()[1].rstrip(",")) for panel in dict.fromkeys(series.panel for series in figure.series)]
    assert len(drawn) == min(12, count) and (drawn[0], drawn[-1]) == (count - 1, 0)
    gaps = {one - other for one, other in itertools.pairwise(drawn)}
    assert max(gaps, default=1) - min(gaps, default=1) <= 1


def test_a_signature_holds_the_degrees_of_truths_then_of_tests():
    actions = (
        Action("one", "str", (State("a", ("x", "y")), State("b", ("y",)))),
        Action("two", "str", (State("a", ()), State("b", ("y",)))),
    )
    task = Task("d", ("x", "y", "z"), actions, ("a", "a"), "z")
    assert signature(task) == "0.1.2/1.2"
    other = dataclasses.replace(task, truths=("y", "z", "x"), actions=actions[::-1])
    assert signature(other) == signature(task), "whatever the order"


# --- tables over runs ------------------------------------------------------------------------------------------------


def a_run(player="m", domain="a", index=0, success=True, difficulty="easy", tests=2, optimal=3, **more):
    fields = {"parse_errors": 0, "parse_failed": False, "tokens": 100, "offered": 6, **more}
    game = f"{domain} {difficulty} {index}"
    return Run(
        f"{player}{domain}{index}", player, difficulty, domain, index, "done", success, tests,
        optimal_actions=optimal, game=game, **fields,
    )  # fmt: skip


def test_most_of_the_runs_of_a_game_decide():
    def played(won):
        return majority([a_run(success=place < won) for place in range(5)])

    assert [*played(3).values(), *played(2).values()] == [True, False]
    assert majority([a_run(success=True), a_run(success=False)]) == {"a easy 0": False}, "a half is not most"
    assert majority([dataclasses.replace(a_run(), status="")]) == {}
    failed = [dataclasses.replace(a_run(success=False), status="failed") for _ in range(2)]
    assert majority([a_run(), *failed]) == {"a easy 0": False}, "a failed run counts as one without success"


def test_tests_of_perfect_play_are_counted_once_a_game_where_they_are_on_record():
    runs = [a_run(index=index, optimal=optimal) for index, optimal in enumerate((3, 3, 1, 4, None))]
    runs += [a_run("n", index=0), a_run(index=5, difficulty="hard", optimal=4)]
    assert optimal_tests(runs) == {"easy": {2: 2, 0: 1, 3: 1}, "hard": {3: 1}}


ASSOCIATED = [
    ("aabb", "1100", None),
    ("aabb", "1010", "xyxy"),
    ("aaaabbbbcc", "1110100011", "xxyyxxyyxy"),
    ("aaaabbbbcc", "1111000010", "xxxxyyyyyy"),
    ("abcdeeff", "10101010", None),
    ("abcdefgg", "10101011", "xxxxyyyy"),
    ("abcdefgg", "10101001", None),
    ("aabbccdd", "11001101", "abcdefgh"),
    ("aaaaaaabbb", "1111110000", "xxxxxyyyyy"),
    *(("aabb", "1101", "xxxx"), ("aabbc", "11011", "xxyyy"), ("aab", "110", None), ("aabbc", "00001", None)),
    *(("aaaa", "1010", None), ("abcd", "1010", None), ("aabb", "1111", None), ("aabb", "0000", "xxyy")),
]


def test_structure_is_told_for_each_player_and_difficulty_apart_as_on_record():
    parts = []
    for kinds, right, strata in ASSOCIATED:
        found = associate(kinds, [each == "1" for each in right], strata, seed=3, draws=199)
        parts.append(f"{kinds} {right} {strata}: {found}")
    runs, signatures = [], {}
    for index, repeat in itertools.product(range(24), range(3)):
        # One goes by the signature, one by the domain, one by the difficulty, one never errs, one plays half of the games.
        even, domain, level = index % 2 == 0, "ab"[index % 4 > 1], ("easy", "hard")[index > 11]
        won = {"tells": even, "domain": domain == "a", "level": level == "easy", "perfect": True, "half": even}
        for player, success in won.items():
            if player == "half" and index % 3:
                continue
            wins = success != (index == 5 and repeat < 2) if player != "perfect" else True
            runs.append(a_run(player, domain, index, wins, level))
            signatures[runs[-1].game] = "uneven" if even else f"even {index % 3}"
    parts += written([structure_table(structure_associations(runs, signatures))], [])
    parts += written([], analysis_figures({}, [], structure_associations(runs, signatures), []))
    told = re.sub(r"\d+\.\d{7,}(e-\d+)?", lambda found: f"{float(found[0]):.6g}", "\n".join(parts))
    check_golden("kumo_structure", told)


def test_signatures_that_no_two_tasks_share_tell_nothing_and_are_not_drawn():
    """Such a table has V 1 and chi-square n whatever the outcomes: it was once printed, and plotted, as a result."""
    runs = [a_run(index=index, success=index < 5) for index in range(12)]
    alone = structure_associations(runs, {run.game: run.game for run in runs})
    assert alone == {("m", "easy"): None}
    (row,) = structure_table(alone).rows
    assert row[2:] == (None,) * 11
    few = structure_associations(runs, {run.game: "same" if run.index < 2 else run.game for run in runs})
    assert few["m", "easy"].v > 0.9 and few["m", "easy"].v_estimated is None
    for found in (alone, few):
        assert not any(figure.name == "kumo_structure" for figure in analysis_figures({}, [], found, []))
    half = structure_associations(runs, {run.game: "same" if run.index < 6 else run.game for run in runs})
    assert any(figure.name == "kumo_structure" for figure in analysis_figures({}, [], half, []))


def test_domains_are_ranked_by_the_mean_of_the_players_the_hardest_first():
    wins = {("m", "b"): (1, 1, 0, 0), ("n", "b"): (1, 0, 0, 0), ("m", "a"): (1, 1, 1, 0), ("n", "a"): (0, 0, 0, 0),
            ("m", "c"): (1, 1, 1, 1), ("n", "c"): (1, 1, 0, 0)}  # fmt: skip
    runs = [
        a_run(
            player,
            domain,
            index,
            bool(won),
            optimal=7 if (domain, index) == ("a", 3) else {"a": 3, "b": 2, "c": 5}[domain],
        )
        for (player, domain), each in wins.items()
        for index, won in enumerate(each)
    ]
    runs.append(a_run("m", "a", 0, False, difficulty="hard", offered=16))
    runs.append(a_run("n", "a", 3, False, optimal=7))  # played again
    table = ranking_table(runs, {"a": "biology", "b": "chemistry"})
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    easy = [row for row in rows if row["difficulty"] == "easy"]
    assert [(row["rank"], row["domain"], row["success"], row["least"], row["most"]) for row in easy] == [
        *((1, "a", 0.375, 0, 0.75), (2, "b", 0.375, 0.25, 0.5), (3, "c", 0.75, 0.5, 1))
    ]
    assert all(isinstance(row["optimal actions"], float) for row in rows), "so that all are printed alike"
    assert [row["category"] for row in easy] == ["biology", "chemistry", None]
    assert [(row["tasks"], row["optimal actions"]) for row in easy] == [(4, 4), (4, 2), (4, 5)]
    # A success takes 2 tests and the prediction, anything else counts 7: only the first three tasks, where n lost, took more.
    assert easy[0]["relative actions"] == pytest.approx(3 * (7 / 3 - 1) / 9)
    assert [row["domain"] for row in rows if row["difficulty"] == "hard"] == ["a"]
    by_category = category_table(runs, {"a": "biology", "b": "", "c": "biology"})
    assert [row[:5] for row in by_category.rows] == [
        *(("easy", "m", "biology", 2, 8), ("easy", "m", "none", 1, 4)),
        *(("easy", "n", "biology", 2, 9), ("easy", "n", "none", 1, 4), ("hard", "m", "biology", 1, 1)),
    ]
    [note] = [note for note in table.notes if "Kendall" in note]
    assert "2 players" in note and f"{concordance([(0.75, 0.5, 1), (0, 0.25, 0.5)]):.2f}" in note


def test_domains_are_ranked_by_models_alone_and_other_tables_tell_of_all_players():
    suite = dataclasses.replace(SUITE, domains=["medical"], tasks_per_domain=2, repeats=1)
    players = ("m", "oracle", "random")
    for names, ranking in ((players, {"m"}), (players[1:], {"oracle", "random"})):
        run = run_of(suite, dict.fromkeys(names, Often(1.0)), failing=range(2))
        assert {each.player for each in analyze([OpenedRun("run", run, suite)]).ranked} == ranking
    played = [a_run(player, index=index, success=player != "m") for player in players for index in range(2)]
    found = Analysis(played, played[:2], (), dict.fromkeys((run.game for run in played), ""), ())
    tables = {table.name: table for table in found.tables}
    assert [row[4:8] for row in tables["kumo_domain_ranking"].rows] == [(2, 0, 0, 0)]
    for name, place in (("kumo_category_success", 1), ("kumo_structure", 0), ("kumo_usage", 0)):
        assert {row[place] for row in tables[name].rows} == {*players}


def test_concordance_is_friedman_s_statistic_over_its_largest_value():
    table = np.random.default_rng(2).normal(size=(4, 9)) + np.arange(9)
    statistic = stats.friedmanchisquare(*table.T).statistic
    assert concordance(table.tolist()) == pytest.approx(statistic / (4 * 8))
    tied = np.round(table)
    assert concordance(tied.tolist()) == pytest.approx(stats.friedmanchisquare(*tied.T).statistic / (4 * 8))
    assert concordance([[1, 1], [2, 2]]) == 0


# --- correlation -----------------------------------------------------------------------------------------------------


def test_correlations_are_those_of_numpy_and_scipy_over_the_players_of_both():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=8), rng.normal(size=8)
    names = [f"p{number}" for number in range(8)]
    first = Scores("kumo easy: success", dict(zip([*names, "alone"], [*x, 9.0], strict=True)), kumo=True)
    second = Scores("other", dict(zip([*names, "also alone"], [*y, -9.0], strict=True)))
    [found] = correlations([first, second])
    assert found.players == tuple(names) and found.pearson.n == 8
    assert found.pearson.mean == pytest.approx(np.corrcoef(x, y)[0, 1])
    z, margin = math.atanh(found.pearson.mean), stats.norm.ppf(0.975) / math.sqrt(5)
    assert (found.pearson.low, found.pearson.high) == pytest.approx((math.tanh(z - margin), math.tanh(z + margin)))
    ranks = [np.argsort(np.argsort(values)) for values in (x, y)]
    assert found.spearman == pytest.approx(np.corrcoef(*ranks)[0, 1])
    t = found.pearson.mean * math.sqrt(6 / (1 - found.pearson.mean**2))
    assert found.pearson_p == pytest.approx(2 * stats.t.sf(abs(t), 6))
    [row] = correlation_table([found]).rows
    assert row == ("kumo easy: success", "other", 8, found.pearson, found.pearson_p, found.spearman, found.spearman_p)


def test_players_are_matched_by_the_model_that_their_names_mean():
    mine = Scores("kumo easy: success", {"qwen2_5_7b_instruct (run a)": 0.4, "gpt-4o-2024-08-06": 0.8, "gpt-4o-mini": 0.7,
                                         "tiny": 0.1}, kumo=True)  # fmt: skip
    theirs = next(each for each in published_scores() if each.name == "published kumo easy: success")
    [found] = correlations([mine, theirs])
    assert len(found.players) == 3 and found.y == (0.3664, 0.7856, 0.724)
    names = ("Qwen/Qwen2.5-7B-Instruct", "GPT-4o", "gpt-4o-mini-2024-07-18")
    [found] = correlations([mine, Scores("elsewhere", dict(zip(names, (1, 3, 2), strict=True)))])
    assert (found.x, found.y) == ((0.4, 0.8, 0.7), (1, 3, 2))


def test_a_model_that_played_twice_is_two_players_and_none_takes_the_score_of_the_other():
    mine = Scores("k", {"s (a)": 0.5, "s (b)": 0.25, "t (a)": 0.0, "t (b)": 0.3, "u": 0.9}, kumo=True)
    there = {"s (a)": 1.0, "s (b)": 2.0, "t (a)": 3.0, "t (b)": 4.0}
    [found] = correlations([mine, Scores("x", there)])
    assert (found.x, found.y) == ((0.5, 0.25, 0.0, 0.3), (1, 2, 3, 4))
    [found] = correlations([mine, Scores("x", {**there, "u (c)": 5.0})])
    assert (found.players[-1], found.y[-1]) == ("u", 5.0), "the only one of its model is meant"
    del there["s (b)"]
    [found] = correlations([mine, Scores("x", {**there, "u (c)": 5.0, "u (d)": 6.0})])
    assert found.players == ("s (a)", "t (a)", "t (b)"), "of two of a model nobody knows which is meant"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,a\ns,1\nt,2\ns,3\n", "line 4: 's' stands in line 2 already"),
        ("model,a\nGPT-4o,1\ngpt-4o-2024-08-06,2\n", "line 3: 'gpt-4o-2024-08-06' stands in line 2 already"),
        ("model,a,a\ns,1,2\n", "has two columns 'a'"),
        ("model, model\ns,1\n", "has two columns 'model'"),
    ],
)
def test_scores_that_contradict_each_other_are_refused(text, said, tmp_path):
    (tmp_path / "scores.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_scores(tmp_path / "scores.csv")


def test_relative_actions_are_of_games_whose_perfect_play_is_on_record():
    runs = [a_run("m"), a_run("n", success=False, optimal=None), a_run("n", index=1, difficulty="hard")]
    assert {each.name: dict(each.values) for each in measured_scores(runs, ())} == {
        "kumo easy: success": {"m": 1.0, "n": 0.0},
        "kumo easy: relative actions": {"m": 0.0},
        "kumo hard: success": {"n": 1.0},
        "kumo hard: relative actions": {"n": 0.0},
    }


def test_too_few_players_or_equal_scores_are_left_out_and_own_measures_not_compared_with_each_other():
    kumo = Scores("kumo", {"a": 1, "b": 2, "c": 3}, kumo=True)
    assert not [*correlations([kumo, Scores("x", {"a": 1, "b": 2})])]
    assert not [*correlations([kumo, Scores("x", {"a": 1, "b": 1, "c": 1})])]
    assert not [*correlations([kumo, dataclasses.replace(kumo, name="published kumo hard")])]
    assert [*correlations([kumo, dataclasses.replace(kumo, name="published kumo")])]
    [three] = correlations([kumo, Scores("x", {"a": 1, "b": 2, "c": 4})])
    assert math.isnan(three.pearson.low), "three players give no interval"
    for count, expected in ((3, 2 / 6), (4, 2 / 24), (7, 2 / 5040), (8, 0)):
        values = {str(number): number for number in range(count)}
        [found] = correlations(
            [Scores("k", values, kumo=True), Scores("x", {each: -(n**3) for each, n in values.items()})]
        )
        assert (found.spearman, found.spearman_p) == pytest.approx((-1, expected)), "only two orders are as strong"


def test_published_scores_are_the_paper_s():
    scores = {each.name: each for each in published_scores()}
    assert len(scores) == 4 and all(each.kumo for each in scores.values())
    figure = published("kumo").find("o1-mini", "relative actions", {"domains": "5 domains", "level": "hard"})
    assert scores["published kumo hard: relative actions"].values["o1-mini"] == figure.value
    assert len(scores["published kumo easy: success"].values) == 23


def test_scores_at_other_benchmarks_are_read_with_gaps(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("model, MMLU-Pro ,LiveBench\ngpt-4o, 72.6 ,\n,,\n mistral-large ,,49\n")
    one, two = read_scores(path)
    assert (one.name, one.values, two.values) == ("MMLU-Pro", {"gpt-4o": 72.6}, {"mistral-large": 49})
    for text, told in (
        ("name,x\na,1\n", "no column 'model'"),
        ("model,x\na,1\nb,high\n", "line 3, x: 'high'"),
        ("x,model\n1,a\n2\n", "line 3: has scores, but no model"),
        ("model,x\na,1\n ,2\n", "line 3: has scores, but no model"),
        ("", "model"),
        (f"model,x\n{'a' * 200_000},1\n", r"scores.csv: cannot be read: field larger"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=told):
            read_scores(path)
    with pytest.raises(ValueError, match="there is no such file"):
        read_scores(tmp_path / "none.csv")


def test_several_runs_and_other_scores_are_correlated_as_on_record(tmp_path):
    (suite, players, cells, values), (kidgym, _, others, of_others) = RUNS["kumo"], RUNS["kidgym"]
    opened = [
        OpenedRun("first", made_up(suite, players, cells, values), suite),
        OpenedRun("later", made_up(suite, players[::-2], cells[1:4], values), suite),
        OpenedRun("games", made_up(kidgym, players, others[:3], of_others), kidgym),
    ]
    scores = [f"{name},{place * place},{'' if place == 2 else -place}" for place, name in enumerate((*players, "tiny"))]
    (tmp_path / "scores.csv").write_text("\n".join(["model,Elsewhere,Less", *scores]))
    found = analyze(opened, tmp_path / "scores.csv")
    parts = [
        f"{len(found.played)} {sorted({run.player for run in found.played})}",
        f"{len(found.ranked)} of them ranked",
    ]
    parts += [f"{each.first.name} | {each.second.name} {each.players}" for each in found.correlations]
    parts += written(found.tables, [figure for figure in found.figures if "correlation" in figure.name])
    check_golden("kumo_several_runs", "\n".join(parts))
    with pytest.raises(ValueError, match="no episode of KUMO has been played in these runs"):
        analyze(opened[2:])


# --- whole runs ------------------------------------------------------------------------------------------------------

SUITE = KumoSuite(domains=["medical", "knots"], difficulties=["easy"], tasks_per_domain=4, repeats=3)


@pytest.mark.slow
def test_a_run_gives_all_tables_and_figures(tmp_path):
    players = {f"m{share}": Often(share / 4, seed=share, tokens=5) for share in range(1, 5)}
    run = run_of(SUITE, {**players, "oracle": BUILT_IN_PLAYERS["oracle"]}, failing=(2,))
    path = tmp_path / "scores.csv"
    path.write_text("model,Elsewhere\n" + "".join(f"m{share},{share}\n" for share in range(1, 5)))
    found = analyze([OpenedRun("run", run, SUITE)], path)
    tables = {table.name: table for table in found.tables}
    assert {name.removeprefix("kumo_") for name in tables} == {
        *("domain_ranking", "category_success", "optimal_tests", "domain_graphs", "structure", "correlations", "usage")
    }
    assert len(found.played) == 5 * 2 * 4 * 3 and {run.player for run in found.ranked} == {*players}
    assert [row[0] for row in tables["kumo_domain_graphs"].rows] == ["medical", "knots"]
    assert {row[1] for row in tables["kumo_correlations"].rows} == {"Elsewhere"}
    won = next(row for row in tables["kumo_correlations"].rows if row[0] == "kumo easy: success")
    assert won[2] == 4 and won[3].mean > 0.8
    assert len(found.signatures) == 8 and tables["kumo_optimal_tests"].rows[-1][1] == 6, "one in four failed everywhere"
    figures = {figure.name: figure for figure in found.figures}
    assert set(figures) == {"kumo_optimal_tests", "kumo_domain_graphs", "kumo_correlation_Elsewhere"}
    assert [each.y for each in figures["kumo_correlation_Elsewhere"].series] == [(1.0, 2.0, 3.0, 4.0)] * 2
    [panel] = {each.panel for each in figures["kumo_domain_graphs"].series if each.panel.startswith("knots")}
    nodes = [each for each in figures["kumo_domain_graphs"].series if each.panel == panel and not each.reference]
    assert sum(len(each.x) for each in nodes) == len(load_domain("knots").truths)
    shares = next(each for each in figures["kumo_optimal_tests"].series if each.name == "here")
    assert sum(middle(value) for value in shares.y) == pytest.approx(1)


@pytest.mark.slow
def test_other_suites_of_the_same_players_are_correlated_with():
    scores = {}
    runs = []
    for share in range(1, 5):
        name = f"m{share}"
        runs.append(OpenedRun(f"k{share}", run_of(SUITE, {name: Often(share / 4, seed=1)}), SUITE))
        toy = SUITES["toy"]
        played = run_of(toy, {name: Often(share / 4, seed=2)})
        runs.append(OpenedRun(f"t{share}", played, toy))
        rows = played.of("toy").episodes(["success"])["success"].to_pylist()
        scores[name] = sum(map(bool, rows)) / len(rows)
    found = analyze(runs)
    pairs = {(each.first.name, each.second.name): each for each in found.correlations}
    both = pairs["kumo easy: success", "toy: success"]
    assert dict(zip(both.players, both.y, strict=True)) == scores


@pytest.mark.slow
def test_the_same_task_number_of_other_seeds_is_another_game():
    other = dataclasses.replace(SUITE, seed=1)
    runs = [OpenedRun(name, run_of(suite, {name: Often(0.5)}), suite) for name, suite in (("a", SUITE), ("b", other))]
    assert len(analyze(runs).signatures) == 16
    assert sum(optimal_tests(analyze(runs).played)["easy"].values()) == 16


@pytest.mark.slow
def test_partial_and_failed_runs_are_analyzed_and_an_empty_one_is_refused():
    found = analyze([OpenedRun("run", small_run("kumo"), SUITES["kumo"])])
    assert {run.player for run in found.ranked} == {*MODELS} and found.tables
    all_failed = run_of(SUITE, {"m": Often(1.0)}, failing=range(4))
    names = {table.name for table in analyze([OpenedRun("run", all_failed, SUITE)]).tables}
    assert "kumo_optimal_tests" not in names and "kumo_domain_ranking" in names
    for empty in (run_of(SUITE, most=0), small_run("toy")):
        with pytest.raises(ValueError, match="no episode of KUMO"):
            analyze([OpenedRun("run", empty, SUITE if empty.plan["suite"][0].as_py() == "kumo" else SUITES["toy"])])


@pytest.mark.slow
def test_built_in_players_rank_domains_only_where_no_model_played():
    run = run_of(SUITE, {"random": BUILT_IN_PLAYERS["random"], "oracle": BUILT_IN_PLAYERS["oracle"]})
    assert {each.player for each in analyze([OpenedRun("run", run, SUITE)]).ranked} == {"random", "oracle"}


def command(*words):
    with pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    return end.value.code


def test_a_long_table_is_shown_by_its_first_and_last_rows_and_main_columns(monkeypatch):
    monkeypatch.setattr(kumo_analyze, "LISTED", 4)
    table = Table("t", "T", ("a", "b"), tuple((str(number), 0) for number in range(9)), ("a note",), brief=("a",))
    shown = kumo_analyze._shortened(table)
    assert (shown.columns, shown.rows) == (("a",), (("0",), ("1",), ("...",), ("7",), ("8",)))
    assert "4 of 9 rows" in shown.notes[0]
    short = dataclasses.replace(table, rows=table.rows[:4])
    assert kumo_analyze._shortened(short).rows == (("0",), ("1",), ("2",), ("3",))


@pytest.mark.slow
def test_the_command_prints_eighty_columns_and_writes_its_files(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(kumo_analyze, "LISTED", 4)
    small = ["suite=kumo", "suite.difficulties=[easy]", "suite.tasks_per_domain=1", "suite.repeats=1"]
    run = tmp_path / "run"
    assert command("run", *small, "model=random", "baselines=[oracle]", f"run_dir={run}") == 0
    capsys.readouterr()
    assert command("kumo", "analyze", run, "--out", tmp_path / "out") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80
    assert sum(line.startswith("...") for line in lines) >= 1
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {
        "kumo_domain_ranking.csv",
        "kumo_structure.json",
        "kumo_domain_graphs.png",
        "kumo_optimal_tests.svg",
    } <= files
    shown = len(lines)
    assert command("kumo", "analyze", run, "--full") == 0
    assert len(capsys.readouterr().out.splitlines()) > shown
    assert command("kumo", "analyze", tmp_path / "none") == 2
    (tmp_path / "scores.csv").write_text("x\n")
    assert command("kumo", "analyze", run, "--scores", tmp_path / "scores.csv") == 2
    assert "no column 'model'" in capsys.readouterr().err
