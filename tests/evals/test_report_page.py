"""The report as a page: what it shows of whole, partial, failed and empty runs, and that it is closed to the world."""

import base64
import dataclasses
import functools
import hashlib
import json
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from evals.analysis.labels import run_labels
from evals.archive.one_file import LARGEST, one_file
from evals.ledger.run_data import RunData
from evals.report.build import latex_files, page_of
from evals.report.episodes import Prompt, Shown, _chosen, select
from evals.report.joint import Report, RunReport, joined_tables, relabeled, with_labels
from evals.report.page import Page, Section
from evals.suite_results import suite_figures, suite_results
from evals.suites.bundle import Bundle
from evals.summary.failures import causes_of
from evals.summary.paired import file_stem
from evals.summary.status import status_lines
from evals.summary.usage import usage_table
from evals.tables import Table
from evals.view import default_view
from tests.report_page import data_block
from tests.runs import Often, run_of
from tests.small_runs import HOSTILE, MODELS, SUITES, small_run
from tests.toy import ToySuite

FIRST, SECOND = MODELS
BUILT_IN = {"oracle", "random"}


def reported(name: str, run: RunData, label: str = "my run", status=()) -> RunReport:
    tables = suite_results(SUITES[name], run, "scores")
    return RunReport(label, run, SUITES[name], [*tables, usage_table(run)] if len(run.episodes()) else tables, status)


def page(*runs: RunReport) -> str:
    return one_file(page_of(Report(runs)))


@functools.cache
def plain_page(name: str) -> str:
    sessions = ({"id": "s1", "vllm": "1"},)
    run = dataclasses.replace(small_run(name), settings={"suite": {"name": name}}, sessions=sessions)
    return page(reported(name, run))


