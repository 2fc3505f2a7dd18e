"""Published figures: each number as extracted from the papers, each known slip with its correction."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from evals.reference import model_named, models, nearest, parameters_of, published

EXTRACTED = Path(__file__).parents[3] / "shared" / "reference" / "published"
CHECKSUMS = Path(__file__).with_name("data") / "published_rows.txt"
SUITES = ("kidgym", "multistar", "kumo")
needs_extracts = pytest.mark.skipif(not EXTRACTED.is_dir(), reason="the extracted tables are not at hand")


def extracted(suite):
    return yaml.safe_load((EXTRACTED / f"{suite}.yaml").read_text(encoding="utf-8"))


def printed(suite):
    """Every figure of a suite by table, row, measure and the values of its cell."""
    found = {}
    for figure in published(suite).figures:
        key = (figure.table, figure.row, figure.measure, frozenset(figure.cell.values()))
        assert key not in found, key
        found[key] = figure
    return found


def compare(suite, expected, also=()):
    """Both sides hold the same cells and the same numbers; tables in ``also`` have other sources."""
    found = {key: figure.printed for key, figure in printed(suite).items() if key[0] not in also}
    assert set(found) == set(expected)
    wrong = {key for key in expected if found[key] != pytest.approx(expected[key], abs=1e-9)}
    assert not wrong
    return len(expected)


# --- a checksum per row, which holds without the extracts ---------------------------------------------------------------


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
    """Two figures exchanged change a row. The record was made where the tables equal the papers' (see the next section)."""
    recorded = CHECKSUMS.read_text(encoding="utf-8").splitlines()
    assert all_checksums() == recorded


@pytest.mark.parametrize("suite", SUITES)
def test_two_exchanged_figures_change_a_checksum(suite):
    figures = list(published(suite).figures)
    known = checksums(suite, figures)
    for first in range(0, len(figures) - 1, 7):
        one, two = figures[first : first + 2]
        if one.printed != two.printed:
            swapped = [replace(one, printed=two.printed), replace(two, printed=one.printed)]
            assert checksums(suite, [*figures[:first], *swapped, *figures[first + 2 :]]) != known


# --- each number -----------------------------------------------------------------------------------------------------


@needs_extracts
def test_kidgym_tables_are_those_of_the_paper():
    data, expected = extracted("kidgym"), {}
    for number in (2, 7, 8):
        mode = data[f"table{number}"]["mode"]
        for row, levels in data[f"table{number}"]["rows"].items():
            for level, values in levels.items():
                for task, value in zip(data["columns"], values, strict=True):
                    expected[f"Table {number}", row, "success", frozenset({mode, task, str(level)})] = value
    for row, values in data["table3"]["rows"].items():
        for pixels, value in zip(data["table3"]["columns"], values, strict=True):
            expected["Table 3", row, "success", frozenset({"zero_shot", "CO", "1", str(pixels)})] = value
    counts = {}
    for number in (4, 5):
        for level, tasks in data[f"table{number}"].items():
            for task, (rate, solved, asked) in tasks.items():
                key = (f"Table {number}", "Human", "success", frozenset({"zero_shot", task, level[1:]}))
                expected[key], counts[key] = rate, (solved, asked)
    for row, values in data["table6"]["rows"].items():
        for capability, value in zip(data["table6"]["columns"], values, strict=True):
            place = frozenset({"zero_shot", capability.removesuffix("_reasoning")})
            expected["Table 6", row, "capability", place] = value
    assert compare("kidgym", expected, also=("published code",)) == 1389
    for key, (solved, asked) in counts.items():
        figure = printed("kidgym")[key]
        assert figure.n == asked and figure.value == pytest.approx(solved / asked, abs=0.0051)


PRIORS = {"without": "none", "with": "model", "ground_truth": "truth"}
STYLES = {"Vanilla": "vanilla", "Struct": "structured", "Doc": "document"}


def chain_rows(rows, kinds, extra):
    """``measure``, row, kind of prior or style, values; a row without kinds holds for none and the model's own."""
    for row, block in rows.items():
        by_measure = block if {"accuracy", "mseval"} & set(block) else {"accuracy": block}
        for measure, values in by_measure.items():
            lines = values if isinstance(values, dict) else {"without": values, "with": values}
            for kind, line in lines.items():
                yield {"accuracy": "accuracy", "mseval": "MSEval"}[measure], row, {kinds[kind], *extra}, line


