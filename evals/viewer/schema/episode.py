"""One episode, turn by turn."""

from typing import Any, NotRequired, TypedDict

from evals.viewer.schema.runs import Row, StoredRow

Facts = dict[str, Any]
"""Names and JSON values, in the order in which they are to be read."""


class TextPart(TypedDict):
    """A text within a message."""

    text: str


class PicturePart(TypedDict):
    """A picture within a message, by its key."""

    picture: str


class Message(TypedDict):
    """What the system, the user or the assistant said."""

    role: str
    parts: list[TextPart | PicturePart]


class Step(TypedDict):
    """A turn of an episode; see ``evals.view.StepView`` and ``evals.ledger.columns.TurnRow``."""

    shown: list[Message]
    kept: int
    reply: str
    reasoning: str
    decoded: str | None
    rule: str
    facts: Facts
    best: str | None
    regret: float | None
    lost: bool
    after: str | None
    remaining: list[str] | None
    probabilities: dict[str, float | None]
    options: list[str]
    finish: str
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cached_tokens: int
    seconds: float
    cost: float
    label_mass: float | None
    exact: bool | None


class Rule(TypedDict):
    """What an outcome of a test rules out; see ``evals.view.Rule``."""

    test: str
    outcome: str
    rules_out: list[str]
    used: int | None


class Question(TypedDict):
    """A question of a chain; see ``evals.view.Question``."""

    name: str
    stage: str
    answer: str | None
    key: str
    parents: list[str]
    weights: list[float]
    turn: int
    counts: bool
    score: float | None


class Picture(TypedDict):
    """Size of a picture in pixels, or why it cannot be rendered."""

    width: int
    height: int
    error: str


class Place(TypedDict):
    """Where an episode stands in the list."""

    position: int | None
    total: int
    before: Row | None
    after: Row | None


class Listed(Row):
    """An episode's row, with the attempts that there are."""

    attempts: list[int]


class Shown(TypedDict):
    """An episode as exports and reports store it."""

    steps: list[Step]
    facts: Facts
    regret_unit: str
    candidates: list[str]
    book: list[Rule]
    graph: list[Question]
    row: StoredRow
    columns: Facts
    notice: str
    pictures: dict[str, Picture]


class Episode(Shown):
    """An episode as the page shows it; ``chunk`` is that of an export which has the episode and its pictures."""

    listed: Listed
    place: Place
    same_game: list[Row]
    folder: str
    chunk: NotRequired[str]
