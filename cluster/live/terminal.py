"""``raycade status RUN --live``: what running episodes say, beside how far the run is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.text import Text

from cluster import stop_signals
from cluster.observe.progress import clock
from cluster.observe.run_status import Status, run_status
from cluster.storage.stored_run import Run, read_runs
from envs.printable import printable
from evals.live import KEYS, CellProgress, LiveLog, RunningEpisode, progress_by_cell
from evals.report.terminal import LaidOut
from evals.summary.cost import money
from evals.tables import Cell, Table

REFRESH_SECONDS: Final = 1.0
PAUSE: Final = 10
"""Times as long as reading a ledger took is waited before it is read again."""
LINES_OF_A_REPLY: Final = 2
MOST_CELLS: Final = 12
MOST_EPISODES: Final = 8
LINES_ABOVE: Final = 12
"""Of a terminal's height, what the head and the table's own lines take, about."""


@dataclass(frozen=True)
class Shown:
    """A run at one moment."""

    status: Status
    cells: Sequence[CellProgress]
    log: LiveLog
    now: float
    """Seconds since 1970."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The run in a few lines, episodes that are being played with the end of their last reply, cells."""
        status, lines = self.status, options.height or 10**6
        cells = _unfinished(self.cells)[: max(1, min(MOST_CELLS, (lines - LINES_ABOVE) // 2))]
        room = (lines - LINES_ABOVE - len(cells)) // (1 + LINES_OF_A_REPLY)
        running = list(self.log.running.episodes.values())
        pace = str(status.pace) if status.pace is not None else ""
        for line in (status.state, *status.stopping, pace, _numbers(self.log, self.now), status.money):
            yield from [Text(printable(line))] * bool(line)
        yield ""
        for episode in running[: max(1, min(MOST_EPISODES, room))]:
            yield from _episode(episode, self.now, options.max_width)
        if not running:
            yield Text("no running episode is followed")
        yield ""
        yield LaidOut(_table(cells, len(self.cells) - len(cells)))


def show_live(run: Run, console: Console) -> None:
    """Show a run until it is complete or the user interrupts; once, where there is no terminal.

    Raises:
        UserError: there is no run, or its ledger is damaged.
    """
    looks = _Looks(run)
    if not console.is_terminal:
        console.print(looks.shown())
        return
    # A signal that ended the process at once would leave the cursor hidden.
    with contextlib.suppress(stop_signals.StoppedError, KeyboardInterrupt), stop_signals.raised():
        try:
            with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
                while True:
                    live.update(looks.shown(), refresh=True)
                    if looks.complete:
                        return
                    time.sleep(REFRESH_SECONDS)
        finally:
            console.show_cursor(True)  # where the signal came while the display began


class _Looks:
    """Looks at a run again and again; its ledger is read only when it has grown."""

    def __init__(self, run: Run) -> None:
        self.complete = False
        self._run = run
        self._log = LiveLog(run.path)
        self._read: tuple[Status, list[CellProgress]] | None = None
        self._again = 0.0

    def shown(self) -> Shown:
        self._log.refresh()
        if self._read is None or time.monotonic() >= self._again:
            start = time.monotonic()
            self._run.refresh()
            self._read = read_runs([self._run], self._look)
            self._again = time.monotonic() + PAUSE * (time.monotonic() - start)
        return Shown(*self._read, self._log, time.time())

    def _look(self) -> tuple[Status, list[CellProgress]]:
        rows = self._run.ledger.table([*KEYS, "status", "success"])
        self.complete = len(rows) >= len(self._run.planned)
        return run_status(self._run), progress_by_cell(self._run.planned, rows)


def _numbers(log: LiveLog, now: float) -> str:
    """How the driver says the run goes."""
    if log.trouble:
        return f"the live log cannot be read: {log.trouble}"
    if log.running.numbers is None:
        return ""
    numbers = log.running.numbers.numbers
    said = [
        f"{numbers.get('episodes/alive', 0):,.0f} episodes running",
        f"{numbers.get('requests_per_second', 0):,.1f} requests/s",
        f"{numbers.get('tokens_per_second', 0):,.0f} tokens/s",
        f"replicas {numbers.get('replicas/busy', 0):.0f} busy of {numbers.get('replicas/up', 0):.0f}",
    ]
    said += [
        f"{word} {money(numbers[name])}" for name, word in (("spent", "spent"), ("gpu_cost", "GPUs")) if name in numbers
    ]
    return f"{clock(max(now - log.running.numbers.at, 0.0))} ago: {', '.join(said)}"


def _episode(episode: RunningEpisode, now: float, width: int) -> Iterator[Text]:
    """A line on an episode, and the end of its last reply."""
    began = episode.began
    place = " ".join((began.suite, began.task, began.level, began.mode, f"#{began.index}"))
    state = "ended" if episode.ended else f"turn {episode.played + 1}"
    head = f"{began.player} · {place} · {state} · {clock(max(now - began.at, 0.0))}"
    yield Text(printable(head)[:width], style="bold")
    text = _last_words(episode)
    most = LINES_OF_A_REPLY * (width - 2)
    if len(text) > most:
        yield Text(f"…{text[1 - most :]}")
    else:
        yield Text(text or "(nothing yet)")


def _last_words(episode: RunningEpisode) -> str:
    """The last reply, or the reasoning before it, and the action that it was read as; empty before the first turn."""
    if not episode.turns:
        return ""
    last = episode.turns[-1]
    said = " ".join(printable(last.reply or last.reasoning).split())
    if last.action is None:
        return said
    decided = f" → {printable(last.action)}"
    return said + " ".join(decided.split("\n"))


def _unfinished(cells: Sequence[CellProgress]) -> list[CellProgress]:
    """Cells in their order, those that are finished or have not begun last."""
    return sorted(cells, key=lambda cell: not 0 < cell.done + cell.failed < cell.planned)


def _table(cells: Sequence[CellProgress], more: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for cell in cells:
        ended = cell.done + cell.failed
        won = cell.won / ended if ended else None
        names = [getattr(cell, name) for name in KEYS]
        rows.append((*names, cell.planned, cell.done, cell.failed, won))
    notes = (f"and {more:,} more cells",) if more else ()
    return Table("progress", "Progress by cell", (*KEYS, "planned", "done", "failed", "won"), tuple(rows), notes)
