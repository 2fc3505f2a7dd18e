"""Runs as static pages: what a chunk, a column and a picture hold, which episodes can be opened, and what does not leave."""

import io
import json
import math
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from cluster.cli import main
from envs.picture import render_description
from evals.archive.answers import answers_of, stored_results
from evals.archive.chosen import chosen_rows, games_of
from evals.archive.chunks import read_chunk, write_chunk
from evals.archive.columns import pack, smallest
from evals.archive.episodes import Spool, chunk_size
from evals.archive.export import export
from evals.archive.licenses import licenses
from evals.archive.pictures import ACROSS, EDGE, OF_A_SHEET, Tiles, steps_between
from evals.viewer.index import EpisodeIndex
from evals.viewer.server import STATIC
from tests.cluster.conftest import ROOT
from tests.viewer_runs import CONFIG, calm_rows, hostile_rows, viewed, write_run

texts = st.text(st.characters(codec=None), max_size=50) | st.sampled_from(
    ["</script><script>alert(1)</script>", "\u2028\u2029", "\ud800", "\udfff\ud800", '");alert(1)//', "<!--", "\x00"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(head=values, tail=st.binary(max_size=100))
def test_a_chunk_is_one_call_with_base64_whatever_a_model_wrote(tmp_path_factory, head, tail):
    folder = tmp_path_factory.mktemp("chunk")
    written = write_chunk(folder, "episodes-3", head, tail)
    content = (folder / "episodes-3.js").read_bytes()
    assert len(content) == written
    assert re.fullmatch(rb'raycadeChunk\("episodes-3","[A-Za-z0-9+/]*={0,2}"\)\n', content)
    assert read_chunk(folder / "episodes-3.js") == (head, tail)


def unpacked(heads, tail, rows):
    """The columns again, read as the page reads them."""
    found, start = {}, 0
    for head in heads:
        width = np.dtype(head["type"]).itemsize * (16 if head["kind"] == "ids" else 1)
        numbers = np.frombuffer(tail, head["type"], rows * width // np.dtype(head["type"]).itemsize, start)
        start += -(-rows * width // 8) * 8
        if head["kind"] == "ids":
            found[head["name"]] = [each.tobytes().hex() for each in numbers.reshape(rows, 16)]
        elif head["kind"] == "values":
            found[head["name"]] = [head["values"][number] for number in numbers]
        else:
            found[head["name"]] = [None if np.isnan(number) else float(number) for number in numbers]
    return found


def come_back(rows, most):
    """See that columns are as they were, stored as values or, where there are more than ``most``, as numbers."""
    kinds = {"whole": pa.int64(), "text": pa.string(), "truth": pa.bool_(), "number": pa.float64()}
    columns = [
        pa.chunked_array([pa.array([row[at] for row in rows], kind)], kind) for at, kind in enumerate(kinds.values())
    ]
    ids = pa.chunked_array([pa.array([f"{number:032x}" for number in range(len(rows))], pa.string())], pa.string())
    table = pa.table([*columns, ids], [*kinds, "episode_id"])
    if not most:
        table = table.select(["text", "number", "episode_id"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evals.archive.columns.MOST_VALUES", most)
        heads, tail = pack(table)
    assert unpacked(heads, tail, len(rows)) == table.to_pydict()
    for head in heads:
        known = [value for value in head.get("values", []) if value is not None]
        assert known == sorted(known)  # the page sorts by the numbers of values
    return {head["name"]: head["kind"] for head in heads}


def test_columns_are_stored_as_values_numbers_or_ids():
    rows = [(7, "b", None, 0.5), (None, "a", True, None), (2**40, "b", False, -3.0), (7, "", True, 0.5)]
    assert come_back(rows, 3) == {
        **{"whole": "values", "text": "values", "truth": "values", "number": "values"},
        **{"episode_id": "ids"},
    }
    assert come_back(rows, 0) == {"text": "values", "number": "numbers", "episode_id": "ids"}
    come_back([], 0)
    alike = pack(pa.table({"episode_id": ["0" * 32] * 2, "share": [math.nan, 1.0]}))[0]
    assert [(head["kind"], head["values"]) for head in alike] == [("values", ["0" * 32]), ("values", [1.0, None])]
    assert pack(pa.table({"a": ["0" * 31 + "G"], "b": ["0" * 33]}))[0][0]["kind"] == "values"


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**40), 2**40),
            st.text(st.characters(codec="utf-8"), max_size=5),
            st.none() | st.booleans(),
            st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
        ),
        max_size=30,
    ),
    st.sampled_from([0, 65_536]),
)
def test_columns_come_back_as_they_were(rows, most):
    come_back(rows, most)


class Sheets:
    """The sheets that were written, and pictures copied from them as the page does it."""

    def __init__(self):
        self.pixels = {}
        self.tiles = Tiles(self.keep)

    def keep(self, number, webp):
        assert number not in self.pixels
        self.pixels[number] = np.asarray(Image.open(io.BytesIO(webp)).convert("RGB"))

    def drawn(self, grid, width, height):
        columns = -(-width // EDGE)
        canvas = np.zeros((-(-height // EDGE) * EDGE, columns * EDGE, 3), np.uint8)
        for place, tile in enumerate(grid):
            sheet, within = divmod(int(tile), OF_A_SHEET)
            (row, column), (y, x) = divmod(within, ACROSS), divmod(place, columns)
            canvas[y * EDGE : (y + 1) * EDGE, x * EDGE : (x + 1) * EDGE] = self.pixels[sheet][
                row * EDGE : (row + 1) * EDGE, column * EDGE : (column + 1) * EDGE
            ]
        return canvas[:height, :width]


def grids_of(sizes, tail):
    """Each picture's tiles, read as the page reads them."""
    numbers, start, before, found = np.frombuffer(tail, np.uint32), 0, np.zeros(0, np.uint32), []
    for width, height in sizes:
        count = -(-width // EDGE) * -(-height // EDGE)
        steps = numbers[start : start + count]
        before = np.array([step - 1 if step else before[place] for place, step in enumerate(steps)], np.uint32)
        found.append(before)
        start += count
    return found


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 80), st.integers(1, 80), st.integers(0, 3)), max_size=6), st.integers(1, 4))
def test_pictures_from_tiles_have_the_same_pixels(pictures, across):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("ACROSS", across), ("OF_A_SHEET", across * across)):
            patch.setattr(f"evals.archive.pictures.{name}", value)
            patch.setitem(globals(), name, value)
        sheets = Sheets()
        drawn = [
            np.random.default_rng(seed).integers(0, 2, (height, width, 3), np.uint8) * 255
            for width, height, seed in pictures
        ]
        grids = [sheets.tiles.grid(each) for each in drawn]
        sheets.tiles.close()
        sizes = [(width, height) for width, height, _ in pictures]
        for picture, grid, (width, height) in zip(
            drawn, grids_of(sizes, steps_between(grids).tobytes()), sizes, strict=True
        ):
            assert np.array_equal(sheets.drawn(grid, width, height), picture)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A calm run of all suites and a hostile one, as pages."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [write_run(folder / "calm", *calm_rows()), write_run(folder / "wild", *hostile_rows())]
    index = EpisodeIndex([viewed(path) for path in paths])
    index.refresh()
    written = export(index, [{}, {}], folder / "pages")
    return folder / "pages", written


def episodes_of(folder):
    chunks = sorted((folder / "data").glob("episodes-*.js"), key=lambda path: int(path.stem.split("-")[1]))
    return [read_chunk(path) for path in chunks]


@pytest.mark.slow
def test_every_picture_of_every_suite_is_there_with_its_pixels(exported):
    folder, _ = exported
    sheets = Sheets()
    for path in (folder / "data").glob("tiles-*.js"):
        sheets.keep(int(path.stem.split("-")[1]), read_chunk(path)[1])
    stored = {}
    for row in [*calm_rows()[1].to_pylist(), *hostile_rows()[1].to_pylist()]:
        said = [part for turn in row["turns"] for message in turn["prompt"] for part in message["parts"]]
        stored[row["episode_id"]] = [part["picture"] for part in said if part["picture"]]
    seen = 0
    for head, tail in episodes_of(folder):
        grids = grids_of(head["pictures"], tail)
        for episode in head["episodes"]:
            parts = [part for step in episode["steps"] for message in step["shown"] for part in message["parts"]]
            shown = [part["picture"] for part in parts if "picture" in part]
            descriptions = stored[episode["row"]["episode_id"]]
            assert len(shown) == len(descriptions)
            for key, description in zip(shown, descriptions, strict=True):
                pixels = render_description(description)[1]
                assert np.array_equal(sheets.drawn(grids[int(key)], *head["pictures"][int(key)]), pixels)
                seen += 1
    assert seen > 20


@given(st.integers(1, 10**8))
def test_an_export_has_at_most_a_thousand_chunks_of_episodes(count):
    chunks = -(-count // chunk_size(count))
    assert chunks <= 1_000
    assert chunk_size(count) == 64 or (chunk_size(count) - 1) * 1_000 < count  # no larger than it has to be


@given(st.integers(1, 2**20))
@example(256)
@example(257)
@example(65_536)
@example(65_537)
def test_a_column_has_the_smallest_numbers_that_reach(count):
    width = np.iinfo(smallest(count))
    assert count - 1 <= width.max
    assert width.bits == 8 or count - 1 > np.iinfo(f"uint{width.bits // 2}").max


@pytest.mark.slow
def test_a_share_has_the_same_games_for_all_players_and_some_of_each_cell():
    cells = [
        {"run": run, "suite": "s", "task": task, "level": "1", "mode": mode, "player": player, "repeat": 0}
        | {"index": index, "seed": 1000 + index, "status": "failed" if index == 3 else "done"}
        for run in (0, 1)
        for task in ("A", "B")
        for mode in ("x", "y")
        for player in ("p", "q")
        for index in range(50)
    ]
    rows = pa.Table.from_pylist(cells)
    for share, count in ((0.001, 1), (0.1, 5), (1.0, 50)):
        chosen = np.flatnonzero(chosen_rows(rows, share, False))
        drawn = {}
        for place in chosen:
            row = cells[place]
            drawn.setdefault((row["run"], row["task"], row["mode"], row["player"]), set()).add(row["index"])
        assert len(drawn) == 16 and all(len(each) == count for each in drawn.values())
        for task in ("A", "B"):
            assert len({frozenset(games) for cell, games in drawn.items() if cell[1] == task}) == 1
    assert {cells[place]["index"] for place in np.flatnonzero(chosen_rows(rows, 1.0, True))} == {3}
    games = games_of(rows)
    assert len(set(games)) == 100
    assert len({(game, row["task"], row["index"]) for game, row in zip(games, cells, strict=True)}) == 100


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_chunk_holds_a_number_that_json_does_not_know(tmp_path, value):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_chunk(tmp_path, "a", {"x": [value]})


def exit_code(*words):
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return ended.value.code


SECRET = ("gpu-17.cluster.internal", "10.20.30.40", "/home/somebody/keys", "sk-1234567890")


@pytest.mark.slow
def test_no_host_folder_or_key_of_the_configuration_leaves(tmp_path):
    plan, rows = calm_rows()
    name = rows.schema.get_field_index("error")
    errors = pa.array([f"EngineError: http://{SECRET[1]}:8000/v1 on {SECRET[0]} read {SECRET[2]}/a.pem"] * len(rows))
    rows = rows.set_column(name, "error", errors)
    status = rows.schema.get_field_index("status")
    rows = rows.set_column(status, "status", pa.array(["failed"] * len(rows)))
    run = write_run(tmp_path / "somebody" / "run", plan, rows)
    model = {"name": "m", "engine": {"type": "openai", "api_key": SECRET[3], "base_url": f"http://{SECRET[0]}:8000"}}
    (run / "config.yaml").write_text(yaml.safe_dump({"suite": CONFIG, "model": model}))
    (run / "episodes" / f"part-000002-{SECRET[0]}.parquet").write_bytes(b"damaged")
    out = tmp_path / "pages"
    other = write_run(tmp_path / "other", *calm_rows())  # which knows nothing of these names
    assert exit_code("view", str(other), str(run), "--export", str(out)) == 0
    said = []
    for path in out.rglob("*"):
        if path.parent.name == "data":
            head, tail = read_chunk(path)
            said.append(json.dumps(head) + tail.decode("latin1"))
        elif path.is_file():
            said.append(path.read_text(encoding="utf-8"))
    for secret in (*SECRET, str(tmp_path)):
        assert not any(secret in text for text in said), secret
    assert any("EngineError: <address>" in text for text in said) and any("part-000002-" in text for text in said)


def test_an_episode_whose_suite_is_missing_is_written_as_it_is_stored(tmp_path):
    run = viewed(write_run(tmp_path / "run", *calm_rows()))
    run.suite = _missing
    index = EpisodeIndex([run])
    index.refresh()
    written = export(index, [{}], tmp_path / "pages")
    shown = [episode for chunk, _ in episodes_of(tmp_path / "pages") for episode in chunk["episodes"]]
    assert len(shown) == len(calm_rows()[1]) == written.listed == written.opened
    assert all(
        episode["notice"].startswith("Shown without the help of suite ") and episode["steps"] for episode in shown
    )
    head, tail = read_chunk(tmp_path / "pages" / "data" / "columns.js")
    columns = unpacked(head["columns"], tail, head["rows"])
    lying = [columns["episode_id"][columns["at"].index(place)] for place in range(len(shown))]
    assert lying == [episode["row"]["episode_id"] for episode in shown]
    rows = {row["episode_id"]: row for row in calm_rows()[1].to_pylist()}
    for name in ("player", "steps", "success", "index", "status"):
        assert columns[name] == [rows[each][name] for each in columns["episode_id"]], name


@pytest.mark.slow
def test_pages_hold_each_row_as_baseline_each_pair_and_what_was_planned_but_no_folder(tmp_path, monkeypatch):
    """As the server would answer; of a run that cannot be read, no address is told."""
    paths = [write_run(tmp_path / "calm", *calm_rows()), write_run(tmp_path / "wild", *hostile_rows())]
    runs = [viewed(path) for path in paths]
    runs[1].damage["part"] = f"gpu-17.local says no in {tmp_path}/x"
    runs[1].writer = lambda: "at work"
    index = EpisodeIndex(runs)
    index.refresh()
    answers = answers_of(index, [["other.local"], ["gpu-17.local"]])
    calm, wild = answers["state"]["runs"]
    assert (calm["path"], wild["path"], calm["live"], wild["live"]) == ("calm", "wild", False, False)
    assert wild["damage"] == ["part: <address> says no in <address>"]
    assert str(tmp_path) not in json.dumps(answers)
    expected = Counter()
    for name, (plan, _) in (("calm", calm_rows()), ("wild", hostile_rows())):
        expected.update((name, each.suite, each.task, each.level, each.mode, each.player) for each in plan)
    assert {tuple(json.loads(cell)): count for cell, count in answers["planned"].items()} == expected
    runs[0].data = lambda: (_ for _ in ()).throw(ValueError(f"no http://10.1.2.3:80 in {tmp_path}"))
    found = stored_results(index)
    names = ["hostile"]
    assert {baseline: each["baseline"] for baseline, each in found["results"].items()} == {
        name: name for name in ("", *names)
    }
    assert found["results"][""]["trouble"] == ["calm: ValueError: no <address> in <address>"] and found["compare"] == {}
    runs[0].data = viewed(paths[0]).data
    monkeypatch.setattr("evals.archive.answers.COMPARED", 2)
    found = stored_results(EpisodeIndex(runs))
    names = ["hostile", "chance (random)", "perfect play (oracle)"]
    assert [*found["results"]] == ["", *names]
    pairs = [(first, second) for first, others in found["compare"].items() for second in others]
    assert pairs == [(names[0], names[1]), (names[1], names[0])]
    assert all(
        (each["first"], each["second"]) == pair for pair in pairs for each in [found["compare"][pair[0]][pair[1]]]
    )


def _missing():
    raise ValueError("no suite of this name")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--export", "OUT", "--share", "0"], "--share 0.0: is above 0"),
        (["--export", "OUT", "--share", "1.5"], "at most 1"),
        (["--share", ".1"], "choose what --export FOLDER writes"),
        (["--failed"], "choose what --export FOLDER writes"),
        (["--export", "RUN"], "is there already"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, capsys, given, said):
    run = write_run(tmp_path / "run", *calm_rows())
    words = [{"OUT": str(tmp_path / "out"), "RUN": str(run)}.get(word, word) for word in given]
    assert exit_code("view", str(run), *words) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_run_whose_sessions_cannot_be_read_is_not_exported(tmp_path, capsys):
    run = write_run(tmp_path / "run", *calm_rows())
    (run / "versions.json").write_text('[{"id": "a", "vllm": NaN}]')
    assert exit_code("view", str(run), "--export", str(tmp_path / "out")) == 2
    assert f"{run / 'versions.json'}: is not JSON: NaN" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_licenses_of_all_packages_go_with_the_viewer_and_with_every_export(exported):
    folder, _ = exported
    shipped = (STATIC / "licenses.txt").read_text(encoding="utf-8")
    package = json.loads((ROOT / "evals" / "viewer" / "frontend" / "package.json").read_text())
    for name, version in package["dependencies"].items():
        assert f"{name} {version}\n" in shipped
    assert "Copyright (c) 2015-present Jason Miller" in shipped  # Preact's notice
    assert "Permission is hereby granted" in shipped
    exported_text = (folder / "static" / "licenses.txt").read_text(encoding="utf-8")
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert shipped in exported_text and notice in exported_text and "OpenMoji" in exported_text
    assert "licenses.txt" in (folder / "static" / "main.js").read_text(encoding="utf-8")[:200]


def test_license_and_notice_of_raycade_stand_before_those_of_others():
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("LICENSE", "NOTICE")]
    assert licenses() == "\n\n".join([*texts, (STATIC / "licenses.txt").read_text(encoding="utf-8")])


def test_a_spool_gives_back_what_was_put_in_any_order():
    with Spool() as spool:
        for number in (3, 1, 2):
            spool.put(number, {"number": number, "text": "\ud800" * number})
        assert [spool.get(number)["number"] for number in (1, 2, 3)] == [1, 2, 3]
        assert spool.get(2)["text"] == "\ud800\ud800"


def test_the_page_and_the_export_speak_of_one_tile_size():
    pictures = (ROOT / "evals" / "viewer" / "frontend" / "src" / "archive" / "pictures.ts").read_text(encoding="utf-8")
    assert f"const EDGE = {EDGE};" in pictures and f"const ACROSS = {ACROSS};" in pictures


@pytest.mark.parametrize("values", [255, 256, 257])
def test_a_missing_value_has_a_place_behind_all_others(values):
    names = [f"{number:03}" for number in range(values)]
    ([head], content) = pack(pa.table({"name": [*names, None, names[0]]}))
    places = np.frombuffer(content, head["type"])[: values + 2]
    assert head["values"] == [*names, None]
    assert [head["values"][place] for place in places] == [*names, None, names[0]]
