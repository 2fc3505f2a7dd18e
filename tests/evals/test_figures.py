"""Figures: what each suite states, how those of several runs are joined, and that every kind is drawn."""

import dataclasses
import functools
import io
import itertools
import math
import os
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_hex
from matplotlib.ticker import FixedFormatter, FuncFormatter
from PIL import Image

from evals.figures import Figure, Series, joined, middle
from evals.report.build import figure_files
from evals.report.draw import _KINDS, _STYLE, draw
from evals.report.kinds import radar
from evals.report.panels import PLAIN, Look
from evals.stats.intervals import Estimate
from evals.suite_results import suite_figures
from evals.summary.cells import success_figure
from tests.golden import check_golden
from tests.small_runs import MODELS, SUITES, small_run

SHARE = Estimate(0.5, 0.25, 0.75, 8)
FIRST, SECOND = MODELS


def figures(name: str) -> dict[str, Figure]:
    return {figure.name: figure for figure in suite_figures(SUITES[name], small_run(name))}


def series(figure: Figure, name: str, panel: str = "") -> Series:
    [found] = [each for each in figure.series if each.name == name and panel in ("", each.panel)]
    return found


def test_a_suite_that_states_nothing_gets_a_map_of_its_cells():
    [figure] = figures("toy").values()
    assert (figure.name, figure.kind) == ("toy_success_map", "heat_map")
    assert [middle(value) for value in series(figure, "colors", "oracle, zero_shot").y] == [1.0]
    played = [row for row in small_run("toy").of("toy").episodes().to_pylist() if row["player"] == SECOND]
    share = sum(bool(row["success"]) for row in played) / len(played)
    [value] = series(figure, "colors", f"{SECOND}, zero_shot").y
    assert (value.mean, value.n) == (share, len(played))


def test_without_an_episode_there_is_no_figure():
    run = small_run("toy", ("oracle",), failed=0, missing=4)
    assert suite_figures(SUITES["toy"], run) == [] and success_figure("toy", run.of("toy")).series == ()


def test_figures_of_one_name_are_joined():
    row = Series("a", ("p",), (1.0,), "easy")
    one = Figure("map", "Map", "heat_map", (row, Series("b", ("p",), (0.5,), "easy")), notes=("x",))
    two = Figure("map", "Map", "heat_map", (Series("a", ("p", "q"), (0.0, 0.25), "easy"),), notes=("x", "y"))
    [map_] = joined([one, two])
    assert map_.series == (Series("a", ("p", "q"), (1.0, 0.25), "easy"), one.series[1]) and map_.notes == ("x", "y")
    lines = [
        Figure("l", "L", "lines", (Series("chance", ("a",), (0.1,)), Series(name, ("a",), (1.0,)))) for name in "pq"
    ]
    assert [each.name for each in joined(lines)[0].series] == ["chance", "p", "q"]
    assert len(joined([one, lines[0]])) == 2
    known = [
        dataclasses.replace(each, series=(dataclasses.replace(each.series[0], reference=True),)) for each in (one, two)
    ]
    assert [each.reference for each in joined(known)[0].series] == [True]


cells = st.dictionaries(st.tuples(*map(st.sampled_from, ("PQ", "ab", "xyz"))), st.floats(0, 1), max_size=12)


@pytest.mark.slow
@given(st.lists(cells, min_size=1, max_size=3))
def test_maps_of_several_runs_have_each_cell_once_as_the_first_of_them_has_it(maps):
    figures = []
    for each in maps:
        rows = {
            row: {key[2]: each[key] for key in each if key[:2] == row} for row in dict.fromkeys(key[:2] for key in each)
        }
        shown = tuple(Series(name, tuple(row), tuple(row.values()), panel) for (panel, name), row in rows.items())
        figures.append(Figure("map", "Map", "heat_map", shown))
    [joint] = joined(figures)
    found = [((row.panel, row.name, x), y) for row in joint.series for x, y in zip(row.x, row.y, strict=True)]
    assert len(found) == len(dict(found)) and dict(found) == functools.reduce(lambda first, other: other | first, maps)
    assert len({(row.panel, row.name) for row in joint.series}) == len(joint.series)


