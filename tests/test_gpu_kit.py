"""The GPU kit's bookkeeping, without a GPU."""

import contextlib
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from benchmarks.bare_vllm import Bare, _named, distinct_prefixes
from benchmarks.gpu import __main__ as kit_main
from benchmarks.gpu import answers, stages
from benchmarks.gpu.answers import CHATS, LABELS
from benchmarks.gpu.device import Watch
from benchmarks.gpu.models import SIZES
from benchmarks.gpu.plays import BASES, DRY, FULL, end_in_time, model_overrides
from benchmarks.gpu.stages import FULL_SIZE, STAGES, Kit, full_size
from cluster.config.settings import load_settings
from tests.cluster.conftest import ROOT


def kit(folder: Path) -> Kit:
    return Kit("vision_tiny", "vision_tiny", "text_tiny", DRY, folder, dry=True, timeout=1)


def test_each_stage_is_written_as_soon_as_it_is_done_and_a_failed_one_stops_no_other(tmp_path, monkeypatch):
    out, written = tmp_path / "gpu.json", []

    def first(kit, found):
        return {"figure": 1}

    def second(kit, found):
        written.append(json.loads(out.read_text()))
        raise RuntimeError("no memory left")

    def third(kit, found):
        written.append(json.loads(out.read_text()))
        return {"before": sorted(found)}

    monkeypatch.setattr(kit_main, "STAGES", {each.__name__: each for each in (first, second, third)})
    found = kit_main.run_stages(kit(tmp_path), ["first", "second", "third"], out, minutes=1)
    assert [list(each) for each in written] == [["first"], ["first", "second"]]
    assert found["second"]["error"] == "RuntimeError: no memory left" and found["third"]["before"] == [
        "first",
        "second",
    ]
    assert json.loads(out.read_text()) == found and all(each["stage_seconds"] >= 0 for each in found.values())
    late = kit_main.run_stages(kit(tmp_path), ["first", "third"], out, minutes=-1)
    assert all("skipped" in each for each in late.values()) and list(late) == ["first", "third"]


def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kit_main, "describe", lambda: {"gpus": []})
    assert kit_main.main(["--out", str(tmp_path / "gpu.json")]) == 2
    assert "no NVIDIA GPU" in capsys.readouterr().err and not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        kit_main.main(["--stages", "everything"])
    assert "all_suites" in capsys.readouterr().err


def test_a_gpu_waits_while_it_has_no_work_and_the_start_up_does_not_count():
    watch = Watch([(float(second), 90 if second < 10 else 0, 1) for second in range(20)])
    watch.samples += [(20.0 + second, (80, 0, 100, 40)[second], 1) for second in range(4)] + [(24.0, 0, 1)]
    found = watch.while_playing(3.5)
    assert found["gpu_utilization"] == pytest.approx((80 + 0 + 100 + 40) / 400)
    assert found["gpu_waiting_share"] == 0.25
    assert found["gpu_utilization_over_time"] == [[0.0, 80], [1.0, 0], [2.0, 100], [3.0, 40]]
    assert Watch().while_playing(5)["gpu_utilization"] is None


def test_figures_are_shown_at_eighty_columns():
    figures = {
        "bare_vllm": {"calls": 3},
        "seconds_per_turn": [0.5, 0.25, 2.0],
        "gpus": [],
        "error": "x" * 99,
        "lost": 0,
    }
    shown = [("bare vllm: calls", 3), ("seconds per turn", "0.25 to 2"), ("gpus", "0 entries"), ("error", "x" * 40)]
    assert list(kit_main.rows(figures)) == [*shown, ("lost", 0)]


def test_full_size_is_that_of_the_papers():
    hours = full_size(kit(Path()), {"all_suites": {"seconds_per_episode": dict.fromkeys(FULL_SIZE, 3.6)}})
    assert hours["hours_on_one_gpu"] == pytest.approx({"kidgym": 10.8, "multistar": 0.14, "kumo": 25.0})
    assert hours["hours_on_one_gpu_in_all"] == pytest.approx(35.94)
    assert hours["hours_on_eight_gpus_in_all"] == pytest.approx(35.94 / 7.6)


def test_every_distinct_prefix_counts_once():
    assert distinct_prefixes([[1, 2, 3], [1, 2, 4], [1, 2], [5]]) == 5
    assert distinct_prefixes([[1, 2], [1, 2]]) == 2
    assert distinct_prefixes([]) == 0


