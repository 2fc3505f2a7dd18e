"""Arrays of an npz archive: nothing in it is executed, and its size is bounded before it is unpacked.

Files that Python 2 wrote hold arrays of strings as pickled objects. Of these the strings are read; all other pickles are
refused.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.files.regular import MIB, FileError, read_bytes, words_of

MOST_BYTES = 8 * MIB
"""Of the archive, and of all its arrays together."""
_MOST_MEMBERS = 1000
_MOST_OPERATIONS = 20_000
"""Of a pickle of strings: about five for each."""
_LONGEST_STRING = 256
_PLAIN = "?bhilqBHILQefdgSU"
"""Characters of dtypes: truth values, numbers and strings."""


def read_npz(path: str | Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz archive by name.

    Raises:
        FileError: the file cannot be read, is damaged or too large, or holds objects other than strings.
    """
    content = read_bytes(path, MOST_BYTES)
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if total > MOST_BYTES or len(members) > _MOST_MEMBERS:
                raise FileError(path, f"would unpack to {total:,} bytes, where at most {MOST_BYTES:,} are read")
            for member in members:
                if not member.filename.endswith(".npy"):
                    continue
                data = _unpacked(archive, member)
                name = member.filename.removesuffix(".npy")
                arrays[name] = _array(data, f"{path}, array {name!r}")
    except FileError:  # a ValueError, too, but one that says what is wrong
        raise
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError, RuntimeError) as error:
        # RuntimeError: encrypted members; NotImplementedError, one of its kinds: unknown compression.
        raise FileError(path, f"damaged npz: {words_of(error)}") from None
    return arrays


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    # Other compressions unpack a whole block whatever the length that is asked for.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed in an unknown way")
    with archive.open(member) as file:
        # The stated size may be a lie: asking for a length bounds what is unpacked.
        data = file.read(member.file_size + 1)
    if len(data) != member.file_size:
        raise ValueError(f"{member.filename} has {len(data):,} bytes, not {member.file_size:,}")
    return data


def _header(stream: io.BytesIO, place: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and type of an array."""
    try:
        version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
        read_header = np.lib.format.read_array_header_2_0
        if version == (1, 0):
            read_header = np.lib.format.read_array_header_1_0
        shape, _, dtype = read_header(stream)  # type: ignore[no-untyped-call]
    except Exception as error:
        # A header is a Python literal: numpy reads it with ast, tokenize and dtype, which raise errors of many kinds.
        raise FileError(place, f"damaged header: {words_of(error)}") from None
    return shape, dtype


def _array(data: bytes, place: str) -> NDArray[Any]:
    stream = io.BytesIO(data)
    shape, dtype = _header(stream, place)
    if dtype.char == "O":
        return _strings(data[stream.tell() :], place)
    if dtype.char not in _PLAIN:
        raise FileError(place, f"has the type {str(dtype)[:40]}, which is neither number nor string")
    size = math.prod(shape) * dtype.itemsize
    rest = len(data) - stream.tell()
    if min(shape, default=0) < 0 or size != rest:
        raise FileError(place, f"damaged: shape {str(shape)[:60]} does not fit {len(data):,} bytes")
    if size == 0:
        raise FileError(place, "is empty")
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)  # type: ignore[no-untyped-call]
    return array


# --- pickled strings -------------------------------------------------------------------------------------------------


def _strings(data: bytes, place: str) -> NDArray[Any]:
    """A one-dimensional array of strings that numpy pickled as objects."""
    try:
        _check_operations(data)
        found = _StringsUnpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:  # a broken pickle may raise anything at all
        raise FileError(place, f"refused to unpack objects: {words_of(error)}") from None
    no_strings = FileError(place, "refused to unpack objects: an object array may hold strings only")
    if not isinstance(found, _PickledArray):
        raise no_strings
    names = found.names
    if not isinstance(names, list) or not names:
        raise no_strings
    for name in names:
        if not isinstance(name, str | bytes):
            raise no_strings
        if len(name) > _LONGEST_STRING:
            raise FileError(place, "refused to unpack objects: a string is too long")
    return np.array(names)


def _check_operations(data: bytes) -> None:
    """Refuses pickles that would take much memory: long strings, large numbers (of memory slots, say), many steps."""
    for count, (_, argument, _) in enumerate(pickletools.genops(data)):
        long = isinstance(argument, str | bytes) and len(argument) > _LONGEST_STRING
        large = isinstance(argument, int) and not isinstance(argument, bool) and abs(argument) > _MOST_OPERATIONS
        if count > _MOST_OPERATIONS or long or large:
            raise pickle.UnpicklingError("too large for a list of names")


class _PickledArray:
    """Stands for the array that a pickle builds, and keeps its items."""

    names: object = None

    def __setstate__(self, state: object) -> None:
        # numpy's state: version, shape, dtype, whether in Fortran's order, items.
        if isinstance(state, tuple) and len(state) == 5 and state[1] == (len(state[4]),):
            self.names = state[4]


class _PickledType:
    """Stands for the dtype in a pickle, which says nothing but that there are objects."""

    def __setstate__(self, state: object) -> None:
        pass


class _StringsUnpickler(pickle.Unpickler):
    """Knows the names that a pickled array of strings uses; refuses every other class and function."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return lambda *_: _PickledArray()
        if (module, name) == ("numpy", "ndarray"):
            return "numpy.ndarray"
        if (module, name) == ("numpy", "dtype"):
            return lambda *_: _PickledType()
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return lambda text, _: text.encode("latin1")
        raise pickle.UnpicklingError(f"{module}.{name} is no string")
