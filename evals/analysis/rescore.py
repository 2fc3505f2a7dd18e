"""Stored replies read anew: with other settings of the suite, or by a later version of its decoder."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from evals.analysis.compare import SHORT_ID
from evals.analysis.recorded import RecordedPlayer
from evals.conversation import Conversation, Record
from evals.errors import SuiteError
from evals.ledger.records import records_to_table
from evals.ledger.run_data import RunData
from evals.stats.intervals import proportion_estimate
from evals.suite import Suite, ledger_columns, play_episode
from evals.tables import Cell, Table
from evals.types import Episode, PlayerError, Reply

AT_ONCE = 1_000
"""Episodes that become rows of a table together."""
CAUSES_SHOWN = 3
REPLY_SHOWN = 60
"""Characters at the end of a reply that is read differently."""


@dataclass
class Rescored:
    """Episodes of a run, read anew, and how that differs from what the ledger says."""

    rows: list[pa.Table] = field(default_factory=list)
    """In the ledger's schema, without turns; episodes that took another course are left out."""
    cells: dict[tuple[str, str], list[tuple[Any, bool, bool]]] = field(default_factory=dict)
    """By player and suite: game, old and new success of each episode that could be read anew."""
    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    """By player and suite: ``turns``, ``read differently``, ``other course``, ``not read``."""
    causes: Counter[str] = field(default_factory=Counter)
    """Why games could not be played anew, with the number of their episodes."""
    changes: list[tuple[str, int, str, str | None, str, str | None, str]] = field(default_factory=list)
    """Episode, turn, reply, old action and rule, new action and rule."""


def planned_anew(suite: Suite, episodes: Mapping[str, Episode]) -> dict[str, Episode]:
    """Stored episodes with the budgets that a suite gives their games now.

    Args:
        suite: With the settings to read by.
        episodes: Those of the plan, by id.

    Raises:
        ValueError: the settings do not plan one of these games.
    """
    budgets = {_game(episode): episode.budget for episode in suite.plan()}
    found = {}
    for name, episode in episodes.items():
        game = _game(episode)
        if game not in budgets:
            where = " ".join((episode.task, episode.level, episode.mode, str(episode.index)))
            raise ValueError(
                f"these settings do not plan {where} of {episode.suite}, seed {episode.seed}; name those alone that decide "
                "how replies are read"
            )
        found[name] = dataclasses.replace(episode, budget=budgets[game])
    return found


def _game(episode: Episode) -> tuple[str | int, ...]:
    """A game and its repeat, whoever plays it."""
    place = (episode.suite, episode.task, episode.level, episode.mode)
    return (*place, episode.index, episode.repeat, episode.seed)


def rescore(suite: Suite, episodes: Mapping[str, Episode], rows: Iterable[Mapping[str, Any]]) -> Rescored:
    """Play stored replies through a suite.

    An episode whose new reading leads to a turn that was never asked takes another course: its turns up to there count, its
    outcome is unknown. So is that of an episode whose game the suite cannot play: files of its data set are gone, say.

    Args:
        suite: With the settings to read by.
        episodes: Those of the plan, by id.
        rows: Of the ledger, ``turns`` included, stored column names.
    """
    return asyncio.run(_rescore(suite, episodes, rows))


async def _rescore(suite: Suite, episodes: Mapping[str, Episode], rows: Iterable[Mapping[str, Any]]) -> Rescored:
    found, columns, records = Rescored(), ledger_columns(suite), list[Record]()
    parts = {part.name: part for part in suite.parts}
    for row in rows:
        episode = episodes[row["episode_id"]]
        player = RecordedPlayer(row)
        try:
            record = await play_episode(parts[episode.suite], episode, player)
        except Exception as error:  # its settings name what is not here, or are another suite's
            raise SuiteError(episode.suite, "read the replies", error) from error
        key = (episode.player, episode.suite)
        counts = found.counts.setdefault(key, Counter())
        counts["turns"] += len(row["turns"])
        _note_changes(found, counts, row, record)
        if player.diverged:
            counts["other course"] += 1
            continue
        failed_then = player.failed or record.error == row["error"]
        if record.outcome is None and not failed_then:
            counts["not read"] += 1
            found.causes[record.error] += 1
            continue
        game = (episode.task, episode.level, episode.index)
        success = bool(record.outcome and record.outcome.success)
        found.cells.setdefault(key, []).append((game, bool(row["success"]), success))
        failure = (
            {} if record.outcome or not row["error"] else {"error": row["error"], "error_kind": row["error_kind"]}
        )  # not told twice
        records.append(dataclasses.replace(record, **failure))
        if len(records) == AT_ONCE:
            found.rows.append(_without_turns(records_to_table(records, columns)))
            records = []
    found.rows.append(_without_turns(records_to_table(records, columns)))
    return found


