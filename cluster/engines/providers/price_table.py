"""The file ``prices.yaml`` in its shape: whoever adds a line is told where it is wrong before anything is paid."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from envs.files import read_yaml
from evals.imports.reading import read_as
from evals.summary.cost import HIGHEST_PRICE

Price = Annotated[float, Field(ge=0, le=HIGHEST_PRICE)]
"""Per million tokens."""


class _Shape(BaseModel):
    """All keys are known: a misspelled price would count as 0."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Row(_Shape):
    """The prices of a model."""

    prompt: Price
    completion: Price
    """Reasoning included."""
    cache_read: Price | None = None
    cache_write: Price | None = None
    cache_write_1h: Price | None = None


class LongRow(Row):
    """The prices of a whole request whose prompt has more tokens than ``above``."""

    above: Annotated[int, Field(ge=1)]


class RowWithLong(Row):
    """A model's line of the table."""

    long: LongRow | None = None


class Section(_Shape):
    """The models of a provider."""

    batch: Annotated[float, Field(gt=0, le=1)]
    """What a batch costs of the usual price."""
    models: dict[str, RowWithLong]


class PriceTable(_Shape):
    """The whole file."""

    date: datetime.date
    source: str
    providers: dict[str, Section]


def read_price_table(path: Path) -> PriceTable:
    """Read a file of prices.

    Raises:
        FileError: it has another shape, or lists a model twice; the message names the place.
    """
    return read_as(PriceTable, read_yaml(path), path)
