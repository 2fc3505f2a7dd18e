"""What the viewer's page is given, by the server, by an export and by a report: one schema, of which the page's types are made.

``python -m evals.viewer.schema`` prints ``frontend/src/schema.ts``; a test compares the two, and real answers with these types.
"""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any, Final, Literal, NotRequired, TypedDict

VERSION: Final = 6
"""Raise it with every change below: a page refuses the files of another version."""

Facts = dict[str, Any]
"""Names and JSON values, in the order in which they are to be read."""
Values = dict[str, dict[str, int]]
"""For each filter the values to choose from, with their counts."""


# --- runs and their episodes -----------------------------------------------------------------------------------------


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


# --- running episodes ------------------------------------------------------------------------------------------------


class LiveEpisode(TypedDict):
    """An episode that is being played: ``turns`` so far, the ``first`` that the log has, the end of the last reply, times."""

    run: str
    episode_id: str
    suite: str
    task: str
    level: str
    mode: str
    index: int
    repeat: int
    player: str
    budget: int
    attempt: int
    began: float
    first: int
    turns: int
    last_at: float | None
    last: str
    ended: bool


class LiveCell(TypedDict):
    """How far a cell is."""

    suite: str
    task: str
    level: str
    mode: str
    player: str
    planned: int
    done: int
    failed: int
    won: int


class LiveRun(TypedDict):
    """An unfinished run; ``cost`` is that of its ledger; ``numbers`` are its driver's, as of ``noted``."""

    run: str
    writer: str
    cost: float
    noted: float | None
    numbers: dict[str, float]
    trouble: str
    running: list[LiveEpisode]
    cells: list[LiveCell]


class LivePicture(TypedDict):
    """A picture that is asked for by its key."""

    key: str
    width: int
    height: int
    error: str


class LiveTurn(TypedDict):
    """A turn with its reply, texts shortened; ``bare`` where they were left out."""

    turn: int
    at: float
    prompt: str
    pictures: list[LivePicture]
    reply: str
    reasoning: str
    action: str | None
    rule: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cost: float
    bare: bool


class LiveTurns(TypedDict):
    """Turns of a running episode, those that were asked for."""

    episode: LiveEpisode
    turns: list[LiveTurn]


# --- results -----------------------------------------------------------------------------------------------------------


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


# --- success over difficulty -----------------------------------------------------------------------------------------


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


# --- a study ---------------------------------------------------------------------------------------------------------


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


# --- one episode -----------------------------------------------------------------------------------------------------


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


# --- notes -----------------------------------------------------------------------------------------------------------


class Note(TypedDict):
    """A note on an episode; see ``evals.notes.note.Note``."""

    id: str
    episode: str
    tag: str
    text: str
    author: str
    time: str


class NotesAnswer(TypedDict):
    """An episode's notes, the tags that there are, why none can be written (or nothing), and who would write one."""

    notes: list[Note]
    tags: list[str]
    refusal: str
    author: str


# --- an export -------------------------------------------------------------------------------------------------------


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


# --- a report --------------------------------------------------------------------------------------------------------


class ReportCell(TypedDict):
    """A cell of a table."""

    text: str
    interval: str
    number: bool
    best: bool


class ReportColumn(TypedDict):
    """A column of a table."""

    name: str
    number: bool


class ReportTable(TypedDict):
    """A table; ``shared`` is what holds in each of its rows."""

    title: str
    shared: list[str]
    columns: list[ReportColumn]
    rows: list[list[ReportCell]]
    notes: list[str]


class ReportFigure(TypedDict):
    """A figure; ``source`` is a data address."""

    title: str
    source: str
    width: int
    height: int
    alt: str
    dark: str
    """The same for a dark ground."""
    caption: str


class ReportEpisode(TypedDict):
    """An episode by its place in the chunk."""

    at: int
    ending: str


class ReportPrompt(TypedDict):
    """A prompt, stored as an episode of one step."""

    at: int
    title: str


class ReportText(TypedDict):
    """A long text."""

    title: str
    text: str


class ReportSection(TypedDict):
    """A part of a report."""

    id: str
    title: str
    lines: list[str]
    tables: list[ReportTable]
    figures: list[ReportFigure]
    more: list[ReportTable]
    episodes: list[ReportEpisode]
    prompts: list[ReportPrompt]
    texts: list[ReportText]


class Report(TypedDict):
    """A report in one file; ``version`` is raycade's."""

    title: str
    status: list[str]
    sections: list[ReportSection]
    version: str


# --- the page's types ------------------------------------------------------------------------------------------------

_PLAIN: Final = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}
_ALIASES: Final = {"Facts": Facts, "Values": Values}


def typescript() -> str:
    """The types above in TypeScript."""
    declared = [each for each in globals().values() if typing.is_typeddict(each)]
    lines = [
        "// Made by `python -m evals.viewer.schema`; a test compares it. All of it is data: texts are never markup.",
        "",
        f"export const VERSION = {VERSION};",
        "",
        *(f"export type {name} = {_type(alias)};" for name, alias in _ALIASES.items()),
    ]
    for each in declared:
        lines += ["", f"/** {inspect.cleandoc(each.__doc__ or '')} */", f"export interface {each.__name__} {{"]
        for name, hint in typing.get_type_hints(each, include_extras=True).items():
            is_optional = typing.get_origin(hint) is NotRequired
            inner = typing.get_args(hint)[0] if is_optional else hint
            lines.append(f"  {name}{'?' * is_optional}: {_type(inner)};")
        lines.append("}")
    return "\n".join([*lines, ""])


def _type(hint: Any) -> str:
    if typing.is_typeddict(hint):
        return str(hint.__name__)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type(each) for each in inner)
    if origin is Literal:
        return " | ".join(f'"{each}"' for each in inner)
    if origin is list:
        item = _type(inner[0])
        return f"({item})[]" if " | " in item else f"{item}[]"
    if origin is dict:
        return f"Record<string, {_type(inner[1])}>"
    return _PLAIN[hint]


if __name__ == "__main__":
    print(typescript(), end="")
