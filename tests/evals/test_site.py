"""The static leaderboard: what stands on it, what is told apart, and that its pages are closed to the world."""

import base64
import dataclasses
import datetime
import gc
import hashlib
import importlib.metadata
import math
import random
import re
import weakref
from array import array
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.players import BUILT_IN_PLAYERS
from evals.report.episodes import Shown
from evals.results.boards import boards_of, paper_table, settings_table
from evals.results.entries import Entry, Outline, Reader, RunPart, Score, player_labels
from evals.results.ticks import CHANCE, chance_of, ticks_of
from evals.site import pictures
from evals.site.games import decisive_turns, games_of
from evals.site.pages import Site, _own_tables, _run_facts, games_file, player_file
from evals.site.parts import episode_parts
from evals.site.pictures import Album
from evals.stats.intervals import Estimate
from evals.suites.bundle import Bundle
from evals.summary.overview import overview
from evals.summary.reply_health import ReplyHealth
from evals.tables import Table
from evals.view import EpisodeView, StepView, default_view
from tests.golden import check_golden
from tests.runs import Often, run_of
from tests.small_runs import HOSTILE, MODELS, SUITES, small_run
from tests.toy import ToySuite

MADE = datetime.datetime(2030, 1, 2, 3, 4, tzinfo=datetime.UTC)
SUITE = ToySuite(episodes=20)


