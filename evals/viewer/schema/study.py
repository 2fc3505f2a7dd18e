"""What several runs tell as a study."""

from typing import TypedDict

from evals.viewer.schema.results import Interval


class StudyCondition(TypedDict):
    """One run of a study, by the values of the settings in which its runs differ; ``played`` finished games."""

    run: str
    player: str
    levels: dict[str, str]
    played: int


class StudyEffect(TypedDict):
    """What a change does on the same games: ``first`` with it, ``second`` without."""

    change: str
    against: str
    first: float
    second: float
    difference: Interval
    p: float
    holm: float
    games: int


class StudySource(TypedDict):
    """A source of variance with its share."""

    source: str
    share: Interval


class StudyMeasure(TypedDict):
    """One measure in all conditions; ``together``: how much more two changes do than the sum of each alone."""

    measure: str
    share: bool
    effects: list[StudyEffect]
    together: list[StudyEffect]
    variance: list[StudySource]


class StudyCause(TypedDict):
    """Share of the lost games, and the tag of the games behind it with their number."""

    cause: str
    share: Interval | None
    tag: str
    games: int


class StudyCell(TypedDict):
    """Games of one task and level that were played from pictures and in words."""

    task: str
    level: str
    games: int
    lost: int
    causes: list[StudyCause]


class StudyLosses(TypedDict):
    """Why games were lost in a condition with pictures that has a twin in words."""

    run: str
    text_run: str
    player: str
    about: str
    cells: list[StudyCell]


class Study(TypedDict):
    """What the runs shown tell as a study, the first one as its baseline; ``trouble`` says why they are none."""

    trouble: str
    conditions: list[StudyCondition]
    measures: list[StudyMeasure]
    losses: list[StudyLosses]
