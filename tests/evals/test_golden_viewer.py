"""What the viewer answers about two runs, request by request, as on record in ``tests/golden``."""

import json

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from evals.viewer import server
from evals.viewer.index import EpisodeIndex
from evals.viewer.server import Viewer, make_app
from tests.cluster.test_golden_commands import fixed
from tests.evals.test_golden_archive import a_run
from tests.evals.test_viewer import client_of, open_viewer
from tests.golden import check_golden, digest
from tests.said import Said
from tests.viewer_runs import add_part, calm_rows, hostile_rows, write_run

REQUESTS = """
episodes|episodes sort=-run|episodes sort=steps|episodes sort=-cost|episodes sort=error|episodes from=3 count=4 sort=-seconds
episodes from=39 count=9|episodes run=calm task=CL|episodes task=SE task=CL player=oracle|episodes status=failed
episodes won=1 min_steps=2|episodes lost=1|episodes not_won=1 suite=kidgym|episodes cut_off=1|episodes max_steps=2 min_cost=.01
episodes min_seconds=3 max_seconds=6|episodes min_prompt_tokens=100 max_prompt_tokens=200|episodes max_score=0|episodes text=
episodes versus=oracle versus_run=calm|episodes versus=oracle versus_run=calm flipped=1 player=random
episodes versus=random versus_run=calm run=wild|episodes versus=random versus_run=calm versus_outcome=won
episodes versus=random versus_run=calm versus_outcome=not+won player=oracle|episodes tag=odd|episodes tag=odd tag=rare run=wild
episodes level=L1|episodes mode=zero_shot error_kind=endpoint|episodes id=9|episodes cause=lost|episodes run=none
cells|cells run=wild|cells player=oracle task=CL won=1|cells not_won=1|causes|causes run=calm|values|state
results|results baseline=hostile|results baseline=wild|compare|difficulty|live|study|study/known
episodes sort=none|episodes min_steps=few|episodes color=red|episodes versus_outcome=drawn|episodes from=-1|episodes count=x
results baseline=none|episode at=none/1|episode at=calm/none|compare first=none second=none
live/turns at=none/1|live/turns at=calm/1
"""
LONG = 120
SHOWN = 6
"""Rows of a list; of longer ones the numbers."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    plan, calm = calm_rows()
    changed = calm.to_pylist()
    for number, row in enumerate(changed):
        row |= {
            "prompt_tokens": 17 * number,
            "completion_tokens": 100 - number,
            "cost": None if number % 5 else number / 100,
        }
        row["seconds"] = 0.5 + number % 11
    tries = [
        changed[number]
        | {"attempt": 1, "status": "failed", "success": None, "score": None, "error": error, "error_kind": kind}
        for number, error, kind in [
            (0, "lost after 17 s", "endpoint"),
            (1, "lost after 9 s", "internal"),
            (5, "lost", ""),
        ]
    ]
    changed[0] |= {"attempt": 2}
    changed[5] |= tries[2] | {"attempt": 3, "error": "lost after 21,5 s", "error_kind": "endpoint"}
    del changed[7], changed[1]
    parts = [pa.Table.from_pylist(rows, calm.schema) for rows in (changed[:9], [*tries, *changed[9:]])]
    add_part(write_run(folder / "calm", plan, parts[0]), 2, parts[1])
    plan, wild = hostile_rows()
    write_run(folder / "wild", plan, fixed(wild))
    viewer = open_viewer(folder / "calm", folder / "wild")
    seen = viewer.index.table().to_pylist()
    ids = [[row["episode_id"] for row in seen if row["run"] == run] for run in (0, 1)]
    ids.append([row["episode_id"] for row in seen if row["attempt"] > 1])
    viewer.index.set_tags(0, [(ids[0][number], "odd") for number in (2, 4)])
    viewer.index.set_tags(
        1, [(ids[1][number], tag) for number, tag in [(0, "rare"), (3, "odd"), (0, "odd"), (0, "rare")]]
    )
    viewer.index.set_tags(1, [(ids[1][1], "other")], "study")
    viewer.index.set_tags(0, [], "study")
    ask = client_of(viewer)
    return folder, ask, ids


def short(value, name=""):
    """A value of an answer: rows of the list as what tells them apart, long texts by their beginning."""
    if isinstance(value, dict) and "episode_id" in value and "id" in value:
        names = [
            "id",
            "run",
            "task",
            "level",
            "index",
            "repeat",
            "mode",
            "player",
            "attempt",
            "status",
            "success",
            "steps",
        ]
        kept = [str(value[each]) for each in names]
        kept += [f"{each}={short(value[each])}" for each in ("attempts", "error", "tags", "other") if value.get(each)]
        return " ".join([*kept, digest(json.dumps({**value, "seconds": 0}, sort_keys=True))])
    if isinstance(value, dict):
        return {each: short(one, each) for each, one in value.items() if each not in ("path", "folder", "version")}
    if isinstance(value, list):
        return [short(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, str) and len(value) > LONG:
        return f"{value[:60]!a}... {len(value)} {digest(value)}"
    return value


def told(answer, folder):
    try:
        value = answer.json()
    except ValueError:
        return f"{answer.status_code} {answer.text}".replace(str(folder), "...")
    lines = [f"{answer.status_code}"]
    if isinstance(value, dict) and len(value.get("rows", ())) > SHOWN:
        value["rows"] = [" ".join(str(row["id"]) for row in value["rows"])]
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, list) and each:
            lines += [f"{name}:", *(f"  {json.dumps(short(one))}" for one in each)]
        elif name not in ("version", "folder"):
            lines.append(f"{name}: {json.dumps(short(each))}")
    return "\n".join(lines).replace(str(folder), "...")


def test_the_viewer_answers_what_is_on_record(asked):
    folder, ask, ids = asked
    requests = [each for line in REQUESTS.split("\n") for each in line.split("|") if each]
    chance, perfect = "chance+(random)", "perfect+play+(oracle)"
    requests += [
        f"compare first={first} second={second}"
        for first, second in [(chance, perfect), (perfect, "hostile"), ("hostile", chance)]
    ]
    for number in (0, 2, 5, 9, -1):
        requests.append(f"episode at=calm/{ids[0][number]} sort=-steps player=random")
    requests += [f"episode at=calm/{ids[0][0]} attempt=1", f"episode at=calm/{ids[0][0]} attempt=7"]
    requests += [f"episode at=calm/{again} count=1" for again in ids[2]]
    requests += [f"episode at=wild/{ids[1][number]} suite=kidgym" for number in (0, 3, -1)]
    requests.append(f"raw at=wild/{ids[1][0]}")
    said = []
    for request in requests:
        path, *given = request.split(" ")
        values = {}
        for name, _, value in (each.partition("=") for each in given):
            values.setdefault(name, []).append(value.replace("+", " "))
        said.append(f"> {request}\n{told(ask(path, **values), folder)}\n")
    check_golden("evals_viewer", "\n".join(said))


def test_what_a_browser_is_told_is_on_record(tmp_path, capsys, monkeypatch):
    """Of each answer the status, the headers that differ from those of the first one, and how it begins."""
    said = Said(capsys, tmp_path)
    run = a_run(tmp_path, "calm", ("m", "oracle"))
    viewer = Viewer(EpisodeIndex([run]))
    viewer.refresh()
    rows = viewer.index.table().to_pylist()
    at = f"calm/{rows[0]['episode_id']}"
    shown = viewer.episodes.open(run, rows[0])
    known = {rows[0]["episode_id"]: "EPISODE"}
    known |= {key: f"PICTURE{number}" for number, key in enumerate(shown["pictures"])}
    app, usual = make_app(viewer, "secret", "crumb"), {}

    def get(path, method="GET", where=app, **headers):
        given = {"host": "localhost", "cookie": "crumb=secret", "accept-encoding": "identity"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        client = TestClient(where, headers={name: value for name, value in given.items() if value})
        answer = client.request(method, path, follow_redirects=False)
        told = dict(answer.headers)
        made = "ETag" if told.pop("etag", "") else ""
        for name in ("content-length", "last-modified", *(["vary"] if "accept_encoding" not in headers else [])):
            told.pop(name, None)  # of sizes that differ from folder to folder
        usual.update({} if usual else told)
        differs = {name: value for name, value in sorted(told.items()) if usual.get(name) != value}
        lacks = [f"without {name}" for name in sorted(usual.keys() - told)]
        start = answer.content[:8] if b"\x89PNG" in answer.content[:8] else answer.text[:70].partition("\n")[0]
        line = (
            f"> {method} {path} {headers or ''}\n{answer.status_code} {made} {differs or ''} {' '.join(lacks)}\n{start}"
        )
        for name, short in known.items():
            line = line.replace(name, short)
        said(line)
        return answer

    get("/api/values")
    said(*(f"{name}: {value}\n" for name, value in usual.items()))
    for path in ("", "?suite=toy", "?episode=x&run=a", "?", "?token=secret&suite=a&suite=b&x=%26", "?token=no&x=1"):
        get(f"/{path}")
        get(f"/{path}", cookie="")
    for path in ("runs", "episodes", "suite/toy", "compare", "episode", "live", "study", "suite", "nowhere", "api"):
        get(f"/{path}")
    for path in ("/runs?token=secret", "/static/icon.svg", "/api/state"):
        get(path, cookie="crumb=secre")
    for path in ("icon.svg", "archive.html", "none.js", "../server.py"):
        get(f"/static/{path}")
    for host in (
        "LocalHost",
        "localhost:65535",
        "127.0.0.1:80",
        "[::1]:80",
        "0:1",
        "a@localhost",
        "localhost/x",
        "[1.2.3.4]",
    ):
        get("/api/live", host=host)
    get("/api/live", where=make_app(viewer, "", hosts=("here",)), host="here", cookie="")
    get("/api/live", where=make_app(viewer, "", hosts=("here",)), cookie="")
    get("/api/state", method="POST")
    key, broken = (next(key for key, each in shown["pictures"].items() if bool(each["error"]) == bad) for bad in (0, 1))
    for each in (key, broken, "none"):
        get(f"/api/picture/{each}?at={at}")
    paths = [f"/api/{name}?at={at}" for name in ("episode", "raw")]
    paths += [
        f"/api/{name}" for name in ("episodes?count=1", "cells", "causes", "results", "difficulty", "state", "live")
    ]
    for path in paths:
        tag = get(path).headers["etag"]
        for given in (f'"x", {tag}', '"x"'):
            client = TestClient(app, headers={"host": "localhost", "cookie": "crumb=secret", "if-none-match": given})
            answer = client.get(path)
            said(
                answer.status_code,
                len(answer.content) > 0,
                answer.headers["cache-control"],
                answer.headers["etag"] == tag,
            )
    for size in (len(get("/api/values").content), len(get("/api/values").content) + 1):
        monkeypatch.setattr(server, "SMALLEST_PACKED", size)
        get("/api/values", where=make_app(viewer, "secret", "crumb"), accept_encoding="gzip")
    client = TestClient(app, headers={"host": "localhost", "cookie": "crumb=secret"})
    for loaded, waiting, writer, planned in (
        *((True, 0, "", 0), (False, 0, "", 0), (True, 1, "", 0), (True, 0, "at work", 0)),
        *((True, 0, "", 1), (True, 0, "at work", 1), (True, 0, "gone", 1)),
    ):
        viewer.loaded, run.waiting, run.planned = loaded, waiting, len(rows) + planned
        run.writer = lambda writer=writer: writer
        state = client.get("/api/state").json()
        said(f"{loaded=} {waiting=} {writer=} {planned=}: again {state['again']}, live {state['runs'][0]['live']}")
    said.check("browser", "evals")