class Tags(HTMLParser):
    """Tags with their attributes, ids, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.script, self.open = [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open = tag

    def handle_data(self, data):
        if self.open == "script":
            self.script += data

    def handle_endtag(self, tag):
        self.open = ""


def site_of(runs, labels=None):
    """All pages of a site, by the names of their files; ``runs`` by name with the name of their suite."""
    site = Site("All <b>games</b>", "CC BY 4.0", MADE)
    games = {}
    for name, (suite, run) in runs.items():
        part, pages = site.read(name, run, SUITES[suite], run.plan, (labels or {}).get(name, {}))
        site.add(part)
        games |= pages
    return {**games, **dict(site.pages(list(games)))}


def entry(player, wins, games="g", **more):
    """A model that won these of twenty games."""
    keys = tuple((("t",), number, 0) for number in range(len(wins)))
    mean = sum(wins) / len(wins)
    score = Score("success", Estimate(mean, 0.0, 1.0, len(wins)), array("d", map(float, wins)), keys)
    values = {
        **{"player": player, "suite": "toy", "run": player, "reference": "", "shortcut": False, "games": games},
        **{"about": {"task": ["t"]}, "scores": [score], "planned": len(wins), "done": len(wins), "failed": 0},
        **{"health": ReplyHealth(), "cost": 0.0, "seconds": 1.0, "stopping": ()},
    }
    return Entry(**{**values, **more})


# --- pages -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages():
    return site_of(
        {
            "run <a>": (
                "toy",
                dataclasses.replace(small_run("toy"), settings={"suite": {"a": "</script>"}, "model": {}}),
            ),
            "kidgym": ("kidgym", small_run("kidgym", ("hostile", MODELS[0], "oracle"))),
            "multistar": ("multistar", small_run("multistar")),
        }
    )


@pytest.mark.slow
def test_pages_ask_for_nothing_and_run_one_script_of_ours(pages):
    for name, text in pages.items():
        found = Tags(text)
        tags = [tag for tag, _ in found.tags]
        assert tags.count("script") == tags.count("h1") == tags.count("main") == 1, name
        assert not {"link", "iframe", "object", "form", "base"} & {*tags}
        digest = base64.b64encode(hashlib.sha256(found.script.encode()).digest()).decode()
        [policy] = [a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert f"script-src 'sha256-{digest}';" in policy and "default-src 'none'" in policy
        for tag, attributes in found.tags:
            assert not any(attribute.startswith("on") for attribute in attributes)
            assert attributes.get("src", "data:").startswith("data:") and (tag != "img" or attributes["alt"])
        ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(ids) == len({*ids})


@pytest.mark.slow
def test_every_link_leads_to_a_page_of_the_site(pages):
    anchors = {name: {a["id"] for _, a in Tags(text).tags if "id" in a} for name, text in pages.items()}
    seen = set()
    for text in pages.values():
        for tag, attributes in Tags(text).tags:
            if tag == "a":
                file, _, anchor = attributes["href"].partition("#")
                assert not anchor or anchor in anchors[file]
                seen.add(file)
    assert seen == {*pages}, "and every page is linked"
    assert "Rows of the KidGym paper" in pages["suite-kidgym.html"]


@pytest.mark.slow
def test_what_a_model_or_a_setting_says_is_no_markup(pages):
    shown = pages[games_file("hostile", "kidgym")]
    safe = HOSTILE.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e").replace("&", "&amp;").replace("<", "&lt;")
    assert safe.replace(">", "&gt;").replace("'", "&#39;") in shown
    for text in pages.values():
        assert "\x1b" not in text and "\u202e" not in text and "<b>games" not in text and "<a>" not in text
    assert "a: &lt;/script&gt;" in pages[player_file(MODELS[0])]


def test_files_of_players_differ_also_where_case_does_not_count():
    names = ["Tiny", "tiny", "ti/ny", "ti ny", "../tiny", "x" * 300]
    files = [player_file(name) for name in names]
    assert len({file.lower() for file in files}) == len(names) and all(
        re.fullmatch(r"[a-z0-9._-]{1,90}", f) for f in files
    )


# --- scores ----------------------------------------------------------------------------------------------------------


def test_scores_are_those_of_raycade_list_and_cost_and_failures_are_counted():
    for name in ("toy", "kidgym"):
        run = small_run(name)
        entries = Reader().read("r", run, SUITES[name], run.plan).entries
        [line] = overview(run)
        first = entries[0]
        assert (first.player, first.scores[0].estimate) == (line.player, line.success)
        assert (first.planned, first.done, first.failed) == (line.planned, line.done, line.failed)
        assert first.cost == pytest.approx(line.cost) and first.seconds > 0
        assert first.missing == 1


def test_a_run_is_one_line_that_adds_up_its_players():
    entries = [
        entry("m", [1, 0, 1], done=2, failed=1, planned=5),
        entry("random", [0], done=1, failed=3, planned=4, reference="chance"),
    ]
    facts = _run_facts(RunPart("r", {}, [{}, {"began": "2030-01-02T03:04:05+00:00"}], entries, {}))
    assert (facts["planned"], facts["played"], facts["failed"]) == (9, 7, 4)
    assert (facts["players"], facts["began"], facts["state"]) == ("m", "2030-01-02 03:04", "partial")


def test_a_run_is_given_up_once_it_is_read():
    run = dataclasses.replace(small_run("toy"))
    site = Site("t", "", MADE)
    site.add(site.read("r", run, SUITES["toy"], run.plan, {})[0])
    known = weakref.ref(run)
    del run
    gc.collect()
    assert known() is None


def test_other_games_are_another_board_and_other_prompts_are_not():
    def part(name, suite):
        run = run_of(suite, {name: Often(0.5)})
        return Reader().read(name, run, suite, run.plan).entries

    entries = [*part("a", SUITE), *part("b", ToySuite(episodes=10)), *part("c", dataclasses.replace(SUITE, turns=2))]
    assert [[row.entry.player for row in board.rows] for board in boards_of(entries)] in (
        [["a", "c"], ["b"]],
        [["c", "a"], ["b"]],
    )


def test_games_have_one_board_whatever_else_a_run_plays():
    class Other(ToySuite):
        name = "other"

        def plan(self):
            return [dataclasses.replace(episode, suite="other") for episode in super().plan()]

    def part(name, suite):
        run = run_of(suite, {name: Often(0.5)})
        return Reader().read(name, run, suite, run.plan).entries

    boards = boards_of([*part("a", SUITE), *part("b", Bundle("both", (SUITE, Other(episodes=3))))])
    assert [(board.suite, sorted(row.entry.player for row in board.rows)) for board in boards] == [
        ("other", ["b"]),
        (SUITE.name, ["a", "b"]),
    ]


# --- what is told apart ----------------------------------------------------------------------------------------------


def test_standing_is_by_identical_games_and_order_alone_tells_nothing():
    good, same, bad = [1] * 19 + [0], [0] + [1] * 19, [0] * 18 + [1] * 2
    [board] = boards_of([entry("bad", bad), entry("same", same), entry("good", good)])
    standings = {row.entry.player: row.standing for row in board.rows}
    assert sorted(standings[name] for name in ("good", "same")) == ["highest", "not told apart from the highest"]
    assert standings["bad"] == "below the highest" and board.rows[-1].difference.mean == pytest.approx(-0.85)
    [alone] = boards_of([entry("one", good)])
    assert alone.rows[0].standing == ""


@pytest.mark.parametrize("models", range(2, 7))
@pytest.mark.parametrize("lost", range(5, 11))
def test_the_highest_is_compared_as_if_all_pairs_had_been(models, lost):
    """Of games that only one side won, McNemar's p is a half to the power of their number, twice."""
    best = entry("best", [1] * 12)
    second = [entry(f"as good {number}", [1] * 12) for number in range(models - 2)]
    [board] = boards_of([best, *second, entry("below", [0] * lost + [1] * (12 - lost))])
    apart = 2 / 2**lost * math.comb(models, 2) < 0.05
    standing = board.rows[-1].standing
    assert standing == ("below the highest" if apart else "not told apart from the highest")


