"""Published figures: each number as extracted from the papers, each known slip with its correction."""

import dataclasses
import hashlib
import itertools
import re
import statistics
from pathlib import Path

import pytest

from evals.reference import model_named, models, published
from evals.reference.comparison import RunCell
from evals.reference.figures import Conditions, Figure, Paper
from evals.reference.trend import size_figures
from evals.stats.intervals import proportion_estimate

CHECKSUMS = Path(__file__).with_name("data") / "published_rows.txt"
SUITES = ("kidgym", "multistar", "kumo")


# --- a checksum per row ----------------------------------------------------------------------------------------------


def checksums(suite, figures):
    """A line for each row of each published table: the hash of all its figures with their cells."""
    rows = {}
    for figure in figures:
        cell = " ".join(f"{key}={value}" for key, value in sorted(figure.cell.items()))
        line = f"{figure.measure} {cell} {figure.printed!r} {figure.value!r} {figure.n} {figure.games}"
        rows.setdefault(f"{suite}, {figure.table}, {figure.row}", []).append(line)
    return [
        f"{hashlib.sha256(chr(10).join(sorted(lines)).encode()).hexdigest()[:12]} {row}" for row, lines in rows.items()
    ]


def all_checksums():
    """What ``data/published_rows.txt`` holds; ``python -m tests.evals.test_reference`` writes it anew."""
    return [line for suite in SUITES for line in checksums(suite, published(suite).figures)]


def test_every_published_row_has_the_checksum_on_record():
    """Two figures exchanged change a row. The record was made where the tables equal the papers'."""
    recorded = CHECKSUMS.read_text(encoding="utf-8").splitlines()
    assert all_checksums() == recorded


# --- rules that corrections follow -----------------------------------------------------------------------------------


def test_counts_of_kumo_s_optimal_search_have_the_mean_that_the_paper_prints():
    paper = published("kumo")
    for table, level, tasks in (("Figure 6c", "easy", 250), ("Figure 6c", "hard", 250)):
        counts = {int(f.cell["tests"]): f.value for f in paper.table(table) if f.cell["level"] == level}
        mean = sum(tests * count for tests, count in counts.items()) / sum(counts.values())
        place = {"domains": "5 domains", "level": level}
        assert sum(counts.values()) == tasks
        assert mean + 2 == pytest.approx(paper.find("optimal search", "actions if successful", place).value, abs=1e-9)
    counts = {int(f.cell["tests"]): f.value for f in paper.table("result files, optimal search")}
    assert sum(counts.values()) == 5000 and counts[0] == 940


def test_mislabeled_rows_of_table_2_are_corrected_from_the_tables_with_the_right_names():
    paper = published("kidgym")
    people = {
        (figure.cell["task"], figure.cell["level"]): figure.value
        for name in ("Table 4", "Table 5")
        for figure in paper.table(name)
    }
    rows = [figure for figure in paper.table("Table 2") if figure.row == "Human"]
    assert len(rows) == 36
    for figure in rows:
        assert figure.value == people[figure.cell["task"], figure.cell["level"]], figure
        assert (figure.correction is not None) == (figure.printed != figure.value)
    later = {
        (figure.cell["task"], figure.cell["level"]): figure.value
        for figure in paper.table("Table 8")
        if figure.row == "Random"
    }
    for figure in paper.table("Table 2"):
        if figure.row == "Random":
            assert figure.value == pytest.approx(later[figure.cell["task"], figure.cell["level"]], abs=0.004), figure


def test_chance_as_corrected_agrees_with_random_play_of_the_published_code():
    measured = {
        (figure.cell["task"], figure.cell["level"]): (figure.value, figure.n)
        for figure in published("kidgym").table("published code")
    }
    assert len(measured) == 36
    for table in ("Table 2", "Table 7", "Table 8"):
        for figure in published("kidgym").table(table):
            if figure.row == "Random":
                value, n = measured[figure.cell["task"], figure.cell["level"]]
                assert n == 5000 and figure.value == pytest.approx(value, abs=0.025), figure


