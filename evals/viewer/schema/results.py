"""Results, comparisons, and success over difficulty."""

from typing import Literal, NotRequired, TypedDict


class Interval(TypedDict):
    """A mean, or a difference, with its interval at 95 %, whose ends are null where it has none; ``n`` observations."""

    mean: float
    low: float | None
    high: float | None
    n: int


class Effect(TypedDict):
    """First minus second on their shared games; ``holm`` is p corrected for the rows beside it."""

    cell: list[str]
    first: float
    second: float
    difference: Interval
    p: float
    holm: float
    games: int


class ResultCell(TypedDict):
    """One player's games on a board; ``difference`` to the baseline."""

    run: str
    player: str
    score: Interval | None
    standing: str
    notes: list[str]
    planned: int
    played: int
    failed: int
    replies: int
    unread: int
    cut: int
    cost: float
    seconds: float | None
    difference: NotRequired[Effect]


class Tick(TypedDict):
    """What a score may be held against."""

    kind: Literal["chance", "shortcut", "paper", "people"]
    name: str
    value: float


class ResultBoard(TypedDict):
    """Equal games of a suite, with the range of the first measure."""

    suite: str
    title: str
    about: str
    measure: str
    share: bool
    low: float
    high: float
    ticks: list[Tick]


class ResultRow(TypedDict):
    """A model, or what a built-in player stands for, with a cell for each board."""

    name: str
    reference: bool
    cells: list[ResultCell | None]


class Setting(TypedDict):
    """A setting that differs, with its value in each row of a model."""

    name: str
    values: dict[str, str]


class Results(TypedDict):
    """Runs by suites; ``trouble`` says which could not be read."""

    sentence: str
    baseline: str
    boards: list[ResultBoard]
    rows: list[ResultRow]
    settings: list[Setting]
    trouble: list[str]


class ComparedMeasure(TypedDict):
    """A measure of two rows; ``detects`` is the true difference that so many games show in 80 % of all cases."""

    measure: str
    share: bool
    better: str
    overall: Effect
    detects: float | None
    dimensions: list[str]
    tasks: list[Effect]
    cells: list[Effect]


class Outcomes(TypedDict):
    """Games of a cell by who won them."""

    task: str
    level: str
    mode: str
    both: int
    first: int
    second: int
    neither: int


class Side(TypedDict):
    """One side of a comparison, as the ledger names it."""

    run: str
    player: str


class ComparedSuite(TypedDict):
    """Two rows in one suite."""

    suite: str
    title: str
    about: str
    first: Side
    second: Side
    measures: list[ComparedMeasure]
    outcomes: list[Outcomes]


class Comparison(TypedDict):
    """Two rows of the results on identical games, with the settings that tell them apart."""

    first: str
    second: str
    sentence: str
    suites: list[ComparedSuite]
    settings: list[Setting]


class DifficultyCurve(TypedDict):
    """Success of a player, or of chance or perfect play (``reference``), over levels, the easiest first."""

    run: str
    title: str
    task: str
    player: str
    mode: str
    reference: bool
    levels: list[str]
    success: list[Interval | None]


class Difficulty(TypedDict):
    """The curves of all runs shown."""

    curves: list[DifficultyCurve]
