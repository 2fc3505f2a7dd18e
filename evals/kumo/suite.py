"""KUMO as a suite: which games are planned, how one is played, what is reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from envs.kumo import BOOK_STYLES, BUDGET, DIFFICULTIES, BookStyle, available_domains, structured_sources
from envs.kumo.search import check_size
from evals.conversation import Conversation
from evals.kumo.decode import DECODER_VERSION
from evals.kumo.diagnose import diagnose_kumo
from evals.kumo.effects import effect_tables
from evals.kumo.judge import CHEAP
from evals.kumo.levels import expected_calls, level_of, size_of
from evals.kumo.play import COLUMNS, play_puzzle
from evals.kumo.prompts import PROMPT_IDENTITY
from evals.kumo.published import run_cells
from evals.kumo.puzzle import Puzzle, domain_of, puzzles_in, puzzles_of
from evals.kumo.runs import join_runs
from evals.kumo.score import score_kumo
from evals.kumo.shortcuts import SHORTCUTS
from evals.kumo.view import view_game
from evals.published import published_tables
from evals.reference import Conditions
from evals.run_data import RunData
from evals.suite import Column, Suite
from evals.tables import Section, Table
from evals.types import Episode, Outcome, stable_hash, stable_seed
from evals.view import EpisodeView

MAIN_DOMAINS = ("medical", "chemical", "music", "education", "fantasy")

_TOKENS_PER_ROUND = 250
"""A reply with its reasoning, and the outcome after it."""


@dataclass(frozen=True)
class KumoSuite(Suite):
    """Games of elimination (KUMO): find the one valid truth among candidates by choosing tests.

    Attributes:
        domains: Names of domains that come with raycade, or paths of domain files; ``"all"``, alone or among others,
            stands for all that come with it.
        difficulties: Of ``easy`` (4 truths, 6 actions) and ``hard`` (12 truths, 16 actions).
        truths: Truths of a task, together with ``actions``: tasks of this size instead of those of ``difficulties``, up to
            where the optimal search ends (13 truths, 18 actions). Their level is called ``8x12``, say.
        actions: Actions of a task.
        tasks: A task file, as ``raycade kumo generate`` writes it or as published, to play tasks from instead of generating
            them: those of the domains and difficulties above. Published files need the one domain that they belong to.
        tasks_per_domain: Tasks of each domain and difficulty; of a task file the first so many.
        repeats: Runs of each task.
        seed: Another seed gives other tasks, and other drawn or permuted domains.
        valid_truths: Truths of a task that are right, any of which may be named (the paper's N_valid).
        structure: Domains drawn by chance instead of ``domains``: ``{density: .12, overlap: .2, domains: 5}``, say, with the
            settings of ``envs.kumo.structure.Structure``; or ``{names: permuted}``: those of ``domains`` with the names
            of their truths exchanged in the rules, so that knowledge of the world misleads.
        give_aways: Whether to allow tasks in which some truth can be ruled out by no action, which tells the answer
            before the first test (19 % of the published easy tasks).
        book: How the guidebook is written: ``prose`` (everything defined, rule-outs in sentences), ``long`` (of twice as many
            truths and tests), ``noisy`` (irrelevant sentences in between), ``table`` or ``symbolic``.
        decoder: ``lenient`` reads replies as a person would and reminds once after one that names nothing; ``strict`` is
            the published parser, and the first reply that it cannot read ends the run.
        max_steps: Replies after which a run without prediction has failed (50 in the paper); players are told.
        hard_regret: Whether to search hard tasks, too, for what each test lost (seconds of a core for each game).
    """

    name: ClassVar[str] = "kumo"
    columns: ClassVar[Mapping[str, Column]] = COLUMNS
    shortcuts: ClassVar[Mapping[str, str]] = SHORTCUTS

    domains: str | Sequence[str] = MAIN_DOMAINS
    difficulties: Sequence[str] = tuple(DIFFICULTIES)
    truths: int | None = None
    actions: int | None = None
    tasks: str | None = None
    tasks_per_domain: int = 50
    repeats: int = 5
    seed: int = 0
    valid_truths: int = 1
    structure: Mapping[str, Any] | None = dataclasses.field(default=None, hash=False)
    give_aways: bool = False
    book: BookStyle = "prose"
    decoder: Literal["lenient", "strict"] = "lenient"
    max_steps: int = BUDGET
    hard_regret: bool = False

    def __post_init__(self) -> None:
        for setting in ("domains", "difficulties"):
            given = getattr(self, setting)
            several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
            names = [str(name) for name in several if name is not None]
            if setting == "domains":
                names = [name for entry in names for name in (available_domains() if entry == "all" else [entry])]
            object.__setattr__(self, setting, tuple(names))

    @property
    def sources(self) -> tuple[str, ...]:
        """The domains that are played, as ``envs.kumo.domain_from`` reads them."""
        if self.structure is None:
            return tuple(self.domains)
        return structured_sources(self.structure, self.domains, self.seed)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that are played: the difficulties, or the one of the size chosen."""
        if self.truths is None or self.actions is None:
            return tuple(self.difficulties)
        return (level_of(self.truths, self.actions),)

    def plan(self) -> Sequence[Episode]:
        """Domains x levels x tasks x repeats.

        Raises:
            ValueError: a setting is wrong, or a domain is too small for it.
        """
        self._check()
        episodes = []
        for source in self.sources:
            for level in self.levels:
                for index, puzzle in enumerate(self._puzzles(source, level)):
                    first = self._episode(puzzle, level, index)
                    episodes += [dataclasses.replace(first, repeat=repeat) for repeat in range(self.repeats)]
        if not episodes:
            domains = ", ".join(domain_of(source).name for source in self.domains)
            raise ValueError(f"suite.tasks: {self.tasks} has no {' or '.join(self.levels)} tasks of {domains}")
        return episodes

    def puzzles(self) -> Iterator[Puzzle]:
        """The different games of the plan, in its order."""
        for source in self.sources:
            for level in self.levels:
                yield from self._puzzles(source, level)

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Play one run of one task."""
        puzzle = self._puzzle(episode.task, episode.level, episode.index)
        return await play_puzzle(
            puzzle,
            conversation,
            book=self.book,
            decoder=self.decoder,
            regret=self.hard_regret or len(puzzle.task.truths) <= CHEAP,
        )

    def results(self, run: RunData, section: Section) -> Iterable[Table]:
        """Scores in our convention and in the published one; diagnostics: error kinds, planning apart from deduction."""
        if section == "performance":
            return
        ledger = run.episodes()
        if section == "scores":
            yield from score_kumo(run.plan, ledger)
            yield from published_tables(self.name, "KUMO", run_cells(join_runs(run.plan, ledger)), self._conditions)
        else:
            yield from diagnose_kumo(run.plan, ledger)
            yield from effect_tables(run)

    @property
    def _conditions(self) -> Conditions:
        """How these tasks are played, in the words of the paper's own."""
        drawn = self.structure is not None and self.structure.get("names") != "permuted"
        games = f"{len(self.sources)} {'drawn domains' if drawn else 'domains of ours'}"
        if self.structure is not None and not drawn:
            games += ", names permuted"
        if self.valid_truths > 1:
            games += f", {self.valid_truths} valid truths"
        return Conditions(
            games="from a file" if self.tasks else games,
            prompts=f"own, book in {self.book}",
            decoder=self.decoder,
        )

    def view(self, row: Mapping[str, Any]) -> EpisodeView:
        """One game with what was possible after each step, and what perfect play would have done."""
        return view_game(row, self._puzzle(row["task"], row["level"], row["index"]))

    def _puzzle(self, domain: str, level: str, index: int) -> Puzzle:
        sources = {domain_of(source).name: source for source in self.sources}
        return self._puzzles(sources[domain], level)[index]

    def _puzzles(self, source: str, level: str) -> Sequence[Puzzle]:
        if self.tasks is not None:
            return puzzles_in(self.tasks, self.sources, source, level)[: self.tasks_per_domain]
        return puzzles_of(source, level, self.tasks_per_domain, self.give_aways, self.seed, self.valid_truths)

    def _episode(self, puzzle: Puzzle, level: str, index: int) -> Episode:
        task, calls = puzzle.task, min(expected_calls(level), self.max_steps)
        opening = [message.parts for message in puzzle.opening(self.book, self.max_steps)]
        tokens = sum(len(str(part)) for parts in opening for part in parts) / 4
        return Episode(
            suite=self.name,
            task=puzzle.domain.name,
            level=level,
            mode="zero_shot",
            index=index,
            repeat=0,
            seed=stable_seed(self.name, puzzle.domain.name, level, self.seed, index),
            identity=stable_hash(
                PROMPT_IDENTITY, opening, DECODER_VERSION, self.decoder, self.max_steps, task.to_json()
            ),
            budget=self.max_steps,
            calls=calls,
            prompt_tokens=calls * tokens + _TOKENS_PER_ROUND * calls * (calls - 1) / 2,
            group=stable_hash(self.name, task.to_json()),
        )

    def _check(self) -> None:
        for setting in ("domains", "difficulties"):
            if not getattr(self, setting):
                raise ValueError(f"suite.{setting} is empty: there is nothing to play")
        for difficulty in self.difficulties:
            if difficulty not in DIFFICULTIES:
                raise ValueError(
                    f"suite.difficulties: no difficulty {difficulty!r}; there are {', '.join(DIFFICULTIES)}"
                )
        self._check_numbers()
        if not isinstance(self.structure, Mapping | None):
            raise ValueError(f"suite.structure must hold settings such as {{density: .12}}, not {self.structure!r}")
        if not isinstance(self.tasks, str | None):
            raise ValueError(f"suite.tasks must be the path of a task file, not {self.tasks!r}")
        for setting, value in (("seed", 0), ("valid_truths", 1), ("structure", None)) if self.tasks else ():
            if getattr(self, setting) != value:
                raise ValueError(f"suite.{setting} cannot be chosen for the tasks of a file (suite.tasks)")
        for setting in ("give_aways", "hard_regret"):
            if not isinstance(getattr(self, setting), bool):
                raise ValueError(f"suite.{setting} must be true or false, not {getattr(self, setting)!r}")
        for setting, known in (("decoder", ("lenient", "strict")), ("book", BOOK_STYLES)):
            if getattr(self, setting) not in known:
                raise ValueError(
                    f"suite.{setting}: no {setting} {getattr(self, setting)!r}; there are {', '.join(known)}"
                )
        names = [domain_of(source).name for source in self.sources]
        for setting, values in (("domains", names), ("difficulties", self.difficulties)):
            twice = sorted({value for value in values if list(values).count(value) > 1})
            if twice:
                raise ValueError(f"suite.{setting} names {', '.join(twice)} twice")

    def _check_numbers(self) -> None:
        for setting in ("tasks_per_domain", "repeats", "max_steps", "seed", "valid_truths", "truths", "actions"):
            value, least = getattr(self, setting), 0 if setting == "seed" else 1
            if setting in ("truths", "actions") and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"suite.{setting} must be a whole number of at least {least}, not {value!r}")
        if (self.truths is None) != (self.actions is None):
            raise ValueError("suite.truths and suite.actions must be given together")
        for level in self.levels:
            check_size(*size_of(level))
