"""Which games are trained on: those that a suite draws besides its open ones, and none that the evaluation plays.

The settings are those of the evaluation. A suite with a setting ``seeds`` draws blocks of other games of the same kinds
(``evals.sealed``). Of any other suite the planned episodes get other seeds, which its ``play`` may follow or not: so games are
compared by what they show, too, and those that the evaluation has are left out.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from envs import plugins
from envs.files import FileError, read_lines
from envs.picture import Picture
from envs.settings import check_arguments, check_keys, settings_of
from evals.sealed import TRAINING
from evals.sessions.session import text_reply
from evals.suite import Suite, plan_for, play_episode
from evals.training.reward import RewardKind
from evals.types import Episode, PlayerError, Reply, Turn, stable_hash, stable_seed

SUITES: Final = "raycade.suites"
"""Entry-point group in which suites are registered."""
PLAYER: Final = "training"
"""Whoever is trained, as a player in ids of episodes."""
_TRAINED: Final = re.compile(r"[0-9a-f]{32} [0-9a-f]{32}")
"""A line of a file that `Options.trained_on` names: of the game's seed, and of what it shows."""
_BLOCKS: Final = 2**31
"""A stream of games begins with one of so many blocks."""


@dataclass(frozen=True)
class Options:
    """What every adapter takes besides the settings of the suite.

    Attributes:
        reward: ``success``, ``regret`` or ``shaped``, see ``evals.training.reward``.
        evaluation: Settings in which the evaluation differs from the training, such as ``{"episodes": 100}``.
        evaluation_games: Train on the very games of the evaluation. They must be written down then, in ``trained_on``.
        trained_on: File to which each game that is begun is added as a line of hashes; ``raycade trained-on`` tells which
            games of a run are among them.
    """

    reward: RewardKind = "success"
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    evaluation_games: bool = False
    trained_on: str = ""


class TrainingGames:
    """The games of one suite, in endless streams.

    >>> from evals.training.games import TrainingGames
    >>> games = TrainingGames("kidgym", tasks=["CL"], levels=[1], modes=["zero_shot"], reward="regret")
    >>> suite, episode = next(games.stream(seed=0))
    >>> episode.task, suite.seeds[:9]
    ('CL', 'training:')
    """

    def __init__(self, name: str, **settings: Any) -> None:
        """Nothing is drawn yet.

        Args:
            name: A registered suite.
            settings: Of the suite, as the evaluation has them, and of ``Options``.

        Raises:
            ValueError: there is no such suite or setting, or a value is out of bounds.
        """
        chosen = {key: settings.pop(key) for key in settings_of(Options) if key in settings}
        self.options = Options(**check_arguments("training", Options, chosen))
        if "seeds" in settings:
            raise ValueError("seeds: training draws games of its own; leave it out")
        if self.options.evaluation_games and not self.options.trained_on:
            raise ValueError(
                "evaluation_games: what is trained on must be written down, so that no evaluation takes it for new: "
                "name a file with trained_on"
            )
        check_keys(name, training_keys(name), settings)
        self._name, self._settings = name, settings
        self.suite = suite_of(name, settings)
        """With the open games."""
        self.evaluation = EvaluationGames(suite_of(name, {**settings, **self.options.evaluation}))
        self._draws_blocks = "seeds" in settings_of(type(self.suite)) and not self.options.evaluation_games
        self._block = functools.lru_cache(maxsize=4)(self._drawn)

    def stream(self, seed: int) -> Iterator[tuple[Suite, Episode]]:
        """Games without end, each with the suite that plays it; not yet compared with those of the evaluation.

        Raises:
            ValueError: the seed is no integer from 0 up, the suite cannot be planned, or its games are read from files.
        """
        # Python's generator drops the sign of a seed: -7 would be the stream of 7.
        if not isinstance(seed, int) or seed < 0:
            raise ValueError(f"seed={seed}: must be an integer, from 0 up")
        return self._games_from(random.Random(seed))

    def _games_from(self, rng: random.Random) -> Iterator[tuple[Suite, Episode]]:
        number = rng.randrange(_BLOCKS)
        while True:
            suite, episodes = self.block(number)
            for episode in rng.sample(episodes, len(episodes)):
                yield suite, episode
            number += 1

    def block(self, number: int) -> tuple[Suite, Sequence[Episode]]:
        """The games of one block in the order of the plan, and the suite that plays them; errors as of ``stream``."""
        return self._block(0 if self.options.evaluation_games else number)

    async def admits(self, suite: Suite, episode: Episode, opening: Turn) -> bool:
        """Whether a game may be trained on; then it is written down, if there is a file.

        Args:
            suite: What plays it.
            episode: Of ``stream``.
            opening: Its first turn.
        """
        content = await self.evaluation.content_of(suite, episode, opening)
        if not self.options.evaluation_games and content in await self.evaluation.contents(episode):
            return False
        if self.options.trained_on:
            _add_line(Path(self.options.trained_on), f"{seed_hash(suite, episode)} {content}\n")
        return True

    def unwritten(self) -> TrainingGames:
        """The same games, of which none is written down."""
        games = copy.copy(self)
        games.options = dataclasses.replace(self.options, trained_on="")
        return games

    def _drawn(self, number: int) -> tuple[Suite, list[Episode]]:
        """A block of games, each once."""
        suite = self.suite
        if self._draws_blocks:
            suite = suite_of(self._name, {**self._settings, "seeds": f"{TRAINING}{number}"})
        episodes = [episode for episode in plan_for(suite, {PLAYER: ""}) if episode.repeat == 0]
        if not episodes:
            raise ValueError(f"suite={self._name}: these settings plan no episodes")
        if self._draws_blocks or self.options.evaluation_games:
            return suite, episodes
        return suite, [_reseeded(episode, number) for episode in episodes]


