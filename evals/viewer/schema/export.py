"""What an export holds beside the episodes."""

from typing import Any, Literal, NotRequired, TypedDict

from evals.viewer.schema.results import Comparison, Results
from evals.viewer.schema.runs import State


class PackedColumn(TypedDict):
    """A column of the list as numbers; see ``evals.archive.columns.pack``."""

    name: str
    kind: Literal["ids", "values", "numbers"]
    type: Literal["uint8", "uint16", "uint32", "float32"]
    values: NotRequired[list[Any]]


class Answers(TypedDict):
    """What an export holds beside list and episodes."""

    state: State
    planned: dict[str, int]


class Columns(TypedDict):
    """The head of an export's list: ``size`` episodes to a chunk."""

    version: int
    rows: int
    size: int
    columns: list[PackedColumn]
    answers: Answers


class Stored(TypedDict):
    """An export's results by baseline, and comparisons by the names of both rows."""

    results: dict[str, Results]
    compare: dict[str, dict[str, Comparison]]