class Reader(HTMLParser):
    """Every tag with its attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        self.texts.setdefault(attributes.get("id", tag), data)


def content(text: str) -> tuple[dict, list[dict]]:
    """What the page shows, and its episodes and prompts, as its script reads them."""
    return data_block(text, "report"), data_block(text, "episodes-0")["episodes"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["toy", "kumo", "kidgym", "multistar"])
def test_a_page_is_one_file_that_asks_for_nothing_and_runs_only_its_own_script(name):
    text = plain_page(name)
    assert len(text.encode()) < LARGEST
    reader = Reader(text)
    assert not {"link", "iframe", "object", "form", "img"} & {tag for tag, _ in reader.tags}
    for tag, attributes in reader.tags:
        assert not any(attribute.startswith("on") for attribute in attributes)
        assert not {"src", "href"} & attributes.keys()
        assert tag != "script" or attributes in ({}, {"type": "text/plain", "id": attributes.get("id")})
    policy = next(attributes["content"] for _, attributes in reader.tags if "http-equiv" in attributes)
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(reader.texts[tag].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    report, _ = content(text)
    figures = [figure for section in report["sections"] for figure in section["figures"]]
    assert len(figures) == {"toy": 1, "kumo": 5, "kidgym": 5, "multistar": 6}[name]
    assert all(figure["alt"] and figure["source"].startswith("data:image/svg+xml") for figure in figures)
    ids = [section["id"] for section in report["sections"]]
    assert len(ids) == len(set(ids))
    said = json.dumps(content(text))
    for words in ("Cost and time", "Prompts", "Versions: my run", "Configuration of my run", "reasoning", FIRST):
        assert words in said, words


@pytest.mark.slow
def test_episodes_come_with_their_pictures_and_with_the_columns_of_their_suite():
    text = plain_page("kidgym")
    report, shown = content(text)
    [section] = [section for section in report["sections"] if section["episodes"]]
    assert section["title"] == "Episodes to look at"
    for one in section["episodes"]:
        episode = shown[one["at"]]
        sizes = {(each["width"], each["height"]) for each in episode["pictures"].values()}
        assert sizes == ({(288, 288)} if episode["steps"] else set())
        assert not {"turns", *episode["columns"]} & episode["row"].keys()
    assert any(shown[one["at"]]["columns"] for one in section["episodes"])
    assert 'id="tiles-0"' in text and "OpenMoji" in text and "Jason Miller" in text


@pytest.mark.slow
def test_what_a_model_wrote_is_data():
    run = small_run("kidgym", ("hostile",), failed=0)
    text = page(reported("kidgym", run, label="<img src=x>"))
    assert "<img src=x" not in text and "\x1b" not in text and "\u202e" not in text and "</pre>" not in text
    report, shown = content(text)
    assert report["title"] == "<img src=x>"
    replies = [step["reply"] for episode in shown for step in episode["steps"] if step["reply"]]
    assert replies and set(replies) == {HOSTILE}


def test_a_page_stays_small_by_leaving_episodes_out_the_last_ones_first(monkeypatch):
    run = run_of(ToySuite(episodes=7, turns=1), {"m": Often(0.5)})
    rows = run.find(run.plan["episode_id"].to_pylist())
    short = [{name.removeprefix("toy."): value for name, value in row.items()} for row in rows]
    found = [Shown(row, f"ending {row['index']}", default_view(row)) for row in short]
    said = [{"role": "user", "parts": [{"text": "Hi", "picture": None}]}]
    prompts = [Prompt("toy", mode, "colors", tuple(said)) for mode in ("cot", "icl")]
    whole = Page(
        "A <b>", ["Partial"], [Section("Games & more", ["First."], episodes=found), Section("P", prompts=prompts)]
    )

    def shown():
        text = one_file(whole)
        report, stored = content(text)
        games, asked = report["sections"]
        assert "<b>" not in text.partition("<style>")[0] and (games["id"], asked["id"]) == ("games-more", "p")
        assert [each["ending"] for each in games["episodes"]] == [
            f"ending {place}" for place in range(len(games["episodes"]))
        ]
        kept = [stored[each["at"]]["row"]["index"] for each in games["episodes"]]
        assert kept == [*range(len(kept))]
        assert all(stored[place]["columns"] == {"right": rows[place]["toy.right"]} for place in kept)
        assert [stored[each["at"]]["steps"][0]["shown"] for each in asked["prompts"]] == [
            [{"role": "user", "parts": [{"text": "Hi"}]}]
        ] * 2
        assert [each["title"] for each in asked["prompts"]] == [
            f"toy, mode {mode}: first prompt of an episode of colors" for mode in ("cot", "icl")
        ]
        return len(text.encode()), len(kept), games["lines"]

    size, kept, lines = shown()
    assert (kept, lines) == (7, ["First."]) and size < LARGEST
    for largest, left in ((size + 1, 7), (size, 5), (0, 0)):
        monkeypatch.setattr("evals.archive.one_file.LARGEST", largest)
        told = [f"{7 - left} more were left out to keep this file small."] if left < 7 else []
        assert shown()[1:] == (left, ["First.", *told])


class Marked(ToySuite):
    """The toy suite as two, whose names begin alike, each with a table in its paper's layout."""

    def plan(self):
        return [dataclasses.replace(episode, suite=self.name) for episode in super().plan()]

    def results(self, run, section):
        return [Table(f"{self.name}_paper", f"Paper of {self.name}", ("x",), ((1,),))] if section == "paper" else []


class More(Marked):
    name = "toy_more"
    title = "Toy, more"


