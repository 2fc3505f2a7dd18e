"""Parquet files from outside: what would fill the memory is refused before it is read."""

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from envs.files import FileError
from envs.files import parquet as module
from envs.files.parquet import open_parquet, read_parquet

FEW = 1000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Bounds that a test can exceed."""
    monkeypatch.setattr(module, "MOST_BYTES", 1_000_000)
    monkeypatch.setattr(module, "MOST_RATIO", 20)
    monkeypatch.setattr(module, "_sound", set())


def written(path, table, **options):
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


def repeated(text, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


def nested(values):
    turns = pa.StructArray.from_arrays([values], ["reply"])
    return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), turns)


BOMBS = {
    "a text that many rows refer to": lambda: repeated("x" * 10_000, FEW),
    "the same within turns": lambda: nested(repeated("x" * 10_000, FEW)),
    "a text that compresses well": lambda: pa.array(["x" * 50_000_000]),
    "a number in many rows": lambda: pa.array([7] * 1_000_000),
}


@pytest.mark.parametrize("folder", ["qwen3:8b", "s3:/bucket"])
def test_a_relative_folder_with_a_colon_is_no_address(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    written(tmp_path / folder / "a.parquet", pa.table({"a": [7]}))
    assert read_parquet(f"{folder}/a.parquet")["a"].to_pylist() == [7]


def test_a_column_that_damage_renamed_is_noticed(tmp_path):
    """Parquet's footer has no checksum: one changed bit in a name would hide a column of a suite."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"score": [1.0], "kumo.optimal": [2]}), path)
    assert read_parquet(path).column_names == ["score", "kumo.optimal"]
    sound = path.read_bytes()
    renamed = sound.replace(b"kumo.optimal", b"kumo.optimam")
    assert renamed != sound
    path.write_bytes(renamed)
    with pytest.raises(FileError, match=r"damaged: a column is named 'kumo\.optimam' in one place and 'kumo\.optimal'"):
        open_parquet(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("groups", [1, 10])
def test_a_file_that_would_fill_the_memory_is_refused(tmp_path, name, groups):
    table = pa.table({"a": BOMBS[name]()})
    path = written(tmp_path / "a.parquet", table, row_group_size=-(-len(table) // groups))
    assert path.stat().st_size < 50_000
    for _ in ("once", "again"):
        with pytest.raises(FileError, match="bytes of memory"):
            open_parquet(path)


def test_texts_that_repeat_their_beginnings_are_bounded(tmp_path):
    """DELTA_BYTE_ARRAY stores of each text only what differs from the one before: 400 of 10 kB take a page of 10 kB."""
    more = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    path = written(tmp_path / "a.parquet", pa.table({"a": ["x" * 10_000] * 400}), **more)
    with pytest.raises(FileError, match="bytes of memory"):
        open_parquet(path)


@pytest.mark.parametrize("wrap", [lambda values: values, nested])
def test_long_texts_that_few_rows_refer_to_are_read(tmp_path, wrap):
    """Numbers of values times the longest text would be too much; what the rows take in truth is not."""
    indices = [0] + [1] * (FEW - 1)
    values = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(["x" * 100_000, "y"]))
    table = pa.table({"a": wrap(values)})
    read = read_parquet(written(tmp_path / "a.parquet", table))
    assert read.num_rows == FEW and read.nbytes > 100_000


def test_all_rows_of_the_asked_columns_are_read(tmp_path):
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    path = written(tmp_path / "a.parquet", table, row_group_size=2)
    assert read_parquet(path).to_pydict() == table.to_pydict()
    assert read_parquet(path, ("b",)).to_pydict() == {"b": ["x", None, "z"]}
    with pytest.raises(FileError, match="no column 'c'"):
        read_parquet(path, ("a", "c"))


def test_a_column_twice_is_refused(tmp_path):
    path = written(tmp_path / "a.parquet", pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))
    with pytest.raises(FileError, match="'a' twice"):
        open_parquet(path)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(FileError, match="folder"):
        open_parquet(tmp_path)


@pytest.mark.parametrize("values", [repeated("x" * 1000, FEW), pa.array([7] * FEW), nested(repeated("yz" * 700, FEW))])
def test_exactly_as_much_memory_as_is_allowed_may_be_taken(tmp_path, monkeypatch, values):
    path = written(tmp_path / "a.parquet", pa.table({"a": values, "b": ["other"] * FEW}))
    monkeypatch.setattr(module, "MOST_RATIO", 0)
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    with pytest.raises(FileError, match="bytes of memory") as refused:
        open_parquet(path)
    takes = int(re.search(r"would take ([\d,]+) bytes", str(refused.value))[1].replace(",", ""))
    monkeypatch.setattr(module, "MOST_BYTES", takes - 1)
    with pytest.raises(FileError, match=f"takes? {takes:,} bytes of memory, where at most {takes - 1:,} are read"):
        open_parquet(path)
    monkeypatch.setattr(module, "MOST_BYTES", takes)
    assert read_parquet(path).num_rows == FEW


def test_a_file_is_looked_at_anew_once_it_changed_or_more_of_it_is_read(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", pa.table({"few": list(range(10)), "many": ["x" * 40] * 10}))
    monkeypatch.setattr(module, "MOST_RATIO", 0)
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    with pytest.raises(FileError, match="bytes of memory") as refused:
        read_parquet(path, ("few",))
    takes = int(re.search(r"would take (\d+) bytes", str(refused.value))[1])
    monkeypatch.setattr(module, "MOST_BYTES", takes)
    assert read_parquet(path, ("few",)).num_rows == 10
    for columns in ((), ("many",), ("few", "many")):
        with pytest.raises(FileError):
            read_parquet(path, columns)
    monkeypatch.setattr(module, "MOST_BYTES", takes - 1)
    assert read_parquet(path, ("few",)).num_rows == 10, "nothing has changed"
    os.utime(path, (1, 1))
    with pytest.raises(FileError):
        read_parquet(path, ("few",))
