"""`raycade plan`: what a run would do and how long it may take."""

import json

import pytest

from cluster.commands.plan import describe_plan
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.observe.performance import TIMINGS

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
    return [row[1] for row in tables[1].rows]


def past_run(folder, *sessions):
    (folder / TIMINGS).write_text("".join(json.dumps(session) + "\n" for session in sessions))
    return folder


def test_every_cell_has_its_episodes_and_the_models_calls():
    made = settings("baselines=[random]")
    cells, whole = describe_plan(made, None)
    assert cells.columns[:6] == ("player", "suite", "task", "level", "mode", "episodes")
    assert len(cells.columns) == len(cells.rows[0]) == 8
    by_cell = {(row[0], row[2]): row for row in cells.rows}
    assert len(by_cell) == len(cells.rows) == 4
    for (player, task), row in by_cell.items():
        episodes = [each for each in made.plan if (each.player, each.task) == (player, task)]
        modelled = episodes if player == "simulated" else []
        assert row[1:5] == ("kumo", task, episodes[0].level, episodes[0].mode)
        assert row[5] == len(episodes) > 0
        assert row[6] == round(sum(each.calls for each in modelled))
        assert row[7] == round(sum(each.prompt_tokens for each in modelled))
    ours = [row for row in cells.rows if row[0] == "simulated"]
    assert all(row[6] > 0 and row[7] > row[6] for row in ours)
    asked = [each for each in made.plan if each.player == "simulated"]
    calls, tokens = sum(each.calls for each in asked), sum(each.prompt_tokens for each in asked)
    most = round(calls) * made.model.sampling.max_tokens
    assert total([cells, whole]) == [len(made.plan), 12, round(calls), round(tokens), most]
    assert [table.name for table in (cells, whole)] == ["plan", "plan_total"]
    assert "kumo" in cells.title and "simulated" in cells.title and str(made.run_dir) in whole.notes[0]
    assert whole.columns == ("metric", "value")
    assert whole.rows[0][0] == "episodes"


def test_a_built_in_player_makes_no_model_calls():
    made = load_settings([*SMALL, "model=random"])
    cells, whole = describe_plan(made, None)
    assert all(row[6:] == (0, 0) for row in cells.rows)
    assert total([cells, whole]) == [12, 0, 0, 0, 0]


@pytest.mark.parametrize(("replicas", "counted"), [("1", 1), ("4", 4), ("fit", 1)])
def test_the_time_follows_the_speed_of_a_past_run(tmp_path, replicas, counted):
    made = settings(f"cluster.replicas={replicas}")
    like = past_run(
        tmp_path,
        {"playing_seconds": 40.0, "replicas": 2, "turns": 8},
        {"playing_seconds": 20.0, "replicas": 1, "turns": 2},
    )
    whole = describe_plan(made, like)[1]
    calls = whole.rows[2][1]
    assert len(whole.rows) == 6
    label, minutes = whole.rows[5]
    assert minutes == f"{calls / (0.1 * counted) / 60:.1f}"
    assert f" {counted} " in label and f" {0.1 * counted:.1f} " in label and str(tmp_path) in label


def test_a_past_run_that_played_nothing_tells_no_speed(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        describe_plan(settings(), tmp_path)
    with pytest.raises(UserError, match=TIMINGS):
        describe_plan(settings(), past_run(tmp_path, {"playing_seconds": 0.0, "replicas": 2, "turns": 0}))