def test_places_and_values_must_fit():
    with pytest.raises(ValueError, match="mine"):
        Series("mine", ("a",), ())


def test_json_has_no_number_that_json_lacks():
    made = Figure("f", "F", "lines", (Series("s", ("a", "b"), (math.nan, SHARE)),), limits=(0, 1))
    [told] = made.to_json()["series"]
    assert told["y"] == [None, {"mean": 0.5, "low": 0.25, "high": 0.75, "n": 8}] and made.to_json()["limits"] == [0, 1]


NAMES = ("a", "b", "c")
KINDS = {
    "dots": Series("r $x$ <&>", NAMES, (SHARE, None, 0.2)),
    "heat_map": Series("row", NAMES, (0.1, None, 1.0)),
    "points": Series("p", (SHARE, 1.0), (SHARE, None)),
    "lines": Series("l", NAMES, (SHARE, None, 0.5)),
    "histogram": Series("h", (2.0, 3.0), (4.0, 1.0)),
    "graph": Series("g", (0.1, 0.5, None), (0.2, 0.3, None)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_and_one_of_them_in_every_form_and_the_same_each_time(kind):
    panels = tuple(Series(KINDS[kind].name, KINDS[kind].x, KINDS[kind].y, panel) for panel in ("one", "two", "\x1b_{"))
    made = Figure("f", "F", kind, panels, "100 % of $5_{", "y", (0, 1))
    svg = draw(made, "svg")
    assert svg.startswith(b"<?xml") and b"\x1b" not in svg and b"<text" not in svg, "fonts are embedded as outlines"
    if kind == "lines":
        assert draw(made, "svg") == svg and draw(made, "pdf")[:4] == b"%PDF"
        with Image.open(io.BytesIO(draw(made, "png"))) as picture:
            assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.5)


def test_a_picture_for_screens_has_300_dots_an_inch():
    made = Figure("f", "F", "lines", (KINDS["lines"],), "x", "y", (0, 1))
    with Image.open(io.BytesIO(draw(made, "png"))) as picture:
        assert picture.width == 975 and picture.info["dpi"] == pytest.approx((300, 300), abs=0.5)


def test_no_date_of_a_build_system_is_read(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "abc")
    made = Figure("f", "F", "lines", (KINDS["lines"],), "x", "y", (0, 1))
    assert draw(made, "svg").startswith(b"<?xml") and os.environ["SOURCE_DATE_EPOCH"] == "abc"


LONG = tuple(f"a model of a long name (setting number {number} of the run)" for number in range(3))


def drawn_labels(axes):
    """The labels of ticks within the limits; matplotlib keeps some beyond them that it does not draw."""
    ticks = [*zip(axes.get_xticks(), axes.get_xticklabels(), itertools.repeat(axes.get_xlim()))]
    ticks += zip(axes.get_yticks(), axes.get_yticklabels(), itertools.repeat(axes.get_ylim()))
    return [label for at, label, ends in ticks if axes.axison and min(ends) <= at <= max(ends)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_panel_or_legend_of_long_names_is_printed_over_another(kind):
    base = KINDS[kind]
    own = [Series(name, base.x, base.y, panel) for panel in LONG for name in LONG]
    if kind == "heat_map":  # its columns are the players
        own = [Series(name, LONG, base.y, panel) for panel in LONG for name in NAMES]
    with rc_context(_STYLE), warnings.catch_warnings(action="error"):  # a panel that has no room left for itself
        canvas = _KINDS[kind](Figure("f", "A title", kind, tuple(own), "x", "y", (0, 1)), PLAIN)
        canvas.draw(renderer := RendererAgg(*canvas.bbox.size, canvas.dpi))
    panels = [axes for axes in canvas.axes if axes.get_visible() and axes.get_title()]
    assert len(panels) == 3 and (len(canvas.legends) == 1 or kind == "heat_map")
    named = {axes: drawn_labels(axes) for axes in panels}
    printed = [[axes, axes.title, *labels] for axes, labels in named.items()]
    for one, other in itertools.combinations([*printed, [*canvas.legends]], 2):
        for first, second in itertools.product(one, other):
            assert not first.get_window_extent(renderer).overlaps(second.get_window_extent(renderer))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("look", "inches"), [(Look("column"), 3.25), (Look("text", radar=True, dark=True), 6.75)])
def test_a_figure_is_exactly_as_wide_as_the_column_or_the_text(kind, look, inches):
    made = Figure("f", "F", kind, (KINDS[kind], Series("an other player", ("a",), (0.5,), "2")), "x", "y", (0, 1))
    made = (
        made if kind != "graph" and kind != "histogram" and kind != "points" else Figure("f", "F", kind, (KINDS[kind],))
    )
    [width] = re.findall(r'<svg[^>]*? width="([\d.]+)pt"', draw(made, "svg", look).decode())
    assert float(width) == pytest.approx(72 * inches)


def test_one_panel_is_a_column_wide_and_several_are_as_wide_as_the_text_unless_it_is_said():
    for count in range(5):
        made = Figure("f", "F", "lines", tuple(Series("s", ("a",), (0.5,), str(panel)) for panel in range(count)))
        assert PLAIN.width_of(made) == ("column" if count <= 1 else "text")
        assert all(Look(width).width_of(made) == width for width in ("column", "text"))


def test_a_caption_counts_what_stands_behind_a_value():
    rows = Series("difference", ("all", "easy"), (Estimate(0.1, -0.1, 0.3, 40), Estimate(0.2, 0.05, 0.35, 20)))
    made = Figure("f", "F", "dots", (rows,), intervals="95 % confidence", unit="games", line=0.0)
    assert made.caption == "F. Bars: 95 % confidence; n = 20 to 40 games a value."


def test_a_caption_tells_of_bars_and_counts_only_where_they_are_and_ends_each_sentence_once():
    bare, whole = Estimate(0.5, math.nan, math.nan, 3), Estimate(0.25, 0.1, 0.4, 1)

    def caption(*values, title="F.", **rest):
        row = Series("s", tuple(map(str, range(len(values)))), values)
        return Figure("f", title, "dots", (row,), intervals="95 %", **rest).caption

    assert caption(0.5, notes=("One.", "Two.")) == "F. One. Two."
    assert caption(bare, None) == "F. n = 3 episodes a value."
    assert caption(whole, title="G") == "G. Bars: 95 %."
    assert caption(bare, whole, dataclasses.replace(whole, n=1234)) == "F. Bars: 95 %; n = 3 to 1,234 episodes a value."
    assert caption(Estimate(math.nan, math.nan, math.nan, 9)) == "F."


def test_a_figure_as_json_has_every_part_and_no_number_that_json_lacks():
    rows = (
        Series("a", ("p", 2.5), (SHARE, None), "easy"),
        Series("b", (Estimate(3.0, 1.0, math.inf, 4),), (math.nan,), "hard", reference=True),
    )
    texts = {"x_label": "X", "y_label": "Y", "notes": ("n", "m"), "intervals": "I", "unit": "games"}
    made = Figure("f", "F", "points", rows, limits=(0, 1.5), logarithmic=True, line=0.25, **texts)
    share, wide = ({"mean": 0.5, "low": 0.25, "high": 0.75, "n": 8}, {"mean": 3.0, "low": 1.0, "high": None, "n": 4})
    assert made.to_json() == {
        **{"name": "f", "title": "F", "kind": "points"},
        "series": [
            {"name": "a", "panel": "easy", "reference": False, "x": ["p", 2.5], "y": [share, None]},
            {"name": "b", "panel": "hard", "reference": True, "x": [wide], "y": [None]},
        ],
        **{"x_label": "X", "y_label": "Y", "limits": [0, 1.5], "notes": ["n", "m"]},
        **{"intervals": "I", "unit": "games", "line": 0.25, "logarithmic": True},
    }
    plain = Figure("f", "F", "dots", ()).to_json()
    assert (plain["limits"], plain["line"], plain["logarithmic"], plain["unit"]) == (None, None, False, "episodes")


@pytest.mark.slow
def test_a_caption_goes_with_each_figure_for_latex():
    files = figure_files([Figure("f_1", "50 % of_", "lines", (KINDS["lines"],), notes=("A & B.",))])
    assert set(files) == {"f_1.svg", "f_1.pdf", "f_1.png", "figure_f_1.tex"}
    text = files["figure_f_1.tex"].decode()
    assert r"\includegraphics[width=\columnwidth]{f_1.pdf}" in text and r"\begin{figure}" in text
    assert r"\caption{50 \% of\_. n = 8 episodes a value. A \& B.}" in text and r"\label{fig:f_1}" in text


def test_players_have_colors_of_their_own_and_published_figures_are_gray():
    own = [Series(f"p{number}", NAMES, (0.1, 0.2, 0.3)) for number in range(8)]
    svg = draw(Figure("f", "F", "lines", (*own, Series("chance", NAMES, (0, 0, 0), reference=True))), "svg").decode()
    colors = {part[:7] for part in svg.split("stroke: ")[1:]} & {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a7a7a"}
    assert len(colors) == 5


@pytest.mark.parametrize("kind", ["heat_map", "lines", "dots"])
def test_a_long_name_does_not_make_a_large_picture(kind):
    names = [f"{letter}{'x' * 5000}" for letter in "abc"]
    figure = Figure("f", names[0], kind, tuple(Series(name, tuple(names), (0.1, 0.2, 0.3), names[1]) for name in names))
    width, height = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', draw(figure, "svg").decode()[:2000]).groups()
    assert float(width) < 5000 and float(height) < 5000


def test_figures_are_the_same_whatever_settings_of_matplotlib_lie_in_the_folder():
    made = Figure("f", "F", "lines", (Series("s", ("a", "b"), (0.5, 0.25)),))
    usual = draw(made, "svg")
    with rc_context({"text.usetex": True, "font.size": 30, "axes.grid": True, "lines.linewidth": 9}):
        assert draw(made, "svg") == usual


def test_texts_are_light_on_a_dark_page_which_shows_through_and_dark_on_white_else():
    made = Figure("f", "F", "lines", (Series("s", ("a", "b"), (0.5, 0.25)),))
    plain, dark = (draw(made, "svg", Look("column", dark=dark)).lower() for dark in (False, True))
    assert b"fill: #ffffff" in plain and b"#e6e6e6" not in plain
    assert b"fill: #ffffff" not in dark and b"fill: #e6e6e6" in dark
    grid_and_frame = [(b"stroke: #dddddd", b"stroke: #444444"), (b"stroke: #555555", b"stroke: #aaaaaa")]
    for on_white, on_dark in grid_and_frame:
        assert on_white in plain and on_white not in dark and on_dark in dark and on_dark not in plain


def test_only_dots_on_one_scale_become_a_radar_and_only_where_asked_for(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "evals.report.draw.radar", lambda figure, look: drawn.append(figure.name) or radar(figure, look)
    )
    values = Series("s", ("a", "b", "c"), (0.1, 0.2, 0.3))
    for kind, limits, asked in (
        ("dots", (0, 1), True),
        ("dots", (0, 1), False),
        ("dots", None, True),
        ("lines", (0, 1), True),
    ):
        made = Figure(f"{kind} {limits} {asked}", "F", kind, (values,), limits=limits)
        draw(made, "svg", Look("column", radar=asked))
    assert drawn == ["dots (0, 1) True"]


def test_a_radar_has_its_names_around_the_whole_circle_and_closes():
    values = Series("m", ("a", "b", "c", "d"), (0.1, 0.2, 0.3, 0.4))
    with rc_context(_STYLE):
        canvas = radar(Figure("f", "F", "dots", (values,), limits=(0, 1)), Look("text", radar=True))
    [axes] = [each for each in canvas.axes if each.get_visible() and each.lines]
    angles, heights = axes.lines[0].get_data()
    assert angles == pytest.approx([0, math.pi / 2, math.pi, 3 * math.pi / 2, 0])
    assert list(heights) == [0.1, 0.2, 0.3, 0.4, 0.1] and axes.get_ylim() == (0, 1)


def rounded_data(values):
    """Numbers to three digits, also within lists; nan as such."""
    if hasattr(values, "filled"):
        values = values.filled(math.nan)
    return [rounded_data(each) for each in values] if hasattr(values, "__len__") else round(float(values), 3) + 0.0


def name_of(mark):
    return "" if mark.get_label().startswith("_") else mark.get_label()


def told(canvas):
    """What stands where on a canvas: a line for each mark, with its color."""
    for axes in canvas.axes:
        if not axes.get_visible() or axes.get_label() == "<colorbar>":
            continue
        yield f"panel {axes.get_title()!r}: {axes.get_xlabel()!r} {axes.get_ylabel()!r} {axes.get_xscale()}"
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), FuncFormatter | FixedFormatter):
                names = [label.get_text() for label in axis.get_ticklabels()]
                yield f"  names {names} at {rounded_data(axis.get_majorticklocs())}"
        for line in axes.lines:
            style = f"{line.get_marker()} {line.get_linestyle()} {to_hex(line.get_color())}"
            yield f"  line {name_of(line)} {rounded_data(line.get_xydata())} {style}"
        for marks in axes.collections:
            places = marks.get_segments() if hasattr(marks, "get_segments") else marks.get_offsets()
            colors = [*map(to_hex, [*marks.get_edgecolor(), *marks.get_facecolor()][:1])]
            yield f"  marks {name_of(marks)} {rounded_data(places)} {colors}"
        for patch in axes.patches:
            box = patch.get_window_extent().transformed(axes.transData.inverted())
            yield f"  box {rounded_data(box.extents)} {to_hex(patch.get_facecolor())}"
        for image in axes.images:
            yield f"  image {rounded_data(image.get_array())} {rounded_data(image.get_clim())}"
        for text in axes.texts:
            style = f"{text.get_fontsize()} {to_hex(text.get_color())}"
            yield f"  text {text.get_text()!r} {rounded_data(text.get_position())} {style}"
    for legend in canvas.legends:
        yield f"legend {[each.get_text() for each in legend.get_texts()]}"


