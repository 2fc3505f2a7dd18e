"""`raycade report` with files: HTML, LaTeX and figures of one run or several, whole, partial, failed or empty."""

import json

import pytest

from cluster.config.settings import load_settings
from tests.cluster.conftest import leave
from tests.cluster.test_cli import run_here
from tests.cluster.test_merge import SMALL
from tests.cluster.test_merge import play as play  # a fixture
from tests.report_page import episodes_of, report_of, section_of

FIGURES = ["kumo_domains_map", "kumo_optimal_actions", "kumo_scatter"]


@pytest.mark.slow
async def test_one_run_makes_all_files(play, tmp_path, capsys):
    run_dir, out = await play("run"), tmp_path / "new" / "out"
    files = ["--html", str(out / "page.html"), "--latex", str(out / "tex"), "--figures", str(out / "figures")]
    code, shown, err = run_here(capsys, "report", str(run_dir), *files)
    assert code == 0 and not err and all(f"written: {path}" in shown.replace("\n", "") for path in files[1::2])
    page = report_of(out / "page.html")
    assert page["title"] == "kumo, simulated" and not page["status"]
    assert {episode["row"].get("player") for episode in episodes_of(out / "page.html")} >= {"simulated"}
    files = {f"{name}.{form}" for name in FIGURES for form in ("pdf", "png", "svg")}
    captions = {f"figure_{name}.tex" for name in FIGURES}
    assert {path.name for path in (out / "figures").iterdir()} == files | captions
    written = {path.stem for path in (out / "tex").iterdir()}
    kumo = {f"kumo_{name}" for name in ("domains", "paper", "published", "published_simulated", "success")}
    tables = {"coverage", "reliability", *kumo}
    assert written == {"report", *tables}
    document = (out / "tex" / "report.tex").read_text()
    assert all(f"\\input{{{name}.tex}}" in document for name in written - {"report"})


@pytest.mark.slow
async def test_several_runs_are_joined_and_each_keeps_its_own_results(play, capsys):
    runs = [await play("one", most=10), await play("two", "baselines=[random]")]
    page = runs[0].parent / "page.html"
    code, out, _ = run_here(capsys, "report", *map(str, runs), "--html", str(page))
    assert code == 0 and out.count("Episodes\n") == 1
    assert "simulated (one)" in out and "simulated (two)" in out and "random" in out and "random (" not in out
    assert "one: Partial run: 14 of 24" in out and "two: " not in out
    assert [json.loads((run / "summary.json").read_text())["done"] for run in runs] == [10, 48]
    assert "simulated (one)" not in (runs[0] / "summary.json").read_text()
    report = report_of(page)
    assert report["title"] == "simulated, one; simulated, two"
    titles = [text["title"] for text in section_of(report, "How the runs were made")["texts"]]
    assert titles == ["Configuration of simulated, one", "Configuration of simulated, two"]


@pytest.mark.slow
async def test_runs_of_one_name_are_told_apart_by_their_paths(play, tmp_path, capsys):
    runs = [await play(name, "baselines=[random]") for name in ("a/run", "b/run")]
    code, out, _ = run_here(capsys, "report", *map(str, runs))
    assert code == 0 and "Partial" not in out
    assert "random" in out and "random (" not in out, "a built-in player is the same everywhere"
    assert all(str(run)[-5:] in out.replace("\n", "").replace(" ", "") for run in runs)


@pytest.mark.slow
async def test_partial_and_failed_runs_say_so(play, tmp_path, capsys):
    run_dir = await play("run", failing=["EngineKilled: twice"] * 3, most=3)
    page = tmp_path / "page.html"
    code, out, _ = run_here(capsys, "report", str(run_dir), "--html", str(page))
    assert code == 0 and out.startswith("Partial run: 21 of 24") and "All played episodes failed" in out
    report = report_of(page)
    assert len(report["status"]) == 2
    failed = [one["at"] for one in section_of(report, "Episodes to look at")["episodes"] if one["ending"] == "failed"]
    assert failed and all("EngineKilled: twice" in json.dumps(episodes_of(page)[at]) for at in failed)


@pytest.mark.slow
async def test_what_makes_scores_doubtful_is_said_on_the_page_too(play, tmp_path, capsys):
    run_dir, page = await play("run", cutting=24), tmp_path / "page.html"
    code, _, err = run_here(capsys, "report", str(run_dir), "--html", str(page))
    [warning] = json.loads((run_dir / "summary.json").read_text())["warnings"]
    assert code == 0 and warning in err and warning in report_of(page)["status"]


def test_an_empty_run_says_so(tmp_path, capsys):
    settings = load_settings([*SMALL, "model=simulated", f"run_dir={tmp_path / 'run'}"])
    leave(settings)
    files = ["--html", str(tmp_path / "page.html"), "--latex", str(tmp_path / "tex"), "--figures", str(tmp_path / "f")]
    code, out, err = run_here(capsys, "report", str(settings.run_dir), *files)
    assert code == 0 and out.startswith("Empty run") and not err
    assert report_of(tmp_path / "page.html")["status"][0].startswith("Empty run")


@pytest.mark.slow
async def test_what_cannot_be_written_is_named(play, tmp_path, capsys):
    run_dir = await play("run", most=2)
    file = tmp_path / "file"
    file.write_text("mine")
    for option, place in (("--html", file / "page.html"), ("--latex", file), ("--figures", file)):
        code, _, err = run_here(capsys, "report", str(run_dir), option, str(place))
        assert code == 2 and str(place) in err and file.read_text() == "mine"
