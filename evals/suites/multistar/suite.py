"""MultiStAR as a suite: which questions are planned, how they are asked, what is reported."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from envs.raven import configuration_named
from envs.raven.twin import VERSION as TWIN_VERSION
from evals.conversation import Conversation
from evals.figures import Figure
from evals.ledger.records import plan_from_table
from evals.ledger.run_data import RunData
from evals.reference import Conditions
from evals.replies.reader import READER_VERSION
from evals.suite import Column, Needs, Suite, check_plan_size
from evals.suites.multistar.answers import LEDGER_COLUMNS, Answered, answers_of, join
from evals.suites.multistar.drafts import Draft, chain_draft, content_of, tokens_of
from evals.suites.multistar.effects import answer_measures
from evals.suites.multistar.figures import multistar_figures
from evals.suites.multistar.hallucination import nodes_with_absent
from evals.suites.multistar.mseval import Convention
from evals.suites.multistar.paper import paper_tables
from evals.suites.multistar.play import COLUMNS, RECORD_VERSION, AskSettings, play_chain, play_direct
from evals.suites.multistar.prompts import DEFAULT, PROMPT_FINGERPRINT, for_people
from evals.suites.multistar.published import conditions_of
from evals.suites.multistar.published_questions.store import folder_digest, read_questions
from evals.suites.multistar.puzzles import (
    CHAIN,
    QUESTIONS_PER_PUZZLE,
    UNKNOWN,
    UNREADABLE,
    PublishedPuzzle,
    PuzzleUnreadable,
    Selection,
    Source,
    asked_by,
    fingerprint,
    generated,
    imported,
    puzzle_of,
    puzzle_seed,
    questions_of,
    stand_ins,
)
from evals.suites.multistar.questions import Drawing, Question, direct_nodes
from evals.suites.multistar.score import score_multistar
from evals.suites.multistar.settings import MultiStarSettings
from evals.suites.multistar.shortcuts import SHORTCUT_HELP
from evals.suites.multistar.view import episode_view
from evals.summary.paired import Measure
from evals.tables import Section, Table
from evals.types import Chat, Episode, Outcome, Turn, stable_hash
from evals.view import EpisodeView

ANSWER_SETS: Final = {"i_raven": "iraven", "raven": "raven"}
DEFAULT_PUZZLES: Final = {"direct": 100, "chain": 10}
"""Of each configuration, as published."""


@dataclass(frozen=True)
class MultiStarSuite(MultiStarSettings, Suite):
    """Staged questions on RAVEN matrices (MultiStAR); its settings are ``MultiStarSettings``."""

    name: ClassVar[str] = "multistar"
    title: ClassVar[str] = "MultiStAR"
    license: ClassVar[str] = "MIT"
    columns: ClassVar[Mapping[str, Column]] = COLUMNS
    shortcuts: ClassVar[Mapping[str, str]] = SHORTCUT_HELP

    def plan(self) -> Sequence[Episode]:
        """One episode per question (direct), or per puzzle, style and prior (chain).

        Raises:
            ValueError: a setting names something that does not exist.
        """
        self._check()
        chains = len(self.styles) * len(self.priors) if self.subtask == "chain" else 1
        check_plan_size(puzzles=sum(map(self._count, self._configurations)), chains=chains)
        return [
            episode
            for configuration in (*self._configurations, *self._unknown)
            for puzzle in range(self._count(configuration))
            for episode in self._episodes(configuration, puzzle)
        ]

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Ask one question, or one chain.

        Raises:
            PuzzleUnreadable: the puzzle that the episode was planned for is another one here, or gone.
        """
        asked, settings = self._asked(episode), self._ask_settings(episode.mode)
        if not asked:
            raise PuzzleUnreadable(
                f"problem {puzzle_of(episode) + 1} of configuration {episode.task} has no such question: the game was "
                "planned for another problem, and the setting that names its file (suite.problems) is not here"
            )
        if self.subtask == "chain":
            return await play_chain(asked, conversation, settings)
        return await play_direct(asked[0], conversation, settings)

    @property
    def needs(self) -> Needs:
        """A picture with every question, unless it is told in words, and label scores unless answers are written."""
        return Needs(pictures=0 if self.modality == "text" else 1, label_scores=self.reply == "labels")

    def for_people(self, turn: Turn) -> Chat:
        """The question without the form of a written answer; on a printed page it stands all the same."""
        return for_people(turn.chat, turn.labels or turn.options)

    def results(self, run: RunData, section: Section) -> Iterable[Table]:
        """Accuracy and MSEval by stage, attribute and configuration, weights, error classes and published figures."""
        match section:
            case "performance":
                return []
            case "paper":
                return paper_tables(self._answers(run))
        ledger = run.episodes(LEDGER_COLUMNS)
        absent = self._absent(run) if section == "diagnostics" else {}
        stored = run.as_stored()
        tables = score_multistar(
            *(run.plan, ledger, self._lost, Convention.named(self.convention), self.shortcuts, self.conditions),
            settings=run.settings,
            absent=absent,
            stored_names=run.stored_names,
            with_shortcuts=None if stored is run else self._answers(stored),
        )
        return [table for table in tables if table.section == section]

    def figures(self, run: RunData) -> Iterable[Figure]:
        """Accuracy by stage, prior, attribute and size, and the weights of the questions before."""
        return multistar_figures(self._answers(run), self.subtask, run.stored_names)

    def level_of_games(self, level: str) -> str:
        """A puzzle is one game, by whichever of its questions it is asked about: the direct set and the chain share some."""
        return "puzzle"

    def measures(self, run: RunData, player: str) -> Iterable[Measure]:
        """Accuracy and MSEval of the questions."""
        return answer_measures(self._answers(run), player)

    def _answers(self, run: RunData) -> list[Answered]:
        played = join(run.plan, run.episodes(LEDGER_COLUMNS))
        return answers_of(played, self._lost, Convention.named(self.convention))

    def _absent(self, run: RunData) -> dict[str, frozenset[str]]:
        """By episode, the nodes whose written replies name objects that are not there."""
        if self.reply == "labels":
            return {}
        episodes = {episode.id: episode for episode in plan_from_table(run.plan)}
        found: dict[str, frozenset[str]] = {}
        for batch in run.batches(["episode_id", "status", "nodes", "turns"]):
            for row in batch.to_pylist():
                episode = episodes.get(row["episode_id"])
                if episode is not None and row["status"] == "done":
                    absent = nodes_with_absent(self._asked(episode), row)
                    found[episode.id] = frozenset(absent)
        return found

    def view(self, row: Mapping[str, Any]) -> EpisodeView:
        """The episode with its graph: answers, keys, parents and their weights; each step with its label probabilities."""
        return episode_view(row, Convention.named(self.convention))

    @property
    def conditions(self) -> Conditions:
        """How these questions are asked, in the words of the paper's own."""
        return conditions_of(vars(self), self.presentation)

    # --- episodes ---

    @property
    def _modes(self) -> list[str]:
        """``style/prior``, or just the style where there is no prior."""
        if self.subtask == "direct":
            return [*self.styles]
        return [f"{style}/{prior}" for style in self.styles for prior in self.priors]

    def _ask_settings(self, mode: str) -> AskSettings:
        style, _, prior = mode.partition("/")
        return AskSettings(
            style=style,  # type: ignore[arg-type]
            prior=prior or "none",  # type: ignore[arg-type]
            reply=self.reply,
            sweep=self.sweep and self.reply == "labels",
            paper_literal=self.paper_literal,
            order=self.order,
            presentation=self.presentation,
            templates=self._templates,
        )

    @property
    def _most(self) -> int:
        return self.puzzles or DEFAULT_PUZZLES[self.subtask]

    @property
    def _unknown(self) -> list[str]:
        """``UNKNOWN``, if there are files whose configuration cannot be told."""
        return [UNKNOWN] if self.problems and imported(self.problems, UNKNOWN, self._most) else []

    def _count(self, configuration: str) -> int:
        if self.wording == "published":
            found = len(read_questions(self.source).get((self.subtask, configuration), ()))
            return found if self.puzzles is None else min(found, self.puzzles)
        if not self.problems:
            return self._most
        found = len(imported(self.problems, configuration, self._most))
        if not found:
            raise ValueError(f"suite.problems={self.problems}: holds no problem of configuration {configuration}")
        return found

    def _source(self, configuration: str, puzzle: int) -> Source:
        if self.wording == "published":
            digest, doubtful = folder_digest(self.source), self.doubtful == "scored"
            return PublishedPuzzle(self.source, digest, self.subtask, configuration, puzzle, doubtful)
        if self.problems:
            return imported(self.problems, configuration, self._most)[puzzle]
        style = ANSWER_SETS[self.answer_sets]
        return generated(configuration, puzzle, style, self.seeds, self.render, self._difficulty)  # type: ignore[arg-type]

    def _group(self, configuration: str, puzzle: int) -> str:
        """Tells puzzles apart, and imported ones from what they were before their files changed."""
        return stable_hash(self.name, fingerprint(self._source(configuration, puzzle)))

    def _questions(self, configuration: str, puzzle: int) -> tuple[Question, ...]:
        return questions_of(self._source(configuration, puzzle), self._selection(configuration))

    def puzzles_of(self, configuration: str) -> Iterator[tuple[Question, ...]]:
        """The questions of each puzzle of a configuration, whose name is its folder's."""
        return (self._questions(configuration, puzzle) for puzzle in range(self._count(configuration)))

    def _selection(self, configuration: str) -> Selection:
        drawing: Drawing = "by_sets" if self.variant == "balanced" else self.options
        return Selection(
            configuration,
            self.subtask,
            tuple(self.attributes),
            drawing,
            self.scale,
            self.option_order,
            self._difficulty is not None,
        )

    def _asked(self, episode: Episode) -> list[Question]:
        configuration, puzzle = episode.task, puzzle_of(episode)
        from_files = self.problems or self.wording == "published"
        if from_files and self._has_changed(episode):
            place = f"suite.source={self.source}" if self.source else f"suite.problems={self.problems}"
            raise PuzzleUnreadable(
                f"{place} has changed since the plan was made: problem {puzzle + 1} of "
                f"configuration {configuration} is another one, or gone"
            )
        if episode.level == UNREADABLE and not from_files:
            return []
        return asked_by(episode, self._questions(configuration, puzzle))

    def _has_changed(self, episode: Episode) -> bool:
        """Whether an episode's puzzle is another one than when it was planned, or gone."""
        try:
            return self._group(episode.task, puzzle_of(episode)) != episode.group
        except (ValueError, IndexError):
            return True

    def _lost(self, episode: Episode) -> list[Question]:
        """What an episode without outcome would have asked; none where the plan does not say.

        Of a puzzle that cannot be read, or is another one by now, these are questions of the kinds that its configuration is
        asked.
        """
        if episode.level == UNREADABLE:
            return []
        if self.wording == "published":
            return asked_by(episode, self._questions(episode.task, puzzle_of(episode)))
        with contextlib.suppress(PuzzleUnreadable):
            if not self._has_changed(episode):
                return asked_by(episode, self._questions(episode.task, puzzle_of(episode)))
        return asked_by(episode, stand_ins(self._selection(episode.task)))

    def _episodes(self, configuration: str, puzzle: int) -> Iterator[Episode]:
        group = self._group(configuration, puzzle)
        reply = self.reply if self.reply == "labels" else f"{self.reply} read by rules {READER_VERSION}"
        told = self.presentation.identity(DEFAULT)
        words = (TWIN_VERSION,) if told else ()
        for draft in self._drafts(configuration, puzzle):
            yield Episode(
                suite=self.name,
                task=configuration,
                level=draft.level,
                mode=draft.mode,
                index=puzzle if draft.level == CHAIN else puzzle * QUESTIONS_PER_PUZZLE + draft.number,
                repeat=0,
                seed=puzzle_seed(configuration, puzzle, self.seeds),
                fingerprint=stable_hash(
                    *(PROMPT_FINGERPRINT, RECORD_VERSION, self.subtask, reply, draft.content),
                    *(*told, *words, *self._templates.identity),
                ),
                budget=draft.calls,
                calls=float(draft.calls),
                prompt_tokens=draft.tokens,
                group=group,
            )

    def _drafts(self, configuration: str, puzzle: int) -> Iterator[Draft]:
        try:
            questions = self._questions(configuration, puzzle)
        except PuzzleUnreadable as error:
            # Played all the same: it fails with its cause, and nothing vanishes.
            is_chain = self.subtask == "chain" and configuration != UNKNOWN
            level = CHAIN if is_chain else UNREADABLE
            for mode in self._modes:
                yield Draft(mode, level, str(error))
            return
        if self.subtask == "chain":
            for mode in self._modes:
                yield chain_draft(mode, questions, self._ask_settings(mode))
            return
        numbers = self._numbers(questions, configuration)
        for mode in self._modes:
            settings = self._ask_settings(mode)
            for question, number in zip(questions, numbers, strict=True):
                content = stable_hash(content_of(question))
                yield Draft(mode, question.stage, content, number, 1, tokens_of(question, settings))

    def _numbers(self, questions: Sequence[Question], configuration: str) -> list[int]:
        """The number of each direct question's template; published questions are named after their place in the file."""
        if self.wording == "published":
            return [int(question.node.rpartition("/")[2]) for question in questions]
        templates = direct_nodes(configuration_named(configuration))
        return [templates.index(question.node) for question in questions]
