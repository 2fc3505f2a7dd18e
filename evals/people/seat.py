"""Where one participant stands: what is shown now, and what an answer leads to. All of it follows from the journal."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from evals.human.page import Answer, all_parts, question_state, texts_state
from evals.human.player import Question, Questions, chosen
from evals.people.games import Games
from evals.people.journal import ENDED, Entry, Journal
from evals.people.rendering import rendered
from evals.people.study import Check, Participant, Study
from evals.searches import found_by
from evals.sessions.session import Session
from evals.suite import words_for_people
from evals.types import Part, PlayerError, Turn, stable_hash

YES_NO: Final = ("yes", "no")
_BUTTONS: Final = {"consent": "I agree and take part", "instructions": "Begin"}
_OVER: Final = "You have finished. Thank you! You can close this page."


class RefusedError(Exception):
    """The answer is to a question that is not in hand."""


@dataclass(frozen=True)
class Item:
    """One thing that a participant goes through."""

    key: str
    kind: Literal["page", "check", "game", "check_game", "review"]
    check: Check | None = None

    @property
    def counts(self) -> bool:
        """Whether the progress counts it: participants cannot tell a check from a game."""
        return self.kind != "page"


def items_of(study: Study, participant: Participant, check_games: Sequence[str] = ()) -> list[Item]:
    """All that a participant goes through, in order: checks stand between the games, at even distances."""
    pages = [Item(name, "page") for name in _BUTTONS if study.texts.get(name, "").strip()]
    played: Literal["game", "review"] = "review" if study.plan.kind == "review" else "game"
    games = [Item(key, played) for key in participant.games]
    checks = [Item(check.key, "check", check) for check in study.plan.checks]
    checks += [Item(f"check-{key}", "check_game") for key in check_games]
    for number, check in reversed([*enumerate(checks, 1)]):
        games.insert(round(number * len(participant.games) / (len(checks) + 1)), check)
    return [*pages, *games]


@dataclass
class _Current:
    """What is in hand: its answer is the next entry of the journal."""

    item: Item
    step: int
    choices: tuple[tuple[str, ...], ...]
    """The options of each thing that is asked."""
    state: dict[str, Any]
    parts: tuple[Part, ...] = ()
    session: Session | None = None
    questions: Questions | None = None
    edition: str = ""
    """Of the criteria: choices are numbers, and a page that was left open may show other criteria than there are now."""

    @property
    def key(self) -> str:
        """What the page sends back with an answer: ``ITEM/STEP``, or ``ITEM@EDITION/STEP`` of a review."""
        edition = f"@{self.edition}" if self.edition else ""
        return f"{self.item.key}{edition}/{self.step}"


class Seat:
    """One participant at the server; belongs to one event loop."""

    def __init__(self, study: Study, participant: Participant, games: Games, check_games: Games | None) -> None:
        """Read what was answered before.

        Raises:
            FileError: the journal is damaged.
        """
        self._study, self._participant = study, participant
        self._games, self._check_games = games, check_games
        self._items = items_of(study, participant, check_games.different if check_games else ())
        self._journal = Journal.read(study.answers_of(participant))
        self._current: _Current | None = None
        self._lock = asyncio.Lock()

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is shown now, for its pictures."""
        return self._current.parts if self._current else ()

    async def state(self) -> dict[str, Any]:
        """What the page shows now."""
        async with self._lock:
            return await self._state()

    async def answer(self, answer: Answer) -> dict[str, Any]:
        """Keep an answer and go on; the same answer once more changes nothing. Returns what the page shows then.

        Raises:
            RefusedError: it is to a question that is not in hand and was not answered before.
            ValueError: it chooses what is not offered.
            OSError: it cannot be written; then it does not count.
        """
        async with self._lock:
            place, _, step = answer.key.rpartition("/")
            item = place.partition("@")[0]
            answered = self._journal.items.get(item, {})
            if step.isdecimal() and len(step) < 9 and int(step) in answered:
                return await self._state()
            await self._state()
            current = self._current
            if current is None or current.key != answer.key:
                raise RefusedError(answer.key)
            texts = _chosen_texts(answer.choices, current.choices)
            times = (answer.visible, answer.hidden)
            asked: tuple[str, ...] = ()
            if current.item.kind == "review":
                asked = self._criteria
            entry = Entry(current.item.key, current.step, texts, *times, answer.ignored, asked)
            # should anything fail from here on, the next request begins anew from the journal
            self._current = None
            await asyncio.to_thread(self._journal.add, entry)
            if current.session is not None:
                turn = current.session.turn
                assert turn is not None
                following = await current.session.answer(chosen(turn, texts[0], entry.visible))
                self._current = await self._played(current, following)
            return await self._state()

    async def _state(self) -> dict[str, Any]:
        if self._current is None:
            for item in self._open_items():
                self._current = await self._begun(item)
                if self._current is not None:
                    break
        if self._current is None:
            html = rendered(self._study.texts.get("thanks", "")) or f"<p>{_OVER}</p>"
            return {"phase": "over", "key": "over", "html": html, "code": self._participant.code, **self._progress()}
        return {**self._current.state, "key": self._current.key, **self._progress()}

    def _open_items(self) -> Iterator[Item]:
        return (item for item in self._items if not self._is_over(item))

    def _is_over(self, item: Item) -> bool:
        return is_over(self._journal, item)

    def _progress(self) -> dict[str, Any]:
        counted = [item for item in self._items if item.counts]
        done = sum(map(self._is_over, counted))
        at = min(done + 1, len(counted))
        progress = {"word": "Question" if self._study.plan.kind == "review" else "Game", "at": at, "of": len(counted)}
        page = self._current is not None and self._current.item.kind == "page"
        return {"title": self._study.plan.title, **({} if page else {"progress": progress})}

    async def _begun(self, item: Item) -> _Current | None:
        """An item up to its first open question; None where a game has ended."""
        if item.kind == "page":
            html = rendered(self._study.texts[item.key])
            return _Current(item, 0, (("agreed",),), {"phase": "page", "html": html, "button": _BUTTONS[item.key]})
        if item.check is not None:
            return self._checked(item, item.check)
        episode, games = self._episode(item)
        session = Session(games.part(episode), episode)
        questions = Questions(lambda turn: words_for_people(games.suite, turn))
        begun = _Current(item, 0, (), {}, (), session, questions)
        turn = await session.begin()
        if item.kind == "review" and turn is not None:
            current = await self._reviewed(item, turn, questions.seen(turn))
            await session.close()
            return current
        answered = self._journal.items.get(item.key, {})
        while turn is not None and turn.number in answered:
            questions.of(turn)
            entry = answered[turn.number]
            turn = await session.answer(chosen(turn, entry.choice, entry.visible))
        return await self._played(begun, turn)

    def _episode(self, item: Item) -> tuple[Any, Games]:
        person = self._participant.person
        if item.kind == "check_game" and self._check_games is not None:
            return self._check_games.for_person(item.key.removeprefix("check-"), person), self._check_games
        return self._games.for_person(item.key, person), self._games

    async def _played(self, before: _Current, turn: Turn | None) -> _Current | None:
        """A game at its next turn; at its end that is noted."""
        session, questions = before.session, before.questions
        assert session is not None and questions is not None
        while turn is not None:
            try:
                question = questions.of(turn)
            except PlayerError as error:  # a turn without options, which no person can answer
                turn = await session.fail(error)
                continue
            state = self._with_help(question_state(question))
            choices = (question.options,)
            return _Current(before.item, turn.number, choices, state, all_parts(question), session, questions)
        await asyncio.to_thread(self._journal.add, Entry(before.item.key, ENDED))
        return None

    def _checked(self, item: Item, check: Check) -> _Current:
        asked = {"name": "answer", "text": "", "options": [*check.options], "captions": [*check.options]}
        shown = {"rules": [], "past": [], "shown": [{"text": check.question}], "asks": [asked]}
        return _Current(item, 0, (check.options,), self._with_help({"phase": "question", **shown}))

    async def _reviewed(self, item: Item, turn: Turn, question: Question) -> _Current:
        """A question with the answer that its suite gives, and what is asked about it."""
        given = await found_by(turn.oracle) if turn.oracle else ""
        captions = dict(zip(question.options, question.captions, strict=True))
        listed = "\n".join(question.captions)
        told = (f"Choices:\n{listed}",) if listed else ()
        stage = f"Kind of question: {turn.episode.task}, {turn.episode.level}"
        shown = dataclasses.replace(question, shown=(stage, *question.shown, *told), for_models=False)
        asks = [
            {"name": each.name, "text": each.question, "options": [*YES_NO], "captions": ["Yes", "No"]}
            for each in self._study.plan.criteria
        ]
        answer = f"Answer given: {captions.get(given, given) or 'none'}"
        state = self._with_help({**texts_state(shown), "given": answer, "asks": asks})
        return _Current(
            item, 0, (YES_NO,) * len(asks), state, all_parts(shown), edition=stable_hash(self._criteria)[:12]
        )

    @property
    def _criteria(self) -> tuple[str, ...]:
        return tuple(criterion.key for criterion in self._study.plan.criteria)

    def _with_help(self, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "help": rendered(self._study.texts.get("instructions", ""))}


def _chosen_texts(choices: Sequence[int], offered: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The texts of the options with these numbers, one of each list.

    Raises:
        ValueError: there are more or fewer numbers, or a list has no such option.
    """
    if len(choices) != len(offered):
        raise ValueError("an answer chooses once for each thing that is asked")
    texts = []
    for index, options in zip(choices, offered, strict=True):
        if not 0 <= index < len(options):
            raise ValueError("there is no such option")
        texts.append(options[index])
    return tuple(texts)


def is_over(journal: Journal, item: Item) -> bool:
    """Whether nothing more is asked of an item."""
    steps = journal.items.get(item.key, {})
    return ENDED in steps or (item.kind in ("page", "check", "review") and 0 in steps)
