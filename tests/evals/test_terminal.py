"""Tables on a terminal of 80 columns: nothing is cut, whatever its width."""

import io
import math
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from rich.console import Console

import evals
from envs.printable import printable
from evals.report.terminal import LaidOut
from evals.stats.intervals import Estimate
from evals.tables import Table, format_cell

SHARE = Estimate(0.183, 0.115, 0.354, 12)


def shown(table: Table, width: int = 80, brief: bool = False) -> str:
    out = io.StringIO()
    Console(width=width, file=out).print(LaidOut(table, brief))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width, text
    return text


def table(columns: int, rows: int, cell=SHARE, **more) -> Table:
    names = ("player", "task", *(f"measure number {n}" for n in range(columns)))
    cells = [Estimate(0.183, 0.115, 0.3 + n / 1000, 12) if cell is SHARE else cell for n in range(columns)]
    return Table("t", "T", names, tuple((f"p{row}", "ab"[row % 2], *cells) for row in range(rows)), **more)


@pytest.mark.parametrize("rows", [1, 2, 5, 30])
@pytest.mark.parametrize("columns", [1, 3, 4, 9, 20])
def test_every_number_of_a_wide_table_is_there_whole_and_once_a_row(columns, rows):
    wide = table(columns, rows)
    text = shown(wide)
    assert "…" not in text
    for number in range(columns):
        assert text.count(format_cell(wide.rows[0][2 + number])) == rows
    assert all(f"p{row}" in text for row in range(rows))


@pytest.mark.parametrize("form", ["0.{}830", "-1.{}5", "{}.50%", "[0.{}, 0.954]", "[-{}.0, .5]"])
def test_numbers_that_are_given_as_texts_stay_whole_too(form):
    names = ("model", "tasks", *(f"measure number {number}" for number in range(12)))
    cells = [[form.format(100 + 12 * row + place) for place in range(11)] for row in range(6)]
    rows = [(f"p{row}", "the main domains", *of_row, row) for row, of_row in enumerate(cells)]
    text = shown(Table("t", "T", names, (*rows, ("p6", "none", *[None] * 11, 6))))
    assert all(text.count(cell) == 1 for of_row in cells for cell in of_row)


@pytest.mark.parametrize("width", range(40, 56))
def test_blocks_are_as_wide_as_they_may_be_and_not_wider(width):
    narrow = Table(
        "t", "T", ("p", *(f"m{n}" for n in range(40))), tuple((f"p{r}", *range(100 + r, 140 + r)) for r in range(5))
    )
    lengths = [len(line.rstrip()) for line in shown(narrow, width).splitlines() if line.startswith("p0")]
    assert len(set(lengths[:-1])) == 1 and width - 5 < lengths[0] <= width


def test_blocks_repeat_the_columns_that_tell_rows_apart():
    text = shown(table(9, 6))
    assert text.count("player") == text.count("task") == text.count("p3 ") == 3


def test_few_rows_are_turned():
    text = shown(table(20, 2))
    assert text.count("p0") == text.count("p1") == 1
    assert "measure number 7" in text.splitlines()[2 + 1 + 8]


def test_what_all_rows_share_is_said_once_and_not_where_there_is_one_row_only():
    rows = (("a", "cot", 0, None, 1.0, SHARE), ("b", "cot", 0, None, 1.0, SHARE))
    both = Table("t", "T", ("player", "mode", "failed", "nothing", "x", "success"), rows)
    text = shown(both)
    assert "in every row: mode cot, failed 0, nothing –, x 1.00" in text
    assert text.count("cot") == 1 and text.count(format_cell(SHARE)) == 2, "a result is shown in every row"
    least = shown(Table("t", "T", ("player", "planned"), (("a", 4), ("b", 4))))
    assert "in every row" not in least and least.count("4") == 2, "a single column would say nothing"
    one = shown(Table("t", "T", both.columns, rows[:1]))
    assert "in every row" not in one and "cot" in one


def test_a_summary_has_only_the_columns_that_it_needs_and_no_notes():
    made = Table("t", "T", ("a", "b", "c"), ((1, 2, 3), (4, 5, 6)), notes=("a note",), brief=("a", "c"))
    assert shown(made, brief=True).split() == ["T", "a", "c", "────", "1", "3", "4", "6"]
    assert "a note" in shown(made) and "5" in shown(made)