def test_marks_stand_where_their_values_are():
    """Two panels, the second one with other names and without the first player; published values are in gray."""
    skewed, whole = Estimate(0.3, 0.25, 0.55, 8), Estimate(0.9, 0.6, 0.95, 12)
    shown = {
        "dots": [
            Series("m", ("a", "b"), (skewed, 0.5)), Series("n", ("b", "c"), (whole, None)),
            Series("chance", ("a", "c"), (0.1, 0.2), reference=True), Series("paper", ("b",), (0.7,), reference=True),
            Series("n", ("d",), (Estimate(0.4, math.nan, math.nan, 1),), "other"),
        ],
        "heat_map": [
            Series("r", ("a", "b"), (skewed, 0.5)), Series("s", ("b", "c"), (whole, None)),
            Series("r", ("d",), (0.1,), "other"),
        ],
        "points": [
            Series("m", (Estimate(2.0, 1.0, 4.0, 3), 8.0), (skewed, whole)), Series("n", (5.0,), (0.2,), "other"),
            Series("paper", (1.0, 3.0), (0.1, 0.6), reference=True),
        ],
        "lines": [
            Series("m", ("1 to 2", "3"), (skewed, whole)), Series("n", ("3", "4"), (0.2, None)),
            Series("chance", ("1 to 2", "4"), (0.1, 0.2), reference=True), Series("n", ("4",), (whole,), "other"),
        ],
        "histogram": [Series("m", (2.0, 3.0), (4.0, 1.0)), Series("n", (3.0,), (5.0,)), Series("n", (7.0,), (2.0,), "other")],
        "graph": [Series("m", (0.1, 0.5), (0.2, 0.3)), Series("edges", (0.1, 0.5, None), (0.2, 0.3, None), reference=True)],
    }  # fmt: skip
    lines = []
    with rc_context(_STYLE):
        for kind, members in shown.items():
            figure = Figure("f", "F", kind, tuple(members), "across", "up", (0, 1), logarithmic=kind == "points")
            lines += [f"=== {kind}", *told(_KINDS[kind](figure, PLAIN))]
        own = Figure("f", "F", "dots", (shown["dots"][0],), "across", "up", line=0.25)
        lines += ["=== dots beside a line", *told(_KINDS["dots"](own, Look(dark=True)))]
        lines += ["=== radar", *told(radar(Figure("f", "F", "dots", tuple(shown["dots"][:3]), limits=(-1, 1)), PLAIN))]
    check_golden("drawn", "\n".join(lines))
