"""Whether a model answers as it did: a sample of stored turns, their new replies, and how far these agree."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.analysis.compare import SHORT_ID
from evals.analysis.recorded import RecordedPlayer
from evals.errors import SuiteError
from evals.stats.intervals import proportion_estimate
from evals.suite import Suite, play_episode
from evals.tables import Cell, Table
from evals.types import Episode, Reply


@dataclass(frozen=True)
class Again:
    """One turn with its stored reply and a new one."""

    suite: str
    episode: str
    turn: int
    old_text: str
    new_text: str
    old_action: str | None
    new_action: str | None
    largest_shift: float | None = None
    """Of the labels' log-probabilities, in nats; None for written replies."""

    @property
    def same_text(self) -> bool:
        """Whether the reply is the same, letter by letter."""
        return self.old_text == self.new_text

    @property
    def same_action(self) -> bool:
        """Whether the same action was decoded; two replies that could not be read have no action in common."""
        return self.old_action is not None and self.old_action == self.new_action


def sample_turns_to_ask(turns: Mapping[str, int], share: float, seed: int = 0) -> dict[str, list[int]]:
    """A seeded sample of turns, at least one if there is any: turn numbers by episode.

    Args:
        turns: How many turns each episode has.
        share: Which share of all turns.
        seed: Another seed gives another sample.
    """
    every = [(episode, number) for episode in sorted(turns) for number in range(turns[episode])]
    count = min(len(every), max(1, round(share * len(every))))
    chosen: dict[str, list[int]] = {}
    for episode, number in sorted(random.Random(seed).sample(every, count)):
        chosen.setdefault(episode, []).append(number)
    return chosen


async def turns_that_cannot_be_read(
    suite: Suite, episode: Episode, row: Mapping[str, Any], numbers: Sequence[int]
) -> dict[int, str]:
    """The turns of a stored episode to which no new reply could be read, with the cause: the game's files are gone, say.

    Args:
        suite: Whose episode it is.
        episode: As planned.
        row: Its ledger row with ``turns``.
        numbers: Of the turns to look at.

    Raises:
        SuiteError: the suite has a defect, or cannot read episodes with its settings.
    """
    try:
        record = await play_episode(suite, episode, RecordedPlayer(row))
    except Exception as error:  # of any suite
        raise SuiteError(episode.suite, "read the replies", error) from error
    reached = {played.turn.number for played in record.turns}
    cause = record.error or "the game ends before this turn"
    return {number: cause for number in numbers if number not in reached}


def label_shift(stored: Mapping[str, Any], reply: Reply) -> float | None:
    """The largest change of a label's log-probability; None where labels were not scored."""
    if not stored["labels"] or reply.label_scores is None:
        return None
    old: list[float] = [label["logprob"] for label in stored["labels"]]
    return max(abs(one - other) for one, other in zip(old, reply.label_scores.logprobs, strict=True))


def agreement_table(asked: Sequence[Again], failed: int) -> Table:
    """Shares of turns with the same reply and the same action, by suite."""
    rows = []
    for suite in dict.fromkeys(one.suite for one in asked):
        rows.append(_agreement_row(suite, [one for one in asked if one.suite == suite]))
    columns = ("suite", "turns", "same reply", "same action", "largest shift")
    notes = [
        "same reply: letter by letter. same action: what the suite decodes; a reply that cannot be read has none. "
        "Brackets: 95 % confidence, clustered by episode."
    ]
    shown = len(columns)
    has_labels = any(row[-1] is not None for row in rows)
    if has_labels:
        notes.append("largest shift: of a label's log-probability, in nats.")
    else:
        # The last column would be empty.
        shown -= 1
    if failed:
        notes.append(f"{failed} turns could not be answered.")
    cells = tuple(row[:shown] for row in rows)
    return Table("retest", "Repeated turns", columns[:shown], cells, tuple(notes))


def _agreement_row(suite: str, asked: Sequence[Again]) -> tuple[Cell, ...]:
    episodes = [one.episode for one in asked]
    shifts = [one.largest_shift for one in asked if one.largest_shift is not None]
    texts = proportion_estimate([one.same_text for one in asked], episodes)
    actions = proportion_estimate([one.same_action for one in asked], episodes)
    return suite, len(asked), texts, actions, max(shifts, default=None)


def disagreement_table(asked: Sequence[Again], most: int) -> Table:
    """The first ``most`` turns with another action, then those with another reply only."""
    differing = sorted(
        (one for one in asked if not one.same_text or one.old_action != one.new_action),
        key=lambda one: one.old_action == one.new_action,
    )
    rows = tuple(
        (one.episode[:SHORT_ID], one.turn, one.old_action, one.new_action, _differs(one)) for one in differing[:most]
    )
    columns = ("episode", "turn", "old action", "new action", "replies differ from")
    notes = (f"{len(rows)} of {len(differing)} turns whose reply or action is another one.",)
    return Table("retest_turns", "Turns that were answered otherwise", columns, rows, notes)


def _differs(one: Again) -> str:
    if one.same_text:
        return "nowhere"
    same = next(
        (place for place, (old, new) in enumerate(zip(one.old_text, one.new_text, strict=False)) if old != new),
        min(len(one.old_text), len(one.new_text)),
    )
    return f"character {same} of {len(one.old_text)}"
