"""A study as a folder: what is asked of whom, and in which words.

study.yaml          what is played, how often, pay, attention checks, criteria of a review
consent.md          what participants agree to; without it nobody is asked
instructions.md     what they read before the first game, and may read again at any time
thanks.md           what they read at the end, above their code
participants.json   pseudonym, link, code and games of each participant: whoever reads it can take part as anybody
answers/            what each participant chose, one file for each
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pydantic

from envs.files import Bounds, FileError, read_json, read_text, read_yaml
from evals.types import stable_hash

STUDY: Final = "study.yaml"
PARTICIPANTS: Final = "participants.json"
ANSWERS: Final = "answers"
TEXTS: Final = ("consent", "instructions", "thanks")
"""Markdown files, ``NAME.md``."""

Kind = Literal["play", "review"]
_BOUNDS: Final = Bounds(size=50_000_000, depth=8)


class _Shape(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


_Choice = Annotated[str, pydantic.Field(max_length=1000)]
"""The words of a choice; each answer is kept with them."""


class Check(_Shape):
    """A question that whoever pays attention answers right: no part of any score."""

    question: str
    options: tuple[_Choice, ...] = pydantic.Field(min_length=2)
    answer: str

    @pydantic.model_validator(mode="after")
    def _offered(self) -> Check:
        if self.answer not in self.options or len({*self.options}) < len(self.options):
            raise ValueError(f"answer {self.answer!r} must be one of the options, which must differ")
        return self

    @property
    def key(self) -> str:
        """Tells checks apart; changes with their words."""
        return f"check-{stable_hash(self.question, self.options, self.answer)[:12]}"


class Criterion(_Shape):
    """What reviewers judge of a question, with Yes or No."""

    name: str = pydantic.Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    question: str

    @property
    def key(self) -> str:
        """Tells criteria apart; changes with their words."""
        return f"{self.name}-{stable_hash(self.question)[:12]}"


class Pay(_Shape):
    """What a participant earns: ``base + success * share of games won + step * steps``, never below 0."""

    currency: str = ""
    base: float = 0.0
    success: float = 0.0
    step: float = 0.0

    def of(self, won: float, steps: int) -> float:
        """Pay of who has finished, for a share of games won and all steps taken."""
        return max(0.0, math.fsum((self.base, self.success * won, self.step * steps)))


class Plan(_Shape):
    """``study.yaml``."""

    title: str = "Study"
    kind: Kind = "play"
    settings: tuple[str, ...]
    """Of the suite, as for ``raycade run``: ``suite=kidgym``, ``suite.tasks=[CL]``."""
    players_per_game: int = pydantic.Field(ge=1)
    games_per_participant: int = pydantic.Field(ge=1)
    pay: Pay = Pay()
    checks: tuple[Check, ...] = ()
    check_games: tuple[str, ...] = ()
    """Settings that differ in games which everybody wins who pays attention; empty for none."""
    criteria: tuple[Criterion, ...] = ()

    @pydantic.model_validator(mode="after")
    def _named_apart(self) -> Plan:
        names = [criterion.name for criterion in self.criteria]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"criteria: the name {twice[0]!r} stands twice")
        return self


@dataclass(frozen=True)
class Participant:
    """One of the people, known by a pseudonym only."""

    person: str
    """``person-`` and letters or digits drawn by chance; the name of the player in ledgers."""
    token: str
    """Part of the link; whoever knows it is this participant."""
    code: str
    """Shown at the end, so that whoever pays can tell that the study was finished."""
    games: tuple[str, ...]
    """What is to be played: ids of the games as planned for nobody (``unassigned``)."""

    def to_json(self) -> dict[str, Any]:
        """As ``participants.json`` has it."""
        return {"person": self.person, "token": self.token, "code": self.code, "games": [*self.games]}


class _Participants(_Shape):
    class _One(_Shape):
        person: str = pydantic.Field(pattern=r"^person-[a-z0-9]{1,32}$")
        token: str = pydantic.Field(min_length=16)
        code: str
        games: tuple[str, ...]

    participants: tuple[_One, ...]


@dataclass(frozen=True)
class Study:
    """A study as it is read from its folder."""

    folder: Path
    plan: Plan
    participants: tuple[Participant, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    """Markdown by name (``TEXTS``); empty where there is no file."""

    @cached_property
    def by_token(self) -> Mapping[str, Participant]:
        """Participants by the token of their link."""
        return {participant.token: participant for participant in self.participants}

    def answers_of(self, participant: Participant) -> Path:
        """The file of what a participant chose."""
        return self.folder / ANSWERS / f"{participant.person}.jsonl"


def read_study(folder: Path) -> Study:
    """Read a study.

    Raises:
        FileError: a file is missing or says something impossible; the message names file, place and reason.
    """
    path = folder / STUDY
    plan = _read_as(Plan, read_yaml(path), path)
    participants = _participants(folder / PARTICIPANTS)
    texts = {name: _text(folder / f"{name}.md") for name in TEXTS}
    return Study(folder, plan, participants, texts)


def _participants(path: Path) -> tuple[Participant, ...]:
    found = _read_as(_Participants, read_json(path, _BOUNDS), path).participants
    participants = tuple(Participant(each.person, each.token, each.code, each.games) for each in found)
    for name in ("person", "token", "code"):
        different = {getattr(each, name) for each in participants}
        if len(different) < len(participants):
            raise FileError(path, f"names a {name} twice")
    return participants


def participants_text(participants: Sequence[Participant]) -> str:
    """The content of ``participants.json``."""
    return json.dumps({"participants": [each.to_json() for each in participants]}, indent=1) + "\n"


def _text(path: Path) -> str:
    return read_text(path, 1_000_000) if path.exists() else ""


def _read_as(shape: Any, value: object, path: Path) -> Any:
    """A value as a shape, with lists for tuples as YAML and JSON have them.

    Raises:
        FileError: it has another shape; the message names the first place that is wrong.
    """
    try:
        return shape.model_validate_json(json.dumps(value))
    except (pydantic.ValidationError, TypeError, ValueError) as error:
        if isinstance(error, pydantic.ValidationError):
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the whole file"
            raise FileError(path, f"{place}: {first['msg']}") from error
        raise FileError(path, str(error)) from error
