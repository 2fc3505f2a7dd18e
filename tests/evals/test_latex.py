"""Tables as LaTeX: they compile, best values are bold, and nothing in a cell is a command."""

import re
import shutil
import subprocess
from decimal import Decimal
from typing import Literal

import pytest
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexWalker

from evals.report.build import figure_files
from evals.report.latex import document, latex
from evals.stats.intervals import Estimate
from evals.suite_results import suite_figures, suite_results
from evals.tables import Table, rounded
from tests.small_runs import HOSTILE, SUITES, small_run

PAPER = Table(
    "paper",
    "Layout",
    ("Methods", "L", "CL", "SE", "n"),
    (
        ("a", "1", Decimal("0.50"), Decimal("0.10"), 1),
        ("a", "2", Decimal("0.20"), None, 2),
        ("b", "1", Decimal("0.70"), Decimal("0.10"), 3),
        ("b", "2", Decimal("0.20"), Decimal("0.30"), 4),
        ("oracle", "1", Decimal("1.00"), Decimal("1.00"), 5),
    ),
    better={"CL": "higher", "SE": "lower"},
)


def test_numbers_keep_the_digits_of_the_paper():
    assert (str(rounded(0.5, 2)), str(rounded(73.849, 1)), rounded(None, 1), rounded(float("nan"), 1)) == (
        *("0.50", "73.8"),
        *(None, None),
    )


HOSTILE_TABLE = Table(
    "hostile",
    HOSTILE + r" \input{/etc/passwd}",
    ("player", "漢_字 %", "n"),
    ((r"\write18{x} ^^5c # $ ~ {", HOSTILE, Estimate(0.5, 0.1, 0.9, 3)), ("[x] é –", "\n\n", None)),
)


def test_nothing_in_a_table_is_a_command():
    text = latex(HOSTILE_TABLE)
    assert r"\input" not in text and r"\write" not in text and "\x1b" not in text and "^^" not in text
    assert r"{\textbackslash}input\{" in text and r"{\textbackslash}write18" in text


def all_tables() -> list[Table]:
    tables = [
        table
        for name in ("toy", "kumo", "kidgym", "multistar")
        for section in ("paper", "scores")
        for table in suite_results(SUITES[name], small_run(name), section)
    ]
    return [*tables, HOSTILE_TABLE, PAPER]


@pytest.mark.slow
def test_every_table_is_sound_latex():
    for table in all_tables():
        text = latex(table, {"oracle"})
        nodes, *_ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
        assert any(isinstance(node, LatexEnvironmentNode) for node in nodes) or "longtable" in text
        columns = len(re.sub("[^lr]", "", re.search(r"begin\{(?:tabular|longtable)\}\{([lr]+)\}", text)[1]))
        left_out = len(table.shared()) if "In every row" in text else 0
        [fitting] = re.findall("% columns that do not fit are in the run's tables: (.*)", text) or [""]
        assert columns == len(table.columns) - left_out - len(fitting.split(", ") if fitting else [])
        body = text.partition("\\midrule\n")[2]
        rows = [line for line in body.splitlines() if line.endswith("\\\\") and "&" in line]
        assert len(rows) == len(table.rows)
        assert all(len(re.findall(r"(?<!\\)&", line.replace(r"{\&}", ""))) == columns - 1 for line in rows), text


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_the_document_compiles(tmp_path):
    tables = all_tables()
    for table in tables:
        (tmp_path / f"{table.name}.tex").write_text(latex(table, {"oracle"}))
    (tmp_path / "report.tex").write_text(document(tables, HOSTILE))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]


TWO_COLUMNS = r"""\documentclass[twocolumn]{article}
\usepackage[T1]{fontenc}
\usepackage[margin=2cm]{geometry}
\usepackage{graphicx,booktabs}
\begin{document}
%s\end{document}
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_figures_and_tables_fit_a_page_of_two_columns(tmp_path, monkeypatch):
    monkeypatch.setattr("evals.report.build.Format", Literal["pdf"])  # which is what LaTeX reads
    parts = []
    for name in ("kumo", "kidgym"):
        tables = [table for table in suite_results(SUITES[name], small_run(name), "scores") if table.headline]
        files = {f"{table.name}.tex": latex(table, {"oracle"}).encode() for table in tables if len(table.rows) <= 40}
        parts += [*files, *(f"figure_{figure.name}.tex" for figure in suite_figures(SUITES[name], small_run(name)))]
        files |= figure_files(suite_figures(SUITES[name], small_run(name)))
        for file, content in files.items():
            (tmp_path / file).write_bytes(content)
    (tmp_path / "paper.tex").write_text(TWO_COLUMNS % "".join(f"\\input{{{part}}}\n\\clearpage\n" for part in parts))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    too_wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide", done.stdout)]
    assert max(too_wide, default=0) < 6, done.stdout[-3000:]
