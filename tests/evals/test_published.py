"""A run beside the papers: the right row, a difference with the doubt of both sides, what differs in the conditions."""

import io
import itertools
import random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from rich.console import Console

import evals.suites.kidgym.effects as kidgym_effects
import evals.suites.kidgym.published as kidgym
import evals.suites.kumo.effects as kumo_effects
import evals.suites.kumo.published as kumo
import evals.suites.multistar.effects as multistar_effects
import evals.suites.multistar.published as multistar
from evals.ledger.run_data import RunData
from evals.reference import Conditions, Figure, published
from evals.reference.comparison import RunCell, difference
from evals.reference.comparison import published_tables as every_table
from evals.report.terminal import LaidOut
from evals.stats.intervals import proportion_estimate, wilson_estimate
from evals.suites.kidgym.published_environment.recording import SUFFIX
from evals.suites.kidgym.score import CAPABILITIES, capability_score
from evals.summary.paired import file_stem

HERE = Conditions(games="drawn from seeds", prompts="own", decoder="the authors'", temperature="0.7")


def published_tables(*given):
    """The tables of single cells, without the short form."""
    return [table for table in every_table(*given) if not table.name.endswith("_beside_paper")]


def cell(player="qwen2_5_vl_7b", task="CL", level="1", mode="zero_shot", share=0.4, n=50, **more):
    values = [float(place < share * n) for place in range(n)]
    return RunCell(player, "success", {"mode": mode, "task": task, "level": level, **more}, values, range(n))


def shown(table, width=80):
    out = io.StringIO()
    Console(width=width, file=out).print(LaidOut(table))
    return out.getvalue()


# --- the difference --------------------------------------------------------------------------------------------------


def test_a_difference_holds_the_doubt_of_both_where_n_is_known():
    ours = cell(share=0.8, n=70)
    known = difference(ours, Figure("T", "r", "success", {}, 48 / 80, n=80, games=80))
    assert known.mean == pytest.approx(0.2)
    assert (known.low, known.high) == pytest.approx((0.0524, 0.3339), abs=1e-4), "Newcombe (1998), method 10"
    unknown = difference(ours, Figure("T", "r", "success", {}, 48 / 80))
    alone = proportion_estimate([True] * 56 + [False] * 14)
    assert (unknown.low, unknown.high) == pytest.approx((alone.low - 0.6, alone.high - 0.6))


def test_a_published_mean_of_no_known_spread_adds_no_doubt():
    ours = RunCell("m", "tokens", {}, [100.0, 120.0, 110.0, 90.0, 130.0], range(5))
    found, alone = difference(ours, Figure("T", "r", "tokens", {}, 90.0, n=1250, games=250)), ours.estimate
    assert (found.low, found.high) == pytest.approx((alone.low - 90, alone.high - 90))


def test_published_repeats_count_as_much_as_ours_agree():
    figure = Figure("T", "r", "success", {}, 0.5, n=1250, games=250)

    def width(values, games):
        found = difference(RunCell("m", "success", {}, values, games), figure)
        ours = proportion_estimate([bool(value) for value in values], games)
        return (found.high - found.mean) ** 2 - (ours.high - ours.mean) ** 2

    def wilson(games):
        return (0.5 - wilson_estimate(0.5, games).low) ** 2

    games = [game for game in range(40) for _ in range(5)]
    alike = [float(game % 2) for game in games]
    assert width(alike, games) == pytest.approx(wilson(250)), "all runs of a game agree: games count"
    mixed = [float(place % 2) for place in range(200)]
    assert width(mixed, games) == pytest.approx(wilson(1250)), "they do not: runs count"
    assert width([1.0, 0.0] * 20, range(40)) == pytest.approx(wilson(250)), "no repeats: not known, so games count"


# --- which row -------------------------------------------------------------------------------------------------------


def test_a_model_of_the_paper_stands_beside_its_row():
    cells = [cell(level=level, mode=mode) for mode in ("zero_shot", "cot") for level in "12"]
    (table,) = published_tables("kidgym", "KidGym", cells, HERE)
    assert (table.name, table.columns) == (
        "kidgym_published_qwen2_5_vl_7b",
        ("mode", "level", "this run", "paper", "difference"),
    )
    assert [row[:4] for row in table.rows] == [
        ("zero_shot", "1", 0.4, 0.23),
        ("zero_shot", "2", 0.4, 0.07),
        ("cot", "1", 0.4, 0.31),
        ("cot", "2", 0.4, 0.09),
    ]
    assert "QwenVL-2.5 (7B)" in table.title and "CL" in table.title
    notes = "\n".join(table.notes)
    assert "Table 2, Table 7" in notes and "both" in notes


