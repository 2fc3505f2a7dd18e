"""Result tables as JSON, CSV, Markdown and on a terminal: every cell lands under its column, and nothing is made up."""

import csv
import io
import json
import math

import pytest

from evals.report.latex import latex
from evals.report.page import table_parts
from evals.stats.intervals import NO_ESTIMATE, Estimate
from evals.tables import NO_INTERVAL, Table, format_cell, tables_to_json

SHARE = Estimate(0.5, 0.25, 0.75, 8)
UNKNOWN_SPREAD = Estimate(0.5, math.nan, math.nan, 1)
TABLE = Table(
    name="toy_success",
    title="Toy, success",
    columns=("player", "count", "success"),
    rows=(("Zoë|x\ny", 3, SHARE), ("b", None, 0.125), ("c", math.inf, UNKNOWN_SPREAD)),
    notes=("First.", "Second."),
    section="diagnostics",
    headline=True,
)
PLAIN = Table("plain", "Plain", ("a", "b"), ((1, True), (2, False)))


def test_json_has_every_part_of_a_table_and_no_number_that_json_lacks():
    assert TABLE.to_json() == {
        "name": "toy_success",
        "title": "Toy, success",
        "columns": ["player", "count", "success"],
        "rows": [
            ["Zoë|x\ny", 3, {"mean": 0.5, "low": 0.25, "high": 0.75, "n": 8}],
            ["b", None, 0.125],
            ["c", None, {"mean": 0.5, "low": None, "high": None, "n": 1}],
        ],
        "notes": ["First.", "Second."],
        "section": "diagnostics",
        "headline": True,
    }
    plain = PLAIN.to_json()
    assert (plain["notes"], plain["section"], plain["headline"]) == ([], "scores", False)
    assert plain["rows"] == [[1, True], [2, False]]


def test_all_tables_make_one_document_of_readable_text():
    text = tables_to_json([TABLE, PLAIN])
    assert json.loads(text) == [TABLE.to_json(), PLAIN.to_json()]
    assert "Zoë" in text and text.endswith("]\n") and text.startswith('[\n  {\n    "name"')


def test_in_csv_an_estimate_takes_three_columns_in_every_row():
    assert list(csv.reader(io.StringIO(TABLE.to_csv()))) == [
        ["player", "count", "success", "success low", "success high"],
        ["Zoë|x\ny", "3", "0.5", "0.25", "0.75"],
        ["b", "", "0.125", "", ""],
        ["c", "", "0.5", "", ""],
    ]
    assert PLAIN.to_csv() == "a,b\n1,True\n2,False\n"


def test_markdown_keeps_every_cell_in_its_column():
    assert TABLE.to_markdown().split("\n") == [
        "## Toy, success",
        "",
        "| player | count | success |",
        "| --- | --- | --- |",
        r"| Zoë\|x y | 3 | 0.500 [0.250, 0.750] |",
        "| b | – | 0.125 |",
        "| c | inf | 0.500 [–] |",
        "",
        "- First.",
        "- Second.",
        f"- {NO_INTERVAL}",
        "",
    ]
    assert PLAIN.to_markdown().endswith("| 2 | False |\n"), "no notes, no blank lines"


def test_markdown_shows_names_errors_and_tags_literally():
    tag = "<script>alert(1)</script>"
    written = Table(
        "t", tag, (tag, "b"), ((tag, "*x* `y` [a](b) _z_ zero_shot \\|"),), (f"Of {tag} & `raycade`.",)
    ).to_markdown()
    assert "<" not in written and written.count("&lt;script&gt;") == 4
    assert r"| \*x\* \`y\` [a\](b) \_z\_ zero_shot \\\| |" in written
    assert "&amp; `raycade`" in written


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        *((None, "–"), (math.nan, "–"), (NO_ESTIMATE, "–"), (Estimate(0.5, 0.1, 0.9, 0), "–")),
        *((SHARE, "0.500 [0.250, 0.750]"), (UNKNOWN_SPREAD, "0.500 [–]")),
        *((0.12345, "0.123"), (9.9987, "10.0"), (-9.5, "-9.50"), (10.0, "10.0"), (-12.34, "-12.3")),
        *(
            (999.94, "1,000"),
            (0.01234, "0.0123"),
            (0.00004, "4e-05"),
            (1000.0, "1,000"),
            (-1234567.8, "-1,234,568"),
            (0.0, "0.00"),
            (math.inf, "inf"),
        ),
        *(
            (3, "3"),
            (12345, "12,345"),
            (True, "True"),
            ("any | text", "any | text"),
            ("", ""),
            ("\x1b[2J\u202e", "\\x1b[2J\\u202e"),
        ),
    ],
)
def test_numbers_are_shown_to_three_significant_digits_and_a_dash_stands_for_nothing(cell, shown):
    assert format_cell(cell) == shown


@pytest.mark.parametrize("row", [(1,), (1, 2, 3)])
def test_a_row_that_does_not_fit_its_columns_is_refused(row):
    with pytest.raises(ValueError, match="mine"):
        Table("mine", "Mine", ("a", "b"), ((1, 2), row))


def test_a_table_with_an_estimate_without_interval_says_why():
    table = Table("t", "T", ("player", "x"), (("a", UNKNOWN_SPREAD),), ("First.",))
    assert table.all_notes == ("First.", NO_INTERVAL)
    assert TABLE.all_notes[:-1] == TABLE.notes and PLAIN.all_notes == PLAIN.notes
    for text in (table.to_markdown(), latex(table), str(table_parts(table)["notes"])):
        assert "fewer than five" in text


def test_a_column_with_any_number_is_one_of_numbers():
    rows = (("a", None, 1, "x"), ("b", 0.5, None, None), ("c", None, 2, "y"))
    parts = table_parts(Table("t", "T", ("player", "p", "q", "why"), rows))
    assert [column["number"] for column in parts["columns"]] == [False, True, True, False]
    assert [[cell["number"] for cell in row] for row in parts["rows"]] == [[False, True, True, False]] * 3


def test_a_column_without_any_result_is_said_once_instead_of_shown_as_dashes():
    rows = (("a", NO_ESTIMATE, SHARE), ("b", NO_ESTIMATE, SHARE))
    assert Table("t", "T", ("player", "memory", "success"), rows).shared() == {1: "–"}


def test_texts_in_files_command_neither_a_terminal_nor_a_spreadsheet():
    evil = "\x1b[2J\u202e\x9b"
    table = Table("a", f"t{evil}", (f"c{evil}", "b"), ((f"=1+1{evil}", -1.5), ("@x", "plain")), (f"n{evil}",))
    assert not any(mark in table.to_csv() + table.to_markdown() for mark in evil if mark in "\x1b\u202e\x9b")
    assert [row[0][:2] for row in csv.reader(io.StringIO(table.to_csv()))] == ["c\\", "'=", "'@"]
    assert "-1.5" in table.to_csv().splitlines()[1]
