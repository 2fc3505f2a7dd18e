"""`raycade site`: what it writes where, and what it leaves alone."""

import json

import pytest

from tests.cluster.test_cli import run_here
from tests.cluster.test_merge import play as play  # a fixture


@pytest.mark.slow
async def test_runs_become_a_folder_of_pages_and_a_later_site_replaces_an_earlier_one(play, tmp_path, capsys):
    runs = [await play("one", most=10), await play("two", "baselines=[random]")]
    (tmp_path / "shards").mkdir()
    out = tmp_path / "new" / "site"
    folders = [*runs, tmp_path / "shards"]  # as runs/* names them
    code, shown, err = run_here(capsys, "site", *map(str, folders), "--out", str(out), "--title", "Ours")
    assert code == 0 and "index.html" in shown
    assert err.startswith("warning: ") and "shards: left out: no run here" in err and err.count("\n") == 1
    files = {path.name for path in out.iterdir()}
    named = ["simulated (one)", "simulated (two)"]
    index = (out / "index.html").read_text()
    assert all(name in index for name in named) and "Ours" in index and "partial" in index
    assert len(files) == 7 and {"suite-kumo.html", "site.json"} <= files
    assert {*json.loads((out / "site.json").read_text())["files"]} == files - {"site.json"}
    (out / "notes.txt").write_text("mine")
    assert run_here(capsys, "site", str(runs[1]), "--out", str(out))[0] == 0
    left = {path.name for path in out.iterdir()}
    assert "player-simulated.html" in left and "notes.txt" in left and len(left) == 6
    assert not (runs[0] / "summary.json").exists(), "runs are only read"


async def test_a_folder_that_holds_something_else_is_left_alone(play, tmp_path, capsys):
    run, out = await play("run", most=2), tmp_path / "mine"
    out.mkdir()
    (out / "index.html").write_text("mine")
    code, _, err = run_here(capsys, "site", str(run), "--out", str(out))
    assert code == 2 and "neither empty nor an earlier site" in err and (out / "index.html").read_text() == "mine"
    other = tmp_path / "other.html"
    other.write_text("mine")
    (out / "site.json").write_text(json.dumps({"files": ["../other.html", str(other), "notes.txt", 3]}))
    (out / "notes.txt").write_text("mine")
    assert run_here(capsys, "site", str(run), "--out", str(out))[0] == 0
    assert other.exists() and (out / "notes.txt").exists(), "only pages of the folder itself are replaced"


@pytest.mark.slow
async def test_two_folders_of_one_name_are_told_apart_and_a_run_named_twice_counts_once(play, tmp_path, capsys):
    runs = [await play("a/run", most=4), await play("b/run", most=6)]
    code, _, _ = run_here(capsys, "site", *map(str, [*runs, runs[0]]), "--out", str(tmp_path / "site"))
    index = (tmp_path / "site" / "index.html").read_text()
    assert code == 0 and all(f'<th scope="row">{run}</th>' in index for run in runs)
    assert run_here(capsys, "site", str(tmp_path / "none"), str(runs[0]), "--out", str(tmp_path / "site"))[0] == 2
