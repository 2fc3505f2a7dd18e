"""The folder of a study on disk: made, locked, read together with the games that it names."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import yaml

from cluster.commands.play import play_overrides
from cluster.config.settings import Settings, load_settings
from cluster.errors import UserError, cannot_write
from cluster.storage.durable import write_durably
from cluster.storage.lock import LOCK, no_locks, open_lock
from evals.people.games import Games, assign, participants_needed
from evals.people.journal import ENDED, Journal
from evals.people.study import (
    PARTICIPANTS,
    STUDY,
    Criterion,
    Kind,
    Participant,
    Plan,
    Study,
    participants_text,
    read_study,
)

CRITERIA: Final = (
    Criterion(name="correctness", question="Is the answer given right?"),
    Criterion(name="clarity", question="Is the question clear to anybody?"),
    Criterion(name="content_validity", question="Does the question fit its kind?"),
)
"""What reviewers of generated questions judge (MultiStAR, appendix A.5.1), in words of our own."""
MOST_PARTICIPANTS: Final = 100_000
_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""Of pseudonyms and codes: no characters that are taken for one another."""


@dataclass(frozen=True)
class Opened:
    """A study with its games."""

    study: Study
    settings: Settings
    """Of the run that the answers make; its model is a person."""
    games: Games
    check_games: Games | None


def new_study(folder: Path, settings: Sequence[str], kind: Kind, players: int, games: int, title: str) -> Study:
    """Write a study with texts to be edited, and links for as many people as it takes.

    Args:
        folder: New, or empty.
        settings: Of the suite, as for ``raycade run``, and the name of the run; by default few games, as for ``raycade play``.
        kind: Whether people play the games or judge their questions.
        players: Of each game.
        games: Of each participant, at most.
        title: Above the pages.

    Raises:
        UserError: the folder holds something, or the settings are wrong or have no effect on a study.
    """
    _check_new(folder)
    if min(players, games) < 1:
        raise UserError(f"--players={players} --games={games}: each must be 1 at least")
    _check_effect(settings)
    given = play_overrides(settings, "")
    chosen = tuple(each for each in dict.fromkeys(given) if not each.startswith(("model=", "model.name=")))
    found = _games(chosen)
    needed = participants_needed(len(found.different), players, games)
    if needed > MOST_PARTICIPANTS:
        raise UserError(f"{len(found.different):,} games would take {needed:,} participants; narrow the settings down")
    criteria = CRITERIA if kind == "review" else ()
    plan = Plan(
        title=title,
        kind=kind,
        settings=chosen,
        players_per_game=players,
        games_per_participant=games,
        criteria=criteria,
    )
    people = _drawn(found.different, needed, games, Counter(), ())
    texts = resources.files(__package__) / "texts"
    contents = {"consent.md": texts / "consent.md", "instructions.md": texts / f"instructions.{kind}.md"}
    contents["thanks.md"] = texts / "thanks.md"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        _check_new(folder)  # games take a while to plan
        try:
            for name, source in contents.items():
                write_durably(folder / name, source.read_bytes())
            write_durably(folder / STUDY, _plan_text(plan).encode())
            _write_secret(folder / PARTICIPANTS, participants_text(people))
        except BaseException:  # a full disk, say: the same command can make the study later
            for name in (*contents, STUDY, PARTICIPANTS):
                (folder / name).unlink(missing_ok=True)
            raise
    return Study(folder, plan, people)


def _check_effect(settings: Sequence[str]) -> None:
    """See that a study takes the settings: it plans all games of a suite for people, and no run of a model.

    Raises:
        UserError: one of them would change nothing.
    """
    for setting in settings:
        key = setting.partition("=")[0].lstrip("+~")
        if key not in ("suite", "name") and not key.startswith("suite."):
            raise UserError(
                f"{key}: has no effect on a study; its settings are those of the suite (suite=..., suite.NAME=...) and name=..."
            )