def test_long_texts_wrap_behind_joining_marks_and_ids_stay_whole():
    words = "left_center_single_right_center_single"
    identity = "0123456789abcdef" * 2
    made = Table(
        "t",
        "T",
        ("player", "configuration", "x", "y", "z", "id"),
        tuple((f"qwen2_5_vl_72b_{n}", words, SHARE, SHARE, n, identity[n:] + identity[:n]) for n in range(6)),
    )
    text = shown(made)
    assert identity in text and text.count(format_cell(SHARE)) == 12
    assert "left_center_" in text and "qwen2_5_vl_72b_5" in text


def test_two_long_texts_share_the_width():
    made = Table("t", "T", ("one", "other"), (("a" * 70, "b" * 70),))
    text = shown(made)
    assert text.count("a") == text.count("b") == 70
    assert any("a" in line and "b" in line for line in text.splitlines()), "beside one another"


def test_headers_wrap_only_where_there_is_no_room():
    made = Table("t", "T", ("player", "games for 0.05", "cut off"), (("tiny", 446, 3), ("other", 12, 0)))
    headers = {
        width: [line.strip() for line in shown(made, width).partition("─")[0].splitlines()[1:]]
        for width in (40, 27, 22)
    }
    assert headers == {
        40: ["player  games for 0.05  cut off"],
        27: ["cut", "player  games for 0.05  off"],
        22: ["games", "for", "player   0.05  cut off"],
    }


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_word_without_end_wraps(width):
    made = Table("t", "T", ("text", "n"), (("x" * 500, 1), ("y", 2)), notes=("z" * 300,))
    assert shown(made, width).count("x") == 500 + 1


def test_markup_and_terminal_codes_are_text():
    made = Table("t", "[red]T[/]", ("[b]a", "n"), (("[u]x\x1b[2J", 1), ("\u202ey", 2)), notes=("[i]n\x1b[1m",))
    text = shown(made)
    assert all(each in text for each in ("[red]T[/]", "[b]a", "[u]x\\x1b[2J", "\\u202ey", "[i]n\\x1b[1m"))
    assert "\x1b" not in text and "\u202e" not in text


def test_wide_characters_count_twice():
    assert "漢字" in shown(Table("t", "T", ("a", "b"), (("漢字" * 30, 1), ("x", 2))), 40)


def test_without_rows_the_columns_are_named():
    assert "a" in shown(Table("t", "T", ("a", "b"), ()))
    assert "–" in shown(Table("t", "T", ("a",), ((math.nan,),)))


HIDDEN = (
    "\u034f\u115f\u1160\u17b4\u180b\u180f\u2800\u3164\ufe00\ufe0d\uffa0\ufff0\U00013430\U0001bca0\U0001d173"
    "\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef"
)


def test_texts_hidden_in_characters_that_nothing_shows_are_spelled_out():
    """Unicode names them, and this list of them stands beside Python's own categories."""
    assert printable(HIDDEN) == HIDDEN.encode("unicode_escape").decode()
    visible_marks = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        is_hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in "\t\n"
        if is_hidden and character not in visible_marks:
            assert printable(character) != character, f"U+{code:04X}"
        elif unicodedata.category(character)[0] in "LNPS" and character not in HIDDEN:
            assert printable(character) == character, f"U+{code:04X}"


def test_an_emoji_keeps_its_variation_selector_and_hides_no_further_ones():
    assert printable("❤\ufe0f 1\ufe0f\u20e3 ©\ufe0e") == "❤\ufe0f 1\ufe0f\u20e3 ©\ufe0e"
    assert printable("a\ufe0f❤\ufe0f\ufe0f\ufe0e") == "a\\ufe0f❤\ufe0f\\ufe0f\\ufe0e"


def test_the_page_spells_out_the_same_characters():
    """Its expression is that of the sources: the same characters, written as JavaScript writes them."""
    source = (Path(evals.__file__).parent / "viewer/frontend/src/text.tsx").read_text()
    [written] = re.findall(r"^  /\((.*)\)/u;$", source, re.MULTILINE)
    as_python = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: f"\\U{int(found[1], 16):08x}", written)
    page = re.compile(as_python)
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code <= 0xDFFF:  # JSON to the page holds none
            assert bool(page.match(chr(code))) == (printable(chr(code)) != chr(code)), f"U+{code:04X}"


def test_what_would_be_invisible_or_obeyed_is_escaped():
    assert printable("a\x1b[1m\u202eb\u200bc\u00add\ufeff\ttab\nline é 漢") == (
        r"a\x1b[1m\u202eb\u200bc\xadd\ufeff" + "\ttab\nline é 漢"
    )
