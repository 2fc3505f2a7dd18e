"""The page of results and its comparisons: the numbers of `raycade compare`, and one sentence that says what is shown."""

import dataclasses
import random
from array import array

import pytest

from evals.analysis.compare import Side, comparison_tables
from evals.results.boards import ALPHA
from evals.results.entries import Outline, Reader, RunPart, outline_of
from evals.results.overview import Overview, _fixed, _p
from evals.stats.intervals import Estimate
from evals.summary.paired import holm
from tests.evals.test_site import entry
from tests.small_runs import MODELS, SUITES, small_run


def overview_of(suite, *players):
    """Runs of one suite, one for each tuple of players, without failures."""
    parts, outlines = [], []
    for number, names in enumerate(players):
        run = small_run(suite, names, 0, 0)
        parts.append(Reader().read(f"run-{number}", run, SUITES[suite], run.plan, with_tables=False))
        outlines.append(outline_of(f"run-{number}", run.plan, run.settings, SUITES[suite]))
    return Overview(parts, outlines, {suite: suite.title()})


@pytest.mark.parametrize("suite", ["kumo", "kidgym", "multistar"])
def test_a_comparison_has_the_numbers_of_raycade_compare(suite):
    found = overview_of(suite, (MODELS[0], "oracle"), (MODELS[1],)).compare(MODELS[0], "perfect play (oracle)")
    run = small_run(suite, (MODELS[0], "oracle"), 0, 0)
    sides = [Side(label, player, run, SUITES[suite]) for label, player in (("A", MODELS[0]), ("B", "oracle"))]
    overall, *cells = comparison_tables(*sides)
    measures = found["suites"][0]["measures"]
    assert [f"{suite}: {each['measure']}" for each in measures] == [row[0] for row in overall.rows]
    for measure, row in zip(measures, overall.rows, strict=True):
        shown = measure["overall"]
        assert [shown["first"], shown["second"], shown["difference"]["mean"]] == [row[1], row[2], row[3].mean]
        assert shown["p"] == row[4] or (row[4] == "<0.001" and shown["p"] < 0.001)
        assert shown["games"] == row[5]
    assert [each["overall"]["holm"] for each in measures] == holm([each["overall"]["p"] for each in measures])
    for measure, table in zip(measures, cells, strict=False):
        differences = {(each["first"], each["second"], each["difference"]["mean"]) for each in measure["cells"]}
        assert differences == {(row[-6], row[-5], row[-4].mean) for row in table.rows}
        sizes = [abs(each["difference"]["mean"]) for each in measure["tasks"]]
        assert sizes == sorted(sizes, reverse=True)


def test_differences_to_a_baseline_are_paired_and_corrected():
    overview = overview_of("kidgym", (*MODELS, "random", "oracle"))
    rows = {row["name"]: row["cells"][0] for row in overview.results(MODELS[0])["rows"]}
    assert "difference" not in rows.pop(MODELS[0])
    effects = [cell["difference"] for cell in rows.values()]
    assert [each["holm"] for each in effects] == holm([each["p"] for each in effects])
    for name, cell in rows.items():
        other = overview.compare(name, MODELS[0])["suites"][0]["measures"][0]["overall"]
        assert cell["difference"]["difference"] == other["difference"]


def test_baselines_are_reference_rows_and_never_pooled():
    found = overview_of("toy", (MODELS[0], "random", "oracle"), (MODELS[1], "random")).results()
    assert [(row["name"], row["reference"]) for row in found["rows"]] == [
        *(
            (name, False)
            for name in sorted(MODELS, key=lambda name: [row["name"] for row in found["rows"]].index(name))
        ),
        *(("chance (random)", True), ("perfect play (oracle)", True)),
    ]
    assert all(cell["score"]["n"] == 4 for row in found["rows"] for cell in row["cells"])


def on_board(**wins):
    entries = [entry(name, won) for name, won in wins.items()]
    parts = [RunPart(each.run, {}, (), [each], {}) for each in entries]
    return Overview(parts, [Outline(each.run, {}, [(each.player, "toy")], ()) for each in entries], {"toy": "Toy"})


def test_the_sentence_names_the_two_highest_with_p_of_all_pairs():
    high, low = [1] * 20, [0] * 20
    found = on_board(a=high, b=low).results()
    assert found["sentence"].startswith("a beats b on Toy by 100.0 points [") and found["sentence"].endswith(
        "p < .001."
    )
    assert [row["cells"][0]["standing"] for row in found["rows"]] == ["highest", "below the highest"]
    random.seed(1)
    near = [random.random() < 0.9 for _ in range(20)]
    found = on_board(a=high, b=near, c=low).results()
    assert "no difference is shown" in found["sentence"] and found["sentence"].startswith("a and b: on Toy")
    standings = [row["cells"][0]["standing"] for row in found["rows"]]
    assert standings == ["highest", "not told apart from the highest", "below the highest"]
    assert on_board(a=high).results()["sentence"] == "a has played 20 of 20 episodes of Toy."


def test_results_and_comparison_of_two_models_say_the_same_about_several_suites():
    seen = set()
    for lost in range(12):
        played = {"a": [entry("a", [1] * 20), entry("a", [1] * 20)]}
        played["b"] = [entry("b", [0] * lost + [1] * (20 - lost)), entry("b", [0, *[1] * 19])]
        parts = [
            RunPart(f"{name}-{suite}", {}, (), [dataclasses.replace(each, suite=suite, run=f"{name}-{suite}")], {})
            for name, entries in played.items()
            for suite, each in zip(("toy", "other"), entries, strict=True)
        ]
        outlines = [Outline(each.name, {}, [(each.entries[0].player, each.entries[0].suite)], ()) for each in parts]
        overview = Overview(parts, outlines, {})
        found, compared = overview.results(), overview.compare("a", "b")
        assert found["sentence"] == compared["sentence"]
        cells = next(row["cells"] for row in found["rows"] if row["name"] == "b")
        for cell, suite in zip(cells, compared["suites"], strict=True):
            below = suite["measures"][0]["overall"]["holm"] < ALPHA
            assert (cell["standing"] == "below the highest") == below
            seen.add((below, suite["measures"][0]["overall"]["p"] < ALPHA))
    assert seen == {(False, False), (False, True), (True, True)}, (
        "one of them is significant only before the correction"
    )


def test_scores_beyond_shares_have_their_own_axis():
    part = entry("a", [1] * 20)
    score = dataclasses.replace(part.scores[0], estimate=Estimate(5, 4, 6, 20), values=array("d", [2.0, 8.0] * 10))
    part = dataclasses.replace(part, scores=[score])
    board = Overview([RunPart("a", {}, (), [part], {})], [Outline("a", {}, [("a", "toy")], ())], {}).results()[
        "boards"
    ][0]
    assert (board["share"], board["low"], board["high"], board["ticks"]) == (False, 2.0, 8.0, [])


@pytest.mark.parametrize(("p", "said"), [(0.0004, "p < .001"), (0.0041, "p = .004"), (1.0, "p = 1.000")])
def test_p_is_said_as_papers_print_it(p, said):
    assert _p(p) == said
    assert [_fixed(value, 1) for value in (6.25, -6.25, 6.24)] == ["6.3", "-6.3", "6.2"]