def _without_turns(rows: pa.Table) -> pa.Table:
    """Ledger rows whose turns are empty: their tokens and cut-off replies are counted, and nothing else needs them."""
    place = rows.schema.get_field_index("turns")
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array([[]] * len(rows), field.type))


def _note_changes(found: Rescored, counts: Counter[str], row: Mapping[str, Any], record: Record) -> None:
    for played in record.turns:
        number = played.turn.number
        old = row["turns"][number]
        if old["action"] != played.action:
            counts["read differently"] += 1
            change = (row["episode_id"], number, old["reply"], old["action"], old["rule"], played.action, played.rule)
            found.changes.append(change)


def rescored_table(found: Rescored) -> Table:
    """Old and new success side by side, by player and suite."""
    rows: list[tuple[Cell, ...]] = []
    for key, counts in found.counts.items():
        outcomes = found.cells.get(key, [])
        games = [game for game, _, _ in outcomes]
        old = proportion_estimate([won for _, won, _ in outcomes], games)
        new = proportion_estimate([won for _, _, won in outcomes], games)
        unknown = counts["other course"], counts["not read"]
        rows.append((*key, counts["turns"], counts["read differently"], len(outcomes), *unknown, old, new))
    notes = [
        "read differently: turns whose decoded action is another one. episodes: those that old and new success are of.",
        "other course: episodes that would have gone on with turns that were never asked; their outcome is unknown.",
    ]
    if found.causes:
        notes.append(
            f"not read: episodes whose games cannot be played anew; their outcome is unknown. {_told(found.causes)}"
        )
    return Table(
        "rescored",
        "Stored replies read anew",
        (
            "player",
            "suite",
            "turns",
            "read differently",
            "episodes",
            "other course",
            "not read",
            "old success",
            "new success",
        ),
        tuple(rows),
        tuple(notes),
    )


def _told(causes: Counter[str]) -> str:
    """The most frequent causes, with the numbers of their episodes."""
    told = [f"{count:,} x {cause}" for cause, count in causes.most_common(CAUSES_SHOWN)]
    more = len(causes) - len(told)
    return "; ".join(told) + (f"; and {more:,} other causes" if more else "")


def changes_table(found: Rescored, most: int) -> Table:
    """The first ``most`` turns that are read differently."""
    rows = [
        (name[:SHORT_ID], turn, " ".join(reply.split())[-REPLY_SHOWN:], old or "–", new or "–", rule)
        for name, turn, reply, old, _, new, rule in found.changes[:most]
    ]
    notes = (f"{len(rows)} of {len(found.changes):,} turns; the reply's last {REPLY_SHOWN} characters.",)
    columns = ("episode", "turn", "reply", "old", "new", "rule")
    return Table("rescored_turns", "Turns that are read differently", columns, tuple(rows), notes)


def rescored_run(found: Rescored, run: RunData) -> RunData:
    """The new rows as a run, to be scored by the suite."""
    return RunData.of_tables(run.plan, pa.concat_tables(found.rows), run.settings)


async def reread_turn(
    suite: Suite, episode: Episode, row: Mapping[str, Any], replies: Mapping[int, Reply]
) -> Sequence[tuple[int, str | None]]:
    """The actions that a suite decodes from other replies to some turns of a stored episode, each in place of its own.

    Args:
        suite: Whose episode it is.
        episode: As planned.
        row: Its ledger row with ``turns``.
        replies: The other replies, by the number of their turn.
    """
    found = []
    for number, reply in replies.items():
        conversation = Conversation(episode, RecordedPlayer(row, {number: reply}))
        await _play_on(suite, conversation)
        played = conversation.turns.get(number)
        found.append((number, played.action if played else None))
    return found


async def _play_on(suite: Suite, conversation: Conversation) -> None:
    """Play until the replies no longer fit, which does not matter here."""
    with contextlib.suppress(PlayerError):
        await suite.play(conversation.episode, conversation)
