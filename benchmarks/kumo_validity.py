"""Scores of KUMO's shortcut players. Run: python -m benchmarks.kumo_validity [--domains D ...] [--tasks N] [--page].

Each player plays the tasks of each domain and difficulty (400 easy and 100 hard ones, or N of each), those that draw by chance
five times. ``--page`` also writes the figures into docs/validity_kumo.md.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from envs.kumo import DIFFICULTIES
from evals.conversation import Conversation
from evals.players import OraclePlayer, RandomPlayer, ShortcutPlayer
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.play import play_puzzle
from evals.suites.kumo.shortcuts import SHORTCUTS
from evals.types import Player

PAGE = Path(__file__).parents[1] / "docs" / "validity_kumo.md"
MARK = "<!-- figures: python -m benchmarks.kumo_validity --page -->"
PLAYERS: Mapping[str, Player] = {
    "random": RandomPlayer(),
    **{name: ShortcutPlayer(name) for name in SHORTCUTS},
    "oracle": OraclePlayer(),
}
BY_CHANCE = ("random", "random_tests")
TASKS: Mapping[str, int] = {"easy": 400, "hard": 100}


@dataclass(frozen=True)
class Figures:
    """Scores of one player on the tasks of one domain and difficulty."""

    success: float
    actions: float
    """Tests and prediction, mean over all runs."""


def measure(domain: str, difficulty: str, tasks: int) -> dict[str, Figures]:
    """The figures of all players."""
    suite = KumoSuite(domains=[domain], difficulties=[difficulty], tasks_per_domain=tasks, repeats=1)
    games = list(zip(suite.plan(), suite.puzzles(), strict=True))
    figures = {}
    for name, player in PLAYERS.items():
        outcomes = []
        for planned, puzzle in games:
            for repeat in range(5 if name in BY_CHANCE else 1):
                episode = dataclasses.replace(planned, repeat=repeat)
                outcomes.append(asyncio.run(play_puzzle(puzzle, Conversation(episode, player), regret=False)))
        figures[name] = Figures(fmean(o.success for o in outcomes), fmean(o.steps for o in outcomes))
    return figures


def tables(measured: Mapping[tuple[str, str], Mapping[str, Figures]]) -> str:
    """Success and actions as Markdown, one row per domain and difficulty."""
    parts = []
    for title, value in (("Success", "success"), ("Actions", "actions")):
        head = ["domain", "difficulty", *PLAYERS]
        lines = [f"**{title}**", "", _row(head), _row(["---", "---", *["---:"] * len(PLAYERS)])]
        for (domain, difficulty), figures in measured.items():
            lines.append(_row([domain, difficulty, *(f"{getattr(figures[name], value):.2f}" for name in PLAYERS)]))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="+", default=list(KumoSuite().domains))
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--page", action="store_true", help="write the figures into docs/validity_kumo.md")
    arguments = parser.parse_args()
    measured = {}
    for difficulty in DIFFICULTIES:
        for domain in arguments.domains:
            tasks = arguments.tasks or TASKS[difficulty]
            measured[domain, difficulty] = measure(domain, difficulty, tasks)
    text = tables(measured)
    print(text)
    if arguments.page:
        before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
        PAGE.write_text(f"{before}{MARK}\n\n{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
