"""Arrays of an npz file without trusting it: nothing in it is executed, and its size is bounded before it is unpacked.

Files written by Python 2 hold the array of structure names as pickled objects. The unpickler here builds such an array of
strings and refuses everything else.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZE_LIMIT = 8 << 20
"""Bytes of all arrays together; those of a problem take 400 kB."""


class RavenFileError(ValueError):
    """A file is not a RAVEN problem; the message names the file and what is wrong with it."""


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz file by name.

    Raises:
        RavenFileError: the file is missing, damaged, too large or holds objects other than strings.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > SIZE_LIMIT:
                raise RavenFileError(f"{path}: would unpack to {size} bytes, too many for one problem")
            for member in archive.infolist():
                if member.filename.endswith(".npy"):
                    arrays[member.filename.removesuffix(".npy")] = _array(archive.read(member))
    except FileNotFoundError as error:
        raise RavenFileError(f"{path}: there is no such file") from error
    except RavenFileError:
        raise
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError, RuntimeError, NotImplementedError) as error:
        raise RavenFileError(f"{path}: damaged npz: {error}") from error
    except pickle.UnpicklingError as error:
        raise RavenFileError(f"{path}: refused to unpack objects: {error}") from error
    return arrays


def _array(data: bytes) -> NDArray[Any]:
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)  # type: ignore[no-untyped-call]
    if math.prod(shape) * dtype.itemsize > 8 * len(data):  # objects may take less than their pointers
        raise ValueError(f"an array of shape {shape} does not fit into {len(data)} bytes")
    if not dtype.hasobject:
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)  # type: ignore[no-untyped-call]
        return array
    try:
        names = _StringsUnpickler(stream, encoding="latin1").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a broken pickle may raise anything at all
        raise pickle.UnpicklingError(f"broken pickle ({error})") from error
    if not isinstance(names, np.ndarray) or not all(isinstance(name, str | bytes) for name in names.flat):
        raise pickle.UnpicklingError("an object array may hold strings only")
    return np.array(names.tolist())


class _StringsUnpickler(pickle.Unpickler):
    """Builds numpy object arrays; refuses every other class and function."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return lambda *_: np.empty(0, object)
        if (module, name) == ("numpy", "ndarray"):
            return "numpy.ndarray"
        if (module, name) == ("numpy", "dtype"):
            return lambda *_: np.dtype(object)
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return lambda text, _: text.encode("latin1")
        raise pickle.UnpicklingError(f"{module}.{name} is no string")