@pytest.mark.slow
def test_equal_models_are_rarely_told_apart_although_the_highest_is_chosen_after_looking():
    drawn = random.Random(1)
    wrong = 0
    for _ in range(150):
        entries = [entry(str(number), [drawn.random() < 0.5 for _ in range(60)]) for number in range(8)]
        [board] = boards_of(entries)
        wrong += any(row.standing == "below the highest" for row in board.rows)
    assert wrong <= 15, "5 % of 150 are 7.5; more than 15 happen once in 200"


def test_partial_and_stopped_runs_are_shown_and_not_compared():
    whole = [1] * 10 + [0] * 10
    partial, stopped = entry("p", [1] * 20, planned=30), entry("s", [1] * 20, stopping=("a is better",))
    [board] = boards_of([entry("a", whole), entry("b", whole), partial, stopped])
    found = {row.entry.player: (row.standing, row.notes) for row in board.rows}
    assert found["p"] == ("not compared", ("partial: 20 of 30 episodes played",))
    assert found["s"] == ("not compared", ("stopped by its rule: a is better",))
    assert found["a"][0] == "highest", "the highest of those that are compared"


def test_built_in_players_stand_apart_each_once_and_only_the_best_shortcut():
    won = [1] * 20
    built_in = [entry("oracle", won, reference="perfect play (oracle)", run=run) for run in ("r", "s")]
    shortcuts = [entry(n, [1] * k + [0] * (20 - k), reference=n, shortcut=True) for n, k in (("x", 3), ("y", 5))]
    [board] = boards_of([entry("m", [0] * 20), *built_in, *shortcuts])
    assert [row.entry.player for row in board.rows] == ["m"] and board.rows[0].standing == ""
    assert [each.reference for each in board.references] == ["best shortcut (y)", "perfect play (oracle)"]


@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=5))
def test_built_in_players_stand_once_for_each_of_the_rules_that_the_runs_have(rules):
    runs = {f"run {place}": of_run for place, of_run in enumerate(rules)}
    wins = {"x": [1] * 5, "y": [1] * 3 + [0] * 2, "z": [0] * 5}
    entries = []
    for run, of_run in runs.items():
        entries.append(entry("m", [1] * 5, run=run))
        for name, is_shortcut in ((CHANCE, False), ("sly", True), ("slow", True)):
            won = wins[of_run] if name != "slow" else [0] * 5
            more = {"reference": name, "shortcut": is_shortcut, "episodes": f"{name} {of_run}"}
            entries.append(entry(name, won, run=run, **more))
    [board] = boards_of(entries)
    titles = [each.title for each in board.references]
    assert len({*titles}) == len(titles) == 2 * len({*rules})
    for row in board.rows:
        own = chance_of(board, row.entry)
        assert list(own.scores[0].values) == wins[runs[row.entry.run]], "chance by the rules of its own run"
    has_several_rules = len({*rules}) > 1
    assert bool([*ticks_of(board)]) == (not has_several_rules)
    assert (titles[0] in (CHANCE, "best shortcut (sly)")) == (not has_several_rules)


