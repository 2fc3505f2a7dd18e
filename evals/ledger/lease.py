"""Which parts of a ledger count when several drivers may have written to it.

A driver holds a numbered lease of its run directory (``cluster.storage.lock`` takes and releases it): the file
``.lease-NUMBER`` with a nonce and the names of the parts that counted when the lease was taken. Each part carries the
nonce of its writer's lease in its metadata. Of the newest lease, these parts count:

- those that it lists: what earlier holders had written until then;
- those that carry its nonce.

A part that an earlier holder wrote later, because no lock stopped it, is in neither group. The new holder has not seen it
and plays its episodes again, so it must not count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from envs.files import FileError, MissingFileError, is_hidden, open_regular, parse_json, regular
from envs.files.parquet import local

LEASE_KEY = b"raycade.lease"
"""Where a part names its writer's lease in its metadata: ``NUMBER-NONCE``."""
MOST_DIGITS = 15
"""Of the number of a lease or a part."""
MOST_BYTES = 2**24
"""A larger lease file is not read; one with the names of 100,000 parts has a quarter of it."""


@dataclass(frozen=True)
class Lease:
    """One lease file."""

    path: Path
    number: int
    content: Mapping[str, Any]
    """Empty while it is being written, or if it cannot be read."""
    heartbeat: float
    """Modification time, by the file system's clock."""

    @property
    def mark(self) -> str:
        """What the parts of its holder carry."""
        return f"{self.number}-{self.content.get('nonce', '')}"

    @property
    def inherited(self) -> frozenset[str] | None:
        """Names of the parts that counted when it was taken; None if it does not say, as those of older versions."""
        names = self.content.get("parts")
        return frozenset(map(str, names)) if isinstance(names, list) else None


def find_leases(run_dir: Path) -> list[Lease]:
    """All leases of a run directory, the newest last; none where there is no directory.

    Raises:
        OSError: the directory cannot be listed, or a lease not be read.
    """
    found = []
    for path in _files_in(run_dir):
        number = re.fullmatch(r"\.lease-([0-9]+)", path.name)
        if number is None:
            continue
        # numbers go up by one: the lease after it could not be told from none
        if len(number[1]) > MOST_DIGITS or number[1] == "9" * MOST_DIGITS:
            raise OSError(f"{path}: no lease has such a number; remove the file")
        try:
            regular(path)
        except FileError:
            continue  # a folder or a pipe is no lease: no driver writes one
        try:
            with open_regular(path, MOST_BYTES) as file:
                found.append(Lease(path, int(number[1]), _content(file.read(), path), os.fstat(file.fileno()).st_mtime))
        except MissingFileError:
            continue  # removed meanwhile
        except FileError as error:  # of a lease that is there but cannot be read, it is not known who holds it
            raise OSError(str(error)) from error
    return sorted(found, key=lambda lease: lease.number)


def _content(text: bytes, path: Path) -> Mapping[str, Any]:
    try:
        content = parse_json(text, path)
    except FileError:
        return {}
    return content if isinstance(content, dict) else {}


@dataclass(frozen=True)
class Fence:
    """Tells which parts count, by the newest lease that can be read."""

    lease: Lease | None

    @property
    def mark(self) -> str:
        """Of the lease; empty without one."""
        return self.lease.mark if self.lease else ""

    def admits(self, name: str, mark: str) -> bool:
        """Whether a part counts.

        Args:
            name: Its file name.
            mark: The lease that its metadata names; empty if none.
        """
        if self.lease is None or self.lease.inherited is None:
            return True  # no driver has claimed the run since leases list parts
        return name in self.lease.inherited or mark == self.lease.mark


def read_fence(run_dir: Path) -> Fence:
    """The fence of a run directory as it is now."""
    readable = [lease for lease in find_leases(run_dir) if lease.content]
    return Fence(readable[-1] if readable else None)


def read_mark(part: Path) -> str:
    """The lease that a part names; empty if it names none.

    Raises:
        FileError, OSError, pyarrow.ArrowException: it cannot be read.
    """
    metadata = pq.read_metadata(local(regular(part))).metadata or {}
    mark: bytes = metadata.get(LEASE_KEY, b"")
    return mark.decode(errors="replace")


def _number_of(mark: str) -> int:
    """The number of the lease that a mark names; 0 if it names none."""
    number = mark.partition("-")[0]
    is_number = number.isdecimal() and len(number) <= MOST_DIGITS
    return int(number) if is_number else 0


def part_files(folder: Path) -> list[Path]:
    """The files of a ledger's parts, by name; none where the folder is not there.

    Raises:
        OSError: the folder cannot be listed. (``glob`` would show it empty: all episodes would count as not played.)
    """
    return sorted(file for file in _files_in(folder) if file.suffix == ".parquet" and not is_hidden(file))


def _files_in(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def counted_parts(run_dir: Path) -> tuple[list[str], int]:
    """Names of the parts that count so far, and the highest number of a lease that one of them names."""
    fence = read_fence(run_dir)
    known: frozenset[str] = frozenset()
    if fence.lease:
        known = fence.lease.inherited or known
    counted, highest = [], 0
    for path in part_files(run_dir / "episodes"):
        if path.name in known:
            counted.append(path.name)
            continue
        try:
            mark = read_mark(path)
        except (pa.ArrowException, OSError, ValueError):
            counted.append(path.name)  # damaged: it must not disappear from what readers report
            continue
        highest = max(highest, _number_of(mark))
        if fence.admits(path.name, mark):
            counted.append(path.name)
    return counted, highest
