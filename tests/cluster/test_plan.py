"""`raycade plan`: what a run would do and how long it may take."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
import yaml

from cluster.commands.plan import describe_plan
from cluster.config.plan import label_suites, make_suite
from cluster.config.settings import load_settings
from cluster.errors import CONTINUE, RUN_FAILED, ResumableError, RunFailedError, UserError
from cluster.models.memory import fit_on
from cluster.models.table import gpus
from cluster.models.table import rows as models
from cluster.observe.performance import TIMINGS
from cluster.observe.run_status import _money
from cluster.suite_commands.kumo import stages, transcripts
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import ledger_columns
from evals.summary.cost import money, planned_cost

SMALL = [
    "suite=kumo",
    "suite.domains=[medical,music]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=3",
    "suite.repeats=2",
]


def settings(*overrides: str):
    return load_settings([*SMALL, "model=simulated", *overrides])


def total(tables) -> list:
    return [row[1] for row in tables[0].rows]


def past_run(folder, *sessions):
    (folder / TIMINGS).write_text("".join(json.dumps(session) + "\n" for session in sessions))
    return folder


def test_every_cell_has_its_episodes_and_the_models_calls():
    made = settings("baselines=[random]")
    whole, cells = describe_plan(made, None)
    assert cells.columns[:6] == ("player", "suite", "task", "level", "mode", "episodes")
    assert len(cells.columns) == len(cells.rows[0]) == 8
    by_cell = {(row[0], row[2]): row for row in cells.rows}
    assert len(by_cell) == len(cells.rows) == 4
    for (player, task), row in by_cell.items():
        episodes = [each for each in made.plan if (each.player, each.task) == (player, task)]
        modeled = episodes if player == "simulated" else []
        assert row[1:5] == ("kumo", task, episodes[0].level, episodes[0].mode)
        assert row[5] == len(episodes) > 0
        assert row[6] == round(sum(each.calls for each in modeled))
        assert row[7] == round(sum(each.prompt_tokens for each in modeled))
    ours = [row for row in cells.rows if row[0] == "simulated"]
    assert all(row[6] > 0 and row[7] > row[6] for row in ours)
    asked = [each for each in made.plan if each.player == "simulated"]
    calls, tokens = sum(each.calls for each in asked), sum(each.prompt_tokens for each in asked)
    most = round(calls * made.model.sampling.max_tokens)
    assert total([whole, cells]) == [len(made.plan), 12, round(calls), round(tokens), most]
    assert [table.name for table in (whole, cells)] == ["plan_total", "plan"]
    assert "kumo" in whole.title and "simulated" in whole.title and str(made.run_dir) in whole.notes[0]
    assert whole.columns == ("metric", "value")
    assert whole.rows[0][0] == "episodes"


@pytest.mark.slow
def test_hardware_says_what_fits_before_anything_loads():
    made = load_settings([*SMALL, "model=llama_3_1_70b", "model.sampling.max_tokens=100"])
    total, _, hardware, cache = describe_plan(made, None)
    assert cache.name == "prefix_cache" and "blocks of 16 tokens" in cache.title
    rows = {row[0].partition(",")[0]: row for row in hardware.rows}
    assert set(rows) == set(gpus()) and hardware.name == "hardware"
    for name, row in rows.items():
        fit = fit_on(models()["llama_3_1_70b"], gpus()[name], 32768, 4)
        assert row[1:4] == (4, fit.sequences, 2)
    counts = dict(total.rows)
    prompts, replies = counts["expected prompt tokens"], counts["completion tokens, full-length replies"]
    # At least the operations of all tokens, two for each parameter.
    assert float(rows["h100"][4]) >= 0.99 * 2 * 70.6e9 * prompts / 989e12 / 3600
    assert float(rows["a100"][4]) > float(rows["h100"][4]) and replies > 0
    assert "131.5 GiB in bf16" in hardware.notes[0] and "320 KiB a token" in hardware.notes[0]
    steps, (crowded,) = hardware.notes[3], [note for note in hardware.notes if "max_num_seqs=64 does not fit" in note]
    assert "Tokens of a step: 8,192" in steps and "l40s" in crowded and "h200" not in crowded
    assert [table.name for table in describe_plan(settings(), None)] == ["plan_total", "plan"]


@pytest.mark.slow
def test_pictures_count_as_the_model_counts_them():
    game = ["suite=kidgym", "suite.tasks=[CL]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes=1"]
    (square,) = load_settings([*game, "model=qwen2_5_vl_7b"]).plan  # 21 x 21 cells of 28 pixels
    (tile,) = load_settings([*game, "model=internvl3_8b"]).plan
    assert square.prompt_tokens - tile.prompt_tokens == pytest.approx(square.calls * (441 - 258))
    (unknown,) = load_settings([*game, "model=simulated"]).plan
    assert unknown.prompt_tokens == square.prompt_tokens


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["model=qwen2_5_7b", "model.engine.tensor_parallel_size=4"], "reserve 1"),
        (["model=qwen2_5_7b", "model.engine.tensor_parallel_size=8", "model.replica.gpus=8"], r"28 heads.*1, 2, 4 can"),
        (["model=qwen2_5_7b", "model.engine.vllm={data_parallel_size: 2}"], "cluster.replicas"),
        (["model=qwen2_5_7b", "model.engine.vllm={data_parallel_size_local: 2}"], "cluster.replicas"),
        (["model=qwen2_5_7b", "model.engine.vllm={nnodes: 2}"], "model.replica.nodes"),
        (["model=qwen2_5_7b", "model.engine.vllm={prefill_context_parallel_size: 2}"], "takes 2 GPUs"),
        (["model=tiny", "model.engine.pipeline_parallel_size=2", "model.replica.gpus=1"], "takes 2 GPUs"),
    ],
)
def test_gpus_that_cannot_work_are_refused_when_planning(overrides, named):
    with pytest.raises(UserError, match=named):
        load_settings([*SMALL, *overrides])


@pytest.mark.slow
def test_arguments_of_a_template_that_is_not_here_are_not_planned_without_a_word():
    def notes(*overrides):
        return " ".join(describe_plan(load_settings([*SMALL, *overrides]), None)[0].notes)

    told = notes("model=qwen3_8b", "model.chat_template_kwargs={enable_thinkin: false}")
    assert "enable_thinkin are checked when the engine starts" in told and "has enable_thinking" in told
    assert "chat template" not in notes("model=qwen3_8b") + notes("model=tiny")


@pytest.mark.slow
def test_gpus_that_nothing_uses_are_told():
    made = load_settings([*SMALL, "model=qwen2_5_7b", "model.replica.gpus=4"])
    assert any("reserves 4 GPUs and uses 1" in note for note in describe_plan(made, None)[0].notes)
    made = load_settings([*SMALL, "model=qwen2_5_7b"])
    assert not any("Warning" in note for note in describe_plan(made, None)[0].notes)


def test_label_questions_have_replies_of_one_token():
    made = load_settings(
        ["suite=multistar", "suite.configurations=center_single", "suite.puzzles=1", "model=qwen2_5_vl_7b"]
    )
    rows = dict(describe_plan(made, None)[0].rows)
    assert rows["completion tokens, full-length replies"] == rows["expected model calls"] > 0


def test_a_built_in_player_makes_no_model_calls():
    made = load_settings([*SMALL, "model=random"])
    whole, cells = describe_plan(made, None)
    assert all(row[6:] == (0, 0) for row in cells.rows)
    assert total([whole, cells]) == [12, 0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "counted"), [("1", 1), ("4", 4), ("fit", 1)])
def test_the_time_follows_the_speed_of_a_past_run(tmp_path, replicas, counted):
    made = settings(f"cluster.replicas={replicas}")
    like = past_run(
        tmp_path,
        {"playing_seconds": 40.0, "replicas": 2, "turns": 8},
        {"playing_seconds": 20.0, "replicas": 1, "turns": 2},
    )
    whole = describe_plan(made, like)[0]
    calls = sum(episode.calls for episode in made.plan if episode.player == made.model.name)
    assert len(whole.rows) == 6
    label, minutes = whole.rows[5]
    assert minutes == f"{calls / (0.1 * counted) / 60:.1f}"
    assert f" {counted} " in label and f" {0.1 * counted:.1f} " in label and str(tmp_path) in label


@pytest.mark.slow
def test_a_past_run_that_played_nothing_tells_no_speed(tmp_path):
    made = settings()
    folders = [tmp_path / "imported", *(tmp_path / name for name in ("fast", "slow"))]
    for folder in folders:
        folder.mkdir()
    for folder, seconds in zip(folders[1:], (0.0, 9.0), strict=True):
        past_run(folder, {"playing_seconds": seconds, "replicas": 2, "turns": 0})
    plain = describe_plan(made, None)[0]
    for folder in folders:
        whole = describe_plan(made, folder)[0]
        assert whole.rows == plain.rows, "what else it measures is told all the same"
        assert [note for note in whole.notes if f"--like {folder}: no model was called" in note and TIMINGS in note]


PRICED = ["model=openai", "model.engine.model=m", "model.engine.prompt_price=2", "model.engine.completion_price=10"]


def test_labels_that_are_only_scored_cost_one_token_each(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    labels = [
        "suite=multistar",
        "suite.puzzles=1",
        "model=openai",
        "model.engine.model=m",
        "model.engine.completion_price=10",
    ]
    made = load_settings([*labels, "baselines=[]", "model.sampling.max_tokens=16000"])
    rows = dict(describe_plan(made, None)[0].rows)
    tokens = rows["completion tokens, full-length replies"]
    assert tokens == rows["expected model calls"] > 0
    assert rows["cost, full-length replies"] == money(tokens * 10 / 1e6)
    nothing_played = records_to_table([], ledger_columns(made.suite))
    run = RunData.of_tables(plan_to_table(made.plan), nothing_played, yaml.safe_load(made.config))
    assert money(planned_cost(run, {"multistar"})) == rows["cost, full-length replies"]
    status = _money(SimpleNamespace(data=run, config=run.settings))
    assert status == f"cost: scored {money(0)}, planned {rows['cost, full-length replies']}"
    elsewhere = {**run.settings, "suite": {"type": "not_installed_here"}}
    assert _money(SimpleNamespace(data=run, config=elsewhere)).endswith(money(tokens * 16_000 * 10 / 1e6))


def test_a_program_may_be_shown_any_number_of_pictures():
    settings = load_settings(["suite=kidgym", "suite.modes=[icl]", "model=agent", "model.name=a", "baselines=[]"])
    assert settings.suite.needs.pictures > 1
    assert settings.model.capabilities.label_scores


def test_of_several_suites_in_one_some_may_be_answered_in_words():
    labels = make_suite({"type": "multistar", "puzzles": 1, "reply": "labels"})
    assert label_suites(labels) == {"multistar"}
    suites = [{"type": "multistar", "puzzles": 1, "reply": "labels"}, {"type": "kumo"}]
    both = make_suite({"type": "bundle", "name": "both", "suites": suites})
    assert both.needs.label_scores and label_suites(both) == {"multistar"}
    assert not label_suites(make_suite({"type": "kumo"}))


def test_of_several_suites_in_one_only_those_of_labels_cost_one_token_a_call(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    made = load_settings(["suite=demo", *PRICED, "baselines=[]", "model.sampling.max_tokens=1000"])
    calls = {
        name: sum(each.calls for each in made.plan if each.suite == name) for name in ("multistar", "kumo", "kidgym")
    }
    most = calls["multistar"] + 1000 * (calls["kumo"] + calls["kidgym"])
    rows = dict(describe_plan(made, None)[0].rows)
    assert rows["completion tokens, full-length replies"] == round(most)
    prompts = sum(each.prompt_tokens for each in made.plan)
    cost = money((prompts * 2 + most * 10) / 1e6)
    assert rows["cost, full-length replies"] == cost
    run = RunData.of_tables(plan_to_table(made.plan), pa.table({}), yaml.safe_load(made.config))
    assert money(planned_cost(run, label_suites(made.suite))) == cost, "as report and status tell it"


def test_a_price_of_gpus_that_no_sum_could_tell_is_refused():
    with pytest.raises(UserError, match=r"cluster\.gpu_hour_price=1e\+308: must be"):
        load_settings([*SMALL, "model=simulated", "cluster.gpu_hour_price=1e308"])


def test_prices_say_what_a_run_may_cost(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    made = load_settings([*SMALL, *PRICED, "model.sampling.max_tokens=100"])
    like = past_run(tmp_path, {"playing_seconds": 1.0, "replicas": 1, "turns": 4, "completion_tokens": 80})
    rows = dict(describe_plan(made, like)[0].rows)
    modeled = [episode for episode in made.plan if episode.player == made.model.name]
    calls, tokens = (sum(getattr(each, name) for each in modeled) for name in ("calls", "prompt_tokens"))
    assert calls != round(calls), "costs are of what is expected, not of whole calls"
    assert rows["cost of the prompts"] == money(tokens * 2 / 1e6)
    assert rows["cost, full-length replies"] == money((tokens * 2 + calls * 100 * 10) / 1e6)
    run = RunData.of_tables(plan_to_table(made.plan), pa.table({}), yaml.safe_load(made.config))
    assert rows["cost, full-length replies"] == money(planned_cost(run)), "as report and status tell it"
    (expected,) = [value for name, value in rows.items() if name.startswith("cost at the 20 tokens a reply")]
    assert expected == money((tokens * 2 + calls * 20 * 10) / 1e6)
    unknown = past_run(tmp_path, {"playing_seconds": 1.0, "replicas": 1, "turns": 0, "completion_tokens": 0})
    assert len(describe_plan(made, unknown)[0].rows) == len(rows) - 2, "neither time nor length of replies"
    assert not any("cost" in name for name in dict(describe_plan(settings(), None)[0].rows))


@pytest.mark.parametrize("free", ["prompt_price", "completion_price"])
def test_one_price_alone_is_a_price(free, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    rows = dict(describe_plan(load_settings([*SMALL, *PRICED, f"model.engine.{free}=0"]), None)[0].rows)
    assert (float(rows["cost of the prompts"]) > 0) == (free == "completion_price")
    assert float(rows["cost, full-length replies"]) > 0


def test_gpus_cost_what_an_hour_of_them_does(tmp_path):
    like = past_run(tmp_path, {"playing_seconds": 36000.0, "replicas": 1, "turns": 1, "completion_tokens": 0})
    gpus = ("cluster.gpu_hour_price=2.5", "model.replica.gpus=4", "cluster.replicas=2", "model.replica.nodes=3")
    made = settings(*gpus)
    rows = dict(describe_plan(made, like)[0].rows)
    calls = sum(episode.calls for episode in made.plan if episode.player == made.model.name)
    assert float(rows["cost of GPUs"]) == pytest.approx(calls * 10 * 4 * 3 * 2.5, abs=0.01)


def test_a_pipeline_s_rounds_revise_and_check_what_is_expected_to_be_refused(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(stages._Pipeline, "show_estimates", lambda self, estimates: found.extend(estimates))
    asked = ["model=simulated", "decoding=free", "suite.proposals=4", "suite.tasks_per_domain=2", "suite.rounds=3"]
    assert stages.run_command("make", tmp_path / "new", asked, estimate=True) == 0
    books = 4 * 2  # of which each round revises and checks half again
    assert {each.stage: each.items for each in found if each.stage != "propose"} == {
        "configure": 4,
        "write": books,
        "check": books * 1.75,
        "revise": books * 0.75,
    }


def test_a_pipeline_s_stage_that_ended_early_is_played_on_before_it_is_saved(monkeypatch):
    pipeline = object.__new__(stages._Pipeline)
    pipeline.play, pipeline._overrides = None, lambda stage, number: []
    pipeline.folder = SimpleNamespace(run=lambda stage, number: SimpleNamespace(complete=False))
    monkeypatch.setattr(stages, "load_settings", lambda overrides: None)
    monkeypatch.setattr(stages, "run", lambda settings, play: (0, None))
    monkeypatch.setattr(stages, "save_accepted", lambda folder, suite: pytest.fail("saved"))
    assert pipeline._play(SimpleNamespace(stage="write", round=1)) == CONTINUE


@pytest.mark.parametrize(("error", "code"), [(ResumableError("x"), CONTINUE), (RunFailedError("x"), RUN_FAILED)])
def test_a_pipeline_ends_with_the_code_of_what_ended_its_run(tmp_path, error, code):
    def play(*arguments):
        raise error

    asked = ["model=simulated", "decoding=free", "suite.proposals=1"]
    assert stages.run_command("propose", tmp_path / "new", asked, estimate=False, play=play) == code


def test_published_replies_that_cannot_be_played_on_are_no_bad_input(tmp_path, monkeypatch):
    def play(settings):
        raise RunFailedError("the disk is full")

    monkeypatch.setattr(transcripts, "transcript_players", lambda checkout: {"m": "M"})
    monkeypatch.setattr(transcripts, "benchmark_domains", lambda source: [])
    monkeypatch.setattr(transcripts, "load_settings", lambda overrides: SimpleNamespace(plan=[]))
    monkeypatch.setattr(transcripts, "play", play)
    options = SimpleNamespace(checkout=tmp_path, source=tmp_path, models=[], run_dir=tmp_path, processes=1)
    monkeypatch.setattr(transcripts, "_overrides", lambda *given: [])
    with pytest.raises(RunFailedError, match="the disk is full; run the same command again"):
        transcripts.import_transcripts(options)