@pytest.mark.parametrize("suite", SUITES)
def test_figures_are_sound(suite):
    paper = published(suite)
    for figure in paper.figures:
        if figure.measure in ("success", "accuracy", "parse errors", "NCMI"):
            assert 0 <= figure.printed <= 1 and 0 <= figure.value <= 1, figure
        assert bool(paper.model_of(figure)) != (figure.row in paper.baselines), figure
        assert (figure.n is None) == (figure.games is None) and (figure.n or 1) >= (figure.games or 1)
        if figure.correction:
            assert figure.correction.value != figure.printed and len(figure.correction.why) < 120
    for model in paper.models:
        assert set(model.rows[suite]) <= {figure.row for figure in paper.figures}, model


@pytest.mark.parametrize("numbers", itertools.product((None, 40, 50), repeat=3), ids=str)
def test_of_several_tables_the_first_that_says_n_is_found_by_either_name(numbers):
    model, cell = model_named("qwen2.5-vl-7b"), {"task": "CL", "level": "1"}
    row = model.rows["kidgym"][0]
    figures = [Figure(f"Table {place}", row, "success", cell, 0.5, n) for place, n in enumerate(numbers)]
    others = [dataclasses.replace(figures[0], n=9, **change) for change in ({"measure": "NCMI"}, {"cell": {}})]
    paper = Paper("kidgym", "", {}, Conditions(), (*others, *figures))
    wanted = next((figure for figure in figures if figure.n is not None), figures[0])
    assert paper.find(row, "success", cell) is wanted and paper.find(model.name, "success", cell) is wanted


# --- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("qwen2_5_vl_7b", "qwen2.5-vl-7b"),
        ("Qwen/Qwen2.5-VL-72B-Instruct", "qwen2.5-vl-72b"),
        ("internvl3_8b", "internvl3-8b"),
        ("OpenGVLab/InternVL3-38B-hf", "internvl3-38b"),
        ("qwen2_5_7b", "qwen2.5-7b"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("claude-3-5-sonnet-20241022", "claude-3.5-sonnet"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
    ],
)
def test_players_are_known_by_any_of_their_names(name, model):
    assert model_named(name).name == model


@pytest.mark.parametrize("name", ["qwen2_5_vl_3b", "tiny", "gpt-4o-audio", "random", ""])
def test_other_names_are_no_model_of_a_paper(name):
    assert model_named(name) is None


def test_no_name_means_two_models_and_no_row_has_two():
    keys = [
        re.sub(r"[^a-z0-9]", "", name.split("/")[-1].lower()) for one in models() for name in (one.name, *one.aliases)
    ]
    own = {model.name: {model.name, *model.aliases} for model in models()}
    assert all(model_named(name).name == model for model, names in own.items() for name in names)
    assert len(set(keys)) == len(keys), "an alias that says nothing new"
    rows = [(suite, row) for model in models() for suite, of_suite in model.rows.items() for row in of_suite]
    assert len(set(rows)) == len(rows)


CELLS = [{"level": level, "task": task, "mode": "zero_shot"} for task in ("CL", "SE", "MA") for level in "123"]


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_point_over_its_size_is_the_mean_of_its_cells_whose_errors_add_up_as_of_other_games(count):
    """The half width of the mean of k alike intervals is that of one over the root of k."""
    won = [True] * 13 + [False] * 7
    cells = [RunCell("some-7b", "success", cell, won, range(20)) for cell in CELLS[:count]]
    [figure] = size_figures("kidgym", "KidGym", cells, split_by="mode")
    own, theirs = figure.series
    one = proportion_estimate(won)
    assert (own.name, own.x, own.panel, theirs.panel) == ("some-7b", (7,), "zero_shot", "zero_shot")
    assert own.y[0].mean == pytest.approx(0.65) and own.y[0].n == 20 * count
    assert own.y[0].high - own.y[0].low == pytest.approx((one.high - one.low) / count**0.5)
    paper = published("kidgym")
    means = sorted(
        (model.parameters, statistics.fmean(paper.find(model.name, "success", cell).value for cell in CELLS[:count]))
        for model in paper.models
        if model.parameters and paper.find(model.name, "success", CELLS[0])
    )
    drawn = sorted(zip(theirs.x, theirs.y, strict=True))
    assert [size for size, _ in drawn] == [size for size, _ in means] and theirs.reference
    assert [value for _, value in drawn] == pytest.approx([value for _, value in means])


if __name__ == "__main__":
    CHECKSUMS.write_text("\n".join(all_checksums()) + "\n", encoding="utf-8")