def test_a_page_has_the_results_of_each_suite_first_and_each_table_once_in_its_section(monkeypatch):
    monkeypatch.setattr("evals.report.build.figure_parts", lambda figure: {"title": figure.title})  # which draws it
    suite = Bundle("both", (Marked(episodes=3), More(episodes=3)))
    run = dataclasses.replace(run_of(suite, {"m": Often(0.5)}), settings={"k": 1}, sessions=({"id": "s"},))

    def table(name, section="scores", headline=True):
        return Table(name, f"T {name}", ("player", "x"), (("m", 1), ("m", 2)), section=section, headline=headline)

    tables = [
        *(table("usage", "performance"), table("speed", "performance", headline=False), table("coverage")),
        *(table("toy_success"), table("toy_kinds", "diagnostics", headline=False), table("toy_more_success")),
        *(table("toys_success"), table("toy")),
    ]
    reports = [RunReport("one", run, suite, tables, ["Partial"]), RunReport("two", run, suite, [], ())]
    made = page_of(Report(reports))
    assert (made.title, made.status) == ("one; two", ["one: Partial"])
    shown = [
        (
            section.title,
            *([each["title"] for each in getattr(section, name)] for name in ("tables", "figures", "more", "texts")),
        )
        for section in made.sections
    ]
    assert shown == [
        ("toy", ["T toy_success", "T toy"], ["toy: success"], ["Paper of toy", "T toy_kinds"], []),
        ("Toy, more", ["T toy_more_success"], ["Toy, more: success"], ["Paper of toy_more"], []),
        ("Episodes played", ["T coverage", "T toys_success"], [], [], []),
        *((title, [], [], [], []) for title in ("Episodes to look at", "Prompts")),
        ("Cost and time", ["T usage"], [], ["T speed"], []),
        (
            *("How the runs were made", ["Versions: one", "Versions: two"], [], []),
            ["Configuration of one", "Configuration of two"],
        ),
    ]
    looked_at, prompts = made.sections[3:5]
    assert {one.row["suite"] for one in looked_at.episodes} == {"toy", "toy_more"}
    assert [(prompt.suite, prompt.mode, prompt.task) for prompt in prompts.prompts] == [
        ("toy", "zero_shot", "colors"),
        ("toy_more", "zero_shot", "colors"),
    ], "of each mode one, however many runs there are"
    assert [*latex_files(Report(reports))] == [
        *("toy_paper.tex", "toy_more_paper.tex", "coverage.tex", "toy_success.tex", "toy_more_success.tex"),
        *("toys_success.tex", "toy.tex", "report.tex"),
    ]


# --- which episodes --------------------------------------------------------------------------------------------------


def test_of_each_player_some_of_each_ending_are_chosen():
    run = small_run("kumo", failed=3).of("kumo")
    selection = select(run, SUITES["kumo"], BUILT_IN)
    endings = [(one.row["player"], one.ending) for one in selection.episodes]
    assert endings.count((FIRST, "failed")) == 1, "one of each cause"
    assert endings.count((SECOND, "lost")) == 2 and (SECOND, "failed") not in endings
    assert not any(player == "oracle" for player, _ in endings), "built-in players only where no other has played"
    rows = {one.row["episode_id"]: one.row for one in selection.episodes}
    assert len(rows) == len(endings) and all(row["status"] for row in rows.values())
    assert {prompt.mode for prompt in selection.prompts} <= {"zero_shot", "cot"} and selection.prompts


def test_pages_that_others_read_quote_no_error_of_a_suite(monkeypatch):
    """Settings may name any file of this machine, and the error that follows quotes it."""

    def refuse(self, row):
        raise ValueError("unknown key 'SECRET'")

    run = small_run("toy").of("toy")
    monkeypatch.setattr(type(SUITES["toy"]), "view", refuse)
    shown = [one.view.facts["shown"] for one in select(run, SUITES["toy"], BUILT_IN).episodes]
    assert shown and set(shown) == {"without the help of the suite toy: ValueError"}


def test_of_each_ending_as_many_are_chosen_as_are_shown_and_of_different_tasks():
    run = small_run("toy", (FIRST,), failed=0, missing=0)
    names = ("episode_id", "player", "mode", "task", "status", "success", "cut_off", "error", "error_kind")
    games = [(f"{ending}{number}", FIRST, "zero_shot", f"task {number // 2}", "failed" if ending == "failed" else "done",
              ending == "won", ending in ("won", "cut off"), f"cause {'abcd'[number // 2]}", None)
             for ending in ("won", "lost", "cut off", "failed") for number in range(8)]  # fmt: skip
    rows = pa.Table.from_pylist([dict(zip(names, game, strict=True)) for game in games])
    chosen, _ = _chosen(dataclasses.replace(run, _read=lambda columns: [rows.select(columns)]), BUILT_IN)
    assert chosen == {f"{ending}{number}": ending for ending, numbers in
                      (("won", "0"), ("lost", "02"), ("cut off", "0"), ("failed", "024")) for number in numbers}  # fmt: skip