def _reseeded(episode: Episode, number: int) -> Episode:
    """The episode with the game of another block."""
    return dataclasses.replace(episode, seed=stable_seed(TRAINING, number, episode.seed))


def training_keys(name: str) -> set[str]:
    """The keywords of a suite's training games: its settings and those of ``Options``.

    Raises:
        ValueError: there is no suite of this name.
    """
    return {*settings_of(_suite_class(name)), *settings_of(Options)}


def _suite_class(name: str) -> type[Suite]:
    cls = plugins.load(SUITES, name)
    if not (isinstance(cls, type) and issubclass(cls, Suite)):
        raise ValueError(f"{name}: is no suite")
    return cls


def suite_of(name: str, settings: Mapping[str, Any]) -> Suite:
    """A registered suite with some settings.

    Raises:
        ValueError: there is none of this name, a setting is wrong, or the suite is made of several.
    """
    cls = _suite_class(name)
    suite = cls(**check_arguments(name, cls, settings))
    if suite.parts != (suite,):
        raise ValueError(f"{name}: is made of several suites; train on one of {', '.join(p.name for p in suite.parts)}")
    return suite


# --- which games are the same ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cell:
    """The evaluation's games of one task and level, as one mode shows them."""

    contents: frozenset[str]
    alike: bool
    """Whether games with other seeds begin with the same first turn, so that it does not tell them apart."""


class EvaluationGames:
    """What the games of a suite's plan show, hashed cell by cell when it is asked for.

    A game is the same in all modes, so its plan need not have it in the mode that is asked for.
    """

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._cells: dict[tuple[str, str, str], _Cell] = {}

    async def contents(self, episode: Episode) -> frozenset[str]:
        """Hashes of the games in the cell of an episode."""
        return (await self._cell(episode)).contents

    async def content_of(self, suite: Suite, episode: Episode, opening: Turn) -> str:
        """Hash of what a game shows: in its first turn, or in all turns of perfect play if first turns are all alike.

        Games that cannot be told apart, because the suite has no perfect play, count as the same.
        """
        cell = await self._cell(episode)
        return await _play_hash(suite, episode, opening) if cell.alike else _turn_hash(suite, opening)

    async def first_turns(self) -> list[Turn]:
        """The first turn of one game of each task, level and mode."""
        kinds: dict[tuple[str, str, str], Episode] = {}
        for episode in self._suite.plan():
            kinds.setdefault((episode.task, episode.level, episode.mode), episode)
        openings = await _openings(self._suite, kinds.values())
        return [turn for _, turn in openings]

    @functools.cached_property
    def _planned(self) -> Mapping[tuple[str, str], Sequence[Episode]]:
        """Episodes by task and level, this by the name that stands for all its names."""
        planned: dict[tuple[str, str], list[Episode]] = {}
        for episode in self._suite.plan():
            if episode.repeat == 0:
                level = self._suite.level_of_games(episode.level)
                planned.setdefault((episode.task, level), []).append(episode)
        return planned

    async def _cell(self, episode: Episode) -> _Cell:
        level = self._suite.level_of_games(episode.level)
        key = episode.task, level, episode.mode
        if key in self._cells:
            return self._cells[key]
        openings = await self._openings_in(episode.mode, self._planned.get((episode.task, level), ()))
        seeds, contents = set[int](), set[str]()
        for planned, turn in openings:
            seeds.add(planned.seed)
            contents.add(_turn_hash(self._suite, turn))
        alike = len(contents) < len(seeds)
        if alike:
            contents = {await _play_hash(self._suite, planned, turn) for planned, turn in openings}
        self._cells[key] = _Cell(frozenset(contents), alike)
        return self._cells[key]

    async def _openings_in(self, mode: str, planned: Sequence[Episode]) -> list[tuple[Episode, Turn]]:
        """The games of some episodes as a mode shows them, each with its first turn.

        Raises:
            ValueError: the suite can show none of them in this mode.
        """
        in_mode = [episode for episode in planned if episode.mode == mode]
        openings = await _openings(self._suite, in_mode)
        games = {(episode.seed, episode.index) for episode in in_mode}
        failure: Exception | None = None
        for episode in planned:
            game = episode.seed, episode.index
            if game in games:
                continue
            games.add(game)
            try:
                openings += await _openings(self._suite, [dataclasses.replace(episode, mode=mode)])
            except Exception as error:  # the suite may not know this mode, or not for this game
                failure = error
        if failure is not None and not openings:
            raise ValueError(
                f"{self._suite.name}: the evaluation's games cannot be shown in the mode {mode!r} and so not be compared with "
                f"those to train on; let the evaluation have this mode, too ({type(failure).__name__}: {failure})"
            ) from failure
        return openings


