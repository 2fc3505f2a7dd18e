"""Members of zip archives, also of those that Python's own reader cannot unpack: what one takes is bounded before it is."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from envs.files.regular import MIB, FileError, open_regular

MOST_ARCHIVE_BYTES = 4096 * MIB
MOST_MEMBER_BYTES = 64 * MIB
MOST_MEMBERS = 200_000
MOST_UNPACKED_BYTES = 1024 * MIB
"""Of all members together, or `MOST_UNPACKED_RATIO` times the archive, whichever is more."""
MOST_UNPACKED_RATIO = 100
_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""Signature, and the lengths of the name and of the extra field before a member's data."""
_ZSTANDARD = 93
"""Method number of the zip format; Python reads it from 3.14 on."""


class Archive:
    """A zip archive that is read member by member; it may be larger than the memory."""

    def __init__(self, path: Path) -> None:
        """Open an archive.

        Raises:
            FileError: it is none, or too large.
        """
        self.path = path
        self._file: BinaryIO = open_regular(path, MOST_ARCHIVE_BYTES)
        try:
            members = zipfile.ZipFile(self._file).infolist()
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, struct.error) as error:
            self._file.close()
            raise FileError(path, f"is no zip archive: {error}") from None
        if len(members) > MOST_MEMBERS:
            self._file.close()
            raise FileError(path, f"has {len(members):,} members, where at most {MOST_MEMBERS:,} are read")
        self._members = {member.filename: member for member in members}
        try:
            self._check_whole(members)
        except FileError:
            self._file.close()
            raise

    def _check_whole(self, members: Sequence[zipfile.ZipInfo]) -> None:
        """Refuses an archive in which one name stands for two members, or that unpacks to very much more than it takes."""
        if len(self._members) < len(members):
            [(name, _)] = Counter(member.filename for member in members).most_common(1)
            raise FileError(self.path, f"has two members of the name {name}")
        unpacked = sum(member.file_size for member in members)
        most = max(MOST_UNPACKED_BYTES, MOST_UNPACKED_RATIO * os.fstat(self._file.fileno()).st_size)
        if unpacked > most:
            raise FileError(self.path, f"would unpack to {unpacked:,} bytes, where at most {most:,} are read")

    @property
    def names(self) -> list[str]:
        """Of all members, in their order."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """A member's content, stored, deflated or compressed by Zstandard.

        Raises:
            FileError: there is none of this name, it is too large, damaged, or compressed in another way.
        """
        place = f"{self.path}, {name}"
        member = self._members.get(name)
        if member is None:
            raise FileError(self.path, f"has no member {name}")
        takes = max(member.file_size, member.compress_size)  # either may be a lie
        if takes > MOST_MEMBER_BYTES:
            raise FileError(place, f"would take {takes:,} bytes, where at most {MOST_MEMBER_BYTES:,} are read")
        try:
            data = _unpacked(self._packed(member), member)
        except (zlib.error, OSError, struct.error, EOFError, ValueError, pa.ArrowException) as error:
            raise FileError(place, f"is damaged: {error}") from None
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise FileError(place, "is damaged: its length or checksum is not what the archive states")
        return data

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        self._file.seek(member.header_offset)
        signature, name, extra = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if signature != b"PK\x03\x04" or member.flag_bits & 1:
            raise ValueError("no member there, or an encrypted one")
        self._file.seek(name + extra, io.SEEK_CUR)
        return self._file.read(member.compress_size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _unpacked(packed: bytes, member: zipfile.ZipInfo) -> bytes:
    # The stated size may be a lie: one byte more than it is asked for, and no more is unpacked.
    most = member.file_size + 1
    if member.compress_type == zipfile.ZIP_STORED:
        return packed
    if member.compress_type == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
    if member.compress_type == _ZSTANDARD:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            content: bytes = stream.read(most)
            return content
    raise ValueError("compressed in a way that is not known here")