def test_runs_of_other_rules_have_other_episodes_and_the_same_games():
    def of_random(suite):
        run = run_of(suite, {"m": Often(0.5), "random": BUILT_IN_PLAYERS["random"]})
        return next(each for each in Reader().read("r", run, suite, run.plan).entries if each.player == "random")

    first, same, other = map(of_random, (SUITE, SUITE, dataclasses.replace(SUITE, turns=2)))
    assert first.games == same.games == other.games
    assert first.episodes == same.episodes != other.episodes


def test_the_paper_s_rows_are_means_over_the_cells_that_are_played():
    run = small_run("kidgym")
    entries = Reader().read("r", run, SUITES["kidgym"], run.plan).entries
    [board] = boards_of([dataclasses.replace(one, about={**one.about, "mode": ["zero_shot"]}) for one in entries])
    rows = {(row[0], row[2]): row[3:] for row in paper_table(board).rows}
    # The paper's Table 2: CL, CO, MFI and SO at levels 1, 2 and 3.
    printed = [1.00, 0.98, 0.92, 0.30, 0.26, 0.13, 0.81, 0.50, 0.37, 0.97, 0.95, 0.97]
    assert rows["o3", "success"] == (12, pytest.approx(sum(printed) / 12))
    [toy] = boards_of([entry("m", [1] * 20)])
    assert paper_table(toy) is None


def test_a_model_keeps_its_own_tables_although_its_name_ends_like_another_player_s():
    names = ["random", "not_random", "b", "a_b"]
    tables = [Table(f"toy_published_{name}", name, ("x",), ((1,),)) for name in names]
    part = RunPart(
        "r", {}, (), [entry(name, [1]) for name in names], {"toy": [*tables, Table("toy", "", ("x",), ((1,),))]}
    )
    for name in names:
        assert [table.title for table in _own_tables(part, "toy", name)] == [name, ""]


# --- several runs ----------------------------------------------------------------------------------------------------


def test_runs_of_one_model_are_named_by_what_differs_between_them_alone():
    def outline(name, player, temperature, suite="kumo"):
        settings = {"model": {"name": player, "sampling": {"temperature": temperature}}}
        return Outline(name, settings, [(player, suite), ("oracle", suite)], {"oracle"})

    found = player_labels(
        [outline("a", "m", 0), outline("b", "m", 1), outline("c", "n", 2), outline("d", "n", 2, "kidgym")]
    )
    assert found == {"a": {"m": "m (temperature 0)"}, "b": {"m": "m (temperature 1)"}, "c": {}, "d": {}}
    same = [dataclasses.replace(outline(name, "m", place), episodes={"m": "x"}) for place, name in enumerate("ab")]
    assert player_labels(same) == {"a": {"m": "m (a)"}, "b": {"m": "m (b)"}}, "a run and its import"


NAMES = ("m", "m (x)", "m (x) (a)", "m (y)")


@given(st.lists(st.tuples(st.sampled_from("xy"), st.sets(st.sampled_from(NAMES), min_size=1)), min_size=1, max_size=4))
def test_no_two_players_of_any_runs_have_one_name(given_runs):
    names = "abcd"[: len(given_runs)]
    outlines = [
        Outline(name, {"name": label}, [(player, "toy") for player in players], ())
        for name, (label, players) in zip(names, given_runs, strict=True)
    ]
    labels = player_labels(outlines)
    shown = [labels[each.name].get(player, player) for each in outlines for player, _ in each.plays]
    assert len({*shown}) == len(shown)