@needs_extracts
def test_multistar_tables_are_those_of_the_paper():
    data, expected = extracted("multistar"), {}
    pre_trained = {"Idefics2-8B (2024)", "xGen-MM-4B (2024)"}
    for group, rows in data["table_1_direct_accuracy"]["rows"].items():
        for row, values in rows.items():
            name = f"{row}, pre-trained" if group == "pre_trained_open" and row in pre_trained else row
            for stage, value in zip(data["table_1_direct_accuracy"]["columns"], values, strict=True):
                place = frozenset({"direct", "vanilla", "none", stage.replace("F", "f")})
                expected["Table 1", name, "accuracy", place] = value / 100
    chains = [
        ("Table 2", "table_2_chain_accuracy_and_mseval", PRIORS, {"vanilla"}),
        ("Table 3", "table_3_chain_accuracy_ground_truth_prior", PRIORS, {"vanilla"}),
        ("Table 5", "table_5_prompt_styles_accuracy", STYLES, {"model"}),
        ("Table 15", "table_15_prompt_styles_accuracy_and_mseval", STYLES, {"model"}),
    ]
    for table, name, kinds, extra in chains:
        for measure, row, place, values in chain_rows(data[name]["rows"], kinds, {"chain", *extra}):
            for stage, value in zip(("1P", "2P", "1R", "2R", "final"), values, strict=True):
                known = value / 100 if measure == "accuracy" else value
                expected[table, row, measure, frozenset({*place, stage})] = known
    weights = data["table_4_ncmi_sum_of_parent_weights"]
    told = {"chain", "vanilla", "model"}
    for row, attributes in weights["rows"].items():
        for attribute, values in attributes.items():
            for stage, value in zip(("2P", "1R", "2R"), values, strict=True):
                expected["Table 4", row, "NCMI", frozenset({*told, attribute.lower(), stage})] = value
        expected["Table 4", row, "NCMI", frozenset({*told, "puzzle", "final"})] = weights["2R to F"][row]
    expected |= people(data)
    for row, time in data["table_14_running_time_3920_chain_questions"].items():
        parts = re.findall(r"(\d+)([DHM])", time)
        minutes = sum(int(number) * {"D": 24 * 60, "H": 60, "M": 1}[unit] for number, unit in parts)
        expected["Table 14", row, "minutes", frozenset({"chain"})] = minutes
    assert compare("multistar", expected) == 530


def people(data):
    found = {}
    stages = data["table_11_human_part_A_positive_rates"]["columns"]
    for criterion, values in data["table_11_human_part_A_positive_rates"].items():
        if criterion != "columns":
            for stage, value in zip(stages, values, strict=True):
                place = frozenset({"direct", criterion.lower().replace("_", " "), stage})
                found["Table 11", "Human", "positive rate", place] = value
    for stage, value in zip(stages, data["table_12_human_part_B_accuracy"]["accuracy"], strict=True):
        found["Table 12", "Human", "accuracy", frozenset({"direct", "vanilla", "none", stage})] = value / 100
    for stage, value in zip(stages, data["table_13_fleiss_kappa"]["kappa"], strict=True):
        found["Table 13", "Human", "Fleiss' kappa", frozenset({"direct", stage})] = value
    return found


@needs_extracts
def test_kumo_figures_are_those_of_the_result_files():
    names = {
        "success": "success",
        "relative": "relative actions",
        "actions": "actions if successful",
        "parse": "parse errors",
        "tokens": "tokens",
    }
    expected, runs = {}, {}
    for row, levels in extracted("kumo")["players"].items():
        for level, figures in levels.items():
            domains = "100 domains" if level == "easy100" else "5 domains"
            for name, value in figures.items():
                key = ("result files", row, names.get(name), frozenset({domains, level.removesuffix("100")}))
                if name == "runs":
                    runs[key[1], key[3]] = value
                else:
                    expected[key] = value
    counts = ("Figure 6c", "result files, optimal search")
    optimum = {
        key: figure.printed
        for key, figure in printed("kumo").items()
        if key[1] == "optimal search" and key[0] not in counts
    }
    assert compare("kumo", expected | optimum, also=("text", "Figure 4", *counts)) == 311
    for (_, row, _, place), figure in printed("kumo").items():
        if figure.table == "result files" and row != "optimal search":
            assert figure.n == runs.get((row, place), 1250) == 5 * figure.games


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


