"""Episodes that are being played, and how far their runs are."""

from typing import TypedDict


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