def test_labels_are_shown_everywhere_and_settings_that_differ_are_listed():
    def run(value):
        return dataclasses.replace(
            small_run("toy", (MODELS[0], "oracle")), settings={"decoding": value, "run_dir": value}
        )

    labels = {name: {MODELS[0]: f"{MODELS[0]} ({name})"} for name in ("a", "b")}
    pages = site_of({"a": ("toy", run("x")), "b": ("toy", run("y"))}, labels)
    assert {player_file(f"{MODELS[0]} ({name})") for name in labels} <= {*pages}
    suite = pages["suite-toy.html"]
    assert "Settings that differ" in suite and "run_dir" not in suite
    assert settings_table({}) is None


# --- games -----------------------------------------------------------------------------------------------------------


def test_decisive_turns_are_the_first_the_last_those_that_lost_or_cost_and_the_first_that_was_not_read():
    def step(regret=0.0, lost=False, decoded="x"):
        return StepView((), "", "", decoded, "", regret=regret, lost=lost)

    steps = (step(), step(2.0), step(1.0), step(3.0), step(), step(lost=True), step(decoded=None), step(), step())
    found = decisive_turns(EpisodeView(steps))
    assert [*found] == [0, 1, 3, 5, 6, 8]
    assert "no longer be won" in found[5] and "cost 3 steps" in found[3] and "no answer" in found[6]
    assert decisive_turns(EpisodeView(())) == {}
    assert decisive_turns(EpisodeView((step(),))) == {0: "the first turn; the last turn"}


def test_long_texts_are_cut_and_counts_are_told():
    turn = {"prompt": [{"role": "user", "parts": [{"text": "x" * 7000, "picture": None}]}], "finish": "stop"}
    turn |= dict.fromkeys(("reasoning", "reply"), "r") | {"action": None, "rule": "none"}
    turn |= {"prompt_tokens": 1234, "completion_tokens": 5}
    names = ("suite", "task", "level", "mode", "index", "repeat", "player", "episode_id", "seed")
    row = dict.fromkeys(names, 1) | dict.fromkeys(("status", "error", "success", "steps", "budget")) | {"turns": [turn]}
    [step] = episode_parts(Shown(row, "lost", default_view(row)), Album())["steps"]
    [part] = step["messages"][0]["parts"]
    assert part["text"].startswith("x" * 6000 + "\n[1,000 more")
    assert ("tokens", "1,234 prompt, 5 completion") in step["facts"] and ("decoded", "nothing") in step["facts"]


def test_a_very_wide_picture_keeps_a_line_of_pixels(monkeypatch):
    monkeypatch.setattr(pictures, "render_description", lambda description: ("toy", np.zeros((1, 4000, 3), np.uint8)))
    shown = Album().show("a line")
    assert (shown.width, shown.height, shown.obstacle) == (360, 1, "")


# --- what pages say --------------------------------------------------------------------------------------------------


