"""Zip archives of others: read within bounds, whatever they state, also where Python's own reader cannot unpack them."""

import struct
import zipfile

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envs.files import FileError
from envs.files.archive import MOST_MEMBER_BYTES, Archive

METHODS = {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED, "zstandard": 93, "bzip2": zipfile.ZIP_BZIP2}


def archive(path, content: bytes, method: str, stated: int | None = None):
    """An archive with one member; its headers are patched for what Python cannot write."""
    number = METHODS[method]
    packed = pa.compress(content, "zstd", asbytes=True) if method == "zstandard" else content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if method == "zstandard" else number) as file:
        file.writestr("a.json", packed)
    data = bytearray(path.read_bytes())
    size = len(content) if stated is None else stated
    for signature, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = data.index(signature)
        struct.pack_into("<H", data, start + place, number)
        struct.pack_into("<I", data, start + place + 14, size)
        if method == "zstandard":
            struct.pack_into("<I", data, start + place + 6, zipfile.crc32(content))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("method", ["stored", "deflated", "zstandard"])
@given(content=st.binary(max_size=5_000))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_member_comes_back_whole(method, content, tmp_path):
    opened = Archive(archive(tmp_path / "a.zip", content, method))
    assert opened.names == ["a.json"]
    assert opened.read("a.json") == content


@pytest.mark.parametrize("method", ["deflated", "zstandard"])
def test_no_more_is_unpacked_than_the_archive_states(method, tmp_path):
    bomb = archive(tmp_path / "a.zip", bytes(50_000_000), method, stated=1_000)
    with pytest.raises(FileError, match="length or checksum"):
        Archive(bomb).read("a.json")


def test_a_large_member_is_read_whole(tmp_path):
    content = bytes(range(256)) * 100_000
    assert Archive(archive(tmp_path / "a.zip", content, "zstandard")).read("a.json") == content


@pytest.mark.parametrize(
    ("method", "stated", "reason"),
    [
        ("stored", MOST_MEMBER_BYTES + 1, "would take"),
        ("bzip2", None, "not known here"),
        ("stored", 3, "length or checksum"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(method, stated, reason, tmp_path):
    path = archive(tmp_path / "a.zip", b"abcd", method, stated)
    with pytest.raises(FileError, match=reason):
        Archive(path).read("a.json")
    with pytest.raises(FileError, match="no member b"):
        Archive(path).read("b")


def test_a_member_that_is_larger_packed_than_it_states_is_bounded_by_that(tmp_path, monkeypatch):
    monkeypatch.setattr("envs.files.archive.MOST_MEMBER_BYTES", 100)
    path = archive(tmp_path / "a.zip", bytes(101), "stored", stated=3)
    with pytest.raises(FileError, match="would take 101 bytes, where at most 100 are read"):
        Archive(path).read("a.json")


def test_an_archive_with_two_members_of_one_name_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("a.json", b"1")
        file.writestr("a.json", b"2")
    with pytest.raises(FileError, match=r"two members of the name a\.json"):
        Archive(tmp_path / "a.zip")


def test_an_archive_that_unpacks_to_very_much_more_than_it_takes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("envs.files.archive.MOST_UNPACKED_BYTES", 1_000_000)
    path = archive(tmp_path / "a.zip", bytes(1_000_001), "deflated")
    with pytest.raises(FileError, match="would unpack to 1,000,001 bytes"):
        Archive(path)


def test_an_archive_may_unpack_to_so_many_times_what_it_takes_if_that_is_more(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a", b"x" * 5_000)
    takes = path.stat().st_size
    for most, ratio, fits in ((5_000, 0, True), (4_999, 0, False), (10, 5_000 // takes + 1, True), (10, 2, False)):
        monkeypatch.setattr("envs.files.archive.MOST_UNPACKED_BYTES", most)
        monkeypatch.setattr("envs.files.archive.MOST_UNPACKED_RATIO", ratio)
        if fits:
            assert Archive(path).read("a") == b"x" * 5_000
        else:
            with pytest.raises(FileError, match=f"at most {max(most, ratio * takes):,} are read"):
                Archive(path)


def test_as_many_members_of_such_sizes_as_are_allowed_are_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, size in (("b", 1000), ("a", 700), ("c", 3)):
            file.writestr(name, bytes(size))
    bounds = {"MOST_MEMBERS": 3, "MOST_UNPACKED_BYTES": 1703, "MOST_UNPACKED_RATIO": 0, "MOST_MEMBER_BYTES": 1000}
    for name, most in bounds.items():
        monkeypatch.setattr(f"envs.files.archive.{name}", most)
    opened = Archive(tmp_path / "a.zip")
    assert {name: len(opened.read(name)) for name in opened.names} == {"b": 1000, "a": 700, "c": 3}
    monkeypatch.setattr("envs.files.archive.MOST_MEMBER_BYTES", 999)
    with pytest.raises(FileError, match="b: would take 1,000 bytes, where at most 999 are read"):
        opened.read("b")
    for name, said in (("MOST_UNPACKED_BYTES", "would unpack to 1,703 bytes"), ("MOST_MEMBERS", "has 3 members")):
        monkeypatch.setattr(f"envs.files.archive.{name}", bounds[name] - 1)
        with pytest.raises(FileError, match=f"{said}, where at most {bounds[name] - 1:,} are read"):
            Archive(tmp_path / "a.zip")


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_archive_raises_a_file_error_or_reads_as_before(place, byte, tmp_path):
    path = archive(tmp_path / "a.zip", b"some text " * 20, "zstandard")
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(data)
    try:
        opened = Archive(path)
        content = [opened.read(name) for name in opened.names]
    except FileError:
        return
    assert content in ([], [b"some text " * 20])
