"""The suite contract: plan episodes, play one, show results.

A suite is a subclass of ``Suite``, normally a frozen dataclass whose fields are its settings. Only ``name``, ``plan`` and
``play`` are required; everything else has a default. A suite is registered by a short name (see docs/new_suite.md) and
knows no Ray, no engine and no command line.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from envs.picture import Picture
from evals.conversation import Conversation, Record, cause_of
from evals.figures import Figure
from evals.ledger.columns import Column as Column
from evals.ledger.run_data import RunData
from evals.ledger.storable import AMOUNT, COUNT, SEED, TEXT, Storable
from evals.players import BUILT_IN_PLAYERS, ShortcutPlayer
from evals.summary.cells import success_figure, success_table
from evals.summary.paired import Measure, column_measure
from evals.tables import Section, Table
from evals.types import CannotPlayNow, Chat, Episode, ErrorKind, Outcome, Player, PlayerError, Reply, Turn, stable_hash
from evals.view import EpisodeView, default_view

MOST_EPISODES = 5_000_000
"""Most episodes that a suite plans for one player: a larger plan does not fit into memory."""


@dataclass(frozen=True)
class Needs:
    """What a suite asks of an engine; matched with ``Engine.capabilities`` before anything starts."""

    pictures: int = 0
    """Most pictures in one prompt; 0 for text only."""
    label_scores: bool = False
    """Whether turns ask for log-probabilities of labels."""
    context: int = 0
    """Fewest tokens, prompt and reply, that the longest turn takes; 0 where that is not known."""


PictureTokens = Callable[[int, int], float]
"""Tokens of a picture of a width and height in pixels, as a model counts them."""


def _cells_of_28(width: int, height: int) -> float:
    """Qwen2.5-VL's rule without its bounds, for models whose own is not known."""
    return round(width / 28) * round(height / 28)


_PICTURE_TOKENS: ContextVar[PictureTokens] = ContextVar("picture_tokens", default=_cells_of_28)


@contextlib.contextmanager
def counting_pictures(rule: PictureTokens | None) -> Iterator[None]:
    """Within it, plans expect prompts of the length that a model with this rule reads; ids do not depend on it."""
    token = _PICTURE_TOKENS.set(rule or _cells_of_28)
    try:
        yield
    finally:
        _PICTURE_TOKENS.reset(token)


def picture_tokens(picture: Picture) -> float:
    """Tokens of a picture for the model that is being planned for (``counting_pictures``)."""
    return _PICTURE_TOKENS.get()(*picture.size)