def test_pictures_of_one_size_are_different_prefixes():
    assert _named([7, 9, 9, 8, 9], 9, [-1, -2]) == [7, -1, -1, 8, -2]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_every_size_is_planned_in_every_slice(size, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.gpu.plays.model_folder", lambda name: tmp_path / name)
    slices = FULL if size in BASES else DRY
    suites = ["kumo"] if size.startswith("text") else ["kidgym", "multistar", "kumo"]
    settings = load_settings([*model_overrides(size, 8), *slices.suites(*suites), f"run_dir={tmp_path}"])
    assert {episode.suite for episode in settings.plan} == set(suites)
    assert settings.model.sampling.extra == {"min_tokens": 8} and settings.model.sampling.max_tokens == 8
    assert settings.model.engine["vllm"] == {"load_format": "dummy"}


RIGHT = {
    "labels_compared": CHATS * len(LABELS),
    "largest_difference_to_full_softmax": 1e-5,
    "choices_among_options": CHATS,
    "replies_of_the_schema": CHATS,
    "equal_with_the_same_seed": True,
    "different_with_another_seed": True,
    "equal_with_the_same_seed_in_a_batch": False,
}


@pytest.mark.parametrize("name", [name for name in RIGHT if name != "equal_with_the_same_seed_in_a_batch"])
def test_each_wrong_answer_is_named_and_right_ones_are_not(name):
    assert answers.wrong(RIGHT) == []
    bad = 0.1 if name.startswith("largest") else False if RIGHT[name] is True else RIGHT[name] - 1
    assert len(answers.wrong({**RIGHT, name: bad})) == 1


def test_replies_of_the_schema_are_told_from_others():
    assert answers.fits_schema('{"move": "left", "steps": 3}')
    for text in ("", "[]", '{"move": "up", "steps": 3}', '{"move": "left", "steps": 10}', '{"move": "left"}'):
        assert not answers.fits_schema(text)


@pytest.mark.parametrize(("dry", "runners", "error"), [
    (False, {"V1": {"wrong": []}, "V2": {"wrong": []}}, None),
    (False, {"V1": {"wrong": []}, "V2": {"wrong": ["the same seed gave another text"]}}, "V2: the same seed"),
    (False, {"V1": {"wrong": []}, "V2": {"not_started": "no kernel"}}, "V2: no kernel"),
    (True, {"V1": {"wrong": []}, "V2": {"not_started": "requires Triton"}}, None),
    (True, {"V1": {"not_started": "no room"}, "V2": {"not_started": "requires Triton"}}, "V1: no room; V2"),
])  # fmt: skip
def test_a_model_runner_with_wrong_answers_fails_the_stage(tmp_path, monkeypatch, dry, runners, error):
    monkeypatch.setattr(stages, "under", lambda name, result, timeout: runners[name])
    found = stages.answers(dataclasses.replace(kit(tmp_path), dry=dry), {})
    assert (error is None) == ("error" not in found) and (error or "") in found.get("error", "")


@pytest.mark.slow
def test_a_command_that_hangs_is_killed_with_its_children_and_its_output_is_kept(tmp_path):
    child = "import time; time.sleep(600)"
    script = (
        f"import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    log = tmp_path / "hangs.log"
    assert end_in_time([sys.executable, "-c", script], log, 5.0) is None
    number = int(log.read_text())
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(number).wait(30)  # it was killed, and takes a moment to be gone
    assert end_in_time([sys.executable, "-c", "raise SystemExit(3)"], log, 60.0) == 3


def test_answers_take_no_more_than_their_share_of_the_time(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(stages, "under", lambda name, result, timeout: given.append(timeout) or {"wrong": []})
    stages.answers(dataclasses.replace(kit(tmp_path), dry=False, timeout=480), {})
    stages.answers(dataclasses.replace(kit(tmp_path), dry=True, timeout=480), {})
    assert given == [stages.ANSWERS_SECONDS] * 2 + [480] * 2


def test_the_speed_of_a_run_is_written_before_bare_vllm_starts_and_divided_by_its_speed(tmp_path, monkeypatch):
    order = list(STAGES)
    bare = Bare(calls=10, seconds=2.0, prompt_tokens=9, cached_tokens=4, completion_tokens=5, least_prompt_tokens=3,
                step_tokens=8192)  # fmt: skip
    asked = []
    monkeypatch.setattr(stages, "ask_bare_vllm", lambda run_dir: asked.append(run_dir) or bare)
    for stage in ("all_suites", "label_sweep", "text_model"):
        assert order.index(stage) < order.index(f"{stage}_bare")
        found = STAGES[f"{stage}_bare"](kit(tmp_path), {stage: {"requests_per_second": 4.0}})
        assert found["ratio_to_bare_vllm"] == 0.8 and found["calls"] == 10
    assert [path.name for path in asked] == ["all_suites", "label_sweep", "text_model"]


def test_playing_time_is_divided_by_the_time_of_requests_and_by_episodes(monkeypatch):
    def row(suite, *seconds):
        return {"suite": suite, "turns": [{"seconds": each} for each in seconds]}

    rows = [row("kidgym", 1.0, 2.0), row("kidgym", 3.0), row("multistar", 2.0), row("kumo", 1.0, 1.0)]
    monkeypatch.setattr(stages.Run, "episodes", lambda run, columns: pa.Table.from_pylist(rows))
    found = stages._seconds_per_episode(Path(), 20.0)
    assert found == pytest.approx({"kidgym": 6.0, "multistar": 4.0, "kumo": 4.0})


@pytest.mark.vllm
@pytest.mark.ray
@pytest.mark.timeout(3600)  # five minutes alone, but many times as long beside others
def test_the_dry_run_measures_an_engine_and_a_whole_run_beside_bare_vllm(tmp_path):
    out = tmp_path / "gpu.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "--dry",
        "--stages",
        "machine,answers,engine,text_model,text_model_bare",
        "--minutes",
        "60",  # on two cores that others use as well, the default begins the last stage no more
        "--out",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(out.read_text())
    assert done.returncode == 0, found
    runner = found["answers"]["V1"]
    assert runner["wrong"] == [] and runner["same_best_label"] == CHATS and runner["attention_backend"]
    assert found["machine"]["dry"] and found["engine"]["picture_cache_hits"] > 0
    assert found["text_model"]["failed_episodes"] == 0 and found["text_model_bare"]["ratio_to_bare_vllm"] > 0
    assert found["text_model_bare"]["calls"] == found["text_model"]["requests"]
    (kept,) = tmp_path.glob("gpu-*")
    assert {"text_model.log", "answers-V1.log", "engine.log"} <= {path.name for path in kept.iterdir()}
