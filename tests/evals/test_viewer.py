"""The viewer's server: who is let in, what it lists and opens, and what it does with damaged, new and merged parts."""

import dataclasses
import io
import json
import math
import re
import shutil
import threading
import time
from types import SimpleNamespace, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient as AnyClient

from cluster.live.writer import GrowingLog
from cluster.storage.lock import RunLock
from cluster.storage.stored_run import Run
from envs.picture import picture_from_description
from evals.archive.chunks import read_chunk
from evals.archive.export import export
from evals.conversation import Record
from evals.ledger.parts import Damage, LedgerDamagedError, write_part
from evals.ledger.records import plan_to_table, records_to_table
from evals.live import Began, Ended, Numbers, PlayedLine
from evals.notes.web import ViewerNotes
from evals.suites.kidgym import rerender_episode
from evals.types import Episode, Outcome
from evals.viewer import cache, index, runs, schema, server
from evals.viewer import episode as of_episode
from evals.viewer.episode import show_episode, stored_row, whole
from evals.viewer.filters import CAUSE, filter_of
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun, arrivals, read_plan, unread_parts
from evals.viewer.schema.typescript import typescript
from evals.viewer.search import SEARCHES_KEPT, Search, TextSearches, places_with
from evals.viewer.server import STATIC, Viewer, make_app
from tests.viewer_runs import HOSTILE, add_part, calm_rows, hostile_rows, small_suite, viewed, write_run

TOKEN = "the-token"


def TestClient(app, **more):  # noqa: N802 - addresses this machine by a name that the viewer knows
    return AnyClient(app, **{"base_url": "http://localhost", **more})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "calm", *calm_rows())
    write_run(folder / "wild", *hostile_rows())
    return folder


def open_viewer(*paths):
    viewer = Viewer(EpisodeIndex([viewed(path) for path in paths]))
    viewer.refresh()
    return viewer


def client_of(viewer, more=()):
    """Asks as a browser does: what it has kept is shown again where the server says that it still holds."""
    client = TestClient(make_app(viewer, TOKEN, more=more), headers={"cookie": f"raycade={TOKEN}"})
    has = {}

    def ask(path, **given):
        address = (path, str(given))
        tag = has[address].headers["etag"] if address in has else ""
        answer = client.get(f"/api/{path}", params=given, headers={"if-none-match": tag})
        if answer.status_code == 304:
            return has[address]
        if "etag" in answer.headers:
            has[address] = answer
        return answer

    return ask


@pytest.fixture(scope="module")
def ask(folder):
    return client_of(open_viewer(folder / "calm", folder / "wild"))


def listed(ask, **given):
    answer = ask("episodes", count=500, **given).json()
    assert len(answer["rows"]) == answer["total"]
    return answer["rows"]


def one(ask, **given):
    return listed(ask, **given)[0]


