"""KUMO as a suite: which games are planned, how one is played, what is reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from envs.kumo.exact import LARGEST
from evals.conversation import Conversation
from evals.figures import Figure
from evals.ledger.run_data import RunData
from evals.players import ShortcutPlayer
from evals.presentation.settings import in_words
from evals.reference import Conditions
from evals.reference.comparison import published_tables
from evals.replies.reader import READER_VERSION
from evals.suite import Column, Suite, check_plan_size
from evals.suites.kumo.diagnose import diagnose_kumo
from evals.suites.kumo.effects import effect_tables
from evals.suites.kumo.figures import kumo_figures
from evals.suites.kumo.judge import CHEAP
from evals.suites.kumo.levels import expected_calls, is_level, most_drawn, one_name, size_of
from evals.suites.kumo.memory import MEMORY
from evals.suites.kumo.paper import paper_tables
from evals.suites.kumo.play import COLUMNS, play_puzzle
from evals.suites.kumo.presentation import DEFAULT
from evals.suites.kumo.prompts import FOR_PEOPLE, PROMPT_FINGERPRINT
from evals.suites.kumo.published import run_cells
from evals.suites.kumo.repeats import join_runs, malformed_episodes, rows_of_games
from evals.suites.kumo.score import score_kumo
from evals.suites.kumo.searched_game import (
    Puzzle,
    domain_of,
    puzzles_from,
    puzzles_in,
    puzzles_of,
    sizes_in,
    world_puzzles_of,
)
from evals.suites.kumo.settings import KumoSettings
from evals.suites.kumo.shortcuts import EXACT, SHORTCUTS
from evals.suites.kumo.transcripts import has_transcript, transcript_players
from evals.suites.kumo.view import view_game
from evals.suites.kumo.wording import PUBLISHED_ROLES
from evals.tables import Section, Table
from evals.types import Chat, Episode, Outcome, Player, Turn, reworded, stable_hash, stable_seed
from evals.view import EpisodeView

_TOKENS_PER_ROUND = 250
"""A reply with its reasoning, and the outcome after it."""


@dataclass(frozen=True)
class KumoSuite(KumoSettings, Suite):
    """Games of elimination (KUMO): find the one valid truth by choosing tests; its settings are ``KumoSettings``."""

    name: ClassVar[str] = "kumo"
    title: ClassVar[str] = "KUMO"
    license: ClassVar[str] = "MIT"
    columns: ClassVar[Mapping[str, Column]] = COLUMNS
    shortcuts: ClassVar[Mapping[str, str]] = SHORTCUTS

    @property
    def players(self) -> Mapping[str, Player]:
        """Perfect play under the guarantee, knowledge of the world alone, and models whose published replies are at hand."""
        own: dict[str, Player] = {name: ShortcutPlayer(name) for name in (EXACT, MEMORY)}
        return own | dict(transcript_players(self.transcripts)) if self.transcripts else own

    def plays(self, player: str, episode: Episode) -> bool:
        """Whether a player can play: exact search takes small sound tasks, memory needs a table, transcripts must be there."""
        if player == MEMORY:
            return bool(self.puzzle(episode.task, episode.level, episode.index).domain.true_of)
        if player == EXACT:
            small = sum(size_of(episode.level)) <= LARGEST
            return small and self.puzzle(episode.task, episode.level, episode.index).guaranteed
        return has_transcript(self.transcripts or "", player, episode)

    def plan(self) -> Sequence[Episode]:
        """Domains x levels x tasks x repeats.

        Raises:
            ValueError: a setting is wrong, or a domain is too small for it.
        """
        self._check()
        check_plan_size(
            domains=len(self.sources),
            difficulties=len(self.levels),
            tasks=1 if self.tasks else self.tasks_per_domain,
            repeats=self.repeats,
        )
        episodes = []
        for source in self.sources:
            for level in self.levels:
                for number, puzzle in enumerate(self._puzzles(source, level)):
                    # The authors' tasks keep the numbers that they have there.
                    index = puzzle.index if self.source else number
                    first = self._episode(puzzle, level, index)
                    episodes += [dataclasses.replace(first, repeat=repeat) for repeat in range(self.repeats)]
        if not episodes:
            raise ValueError(self._nothing_to_play())
        return episodes

    def _nothing_to_play(self) -> str:
        """What to say where a file or a benchmark holds no task of the levels and domains that are set."""
        domains = ", ".join(self._domain(source).name for source in self.domains)
        lacking = f"has no {' or '.join(self.levels)} tasks of {domains}"
        if self.source:
            return f"suite.source: {self.source} {lacking}"
        held = f"; it has {sizes_in(self.tasks, self.sources)}" if self.tasks else ""
        return f"suite.tasks: {self.tasks} {lacking}{held}"

    def puzzles(self) -> Iterator[Puzzle]:
        """The different games of the plan, in its order."""
        for source in self.sources:
            for level in self.levels:
                yield from self._puzzles(source, level)

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Play one run of one task."""
        puzzle = self.puzzle(episode.task, episode.level, episode.index)
        return await play_puzzle(
            puzzle,
            conversation,
            prompt=self.prompt,
            book=self.book,
            decoder=self.decoder,
            regret=self.hard_regret or len(puzzle.task.truths) <= CHEAP,
            presentation=self.presentation,
        )

    def for_people(self, turn: Turn) -> Chat:
        """The rules and questions without the form of a written answer."""
        return reworded(turn.chat, FOR_PEOPLE)

    def results(self, run: RunData, section: Section) -> Iterable[Table]:
        """Scores in our convention and in the published one; diagnostics: error kinds, planning apart from deduction."""
        if section == "performance":
            return
        notes: tuple[str, ...] = ()
        ledger = rows_of_games(run, self.name)
        if self.malformed == "left_out":
            left_out = malformed_episodes(join_runs(run.plan, ledger))
            run = run.without(left_out)
            ledger, notes = rows_of_games(run, self.name), (f"{len(left_out):,} runs of malformed tasks are left out.",)
        for table in self._tables(run, ledger, section):
            yield dataclasses.replace(table, notes=(*table.notes, *notes))

    def _tables(self, run: RunData, ledger: pa.Table, section: Section) -> Iterator[Table]:
        if section == "paper":
            yield from paper_tables(list(join_runs(run.plan, ledger)))
        if section == "scores":
            yield from score_kumo(run.plan, ledger)
            cells = run_cells(join_runs(run.plan, ledger))
            yield from published_tables(self.name, "KUMO", cells, self._conditions, run.settings, run.stored_names)
        if section == "diagnostics":
            yield from diagnose_kumo(run.plan, ledger)
            yield from effect_tables(run)

    def figures(self, run: RunData) -> Iterable[Figure]:
        """Success over relative actions, success by domain, actions of perfect play."""
        return kumo_figures(list(join_runs(run.plan, rows_of_games(run, self.name))), run.stored_names)

    def difficulty_of(self, task: str, level: str) -> float | None:
        """The number of truths to choose from."""
        return float(size_of(level)[0]) if is_level(level) else None

    def level_of_games(self, level: str) -> str:
        """``easy`` and ``4x6`` are the same games."""
        return one_name(level) if is_level(level) else level

    def known_success(self, task: str, level: str) -> Mapping[str, float]:
        """Perfect play wins every game."""
        return {"perfect play": 1.0}

    @property
    def _conditions(self) -> Conditions:
        """How these tasks are played, in the words of the paper's own."""
        told = in_words(self.presentation.changes(DEFAULT))
        plain = self._plain_conditions
        return dataclasses.replace(plain, prompts=f"{plain.prompts}, {told}") if told else plain

    @property
    def _plain_conditions(self) -> Conditions:
        """The same but for the presentation."""
        if self.source:
            games = "the authors' tasks"
            if self.malformed == "left_out":
                games += " without malformed ones"
            prompts = "the authors'" if self.prompt == "published" else f"own, book {self.book}"
            return Conditions(games=games, prompts=prompts, decoder=self.decoder)
        games = "from a file" if self.tasks else self._drawn_games()
        return Conditions(games=games, prompts=f"own, book in {self.book}", decoder=self.decoder)

    def _drawn_games(self) -> str:
        count = len(self.sources)
        domains = "domain" if count == 1 else "domains"
        if self.structure is None:
            said = [f"{count} {domains} of ours"]
        elif self.structure.get("names") == "permuted":
            # Domains whose names alone are permuted are still ours.
            said = [f"{count} {domains} of ours", "names permuted"]
        else:
            said = [f"{count} drawn {domains}"]
        if self.world:
            said.append(f"world {self.world}")
        if self.numeric is not None:
            said.append(f"{self.numeric:.0%} of tests with numbers")
        if self.valid_truths > 1:
            said.append(f"{self.valid_truths} valid truths")
        return ", ".join(said)

    def view(self, row: Mapping[str, Any]) -> EpisodeView:
        """One game with what was possible after each step, and what perfect play would have done."""
        return view_game(row, self.puzzle(row["task"], row["level"], row["index"]))

    def puzzle(self, domain: str, level: str, index: int) -> Puzzle:
        """The game of an episode."""
        if self.source:
            return next(puzzle for puzzle in puzzles_from(self.source, domain, level) if puzzle.index == index)
        sources = {domain_of(source).name: source for source in self.sources}
        if domain not in sources:
            raise ValueError(f"suite.domains: lacks {domain}, of which this game is")
        if self.tasks is not None:
            held = self._puzzles(sources[domain], level)
            if index >= len(held):
                raise ValueError(
                    f"suite.tasks: {self.tasks} holds {len(held)} {level} tasks of {domain}, fewer than when the game was "
                    "planned; the file must be as it was"
                )
            return held[index]
        return self._generated(sources[domain], level, most_drawn(index, self.tasks_per_domain))[index]

    def _puzzles(self, source: str, level: str) -> Sequence[Puzzle]:
        if self.source:
            return puzzles_from(self.source, source, level)[: self.tasks_per_domain]
        if self.tasks is not None:
            return puzzles_in(self.tasks, self.sources, source, level)[: self.tasks_per_domain]
        return self._generated(source, level, self.tasks_per_domain)

    def _generated(self, source: str, level: str, count: int) -> Sequence[Puzzle]:
        """The first ``count`` generated puzzles."""
        seed = self._drawn_from
        if self.world:
            return world_puzzles_of(source, level, count, self.world, self.tell_world, self.give_aways, seed)
        return puzzles_of(source, level, count, self.give_aways, seed, self.valid_truths, self.numeric)

    def _episode(self, puzzle: Puzzle, level: str, index: int) -> Episode:
        task, calls = puzzle.task, min(expected_calls(level), self.max_steps)
        words = puzzle.wording(self.prompt, self.book, self.max_steps, self.presentation)
        opening = [message.parts for message in words.opening().sent]
        tokens = sum(len(str(part)) for parts in opening for part in parts) / 4
        roles = [PUBLISHED_ROLES] if self.prompt == "published" else []
        return Episode(
            suite=self.name,
            task=puzzle.domain.name,
            level=level,
            mode="zero_shot",
            index=index,
            repeat=0,
            seed=stable_seed(self.name, puzzle.domain.name, level, self._drawn_from, index),
            fingerprint=stable_hash(
                *(PROMPT_FINGERPRINT, opening, READER_VERSION, self.decoder, self.max_steps, task.to_json()),
                *roles,
                *self.presentation.identity(DEFAULT),
                *([self.world] if self.world else []),
            ),
            budget=self.max_steps,
            calls=calls,
            prompt_tokens=calls * tokens + _TOKENS_PER_ROUND * calls * (calls - 1) / 2,
            group=stable_hash(self.name, task.to_json()),
        )