def test_conditions_that_differ_are_named_and_so_are_those_not_on_record():
    (table,) = published_tables("kidgym", "KidGym", [cell()], HERE)
    differing, unknown = table.notes[-2:]
    assert "prompts own" in differing and "temperature 0.7 (paper: 0)" in differing and "decoder" not in differing
    assert "pictures" in unknown and "weights" in unknown and "prompts" not in unknown


def test_recorded_temperature_and_weights_are_on_record_and_baselines_have_none():
    model = {"sampling": {"temperature": 0.7}, "engine": {"type": "vllm", "dtype": "bfloat16"}}
    settings = {"model": model, "baselines": ["first_option"]}
    (table,) = published_tables("kidgym", "KidGym", [cell()], Conditions(prompts="own"), settings)
    notes = "\n".join(table.notes)
    assert "temperature 0.7 (paper: 0)" in notes and "weights bfloat16" in notes
    unknown = [note for note in table.notes if note.startswith("Not on record")]
    assert all("temperature" not in note and "weights" not in note for note in unknown)
    assert published_tables("kidgym", "KidGym", [cell("first_option")], HERE, settings) == [], (
        "how large it is, no one asks"
    )
    alone = {"model": {"name": "first_option", "engine": None}}
    assert published_tables("kidgym", "KidGym", [cell("first_option")], HERE, alone) == [], "model=first_option"
    assert published_tables("kidgym", "KidGym", [cell("mine")], HERE, {"model": {"name": "mine"}}), "of another harness"


def test_the_short_form_sums_up_all_cells_beside_the_paper():
    cells = [cell(level=level, mode=mode) for mode in ("zero_shot", "cot") for level in "12"]
    short, whole = every_table("kidgym", "KidGym", cells, HERE)
    assert short.headline and short.name == "kidgym_beside_paper"
    ((player, row, measure, count, ours, theirs, difference, apart),) = short.rows
    assert apart == sum(row[-1].low > 0 or row[-1].high < 0 for row in whole.rows) == 3
    assert (player, row, measure, count) == ("qwen2_5_vl_7b", "QwenVL-2.5 (7B)", "success", 4)
    assert ours == pytest.approx(0.4) and theirs == pytest.approx((0.23 + 0.07 + 0.31 + 0.09) / 4)
    assert difference == pytest.approx(ours - theirs)


def test_cells_without_a_published_figure_are_left_out():
    cells = [cell("qwen2_5_vl_32b"), cell("qwen2_5_vl_32b", mode="cot"), cell("qwen2_5_vl_32b", n=0)]
    (table,) = published_tables("kidgym", "KidGym", cells, HERE)
    assert len(table.rows) == 1, "the paper has no chain of thought of this model"
    assert published_tables("kidgym", "KidGym", cells[1:2], HERE) == []
    assert published_tables("kidgym", "KidGym", [cell(task="mine")], HERE) == []
    assert published_tables("kidgym", "KidGym", [cell("qwen2_5_vl_3b", task="mine")], HERE) == []


def test_corrected_figures_stand_in_the_table_and_are_told():
    cells = [cell("random", task="SO"), cell("random", task="CL")]
    (table,) = published_tables("kidgym", "KidGym", cells, HERE)
    assert [row[2] for row in table.rows] == [0.5, 0.24]
    assert any(note.startswith("1 printed") and "older order" in note for note in table.notes)
    assert not any("of both" in note for note in table.notes), "chance has no sampling error"


def test_people_stand_beside_people_as_counted():
    (table,) = published_tables("kidgym", "KidGym", [cell("human", task="MMA", level="3", share=1)], HERE)
    assert table.rows[0][1] == 0.93
    assert table.rows[0][-1].high > 0.1, "42 of 45 leave doubt"


def test_another_model_stands_beside_its_neighbors_in_size_and_the_best():
    cells = [cell("qwen2_5_vl_3b", level=level) for level in "12"]
    (table,) = published_tables("kidgym", "KidGym", cells, HERE)
    assert table.columns == ("level", "this run", "nearest", "next", "best")
    assert table.rows[0][2:] == (0.23, 0.23, 0.99) and table.rows[1][2:] == (0.07, 0.05, 1.0)
    assert table.rows[0][1] == cells[0].estimate
    assert "nearest: QwenVL-2.5 (7B); next: InternVL-3 (8B); best: Gemini-2.5 Pro" in table.notes[0]


