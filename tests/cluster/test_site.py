"""`raycade site`: what it writes where, and what it leaves alone."""

import contextlib
import json
from pathlib import Path

import pytest

from cluster.commands import site
from cluster.errors import UserError
from evals.ledger.records import records_to_table
from evals.players import OraclePlayer
from evals.suite import ledger_columns, plan_for
from tests.cluster.test_cli import run_here
from tests.cluster.test_merge import play as play  # a fixture
from tests.runs import records_of
from tests.toy import ToySuite
from tests.viewer_runs import write_run


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


class Pages:
    """A site whose pages say of which runs they are."""

    def __init__(self):
        self.added = []

    def read(self, name, data, suite, planned, labels):
        return name, {f"player-{name.replace('/', '-')}.html": f"{labels}, {len(data.episodes())} of {len(planned)}"}

    def add(self, part):
        self.added.append(part)

    def pages(self, games):
        return [("index.html", " ".join(games))]


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two runs of one name, one of another, and a folder of runs."""
    suite = ToySuite(episodes=4)
    plan = plan_for(suite, {"oracle": ""})
    rows = records_to_table(records_of(suite, {"oracle": OraclePlayer()}), ledger_columns(suite))
    for name, most in (("a/run", 1), ("b/run", 2), ("other", 3)):
        write_run(tmp_path / name, plan, rows[:most])
    monkeypatch.setattr(site, "make_suite", lambda config: suite)
    monkeypatch.setattr(site, "outline_of", lambda name, planned, config, suite: f"outline of {name}")
    monkeypatch.setattr(site, "player_labels", lambda outlines: {each[11:]: each for each in outlines})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_are_read_one_by_one_each_once_under_a_name_of_its_own(folders, capsys):
    pages, out = Pages(), folders / "site"
    runs = [Path("a/run"), Path("b/run"), Path("b"), Path("other"), folders / "a/run"]
    assert site.write_site(runs, out, pages) == 4
    assert pages.added == [str(folders / "a/run"), "b/run", "other"], "named twice, it counts once"
    assert "b: left out: no run here" in " ".join(capsys.readouterr().err.split())
    names = [f"player-{each.replace('/', '-')}.html" for each in pages.added]
    assert json.loads((out / "site.json").read_text()) == {"files": [*names, "index.html"]}
    assert (out / "index.html").read_text() == " ".join(names)
    assert (out / names[1]).read_text() == "outline of b/run, 2 of 4"
    (out / "notes.html").write_text("mine")
    assert site.write_site([Path("other")], out, Pages()) == 2
    assert {path.name for path in out.iterdir()} == {names[2], "index.html", "site.json", "notes.html"}
    assert (out / names[2]).read_text() == "outline of other, 3 of 4"


def test_two_sites_are_not_written_to_one_folder_at_once(folders, monkeypatch):
    out = folders / "site"
    real = site.write_durably

    def written_within(path, content):
        with pytest.raises(UserError, match="another command writes there"):
            site.write_site([Path("other")], out, Pages())
        real(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(site, "write_durably", written_within)
        site.write_site([Path("a/run")], out, Pages())
    assert {path.name for path in out.iterdir()} == {"player-run.html", "index.html", "site.json"}
    site.write_site([Path("other")], out, Pages())
    assert {path.name for path in out.iterdir()} == {"player-other.html", "index.html", "site.json"}


def test_a_site_that_was_killed_at_any_file_is_written_whole_by_the_same_command(folders, monkeypatch):
    real, left = site.write_durably, 0

    def killed(path, content):
        nonlocal left
        if left == 0:
            path.with_name(f".{path.name}.0123abcd.tmp").touch()
            raise KeyboardInterrupt
        left -= 1
        real(path, content)

    def written(out, *runs):
        site.write_site([Path(run) for run in runs], out, Pages())
        return {path.name: path.read_text() for path in out.iterdir()}

    both, one = written(folders / "both", "a/run", "other"), written(folders / "one", "other")
    for writes in range(20):
        out = folders / f"killed {writes}"
        with monkeypatch.context() as patched:
            patched.setattr(site, "write_durably", killed)
            left = writes
            try:
                written(out, "a/run", "other")
                break
            except KeyboardInterrupt:
                pass
        assert written(out, "a/run", "other") == both
        with monkeypatch.context() as patched:
            patched.setattr(site, "write_durably", killed)
            left = writes
            with contextlib.suppress(KeyboardInterrupt):
                written(out, "other")
        assert written(out, "other") == one, "pages of a run that is not asked for any more are removed"
    assert writes > 3


def test_a_run_that_is_not_there_is_an_error_and_nothing_is_written(folders):
    for runs in (["none", "other"], ["b"], ["a", "b"]):
        with pytest.raises(UserError, match="no run here"):
            site.write_site([Path(each) for each in runs], folders / "site", Pages())
    assert not (folders / "site").exists()