class Suite(abc.ABC):
    """A family of games. Implementations can be pickled into other processes."""

    name: ClassVar[str]
    """As in ``suite=NAME`` and in the ledger."""
    title: ClassVar[str] = ""
    """As reports spell it; the name by default."""
    version: ClassVar[int] = 1
    """Part of every episode's id: raise it when the same settings come to mean other games, prompts or decoding."""
    people_version: ClassVar[int] = 1
    """Of the words for people (``for_people``): part of the ids of the games that people play."""
    columns: ClassVar[Mapping[str, Column]] = {}
    """What the suite adds to the ledger."""
    shortcuts: ClassVar[Mapping[str, str]] = {}
    """Built-in players that cheat as a model could, by name, each with one line on what it does (``Turn.shortcuts``)."""
    license: ClassVar[str] = ""
    """Of the texts and pictures that it shows, in SPDX's words; exports state it. Empty for unknown."""
    credits: ClassVar[str] = ""
    """Whom that license obliges to name, one sentence."""
    given_again: ClassVar[frozenset[str]] = frozenset()
    """Settings that name a program which playing starts: commands that play stored replies take these from their command
    line, not from a stored configuration, which may be somebody else's."""

    @abc.abstractmethod
    def plan(self) -> Sequence[Episode]:
        """All episodes for one player, not yet assigned, in a fixed order.

        Raises:
            ValueError: a setting names something that does not exist; the message says which, and what does.
        """

    @abc.abstractmethod
    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Play one episode by asking the conversation's player turn after turn.

        Raises:
            PlayerError: passed on from the player; the episode becomes a failed row.
        """

    async def first_turn(self, episode: Episode) -> Turn | None:
        """What an episode asks first, to be looked at before any model is loaded (``check_openings``).

        By default ``play``, up to its first turn.

        Returns:
            None where a look would need more than this process.
        """
        player = _FirstTurn()
        with contextlib.suppress(PlayerError):
            await self.play(episode, Conversation(episode, player))
        return player.turn

    def for_people(self, turn: Turn) -> Chat:
        """What a person reads in place of a turn's prompt: no tags, no form of an answer, no request for reasons.

        People choose one of the turn's options or labels, which stand beside the text. Raise ``people_version`` whenever
        these words change. By default the prompt itself, of which people are told that it was written for models.
        """
        return turn.chat

    @property
    def needs(self) -> Needs:
        """What these settings ask of an engine.

        Raises:
            ValueError: as ``plan``.
        """
        return Needs()

    def results(self, run: RunData, section: Section) -> Iterable[Table]:
        """Tables of one section, computed from plan and ledger alone; the ledger may be partial.

        Args:
            run: This suite's part of the run. Ask it for the columns that a table needs and no more; ``turns`` are bulky
                and come in batches.
            section: ``scores`` (what the run measured), ``diagnostics`` (why: error kinds, shortcuts), ``performance``
                (how the run went; may differ between runs with equal scores) or ``paper`` (in the layout of the suite's
                paper, one model per row, for LaTeX).
        """
        return [success_table(self.name, run, self.title)] if section == "scores" else []

    def figures(self, run: RunData) -> Iterable[Figure]:
        """Figures as plain data, from plan and ledger alone; the ledger may be partial.

        Args:
            run: This suite's part of the run.
        """
        figure = success_figure(self.name, run, self.title)
        return [figure] if figure.series else []

    def difficulty_of(self, task: str, level: str) -> float | None:
        """How hard a level is beside others of its task; None where levels are not harder or easier. Its number by default."""
        return float(level) if level.isdecimal() else None

    def level_of_games(self, level: str) -> str:
        """One name for a level, where two names mean the same games: so these are known as trained on under either."""
        return level

    def variant_of(self, task: str) -> str:
        """How a task's games are drawn, where a suite draws in several ways; success is not averaged over different ones."""
        return ""

    def known_success(self, task: str, level: str) -> Mapping[str, float]:
        """What ``chance`` and ``perfect play`` win in a task and level, as far as it is known."""
        return {}

    def measures(self, run: RunData, player: str) -> Iterable[Measure]:
        """What `raycade compare` compares on identical games.

        Args:
            run: This suite's part of the run.
            player: Whose episodes.
        """
        return [column_measure(run, player)]

    def view(self, row: Mapping[str, Any]) -> EpisodeView:
        """One episode as plain data for viewers.

        Args:
            row: A ledger row as a mapping, ``turns`` included; this suite's own columns under their short names.
        """
        return default_view(row)

    @property
    def players(self) -> Mapping[str, Player]:
        """Players of this suite's own that need no engine, such as models whose replies are on record."""
        return {}

    def plays(self, player: str, episode: Episode) -> bool:
        """Whether one of the suite's own ``players`` can play an episode."""
        return True

    @property
    def parts(self) -> tuple[Suite, ...]:
        """The suites that this one is made of; most are made of themselves."""
        return (self,)


def check_plan_size(**factors: int) -> None:
    """Refuse a plan that is too large before any of it is made.

    Args:
        factors: Settings and how many values of each are combined; their product is the number of episodes.

    Raises:
        ValueError: more than ``MOST_EPISODES``; the message shows the product.
    """
    episodes = math.prod(factors.values())
    if episodes > MOST_EPISODES:
        product = " x ".join(f"{count:,} {name}" for name, count in factors.items())
        raise ValueError(f"{episodes:,} episodes ({product}) are more than {MOST_EPISODES:,}, the most in a plan")