def test_the_best_may_be_a_neighbor():
    run = kumo.run_cells(run for run in kumo_runs(player="mine-671b") if run.difficulty == "easy")
    (table,) = published_tables("kumo", "KUMO", run, HERE)
    assert table.columns == ("measure", "this run", "nearest", "next")
    assert table.rows[0][2:] == (0.8928, 0.8712)


def test_a_model_of_unknown_size_stands_beside_the_best_alone():
    (table,) = published_tables("kidgym", "KidGym", [cell("mine", task="CO")], HERE)
    assert table.columns == ("this run", "best") and table.rows[0][1] == 0.72
    assert "best: Gemini-2.5 Pro" in table.notes[0] and "nearest:" not in table.notes[0]


def test_the_best_has_a_figure_in_every_cell():
    cells = [*(cell("mine", level=level) for level in "123"), cell("mine", mode="cot", task="PU")]
    (table,) = published_tables("kidgym", "KidGym", cells, HERE)
    assert "best: o3" in table.notes[0], "Gemini-2.5 Pro does better, but has no chain of thought in the paper"


def test_neighbors_are_models_with_figures_of_these_cells():
    (table,) = published_tables("kidgym", "KidGym", [cell("mine-35b", mode="cot", level="1")], HERE)
    assert "nearest: QwenVL-2.5 (72B)" in table.notes[0], "32B and 38B have no chain of thought in the paper"


# --- the suites' cells -----------------------------------------------------------------------------------------------


def kidgym_run(players=("qwen2_5_vl_7b",), tasks=("CL", "MFI", "FI"), seed=0, games=12):
    chance = random.Random(seed)
    rows = [
        {"suite": "kidgym", "player": player, "mode": mode, "task": task, "level": level, "index": index, "repeat": 0}
        | {"status": "done", "success": chance.random() < 0.4 + 0.4 * (mode == "cot")}
        for player, mode, task, level, index in itertools.product(
            players, ("zero_shot", "cot", "icl"), tasks, "123", range(games)
        )
    ]
    rows[0] |= {"status": "failed", "success": None}
    ledger = pa.Table.from_pylist(rows)
    return RunData.of_tables(ledger, ledger).of("kidgym")


def test_kidgym_cells_count_failed_episodes_as_no_success():
    cells = kidgym.run_cells(kidgym_run())
    assert len(cells) == 27 and all(len(cell.values) == 12 for cell in cells)
    assert cells[0].values[0] == 0.0 and set(cells[0].games) == set(range(12))
    assert len(published_tables("kidgym", "KidGym", cells, HERE)[0].rows) == 27


def test_games_of_the_published_environment_are_kept_apart_from_our_own():
    rows = [
        {"suite": "kidgym", "player": "p", "mode": "cot", "task": task, "level": "1", "index": index, "repeat": 0}
        | {"episode_id": f"{task}{index}", "status": "done", "success": success}
        for index, (task, success) in enumerate(
            [("CL", True), (f"CL{SUFFIX}", False), ("CL", True), (f"CL{SUFFIX}", False), (f"SE{SUFFIX}", True)]
        )
    ]
    ledger = pa.Table.from_pylist(rows)
    run = RunData.of_tables(ledger, ledger).of("kidgym")
    own, theirs = kidgym.run_cells(run), kidgym.run_cells(run, suffix=SUFFIX)
    assert [(cell.cell["task"], list(cell.values)) for cell in own] == [("CL", [1.0, 1.0])]
    assert [(cell.cell["task"], list(cell.values)) for cell in theirs] == [("CL", [0.0, 0.0]), ("SE", [1.0])]
    (effect,) = kidgym_effects.environment_tables(run)
    row = dict(zip(effect.columns, effect.rows[0], strict=True))
    assert (float(row["own"]), float(row["published"])) == (1.0, 0.0)


def test_other_resolutions_stand_beside_table_3_only():
    run = kidgym_run(tasks=("CO", "CL"))
    (table,) = published_tables("kidgym", "KidGym", kidgym.run_cells(run, resolution=96), HERE)
    assert len(table.rows) == 1 and "Table 3" in table.notes[0] and "96" in table.title