class Said(HTMLParser):
    """What a page says, a line for each row of a table and each text; pictures of scores by the numbers of their style."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.hidden = [""], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.hidden += tag in ("style", "script")
        if tag in ("tr", "p", "h1", "h2", "h3", "li", "summary", "dt", "table", "section", "details"):
            self.lines.append("")
        if tag in ("td", "th", "dd"):
            self.lines[-1] += " | "
        shown = [given[name] for name in ("href", "style", "title") if given.get(name)]
        self.lines[-1] += "".join(f" <{each}>" for each in shown)

    def handle_endtag(self, tag):
        self.hidden -= tag in ("style", "script")

    def handle_data(self, data):
        if not self.hidden:
            self.lines[-1] += f" {' '.join(data.split())}" if data.strip() else ""

    def __str__(self):
        return "\n".join(line.strip() for line in self.lines if line.strip())


def test_the_pages_of_a_small_site_say_what_is_on_record():
    health = ReplyHealth(9, 11, Counter({"cut off": 2, "empty": 3}), Counter({"cut off": 1}))
    won, lost = [1] * 12 + [0] * 8, [0] * 12 + [1] * 8
    first = [
        entry("Ann", won, run="one", done=18, failed=2, health=health, cost=0.5, seconds=41.0),
        entry("random", [1] * 5 + [0] * 15, run="one", reference="chance (random)"),
        entry("oracle", [1] * 20, run="one", reference="perfect play (oracle)"),
        entry("Ann", [1, 1, 0], games="others", run="one", suite="other", planned=7),
    ]
    second = [entry("bob", lost, run="two", seconds=4.0), entry("bob", [1] * 20, games="h", run="two")]
    tables = [
        Table("toy_success", "Toy", ("player", "x"), (("Ann", 1), ("random", 2), ("oracle", 3)), headline=True),
        Table("toy_more", "More", ("player", "x"), (("Ann", 4),)),
        Table("toy_published_Ann", "Beside", ("x",), ((5,),), headline=True),
    ]
    of_bob = [Table("toy_success", "Toy", ("player", "x"), (("bob", 6),), headline=True)]
    sessions = [{"id": "s", "began": "2030-01-02T03:04:05+00:00", "vllm": "1.0"}]
    site = Site("All games", "CC BY 4.0", MADE, titles={"toy": "Toy & co", "other": "Other"})
    site.add(RunPart("one", {"decoding": "free", "run_dir": "x"}, sessions, first, {"toy": tables, "other": []}))
    site.add(RunPart("two", {"decoding": "choice"}, (), second, {"toy": of_bob}))
    pages = dict(site.pages([games_file("Ann", "toy")]))
    assert [*pages] == ["suite-other.html", "suite-toy.html", player_file("Ann"), "player-bob.html", "index.html"]
    version = importlib.metadata.version("raycade")
    said = "\n\n".join(f"=== {name}\n{Said(text)}" for name, text in pages.items())
    check_golden("site", said.replace(version, "VERSION"))


def test_a_game_is_told_with_all_its_facts_and_how_many_turns_are_left_out():
    run = run_of(ToySuite(episodes=2, turns=5), {"m": Often(0.0), "oracle": BUILT_IN_PLAYERS["oracle"]})
    [game] = games_of(run, ToySuite(), {"oracle"})["m"]
    assert [(step["number"], step["of"], step["skipped"]) for step in game["steps"]] == [(1, 10, 0), (10, 10, 8)]
    assert game["title"] == "task colors · level easy · mode zero_shot · index 0 · repeat 0"
    assert [step["reason"] for step in game["steps"]] == ["the first turn", "the last turn"]
    row = run.find([game["id"].split("-")[1]])[0]
    step = StepView(
        (), "B", "hm", "B", "tag", {"x": True, "y": ["a", 0.123456]}, "A", 2.0, after=None, remaining=("A", "C"),
        probabilities={"A": 0.75, "B": 0.25},
    )  # fmt: skip
    shown = Shown({**row, "turns": row["turns"][:1]}, "lost", EpisodeView((step,), {"none": None, "won": False}))
    parts = episode_parts(shown, Album())
    assert parts["facts"] == [("episode", row["episode_id"]), ("seed", str(row["seed"])), ("won", "no")]
    assert (
        parts["title"] == "toy · colors · level easy · zero_shot · index 0 · repeat 0 · m" and parts["ending"] == "lost"
    )
    assert parts["steps"][0]["facts"] == [
        *(("decoded", "B"), ("by the rule", "tag"), ("reply ended by", "stop"), ("tokens", "0 prompt, 0 completion")),
        *(("perfect play", "A"), ("regret", "2"), ("still possible", "A, C"), ("probabilities", "A: 0.75, B: 0.25")),
        *(("x", "yes"), ("y", "a, 0.1235")),
    ]
    gone = dataclasses.replace(step, lost=True)
    facts = dict(episode_parts(dataclasses.replace(shown, view=EpisodeView((gone,))), Album())["steps"][0]["facts"])
    assert facts["regret"] == "the game is lost"