def test_a_built_in_player_alone_is_shown():
    run = small_run("toy", ("oracle",), failed=0, missing=0).of("toy")
    assert [one.ending for one in select(run, SUITES["toy"], BUILT_IN).episodes] == ["won"]


# --- several runs ----------------------------------------------------------------------------------------------------


def test_players_of_one_name_get_their_run_s_name_and_equal_built_in_ones_stay_once():
    run, other = small_run("multistar"), small_run("multistar", (SECOND, "random"), failed=0, missing=0)
    found = relabeled({"a": run, "b": other}, BUILT_IN)
    names = {name: set(each.plan["player"].to_pylist()) for name, each in found.items()}
    assert names == {"a": {FIRST, f"{SECOND} (a)", "oracle"}, "b": {f"{SECOND} (b)", "random"}}
    again = relabeled({"a": run, "b": run}, BUILT_IN)
    assert set(again["b"].plan["player"].to_pylist()) == {f"{FIRST} (b)", f"{SECOND} (b)"}
    assert relabeled({"a": run}, BUILT_IN)["a"] is run
    imported = dataclasses.replace(run, settings={"order": "x"}, sessions=[{"id": "i", "imported_format": "inspect"}])
    beside = relabeled({"a": run, "b": imported}, BUILT_IN)
    assert set(beside["b"].plan["player"].to_pylist()) == {f"{FIRST} (b)", f"{SECOND} (b)"}
    named = relabeled({"a": run, "b": imported}, BUILT_IN, {"a": "ours", "b": "theirs"})
    assert set(named["b"].plan["player"].to_pylist()) == {f"{FIRST} (theirs)", f"{SECOND} (theirs)"}
    apart = relabeled({"a": run, "b": small_run("toy")}, BUILT_IN)
    assert apart["a"] is run and apart["b"] is small_run("toy"), "other suites stand in other tables"


@pytest.mark.slow
def test_scores_do_not_change_with_a_name():
    for name in ("kumo", "kidgym", "multistar"):
        run = small_run(name)
        renamed = with_labels(run, {FIRST: "other", "oracle": None})
        before, after = (
            [
                table
                for table in suite_results(SUITES[name], each, "scores")
                if table.headline and not table.name.endswith("_beside_paper")
            ]
            for each in (run, renamed)
        )
        for old, new in zip(before, after, strict=True):
            expected = [("other" if row[0] == FIRST else row[0], *row[1:]) for row in old.rows if row[0] != "oracle"]
            assert repr(list(new.rows)) == repr(expected), name


@pytest.mark.parametrize("name", ["kumo", "kidgym", "multistar"])
def test_a_label_takes_neither_a_model_s_row_of_the_paper_nor_a_built_in_player_s_part(name):
    suite = SUITES[name]
    players = (FIRST, "oracle", "random", next(iter(suite.shortcuts)))
    settings = {"baselines": list(players[1:]), "model": {"name": FIRST}}
    run = dataclasses.replace(small_run(name, players), settings=settings)
    labeled = with_labels(run, {player: f"{player} (x)" for player in players})
    shown = []
    for each in (run, labeled):
        tables = [*suite_results(suite, each, "scores"), *suite_results(suite, each, "diagnostics")]
        parts = [(table.title, table.columns, table.rows, table.notes) for table in tables]
        shown.append([repr(part).replace(" (x)", "") for part in (*parts, *suite_figures(suite, each))])
    assert shown[0] == shown[1]
    assert any("beside" in part for part in shown[0])
    left_out = with_labels(run, dict.fromkeys(players[1:]))
    found = [{table.name: table for table in suite_results(suite, each, "scores")} for each in (run, left_out)]
    for table in ("kidgym_success", "multistar_stages", "kumo_scores"):
        rows = [[row for row in tables[table].rows if row[0] == FIRST] for tables in found if table in tables]
        assert repr(rows[:1]) == repr(rows[1:]), "shortcuts that another run shows stand beside this one, too"


