"""What the files of a run directory must hold before anything is read from them: they may be foreign or damaged.

Only keys whose values are read are declared; others are left alone, so that files of other versions can be read.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evals.summary.cost import HIGHEST_PRICE

Number = Annotated[float, Field(ge=-(2**53), le=2**53, allow_inf_nan=False)]
"""Larger ones are no measurement, and their sums would overflow."""
Price = Annotated[float, Field(ge=0, le=HIGHEST_PRICE, allow_inf_nan=False)]


def _moment(text: str) -> str:
    """A moment as ``datetime.isoformat`` writes it."""
    try:
        datetime.datetime.fromisoformat(text).timestamp()
    except OverflowError as error:
        raise ValueError("is out of range") from error
    return text


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Engine(_Shape):
    type: str | None = None
    prompt_price: Price | None = None
    completion_price: Price | None = None


class _Sampling(_Shape):
    max_tokens: Annotated[int, Field(ge=0, le=2**53)] | None = None


class _Model(_Shape):
    name: str
    engine: _Engine | None = None
    sampling: _Sampling | None = None


class StoredConfig(_Shape):
    """The sections of ``config.yaml``; commands that need a model say so themselves where there is none."""

    suite: dict[str, Any]
    model: _Model | None = None
    tracker: dict[str, Any] | None = None
    decoding: str | None = None
    name: str | None = None


class StoredSession(_Shape):
    """One session of ``versions.json``: beside what is declared, versions of packages by their names."""

    __pydantic_extra__: dict[str, str | int | float | bool | None]
    id: str
    began: Annotated[str, AfterValidator(_moment)] = ""
    config: dict[str, Any] = {}
    surroundings: dict[str, str | dict[str, str] | None] = {}
    engines: dict[str, dict[str, str | Number]] = {}


class StoredTimings(_Shape):
    """One line of ``timings.jsonl``: sums by their names, and the use of each replica."""

    __pydantic_extra__: dict[str, Number]
    use: dict[str, dict[str, Number]] = {}


def wrong_shape(shape: type[BaseModel], value: object) -> str:
    """What is wrong with a stored value, naming the place and not the value, which may be a secret; empty if nothing is."""
    try:
        shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part)[:60] for part in first["loc"])
        return f"{place}: {first['msg']}" if place else first["msg"]
    return ""
