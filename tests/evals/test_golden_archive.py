"""What static pages of two small runs hold, as on record in ``tests/golden``."""

import dataclasses
import io
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from cluster.storage.stored_run import Run
from evals.archive import answers, columns, episodes, export, licenses, one_file, pictures
from evals.archive.chosen import chosen_rows, games_of
from evals.archive.chunks import pack_chunk, read_chunk, unpack_chunk
from evals.conversation import PlayedTurn, Record
from evals.ledger.records import records_to_table
from evals.report.episodes import Prompt, Shown
from evals.report.page import Page, Section
from evals.suite import ledger_columns
from evals.types import Episode, Outcome, Reply, Turn, message
from evals.view import EpisodeView, StepView
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import ViewedRun
from tests.evals.test_records import Patch
from tests.golden import digest, plain
from tests.said import Said
from tests.toy import OPTIONS, ToySuite
from tests.viewer_runs import write_run

LOST = SimpleNamespace(description='{"kind":"none","version":1}')


def a_run(folder, name, players, games=3):
    """Games of two turns with pictures; the second game of the first player has failed, the last one is not played."""
    suite = ToySuite(episodes=games)
    plan, records = [], []
    for player in players:
        for index in range(games):
            for repeat in range(2):
                game = Episode("toy", f"t{index % 2}", "1", "cot", index, repeat, 7 + index, "f", 9, player=player)
                plan.append(game)
                if index == games - 1 and repeat:
                    continue
                chat = (
                    message("system", "Rules"),
                    message("user", "Look", Patch((index, 0, 0)), LOST, Patch((9, 9, 9))),
                )
                then = (
                    *chat,
                    message("assistant", "red"),
                    message("user", "Now", Patch((index, 0, 0)), Patch((0, repeat, 1))),
                )
                turns = [
                    PlayedTurn(
                        Turn(game, 0, chat, OPTIONS), Reply("red", prompt_tokens=index, cost=0.5), "red", "exact"
                    )
                ]
                turns.append(
                    PlayedTurn(
                        Turn(game, 1, then, OPTIONS), Reply("</script>é", "length", reasoning="Hm"), None, "none"
                    )
                )
                if index == 1 and player == players[0]:
                    error = "PlayerError: http://10.0.0.7/x of secret-host fell"
                    records.append(Record(game, None, error, tuple(turns[:1]), 0.5, "endpoint"))
                else:
                    outcome = Outcome(index != 1, index + repeat, extra={"right": 2})
                    records.append(Record(game, outcome, "", tuple(turns), 0.25 + index))
    path = write_run(folder / name, plan, records_to_table(records, ledger_columns(suite)), {"type": "toy"})
    return ViewedRun(name, path, lambda: suite, lambda: Run(path).data)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    runs = [a_run(folder, "one", ("m", "oracle")), a_run(folder, "zwéi", ("n",), 2)]
    runs[1].damage["a part"] = "cannot be read at /data/two on secret-host"
    found = EpisodeIndex(runs)
    found.refresh()
    return found


SETTINGS = [{}, {"cluster": {"address": "secret-host:80"}}]


