"""Files of others: whatever their bytes, reading ends in plain data or in one error that names them, in little memory."""

import io
import itertools
import json
import os
import pickle
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from envs import plugins
from envs.file_picture import FilePicture
from envs.files import (
    Bounds,
    FileError,
    MissingFileError,
    parse_json,
    parse_yaml,
    read_bytes,
    read_json,
    read_json_lines,
    read_lines,
    read_text,
    read_toml,
    read_yaml,
    regular,
)
from envs.files.arrays import read_npz
from envs.files.xml import parse_xml
from envs.kumo import DomainError, load_domain
from envs.kumo.task import read_tasks
from envs.picture import picture_from_description
from envs.raven import generate, official, write
from envs.raven.listing import read_files

READERS = {
    "bytes": read_bytes,
    "text": read_text,
    "json": read_json,
    "jsonl": lambda path: list(read_json_lines(path)),
    "yaml": read_yaml,
    "toml": read_toml,
    "npz": read_npz,
    "xml": lambda path: parse_xml(read_text(path), path),
}
MOST_MEMORY = 48 << 20
"""Bytes that reading one small bad file may take."""

fuzz = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def reading(path, kinds=READERS):
    """Read a file as each kind: plain data or a `FileError` that names it."""
    for kind in kinds:
        try:
            READERS[kind](path)
        except FileError as error:
            assert str(path) in str(error) and "\n" not in str(error) and len(str(error)) < 1000


@pytest.fixture
def little_memory():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_MEMORY


