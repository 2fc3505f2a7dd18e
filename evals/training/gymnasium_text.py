"""A Gymnasium space of texts in any script.

Gymnasium's own ``Text`` lists its characters one by one, and through the shared memory of ``AsyncVectorEnv`` its observations
never change (they are read once, when the memory is empty). Here the shared memory holds UTF-8, and is read when a text is.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from numpy.typing import NDArray

_LENGTH: Final = 8
"""Bytes in front of each text of the shared memory, which say how long it is."""
_SAMPLED: Final = "abcdefghijklmnopqrstuvwxyz"


class AnyText(Space[str]):
    """Texts of at most ``most`` bytes in UTF-8."""

    def __init__(self, most: int, seed: int | np.random.Generator | None = None) -> None:
        """``seed`` is that of ``sample``."""
        self.most = most
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """A text has no fixed shape."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short word of chance; masks are not known."""
        return "".join(self.np_random.choice(list(_SAMPLED), min(self.most, 8)))

    def contains(self, x: Any) -> bool:
        """Whether it is a text of valid Unicode that is not too long."""
        if not isinstance(x, str):
            return False
        try:
            return len(x.encode()) <= self.most
        except UnicodeEncodeError:
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and other.most == self.most

    def __hash__(self) -> int:
        return hash(self.most)

    def __repr__(self) -> str:
        return f"AnyText({self.most})"


class _SharedTexts(Sequence[str]):
    """The texts of all environments, each decoded when it is looked at; a copy of it is a tuple."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory

    def __len__(self) -> int:
        return len(self._memory)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(self)[index]
        row = self._memory[index]
        length = int(row[:_LENGTH].view(np.int64)[0])
        text: str = row[_LENGTH : _LENGTH + length].tobytes().decode()
        return text

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __deepcopy__(self, memo: Any) -> tuple[str, ...]:
        return tuple(self)


def _row(space: AnyText) -> int:
    return _LENGTH + -(-space.most // _LENGTH) * _LENGTH


def _bytes_of(memory: Any) -> NDArray[np.uint8]:
    return np.frombuffer(memory.get_obj(), np.uint8)


@create_shared_memory.register(AnyText)
def _create(space: AnyText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array("B", n * _row(space))


@write_to_shared_memory.register(AnyText)
def _write(space: AnyText, index: int, value: str, shared_memory: Any) -> None:
    row = _bytes_of(shared_memory)[index * _row(space) : (index + 1) * _row(space)]
    text = np.frombuffer(value.encode(), np.uint8)
    row[:_LENGTH].view(np.int64)[0] = len(text)
    row[_LENGTH : _LENGTH + len(text)] = text


@read_from_shared_memory.register(AnyText)
def _read(space: AnyText, shared_memory: Any, n: int = 1) -> _SharedTexts:
    return _SharedTexts(_bytes_of(shared_memory).reshape(n, _row(space)))
