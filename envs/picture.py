"""A picture as a value: a small hashable description that renders itself to the same pixels anywhere.

Pictures travel through requests and into the ledger as descriptions of a few hundred bytes; pixels exist only where they
are needed (at the replica, in a report). The content hash of the description is the picture's identity in every cache.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from envs import plugins
from envs.files import parse_json

GROUP = "raycade.pictures"
"""Entry-point group of picture classes; an entry's name is the class's ``kind``."""

BUILT_IN: Mapping[str, str] = {
    "file": "envs.file_picture:FilePicture",
    "kidgym": "envs.kidgym.frame:Frame",
    "page": "envs.page:PagePicture",
    "raven": "envs.raven.compose:RavenPicture",
}

Detail = Literal["grid", "prose", "json"]
"""How a picture is told in words: laid out as it is seen, in sentences, or as JSON."""

_KINDS: dict[str, type[Picture]] = {}
"""Classes imported so far."""


class Picture(abc.ABC):
    """A frozen dataclass that describes an image completely.

    Subclasses are frozen dataclasses whose fields are JSON values (or tuples of them, or nested frozen dataclasses that
    ``from_json`` rebuilds). ``kind`` is the name under which the class is registered, so that a stored description
    finds its renderer; ``version`` is raised whenever the same description would render other pixels.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            _KINDS[cls.kind] = cls

    @property
    @abc.abstractmethod
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""

    @abc.abstractmethod
    def render(self) -> NDArray[np.uint8]:
        """The pixels, shape (height, width, 3), RGB."""

    def twin(self, detail: Detail) -> str:
        """The picture told in words: all that a careful person sees in it, and nothing that it hides.

        Raises:
            ValueError: pictures of this kind cannot be told in words.
        """
        raise ValueError(f"pictures of kind {self.kind!r} cannot be told in words")

    def to_json(self) -> dict[str, Any]:
        """The description as JSON values, without ``kind`` and ``version``."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Picture:
        """The inverse of ``to_json``; subclasses with nested values override it."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})

    @cached_property
    def description(self) -> str:
        """Canonical JSON of the picture, its kind and its version: what the ledger stores."""
        content = {"kind": self.kind, "version": self.version, **self.to_json()}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @cached_property
    def key(self) -> str:
        """Content hash: 32 hexadecimal digits, equal for two pictures exactly when their pixels are."""
        return hashlib.blake2b(self.description.encode(), digest_size=16).hexdigest()


def picture_from_description(description: str) -> Picture:
    """Rebuild a picture from the JSON that a ledger stores.

    Raises:
        ValueError: the kind is unknown, the description was written by another version of its renderer, or its fields are
            not those of the kind.
    """
    fields = parse_json(description, "picture description")
    wrong = ValueError(f"no description of a picture: {description[:40]!r}")
    if not isinstance(fields, dict):
        raise wrong
    if not {"kind", "version"} <= fields.keys():
        raise wrong
    kind, version = str(fields.pop("kind")), fields.pop("version")
    # A kind is known once its module has been loaded.
    if kind not in _KINDS:
        try:
            plugins.load(GROUP, kind, BUILT_IN)
        except ValueError as error:
            raise ValueError(f"unknown picture kind: {error}") from error
    if kind not in _KINDS:
        raise ValueError(f"unknown picture kind {kind!r}: what is registered under that name defines no such picture")
    cls = _KINDS[kind]
    if version != cls.version:
        raise ValueError(f"picture of kind {kind!r} has version {version!r}; this renderer is version {cls.version}")
    try:
        return cls.from_json(fields)
    except Exception as error:  # a description may be anybody's, and hold anything in place of a field
        raise ValueError(f"no description of a picture of kind {kind!r}: {error}") from error


def render_description(description: str) -> tuple[Picture, NDArray[np.uint8]]:
    """A stored picture and its pixels, for showing: whatever is wrong with it is one kind of error.

    Raises:
        ValueError: it cannot be rebuilt or rendered.
    """
    picture = picture_from_description(description)
    try:
        return picture, picture.render()
    except Exception as error:  # as above: values of the right type may still be nonsense
        raise ValueError(f"this picture of kind {picture.kind!r} cannot be drawn: {error}") from error