def test_capabilities_recomputed_from_table_2_are_those_printed_but_for_the_known_slips():
    table = kidgym.capability_table(capability_score, tuple(CAPABILITIES))
    assert len(table.rows) == 75
    off = {
        (model, capability)
        for model, capability, printed, found in table.rows
        if found is not None and abs(found.mean - printed) > 0.51
    }
    slips = {
        (figure.row, figure.cell["capability"])
        for figure in published("kidgym").table("Table 6")
        if figure.correction and figure.row != "Average"
    }
    assert off <= slips and off >= {(model, capability) for model, capability in slips if model != "Human"}
    known = {row[:2]: row[3] for row in table.rows}
    assert known["GPT-5", "learning"].mean == pytest.approx(83.95)
    assert 80 < known["GPT-5", "learning"].low < 83.95 < known["GPT-5", "learning"].high < 87
    assert known["Average", "memory"] is None
    assert any("GPT-5" in note for note in table.notes)
    few = kidgym.capability_table(capability_score, tuple(CAPABILITIES), ["internvl3_8b", "random", "mine"])
    assert list(dict.fromkeys(row[0] for row in few.rows)) == ["InternVL-3(8B)", "Human"]
    assert not any("GPT-5" in note for note in few.notes)


def kumo_runs(domains=2, tasks=4, repeats=3, player="qwen2_5_7b"):
    return [
        SimpleNamespace(
            player=player,
            difficulty=level,
            domain=f"d{domain}",
            task=(f"d{domain}", level, index),
            status="done" if index or repeat else "failed",
            success=index > 1,
            published_relative_actions=None if index == 2 else 0.5,
            published_actions=4,
            parse_failed=index == 1,
            tokens=1000,
        )
        for domain, level, index, repeat in itertools.product(
            range(domains), ("easy", "hard"), range(tasks), range(repeats)
        )
    ]


def test_kumo_cells_are_in_the_published_convention():
    runs = kumo_runs()
    cells = {(cell.measure, cell.cell["level"]): cell for cell in kumo.run_cells(runs)}
    assert cells["success", "easy"].estimate.mean == 0.5 and len(cells["success", "easy"].values) == 24
    assert len(cells["relative actions", "easy"].values) == 18, "without an optimum there is no ratio"
    assert len(cells["actions if successful", "easy"].values) == 12
    assert cells["parse errors", "hard"].estimate.mean == 0.25
    assert len(set(cells["tokens", "hard"].games)) == 8
    (table,) = published_tables("kumo", "KUMO", list(cells.values()), HERE)
    assert ("easy", "success", 0.5, 0.3664) in [row[:4] for row in table.rows] and len(table.rows) == 10
    assert "pictures" not in " ".join(table.notes), "there are none"
    unplayed = [SimpleNamespace(**vars(runs[0]) | {"status": ""})]
    assert kumo.run_cells(unplayed) == []


def test_a_wide_kumo_run_stands_beside_the_hundred_domains():
    (table,) = published_tables("kumo", "KUMO", kumo.run_cells(kumo_runs(domains=6)), HERE)
    assert table.rows[0][:3] == ("success", 0.5, 0.3467) and len(table.rows) == 5, "easy only"


def answers(player="Qwen/Qwen2-VL-72B-Instruct", puzzles=6, styles=("vanilla", "structured"), failed=0):
    stages = {"1P": "panel_1", "2P": "panels_1_2", "1R": "row_1", "final": "final"}
    return [
        SimpleNamespace(
            player=player,
            style=style,
            prior=prior,
            stage=stage,
            node=node,
            attribute="puzzle" if stage == "final" else "number",
            parents=() if stage == "1P" or prior == "none" else ("panel_1",),
            cluster=("Center", puzzle),
            failed=puzzle < failed,
            counts=True,
            right=(puzzle + (prior == "truth")) % 2 == 1,
            score=SimpleNamespace(
                value=2.0 + (prior == "model"), share=(2.0 + (prior == "model")) / 4, parents_weight=0.4
            ),
        )
        for style, prior, (stage, node), puzzle in itertools.product(
            styles, ("none", "model", "truth"), stages.items(), range(puzzles)
        )
    ]


def test_multistar_cells_hold_accuracy_mseval_and_weights():
    tables = published_tables("multistar", "MultiStAR", multistar.run_cells(answers(), "chain"), HERE)
    by_name = {table.name.removesuffix(f"_{file_stem('Qwen/Qwen2-VL-72B-Instruct')}"): table for table in tables}
    assert set(by_name) == {"multistar_published_" + name for name in ("accuracy", "mseval", "ncmi")}
    accuracy = {row[:3]: row[3:5] for row in by_name["multistar_published_accuracy"].rows}
    assert accuracy["vanilla", "none", "final"] == (0.5, 0.643)
    assert accuracy["vanilla", "truth", "1R"] == (0.5, 0.707)
    assert accuracy["structured", "model", "2P"] == (0.5, 0.677)
    assert ("structured", "none", "2P") not in accuracy
    mseval = {row[:3]: row[3:5] for row in by_name["multistar_published_mseval"].rows}
    assert mseval["vanilla", "model", "final"] == (3.0, 3.31)
    weights = {
        row[:2]: tuple(round(value, 9) for value in row[2:4]) for row in by_name["multistar_published_ncmi"].rows
    }
    assert weights == {
        ("number", "2P"): (0.4, 0.4),
        ("number", "1R"): (0.4, 0.54),
        ("puzzle", "final"): (0.4, 0.42),
    }