def test_static_pages(tmp_path, capsys, monkeypatch, index):
    said = Said(capsys, tmp_path, index.runs[0].path.parent)
    names: dict[str, str] = {}

    def told(value):
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        text = re.sub(r'"version": "[^"]*"', '"version": "..."', text)
        return re.sub(r"\b[0-9a-f]{32}\b", lambda found: names.setdefault(found[0], f"#{len(names)}"), text)

    monkeypatch.setattr(export, "STATIC", tmp_path / "static")
    (tmp_path / "static/more").mkdir(parents=True)
    for name in ("archive.html", "index.html", "main.js", "more/x.css"):
        (tmp_path / "static" / name).write_text(name)
    monkeypatch.setattr(export, "licenses", lambda: "licenses")
    monkeypatch.setattr(episodes, "OF_A_CHUNK", 4)
    sized: list[int] = []
    monkeypatch.setattr(export, "chunk_size", lambda count: sized.append(count) or episodes.chunk_size(count))
    for what, share, failed in (("all", 1.0, False), ("a share", 0.3, False), ("failed", 1.0, True)):
        folder = tmp_path / what
        written = export.export(index, SETTINGS, folder, share, failed)
        monkeypatch.setattr(export, "stored_results", lambda index: {})  # which are the same for all
        said(f"=== {what}", dataclasses.replace(written, bytes=0, bytes_of_columns=0))
        assert sized[-1] == written.opened, "the page finds an episode's chunk by its size"
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert written.bytes == sum(path.stat().st_size for path in files)
        assert written.bytes_of_columns == (folder / "data/columns.js").stat().st_size
        for path in sorted(files):
            name = str(path.relative_to(folder))
            if not name.startswith("data"):
                said(name, path.read_text())
                continue
            head, tail = read_chunk(path)
            if "tiles" in name:
                said(name, head, tail[:4])
            elif "columns" in name:
                said(name, told({key: value for key, value in head.items() if key not in ("columns", "answers")}))
                for column in head["columns"]:
                    if what == "all" or column["name"] == "at":
                        said(told(column))
                said(digest(tail), told(head["answers"]) if what == "all" else "")
            elif "episodes" in name:
                said(name, head["pictures"], np.frombuffer(tail, np.uint32))
                for at, each in enumerate(head["episodes"]):
                    brief = {"of": [each["row"][key] for key in ("player", "index", "repeat")]}
                    said(told(each if at == 1 and what != "a share" else brief))
            elif what == "all":
                found = head["results"]
                said(name, {key: each["baseline"] for key, each in found.items()}, told(head["compare"])[:200])
    answered = answers.answers_of(index, [["x"], ["secret-host"]])
    said(told(answered["planned"]))
    said(told([{key: each[key] for key in ("name", "path", "live", "damage")} for each in answered["state"]["runs"]]))
    monkeypatch.setattr(answers, "COMPARED", 2)
    stored = answers.stored_results(index)
    said([*stored["results"]], {key: [*each] for key, each in stored["compare"].items()})
    for settings in (
        {},
        {
            "name": "n",
            "suite": {"type": "t", "path": "/x"},
            "model": {"name": "m", "engine": {"key": 1}},
            "run_dir": "/y",
        },
    ):
        said(answers._shown(settings))
    said.check("static_pages", "evals")


def test_no_host_of_a_run_s_own_settings_leaves_with_its_episodes(tmp_path):
    def missing():
        raise ValueError("no suite on secret-host")

    runs = [a_run(tmp_path, name, ("m",), 2) for name in ("one", "two")]
    for run in runs:
        run.suite = missing
    found = EpisodeIndex(runs)
    found.refresh()
    export.export(found, SETTINGS, tmp_path / "pages")
    chunks = [read_chunk(path)[0] for path in (tmp_path / "pages/data").glob("episodes-*.js")]
    told = {(each["notice"], each["row"]["error"]) for chunk in chunks for each in chunk["episodes"]}
    notice = "Shown without the help of suite toy: ValueError"  # its message may quote any file of this machine
    error = "PlayerError: <address> of {} fell"
    hosts = ("secret-host", "<address>")
    assert told == {(notice, each.format(host)) for host in hosts for each in ("", error)}


