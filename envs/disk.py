"""Files that are written whole or not at all, and errors of a disk that is full, say."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

_REFUSALS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG))
_NOT_FOR_DIRECTORIES = frozenset((errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP))
"""What ``fsync`` answers where it is for files alone."""


class WriteError(OSError):
    """A file cannot be written; the message names it."""

    def __str__(self) -> str:
        return f"{self.filename}: cannot be written: {self.strerror}"


def disk_refuses(error: BaseException) -> bool:
    """Whether a disk takes nothing more: it is full, say. The place that was named is not wrong then."""
    return isinstance(error, OSError) and error.errno in _REFUSALS


def exit_code(error: BaseException) -> int:
    """Of a command that ends with an error: 1 where the disk refuses, else 2, for bad input."""
    return 1 if disk_refuses(error) else 2


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path beside a file, to be written to; what was written becomes the file at the end, unless there was an error.

    The file beside is new, and nobody can foresee its name: a link that lies in the folder is not written through. One
    that is left by a process that was killed disturbs nobody: ``.NAME.0123abcd.tmp``.

    Raises:
        WriteError: a folder, a device or a pipe is there, or it cannot be written; what was there is still there.
    """
    from envs.files import FileError, regular  # here: signals are heeded before packages are imported that take time

    try:
        regular(path)
    except FileError as error:
        raise WriteError(errno.EEXIST, error.reason, str(path)) from error
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        raise WriteError(error.errno, error.strerror, str(path)) from error
    try:
        yield beside
        beside.replace(path)
    except WriteError:  # of another file, which it names
        raise
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        beside.unlink(missing_ok=True)


def own_file(path: Path) -> None:
    """Make a file that is about to be changed in place the folder's own.

    Snapshots by hard links (``cp -al``, ``rsync --link-dest``) share files with what they were taken of: there, too, a
    change would show. Nothing is done where a file has one name, or something else or nothing lies there.

    Raises:
        OSError: it cannot be copied.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode) or status.st_nlink == 1:
        return
    with whole_file(path) as copy:
        copy.chmod(stat.S_IMODE(status.st_mode))
        shutil.copyfile(path, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make what was created, renamed or removed in a directory outlast a crash of the machine.

    Some file systems (SMB, FUSE) sync files alone; on these a directory is as safe as they make it.

    Raises:
        OSError: the file system could do so, and failed.
    """
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in _NOT_FOR_DIRECTORIES:
            raise
    finally:
        os.close(directory)


@contextlib.contextmanager
def own_folder(folder: Path, names: Collection[str], is_ours: Callable[[], bool], inner: str) -> Iterator[None]:
    """A folder that one command writes files into, made where there is none; nobody else writes it meanwhile.

    Args:
        folder: The folder.
        names: Of the files.
        is_ours: Whether files of these names, where there are any, were written by the same command before.
        inner: The name of a folder in it that is written, too.

    Raises:
        ValueError: files of these names are somebody else's, one of them is a link, another command is at work, or the file
            system has no locks.
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*names, inner):
        if (folder / name).is_symlink():
            raise ValueError(f"{folder / name}: is a link, and would be written through; remove it")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder}: another command is writing it") from None
        except OSError as error:
            raise ValueError(
                f"{folder}: this file system does not support file locking ({error}), so two commands could write at once; "
                "choose a folder elsewhere, or have it mounted with locks (Lustre: -o flock)"
            ) from error
        there = [name for name in names if (folder / name).exists()]
        if there and not is_ours():
            raise ValueError(f"{folder}: its {there[0]} was not written by this command; name another folder")
        yield
    finally:
        os.close(handle)