class _FirstTurn:
    """A player that keeps the first turn and answers none."""

    def __init__(self) -> None:
        self.turn: Turn | None = None

    async def reply(self, turn: Turn) -> Reply:
        self.turn = self.turn or turn
        raise PlayerError("only the first turn was asked for")


def check_openings(suite: Suite, plan: Iterable[Episode]) -> int:
    """Render the first pictures of each task and level, so that a drawing that is missing is found before a run.

    Args:
        suite: What is played; those of its parts that show no pictures are left out.
        plan: Its episodes, of which the first of each task and level is looked at.

    Returns:
        How many pictures were rendered.

    Raises:
        ValueError: one cannot be rendered; the message names its task and level.
    """
    parts = {part.name: part for part in suite.parts if part.needs.pictures}
    firsts: dict[tuple[str, str, str], Episode] = {}
    for episode in plan:
        if episode.suite in parts:
            firsts.setdefault((episode.suite, episode.task, episode.level), episode)
    rendered = 0
    for (name, task, level), episode in firsts.items():
        try:
            turn = asyncio.run(parts[name].first_turn(episode))
            pictures = _pictures(turn)
            for picture in pictures:
                picture.render()
        except Exception as error:  # a suite or a picture of somebody else may raise anything
            raise ValueError(
                f"suite={name}: the first turn of {task}, level {level}, cannot be shown: {error}"
            ) from error
        rendered += len(pictures)
    return rendered


def _pictures(turn: Turn | None) -> list[Picture]:
    if not turn:
        return []
    return [part for said in turn.chat for part in said.parts if isinstance(part, Picture)]


def built_in_players(suite: Suite) -> dict[str, Player]:
    """The players that need no engine: oracle, random, the shortcuts of the suite's parts, and players of their own."""
    shortcuts = {name: ShortcutPlayer(name) for part in suite.parts for name in part.shortcuts}
    own = {name: player for part in suite.parts for name, player in part.players.items()}
    return {**own, **shortcuts, **BUILT_IN_PLAYERS}


def built_in_names(suite: Suite) -> frozenset[str]:
    """Names of players that need no engine; those of a part's own only where they can be had on this machine."""
    found = {*BUILT_IN_PLAYERS, *(name for part in suite.parts for name in part.shortcuts)}
    for part in suite.parts:
        # files that a setting names may be missing here
        with contextlib.suppress(ValueError, OSError):
            found |= part.players.keys()
    return frozenset(found)


def plan_for(suite: Suite, players: Mapping[str, str]) -> tuple[Episode, ...]:
    """All episodes of a suite for each player; a player of a part's own plays what that part offers it.

    Args:
        suite: What is played.
        players: Names of players, each with a hash of what decides its answers (model, sampling, decoding).

    Raises:
        ValueError: see ``Suite.plan``.
    """
    # Repeats of a game, and often all games of a suite, share a fingerprint: in a large plan, hashing is most of the work.
    planned = _planned(suite)
    hashed = functools.cache(stable_hash)
    assigned = []
    for name, fingerprint in players.items():
        plays = _assignment(suite, name)
        for part, episode in planned:
            if plays(part, episode):
                whole = hashed(hashed(part.version, episode.fingerprint), fingerprint)
                assigned.append(dataclasses.replace(episode, player=name, fingerprint=whole))
    return tuple(assigned)


def unassigned_games(suite: Suite) -> tuple[Episode, ...]:
    """The games of a suite before anybody is assigned to them.

    Raises:
        ValueError: see ``Suite.plan``.
    """
    return tuple(
        dataclasses.replace(episode, fingerprint=stable_hash(part.version, episode.fingerprint))
        for part, episode in _planned(suite)
    )