def test_measures_share_a_table_where_few_dimensions_vary():
    alone = [SimpleNamespace(**vars(answer) | {"parents": ()}) for answer in answers(player="mine")]
    both = published_tables("multistar", "MultiStAR", multistar.run_cells(alone, "chain"), HERE)
    assert [table.columns[:3] for table in both] == [("style", "prior", "stage")] * 2
    assert all("best: Qwen2-VL-72B" in table.notes[0] for table in both)
    vanilla = [answer for answer in alone if answer.style == "vanilla"]
    (one,) = published_tables("multistar", "MultiStAR", multistar.run_cells(vanilla, "chain"), HERE)
    assert one.columns[:3] == ("prior", "stage", "measure")


def test_unscored_answers_have_accuracy_only():
    bare = [SimpleNamespace(**vars(answer) | {"score": None}) for answer in answers(styles=("vanilla",))]
    assert {cell.measure for cell in multistar.run_cells(bare, "direct")} == {"accuracy"}


# --- the suites' effects ---------------------------------------------------------------------------------------------


def test_kidgym_effects_pair_modes_and_compare_tasks():
    tables = {table.name: table for table in kidgym_effects.effect_tables(kidgym_run())}
    assert set(tables) == {f"kidgym_{name}_effect_qwen2_5_vl_7b" for name in ("cot", "icl", "mfi")}
    cot = tables["kidgym_cot_effect_qwen2_5_vl_7b"]
    assert cot.columns == ("task", "level", "CoT", "zero-shot", "difference", "p", "Holm p") and len(cot.rows) == 9
    assert sum(row[4].mean for row in cot.rows) / 9 == pytest.approx(0.5, abs=0.15)
    assert {row[4].n for row in cot.rows} == {12} and cot.notes[-1] == "A failed episode counts as no success."
    mfi = tables["kidgym_mfi_effect_qwen2_5_vl_7b"]
    assert mfi.columns[:4] == ("mode", "level", "MFI", "FI") and len(mfi.rows) == 9


def kumo_run(seed):
    chance = random.Random(seed)
    rows = [
        {"suite": "kumo", "player": "m", "mode": "zero_shot", "task": domain, "level": level, "index": index}
        | {"repeat": repeat, "status": "done", "success": chance.random() < (0.9 if level == "easy" else 0.3)}
        for domain, level, index, repeat in itertools.product(("a", "b"), ("easy", "hard"), range(20), range(3))
    ]
    return RunData.of_tables(pa.table({"suite": ["kumo"]}), pa.Table.from_pylist(rows)).of("kumo")


def test_kumo_effects_of_difficulty():
    (table,) = kumo_effects.effect_tables(kumo_run(1))
    assert table.columns[:3] == ("domain", "hard", "easy") and [row[0] for row in table.rows] == ["a", "b"]
    assert all(row[3].mean < -0.3 and row[4] < 0.01 for row in table.rows) and "40 games" in table.notes[0]


def test_multistar_effects_of_priors_and_styles():
    tables = {table.name: table for table in multistar_effects.effect_tables(answers(player="m", failed=1))}
    names = [f"multistar_{name}_{measure}_effect_m" for measure in ("accuracy", "mseval_of_perfect") for name in NAMES]
    assert list(tables) == names
    prior = tables["multistar_with_prior_mseval_of_perfect_effect_m"]
    assert {row[1] for row in prior.rows} == {"2P", "1R", "final"}, "one panel is told nothing"
    assert all(row[4].mean == 0.25 and row[2:4] == (0.75, 0.5) for row in prior.rows) and len(prior.rows) == 6
    assert "5 games" in prior.notes[0], "failed questions are left out"
    truth = tables["multistar_true_prior_accuracy_effect_m"]
    assert truth.columns[2:4] == ("truth", "model") and all(row[4].mean == -0.2 for row in truth.rows)
    style = tables["multistar_structured_accuracy_effect_m"]
    assert {row[0] for row in style.rows} == {"none", "model", "truth"} and len(style.rows) == 12


NAMES = ("with_prior", "true_prior", "structured")