# --- corrections -----------------------------------------------------------------------------------------------------


def test_every_slip_that_is_known_stands_as_printed_with_its_correction():
    kidgym, multistar, kumo = (published(suite) for suite in SUITES)
    counted = kidgym.find("Human", "success", {"mode": "zero_shot", "task": "MMA", "level": "3"})
    assert (counted.table, counted.printed, counted.value, counted.n) == ("Table 5", 0.92, 0.93, 45)
    learning = kidgym.find("gpt-5", "capability", {"mode": "zero_shot", "capability": "learning"})
    assert (learning.printed, learning.value) == (98, 84)
    average = [figure for figure in kidgym.table("Table 6") if figure.row == "Average"]
    assert [figure.printed for figure in average] == [38, 40, 57, 10, 20]
    assert all(figure.correction for figure in average)
    chance = [figure for figure in multistar.table("Table 1") if figure.row == "Random"]
    assert [round(100 * figure.printed, 1) for figure in chance] == [39.9, 23.0, 26.2, 25.0, 25.0, 12.5]
    assert [round(100 * figure.value, 1) for figure in chance] == [26.2, 39.9, 30.0, 25.0, 25.0, 12.5]
    tokens = [figure for figure in kumo.table("text") if figure.row == "llama-3.3-70b"]
    assert (tokens[0].printed, tokens[0].value) == (2937.0, 7261.9)


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


def test_rows_of_table_15_that_repeat_others_are_corrected_by_table_2():
    paper = published("multistar")
    for model in ("qwen2-vl-72b", "nvlm-d-72b", "internvl2-8b"):
        for stage in ("1P", "2P", "1R", "2R", "final"):
            vanilla = {"subtask": "chain", "style": "vanilla", "prior": "model", "stage": stage}
            right = paper.find(model, "MSEval", vanilla)
            assert right.table == "Table 2"
            repeated = [
                figure
                for figure in paper.table("Table 15")
                if paper.model_of(figure) == model and figure.measure == "MSEval" and dict(figure.cell) == vanilla
            ]
            assert [figure.value for figure in repeated] == [right.value]


def test_a_doubtful_figure_keeps_its_printed_value():
    paper = published("multistar")
    place = {"subtask": "chain", "style": "vanilla", "prior": "model", "stage": "final", "attribute": "puzzle"}
    doubtful = paper.find("qwen2-vl-72b", "NCMI", place)
    assert doubtful.correction is not None and doubtful.correction.value is None
    assert doubtful.value == doubtful.printed == 0.42


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


def test_printed_shares_of_the_chain_fit_the_number_of_questions():
    fits = {}
    for figure in published("multistar").figures:
        if figure.n and figure.row != "Random":
            nearest_share = round(100 * round(figure.printed * figure.n) / figure.n, 1)
            fits.setdefault(figure.cell["stage"], []).append(nearest_share == round(100 * figure.printed, 1))
    assert all(all(fits[stage]) for stage in ("1P", "2P", "final"))
    assert all(sum(fits[stage]) / len(fits[stage]) > 0.8 for stage in ("1R", "2R")), "by chance .55 would fit"


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


def test_sizes_come_from_the_table_or_the_name():
    assert parameters_of("Qwen/Qwen2.5-VL-7B-Instruct") == 7
    assert parameters_of("qwen3_vl_8b") == 8
    assert parameters_of("some/Model-1.5B-chat") == 1.5
    assert parameters_of("qwen2_5_0_5b") == 0.5
    assert parameters_of("gpt-4o") is None and parameters_of("tiny") is None


def test_nearest_means_the_ratio_of_sizes():
    close = [model.name for model in nearest(3, published("kumo").models, count=3)]
    assert set(close) == {"qwen2.5-3b", "llama-3.2-3b", "qwen2.5-7b"} and close[2] == "qwen2.5-7b"
    assert [model.name for model in nearest(17, published("kidgym").models)] == ["qwen2.5-vl-32b", "internvl3-8b"]


if __name__ == "__main__":
    CHECKSUMS.write_text("\n".join(all_checksums()) + "\n", encoding="utf-8")