def _planned(suite: Suite) -> list[tuple[Suite, Episode]]:
    planned = list[tuple[Suite, Episode]]()
    for part in suite.parts:
        try:
            episodes = [*part.plan()]
        except (ValueError, OSError):
            raise
        except SystemExit as error:  # which would end the program with whatever code it names
            raise ValueError(f"suite={part.name}: its plan called sys.exit({error.code!r})") from error
        except Exception as error:  # a suite may be anybody's
            raise ValueError(f"suite={part.name}: its plan failed: {type(error).__name__}: {error}") from error
        _check_planned(part.name, episodes)
        planned += [(part, episode) for episode in episodes]
    return planned


_FIELDS: Final[Mapping[str, Storable]] = {
    **dict.fromkeys(("task", "level", "mode", "fingerprint", "group"), TEXT),
    **dict.fromkeys(("index", "repeat", "budget"), COUNT),
    "seed": SEED,
    **dict.fromkeys(("calls", "prompt_tokens"), AMOUNT),
}
"""What the ledger can hold in a planned episode's fields."""


def _check_planned(name: str, episodes: Sequence[Episode]) -> None:
    """See that the ledger can hold what a suite plans, before anything is played.

    Raises:
        ValueError: it cannot; the message names what is wrong.
    """

    def is_name(value: object) -> bool:
        return value == name

    fields = {"suite": Storable(is_name, repr(name)), **_FIELDS}
    for field, (is_sound, wanted) in fields.items():
        for value in _different(episodes, field):
            if not is_sound(value):
                raise ValueError(f"suite={name}: plans an episode whose {field} is {value!r:.80}; it must be {wanted}")


def _different(episodes: Sequence[Episode], field: str) -> Iterable[Any]:
    """The values of a field, each at least once."""
    values = [getattr(episode, field) for episode in episodes]
    try:
        return set(values)
    except TypeError:  # one cannot be hashed, so it is neither a text nor a number
        return values


def people_fingerprint(suite: Suite) -> str:
    """A hash of what decides which words people read: the fingerprint of every person who plays the suite."""
    return stable_hash("people", {part.name: part.people_version for part in suite.parts})


def words_for_people(suite: Suite, turn: Turn) -> Chat:
    """What a person reads in place of a turn's prompt, as the part says that planned the episode."""
    part = next(part for part in suite.parts if part.name == turn.episode.suite)
    return part.for_people(turn)


def _assignment(suite: Suite, player: str) -> Callable[[Suite, Episode], bool]:
    """Tells which episodes of a suite's parts a player plays."""
    owners = [part for part in suite.parts if player in part.players]
    if owners:
        return lambda part, episode: part is owners[-1] and part.plays(player, episode)
    if any(player in part.shortcuts for part in suite.parts):
        return lambda part, episode: player in part.shortcuts
    return lambda part, episode: True


def ledger_columns(suite: Suite) -> dict[str, pa.DataType]:
    """The columns that a suite's parts add to a ledger, by the names they are stored under."""
    return {f"{part.name}.{name}": column.type for part in suite.parts for name, column in part.columns.items()}


async def play_episode(suite: Suite, episode: Episode, player: Player) -> Record:
    """Play one episode; a player's error becomes a failed record that keeps the turns played so far."""
    return await play_conversation(suite, Conversation(episode, player))


async def play_conversation(suite: Suite, conversation: Conversation, can_wait: bool = False) -> Record:
    """The same for a conversation that somebody else looks at, too.

    Args:
        suite: Whose episode it is.
        conversation: With its player.
        can_wait: Whether the episode can be played at another time, in place of a failed record now.

    Raises:
        CannotPlayNow: the machine lacks what the game needs, and the episode ``can_wait``.
    """
    episode = conversation.episode
    start = time.monotonic()
    outcome, error = None, ""
    kind: ErrorKind | Literal[""] = ""
    try:
        outcome = await suite.play(episode, conversation)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"play of the suite {suite.name!r} returned {type(outcome).__name__}, not an Outcome")
    except PlayerError as caught:
        if can_wait and isinstance(caught, CannotPlayNow):
            raise
        error, kind = cause_of(caught), caught.kind
    turns = tuple(conversation.turns[number] for number in sorted(conversation.turns))
    return Record(episode, outcome, error, turns, time.monotonic() - start, kind)
