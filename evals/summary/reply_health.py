"""Reply health: how many of a player's replies were read, and why the others were not, each with a remedy and an example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import RunData, rows_by
from evals.tables import Table

TOLERATED: Final = 0.02
"""Share of a player's episodes of one suite with a troubled reply, above which a run warns."""
SHORT_ID: Final = 12

Trouble = Literal["cut off", "filtered", "refused", "empty", "unread"]


@dataclass(frozen=True)
class Remedy:
    """What a trouble is, and what can be done about it."""

    happened: str
    advice: str


TROUBLES: Final[Mapping[Trouble, Remedy]] = {
    "cut off": Remedy("ended at the token limit", "raise model.sampling.max_tokens"),
    "filtered": Remedy(
        "were stopped by a content filter", "ask the provider to relax the filter, or use another endpoint"
    ),
    "refused": Remedy("are refusals of the model", "read some: a refusal counts as what the model answered"),
    "empty": Remedy("hold no text", "check the chat template and the reasoning parser, or leave reasoning more tokens"),
    "unread": Remedy("name no answer that could be decoded", "read some, and compare the prompt's answer format"),
}
"""Every reply that ended by itself with a decoded action is read; any other counts under the first trouble that it has."""

_BY_FINISH: Final[Mapping[str, Trouble]] = {"length": "cut off", "content_filter": "filtered", "refusal": "refused"}


@dataclass
class ReplyHealth:
    """The replies of one player in one suite."""

    episodes: int = 0
    """Done or failed."""
    replies: int = 0
    troubled: Counter[Trouble] = field(default_factory=Counter)
    """Replies by trouble."""
    affected: Counter[Trouble] = field(default_factory=Counter)
    """Episodes with such a reply."""
    examples: dict[Trouble, str] = field(default_factory=dict)
    """The first such episode in alphabetical order."""

    @property
    def read(self) -> int:
        """Replies without trouble."""
        return self.replies - self.troubled.total()

    def add(self, trouble: Trouble, episodes: list[str]) -> None:
        """Count replies with a trouble; an episode occurs once for each of its replies."""
        self.troubled[trouble] += len(episodes)
        self.affected[trouble] += len(set(episodes))
        known = self.examples.get(trouble)
        self.examples[trouble] = min([*episodes, *([known] if known else [])])


def reply_health(run: RunData) -> dict[tuple[str, str], ReplyHealth]:
    """The health of each player's replies in each suite, in an order that does not depend on the ledger's."""
    found: dict[tuple[str, str], ReplyHealth] = {}
    for rows in run.batches(["player", "suite", "episode_id", "turns.finish", "turns.action", "turns.reply"]):
        if not len(rows) or "turns" not in rows.column_names:  # rows in memory may come without
            continue
        episode_of, troubles = _troubles(rows)
        replies = np.bincount(episode_of, minlength=len(rows))
        for (player, suite), places in rows_by(rows, ("player", "suite")).items():
            one = found.setdefault((player, suite), ReplyHealth())
            one.episodes += len(places)
            one.replies += int(replies[places].sum())
            is_own = np.isin(episode_of, places)
            _add_troubles(one, rows["episode_id"], episode_of[is_own], troubles[is_own])
    return dict(sorted(found.items()))


def _add_troubles(
    one: ReplyHealth, ids: pa.ChunkedArray, row_of: npt.NDArray[np.int64], troubles: npt.NDArray[np.str_]
) -> None:
    """Count replies by their troubles.

    Args:
        one: Where they count.
        ids: The episode of each row.
        row_of: The row of each reply.
        troubles: The trouble of each reply; empty where it has none.
    """
    for trouble in TROUBLES:
        affected = row_of[troubles == trouble]
        if len(affected):
            one.add(trouble, ids.take(affected).to_pylist())


def _troubles(rows: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.str_]]:
    """For every reply the row that it belongs to, and its trouble (empty where it was read)."""
    turns = pa.concat_arrays(rows["turns"].chunks)
    each = turns.flatten()
    texts = pc.fill_null(each.field("reply"), "")
    unread = np.asarray(pc.is_null(each.field("action")))
    troubles = np.where(unread, "unread", "").astype("<U8")
    troubles[unread & np.asarray(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0))] = "empty"
    for finish, trouble in _BY_FINISH.items():  # how a reply ended says more than whether it could be read
        troubles[np.asarray(pc.fill_null(pc.equal(each.field("finish"), finish), False))] = trouble
    return np.asarray(turns.value_parent_indices()), troubles


def reply_table(health: Mapping[tuple[str, str], ReplyHealth]) -> Table | None:
    """Replies by what became of them, with remedies and examples; None where all were read."""
    occurring = [trouble for trouble in TROUBLES if any(one.troubled[trouble] for one in health.values())]
    if not occurring:
        return None
    notes = []
    for trouble in occurring:
        example = min(one.examples[trouble] for one in health.values() if trouble in one.examples)
        remedy = TROUBLES[trouble]
        notes.append(
            f"{trouble}: replies that {remedy.happened}; for example in episode {example[:SHORT_ID]}. "
            f"What to do: {remedy.advice}."
        )
    return Table(
        name="replies",
        title="Replies",
        columns=("player", "suite", "replies", "read", *TROUBLES),
        rows=tuple(
            (*key, one.replies, one.read, *(one.troubled[trouble] for trouble in TROUBLES))
            for key, one in health.items()
        ),
        notes=("read: replies that ended by themselves and from which an action was decoded.", *notes),
        section="diagnostics",
        headline=True,
    )


def reply_warnings(health: Mapping[tuple[str, str], ReplyHealth]) -> list[str]:
    """A sentence for each trouble that many episodes of a player have; answers that cannot be read are the model's."""
    warnings = []
    for (player, suite), one in health.items():
        for trouble, remedy in TROUBLES.items():
            affected = one.affected[trouble]
            if trouble != "unread" and affected > TOLERATED * one.episodes:
                warnings.append(
                    f"{player}, {suite}: {affected:,} of {one.episodes:,} episodes ({affected / one.episodes:.1%}) have "
                    f"replies that {remedy.happened} ({one.troubled[trouble]:,} in all, for example in "
                    f"{one.examples[trouble][:SHORT_ID]}): {remedy.advice}"
                )
    return warnings
