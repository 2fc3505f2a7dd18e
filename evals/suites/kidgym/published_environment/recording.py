"""A recording: which games the published environment makes, and how each begins, so that plans need not run it."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from envs.disk import whole_file
from envs.file_picture import FilePicture
from envs.files import FileError, is_unicode, parse_json, read_bytes, read_json, read_json_lines, shown_files
from evals.suites.kidgym.published_environment.process import EnvironmentProcess, PublishedEnvironmentError, Seen
from evals.types import stable_hash, stable_seed

INDEX: Final = "games.jsonl"
ABOUT: Final = "recording.json"
PICTURES: Final = "pictures"
MOST: Final = 2**31 - 1
"""Of numbers in a recording, as the ledger holds them, but for seeds."""
MOST_SEED: Final = 2**63 - 1
SUFFIX: Final = "-published"
"""What the ledger calls a task in this environment: ``CL-published``."""


@dataclass(frozen=True)
class RecordedGame:
    """How one game begins, or why it cannot."""

    task: str
    level: int
    index: int
    seed: int
    goal: str = ""
    actions: tuple[str, ...] = ()
    picture: str = ""
    """Hash of the first picture's file."""
    budget: int = 0
    error: str = ""

    def is_of(self, seen: Seen, picture: FilePicture) -> bool:
        """Whether a game that was just opened begins like this one."""
        begins = seen.goal, seen.actions, picture.digest, seen.budget
        return begins == (self.goal, self.actions, self.picture, self.budget)


@dataclass(frozen=True)
class Recording:
    """The games of a folder, by task and level, in the order of their indices."""

    folder: Path
    checkout: str
    """Hash of the checkout's code and data."""
    seconds: int
    """Longest time for one step."""
    games: dict[tuple[str, int], tuple[RecordedGame, ...]] = field(hash=False)


def game_seed(task: str, level: int, index: int) -> int:
    """The seed of a game."""
    return stable_seed("kidgym published", task, level, index)


def record_game(process: EnvironmentProcess, folder: Path, task: str, level: int, index: int) -> RecordedGame:
    """Open a game and keep how it begins; one that cannot be made is kept with its cause."""
    seed = game_seed(task, level, index)
    game = process.game(task, level, seed, index)
    try:
        seen = game.open()
        picture = FilePicture.store(seen.picture, folder / PICTURES)
        made = RecordedGame(task, level, index, seed, seen.goal, seen.actions, picture.digest, seen.budget)
        _game_of(parse_json(_line(made), "the recorded game"))  # else the whole recording could not be read
    except (PublishedEnvironmentError, ValueError) as error:
        return RecordedGame(task, level, index, seed, error=str(error))
    finally:
        game.close()
    return made


def is_recording(folder: Path) -> bool:
    """Whether a folder holds a recording, or what a command has left of one that was killed."""
    try:
        about = read_json(folder / ABOUT)
    except FileError:
        return False
    return isinstance(about, dict) and about.keys() >= {"checkout", "seconds"}


def write_recording(folder: Path, process: EnvironmentProcess, games: list[RecordedGame]) -> None:
    """Write the index, and what is known of the environment."""
    about = {"checkout": checkout_digest(process.checkout), "seconds": process.seconds, "versions": process.about}
    index = "".join(_line(game) + "\n" for game in games)
    for name, text in ((ABOUT, json.dumps(about, sort_keys=True) + "\n"), (INDEX, index)):
        with whole_file(folder / name) as beside:
            beside.write_text(text, encoding="utf-8")


@functools.lru_cache(maxsize=4)
def read_recording(folder: str) -> Recording:
    """The recording in a folder.

    Raises:
        ValueError: there is none, or a line of it is none of its games.
    """
    home = Path(folder)
    try:
        about = read_json(home / ABOUT)
        checkout, seconds = str(about["checkout"]), int(about["seconds"])
        if not 0 < seconds <= MOST:
            raise ValueError(f"seconds must be from 1 to {MOST}")
        lines = list(read_json_lines(home / INDEX))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder} holds no recording of the published environment ({error}); make one with `raycade kidgym record`"
        ) from error
    games: dict[tuple[str, int], list[RecordedGame]] = {}
    for number, fields in lines:
        try:
            game = _game_of(fields)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{home / INDEX}, line {number}: no recorded game ({error!r})") from error
        games.setdefault((game.task, game.level), []).append(game)
    ordered = {cell: tuple(sorted(found, key=lambda game: game.index)) for cell, found in games.items()}
    return Recording(home, checkout, seconds, ordered)


def _line(game: RecordedGame) -> str:
    """A game as the index holds it."""
    return json.dumps(asdict(game), sort_keys=True)


def _game_of(fields: dict[str, Any]) -> RecordedGame:
    texts = {name: fields[name] for name in ("task", "goal", "picture", "error")}
    numbers = {name: fields[name] for name in ("level", "index", "seed", "budget")}
    actions = fields["actions"]
    for text in (*texts.values(), *actions):
        if not isinstance(text, str):
            raise ValueError("a text is none")
        if not is_unicode(text):
            raise ValueError("a text holds half a character")
    for name, number in numbers.items():
        most = MOST_SEED if name == "seed" else MOST
        is_whole = type(number) is int  # true and false are numbers, too
        if not is_whole or not 0 <= number <= most:
            raise ValueError(f"{name} is no whole number from 0 to {most}")
    return RecordedGame(actions=tuple(actions), **texts, **numbers)


def checkout_digest(checkout: str) -> str:
    """Hash of the code and the layouts of a checkout: another version is another environment."""
    home, found = Path(checkout), hashlib.blake2b(digest_size=16)
    for path in _sources(home):
        found.update(str(path.relative_to(home)).encode() + b"\0" + read_bytes(path) + b"\0")
    return found.hexdigest()


def _sources(home: Path) -> Iterator[Path]:
    for folder, kind in (("src", "*.py"), ("tasks", "*.py"), ("assets/jsons", "*.json")):
        yield from shown_files(home / folder, f"**/{kind}")


def game_fingerprint(game: RecordedGame, recording: Recording) -> str:
    """Hash of what a game is, apart from how it is asked."""
    return stable_hash(recording.checkout, asdict(game))
