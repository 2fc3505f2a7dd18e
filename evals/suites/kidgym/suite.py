"""KidGym as a suite: which games are planned, how one is played, what is reported."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from envs.kidgym import TASKS, World
from envs.kidgym.chance import chance_at
from envs.kidgym.twin import VERSION as TWIN_VERSION
from envs.kidgym.world import Variant
from envs.picture import Picture
from evals.conversation import Conversation
from evals.figures import Figure
from evals.ledger.run_data import RunData
from evals.presentation.settings import in_words
from evals.reference import Conditions, published
from evals.reference.comparison import published_tables
from evals.replies.reader import READER_VERSION
from evals.sealed import seed_parts
from evals.suite import Column, Needs, Suite, check_plan_size, picture_tokens
from evals.suites.kidgym.diagnostics import diagnose_kidgym
from evals.suites.kidgym.effects import effect_tables, environment_tables
from evals.suites.kidgym.estimates import CALLS, earlier_tokens, expected_calls, expected_tokens, most_frames, tokens
from evals.suites.kidgym.example import worked_example
from evals.suites.kidgym.figures import kidgym_figures
from evals.suites.kidgym.games import games_of
from evals.suites.kidgym.paper import paper_tables
from evals.suites.kidgym.play import COLUMNS, play_world
from evals.suites.kidgym.prefix_cache import cache_table
from evals.suites.kidgym.presentation import DEFAULT, OF_BUDGET, shown_history
from evals.suites.kidgym.prompts import LETTERS, Dialogue, Mode
from evals.suites.kidgym.published import capability_table, run_cells
from evals.suites.kidgym.published_environment.plan import planned_games
from evals.suites.kidgym.published_environment.play import play_published, process_of
from evals.suites.kidgym.published_environment.recording import SUFFIX, RecordedGame
from evals.suites.kidgym.score import CAPABILITIES, capability_score, score_kidgym
from evals.suites.kidgym.settings import MODES, KidGymSettings
from evals.suites.kidgym.shortcuts import SHORTCUTS
from evals.suites.kidgym.user_tasks import load_user_tasks
from evals.suites.kidgym.variants import named, task_and_variant
from evals.suites.kidgym.view import view_episode
from evals.tables import Section, Table
from evals.types import Chat, Episode, Outcome, Part, Turn, reworded, stable_hash, stable_seed
from evals.view import EpisodeView


@dataclass(frozen=True)
class KidGymSuite(KidGymSettings, Suite):
    """Twelve grid tasks for vision-language models (KidGym), at three levels each; its settings are ``KidGymSettings``."""

    name: ClassVar[str] = "kidgym"
    title: ClassVar[str] = "KidGym"
    license: ClassVar[str] = "MIT AND CC-BY-SA-4.0"
    credits: ClassVar[str] = (
        "Most drawings are OpenMoji's (https://openmoji.org), cropped or recolored, under CC BY-SA 4.0."
    )
    version: ClassVar[int] = 2
    columns: ClassVar[Mapping[str, Column]] = COLUMNS
    shortcuts: ClassVar[Mapping[str, str]] = SHORTCUTS
    given_again: ClassVar[frozenset[str]] = frozenset({"checkout", "python"})

    def plan(self) -> Sequence[Episode]:
        """Tasks x levels x modes x episodes.

        Raises:
            ValueError: a setting names something that does not exist, or a skin or template lacks something.
        """
        self._check()
        check_plan_size(tasks=len(self.tasks), levels=len(self._levels), modes=len(self._modes), episodes=self.episodes)
        own = self._own_games() if "own" in self.environments else ()
        return [*own, *self._published_games()]

    def _own_games(self) -> Iterator[Episode]:
        for name in self._names:
            task, _ = task_and_variant(name)
            for level in self._levels:
                seeds = [self._seed(task, level, index) for index in range(self.episodes)]
                worlds = [self._world(name, level, seed) for seed in seeds]
                openings = [_opening(world) for world in worlds]
                for mode in self._modes:
                    fingerprint = self._fingerprint(name, mode)
                    calls, prompt_tokens = self._estimate(worlds[0], mode)
                    for index, (world, opening) in enumerate(zip(worlds, openings, strict=True)):
                        yield Episode(
                            suite=self.name,
                            task=name,
                            level=str(level),
                            mode=mode,
                            index=index,
                            repeat=0,
                            seed=world.seed,
                            fingerprint=stable_hash(fingerprint, opening),
                            budget=world.budget,
                            calls=calls,
                            prompt_tokens=prompt_tokens,
                        )

    def _published_games(self) -> Iterator[Episode]:
        if "published" not in self.environments:
            return
        for task, level, mode in itertools.product(self.tasks, self._levels, self._modes):
            yield from planned_games(
                self.name,
                self._recording,
                (task, level, mode),
                self.episodes,
                CALLS[task][level - 1],
                stable_hash(self._fingerprint(task, mode), "published"),
                lambda moment, task=task, mode=mode: tokens(self._dialogue(task, mode).question(moment)),  # type: ignore[misc]
            )

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        """Play one episode."""
        load_user_tasks()
        mode = next(mode for mode in MODES if mode == episode.mode)
        if episode.task.endswith(SUFFIX):
            recording = self._recording
            process = process_of(self.checkout, self.python, recording.seconds, recording.checkout)
            dialogue = self._dialogue(episode.task.removesuffix(SUFFIX), mode)
            game = self._recorded(episode)
            return await play_published(game, recording, process, dialogue, conversation, self.decoder)
        world = self._world(episode.task, int(episode.level), episode.seed)
        return await play_world(world, self._dialogue(episode.task, mode), conversation, self.decoder)

    async def first_turn(self, episode: Episode) -> Turn | None:
        """What an episode asks first; None for the published environment, which is not started for a look."""
        return None if episode.task.endswith(SUFFIX) else await super().first_turn(episode)

    @property
    def needs(self) -> Needs:
        """Pictures of the longest prompt: one, or in memory tasks one of each step, and those of the worked example.

        Raises:
            ValueError: as ``plan``.
        """
        self._check()
        if self.modality == "text":
            return Needs()
        pictures = []
        for name in self._names:
            task, _ = task_and_variant(name)
            for mode in self._modes:
                frames = most_frames(task, self._levels, self.presentation)
                in_example = sum(isinstance(part, Picture) for part in self._example(name, mode))
                pictures.append(frames + in_example)
        return Needs(pictures=max(pictures))

    def for_people(self, turn: Turn) -> Chat:
        """The prompt without the form of a written answer; earlier answers are bare letters."""
        templates = self._templates
        lists = [templates.wording.letters.join(LETTERS[:count]) for count in range(1, len(LETTERS) + 1)]
        forms = {templates.text(name, letters=listed): "" for name in ("answer", "answer_cot") for listed in lists}
        answered = {templates.text("answered", letter=letter): letter for letter in LETTERS}
        return reworded(turn.chat, forms | answered)

    def results(self, run: RunData, section: Section) -> Iterable[Table]:
        """Scores: success, invalid answers and steps of each cell, the five capabilities, the published baselines.

        Diagnostics: what lost the games, what was refused, miscounts, what shortcuts win.
        Performance: cache hit rates, by task and mode.
        """
        match section:
            case "scores":
                stored = run.as_stored()
                shortcuts = None if stored is run else games_of(stored.plan, stored.episodes())
                yield from score_kidgym(run.plan, run.episodes(), shortcuts)
                cells = run_cells(run, self.resolution)
                yield from published_tables(
                    self.name, "KidGym", cells, self._conditions, run.settings, run.stored_names
                )
                yield from self._published_environment_tables(run)
                players = {run.stored_name(cell.player) for cell in cells}
                yield capability_table(capability_score, tuple(CAPABILITIES), players)
            case "paper":
                yield from paper_tables(run)
            case "diagnostics":
                yield from diagnose_kidgym(run.plan, run.episodes())
                yield from effect_tables(run)
                yield from environment_tables(run)
            case "performance":
                table = cache_table(run)
                if table is not None:
                    yield table

    def figures(self, run: RunData) -> Iterable[Figure]:
        """Capabilities, success by task and level, what modes change, and success over size."""
        return kidgym_figures(run)

    def variant_of(self, task: str) -> str:
        """``published`` or ``balanced``."""
        return task_and_variant(task)[1]

    def known_success(self, task: str, level: str) -> Mapping[str, float]:
        """Exact chance; perfect play wins every game."""
        drawn, variant = task_and_variant(task)
        chance = chance_at(drawn, int(level), variant) if level.isdecimal() else None
        return {"chance": chance, "perfect play": 1.0} if chance is not None else {}

    def _published_environment_tables(self, run: RunData) -> Iterator[Table]:
        """The games of the published environment beside the paper."""
        theirs = published(self.name).conditions
        conditions = dataclasses.replace(self._conditions, games=theirs.games, pictures=theirs.pictures)
        cells = run_cells(run, suffix=SUFFIX)
        title = "KidGym's published environment"
        for table in published_tables(self.name, title, cells, conditions, run.settings, run.stored_names):
            yield dataclasses.replace(table, name=table.name.replace("_published", "_published_environment", 1))

    @property
    def _conditions(self) -> Conditions:
        """How these games are played, in the words of the paper's own."""
        sprites = "another skin" if self.skin else "own sprites"
        prompts = "other templates" if self.templates else "own"
        told = in_words(self.presentation.changes(DEFAULT))
        return Conditions(
            games="drawn from seeds",
            pictures=f"{sprites}, {self.resolution} px a cell",
            prompts=f"{prompts}, {told}" if told else prompts,
            decoder="own" if self.decoder == "lenient" else self.decoder,
        )

    def view(self, row: Mapping[str, Any]) -> EpisodeView:
        """The episode with the state of the game after each step, and what perfect play would have done."""
        return view_episode(row)

    # --- what an episode is made of -----------------------------------------------------------------------------------

    @property
    def _names(self) -> Sequence[str]:
        """The tasks that are drawn here, by name; one without a variant is drawn once only."""
        variants: Iterable[Variant] = self.variant  # type: ignore[assignment]
        return list(dict.fromkeys(named(task, variant) for variant in variants for task in self.tasks))

    def _seed(self, task: str, level: int, index: int) -> int:
        return stable_seed(self.name, task, str(level), index, *seed_parts(self.seeds))

    def _example(self, name: str, mode: Mode) -> tuple[Part, ...]:
        return worked_example(name, self._templates, self.resolution, self.skin) if mode == "icl" else ()

    def _dialogue(self, name: str, mode: Mode) -> Dialogue:
        templates = self._templates if self.tell_budget else self._templates.without(OF_BUDGET)
        memory = TASKS[task_and_variant(name)[0]].memory
        return Dialogue(templates, mode, memory, self._example(name, mode), self.presentation)

    def _recorded(self, episode: Episode) -> RecordedGame:
        games = self._recording.games[episode.task.removesuffix(SUFFIX), int(episode.level)]
        return next(game for game in games if game.index == episode.index)

    def _fingerprint(self, name: str, mode: Mode) -> str:
        """Hash of everything that decides what is asked and how answers are read, apart from the game itself."""
        example = [_portable(part) for part in self._example(name, mode)]
        decoding = READER_VERSION if self.decoder == "lenient" else self.decoder
        decoys = self.mde_decoys if name == "MDE" else ""
        told = self.presentation.identity(DEFAULT)
        words = (TWIN_VERSION,) if told else ()
        return stable_hash(self._templates.fingerprint, self.resolution, decoding, decoys, example, *told, *words)

    def _estimate(self, world: World, mode: Mode) -> tuple[float, float]:
        """Expected calls and prompt tokens of an episode of the world's task and level."""
        name = named(world.name, world.variant)
        dialogue = self._dialogue(name, mode)
        question = dialogue.question(dialogue.moment(world))
        if self._templates.chat:  # earlier steps are their pictures alone
            earlier = picture_tokens(world.frame)
        else:  # the worked example stands in a question once
            plain = self._dialogue(name, "zero_shot" if mode == "icl" else mode)
            earlier = earlier_tokens(plain.question(plain.moment(world)), self.presentation)
        history = shown_history(self.presentation, world.memory)
        return expected_calls(world), expected_tokens(world, question, earlier, history)


def _opening(world: World) -> str:
    """Hash of what an episode shows first: a changed game is another episode."""
    return stable_hash(world.goal, world.actions, _portable(world.frame))


def _portable(part: Part) -> str:
    """A text or a picture's description without the place of the skin; the hash of its content stays."""
    if isinstance(part, str):
        return part
    return dataclasses.replace(part, skin="").description  # type: ignore[type-var]