def archive(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def header(text):
    line = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


# --- anything at all -------------------------------------------------------------------------------------------------

marks = st.sampled_from(
    [*"[]{},:&*!|>-?\"'#%@`\n\t 01aé<>/=\\", "\0", "\ufeff", "[[", "&a ", "*a", "<<: ", "- ", "!!set "]
)
texts = st.lists(marks | st.text(max_size=5), max_size=60).map("".join)


@fuzz
@given(content=st.binary(max_size=300) | texts.map(str.encode) | texts.map(lambda text: text.encode("utf-16")))
def test_any_bytes_are_read_or_refused_by_name(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    reading(path)


@fuzz
@given(data=st.data())
def test_an_archive_with_any_bytes_changed_is_read_or_refused_by_name(data, tmp_path):
    names = np.array(["Scene", "/"], object)
    sound = data.draw(st.sampled_from([archive(image=npy(np.zeros((2, 2)))), archive(structure=npy(names))]))
    content = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "file.npz").write_bytes(content)
    reading(tmp_path / "file.npz", ["npz"])


@fuzz
@given(before=st.binary(max_size=40), at=st.integers(0, 200))
def test_a_pickle_with_any_bytes_put_in_is_read_or_refused_by_name(before, at, tmp_path):
    content = npy(np.array(["Scene", "Grid", "/"], object))
    start = content.index(b"\n") + 1
    pickled = content[start:]
    place = at % (len(pickled) + 1)
    changed = archive(structure=content[:start] + pickled[:place] + before + pickled[place:])
    (tmp_path / "file.npz").write_bytes(changed)
    reading(tmp_path / "file.npz", ["npz"])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@fuzz
@given(value=values)
def test_what_was_written_is_read(value):
    assert parse_json(json.dumps(value), "here") == value
    assert parse_yaml(yaml.safe_dump(value), "here") == value


@given(depth=st.integers(1, 12), deepest=st.integers(1, 12))
def test_the_depth_allowed_is_allowed_and_no_more(depth, deepest):
    text, bounds = "[" * depth + "1" + "]" * depth, Bounds(depth=deepest)
    for parse in (parse_json, parse_yaml):
        if depth <= deepest:
            assert str(parse(text, "here", bounds)) == text
        else:
            with pytest.raises(FileError, match=rf"here.*deeper than {deepest} levels"):
                parse(text, "here", bounds)


@given(count=st.integers(1, 30), most=st.integers(2, 30))
def test_the_number_of_values_allowed_is_allowed_and_no_more(count, most):
    bounds = Bounds(nodes=most)
    for text in (json.dumps([7] * count), json.dumps(["a, [b"] * count), yaml.safe_dump(["a, [b"] * count)):
        for parse in (parse_json, parse_yaml) if text[0] == "[" else (parse_yaml,):
            if count + 1 <= most:
                assert len(parse(text, "here", bounds)) == count
            else:
                with pytest.raises(FileError, match=f"more than {most} values"):
                    parse(text, "here", bounds)


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_the_size_allowed_is_allowed_and_no_more(parse):
    text = '["abcdef", 7]'
    assert parse(text, "here", Bounds(size=len(text))) == ["abcdef", 7]
    with pytest.raises(FileError, match=f"here: has more than {len(text) - 1} characters"):
        parse(text, "here", Bounds(size=len(text) - 1))


def test_texts_behind_aliases_count_as_often_as_they_stand():
    text = "- &a " + "x" * 50 + "\n" + "- *a\n" * 3
    assert len(text) < 200 and parse_yaml(text, "here", Bounds(size=200)) == ["x" * 50] * 4
    with pytest.raises(FileError, match="here, line 4: holds more than 199 characters"):
        parse_yaml(text, "here", Bounds(size=199))


def test_numbers_of_as_many_digits_as_are_printed_are_read():
    most = "7" * 400
    assert parse_yaml(f"[{most}]", "here") == [int(most)]
    for longer in (f"{most}7", f"{most[:-2]}.{most[:3]}"):
        with pytest.raises(FileError, match="here, line 1: is not YAML: too long a number"):
            parse_yaml(f"[{longer}]", "here")


def test_reasons_and_lines_are_cut_or_refused_beyond_their_length(tmp_path, monkeypatch):
    assert FileError("here", "x " * 100 + "y" * 200).reason == "x " * 100 + "y" * 200
    assert FileError("here", "x\n\t" * 100 + "y" * 201).reason == "x " * 100 + "y" * 200 + "…"
    monkeypatch.setattr(sys.modules["envs.files.regular"], "MOST_LINE_BYTES", 8)
    (tmp_path / "lines").write_bytes(b"1234567\n\n123456\r\n123456789")
    lines = read_lines(tmp_path / "lines")
    assert [next(lines), next(lines)] == [(1, "1234567"), (3, "123456")]
    with pytest.raises(FileError, match="lines, line 4: is longer than 8 bytes"):
        next(lines)


def test_xml_of_the_size_depth_and_number_allowed_is_read_and_no_more(monkeypatch):
    text = '<a x="1" y="2"><b><c/></b><b z="3"/></a>'  # four elements with three attributes, three levels
    exact = {"size": len(text), "depth": 3, "nodes": 7}
    monkeypatch.setattr("envs.files.xml.XML_BOUNDS", Bounds(**exact))
    assert [each.tag for each in parse_xml(text, "here").iter()] == ["a", "b", "c", "b"]
    for name, said in (
        ("size", "characters"),
        ("depth", "nested deeper than 2 levels"),
        ("nodes", "more than 6 elements"),
    ):
        monkeypatch.setattr("envs.files.xml.XML_BOUNDS", Bounds(**{**exact, name: exact[name] - 1}))
        with pytest.raises(FileError, match=f"here: .*{said}"):
            parse_xml(text, "here")


def test_arrays_of_the_size_and_names_of_the_length_allowed_are_read_and_no_more(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    for length in (256, 257):
        np.savez(path, names=np.array(["x" * length, "y"], object))
        if length == 256:
            assert read_npz(path)["names"].tolist() == ["x" * 256, "y"]
        else:
            with pytest.raises(FileError, match="refused to unpack objects"):
                read_npz(path)
    np.savez_compressed(path, a=np.zeros(1000), b=np.zeros(3))
    with zipfile.ZipFile(path) as file:
        takes = sum(member.file_size for member in file.infolist())
    monkeypatch.setattr("envs.files.arrays.MOST_BYTES", takes)
    assert {name: len(array) for name, array in read_npz(path).items()} == {"a": 1000, "b": 3}
    monkeypatch.setattr("envs.files.arrays.MOST_BYTES", takes - 1)
    with pytest.raises(FileError, match=f"would unpack to {takes:,} bytes, where at most {takes - 1:,} are read"):
        read_npz(path)


# --- files that were made to harm ------------------------------------------------------------------------------------

ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
LONG_ALIASES = f"- &a {'x' * 100_000}\n" + "- [" + ", ".join(["*a"] * 1000) + "]\n"


def shared_string():
    """2,500 references to one string of a million characters, which a fixed-width array would repeat."""
    return archive(structure=npy(np.array(["x" * 1_000_000] * 2500, object)))


def far_memory_slot():
    """A pickle that stores into slot 2^28 of its memory, for which the whole table is made."""
    content = npy(np.array(["Scene"], object))
    start = content.index(b"\n") + 1
    return archive(structure=content[:start] + b"\x80\x02Nr\xff\xff\xff\x0f" + content[start + 2 :])


def understated():
    """An archive whose directory says that 64 MB of zeros are 100 bytes."""
    size, content = 64 << 20, bytearray(archive(image=bytes(64 << 20)))
    for _ in range(content.count(size.to_bytes(4, "little"))):
        place = content.index(size.to_bytes(4, "little"))
        content[place : place + 4] = (100).to_bytes(4, "little")
    return bytes(content)


def overstated():
    """An archive whose directory says that an array goes on behind the end of the file."""
    array = npy(np.zeros(3))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("image.npy", array)
    return out.getvalue().replace(len(array).to_bytes(4, "little"), (1 << 20).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("yaml", b"[" * 100_000, "line 1: is nested deeper"),
        ("yaml", b"{a: " * 100_000, "line 1: is nested deeper"),
        ("yaml", ALIASES.encode(), "line 6: holds more than 200,000 values"),
        ("yaml", LONG_ALIASES.encode(), "more than 8,388,608 characters"),
        ("yaml", b"&a [*a]", "stands for nothing, or for what it is part of"),
        ("yaml", b"n: 0x" + b"f" * 5000, "too long a number"),
        ("yaml", b"n: " + b"1:" * 5000 + b"1", "too long a number"),
        ("json", b'{"a": 1, "b": {"c": 1, "c": 1}}', "is not JSON: key 'c' occurs twice"),
        ("yaml", b"a: 1\na: 2", "line 2: is not YAML: key 'a' occurs twice"),
        ("jsonl", b'{"a": 1}\n{"b": 1, "a": {"c": 1, "c": 1}}', "line 2: is not JSON: key 'c' occurs twice"),
        ("yaml", b"!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("yaml", b"2026-99-99", "is not YAML: month must be in"),
        ("yaml", b"!!int ''", "is not YAML: string index out of range"),
        ("yaml", "a: ü".encode("latin-1"), "not UTF-8 at byte 3"),
        ("json", b"[" * 100_000, "is nested deeper"),
        ("json", b'{"a":' * 100_000, "is nested deeper"),
        ("json", b"[" + b"[]," * 5_000_000 + b"[]]", "holds more than 4,000,000 values"),
        ("json", b"1" * 5000, "is not JSON"),
        ("json", b"1e999", "too large a number"),
        ("json", b"NaN", "NaN is no JSON number"),
        ("json", "{}".encode("utf-16"), "looks like UTF-16"),
        ("jsonl", b"{}\n\n[[[\n", "line 3: is not JSON"),
        ("toml", b"a = " + b"[" * 50_000, "is nested deeper"),
        ("xml", b"<a>" * 100_000, "is nested deeper"),
        ("xml", b"<a>" + b"<b/>" * 50_000, "more than 50,000 elements"),
        ("xml", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "document type declarations are not allowed"),
        ("xml", b"<a>&b;</a>", "not well-formed"),
        ("xml", '<?xml version="1.0" encoding="utf-16"?><a/>'.encode("utf-16"), "looks like UTF-16: save it as UTF-8"),
        ("npz", shared_string, "refused to unpack objects: too large"),
        ("npz", far_memory_slot, "refused to unpack objects: too large"),
        ("npz", understated, "damaged npz"),
        ("npz", overstated, "damaged npz: EOFError"),
        ("npz", lambda: archive(a=bytes(9 << 20)), "would unpack to 9,437,184 bytes"),
        ("npz", lambda: archive(a=header("{'descr': '|u1', 'fortran_order': False, 'shape': (9999999999,)}")), "shape"),
        ("npz", lambda: archive(a=header("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 0)}")), "shape"),
        ("npz", lambda: archive(a=header("{'descr': '|V2000000000', 'fortran_order': False, 'shape': ()}")), "type"),
        ("npz", lambda: archive(a=header("(" * 9000)), "damaged header"),
        ("npz", lambda: archive(a=header("{'descr': '|u1', 'shape': (1L, (")), "damaged header: [^(]*$"),
    ],
    ids=itertools.count(),
)
def test_a_harmful_file_is_refused_by_name_in_little_memory(kind, content, reason, tmp_path, little_memory):
    path = tmp_path / f"harmful.{kind}"
    tracemalloc.stop()  # making the file may take what it likes
    path.write_bytes(content() if callable(content) else content)
    tracemalloc.start()
    with pytest.raises(FileError, match=reason) as caught:
        READERS[kind](path)
    assert str(path) in str(caught.value) and len(str(caught.value)) < 1000


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_cannot_be_unpacked_piece_by_piece_are_refused(compression, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as file:
        file.writestr("image.npy", npy(np.zeros(3)))
    with pytest.raises(FileError, match="compressed in an unknown way"):
        read_npz(tmp_path / "a.npz")


def test_only_regular_files_of_the_size_allowed_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name, read in READERS.items():
        for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero")):
            with pytest.raises(FileError, match="is not a regular file"):
                read(path)
        with pytest.raises(FileError, match="is a folder"):
            read(tmp_path)
        with pytest.raises(MissingFileError, match=f"{name}: there is no such file"):
            read(tmp_path / name)
        with pytest.raises(FileError, match="null"):
            read("a\0b")
    with pytest.raises(FileError, match="is not a regular file"):
        regular(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"12345")
    assert read_bytes(tmp_path / "file", 5) == b"12345" and regular(tmp_path / "file") == tmp_path / "file"
    with pytest.raises(FileError, match="has 5 bytes, where at most 4 are read"):
        read_bytes(tmp_path / "file", 4)
    with pytest.raises(FileError, match="where at most 4 are read"):
        read_bytes("/proc/self/status", 4)  # says that its size is 0


def test_lines_and_marks_of_other_systems_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n[2]')
    assert list(read_json_lines(tmp_path / "a")) == [(1, {"a": 1}), (3, [2])]
    assert read_text(tmp_path / "a") == '{"a": 1}\n\n[2]'


def test_aliases_within_the_bounds_are_unfolded_and_plain_text_has_none():
    text = "base: &a {x: 1}\nlist: [*a, *a]\nmore: {<<: *a, y: 2}"
    assert parse_yaml(text, "here") == {"base": {"x": 1}, "list": [{"x": 1}] * 2, "more": {"x": 1, "y": 2}}
    for refused in (text, "!!str 1"):
        with pytest.raises(FileError, match=r"here, line 1: .* not allowed"):
            parse_yaml(refused, "here", plain=True)


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(MissingFileError("a.yaml", "is\n\tbroken " + "x" * 1000)))
    assert isinstance(error, MissingFileError) and error.place == "a.yaml"
    assert str(error).startswith("a.yaml: is broken xxx") and len(str(error)) < 500


# --- every reader of the project uses them ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["[" * 100_000, ALIASES, "title: *a"])
def test_a_domain_made_to_harm_is_refused(text, tmp_path, little_memory):
    (tmp_path / "d.yaml").write_text(text)
    with pytest.raises(DomainError, match=r"d\.yaml, line"):
        load_domain(tmp_path / "d.yaml")


def test_a_task_file_of_brackets_is_refused(tmp_path):
    (tmp_path / "tasks.jsonl").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"tasks\.jsonl, line 1: is nested deeper"):
        read_tasks(tmp_path / "tasks.jsonl", [])


def test_a_plugin_folder_of_brackets_is_refused(tmp_path, plugins_in):
    (tmp_path / "plugins.toml").write_text("a = " + "[" * 50_000)
    plugins_in(tmp_path)
    with pytest.raises(ValueError, match=r"plugins\.toml: is nested deeper"):
        plugins.registered("raycade.suites", {})


FILE = '{"kind": "file", "version": 1, "path": "/etc/passwd", "digest": "", "width": '


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, "7", "{}", '{"kind": "file", "version": {}}'),
        *(
            FILE + end
            for end in (
                '8, "height": 8, "more": 1}',
                "8}",
                '8, "height": "8"}',
                '8, "height": 100000000000}',
                '8, "height": 0}',
            )
        ),
        '{"kind": "kidgym", "version": 2, "more": 1}',
    ],
)
def test_a_description_that_is_no_picture_is_refused(text):
    with pytest.raises(ValueError, match="picture"):
        picture_from_description(text)


