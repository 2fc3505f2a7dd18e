"""What the readers of files say of odd ones, on record."""

import errno
import io
import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from envs import disk, files, page, picture, suggest
from envs.files import arrays, data, parquet, xml
from envs.files.archive import Archive
from envs.files.regular import FileError
from envs.kumo.domain import Action, State
from envs.kumo.published.tasks import read_task
from envs.page import typeface
from envs.picture import picture_from_description
from tests.golden import check_said, digest


def kept(content):
    """A file of this content, in the folder in which the test runs."""
    content = content if isinstance(content, bytes) else content.encode()
    Path("f").write_bytes(content)
    return "f"


def npz(**members):
    with zipfile.ZipFile("f", "w") as archive:
        for name, content in members.items():
            out = io.BytesIO()
            np.save(out, content, allow_pickle=True)
            archive.writestr(name.replace("_", "."), out.getvalue())
    return "f"


def packed(extra=b"", flags=0, signature=b"", crc=None):
    """An archive of two stored members, changed where it begins."""
    with zipfile.ZipFile("f", "w") as archive:
        for name, content in (("one.txt", b"1234"), ("two", b"5")):
            member = zipfile.ZipInfo(name)
            member.extra = extra
            archive.writestr(member, content)
    content = bytearray(Path("f").read_bytes())
    listed = content.index(b"PK\x01\x02")
    content[listed + 8] |= flags
    content[: len(signature)] = signature
    if crc is not None:
        content[listed + 16 : listed + 20] = crc.to_bytes(4, "little")
    return kept(bytes(content))


def written(path, error):
    """Write a file whole, or end with an error in between."""
    with disk.whole_file(Path(path)) as beside:
        beside.write_text("half")
        if error:
            raise error
        beside.write_text("whole")


def told(function, *given):
    try:
        return shown(function(*given))[:40]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def shown(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(each)}" for name, each in value.items()) + "}"
    return f"{value.dtype} {value.tolist()}" if isinstance(value, np.ndarray) else repr(value)


def test_files_are_read_and_refused_as_on_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    (tmp_path / "folder").mkdir()
    names = {name: value for each in (data, arrays, xml, disk, suggest, files) for name, value in vars(each).items()}
    own = {"kept": kept, "npz": npz, "packed": packed, "written": written, "told": told}
    check_said("files", {**names, **own, "Archive": Archive, "errno": errno}, shown)


def test_published_tasks_are_read_and_refused_as_on_record():
    names, ranges = (
        (State("red", ("Fox", "Elk")), State("no", ("Ant",))),
        (State((0, 2), ("Elk",)), State((2, 3.5), ())),
    )
    actions = {"Skin": Action("Skin", "str", names), "Size": Action("Size", "float", ranges, "g")}
    actions["Ant"] = Action("Ant", "str", (State("yes", ("Hen",)), State("no", ())))
    sound = {
        "truths": ["Fox", "Ant", "Elk"],
        "actions": ["Size", "Skin"],
        "observations": {"Skin": "red", "Size": 1},
        "seed": 7,
        "valid_truth": "Ant",
    }

    def read(fields=None, without="", **changes):
        fields = (
            {name: value for name, value in {**sound, **changes}.items() if name != without}
            if fields is None
            else fields
        )
        task, reasons = read_task(fields, "wood", frozenset(("Fox", "Ant", "Elk", "Hen")), actions)
        return f"{json.dumps(task.to_json())} {task.accepted} {reasons}"

    check_said("kumo_read_tasks", {"read": read, "nan": math.nan})


def test_pictures_are_rebuilt_and_refused_as_on_record(monkeypatch):
    monkeypatch.setattr(picture, "BUILT_IN", {**picture.BUILT_IN, "none": "json:dumps"})
    check_said("pictures", {**vars(picture), "json": json}, repr)


def test_pages_are_set_as_on_record():
    def drawn(picture):
        again = picture_from_description(picture.description)
        pixels = again.render()
        rows, columns = (np.flatnonzero((pixels < 255).any((axis, 2))) for axis in (1, 0))
        ink = [int(place) for each in (rows, columns) for place in (each[[0, -1]] if len(each) else ())]
        return again == picture, picture.size, pixels.shape, picture._places, ink, digest(pixels.tobytes())

    check_said("pages", {**vars(page), **vars(typeface), "drawn": drawn, "digest": digest}, repr)


@pytest.fixture
def table(tmp_path):
    """Two row groups; in the second, only one text column has texts."""
    turns = [[{"said": ["x" * 300, "y"]}], [], [{"said": []}, {"said": ["x" * 300] * 3}], [{"said": ["é"]}]]
    texts = ["a" * 900, "b", None, "a" * 900]
    content = {"turns": turns, "text": texts, "text2": ["c" * 80] * 2 + [None] * 2, "number": [1, 2, 3, 4]}
    kind = pa.schema(
        {
            "turns": pa.list_(pa.struct({"said": pa.large_list(pa.string())})),
            "text": pa.string(),
            "text2": pa.string(),
            "number": pa.int64(),
        }
    )
    pq.write_table(pa.table(content, kind), tmp_path / "a.parquet", row_group_size=2, store_schema=True)
    return tmp_path / "a.parquet"


TEXT_BYTES = {"turns": 300 * 4 + 1 + 2, "text": 2 * 900 + 1, "text2": 160}


@pytest.mark.parametrize("read", [["turns"], ["text"], ["text2"], ["text", "text2"], ["turns", "text"], ["tex"], None])
def test_a_table_takes_what_is_stored_of_the_columns_read_and_the_texts_they_refer_to(table, monkeypatch, read):
    monkeypatch.setattr(parquet, "_sound", set())
    monkeypatch.setattr(parquet, "MOST_RATIO", 0)
    with pq.ParquetFile(table) as file:
        footer = file.metadata
        stored = values = 0
        for group in range(2):
            for leaf in range(4):
                chunk = footer.row_group(group).column(leaf)
                if read is None or chunk.path_in_schema.split(".")[0] in read:
                    stored += chunk.total_uncompressed_size
                    values += chunk.num_values * (chunk.path_in_schema == "number")
    takes = stored + 8 * values + sum(TEXT_BYTES[name] for name in read or TEXT_BYTES if name in TEXT_BYTES)
    monkeypatch.setattr(parquet, "MOST_BYTES", takes - 1)
    if takes:
        with pytest.raises(FileError, match=f"would take {takes:,} bytes of memory, where at most {takes - 1:,} are"):
            parquet.open_parquet(table, read=read)
    monkeypatch.setattr(parquet, "MOST_BYTES", takes)
    parquet.open_parquet(table, read=read).close()


def test_a_table_is_looked_through_once_for_the_same_columns_and_may_take_many_times_its_size(table, monkeypatch):
    looks = []
    monkeypatch.setattr(parquet, "_sound", set())
    monkeypatch.setattr(parquet, "_check_leaves", lambda path, footer, leaves, most: looks.append((list(leaves), most)))
    for read in (None, ["text"], ["text"], None, ["text", "turns"], ["turns", "text"], []):
        parquet.open_parquet(table, read=read).close()
    most = max(parquet.MOST_BYTES, 1000 * table.stat().st_size)
    assert looks == [([0, 1, 2, 3], most), ([1], most), ([0, 1], most), ([], most)]
    monkeypatch.setattr(parquet, "MOST_BYTES", 1)
    pq.write_table(pa.table({"a": [1]}), table)
    parquet.open_parquet(table).close()
    assert looks[4:] == [([0], 1000 * table.stat().st_size)]
