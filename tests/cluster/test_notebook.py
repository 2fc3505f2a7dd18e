"""Runs as a notebook sees them: typed rows, things that show themselves, and nothing of a model taken for markup."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import raycade
from cluster.errors import UserError
from cluster.notebook import EpisodeOfRun, NotebookRun, html
from cluster.notebook.frames import OF_EPISODE, as_frame, episodes_table, turns_table
from cluster.storage.stored_run import Run
from evals.figures import Figure
from evals.stats.intervals import Estimate
from evals.tables import Table
from evals.view import EpisodeView, StepView
from tests.cluster.conftest import ROOT
from tests.golden import check_golden
from tests.small_runs import small_run
from tests.viewer_runs import calm_rows, hostile_rows, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "calm", *calm_rows())
    write_run(folder / "wild", *hostile_rows())
    return folder


@pytest.mark.slow
def test_rows_keep_their_types_and_turns_name_their_episodes(folder):
    pytest.importorskip("pandas")
    run = raycade.run(folder / "wild")
    stored = Run(folder / "wild").data.episodes(("episode_id", "steps", "success", "turns")).to_pylist()
    frame = run.episodes(("episode_id", "steps", "success"))
    assert frame["steps"].isna().any(), "of failed games"
    assert [each.pyarrow_dtype for each in frame.dtypes] == [pa.string(), pa.int32(), pa.bool_()]
    assert frame["steps"].dropna().tolist() == [row["steps"] for row in stored if row["steps"] is not None]
    turns = run.turns(("action", "reply"), frame="arrow")
    told = [(row["episode_id"], row["turn"], row["action"], row["reply"]) for row in turns.to_pylist()]
    numbered = [(row["episode_id"], number, turn) for row in stored for number, turn in enumerate(row["turns"])]
    assert told == [(episode, number, turn["action"], turn["reply"]) for episode, number, turn in numbered]
    assert turns.schema.field("turn").type == pa.int32() and "prompt" not in turns.schema.names
    assert len(run.turns((), "arrow")) == len(told)
    assert "prompt" in run.turns(frame="arrow").schema.names


def test_whole_numbers_keep_their_digits_where_some_are_missing():
    pytest.importorskip("pandas")
    column = as_frame(pa.table({"seed": pa.array([None, 2**60 + 1], pa.int64())}), "pandas")["seed"]
    # a float is equal to a whole number that it cannot tell from others
    assert column.isna().tolist() == [True, False] and int(column.iloc[1]) == 2**60 + 1


def test_each_turn_is_a_row_that_names_its_episode():
    run = small_run("toy", ("model", "oracle"), failed=2, missing=1)
    stored = run.episodes((*OF_EPISODE, "turns")).to_pylist()
    assert {len(row["turns"]) for row in stored} == {0, 3, 6}, "failed games have none"
    told = [
        {**{name: row[name] for name in OF_EPISODE}, "turn": number, **turn}
        for row in stored
        for number, turn in enumerate(row["turns"])
    ]
    assert turns_table(run, None).to_pylist() == told
    few = turns_table(run, ["reply", "action"])
    assert few.column_names == [*OF_EPISODE, "turn", "reply", "action"] and few["reply"].to_pylist() == [
        row["reply"] for row in told
    ]
    assert turns_table(run, []).column_names == [*OF_EPISODE, "turn"] and len(turns_table(run, [])) == len(told)
    assert episodes_table(run, ["steps", "player"]).column_names == ["steps", "player"]


def test_runs_of_a_folder_are_a_sequence_the_latest_first(folder):
    for name, began in (("calm", "2026-01-02T00:00:00+00:00"), ("wild", "2026-01-01T00:00:00+00:00")):
        (folder / name / "versions.json").write_text(f'[{{"id": "s", "began": "{began}"}}]')
    runs = raycade.runs(folder)
    assert [run.path.name for run in runs] == ["calm", "wild"] and len(runs) == 2
    assert runs[-1].path.name == "wild" and [run.path.name for run in runs[:1]] == ["calm"]
    assert repr(runs).endswith(": calm, wild") and "wild" in runs._repr_html_()
    for name in ("calm", "wild"):
        (folder / name / "versions.json").unlink()


def test_what_cannot_be_had_is_named(folder, tmp_path, monkeypatch):
    run = raycade.run(folder / "calm")
    with pytest.raises(ValueError, match="turns have no column replies; docs"):
        run.turns(["replies"])
    with pytest.raises(ValueError, match="episodes have no column step;"):
        run.episodes(["suite", "step"])
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="polars is not installed here"):
        run.episodes(frame="polars")
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(from_arrow=lambda table: ["polars", table.num_rows]))
    assert run.episodes(frame="polars") == ["polars", run.episodes(frame="arrow").num_rows]
    with pytest.raises(ValueError, match="frame='csv': is one of pandas, polars, arrow"):
        run.episodes(frame="csv")
    with pytest.raises(UserError, match="no run here"):
        raycade.run(tmp_path)
    with pytest.raises(UserError, match="no runs here"):
        raycade.runs(tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        raycade.walk  # noqa: B018


def test_what_shows_itself_is_on_record(monkeypatch):
    for module, name in (("evals.report.draw", "draw"), ("evals.viewer.episode", "png_of")):
        drawn = SimpleNamespace(
            **{name: lambda *drawn: " as ".join(getattr(each, "name", each) for each in drawn).encode()}
        )
        monkeypatch.setitem(sys.modules, module, drawn)

    def render(description):
        if "gone" in description:
            raise ValueError("no such <picture>")
        return None, description.upper()

    monkeypatch.setattr(html, "render_description", render)
    parts = [
        {"picture": None, "text": "a < b"},
        {"picture": "first"},
        {"picture": None, "text": None},
        {"picture": "gone"},
    ]
    shown = ({"role": "system", "parts": parts[:2]}, {"role": "user", "parts": parts[2:]})
    steps = [
        StepView(shown, "<b>\x1b[2J", "not shown", None, "none"),
        StepView((), "", "", "<go>", "tag", best="<stay>"),
    ]
    rows = [["a", 1.5, True, None, Estimate(0.5, 0.25, 0.75, 8)]] * 61
    table = Table(
        "one", "T <1>", ("a & b", "n", "yes", "none", "share"), tuple(map(tuple, rows)), ("Note <2>",), headline=True
    )
    tables = [table, dataclasses.replace(table, name="two", rows=table.rows[:1], headline=False)]
    tables.append(dataclasses.replace(table, name="three", rows=table.rows[:60], notes=()))
    said = [html.escaped("<" + "é" * count) for count in (0, 1999, 2000, 3234)] + [html.escaped("a&b", 2)]
    for status, success, count in (("done", True, 2), ("done", False, 20), ("failed", None, 21), ("done", None, 0)):
        row = {"player": "p<", "suite": "s", "task": "t", "level": "l", "mode": "m", "index": 7, "repeat": 9}
        view = EpisodeView(tuple((steps * 11)[:count]))
        episode = EpisodeOfRun({**row, "status": status, "success": success}, view)
        pictures = [each.description for each in episode.pictures]
        said.append(f"{pictures[:5]} {len(pictures)}\n{episode._repr_html_()}")
    figure = Figure("plot", "Title <3>", "lines", ())
    monkeypatch.setattr(
        sys.modules["cluster.notebook.runs"], "score_run", lambda stored: SimpleNamespace(tables=tables)
    )
    run = NotebookRun(SimpleNamespace(path=Path("runs/one"), config={"suite": 1}))
    said += [repr(run), repr(run.config), *run.tables, run._repr_html_(), repr(run.tables["two"])]
    said.append(html.ShownFigure(figure)._repr_html_())
    repeated = re.compile(r"(<tr>.*?</tr>|<li>.*?</li>|<li>.*?</li><li>.*?</li>|é)(\1+)")
    short = [repeated.sub(lambda found: f"{found[1]} x {len(found[0]) // len(found[1])}", each) for each in said]
    check_golden("cluster_notebook", "\n\n".join(short))


@pytest.mark.slow
def test_what_a_model_wrote_is_text(folder):
    run = raycade.run(folder / "wild")
    for episode_id in run.episodes(("episode_id",), frame="arrow")["episode_id"].to_pylist():
        html = run.episode(episode_id)._repr_html_()
        assert not re.search(r"<(script|img src=x|b>bold|a )", html) and not set("\x1b\u202e\u2066\x00") & set(html)
        assert len(re.sub('base64,[^"]*', "", html)) < 200_000, "a reply of a megabyte is cut"
    for table in run.tables.values():
        assert "<script" not in table._repr_html_()


def test_importing_raycade_imports_no_notebook():
    code = "import raycade, sys; sys.exit(any(name in sys.modules for name in ('cluster', 'pyarrow', 'evals')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow
def test_the_notebook_of_the_documentation_runs(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed here")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed here")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed here")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "stored without outputs"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = [{*output["data"]} for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    assert sum("image/png" in each for each in kinds) >= 2 and sum("text/html" in each for each in kinds) >= 4
    nbformat.write(notebook, tmp_path / "executed.ipynb")
