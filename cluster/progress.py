"""The live display: a panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cluster.tally import Tally

LINE_SECONDS = 10.0
"""Between plain lines."""


class Progress:
    """Shows a tally while a run goes on; use it as a context manager."""

    def __init__(self, tally: Tally, console: Console | None = None) -> None:
        """``console`` defaults to standard error, so that tables on standard output stay clean."""
        self.tally = tally
        self.console = console or Console(stderr=True)
        self._live: Live | None = None
        self._last_line = 0.0
        self.stage = ""

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live = Live(get_renderable=self._panel, console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        self.say(self._line())

    def say(self, text: str) -> None:
        """One line that stays."""
        self.console.print(Text(text), soft_wrap=True)

    def at(self, stage: str) -> None:
        """What the run is doing now, such as starting replicas."""
        self.stage = stage
        if self._live is None and stage:
            self.say(stage)

    def update(self) -> None:
        """Call often; prints a plain line now and then where there is no terminal."""
        now = time.monotonic()
        if self._live is None and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self.say(self._line())

    def _panel(self) -> Group:
        tally = self.tally
        table = Table.grid(padding=(0, 2))
        for name, player in tally.players.items():
            rate = f"success {player.successes / player.finished:.3f}" if player.finished else ""
            failed = Text(f"{player.failed} failed", style="red") if player.failed else Text("")
            table.add_row(
                Text(name),
                ProgressBar(total=player.planned, completed=player.finished, width=30),
                f"{player.finished}/{player.planned}",
                failed,
                rate,
            )
        return Group(table, Text(self._machine()))

    def _line(self) -> str:
        tally = self.tally
        players = ", ".join(
            f"{name} {player.finished}/{player.planned}"
            + (f" success {player.successes / player.finished:.3f}" if player.finished else "")
            for name, player in tally.players.items()
        )
        failed = f", {tally.failed} failed ({_causes(tally)})" if tally.failed else ""
        return f"{players}{failed} | {self._machine()}"

    def _machine(self) -> str:
        tally = self.tally
        requests, tokens = tally.rates()
        parts = [
            f"{requests:.0f} requests/s",
            f"{tokens:,.0f} tokens/s",
            f"replicas {tally.replicas_busy} busy, {tally.replicas_up} up of {tally.replicas_wanted}",
        ]
        counts = tally.counts
        if counts.prompt_tokens:
            parts.append(f"cache hits {counts.cached_tokens / counts.prompt_tokens:.2f}")
        happened = ((tally.waiting, "waiting"), (counts.retries, "asked again"), (counts.hedges, "asked twice"))
        if said := ", ".join(f"{count} {what}" for count, what in happened if count):
            parts.append(f"turns {said}")
        if tally.moves:
            parts.append(f"{tally.moves} episodes moved")
        left = tally.seconds_left()
        parts.append(f"{_clock(tally.seconds)} gone" + (f", {_clock(left)} left" if left is not None else ""))
        if self.stage:
            parts.append(self.stage)
        return " · ".join(parts)


def _causes(tally: Tally) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in tally.errors.most_common(3))


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def warn(text: str) -> None:
    """A line on standard error."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
