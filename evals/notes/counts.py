"""How many of a player's lost games have each tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow.compute as pc

from evals.ledger.run_data import RunData
from evals.notes.note import Note
from evals.tables import Cell, Table

KINDS = ("lost", "won", "failed")
NO_TAG = "(no tag)"
Outcomes = dict[tuple[str, str, str], int]
"""Episodes by player, suite and one of ``KINDS``."""


def notes_table(run: RunData, notes: Sequence[Note]) -> Table | None:
    """For each player, suite and tag: games with it, of all that were lost, won, failed; None without notes.

    A game that has a tag twice counts once.
    """
    if not notes:
        return None
    tags: dict[str, set[str]] = {}
    for note in notes:
        tags.setdefault(note.episode, set()).add(note.tag or NO_TAG)
    played: Outcomes = {}
    tagged: Counter[tuple[str, str, str, str]] = Counter()
    for batch in run.batches(("episode_id", "player", "suite", "status", "success")):
        outcome = pc.if_else(pc.equal(batch["status"], "failed"), "failed", _won_or_lost(batch["success"]))
        columns = (batch["player"], batch["suite"], outcome, batch["episode_id"])
        for player, suite, kind, episode in zip(*(each.to_pylist() for each in columns), strict=True):
            played[player, suite, kind] = played.get((player, suite, kind), 0) + 1
            for tag in tags.get(episode, ()):
                tagged[player, suite, tag, kind] += 1
    return Table(
        name="notes",
        title="Notes",
        columns=("player", "suite", "tag", *(f"{kind} games" for kind in KINDS)),
        rows=tuple(_rows(run, played, tagged)),
        notes=("Games with the tag, of all games of the player in the suite that ended so.",),
        section="diagnostics",
        headline=True,
    )


def _won_or_lost(success: object) -> object:
    return pc.if_else(pc.fill_null(success, False), "won", "lost")


def _rows(run: RunData, played: Outcomes, tagged: Counter[tuple[str, str, str, str]]) -> list[tuple[Cell, ...]]:
    """In the order of the plan; within a player and suite the tag of most lost games first."""
    order = list(dict.fromkeys(zip(run.plan["player"].to_pylist(), run.plan["suite"].to_pylist(), strict=True)))
    groups = {(player, suite, tag) for player, suite, tag, _ in tagged}

    def place(group: tuple[str, str, str]) -> tuple[int, int, str]:
        return order.index(group[:2]), -tagged[*group, "lost"], group[2]

    found: list[tuple[Cell, ...]] = []
    for player, suite, tag in sorted(groups, key=place):
        counts = []
        for kind in KINDS:
            all_of_kind = played.get((player, suite, kind), 0)
            counts.append(f"{tagged[player, suite, tag, kind]} of {all_of_kind}" if all_of_kind else "0")
        found.append((player, suite, tag, *counts))
    return found
