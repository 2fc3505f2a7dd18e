"""The runs, the list of their episodes, and what is counted in it."""

from __future__ import annotations

from typing import NotRequired, TypedDict

Values = dict[str, dict[str, int]]
"""For each filter the values to choose from, with their counts."""


class Counted(TypedDict):
    """What the ledger says of an episode; see ``evals.ledger.columns.EpisodeRow``."""

    episode_id: str
    suite: str
    task: str
    level: str
    mode: str
    index: int
    repeat: int
    player: str
    status: str
    error: str
    error_kind: str
    success: bool | None
    score: float | None
    steps: int | None
    budget: int
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cached_tokens: int
    seconds: float
    cost: float
    cut_off: int
    attempt: int


class Row(Counted):
    """An episode in the list; ``other`` is the same game of those it is compared with."""

    id: int
    run: str
    seed: NotRequired[int]
    other: NotRequired[Partner | None]
    tags: NotRequired[list[str]]
    """Of the notes on it."""


class StoredRow(Counted):
    """An episode's row of the ledger; a number in JavaScript has fewer digits than a seed."""

    seed: str
    session: str


class Partner(TypedDict):
    """The same game of another run or player."""

    run: str
    episode_id: str
    status: str
    success: bool | None
    error: str


class Progress(TypedDict):
    """How far a search for text has come, in files."""

    searched: int
    of: int
    running: bool


# ``from`` is a word of Python's
Page = TypedDict("Page", {"total": int, "from": int, "rows": list[Row], "search": Progress | None, "version": int})
Page.__doc__ = "Some rows of the list."


class RunStatus(TypedDict):
    """A run and how far it has come, in episodes."""

    name: str
    path: str
    planned: int
    done: int
    failed: int
    waiting: int
    players: list[str]
    damage: list[str]
    stopping: list[str]
    live: bool


class State(TypedDict):
    """What runs there are; ``version`` changes whenever any other answer may; the next look is in ``again`` seconds."""

    version: int
    again: float  # 0 for never
    loaded: bool
    trouble: str
    runs: list[RunStatus]


class Cell(TypedDict):
    """Episodes of one player in a cell."""

    run: str
    suite: str
    task: str
    level: str
    mode: str
    player: str
    played: int
    won: int
    failed: int
    planned: int | None


class Cause(TypedDict):
    """Failures with one cause."""

    cause: str
    error_kind: str
    count: int
    example: str
    players: list[str]
    episodes: list[Row]