def opened(ask, row, **given):
    answer = ask("episode", at=f"{row['run']}/{row['episode_id']}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def conforms(value, hint, path="answer"):
    """See that a JSON value is what a type of the schema says, and nothing more."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        assert value.keys() <= hints.keys(), f"{path}: {value.keys() - hints.keys()}"
        for name, each in hints.items():
            is_optional = get_origin(each) is NotRequired
            assert is_optional or name in value, f"{path}: no {name}"
            if name in value:
                conforms(value[name], get_args(each)[0] if is_optional else each, f"{path}.{name}")
    elif origin in (Union, UnionType):
        kinds = [each for each in inner if (value is None) == (each is type(None))]
        if isinstance(value, dict) and len(kinds) > 1:
            kinds = [each for each in kinds if value.keys() == get_type_hints(each).keys()]
        assert kinds, f"{path}: {value!r} is none of {inner}"
        conforms(value, kinds[0], path)
    elif origin is list:
        for number, each in enumerate(value):
            conforms(each, inner[0], f"{path}[{number}]")
    elif origin is dict:
        for name, each in value.items():
            conforms(each, inner[1], f"{path}[{name!r}]")
    elif origin is Literal:
        assert value in inner, f"{path}: {value!r}"
    elif hint is not Any:
        kinds = (int, float) if hint is float else hint
        is_number_only = isinstance(value, bool) and hint is not bool
        assert isinstance(value, kinds) and not is_number_only, f"{path}: {value!r} is no {hint}"


def test_the_page_s_types_are_those_of_the_schema():
    made = (STATIC.parent / "frontend" / "src" / "schema.ts").read_text(encoding="utf-8")
    assert made == typescript(), "python -m evals.viewer.schema > evals/viewer/frontend/src/schema.ts"


@pytest.mark.slow
def test_answers_and_files_are_what_the_schema_says(ask, folder, tmp_path):
    answers = {
        **{"state": schema.runs.State, "values": schema.runs.Values, "episodes": schema.runs.Page},
        **{"cells": list[schema.runs.Cell], "causes": list[schema.runs.Cause]},
    }
    for path, hint in answers.items():
        conforms(ask(path).json(), hint, path)
    conforms(ask("results").json(), schema.results.Results)
    conforms(ask("results", baseline="hostile").json(), schema.results.Results)
    conforms(ask("compare", first="hostile", second="chance (random)").json(), schema.results.Comparison)
    versus = {"versus": "hostile", "versus_run": "wild", "text": "let me think"}
    conforms(ask("episodes", **versus).json(), schema.runs.Page)
    for row in listed(ask):
        conforms(opened(ask, row), schema.episode.Episode, row["suite"])
    index = EpisodeIndex([viewed(folder / "calm")])
    index.refresh()
    export(index, [{}], tmp_path / "pages")
    conforms(read_chunk(tmp_path / "pages" / "data" / "columns.js")[0], schema.export.Columns)
    conforms(read_chunk(tmp_path / "pages" / "data" / "results.js")[0], schema.export.Stored)
    for episode in read_chunk(tmp_path / "pages" / "data" / "episodes-0.js")[0]["episodes"]:
        conforms(episode, schema.episode.Shown)


# --- who is let in ---------------------------------------------------------------------------------------------------


def test_only_who_has_the_token_is_let_in(folder):
    viewer = open_viewer(folder / "calm")
    app = make_app(viewer, TOKEN)
    stranger = TestClient(app)
    for path in (
        "/",
        "/api/state",
        "/api/episodes",
        "/static/main.js",
        "/?token=wrong",
        "/?token=",
        "/api/state?token=é",
    ):
        assert stranger.get(path).status_code == 403
    assert TestClient(app, headers={"cookie": "raycade=wrong"}).get("/api/state").status_code == 403
    client = TestClient(app)
    first = client.get(f"/?token={TOKEN}&suite=kumo&suite=kidgym", follow_redirects=False)
    assert (
        first.status_code == 303
        and TOKEN not in first.headers["location"]
        and "suite=kumo" in first.headers["location"]
    )
    assert (
        "httponly" in first.headers["set-cookie"].lower() and "samesite=strict" in first.headers["set-cookie"].lower()
    )
    assert client.get("/api/state").status_code == 200
    assert TestClient(make_app(viewer, "")).get("/api/state").status_code == 200


def test_every_answer_forbids_foreign_and_inline_code(folder):
    client = TestClient(make_app(open_viewer(folder / "calm"), TOKEN), headers={"cookie": f"raycade={TOKEN}"})
    for path in ("/", "/api/state", "/api/episode", "/static/main.js", "/nowhere"):
        headers = client.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
    page = client.get("/").text
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", page)


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_list_holds_every_episode_and_pages_through_them(ask):
    rows = listed(ask)
    planned = len(calm_rows()[0]) + len(hostile_rows()[0])
    assert len({(row["run"], row["episode_id"]) for row in rows}) == len(rows) == planned
    pages = [ask("episodes", **{"from": start, "count": 7}).json() for start in range(0, planned, 7)]
    assert [row for page in pages for row in page["rows"]] == rows
    assert {page["total"] for page in pages} == {planned}


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"suite": "kumo"}, lambda row: row["suite"] == "kumo"),
        (
            {"suite": ["kumo", "kidgym"], "player": "oracle"},
            lambda row: row["suite"] != "multistar" and row["player"] == "oracle",
        ),
        ({"run": "wild", "task": "CL"}, lambda row: row["run"] == "wild" and row["task"] == "CL"),
        ({"run": "nowhere"}, lambda row: False),
        ({"won": "1"}, lambda row: row["success"]),
        ({"lost": "1"}, lambda row: row["status"] == "done" and not row["success"]),
        ({"status": "failed"}, lambda row: row["status"] == "failed"),
        ({"error_kind": "endpoint"}, lambda row: row["error_kind"] == "endpoint"),
        ({"cut_off": "1"}, lambda row: row["cut_off"] > 0),
        ({"min_steps": "3"}, lambda row: row["steps"] is not None and row["steps"] >= 3),
        (
            {"max_steps": "3", "min_completion_tokens": "1"},
            lambda row: row["steps"] and row["steps"] <= 3 and row["completion_tokens"],
        ),
        ({"level": "easy' OR 1=1 --"}, lambda row: False),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_filters_keep_what_fits_and_nothing_else(ask, given, fits):
    everything = listed(ask)
    assert listed(ask, **given) == [row for row in everything if fits(row)]


def test_an_id_s_beginning_finds_its_episode(ask):
    row = listed(ask)[5]
    assert row in listed(ask, id=row["episode_id"][:12])
    assert {found["episode_id"] for found in listed(ask, id=row["episode_id"][:12])} == {row["episode_id"]}


@pytest.mark.parametrize("column", ["steps", "seconds", "task", "success"])
def test_rows_are_sorted_both_ways_with_unknown_values_last(ask, column):
    for sort, down in ((column, False), (f"-{column}", True)):
        values = [row[column] for row in listed(ask, sort=sort)]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=down)
        assert values == known + [None] * (len(values) - len(known))


@pytest.mark.parametrize(
    "given",
    [
        *({"sort": "turns"}, {"sort": "steps; DROP TABLE episodes"}, {"min_steps": "many"}, {"from": "-1"}),
        *({"min_color": "3"}, {"max_run": "0"}, {"mid_steps": "1"}, {"min_": "1"}),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(ask, given):
    answer = ask("episodes", **given)
    assert answer.status_code == 400 and next(iter(given)) in answer.json()["error"]


def test_cells_count_what_was_planned_played_won_and_failed(ask):
    cells = ask("cells", suite="kumo", task="nothing").json()  # a choice of cells does not narrow them
    rows = listed(ask)
    assert sum(cell["played"] for cell in cells) == sum(cell["planned"] for cell in cells) == len(rows)
    for cell in cells:
        here = [
            row
            for row in rows
            if all(row[name] == cell[name] for name in ("run", "suite", "task", "level", "mode", "player"))
        ]
        assert cell["played"] == len(here)
        assert cell["won"] == sum(bool(row["success"]) for row in here)
        assert cell["failed"] == sum(row["status"] == "failed" for row in here)
    assert {cell["player"] for cell in ask("cells", player="oracle").json()} == {"oracle"}


def test_failures_are_grouped_by_cause_whatever_numbers_they_name(ask):
    (cause,) = ask("causes").json()
    failed = listed(ask, status="failed")
    assert len({row["error"] for row in failed}) > 1
    assert cause["count"] == len(failed) == 2 and cause["error_kind"] == "endpoint" and cause["players"] == ["hostile"]
    assert {row["episode_id"] for row in cause["episodes"]} == {row["episode_id"] for row in failed}
    assert listed(ask, cause=cause["cause"]) == failed
    assert listed(ask, cause="another") == []


def test_of_many_failures_with_one_cause_some_are_shown(tmp_path):
    plan = [Episode("toy", "colors", "easy", "icl", index, 0, index, "", 1, player="p") for index in range(25)]
    records = [Record(each, None, f"PlayerError: lost after {each.index} s", (), 0.5) for each in plan]
    ask = client_of(open_viewer(write_run(tmp_path / "run", plan, records_to_table(records, {}))))
    [cause] = ask("causes").json()
    assert (cause["count"], cause["cause"]) == (25, "PlayerError: lost after # s")
    assert [row["index"] for row in cause["episodes"]] == [*range(20)]


@pytest.mark.parametrize(
    ("errors", "cause"),
    [
        (
            ("timeout after 17 s", "timeout after 3.5 s", "timeout after 1,200 s", "timeout after 10:30 s"),
            "timeout after # s",
        ),
        (("object at 0x7f3a", "object at 0x12", "object at 99"), "object at #"),
        (("request deadbeefdeadbeef lost", "request 0123456789abcdef0123 lost", "request 7 lost"), "request # lost"),
        (("a bad face", "a bad face"), "a bad face"),
        (("deadbeefdeadbee", "deadbeefdeadbee"), "deadbeefdeadbee"),
        (("GPU0: out of memory, 3.2.1 GiB", "GPU1: out of memory, 4 GiB"), "GPU#: out of memory, # GiB"),
        (("", ""), ""),
    ],
)
def test_a_cause_is_what_remains_without_numbers_addresses_and_ids(errors, cause):
    for error in errors:
        assert duckdb.execute(f"SELECT {CAUSE} FROM (SELECT ? AS error)", [error]).fetchone() == (cause,)


def test_values_to_choose_from_come_with_their_counts(ask):
    values, rows = ask("values").json(), listed(ask)
    for name in ("run", "suite", "task", "player", "status"):
        assert values[name] == {value: sum(row[name] == value for row in rows) for value in {row[name] for row in rows}}


@pytest.mark.parametrize("flipped", ["", "1"])
def test_games_that_another_player_won_or_lost_are_found_with_its_episode(ask, flipped):
    game = ("suite", "task", "level", "mode", "index", "repeat", "seed")
    others = {tuple(row[name] for name in game): row for row in listed(ask, player="oracle")}
    found = listed(ask, versus="oracle", versus_run="calm", flipped=flipped)
    expected = [
        row
        for row in listed(ask)
        if (other := others[tuple(row[name] for name in game)])["id"] != row["id"]
        and (not flipped or row["success"] != other["success"])
    ]
    assert [row["id"] for row in found] == [row["id"] for row in expected] and len(found) > 0
    for row in found:
        other = others[tuple(row[name] for name in game)]
        assert row["other"].items() <= other.items() and row["other"]["episode_id"] == other["episode_id"]


def test_of_another_player_the_latest_attempt_alone_is_compared():
    columns = [
        "latest BOOL",
        "suite TEXT",
        "task TEXT",
        "level TEXT",
        '"index" INT',
        "seed BIGINT",
        "mode TEXT",
        "repeat INT",
    ]
    database = duckdb.connect()
    database.execute(f"CREATE TABLE episodes (id INT, run INT, player TEXT, success BOOL, {', '.join(columns)})")
    for attempt in (("me", True, True), ("you", False, False), ("you", True, True)):
        place = database.execute("SELECT count(*) FROM episodes").fetchone()[0]
        database.execute("INSERT INTO episodes VALUES (?, 0, ?, ?, ?, 's', 't', '1', 0, 7, 'm', 0)", [place, *attempt])
    for flipped, found in (("", 1), ("1", 0)):
        given = [("player", "me"), ("versus", "you"), ("versus_run", "r"), ("flipped", flipped)]
        where, values = filter_of(given).clause(lambda run: 0)
        assert len(database.execute(f"SELECT id FROM episodes WHERE {where}", list(values)).fetchall()) == found
    assert filter_of([("player", ""), ("min_steps", ""), ("text", "")]) == filter_of([]), "fields that are left empty"


# --- text ------------------------------------------------------------------------------------------------------------


def found_by_text(ask, text, **given):
    for _ in range(200):
        answer = ask("episodes", text=text, count=500, **given).json()
        if not answer["search"]["running"]:
            assert answer["search"]["searched"] == answer["search"]["of"]
            return {row["episode_id"] for row in answer["rows"]}
        time.sleep(0.02)
    raise AssertionError("the search does not end")


def texts_of(row):
    for turn in row["turns"]:
        yield from (turn["reply"], turn["reasoning"])
        yield from (part["text"] or "" for message in turn["prompt"] for part in message["parts"])


def test_outcomes_of_the_same_games_count_what_the_filters_find(ask):
    found = ask("compare", first="hostile", second="perfect play (oracle)").json()
    for suite in found["suites"]:
        first, second = suite["first"], suite["second"]
        given = {**{"run": first["run"], "player": first["player"], "suite": suite["suite"]}}
        given |= {"versus_run": second["run"], "versus": second["player"]}
        for cell in suite["outcomes"]:
            of_cell = {name: cell[name] for name in ("task", "level", "mode")}
            for name, mine, theirs in (
                *(("both", "won", "won"), ("first", "won", "not won")),
                *(("second", "not_won", "won"), ("neither", "not_won", "not won")),
            ):
                answer = ask("episodes", **given, **of_cell, **{mine: "1"}, versus_outcome=theirs).json()
                assert answer["total"] == cell[name], (suite["suite"], cell, name)


def test_results_say_which_run_cannot_be_read_and_which_rows_there_are(tmp_path):
    write_run(tmp_path / "calm", *calm_rows())
    broken = viewed(write_run(tmp_path / "wild", *hostile_rows()))
    broken.data = lambda: 1 / 0
    viewer = Viewer(EpisodeIndex([broken, viewed(tmp_path / "calm")]))  # a sound run after it takes nothing back
    viewer.refresh()
    ask = client_of(viewer)
    found = ask("results").json()
    assert found["trouble"] == ["wild: ZeroDivisionError: division by zero"]
    assert {row["name"] for row in found["rows"]} == {"chance (random)", "perfect play (oracle)"}
    for path, given in (("results", {"baseline": "nobody"}), ("compare", {"first": "nobody"})):
        answer = ask(path, **given)
        assert answer.status_code == 400 and "'nobody'; there are chance (random)" in answer.json()["error"]
    broken.data = viewed(broken.path).data
    found = ask("results").json()
    assert found["trouble"] == [] and "wild" in {cell["run"] for row in found["rows"] for cell in row["cells"] if cell}


def test_results_grow_with_the_ledger_but_not_at_every_look(tmp_path, monkeypatch):
    plan, rows = calm_rows()
    half = len(rows) // 2
    path = write_run(tmp_path / "run", plan, rows.slice(0, half))
    viewer = open_viewer(path)
    ask = client_of(viewer)

    def played():
        found = ask("results").json()["rows"]
        return sum(cell["played"] for row in found for cell in row["cells"] if cell)

    monkeypatch.setattr("evals.viewer.results.PAUSE", 1e9)
    assert played() == half
    add_part(path, 2, rows.slice(half))
    viewer.refresh()
    assert played() == half, "it was read just now"
    monkeypatch.setattr("evals.viewer.results.time", SimpleNamespace(monotonic=lambda: 1e18))
    assert played() == len(rows)


def test_a_growing_run_is_read_again_after_ten_times_what_reading_it_took(tmp_path, monkeypatch):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 4))
    viewer, clock, took = open_viewer(path), [100.0], [2.0]
    read = viewer.results._reader.read

    def slowly(*given, **named):
        clock[0] += took[0]
        return read(*given, **named)

    monkeypatch.setattr(viewer.results._reader, "read", slowly)
    monkeypatch.setattr("evals.viewer.results.time", SimpleNamespace(monotonic=lambda: clock[0]))
    viewer.results.names()
    seen = []
    for number, at in enumerate((121.9, 122.0, 123.0), 2):
        clock[0] = at
        add_part(path, number, rows.slice(2 + number, 1))
        viewer.refresh()
        viewer.results.names()
        seen.append(clock[0])
    assert seen == [121.9, 124.0, 123.0], "again from 122, and then not before 144"


@pytest.mark.parametrize(
    "text",
    ["ALL WORK and no", "guidebook", "window.hacked", "let me think.", "put the item", "nowhere at all", "%", "' OR '"],
)
def test_text_is_found_in_prompts_replies_and_reasoning(ask, text):
    rows = [row for _, table in (calm_rows(), hostile_rows()) for row in table.to_pylist()]
    expected = {row["episode_id"] for row in rows if any(text.lower() in each.lower() for each in texts_of(row))}
    assert found_by_text(ask, text) == expected
    kumo = {row["episode_id"] for row in rows if row["suite"] == "kumo"}
    assert found_by_text(ask, text, suite="kumo") == expected & kumo


def test_a_search_goes_on_with_new_parts_and_of_many_the_oldest_is_forgotten(tmp_path, monkeypatch):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 5))
    listing = EpisodeIndex([viewed(path)])
    listing.refresh()
    looked = []
    monkeypatch.setattr(
        "evals.viewer.search.places_with",
        lambda part, text: looked.append((part.name[:11], text)) or places_with(part, text),
    )
    searches = TextSearches(listing)

    def searched(text):
        found = searches.of(text)
        found.thread.join()
        return found, listing.page(filter_of([]), found.number, "", 0, 500)["total"]

    def having(text, table):
        return sum(any(text.lower() in each.lower() for each in texts_of(row)) for row in table.to_pylist())

    first, count = searched("THE")
    assert count == having("the", rows.slice(0, 5)) > 0 and (len(first.parts), first.total) == (1, 1)
    add_part(path, 2, rows.slice(5))
    listing.refresh()
    again, count = searched("THE")
    assert again is first and count == having("the", rows) and (len(first.parts), first.total) == (2, 2)
    assert looked == [("part-000001", "THE"), ("part-000002", "THE")], "each part once"
    for number in range(SEARCHES_KEPT - 1):
        searched(f"text {number}")
    assert searches.of("THE") is first and not searches.running and searches.of("") is None
    searched("one more")
    assert not first.stopped, "it was asked for after the others"
    others = [searched(f"other {number}")[0] for number in range(SEARCHES_KEPT)]
    assert first.stopped and not any(each.stopped for each in others)
    assert listing.page(filter_of([]), first.number, "", 0, 500)["total"] == 0
    anew, count = searched("THE")
    assert anew.number > others[-1].number and count == having("the", rows)
    add_part(path, 3, rows, [f"part-00000{number}-test.parquet" for number in (1, 2)])
    listing.refresh()
    merged, count = searched("THE")
    assert merged is anew and count == having("the", rows)
    assert [len(merged.parts), merged.total] == [1, 1], "parts that were merged into it are gone"


def test_a_search_that_is_stopped_forgets_what_it_found(monkeypatch):
    told = []
    searches = TextSearches(
        SimpleNamespace(
            ledger_parts=lambda: [("one", 1), ("two", 2)],
            ids_of=lambda part, places: [part],
            add_hits=lambda number, ids: told.append((number, ids)),
            drop_hits=lambda number: told.append((number, "dropped")),
        )
    )

    def places_with(path, text):
        searches._searches[text].stopped = True
        return np.zeros(1, np.int64)

    monkeypatch.setattr("evals.viewer.search.places_with", places_with)
    found = searches.of("x")
    found.thread.join()
    assert told == [(1, [1]), (1, "dropped")] and not found.running and found.parts == {1}


def test_an_answer_has_a_bounded_number_of_rows(ask, monkeypatch):
    monkeypatch.setattr("evals.viewer.server.MOST_ROWS", 3)
    assert len(ask("episodes", count=1_000_000).json()["rows"]) == 3


def test_rows_and_texts_are_found_in_every_row_group_of_a_part(tmp_path, monkeypatch):
    monkeypatch.setattr("evals.viewer.episode.ROWS_AT_ONCE", 2)
    _, rows = hostile_rows()
    part = tmp_path / "part.parquet"
    part.write_bytes(write_part([rows.slice(0, 3), rows.slice(3, 0), rows.slice(3)], rows.schema))
    expected = [
        place
        for place, row in enumerate(rows.to_pylist())
        if any("let me think." in text.lower() for text in texts_of(row))
    ]
    assert places_with(part, "let me think.").tolist() == expected and max(expected) > 3
    for place in (0, 3, len(rows) - 1):
        assert stored_row(part, place) == rows.slice(place, 1).to_pylist()[0]


# --- one episode -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suite", ["kumo", "kidgym", "multistar"])
def test_an_opened_episode_is_the_stored_one_with_its_suite_s_view(ask, suite):
    row = one(ask, suite=suite, player="oracle")
    shown = opened(ask, row, suite=suite, player="oracle")
    (stored,) = [each for each in calm_rows()[1].to_pylist() if each["episode_id"] == row["episode_id"]]
    assert not shown["notice"]
    assert [step["reply"] for step in shown["steps"]] == [turn["reply"] for turn in stored["turns"]]
    assert all(step["decoded"] == step["best"] and not step["lost"] for step in shown["steps"])
    assert shown["place"]["position"] == 0 and shown["place"]["total"] == len(listed(ask, suite=suite, player="oracle"))
    assert shown["row"]["seed"] == str(stored["seed"])
    assert json.loads(ask("raw", at=f"calm/{row['episode_id']}").text)["row"]["seed"] == stored["seed"]


@pytest.mark.slow
def test_neighbors_are_those_of_the_filtered_and_sorted_list(ask):
    rows = listed(ask, suite="kidgym", sort="-seconds")
    for before, row, after in zip([None, *rows], rows, [*rows[1:], None], strict=False):
        place = opened(ask, row, suite="kidgym", sort="-seconds")["place"]
        assert (place["before"], place["after"]) == (before, after)
    assert opened(ask, rows[0], suite="kumo")["place"]["position"] is None


def test_the_same_game_is_found_in_other_runs_and_of_other_players(ask):
    row = one(ask, suite="kumo", player="random")
    same = opened(ask, row)["same_game"]
    expected = [each for each in listed(ask, suite="kumo") if each["index"] == row["index"] and each["id"] != row["id"]]
    assert sorted(each["id"] for each in same) == sorted(each["id"] for each in expected)
    assert {(each["run"], each["player"]) for each in same} == {
        ("calm", "random"),
        ("calm", "oracle"),
        ("wild", "hostile"),
    }
    assert same[0]["repeat"] == row["repeat"]
    here = [each["run"] == row["run"] for each in same]
    assert here == sorted(here, reverse=True), "those of this run stand before other runs'"


def test_episodes_that_were_opened_last_are_kept(tmp_path, monkeypatch):
    plan, rows = calm_rows()
    runs = [viewed(write_run(tmp_path / name, plan, rows.slice(0, 3))) for name in ("one", "two")]
    add_part(runs[0].path, 2, with_columns(rows.slice(0, 1), attempt=[2]))
    listing = EpisodeIndex(runs)
    listing.refresh()
    read = []
    monkeypatch.setattr(of_episode, "EPISODES_KEPT", 2)
    monkeypatch.setattr(of_episode, "stored_row", lambda *place: read.append(place) or stored_row(*place))
    episodes = of_episode.Episodes(listing)

    def opened_anew(run, number, attempt=None):
        before = len(read)
        row = listing.find(runs[run].name, plan[number].id, attempt)
        assert episodes.open(runs[run], row)["row"]["episode_id"] == plan[number].id
        return len(read) > before

    assert [opened_anew(*each) for each in [(0, 1), (0, 2), (0, 1), (1, 1)]] == [True, True, False, True]
    assert [opened_anew(*each) for each in [(0, 1), (0, 2)]] == [False, True], (
        "what was opened longest ago was given up"
    )
    assert [opened_anew(0, 0, attempt) for attempt in (1, 2, 1, None)] == [True, True, False, False]


def test_an_episode_that_was_opened_is_not_read_again(folder):
    viewer = open_viewer(folder / "calm")
    rows = [viewer.index.find("calm", name) for name in viewer.index.table()["episode_id"].to_pylist()[:8]]
    opened = [viewer.episodes.open(viewer.index.runs[0], row) for row in rows]
    assert len({id(each) for each in opened}) == 8
    assert all(viewer.episodes.open(viewer.index.runs[0], row) is each for row, each in zip(rows, opened, strict=True))


def test_of_the_same_game_those_of_the_run_then_of_the_mode_then_of_the_repeat_come_first(tmp_path):
    def episodes(player):
        return [
            Episode("toy", "colors", "easy", mode, index, repeat, 7 + index, "", 1, player=player)
            for index in (0, 1)
            for mode in ("cot", "icl")
            for repeat in (1, 0)
        ]

    runs = []
    for name, players in (("one", "p"), ("two", "pq")):
        plan = [each for player in players for each in episodes(player)]
        rows = records_to_table([Record(each, Outcome(True, 1), "", (), 0.5) for each in plan], {})
        runs.append(viewed(write_run(tmp_path / name, plan, rows)))
    listing = EpisodeIndex(runs)
    listing.refresh()
    row = listing.find("two", Episode("toy", "colors", "easy", "icl", 1, 0, 8, "", 1, player="p").id)
    same = [(each["run"], each["mode"], each["repeat"], each["player"]) for each in listing.same_game(row)]
    assert same == [
        *(("two", "icl", 0, "q"), ("two", "icl", 1, "p"), ("two", "icl", 1, "q")),
        *(("two", "cot", 0, "p"), ("two", "cot", 0, "q"), ("two", "cot", 1, "p"), ("two", "cot", 1, "q")),
        *(("one", "icl", 0, "p"), ("one", "icl", 1, "p"), ("one", "cot", 0, "p"), ("one", "cot", 1, "p")),
    ]


def test_of_many_episodes_of_a_game_those_beside_are_shown_and_a_page_ends(tmp_path):
    plan = [Episode("toy", "colors", "easy", "icl", 0, repeat, 7, "", 1, player="p") for repeat in range(510)]
    rows = records_to_table([Record(each, Outcome(True, 1), "", (), 0.5) for each in plan], {})
    viewer = open_viewer(write_run(tmp_path / "run", plan, rows))
    ask = client_of(viewer)
    page = ask("episodes", count=9_999).json()
    assert (page["total"], [row["repeat"] for row in page["rows"]]) == (510, [*range(500)])
    assert len(ask("episodes", count=3).json()["rows"]) == 3
    row = viewer.index.find("run", plan[4].id)
    assert [each["repeat"] for each in viewer.index.same_game(row)] == [number for number in range(201) if number != 4]


def test_pictures_are_those_that_the_model_got(ask):
    row = one(ask, suite="kidgym", player="random")
    shown = opened(ask, row)
    (stored,) = [each for each in calm_rows()[1].to_pylist() if each["episode_id"] == row["episode_id"]]
    frame = next(step.frame for step in rerender_episode(stored).steps if not step.forced)
    key = next(part["picture"] for part in shown["steps"][0]["shown"][-1]["parts"] if "picture" in part)
    answer = ask(f"picture/{key}", at=f"calm/{row['episode_id']}")
    assert answer.headers["content-type"] == "image/png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(answer.content))), frame.render())
    assert (shown["pictures"][key]["width"], shown["pictures"][key]["height"]) == frame.size
    assert ask("picture/0123", at=f"calm/{row['episode_id']}").status_code == 404
    assert "description" not in shown["pictures"][key]
    raw = ask("raw", at=f"calm/{row['episode_id']}").json()
    assert picture_from_description(raw["pictures"][key]["description"]) == frame


def test_a_step_without_a_picture_after_it_has_none_and_numbers_unknown_to_json_are_null(folder):
    rows = calm_rows()[1].to_pylist()
    after = set()
    for row in (next(row for row in rows if row["suite"] == suite) for suite in ("kumo", "kidgym", "multistar")):
        row["turns"][0] |= {"label_mass": math.nan, "seconds": math.inf}
        shown = json.loads(whole(show_episode(viewed(folder / "calm"), row)))
        assert shown["steps"][0]["label_mass"] is shown["steps"][0]["seconds"] is None
        assert shown["steps"][0]["prompt_tokens"] == row["turns"][0]["prompt_tokens"]
        after |= {step["after"] and type(step["after"]) for step in shown["steps"]}
        assert all(step["after"] is None or step["after"] in shown["pictures"] for step in shown["steps"])
    assert after == {None, str}


def test_what_a_model_wrote_comes_as_it_is_and_as_data(ask):
    shown = opened(ask, one(ask, suite="kumo", player="hostile"))
    assert HOSTILE in shown["steps"][0]["reply"] and HOSTILE in shown["steps"][0]["reasoning"]
    answer = ask("episode", at=f"wild/{shown['row']['episode_id']}")
    assert answer.headers["content-type"].startswith("application/json")


def test_an_episode_of_a_run_that_is_being_read_may_come_yet(folder):
    viewer = Viewer(EpisodeIndex([viewed(folder / "calm")]))
    ask = client_of(viewer)
    missing = "run 'calm' has no episode 'none'"
    assert ask("episode", at="calm/none").json() == {"error": f"{missing} yet"}
    viewer.refresh()
    assert ask("episode", at="calm/none").json() == {"error": missing}


def test_an_unknown_episode_is_not_found(ask):
    for at in ("calm/0123", "nowhere/0123", "", "../../etc/passwd"):
        assert ask("episode", at=at).status_code == 404


def test_an_episode_whose_suite_cannot_be_had_is_shown_as_it_is_stored(tmp_path):
    def missing():
        raise ValueError("no such suite here")

    run = viewed(write_run(tmp_path / "run", *calm_rows()))
    run.suite = missing
    viewer = Viewer(EpisodeIndex([run]))
    viewer.refresh()
    ask = client_of(viewer)
    shown = opened(ask, one(ask, suite="kumo"))
    assert "no such suite here" in shown["notice"] and shown["steps"][0]["reply"]


# --- ledgers that change, or are not whole ---------------------------------------------------------------------------


def states(ask):
    return ask("state").json()["runs"][0]


def with_columns(rows, **columns):
    """The rows with other values in some columns, given for each row."""
    for name, values in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))
    return rows


def test_progress_and_causes_are_what_the_rows_add_up_to(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "EXAMPLES", 2)
    plan, rows = calm_rows()
    numbers = range(len(rows))
    errors = [{0: f"B: by {number} of 7", 1: "C: out"}.get(number % 4, "") for number in numbers]
    errors[2] = "A: by 5 at 0x7f"
    kinds = [{"B": "engine", "C": "model", "A": "engine"}.get(error[:1], "") for error in errors]
    told = {
        **{"error": errors, "error_kind": kinds, "status": ["failed" if error else "done" for error in errors]},
        "success": [None if errors[number] else number % 3 == 1 for number in numbers],
        "cost": [0.5 + number for number in numbers],
    }
    rows = with_columns(rows, **told).slice(0, len(rows) - 3)
    run = viewed(write_run(tmp_path / "run", plan, rows))
    listing = EpisodeIndex([run])
    listing.refresh()
    played = {row["episode_id"]: row for row in rows.to_pylist()}
    keys = ("suite", "task", "level", "mode", "player")
    cells = {}
    for episode in plan:
        cell = tuple(getattr(episode, name) for name in keys)
        row = played.get(episode.id)
        planned, done, failed, won, cost = cells.get(cell, (0, 0, 0, 0, 0.0))
        is_failed = bool(row and row["error"])
        counts = (done + (row is not None and not is_failed), failed + is_failed, won + bool(row and row["success"]))
        cells[cell] = (planned + 1, *counts, cost + (row["cost"] if row else 0))
    names = (*keys, "planned", "done", "failed", "won", "cost")
    assert [tuple(each[name] for name in names) for each in listing.progress()] == [
        (*cell, *sums) for cell, sums in cells.items()
    ], "in the order of the plan"
    done, failed = (sum(each[place] for each in cells.values()) for place in (1, 2))
    [status] = listing.status()
    assert (status["planned"], status["done"], status["failed"]) == (len(plan), done, failed) and listing.is_unfinished(
        run
    )
    of_cause = {kind: [row for row in played.values() if row["error"][:1] == kind] for kind in "BCA"}
    order = sorted(of_cause, key=lambda kind: (-len(of_cause[kind]), kind))
    found = listing.causes(filter_of([]), None)
    assert [(each["cause"], each["error_kind"], each["count"]) for each in found] == [
        (
            {"B": "B: by # of #", "C": "C: out", "A": "A: by # at #"}[kind],
            {"C": "model"}.get(kind, "engine"),
            len(of_cause[kind]),
        )
        for kind in order
    ]
    for each, kind in zip(found, order, strict=True):
        assert each["example"] == min(row["error"] for row in of_cause[kind])
        assert {*each["players"]} == {row["player"] for row in of_cause[kind]}
        own = {row["episode_id"] for row in of_cause[kind]}
        assert len(each["episodes"]) == min(2, len(own)) and {row["episode_id"] for row in each["episodes"]} <= own
    ids = [plan[0].id, plan[-1].id]
    assert listing.attempts(run, ids) == {plan[0].id: 1} and listing.attempts(run, []) == {}


@pytest.mark.parametrize(
    ("writer", "missing", "live"), [("at work", 1, True), ("at work", 0, False), ("gone", 1, False)]
)
def test_a_run_is_live_while_its_driver_works_and_episodes_are_missing(tmp_path, writer, missing, live):
    plan, rows = calm_rows()
    run = viewed(write_run(tmp_path / "run", plan, rows.slice(missing)))
    run.writer = lambda: writer
    listing = EpisodeIndex([run])
    listing.refresh()
    assert listing.status()[0]["live"] is live and listing.is_unfinished(run) is bool(missing)


def test_the_list_takes_in_new_parts_later_attempts_and_merged_parts(tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 4))
    listing = EpisodeIndex([viewed(path)])

    def listed_now():
        assert listing.refresh() and not listing.refresh(), "what was read is not read again"
        table = listing.table().select(["episode_id", "attempt", "success"]).to_pylist()
        return {row["episode_id"]: (row["attempt"], row["success"]) for row in table}, len(table)

    def expected(*tables):
        shown = [row for table in tables for row in table.to_pylist()]
        found = {
            row["episode_id"]: (row["attempt"], row["success"]) for row in sorted(shown, key=lambda row: row["attempt"])
        }
        return found, len(found)

    def attempt(place, number, won):
        return with_columns(rows.slice(place, 1), attempt=[number], success=[won])

    assert listed_now() == expected(rows.slice(0, 4))
    third, second = attempt(1, 3, False), attempt(1, 2, True)
    add_part(path, 2, pa.concat_tables([rows.slice(4, 3), third]))
    assert listed_now() == expected(rows.slice(0, 7), third)
    add_part(path, 3, second)
    assert listed_now() == expected(rows.slice(0, 7), third), "the latest attempt counts, whenever it is read"
    names = [f"part-{number:06d}-test.parquet" for number in (1, 3)]
    add_part(path, 4, pa.concat_tables([rows.slice(0, 4), second]), names)
    assert listed_now() == expected(rows.slice(0, 7), third)
    assert [part.name for part, _ in listing.ledger_parts()] == [
        f"part-00000{number}-test.parquet" for number in (2, 4)
    ]
    one = rows["episode_id"][1].as_py()
    assert listing.find("run", one)["attempts"] == [1, 2, 3]
    assert [listing.find("run", one, number)["attempt"] for number in (1, 2, 3, None)] == [1, 2, 3, 3]
    others = [rows["episode_id"][2].as_py(), rows["episode_id"][len(rows) - 1].as_py()]
    assert listing.attempts(listing.runs[0], [one, *others]) == {one: 3, others[0]: 1}
    fresh = EpisodeIndex([viewed(path)])
    fresh.refresh()
    assert {row["episode_id"]: row["attempt"] for row in fresh.table().to_pylist()} == {
        each: shown[0] for each, shown in expected(rows.slice(0, 7), third)[0].items()
    }


def test_the_attempt_that_was_asked_for_is_opened_though_its_part_was_merged_meanwhile(tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows)
    again = with_columns(rows.slice(0, 1), attempt=[2], success=[True])
    add_part(path, 2, again)
    ask = client_of(open_viewer(path))
    names = [f"part-{number:06d}-test.parquet" for number in (1, 2)]
    add_part(path, 3, pa.concat_tables([rows, again]), names)
    for name in names:
        (path / "episodes" / name).unlink()
    at = f"run/{rows['episode_id'][0].as_py()}"
    assert ask("raw", at=at, attempt=1).json()["row"]["attempt"] == 1


@pytest.mark.slow
def test_new_parts_merged_parts_and_new_attempts_show_up(tmp_path, monkeypatch):
    plan, rows = calm_rows()
    half = len(rows) // 2
    path = write_run(tmp_path / "run", plan, rows.slice(0, half))
    viewer = open_viewer(path)
    ask = client_of(viewer)
    assert len(listed(ask)) == half and states(ask)["planned"] == len(plan)
    version = viewer.index.version
    viewer.refresh()
    assert viewer.index.version == version

    add_part(path, 2, rows.slice(half))
    viewer.refresh()
    assert len(listed(ask)) == len(rows) and viewer.index.version > version

    again = with_columns(rows.slice(0, 1), attempt=[2], success=[True])
    add_part(path, 3, again)
    viewer.refresh()
    row = next(row for row in listed(ask) if row["episode_id"] == again["episode_id"][0].as_py())
    assert len(listed(ask)) == len(rows) and row["attempt"] == 2 and row["success"]
    assert opened(ask, row)["listed"]["attempts"] == [1, 2] and opened(ask, row, attempt=1)["row"]["attempt"] == 1

    names = [f"part-{number:06d}-test.parquet" for number in (1, 2, 3)]
    before = [{**row, "id": 0} for row in listed(ask, sort="episode_id")]
    for at_once in (1, 10**6):  # one that comes later reads the parts the latest first, one by one or together
        monkeypatch.setattr("evals.viewer.runs.ROWS_AT_FIRST", at_once)
        monkeypatch.setattr("evals.viewer.runs.ROWS_AT_ONCE", at_once)
        late = client_of(open_viewer(path))
        assert [{**row, "id": 0} for row in listed(late, sort="episode_id")] == before
    add_part(path, 4, pa.concat_tables([rows, again]), names)
    for name in names:
        (path / "episodes" / name).unlink()
    assert opened(ask, listed(ask)[3])["steps"]  # the part that the list knows is gone
    assert [{**row, "id": 0} for row in listed(ask, sort="episode_id")] == before
    assert not states(ask)["damage"]
    fresh = client_of(open_viewer(path))
    assert [{**row, "id": 0} for row in listed(fresh, sort="episode_id")] == before


def test_a_merged_part_beside_those_that_it_replaces_shows_no_episode_twice(tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows)
    add_part(path, 2, rows, ["part-000001-test.parquet"])
    viewer = open_viewer(path)
    ask = client_of(viewer)
    assert [path.name for path, _ in viewer.index.ledger_parts()] == ["part-000002-test.parquet"]
    assert len(listed(ask)) == states(ask)["done"] == len(rows) and not states(ask)["damage"]
    assert unread_parts(viewer.index.runs[0]) == [], "it is not looked at again and again"


def test_a_run_without_a_plan_is_said_to_have_none(tmp_path):
    path = write_run(tmp_path / "run", *calm_rows())
    (path / "plan.parquet").unlink()
    [damage] = states(client_of(open_viewer(path)))["damage"]
    assert damage.startswith("plan.parquet: ") and "no longer in" not in damage


def test_a_part_of_a_driver_that_had_lost_the_run_is_not_listed_unless_a_later_driver_counts_it(tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 3))
    late = add_part(path, 2, rows.slice(3, 4))
    names = ["part-000001-test.parquet", late.name]
    (path / ".lease-000001").write_text(json.dumps({"nonce": "a", "parts": names[:1]}))
    viewer = open_viewer(path)
    ask = client_of(viewer)
    assert [row["episode_id"] for row in listed(ask)] == rows["episode_id"][:3].to_pylist()
    assert states(ask)["damage"] == [] and states(ask)["waiting"] == 0
    (path / ".lease-000002").write_text(json.dumps({"nonce": "b", "parts": names}))
    viewer.refresh()
    assert {row["episode_id"] for row in listed(ask)} == {*rows["episode_id"][:7].to_pylist()}


def test_damaged_parts_and_rows_of_other_plans_are_named_and_not_listed(tmp_path):
    plan, rows = calm_rows()
    stranger = hostile_rows()[1].slice(0, 3)
    own = rows.filter(pc.equal(rows["player"], "oracle"))
    path = write_run(tmp_path / "run", plan, own.slice(1))
    add_part(path, 2, pa.concat_tables([stranger, own.slice(0, 1), own.slice(0, 1)]))
    (path / "episodes" / "part-000003-test.parquet").write_bytes(b"PAR1 and no more")
    viewer = open_viewer(path)
    ask = client_of(viewer)
    assert {row["player"] for row in listed(ask)} == {"oracle"}
    damage = "\n".join(states(ask)["damage"])
    assert "part-000002" in damage and "not in the plan" in damage and "part-000003" in damage
    assert own["episode_id"][0].as_py() in damage, "a part is named with each of its reasons"
    assert unread_parts(viewer.index.runs[0]) == []  # not read again and again


def test_a_part_that_was_merged_while_it_was_read_keeps_none_back(tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows)
    run = viewed(path)
    paths = [path / "episodes" / f"part-{number:06d}-test.parquet" for number in (9, 1)]
    [found] = arrivals(run, paths, read_plan(run))
    assert found.parts == ("part-000001-test.parquet",) and len(found.rows) == len(rows)
    assert not run.damage and run.waiting == 0


def test_a_part_whose_rows_are_damaged_takes_the_place_of_no_other(tmp_path, monkeypatch):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows)
    merged = add_part(path, 2, rows, ["part-000001-test.parquet"])
    usual = runs._rows

    def rows_of(part):
        if part.path == merged:
            raise LedgerDamagedError([Damage(merged, "a page is damaged")])
        return usual(part)

    monkeypatch.setattr(runs, "_rows", rows_of)
    ask = client_of(open_viewer(path))
    assert len(listed(ask)) == len(rows)
    assert states(ask)["damage"] == ["part-000002-test.parquet: a page is damaged"]


def test_a_run_that_cannot_be_read_hides_no_other(tmp_path, monkeypatch):
    odd, calm = (write_run(tmp_path / name, *calm_rows()) for name in ("odd", "calm"))

    usual = index.arrivals

    def arrivals(run, *others):
        if run.path == odd:
            raise KeyError("whatever")
        return usual(run, *others)

    monkeypatch.setattr(index, "arrivals", arrivals)
    ask = client_of(open_viewer(odd, calm))
    assert len(listed(ask)) == len(calm_rows()[1])
    assert states(ask)["damage"] == ["plan.parquet: KeyError: 'whatever'"]


def test_turns_that_cannot_be_shown_are_told_in_words(tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows)
    ask = client_of(open_viewer(path))
    row = listed(ask)[0]
    place = rows.column_names.index("turns")
    nothing = rows.set_column(place, "turns", pa.nulls(len(rows), rows.schema.field("turns").type))
    part = path / "episodes" / "part-000001-test.parquet"
    part.write_bytes(write_part([nothing], nothing.schema))
    answer = ask("episode", at=f"{row['run']}/{row['episode_id']}")
    assert answer.status_code == 500 and "turns is null" in answer.json()["error"]


def test_each_row_of_a_large_run_arrives_once(tmp_path, monkeypatch):
    monkeypatch.setattr("evals.viewer.runs.ROWS_AT_FIRST", 2)
    monkeypatch.setattr("evals.viewer.runs.ROWS_AT_ONCE", 7)
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 3))
    for number in range(1, len(rows) // 3 + 1):
        add_part(path, number + 1, rows.slice(3 * number, 3))
    run = viewed(path)
    sizes = [len(each.rows) for each in arrivals(run, unread_parts(run), plan_to_table(plan))]
    assert sum(sizes) == len(rows) and sizes[0] <= 3 and {7 <= size <= 9 for size in sizes[1:-1]} == {True}


def test_a_run_without_an_episode_is_shown_as_that(tmp_path):
    plan, rows = calm_rows()
    ask = client_of(open_viewer(write_run(tmp_path / "run", plan, rows.slice(0, 0))))
    assert listed(ask) == [] and ask("cells").json() == [] and ask("causes").json() == []
    assert (states(ask)["planned"], states(ask)["done"], states(ask)["failed"]) == (len(plan), 0, 0)


def test_trouble_while_reading_is_told_and_does_not_end_the_watch(tmp_path, monkeypatch):
    monkeypatch.setattr("evals.viewer.server.REFRESH_SECONDS", 0.05)
    path = write_run(tmp_path / "run", *calm_rows())
    told = set()

    def discover():
        if not any(told):  # until it was told
            raise RuntimeError("disk on fire")
        return []

    viewer = Viewer(EpisodeIndex([viewed(path)]), discover)
    ask = client_of(viewer)
    viewer.watch()
    for _ in range(600):
        state = ask("state").json()
        told.add(state["trouble"])
        if state["loaded"]:
            break
        time.sleep(0.02)
    viewer.close()
    assert any("disk on fire" in trouble for trouble in told) and state["trouble"] == "" and listed(ask)


def test_the_pause_between_two_looks_grows_with_what_a_look_takes(monkeypatch):
    looks, waited, clock = [0.0, 0.1, 0.2, 0.25, 60.0], [], [0.0]

    def look():
        clock[0] += looks[len(waited)]

    def wait(seconds):
        waited.append(seconds)
        if len(waited) == len(looks):
            viewer._stop.set()

    viewer = Viewer(EpisodeIndex([]), also=look)
    monkeypatch.setattr(viewer._stop, "wait", wait)
    monkeypatch.setattr("evals.viewer.server.time", SimpleNamespace(monotonic=lambda: clock[0]))
    viewer._watch()
    assert waited == pytest.approx([2, 2, 2, 2.5, 600])


def test_runs_that_begin_later_are_found(tmp_path):
    found = [viewed(write_run(tmp_path / "first", *calm_rows()))]
    viewer = Viewer(EpisodeIndex([]), lambda: [found.pop()] if found else [])
    viewer.refresh()
    assert {row["run"] for row in listed(client_of(viewer))} == {"first"}
    assert small_suite().parts


def test_a_page_elsewhere_cannot_read_episodes_by_resolving_its_name_to_this_machine(folder):
    client = TestClient(make_app(open_viewer(folder / "calm"), token=""))
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert "runs" in client.get("/api/state", headers={"host": f"{host}:8000"}).text, host
    foreign = ["evil.com:8000", "localhost.evil.com:8000", "localhost@evil.com", "evil.com/localhost"]
    malformed = ["[::1", "", "localhost:", "localhost:x", "[127.0.0.1]", "::1", "a b"]
    for header in (*foreign, *malformed):
        answer = client.get("/api/state", headers={"host": header})
        assert answer.status_code == 400 and "runs" not in answer.text, header
    answer = client.get("/api/state", headers=[("host", "localhost"), ("host", "evil.com")])
    assert answer.status_code == 400, "two names"


def test_a_number_that_no_list_has_is_refused(ask):
    for number in ("9" * 5000, "9" * 19, "-1", "x"):
        answer = ask("episodes", **{"from": number})
        assert answer.status_code == 400 and len(answer.text) < 200


def test_the_model_stands_before_the_baselines(tmp_path):
    write_run(tmp_path / "run", *calm_rows())
    players = open_viewer(tmp_path / "run").index.status()[0]["players"]
    assert players == ["random", "oracle"], "in the order of the plan, which names the model first"


def test_an_episode_of_a_run_that_was_just_played_anew_is_never_another_one(tmp_path):
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 6))
    ask = client_of(open_viewer(path))
    ids = rows["episode_id"].to_pylist()
    shutil.rmtree(path)
    write_run(path, plan, rows.slice(3, 6))  # which the viewer has not noticed yet
    statuses = []
    for episode in ids[:6]:
        answer = ask("raw", at=f"run/{episode}")
        statuses.append(answer.status_code)
        assert answer.status_code != 200 or answer.json()["row"]["episode_id"] == episode
    assert statuses == [410, 404, 404, 200, 200, 200], "with the first one the viewer has noticed it"


def test_what_cannot_be_read_is_asked_for_again(tmp_path):
    path = write_run(tmp_path / "run", *calm_rows())
    (path / "notes.jsonl").write_text("no note")
    listing = EpisodeIndex([viewed(path)])
    viewer = Viewer(listing, also=ViewerNotes(listing, "ada").refresh)
    viewer.refresh()
    ask = client_of(viewer)
    assert ask("state").json()["again"] == server.UNFINISHED_SECONDS and states(ask)["damage"]
    (path / "notes.jsonl").unlink()
    viewer.refresh()
    assert ask("state").json()["again"] == 0 and not states(ask)["damage"]


def test_a_deleted_run_is_named_and_its_episodes_say_so(tmp_path):
    write_run(tmp_path / "run", *calm_rows())
    viewer = open_viewer(tmp_path / "run")
    ask = client_of(viewer)
    row = listed(ask)[0]
    shutil.rmtree(tmp_path / "run")
    viewer.refresh()
    answer = ask("episode", at=f"{row['run']}/{row['episode_id']}")
    assert answer.status_code == 410 and "no longer there" in answer.json()["error"]
    [run] = ask("state").json()["runs"]
    assert "no longer in" in " ".join(run["damage"])


def test_unknown_names_in_an_address_are_said(ask):
    answer = ask("episodes", outcome="failed")
    assert answer.status_code == 400 and "'outcome'" in answer.json()["error"] and "status" in answer.json()["error"]
    for name in ("shown", "across", "panel"):
        assert ask("episodes", **{name: "x"}).status_code == 200


def test_closing_ends_all_threads(folder):
    viewer = open_viewer(folder / "calm")
    before = set(threading.enumerate())
    viewer.watch()
    viewer.searches.of("a text")
    viewer.close()
    assert set(threading.enumerate()) <= before


# --- running episodes, and what is not sent again ----------------------------------------------------------------------


@pytest.fixture
def live(tmp_path):
    """A run of which some rows are missing, its viewer, and the log of a driver that plays them."""
    plan, rows = calm_rows()
    path = write_run(tmp_path / "run", plan, rows.slice(0, 3))
    lock = RunLock(path)
    lock.acquire()
    run = ViewedRun("run", path, small_suite, lambda: Run(path).data, writer=lambda: "at work")
    viewer = Viewer(EpisodeIndex([run]))
    viewer.refresh()

    def finish():
        part = path / "episodes" / "part-000002-test.parquet"
        part.write_bytes(write_part([rows.slice(3)], rows.schema, lease=lock.mark))
        viewer.refresh()

    yield viewer, GrowingLog(path, lock.mark, {plan[1].id: 1}), plan, finish
    lock.release()


def turn_of(episode, number, reply, pictures=()):
    return PlayedLine(
        episode.id, number, 5.0, "the prompt", pictures, reply, "hm", "up", "tag", "stop", 7, 3, 0.5, 0.01
    )


def test_the_page_is_told_what_running_episodes_say_until_they_are_in_the_ledger(live):
    viewer, log, plan, finish = live
    picture = next(part["picture"] for part in parts_of(calm_rows()[1]) if part["picture"])
    running, done = plan[5], plan[0]
    turns = [turn_of(running, number, f"{HOSTILE} {number}", (picture, "{}")) for number in range(3)]
    log.append(
        [Began.of(done, 1.0), Began.of(running, 2.0), *turns, Began.of(plan[1], 3.0), Numbers(9.0, {"spent": 0.5})]
    )
    ask = client_of(viewer)
    [run] = ask("live").json()
    conforms([run], list[schema.live.LiveRun])
    told = [(each["episode_id"], each["attempt"]) for each in run["running"]]
    assert told == [(running.id, 1), (plan[1].id, 2)], (
        "the first one's row is in the ledger, and so is an attempt of the last"
    )
    assert run["numbers"] == {"spent": 0.5} and run["writer"] == "at work"
    assert sum(cell["planned"] for cell in run["cells"]) == len(plan)
    assert sum(cell["done"] for cell in run["cells"]) == 3
    found = ask("live/turns", at=f"run/{running.id}", **{"from": 1}).json()
    conforms(found, schema.live.LiveTurns)
    assert [turn["turn"] for turn in found["turns"]] == [1, 2], "only those that were asked for"
    shown, broken = found["turns"][0]["pictures"]
    assert ask(f"live/picture/{shown['key']}", at=f"run/{running.id}").headers["content-type"] == "image/png"
    assert (shown["width"], shown["height"]) == picture_from_description(picture).size and not shown["error"]
    assert (broken["width"], broken["height"]) == (0, 0)
    assert broken["error"] and ask(f"live/picture/{broken['key']}", at=f"run/{running.id}").status_code == 404
    for at in (f"run/{done.id}", "run/nobody", "nowhere/x"):
        assert ask("live/turns", at=at).status_code == 404
    assert ask("state").json()["again"] == 2
    finish()
    assert ask("live").json() == [] and ask("live/turns", at=f"run/{running.id}").status_code == 404
    assert ask("state").json()["again"] == 0, "nothing more will come"


def test_of_each_running_episode_the_list_tells_how_far_it_is_and_what_was_said_last(live):
    viewer, log, plan, _ = live
    quiet, talking, ended = plan[4:7]
    long = "A " + 200 * "long " + "reply\n\tof  many words."
    turns = [turn_of(talking, number, reply) for number, reply in enumerate(("first", long))]
    thinking = dataclasses.replace(turn_of(ended, 0, ""), reasoning="I  think.", at=8.0)
    log.append([Began.of(each, 1.0 + number) for number, each in enumerate((quiet, talking, ended))])
    log.append([*turns, thinking, Ended(ended.id)])
    [run] = client_of(viewer)("live").json()
    told = {each["episode_id"]: each for each in run["running"]}
    names = ("began", "first", "turns", "last_at", "last", "ended")
    assert {game: [each[name] for name in names] for game, each in told.items()} == {
        quiet.id: [1.0, 0, 0, None, "", False],
        talking.id: [2.0, 0, 2, 5.0, (200 * "long " + "reply of many words.")[-160:], False],
        ended.id: [3.0, 0, 1, 8.0, "I think.", True],
    }
    for game in (quiet, talking, ended):
        for name in ("suite", "task", "level", "mode", "index", "repeat", "player", "budget"):
            assert told[game.id][name] == getattr(game, name)


def parts_of(rows):
    return [
        part for row in rows.to_pylist() for turn in row["turns"] for said in turn["prompt"] for part in said["parts"]
    ]


def test_what_a_search_finds_is_asked_for_soon_though_all_is_played(tmp_path, monkeypatch):
    viewer = open_viewer(write_run(tmp_path / "run", *calm_rows()))
    ask = client_of(viewer)
    assert ask("state").json()["again"] == 0
    viewer.searches._searches["x"] = Search(1, "x", running=True)
    assert ask("state").json()["again"] == 2


def test_a_run_that_nobody_plays_is_looked_at_rarely(live):
    viewer = live[0]
    viewer.index.runs[0].writer = lambda: "gone"
    assert client_of(viewer)("state").json()["again"] == 10


def test_what_a_browser_has_of_an_earlier_server_is_sent_again(monkeypatch):
    """Both count their versions from 0, of what may be other runs."""

    def asked(known=""):
        headers = [(b"if-none-match", known.encode())]
        return answer(Request({"type": "http", "headers": headers}))

    answer = cache.kept(lambda request: Response(b"content"), lambda request: "0")
    tag = asked().headers["etag"]
    assert asked(tag).status_code == 304
    monkeypatch.setattr(cache, "_PROCESS", "another")
    assert asked(tag).status_code == 200


@pytest.mark.slow
def test_what_the_browser_has_is_not_sent_again_until_it_changes(live):
    viewer, _, plan, finish = live
    client = TestClient(make_app(viewer, TOKEN), headers={"cookie": f"raycade={TOKEN}"})
    at = f"run/{plan[0].id}"
    asked = {"state": {}, "values": {}, "episodes": {}, "cells": {}, "causes": {}, "episode": {"at": at}, "raw": {"at": at},
             "live": {}, "results": {}}  # fmt: skip
    tags = {path: client.get(f"/api/{path}", params=given).headers["etag"] for path, given in asked.items()}
    for path, given in asked.items():
        known = client.get(f"/api/{path}", params=given, headers={"if-none-match": f'"other", {tags[path]}'})
        assert (
            known.status_code == 304 and not known.content and known.headers["cache-control"] == "private, no-cache"
        ), path
        assert client.get(f"/api/{path}", params=given, headers={"if-none-match": '"other"'}).status_code == 200
    finish()
    for path, given in asked.items():
        if path != "results":  # a run that grows is read again after a pause
            assert client.get(f"/api/{path}", params=given, headers={"if-none-match": tags[path]}).status_code == 200, (
                path
            )
    assert client.get("/api/episode", params={"at": "run/nobody"}).headers["cache-control"] == "no-store"
    assert client.get("/api/episodes").headers["content-encoding"] == "gzip"
    plain = client.get("/api/episodes", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.json()["total"] == len(plan)