def test_of_a_file_that_is_no_picture_only_the_beginning_is_read(tmp_path, monkeypatch):
    (tmp_path / "secret").write_bytes(b"secret" * 1000)
    monkeypatch.setattr("envs.file_picture.read_bytes", lambda *each: pytest.fail("read whole"))
    with pytest.raises(ValueError, match="no PNG or JPEG picture"):
        FilePicture(str(tmp_path / "secret"), "", 8, 8).render()


def test_what_is_transparent_in_a_picture_is_white_and_half_of_it_mixed(tmp_path):
    image = Image.new("RGBA", (3, 1))
    image.putdata([(200, 0, 0, 0), (200, 0, 0, 255), (0, 0, 0, 128)])
    image.save(tmp_path / "a.png")
    assert FilePicture.read(tmp_path / "a.png").render().tolist() == [[[255] * 3, [200, 0, 0], [127] * 3]]


def test_a_picture_is_kept_once_under_its_hash_and_is_that_one_only(tmp_path, monkeypatch):
    monkeypatch.setattr("envs.file_picture.MOST_PIXELS", 7)
    contents = []
    for size in ((7, 2), (2, 7), (8, 2), (2, 8)):
        written = io.BytesIO()
        Image.new("RGB", size, (10, 20, 30)).save(written, "PNG")
        contents.append(written.getvalue())
    wide, tall = (FilePicture.store(content, tmp_path) for content in contents[:2])
    assert (wide.size, tall.size) == ((7, 2), (2, 7)) and tall.render().shape == (7, 2, 3) and wide.key != tall.key
    before = Path(wide.path).stat().st_mtime_ns
    assert FilePicture.store(contents[0], tmp_path) == wide == FilePicture.read(Path(wide.path))
    assert Path(wide.path).stat().st_mtime_ns == before
    assert sorted(tmp_path.iterdir()) == sorted(tmp_path / f"{each.key}.png" for each in (wide, tall))
    assert picture_from_description(wide.description) == wide
    for content in contents[2:]:
        with pytest.raises(ValueError, match=r"a picture of \dx\d pixels; at most 7 an edge are read"):
            FilePicture.store(content, tmp_path)
    with pytest.raises(ValueError, match="whole numbers from 1 to 7"):
        picture_from_description(wide.description.replace('"width":7', '"width":8'))
    Path(wide.path).write_bytes(contents[1])
    with pytest.raises(ValueError, match="this picture is not the one that was stored"):
        wide.render()


