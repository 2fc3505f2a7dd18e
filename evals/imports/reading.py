"""Files of other programs in the shape that they should have; what is not declared is left alone."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.files import FileError
from evals.ledger.check import MOST


class Shape(BaseModel):
    """Of a value in a file that others wrote."""

    model_config = ConfigDict(strict=True, extra="ignore")


Tokens = Annotated[int, Field(ge=0, le=MOST)]
"""A number of tokens that a ledger can hold."""

S = TypeVar("S", bound=BaseModel)


def read_as(shape: type[S], value: object, place: object) -> S:
    """A parsed value in its shape.

    Raises:
        FileError: it has another one; the message names the field and not the value.
    """
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(str(part)[:60] for part in first["loc"]) or "the whole file"
        raise FileError(place, f"{name}: {first['msg']}") from None


def texts_of(content: Any) -> str:
    """The texts of a message's content: a text, or a list of parts of which only texts count."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text")) for part in content if part.get("type") == "text")