async def _openings(suite: Suite, episodes: Iterable[Episode]) -> list[tuple[Episode, Turn]]:
    """The episodes that have a first turn, each with it."""
    openings: list[tuple[Episode, Turn]] = []
    for episode in episodes:
        turn = await suite.first_turn(episode)
        if turn is not None:
            openings.append((episode, turn))
    return openings


def seed_hash(suite: Suite, episode: Episode) -> str:
    """Hash of which game an episode of a suite plays, by its seed: the same for all modes, repeats and players."""
    return stable_hash(episode.suite, episode.task, suite.level_of_games(episode.level), episode.seed)


def _turn_hash(suite: Suite, turn: Turn) -> str:
    episode = turn.episode
    level = suite.level_of_games(episode.level)
    chat = [[said.role, *map(_described, said.parts)] for said in turn.chat]
    return stable_hash(episode.suite, episode.task, level, chat, [*turn.options, *turn.labels])


async def _play_hash(suite: Suite, episode: Episode, opening: Turn) -> str:
    """Hash of all that perfect play is asked and replies; of the first turn alone where the suite knows no perfect play."""
    record = await play_episode(suite, episode, _Perfect())
    said = [[_turn_hash(suite, played.turn), played.reply.text] for played in record.turns]
    return stable_hash(_turn_hash(suite, opening), said)


def _modes_by_game(suite: Suite) -> dict[str, dict[str, Episode]]:
    """The games of a plan by their seeds, each with an episode of each of its modes."""
    games: dict[str, dict[str, Episode]] = {}
    for episode in suite.plan():
        games.setdefault(seed_hash(suite, episode), {}).setdefault(episode.mode, episode)
    return games


async def _contents_of(suite: Suite, games: Iterable[Iterable[Episode]]) -> list[set[str]]:
    """What each game shows, in all those of its episodes that have a first turn."""
    shown = EvaluationGames(suite)
    contents = []
    for episodes in games:
        openings = await _openings(suite, episodes)
        contents.append({await shown.content_of(suite, episode, turn) for episode, turn in openings})
    return contents


async def trained_games(suite: Suite, path: Path) -> tuple[int, int]:
    """How many games of a suite's plan were trained on, by their seed or by what they show; and how many it has.

    Args:
        suite: What was planned, one suite or several.
        path: A file that ``Options.trained_on`` named.

    Raises:
        FileError: it cannot be read, or is no such file: then it would say of any run that nothing was trained on.
    """
    planned = [_modes_by_game(part) for part in suite.parts]
    seeds = list(itertools.chain.from_iterable(planned))
    by_seed = _among(path, set(seeds))
    # What a game shows takes long to make, so it is asked only of games whose seeds were not trained on.
    contents: list[set[str]] = []
    for part, games in zip(suite.parts, planned, strict=True):
        untrained = [modes.values() for seed, modes in games.items() if seed not in by_seed]
        contents += await _contents_of(part, untrained)
    by_content = set[str]()
    if contents:
        by_content = _among(path, set().union(*contents))
    found_by_seed = sum(seed in by_seed for seed in seeds)
    found_by_content = sum(not by_content.isdisjoint(each) for each in contents)
    return found_by_seed + found_by_content, len(seeds)


def _among(path: Path, digests: set[str]) -> set[str]:
    """Those that a file of trained games names; the file may be larger than the memory."""
    found: set[str] = set()
    for number, line in read_lines(path):
        if _TRAINED.fullmatch(line.strip()) is None:
            raise FileError(
                f"{path}, line {number}",
                "is not two hashes of a game: name a file that an environment wrote (trained_on)",
            )
        found |= digests.intersection(line.split())
    return found


class _Perfect:
    """Perfect play, without a thread for each reply: here nobody else is kept waiting for long."""

    async def reply(self, turn: Turn) -> Reply:
        if turn.oracle is None:
            raise PlayerError("the suite has no oracle for this turn")
        return text_reply(turn, turn.oracle())


def _described(part: str | Picture) -> str:
    return part if isinstance(part, str) else part.description


def _add_line(path: Path, line: str) -> None:
    """Add a line in one piece, since several processes may write into the file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode("ascii"))
    finally:
        os.close(descriptor)