def _check_new(folder: Path) -> None:
    """See that a folder is missing or empty.

    Raises:
        UserError: it is not.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or any(path.name != LOCK for path in folder.iterdir()):
        raise UserError(f"{folder}: is there and not empty; name a new folder")


def add_participants(folder: Path, count: int) -> Study:
    """Add people, who get the games that the fewest have finished.

    Raises:
        UserError: the study is being served or changed, or cannot be read.
    """
    if not 0 < count <= MOST_PARTICIPANTS:
        raise UserError(f"{count}: must be from 1 to {MOST_PARTICIPANTS:,}")
    with locked(folder):
        opened = open_study(folder)
        study = opened.study
        finished = _finished(study)
        more = _drawn(opened.games.different, count, study.plan.games_per_participant, finished, study.participants)
        _write_secret(folder / PARTICIPANTS, participants_text([*study.participants, *more]))
    return dataclasses.replace(study, participants=(*study.participants, *more))


def _finished(study: Study) -> Counter[str]:
    """How many participants have finished each game.

    Raises:
        FileError: the answers of one of them are damaged.
    """
    finished: Counter[str] = Counter()
    last = 0 if study.plan.kind == "review" else ENDED  # a review has one step, and no entry of an end
    for participant in study.participants:
        journal = Journal.read(study.answers_of(participant))
        finished.update(game for game in participant.games if last in journal.items.get(game, {}))
    return finished


def open_study(folder: Path) -> Opened:
    """Read a study and plan its games.

    Raises:
        UserError: a setting is wrong, or the games are others than those that the participants were assigned to.
        FileError: a file is missing or damaged.
    """
    study = read_study(folder)
    settings = load_settings([*study.plan.settings, "model=human", f"run_dir={folder / 'results' / 'run'}"])
    games = Games.of(settings.suite)
    unknown: list[str] = []
    for participant in study.participants:
        unknown += [game for game in participant.games if game not in games.by_id]
    if unknown:
        raise UserError(
            f"{folder / PARTICIPANTS}: {len(unknown)} assigned games are none that {folder / STUDY} plans here: its settings, "
            "or the suite itself, have changed since the study began; use the settings and the version that it began with"
        )
    check_games = None
    if study.plan.check_games:
        check_games = _games((*study.plan.settings, *study.plan.check_games))
    return Opened(study, settings, games, check_games)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only process that serves or changes a study.

    Raises:
        UserError: another process does, or there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; raycade people new makes one")
    try:
        file = open_lock(folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{folder}: another process serves or changes this study; end that one first") from error
        except OSError as error:
            raise no_locks(folder, error) from error
        yield


def _games(settings: Sequence[str]) -> Games:
    return Games.of(load_settings([*settings, "model=human"]).suite)


def _new_words(count: int, taken: Set[str]) -> list[str]:
    """So many different words that are neither a pseudonym nor a code yet."""
    words: list[str] = []
    while len(words) < count:
        word = "".join(secrets.choice(_ALPHABET) for _ in range(8))
        is_new = taken.isdisjoint((f"person-{word}", word.upper()))
        if is_new and word not in words:
            words.append(word)
    return words


def _drawn(
    games: Sequence[str], count: int, each: int, played: Counter[str], known: Sequence[Participant]
) -> tuple[Participant, ...]:
    """New participants with pseudonyms, links and codes that nobody can guess."""
    taken: set[str] = set()
    for participant in known:
        taken |= {participant.person, participant.code}
    # Twice as many words as participants: half become pseudonyms, half become codes, so that neither tells the other.
    words = _new_words(2 * count, taken)
    people = [f"person-{word}" for word in words[:count]]
    codes = [word.upper() for word in words[count:]]
    assigned = assign(games, people, each, played)
    drawn = []
    for person, code in zip(people, codes, strict=True):
        token = secrets.token_urlsafe(24)
        drawn.append(Participant(person, token, code, assigned[person]))
    return tuple(drawn)


def _plan_text(plan: Plan) -> str:
    return yaml.safe_dump(plan.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100)


def _write_secret(path: Path, text: str) -> None:
    """Write a file that its owner alone may read."""
    write_durably(path, text.encode(), rights=0o600)


def write_links(study: Study, address: str) -> Path:
    """Write a table of all links."""
    path = study.folder / "links.csv"
    lines = [f"{each.person},{address.rstrip('/')}/{each.token}/" for each in study.participants]
    _write_secret(path, "\n".join(["person,link", *lines, ""]))
    return path
