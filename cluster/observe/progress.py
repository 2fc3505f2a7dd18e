"""The live display: a panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import textwrap
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cluster.observe.run_statistics import RunStatistics
from cluster.runner.messages import PlayerCounts
from envs.printable import printable
from evals.stopping.outcomes import StopState
from evals.summary.cost import money

LINE_SECONDS = 10.0
"""Between plain lines."""


class Progress:
    """Shows the statistics of a run in progress; use it as a context manager."""

    def __init__(self, stats: RunStatistics, console: Console | None = None) -> None:
        """``console`` defaults to standard error, so that tables on standard output stay clean."""
        self.stats = stats
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
        """Print a permanent line."""
        self.console.print(Text(text), soft_wrap=True)

    def at(self, stage: str) -> None:
        """Set the current stage, such as starting replicas."""
        self.stage = stage
        if self._live is None and stage:
            self.say(stage)

    def update(self) -> None:
        """Call often; without a terminal, prints a plain line every ``LINE_SECONDS``."""
        now = time.monotonic()
        if self._live is None and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self.say(self._line())

    def _panel(self) -> Group:
        stats = self.stats
        table = Table.grid(padding=(0, 2))
        for name, player in stats.players.items():
            rate = f"success {player.successes / player.finished:.3f}" if player.finished else ""
            failed = Text(f"{player.failed} failed", style="red") if player.failed else Text("")
            table.add_row(
                Text(name),
                ProgressBar(total=player.planned, completed=player.finished, width=30),
                f"{player.finished}/{player.planned}",
                failed,
                rate,
            )
        looked = [Text(_stopping(stats.stopping))] if stats.stopping is not None else []
        return Group(table, *looked, Text(self._machine()))

    def _line(self) -> str:
        stats = self.stats
        players = []
        for name, player in stats.players.items():
            text = f"{name} {player.finished}/{player.planned}"
            if player.finished:
                text += f" success {player.successes / player.finished:.3f}"
            players.append(text)
        line = ", ".join(players)
        if stats.failed:
            line += f", {stats.failed} failed ({_causes(stats)})"
        if stats.stopping is not None:
            line += f" | {_stopping(stats.stopping)}"
        return f"{line} | {self._machine()}"

    def _machine(self) -> str:
        stats = self.stats
        requests, tokens = stats.rates()
        parts = []
        if stats.replicas_wanted:
            parts = [
                f"{requests:.0f} requests/s",
                f"{tokens:,.0f} tokens/s",
                f"replicas {stats.replicas_busy} busy, {stats.replicas_up} up of {stats.replicas_wanted}",
            ]
        counts = stats.counts
        if counts.prompt_tokens:
            parts.append(f"prefix-cache hit rate {counts.cached_tokens / counts.prompt_tokens:.2f}")
        happened = (
            (stats.waiting, "queued"),
            (counts.retries, "retries"),
            (counts.hedges, "hedged"),
            (stats.cut_off, "replies cut off"),
        )
        said = [f"{count} {what}" for count, what in happened if count]
        if said:
            parts.append(", ".join(said))
        if counts.turns:
            parts.append(_tokens(counts))
        if stats.spent:
            parts.append(f"spent {money(stats.spent)}")
        if stats.gpu_cost:
            parts.append(f"GPUs {money(stats.gpu_cost)}")
        if stats.moves:
            parts.append(f"{stats.moves} episodes moved")
        left = stats.seconds_left()
        elapsed = f"elapsed {clock(stats.seconds)}"
        if left is not None:
            elapsed += f", ETA {clock(left)}"
        parts.append(elapsed)
        if self.stage:
            parts.append(self.stage)
        return " · ".join(parts)


def _stopping(state: StopState) -> str:
    """The decision, or how many there are and the first that is open."""
    if len(state.groups) == 1:
        return state.decisions()[0]
    closed = sum(group.ended for group in state.groups)
    return f"{closed} of {len(state.groups)} decisions made; {state.decisions()[-1]}"


def _tokens(counts: PlayerCounts) -> str:
    reasoning = f" ({short(counts.reasoning_tokens)} reasoning)" if counts.reasoning_tokens else ""
    return f"tokens {short(counts.prompt_tokens)} in, {short(counts.completion_tokens)} out{reasoning}"


def short(number: float) -> str:
    """A large number in few characters: ``950``, ``12.3k``, ``1.2M``."""
    for letter, digits in (("", 0), ("k", 1), ("M", 1)):
        shown = f"{number:.{digits}f}"
        if float(shown) < 1000:  # as rounded: 999.7 is 1.0k
            return shown + letter
        number /= 1000
    return f"{number:.1f}G"


def _causes(stats: RunStatistics) -> str:
    """The most frequent causes, each on a part of a line."""
    return ", ".join(
        f"{cause.count} × {printable(textwrap.shorten(cause.text, 60, placeholder=' ...'))}"
        for cause in stats.errors.most_common()[:3]
    )


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, with hours where there are any."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