def test_what_static_pages_are_made_of(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    for count in (0, 1, 64, 64_000, 64_001, 65_001, 10**6):
        said(count, episodes.chunk_size(count))
    for head, tail in (({"a": "é\ud800", "b": [1.5, None]}, b"\x00tail"), ([], b"")):
        text = pack_chunk(head, tail)
        said(ascii(unpack_chunk(text)))
    rows = [
        {
            "run": run,
            "suite": "s",
            "task": task,
            "level": "1",
            "mode": "x",
            "player": player,
            "repeat": 0,
            "index": at,
            "seed": at,
        }
        for run in (0, 1)
        for task in "ba"
        for player in "pq"
        for at in (2, 0, 1)
    ]
    table = pa.Table.from_pylist([row | {"status": "failed" if row["index"] else "done"} for row in rows])
    said(games_of(table), games_of(table).dtype)
    for share in (0.01, 1 / 3, 0.34, 0.99, 1.0):
        said(share, chosen_rows(table, share, False).astype(int), chosen_rows(table, share, True).sum())
    monkeypatch.setattr(columns, "MOST_VALUES", 2)
    odd = pa.table(
        {
            "ids": ["0" * 31 + digit for digit in "abc"],
            "twice": ["0" * 32] * 3,
            "long": ["0" * 33 + digit for digit in "abc"],
            "upper": ["0" * 31 + digit for digit in "ABC"],
            "words": ["b", None, "a"],
            "few": [1.5, None, math.nan],
            "many": pa.array([3, None, 1], pa.int64()),
            "truth": [True, None, False],
            "nothing": pa.nulls(3, pa.string()),
        }
    )
    heads, content = columns.pack(odd)
    said(*(f"{head}\n" for head in heads), content.hex())
    said([columns.smallest(count).__name__ for count in (0, 256, 257, 65_536, 65_537)])

    monkeypatch.setattr(pictures, "OF_A_SHEET", 4)
    monkeypatch.setattr(pictures, "ACROSS", 2)
    sheets = []
    tiles = pictures.Tiles(lambda number, sheet: sheets.append((number, Image.open(io.BytesIO(sheet)).size)))
    grids = []
    for high, wide, color in (
        (32, 32, 0),
        (33, 40, 0),
        (32, 64, 255),
        (1, 1, 7),
        (64, 32, 3),
        (32, 32, 0),
        (32, 32, 9),
    ):
        grids.append(tiles.grid(np.full((high, wide, 3), color, np.uint8)))
        said(high, wide, color, grids[-1], len(tiles), [number for number, _ in sheets])
    tiles.close()
    tiles.close()
    said(sheets, pictures.steps_between(grids), pictures.steps_between([]))
    again = [np.array(each, np.uint32) for each in ([1, 2], [1, 3], [1, 3, 3], [0])]
    said(pictures.steps_between(again))

    known = {
        "a": {"description": Patch((1, 2, 3)).description, "width": 8, "height": 8, "error": ""},
        "b": {"description": LOST.description, "width": 3, "height": 4, "error": ""},
        "c": {"description": Patch((3, 2, 1)).description, "width": 8, "height": 8, "error": "at http://10.0.0.1/x"},
    }
    steps = [{"shown": [{"role": "user", "parts": [{"picture": "a"}, {"text": "t"}, {"picture": "c"}]}], "after": "b"}]
    first = {"pictures": known, "steps": [*steps, {"shown": [], "after": None}], "row": {}}
    second = {"pictures": {"b": dict(known["b"])}, "steps": [{"shown": [], "after": "b"}], "row": {}}
    monkeypatch.setattr(episodes, "for_the_page", lambda episode: episode)
    head, tail = episodes.chunk_of([first, second], pictures.Tiles(lambda *given: None))
    said(json.dumps(head), np.frombuffer(tail, np.uint32))

    monkeypatch.setattr(licenses, "STATIC", tmp_path)
    (tmp_path / "licenses.txt").write_text("of packages -- all\n")
    monkeypatch.setattr(licenses, "__file__", str(tmp_path / "a/b/c"))
    (tmp_path / "LICENSE").write_text("of the checkout")
    texts = {"licenses/NOTICE": "notice"}
    installed = [SimpleNamespace(read_text=lambda name: None), SimpleNamespace(read_text=texts.get)]
    monkeypatch.setattr(licenses.importlib.metadata, "distributions", lambda name: installed)
    said(licenses.licenses())
    monkeypatch.setattr(one_file, "STATIC", tmp_path)
    monkeypatch.setattr(one_file, "importlib", SimpleNamespace(metadata=SimpleNamespace(version=lambda name: "9.9")))
    (tmp_path / "main.js").write_text("script({})")
    (tmp_path / "style.css").write_text("a{b}")
    turn = one_file._NO_TURN | {"finish": "stop"}
    shown = StepView(
        (
            {
                "role": "user",
                "parts": [{"text": "look", "picture": None}, {"text": None, "picture": Patch((1, 2, 3)).description}],
            },
        ),
        "r",
        "",
        "d",
        "rule",
    )
    lots = [
        Shown({"suite": "s", "seed": at, "own": 1, "turns": [turn], "status": "done"}, "won", EpisodeView((shown,)))
        for at in range(3)
    ]
    prompt = Prompt("s", "cot", "t", ({"role": "user", "parts": [{"text": "p", "picture": None}]},))
    sections = [
        Section("A title!", ["line"], [{"t": 1}], [{"f": 1}], [{"m": 1}], lots[:2], [prompt], [{"x": "y"}]),
        Section("B", episodes=lots),
    ]
    page = Page("Title <b>", ["status"], sections)
    whole = one_file.one_file(page)
    said(re.sub(r">[A-Za-z0-9+/=]{40,}<", ">...<", whole))
    for kept in (5, 1, 0):
        text = one_file._document(page, kept)
        chunks = {name: unpack_chunk(block)[0] for name, block in re.findall(r'id="([\w-]+)">([^<]*)</script>', text)}
        said([*chunks], json.dumps(chunks["report"]), len(chunks["episodes-0"]["episodes"]))
    monkeypatch.setattr(one_file, "_document", lambda page, kept: kept * "é")
    for most in (11, 10, 6, 2, 0):
        monkeypatch.setattr(one_file, "LARGEST", most)
        said(most, "bytes:", len(one_file.one_file(page)), "episodes")
    shown = [
        shown
        for chunk in re.findall(r'id="episodes-0">([^<]*)<', whole)
        for shown in unpack_chunk(chunk)[0]["episodes"]
    ]
    said(json.dumps(shown[0]), json.dumps(shown[2]))
    said(plain([section.id for section in sections]))
    said.check("parts_of_static_pages", "evals")
