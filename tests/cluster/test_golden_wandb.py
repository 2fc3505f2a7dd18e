"""What is sent to Weights & Biases, with a stand-in for it, as on record in ``tests/golden``."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import psutil

from cluster.observe import wandb_tracker
from cluster.observe.tracker import FinalResults
from cluster.observe.wandb_tracker import WandbTracker
from evals.analysis.samples import SampledTurn
from evals.tables import Table
from tests.said import Said, Thing


def test_what_is_sent(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    monkeypatch.setattr(wandb_tracker, "LONGEST_TEXT", 9)
    pixels = {"flat": np.zeros((2, 3, 3), np.uint8), "tall": np.ones((4, 1, 3), np.uint8)}

    def render(description):
        if description == "broken":
            raise ValueError("it cannot be rendered")
        return None, pixels[description]

    monkeypatch.setattr(wandb_tracker, "render_description", render)
    monkeypatch.setattr(wandb_tracker, "flat_summary", said.calls("flat", {"flat": 1}))
    api = Thing(said, "wandb", Image=lambda found: f"picture {found.shape} {found[:, :, 0].tolist()}")
    monkeypatch.setitem(sys.modules, "wandb", api)
    folder = tmp_path / "a run"
    for name in (
        "episodes/a.parquet",
        "episodes/b.txt",
        "tables/t.csv",
        "config.yaml",
        "report/x/y",
        "report/z",
        "other",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (tmp_path / "empty").mkdir()
    texts = {"suite": "s", "task": "t", "level": "l", "mode": "m", "rule": "exact"}
    turns = [
        SampledTurn(
            **texts,
            episode="e1",
            outcome="won",
            error="",
            turn=0,
            pictures=("flat", "broken", "tall"),
            prompt="p" * 9,
            reasoning="r" * 10,
            reply="\x1b",
            decoded=None,
        ),
        SampledTurn(
            **texts,
            episode="e2",
            outcome="failed",
            error="PlayerError: x" * 99,
            turn=1,
            pictures=("broken",),
            prompt="",
            reasoning="",
            reply="r",
            decoded="d" * 12,
        ),
    ]
    tables = [Table("a", "A", ("player", "score"), (("m", 0.5),)), Table("b", "B", ("n",), ())]
    named = {"entity": "e", "group": "g", "job_type": "j", "notes": "n", "tags": ["t"], "mode": "online", "name": "N"}
    for sweep, run_dir, given in (
        *((False, folder, {}), (True, folder, {**named, "episodes": 0, "artifacts": False})),
        (False, tmp_path / "empty", {"name": "", "episodes": 3}),
    ):
        monkeypatch.setenv("WANDB_SERVICE", "a dead one")
        monkeypatch.setenv("WANDB_SWEEP_ID", "s" * sweep)
        tracker = WandbTracker("p", **given)
        said("---", tracker.finish_seconds, tracker._run_dir)
        tracker.start(run_dir, "the id", {"a": 1})
        said("WANDB_SERVICE" in os.environ)
        tracker.log({"episodes/done": 3, "episodes/failed": 2, "x": 1.5})
        tracker.log({})
        results = FinalResults({"episodes/done": 4}, {"summary": 1}, tables, said.calls("samples", turns))
        tracker.finish(results)
    said(WandbTracker("p", finish_seconds=5.0).finish_seconds)
    gone = psutil.NoSuchProcess(7)

    def child(name):
        def named():
            if name is None:
                raise gone
            return name

        return SimpleNamespace(name=named, kill=said.calls(f"kill {name}"))

    children = [child(name) for name in ("wandb-core", None, "python", "wandb")]
    monkeypatch.setattr(wandb_tracker.psutil, "Process", lambda: SimpleNamespace(children=lambda: children))

    def thread(target, name, daemon):
        said("thread", name, daemon)
        return SimpleNamespace(start=target, join=said.calls("join"))

    monkeypatch.setattr(wandb_tracker.threading, "Thread", thread)
    tracker.abandon()

    def fails():
        raise SystemExit(3)

    api.teardown = fails
    tracker.abandon()
    said.check("wandb")
