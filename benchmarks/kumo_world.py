"""Reading the book against knowing the world. Run: python -m benchmarks.kumo_world [--domains D ...] [--games N] [--page].

For each domain with a table of what is true in the real world: the share of shown outcomes that are false of the right answer,
in games as the paper draws them and in the three versions of ``suite.world`` (N games each, default 50), and what players win.
Then the share of tests that show numbers, by ``suite.numeric``. ``--page`` also writes the figures into docs/validity_kumo.md;
``--cells N`` prints N cells of the tables, drawn by chance, for somebody else to check instead.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from envs.kumo import DIFFICULTIES, GenerationError, available_domains, generate_tasks, load_domain
from envs.kumo.domain_file import domains_with_table
from envs.kumo.world import WORLDS, World, share_false, true_states
from evals.conversation import Conversation
from evals.players import OraclePlayer, ShortcutPlayer
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.memory import MEMORY
from evals.suites.kumo.play import play_puzzle
from evals.types import Player

PAGE = Path(__file__).parents[1] / "docs" / "validity_kumo.md"
BEGIN, END = "<!-- world: python -m benchmarks.kumo_world --page -->", "<!-- end of world -->"
VERSIONS: tuple[World | None, ...] = (None, *WORLDS)
NUMERIC = 0.33
TASKS = 20
"""Of each domain, for the share of tests that show numbers."""


def false_shares(domains: Sequence[str], difficulty: str, games: int) -> Iterator[list[str]]:
    """A row for each domain: cells of its table that are known, and the share of shown outcomes that are false."""
    for name in domains:
        domain = load_domain(name)
        known = [bool(true_states(domain, truth, action)) for truth in domain.truths for action in domain.actions]
        row = [name, difficulty, f"{fmean(known):.2f}"]
        for world in VERSIONS:
            suite = KumoSuite(domains=[name], difficulties=[difficulty], tasks_per_domain=games, repeats=1, world=world)
            try:
                share = share_false(domain, [puzzle.task for puzzle in suite.puzzles()])
            except GenerationError:  # the table is too small for games of this size
                share = None
            row.append("–" if share is None else f"{share:.2f}")
        yield row


def wins(domains: Sequence[str], games: int) -> Iterator[list[str]]:
    """A row for each player: success in easy games of all domains, by version."""
    players: dict[str, Player] = {"oracle": OraclePlayer()}
    players |= {name: ShortcutPlayer(name) for name in ("greedy", MEMORY, "names_at_once")}
    success: dict[str, list[str]] = {name: [name] for name in players}
    actions = ["*actions of perfect play*"]
    for world in VERSIONS:
        suite = KumoSuite(domains=domains, difficulties=["easy"], tasks_per_domain=games, repeats=1, world=world)
        planned = list(zip(suite.plan(), suite.puzzles(), strict=True))
        for name, player in players.items():
            outcomes = [
                asyncio.run(play_puzzle(puzzle, Conversation(episode, player), regret=False))
                for episode, puzzle in planned
            ]
            success[name].append(f"{fmean(outcome.success for outcome in outcomes):.2f}")
            if name == "oracle":
                actions.append(f"{fmean(outcome.steps for outcome in outcomes):.2f}")
    yield from success.values()
    yield actions


def numeric_shares() -> Iterator[list[str]]:
    """A row for each setting: share of tests that show numbers, mean over all domains."""
    for share in (None, NUMERIC):
        row = ["null" if share is None else f"{share}"]
        for size in DIFFICULTIES.values():
            tasks = [
                task
                for name in available_domains()
                for task in generate_tasks(load_domain(name), *size, TASKS, numeric=share)
            ]
            row.append(f"{fmean(action.outcome == 'float' for task in tasks for action in task.actions):.3f}")
        yield row


def cells(count: int) -> Iterator[str]:
    """Cells of the tables in words, drawn by chance."""
    rng = random.Random("kumo/world/cells")
    for _ in range(count):
        domain = load_domain(rng.choice(domains_with_table()))
        true: frozenset[int] = frozenset()
        while not true:
            truth, action = rng.choice(domain.truths), rng.choice(domain.actions)
            true = true_states(domain, truth, action)
        shown = [f"{'[x]' if place in true else '[ ]'} {state.text}" for place, state in enumerate(action.states)]
        unit = f" ({action.unit})" if action.unit else ""
        yield f"{domain.name} | {truth} | {action.name}{unit}: {domain.definitions[action.name]}\n    {'; '.join(shown)}"


def text(domains: Sequence[str], games: int) -> str:
    """All tables as Markdown."""
    versions = [world or "as in the paper" for world in VERSIONS]
    parts = [
        f"**Shown outcomes that are false of the right answer** ({games} games a row; outcomes of which it is not known do "
        "not count)",
        _table(
            ["domain", "difficulty", "cells known", *versions],
            [row for difficulty in DIFFICULTIES for row in false_shares(domains, difficulty, games)],
        ),
        f"**Success in easy games** ({len(domains)} domains, {games} games each; `memory` never opens the book)",
        _table(["player", *versions], list(wins(domains, games))),
        f"**Tests that show numbers** ({len(available_domains())} domains, {TASKS} tasks each)",
        _table(["`suite.numeric`", *DIFFICULTIES], list(numeric_shares())),
    ]
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ruler, *rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="+", default=list(domains_with_table()))
    parser.add_argument("--games", type=int, default=50)
    parser.add_argument("--page", action="store_true", help="write the figures into docs/validity_kumo.md")
    parser.add_argument("--cells", type=int, default=0, help="print so many cells of the tables instead")
    arguments = parser.parse_args()
    if arguments.cells:
        print("\n".join(cells(arguments.cells)))
        return 0
    figures = text(arguments.domains, arguments.games)
    print(figures)
    if arguments.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
