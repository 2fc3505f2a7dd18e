"""The episodes that a report shows: of each player some that failed, were cut off, lost and won, and a prompt of each mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evals.ledger.columns import COLUMNS
from evals.ledger.run_data import RunData
from evals.suite import Suite
from evals.suite_results import suite_view
from evals.summary.failures import Causes
from evals.view import EpisodeView

_MOST: Mapping[str, int] = {"failed": 3, "cut off": 1, "lost": 2, "won": 1}
"""Episodes of each player and suite by how they ended."""


@dataclass(frozen=True)
class Shown:
    """An episode as a report shows it."""

    row: Mapping[str, Any]
    ending: str
    """``failed``, ``cut off``, ``lost`` or ``won``."""
    view: EpisodeView


@dataclass(frozen=True)
class Prompt:
    """The first prompt of an episode, as an example of its mode."""

    suite: str
    mode: str
    task: str
    messages: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Selection:
    """What a report shows of one suite."""

    episodes: tuple[Shown, ...]
    prompts: tuple[Prompt, ...]


def select(run: RunData, suite: Suite, built_in: Collection[str]) -> Selection:
    """Choose by the small columns, then read the turns of those only.

    Args:
        run: The suite's part of a run.
        suite: No bundle.
        built_in: Players that are shown only where no other has played.
    """
    endings, modes = _chosen(run, built_in)
    rows = dict(_rows(run, suite, {*endings, *modes.values()}))
    shown = (
        Shown(rows[episode], ending, suite_view(suite, rows[episode], public=True))
        for episode, ending in endings.items()
        if episode in rows
    )
    order = [*_MOST]
    prompts = tuple(
        Prompt(suite.name, mode, rows[episode]["task"], tuple(rows[episode]["turns"][0]["prompt"]))
        for mode, episode in modes.items()
        if episode in rows and rows[episode]["turns"]
    )
    return Selection(tuple(sorted(shown, key=lambda one: (one.row["player"], order.index(one.ending)))), prompts)


def _chosen(run: RunData, built_in: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Ids of episodes with how they ended, and for each mode the id of one; the first ones of the ledger."""
    planned = set(run.plan["player"].to_pylist())
    models = {player for player in planned if run.stored_name(player) not in built_in}
    players = models or planned
    endings: dict[str, str] = {}
    modes: dict[str, str] = {}
    broken: dict[str, str] = {}  # may have failed before the first turn
    counts: Counter[tuple[str, str]] = Counter()
    causes: dict[str, Causes] = {player: Causes() for player in players}
    tasks: set[tuple[str, str, str]] = set()
    names = ["episode_id", "player", "mode", "task", "status", "success", "cut_off", "error", "error_kind"]
    for batch in run.batches(names):
        for row in batch.to_pylist():
            player, ending = row["player"], _ending(row)
            if player not in players:
                continue
            by_mode = modes if row["status"] == "done" else broken
            by_mode.setdefault(row["mode"], row["episode_id"])
            if counts[player, ending] >= _MOST[ending]:
                continue
            place = (player, ending, row["task"])
            if ending == "failed":  # of each cause one
                if not _is_new(causes[player], row):
                    continue
            elif place in tasks:
                continue
            tasks.add(place)
            counts[player, ending] += 1
            endings[row["episode_id"]] = ending
    return endings, {**broken, **modes}


def _is_new(causes: Causes, row: Mapping[str, Any]) -> bool:
    """Whether a failure has another cause than those before it, to which it is added."""
    before = len(causes.most_common())
    causes.add(row["error"], kind=row["error_kind"])
    return len(causes.most_common()) > before


def _ending(row: Mapping[str, Any]) -> str:
    if row["status"] == "failed":
        return "failed"
    if row["success"]:
        return "won"
    return "cut off" if row["cut_off"] else "lost"


def _rows(run: RunData, suite: Suite, wanted: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Whole rows of these episodes; reading ends with the last of them."""
    left = set(wanted)
    for batch in run.batches([*COLUMNS, *suite.columns]) if left else ():
        here = [number for number, episode in enumerate(batch["episode_id"].to_pylist()) if episode in left]
        for row in batch.take(here).to_pylist() if here else ():
            left.remove(row["episode_id"])
            yield row["episode_id"], row
        if not left:
            return
