"""Games of evidence as a suite: which are planned, how one is played and shown."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from envs.kumo import BUDGET, available_domains
from envs.kumo.likely import LikelyTask, stream_likely
from envs.settings import Count, Index, Several, check_instance
from evals.conversation import Conversation
from evals.ledger.run_data import RunData
from evals.replies.reader import READER_VERSION
from evals.sealed import checked_seeds
from evals.suite import Column, Suite, check_plan_size
from evals.suites.kumo.levels import check_sizes, is_level, most_drawn, one_name, size_of
from evals.suites.kumo.likely.play import COLUMNS, play_likely, search_of
from evals.suites.kumo.likely.players import SHORTCUTS
from evals.suites.kumo.likely.prompts import PROMPT_FINGERPRINT, for_people, opening
from evals.suites.kumo.likely.score import likely_tables
from evals.suites.kumo.likely.view import view_likely
from evals.suites.kumo.searched_game import check_once, domain_of, drawn_from
from evals.tables import Section, Table
from evals.types import Chat, Episode, Outcome, Turn, reworded, stable_hash, stable_seed
from evals.view import EpisodeView

_MOST_TRUTHS, _MOST_TESTS = 8, 8
_CALLS = 4.0
"""Of a run of perfect play, on average."""
_TOKENS_PER_ROUND = 250
"""A reply with its reasoning, and the outcome after it."""


@dataclass(frozen=True)
class KumoLikelySuite(Suite):
    """KUMO with likelihoods: outcomes of tests make candidates likelier or less likely, and tests and errors cost points.

    Attributes:
        domains: Names of domains that come with raycade, or paths of domain files; ``"all"`` for all that come with it.
        difficulties: ``easy`` (4 truths, 6 tests), or sizes such as ``6x8``, up to 8 truths and 8 tests.
        tasks_per_domain: Tasks of each domain and difficulty.
        repeats: Runs of each task.
        seed: Another seed gives other tasks.
        wrong: Points that a wrong answer costs, or none at all; a test costs 1. Players are told.
        max_steps: Replies after which a run without an answer has failed; players are told.
        seeds: ``sealed:FILE`` draws games that only the secret of ``raycade challenge new`` tells, ``training:NUMBER`` a block
            of games to train on; empty for the open ones.
    """

    name: ClassVar[str] = "kumo_likely"
    title: ClassVar[str] = "KUMO with likelihoods"
    people_version: ClassVar[int] = 2
    license: ClassVar[str] = "MIT"
    columns: ClassVar[Mapping[str, Column]] = COLUMNS
    shortcuts: ClassVar[Mapping[str, str]] = SHORTCUTS

    domains: str | Several[str] = ("medical", "chemical", "music", "education", "fantasy")
    difficulties: str | Several[str] = ("easy",)
    tasks_per_domain: Count = 50
    repeats: Count = 5
    seed: Index = 0
    wrong: Annotated[float, Interval(gt=0, le=1_000_000)] = 20.0
    max_steps: Count = BUDGET
    seeds: str = ""

    def __post_init__(self) -> None:
        check_instance("suite", self)
        for setting in ("domains", "difficulties"):
            given = getattr(self, setting)
            several = (given,) if isinstance(given, str) else tuple(given)
            object.__setattr__(self, setting, several)
        domains: list[str] = []
        for each in self.domains:
            domains += available_domains() if each == "all" else [each]
        object.__setattr__(self, "domains", tuple(domains))
        object.__setattr__(self, "seeds", checked_seeds(self.seeds, drawn=True))

    def plan(self) -> Sequence[Episode]:
        """Domains x difficulties x tasks x repeats.

        Raises:
            ValueError: a setting is wrong, or a domain is too small for it.
        """
        for level in self.difficulties:
            self._check(level)
        check_sizes(self.difficulties)
        check_once(domain_of(source).name for source in self.domains)
        check_plan_size(
            domains=len(self.domains),
            difficulties=len(self.difficulties),
            tasks=self.tasks_per_domain,
            repeats=self.repeats,
        )
        episodes = []
        for source in self.domains:
            for level in self.difficulties:
                for task in self._tasks(source, level):
                    first = self._episode(task, level)
                    episodes += [dataclasses.replace(first, repeat=repeat) for repeat in range(self.repeats)]
        return episodes

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Play one run of one task."""
        task = self.task(episode.task, episode.level, episode.index)
        return await play_likely(task, domain_of(self._source(episode.task)), conversation, self.wrong)

    def for_people(self, turn: Turn) -> Chat:
        """The rules and questions without the form of a written answer."""
        return reworded(turn.chat, for_people(domain_of(self._source(turn.episode.task))))

    def results(self, run: RunData, section: Section) -> Iterable[Table]:
        """Points and log loss; diagnostics: which decisions lost points, and how sure answers are."""
        return likely_tables(run, section)

    def view(self, row: Mapping[str, Any]) -> EpisodeView:
        """One game with the exact probabilities and the costs of each choice at every step."""
        task = self.task(row["task"], row["level"], row["index"])
        return view_likely(row, task, search_of(task, self.wrong))

    def level_of_games(self, level: str) -> str:
        """``easy`` and ``4x6`` are the same games."""
        return one_name(level) if is_level(level) else level

    def task(self, domain: str, level: str, index: int) -> LikelyTask:
        """The game of an episode."""
        count = most_drawn(index, self.tasks_per_domain)
        return _generated(self._source(domain), level, count, self._drawn_from)[index]

    def _source(self, domain: str) -> str:
        return next(source for source in self.domains if domain_of(source).name == domain)

    def _tasks(self, source: str, level: str) -> tuple[LikelyTask, ...]:
        return _generated(source, level, self.tasks_per_domain, self._drawn_from)

    @property
    def _drawn_from(self) -> int:
        """The seed of tasks: the setting's, or one that a secret or a block of training games makes of it."""
        return drawn_from(self.seeds, self.seed)

    def _check(self, level: str) -> None:
        """Refuse a difficulty that is none, too large, or does not fit into the rounds."""
        known = f"there are easy and sizes such as 6x8, up to {_MOST_TRUTHS}x{_MOST_TESTS}"
        if not is_level(level):
            raise ValueError(f"suite.difficulties: no difficulty {level!r}; {known}")
        truths, tests = size_of(level)
        if truths > _MOST_TRUTHS or tests > _MOST_TESTS:
            raise ValueError(f"suite.difficulties: {level} is too large for the Bayesian search; {known}")
        if self.max_steps <= tests:
            raise ValueError(
                f"suite.max_steps={self.max_steps}: all {tests} tests and an answer take {tests + 1} rounds of {level} games"
            )

    def _episode(self, task: LikelyTask, level: str) -> Episode:
        told = opening(task, domain_of(self._source(task.domain)), self.max_steps, self.wrong)
        parts = [part for said in told for part in said.parts]
        calls = min(_CALLS, self.max_steps)
        tokens = sum(len(str(part)) for part in parts) / 4
        return Episode(
            suite=self.name,
            task=task.domain,
            level=level,
            mode="zero_shot",
            index=task.index,
            repeat=0,
            seed=stable_seed(self.name, task.domain, level, self._drawn_from, task.index),
            fingerprint=stable_hash(PROMPT_FINGERPRINT, parts, READER_VERSION, task.to_json()),
            budget=self.max_steps,
            calls=calls,
            prompt_tokens=calls * tokens + _TOKENS_PER_ROUND * calls * (calls - 1) / 2,
            group=stable_hash(self.name, task.to_json()),
        )


@functools.lru_cache(maxsize=256)
def _generated(source: str, level: str, count: int, seed: int) -> tuple[LikelyTask, ...]:
    truths, tests = size_of(level)
    return tuple(islice(stream_likely(domain_of(source), truths, tests, seed), count))
