"""What a full disk does to files that commands write, and to their exit codes."""

import contextlib
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from cluster.errors import RunFailedError, UserError, cannot_write
from envs.disk import WriteError, exit_code, own_file, own_folder, sync_directory, whole_file
from envs.raven.files import official, write
from envs.raven.generate import generate


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path):
    path = tmp_path / "file"
    with whole_file(path) as beside:
        beside.write_text("old")
    with pytest.raises(WriteError) as raised, whole_file(path) as beside:
        beside.write_text("new")
        full()
    assert str(raised.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


def test_no_link_in_the_folder_is_written_through(tmp_path, monkeypatch):
    precious, path = tmp_path / "precious", tmp_path / "file"
    precious.write_text("precious")
    (tmp_path / ".file.tmp").symlink_to(precious)
    with whole_file(path) as beside:
        beside.write_text("new")
    assert path.read_text() == "new" and not path.is_symlink()
    # even where somebody guessed the name
    monkeypatch.setattr("envs.disk.secrets.token_hex", lambda count: "00" * count)
    (tmp_path / ".file.00000000.tmp").symlink_to(precious)
    with pytest.raises(WriteError, match="file: cannot be written: File exists"), whole_file(path) as beside:
        beside.write_text("newer")
    assert precious.read_text() == "precious" and path.read_text() == "new"


def test_a_pipe_a_device_or_a_folder_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")

    def there():
        return {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}

    before = there()
    for name, kind in (("pipe", "not a regular file"), ("folder", "a folder"), ("link", "not a regular file")):
        path = tmp_path / name
        with pytest.raises(WriteError, match=f"{name}: cannot be written: .*{kind}"), whole_file(path) as beside:
            beside.write_text("new")
    assert there() == before


def test_a_file_is_parted_from_snapshots_and_all_else_stays(tmp_path):
    file, snapshot, link, alone = (tmp_path / name for name in ("file", "snapshot", "link", "alone"))
    file.write_bytes(b"content")
    file.chmod(0o640)
    snapshot.hardlink_to(file)
    link.symlink_to(snapshot)
    alone.touch()
    before = alone.stat().st_ino
    for path in (file, link, alone, tmp_path, tmp_path / "none"):
        own_file(path)
    assert not file.samefile(snapshot) and file.read_bytes() == snapshot.read_bytes() == b"content"
    assert file.stat().st_mode == snapshot.stat().st_mode
    assert link.is_symlink() and alone.stat().st_ino == before
    assert {path.name for path in tmp_path.iterdir()} == {"file", "snapshot", "link", "alone"}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_only_file_systems_that_sync_no_directories_may_refuse_to(tmp_path, monkeypatch, number):
    def refuse(descriptor):
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", refuse)
    expected = pytest.raises(OSError, match="no") if number == errno.EIO else contextlib.nullcontext()
    with expected:
        sync_directory(tmp_path)


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, 1), (errno.EDQUOT, 1), (errno.EFBIG, 1), (errno.ENOENT, 2), (errno.EACCES, 2)]
)
def test_a_full_disk_is_no_bad_input(number, code):
    error = OSError(number, os.strerror(number))
    assert exit_code(error) == code
    assert type(cannot_write("out", error)) is {1: RunFailedError, 2: UserError}[code]
    assert exit_code(ValueError()) == 2


def test_a_folder_whose_file_system_has_no_locks_is_named_with_what_to_do(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("envs.disk.fcntl.flock", no_locks)
    with (
        pytest.raises(
            ValueError, match=r"out: .* does not support file locking \(.*No locks.*; choose a folder elsewhere"
        ),
        own_folder(tmp_path / "out", ("a",), lambda: True, "in"),
    ):
        pass


@pytest.mark.parametrize("fails", [(np, "savez"), (Path, "write_text"), (Path, "replace")])
def test_no_half_problem_is_left_on_a_full_disk(fails, tmp_path, monkeypatch):
    file = official(generate("center_single", 1))
    monkeypatch.setattr(*fails, full)
    with pytest.raises(WriteError, match=r"RAVEN_1_train\.(npz|xml): cannot be written"):
        write(file, tmp_path / "RAVEN_1_train")
    assert not [*tmp_path.iterdir()]


def test_a_folder_is_written_by_one_command_at_a_time_and_over_its_own_files_only(tmp_path):
    folder = tmp_path / "new" / "out"
    with own_folder(folder, ("a", "b"), lambda: False, "in"):
        (folder / "b").write_text("ours")
        with (
            pytest.raises(ValueError, match="another command is writing it"),
            own_folder(folder, ("a",), lambda: True, "in"),
        ):
            pass
    with (
        pytest.raises(ValueError, match="its b was not written by this command"),
        own_folder(folder, ("a", "b"), lambda: False, "in"),
    ):
        pass
    for names in (("a", "b"), ("c",)):
        with own_folder(folder, names, lambda: "b" in names, "in"):
            pass
    (folder / "in").symlink_to(tmp_path)
    for names, inner in ((("in",), "other"), (("a",), "in")):
        with pytest.raises(ValueError, match="in: is a link"), own_folder(folder, names, lambda: True, inner):
            pass
