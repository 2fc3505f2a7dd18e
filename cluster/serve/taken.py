"""What a program may send: checked field by field, within bounds."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from cluster.engines.api_answer import whole
from envs.files import Bounds, FileError, parse_json
from evals.types import Finish

BODY: Final = Bounds(size=8 << 20, depth=16, nodes=100_000)
"""Most that a request may hold: a reply with all its reasoning."""


class Taken(BaseModel):
    """A message of a program: no other fields, and no other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


T = TypeVar("T", bound=Taken)


class Wish(Taken):
    """What a client wants to play."""

    episode: str = ""
    """An episode's id; empty for the next one."""
    pictures: Annotated[str, Field(pattern="^(data|url)$")] = "data"
    """Pictures as data URLs, or as addresses of PNG files on this server."""


class Answer(Taken):
    """What a client answers to a turn."""

    text: Annotated[str, AfterValidator(whole)]
    reasoning: Annotated[str, AfterValidator(whole)] = ""
    """Is kept in the ledger and never decoded."""
    finish: Finish = "stop"
    usage: dict[str, Any] = {}
    """Tokens, as chat completions report them."""
    cost: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0.0


class BadRequestError(ValueError):
    """A body that is no such message."""


def read_wish(body: bytes) -> Wish:
    """What a client wants; nothing for an empty body.

    Raises:
        BadRequestError: it is none.
    """
    return _read(Wish, body or b"{}")


def read_answer(body: bytes) -> Answer:
    """A client's answer.

    Raises:
        BadRequestError: it is none.
    """
    return _read(Answer, body)


def _read(kind: type[T], body: bytes) -> T:
    try:
        return kind.model_validate(parse_json(body, "the body", BODY))
    except FileError as error:
        raise BadRequestError(str(error)) from None
    except ValidationError as error:
        raise BadRequestError(what_is_wrong(error)) from None


def what_is_wrong(error: ValidationError) -> str:
    """The first thing that is wrong with a message, without its values."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"])) or "the body"
    return f"{place[:100]}: {first['msg']}"