def test_a_picture_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "p.png")
    with pytest.raises(ValueError, match="is not a regular file"):
        FilePicture.read(tmp_path / "p.png")


def test_one_xml_in_utf16_costs_itself_only_and_is_named(tmp_path):
    for number in range(2):
        write(official(generate("center_single", number)), tmp_path / f"RAVEN_{number}_train")
    xml = tmp_path / "RAVEN_0_train.xml"
    xml.write_bytes(xml.read_text().encode("utf-16"))
    bad, good = read_files(tmp_path)
    assert isinstance(bad, FileError) and str(bad).startswith(f"{xml}: is not UTF-8") and "UTF-16" in str(bad)
    assert not isinstance(good, FileError)


def test_a_problem_behind_a_link_is_read_with_the_xml_beside_it(tmp_path):
    write(official(generate("center_single", 3)), tmp_path / "RAVEN_3_train")
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen/RAVEN_3_train.npz").symlink_to(tmp_path / "RAVEN_3_train.npz")
    [found] = read_files(tmp_path / "chosen")
    assert not isinstance(found, FileError)


def test_an_array_has_as_many_bytes_as_its_shape_says(tmp_path):
    for content, fits in ((npy(np.zeros(9)), True), (npy(np.zeros(9)) + b"\0", False), (npy(np.zeros(9))[:-1], False)):
        (tmp_path / "a.npz").write_bytes(archive(image=content))
        if fits:
            assert read_npz(tmp_path / "a.npz")["image"].shape == (9,)
            continue
        with pytest.raises(FileError, match=r"shape \(9,\) does not fit"):
            read_npz(tmp_path / "a.npz")


def test_a_stored_crc_that_is_wrong_is_found(tmp_path):
    data = npy(np.zeros(9))
    content = archive(image=data)
    wrong = content.replace(zlib.crc32(data).to_bytes(4, "little"), b"0000")
    (tmp_path / "a.npz").write_bytes(wrong)
    with pytest.raises(FileError, match=r"damaged npz.*CRC"):
        read_npz(tmp_path / "a.npz")


def test_an_archive_of_more_arrays_than_any_file_needs_is_refused(tmp_path):
    many = {f"a{number}": npy(np.zeros(1)) for number in range(1001)}
    (tmp_path / "many.npz").write_bytes(archive(**many))
    with pytest.raises(FileError, match="would unpack to"):
        read_npz(tmp_path / "many.npz")
    many.popitem()
    (tmp_path / "many.npz").write_bytes(archive(**many))
    assert len(read_npz(tmp_path / "many.npz")) == 1000