def test_built_in_players_are_no_episodes_to_look_at_under_a_label_either():
    run = with_labels(small_run("toy").of("toy"), {"oracle": "oracle (x)"})
    shown = select(run, SUITES["toy"], BUILT_IN).episodes
    assert shown and not [one for one in shown if one.row["player"] == "oracle (x)"]


def test_tables_of_one_name_and_form_are_joined():
    def table(rows, columns=("player", "x"), **more):
        return Table("t", "T", columns, rows, **more)

    runs = {
        "a": [table((("p", 1), ("chance", 0)), notes=("n",))],
        "b": [table((("q", 2), ("chance", 0)), notes=("n", "m"))],
    }
    [joint] = joined_tables(runs)
    assert joint.rows == (("p", 1), ("chance", 0), ("q", 2)) and joint.notes == ("n", "m")
    apart = joined_tables({"a": [table((("p", 1),))], "b/c": [table((("q", 1, 2),), ("player", "x", "y"))]})
    assert [(each.name, each.title) for each in apart] == [("t", "T"), (f"t_{file_stem('b/c')}", "T (b/c)")]
    speed = [table((("s", 1),), ("metric", "value"), section="performance")]
    assert len(joined_tables({"a": speed, "b": speed})) == 2


@pytest.mark.slow
def test_a_joint_page_has_all_players_in_one_table():
    one, two = small_run("kumo", (FIRST,)), small_run("kumo", (SECOND,), failed=0)
    text = page(reported("kumo", one, "left", ["Partial run"]), reported("kumo", two, "right"))
    shown, _ = content(text)
    [table] = [each for section in shown["sections"] for each in section["tables"] if each["title"] == "KUMO"]
    players = {cell["text"] for row in table["rows"] for cell in row}
    assert {FIRST, SECOND} <= players and "left: Partial run" in shown["status"]


# --- plain words -----------------------------------------------------------------------------------------------------


def status(run: RunData) -> list[str]:
    rows = run.episodes(["status"])["status"].to_pylist()
    done, failed = rows.count("done"), rows.count("failed")
    counts = {"planned": len(run.plan), "done": done, "failed": failed, "missing": len(run.plan) - len(rows)}
    return status_lines(counts, causes_of(run))


def test_a_run_says_what_it_lacks():
    assert status(small_run("toy", failed=0, missing=0)) == []
    [partial] = status(small_run("toy", failed=0, missing=1))
    assert "Partial" in partial and "1 of 12" in partial
    [some] = status(small_run("toy", failed=2, missing=0))
    assert "2 of 12" in some and "PromptTooLong: by # tokens" in some
    [every] = status(small_run("toy", (FIRST,), failed=4, missing=0))
    assert every.startswith("All")
    [empty] = status(small_run("toy", (FIRST,), failed=0, missing=4))
    assert "Empty" in empty


@pytest.mark.slow
@pytest.mark.parametrize("name", ["toy", "kumo", "kidgym", "multistar"])
def test_an_empty_run_has_a_page(name):
    run = small_run(name, (FIRST,), failed=0, missing=10_000)
    shown, episodes = content(page(reported(name, run, status=["Empty run: no episode has been played"])))
    assert "no episode" in shown["status"][0] and episodes == []


def test_runs_are_labeled_by_what_tells_them_apart():
    def settings(**more):
        return {
            "run_dir": more.pop("run_dir", ""),
            "suite": {"book": "prose", "seed": 1, **more},
            "model": {"name": "m"},
        }

    assert run_labels({"r1": settings(), "r2": settings(book="table", run_dir="x")}) == {"r1": "prose", "r2": "table"}
    assert run_labels({"r1": settings(), "r2": settings(seed=2)}) == {"r1": "seed 1", "r2": "seed 2"}
    three = {"r1": settings(), "r2": settings(seed=2), "r3": settings(book="table")}
    assert set(run_labels(three).values()) == {"prose, seed 1", "prose, seed 2", "table, seed 1"}
    assert run_labels({"r1": settings(), "r2": settings()}) == {"r1": "r1", "r2": "r2"}, "nothing tells them apart"
