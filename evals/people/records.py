"""From journals to what they say: records of games for a ledger, checks passed, reviews, times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs.files import FileError
from evals.conversation import Record
from evals.human.player import chosen
from evals.people.games import Games
from evals.people.journal import ENDED, Entry, Journal
from evals.people.seat import Item, is_over, items_of
from evals.people.study import STUDY, Participant, Study
from evals.sessions.session import Session
from evals.types import Episode, PlayerError


@dataclass(frozen=True)
class Taken:
    """How far a participant came, and with what."""

    participant: Participant
    records: tuple[Record, ...]
    """Of the games that ended; checks are not among them."""
    reviews: Mapping[str, Mapping[str, str]]
    """``yes`` or ``no`` by the criterion's key, by the game whose question was judged."""
    checks_passed: int
    checks_seen: int
    finished: bool
    visible: float
    """Seconds with a question in sight, pages of text left out."""
    hidden: float
    answers: int
    ignored: int
    """Clicks that came too soon to be meant for their question."""

    @property
    def begun(self) -> bool:
        """Whether anything was answered."""
        return self.answers > 0


async def taken_by(study: Study, participant: Participant, games: Games, check_games: Games | None) -> Taken:
    """Read a participant's journal and play the answers through the suite again.

    Raises:
        FileError: the journal is damaged, or nobody knows of which criteria its reviews are.
    """
    journal = Journal.read(study.answers_of(participant))
    check_ids: Sequence[str] = ()
    if check_games:
        check_ids = check_games.different
    items = items_of(study, participant, check_ids)
    over = [item for item in items if is_over(journal, item)]
    records = []
    checks = []
    for item in over:
        steps = journal.items[item.key]
        if item.kind == "game":
            records.append(await replayed(games, games.for_person(item.key, participant.person), steps))
            continue
        passed = await _passed(item, steps, participant.person, check_games)
        if passed is not None:
            checks.append(passed)
    reviews = {
        item.key: _review(journal.items[item.key][0], study, journal.path) for item in over if item.kind == "review"
    }
    counted: list[Entry] = []
    for item in items:
        if item.counts:
            counted += _answers(journal, item)
    return Taken(
        participant=participant,
        records=tuple(records),
        reviews=reviews,
        checks_passed=sum(checks),
        checks_seen=len(checks),
        finished=len(over) == len(items),
        visible=sum(entry.visible for entry in counted),
        hidden=sum(entry.hidden for entry in counted),
        answers=len(counted),
        ignored=sum(entry.ignored for entry in counted),
    )


def _review(entry: Entry, study: Study, path: Path) -> Mapping[str, str]:
    """What was said to each criterion, by its key."""
    asked = entry.asked
    if not asked:
        # Older versions kept the choices in the order of the criteria, without saying which ones.
        asked = tuple(criterion.key for criterion in study.plan.criteria)
    if len(asked) != len(entry.choices):
        raise FileError(
            path,
            f"a review answers {len(entry.choices)} criteria, where {STUDY} has {len(asked)}: restore its criteria",
        )
    return dict(zip(asked, entry.choices, strict=True))


async def _passed(item: Item, steps: Mapping[int, Entry], person: str, check_games: Games | None) -> bool | None:
    """Whether a check was passed: a game that was won, or a question that was answered right; None for what is no check."""
    if item.kind == "check_game" and check_games is not None:
        episode = check_games.for_person(item.key.removeprefix("check-"), person)
        record = await replayed(check_games, episode, steps)
        return record.outcome is not None and record.outcome.success
    if item.check is not None:
        return steps[0].choices == (item.check.answer,)
    return None


def _answers(journal: Journal, item: Item) -> list[Entry]:
    return [entry for step, entry in journal.items.get(item.key, {}).items() if step != ENDED]


async def replayed(games: Games, episode: Episode, steps: Mapping[int, Entry]) -> Record:
    """The record of a game that was played with these answers; one that they do not fit is a failed one.

    Its seconds are those for which the person had its questions in sight.
    """
    session = Session(games.part(episode), episode)
    turn = await session.begin()
    while turn is not None:
        entry, options = steps.get(turn.number), turn.options or turn.labels
        if entry is not None and entry.choice in options:
            turn = await session.answer(chosen(turn, entry.choice, entry.visible))
        elif options:
            turn = await session.fail(PlayerError("what was answered is not offered here: the suite has changed since"))
        else:
            turn = await session.fail(
                PlayerError("the suite offers no options for this turn, so no person can play it")
            )
    record = session.record
    assert record is not None
    # The session has measured how long this replay took.
    in_sight = math.fsum(played.reply.seconds for played in record.turns)
    return replace(record, seconds=in_sight)
