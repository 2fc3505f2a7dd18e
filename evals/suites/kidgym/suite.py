"""KidGym as a suite: which games are planned, how one is played, what is reported."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from envs.kidgym import TASKS, World, make
from envs.kidgym.chance import chance_at
from envs.kidgym.twin import VERSION as TWIN_VERSION
from envs.kidgym.world import Variant
from envs.picture import Detail, Picture
from envs.settings import Count, Several, check_instance, shown
from envs.suggest import did_you_mean
from evals.conversation import Conversation
from evals.figures import Figure
from evals.ledger.run_data import RunData
from evals.presentation import Feedback, History, Modality, OptionOrder, PastPictures, PastReasoning, Presentation
from evals.presentation.settings import in_words
from evals.reference import Conditions, published
from evals.reference.comparison import published_tables
from evals.replies.reader import READER_VERSION
from evals.sealed import checked_seeds, seed_parts
from evals.suite import Column, Needs, Suite, check_plan_size, picture_tokens
from evals.suites.kidgym.diagnostics import diagnose_kidgym
from evals.suites.kidgym.effects import effect_tables, environment_tables
from evals.suites.kidgym.estimates import CALLS, earlier_tokens, expected_calls, expected_tokens, most_frames, tokens
from evals.suites.kidgym.example import worked_example
from evals.suites.kidgym.figures import kidgym_figures
from evals.suites.kidgym.paper import paper_tables
from evals.suites.kidgym.play import COLUMNS, play_world
from evals.suites.kidgym.prefix_cache import cache_table
from evals.suites.kidgym.presentation import DEFAULT, OF_BUDGET, check_presentation, shown_history
from evals.suites.kidgym.prompts import LETTERS, Dialogue, Mode
from evals.suites.kidgym.published import capability_table, run_cells
from evals.suites.kidgym.published_environment.plan import planned_games, recorded_games
from evals.suites.kidgym.published_environment.play import play_published, process_of
from evals.suites.kidgym.published_environment.recording import SUFFIX, RecordedGame, Recording, read_recording
from evals.suites.kidgym.reading import Decoder
from evals.suites.kidgym.score import CAPABILITIES, capability_score, score_kidgym
from evals.suites.kidgym.shortcuts import SHORTCUTS
from evals.suites.kidgym.templates import Templates, load_templates
from evals.suites.kidgym.user_tasks import load_user_tasks
from evals.suites.kidgym.variants import named, task_and_variant
from evals.suites.kidgym.view import view_episode
from evals.tables import Section, Table
from evals.types import Chat, Episode, Outcome, Part, Turn, reworded, stable_hash, stable_seed
from evals.view import EpisodeView

PAPER_TASKS: Final = ("CL", "SE", "SO", "MA", "FI", "PU", "PL", "CO", "DMA", "MMA", "MDE", "MFI")
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

Environment = Literal["own", "published"]


@dataclass(frozen=True)
class KidGymSuite(Suite):
    """Twelve grid tasks for vision-language models (KidGym), at three levels each.

    Attributes:
        tasks: Of the twelve, or ``"all"``; also tasks that an installed package registers.
        levels: Of 1, 2 and 3; some tasks have harder ones, up to 5 (docs/kidgym_levels.md).
        modes: Of ``zero_shot`` (the answer alone), ``cot`` (reasoning first) and ``icl`` (a worked example first).
        episodes: Of each task, level and mode; the same ones in all modes and for all players.
        resolution: Pixels of a cell's edge, 32, 64 or 96; a picture is 9x9 cells.
        skin: Folder of sprites in place of the built-in ones.
        templates: Folder of prompt templates in place of those of the same name in ``evals/suites/kidgym/templates``; with
            ``words.yaml`` and ``chat.yaml`` in it, of everything that is read (docs/kidgym_prompts.md).
        decoder: How replies are read: ``lenient`` (as a careful person would), ``paper`` (its Algorithm 2) or ``published``
            (its code's rule).
        mde_decoys: MDE's distractors: ``table`` (the table's other partners and things of their type) or ``published``
            (any things).
        variant: Of ``published`` (games drawn as the paper's) and ``balanced`` (drawn so that nothing beside a task's skill
            wins it, called ``CL-balanced`` and so on: docs/validity_kidgym.md).
        environments: Of ``own`` and ``published``: the games of a user's checkout as they are, called ``CL-published`` and so
            on (docs/kidgym_published.md). The published environment runs the checkout's code; it needs the next three.
        recording: Folder that ``raycade kidgym record`` wrote; what is shown in these games is added to it.
        checkout: The published repository.
        python: Interpreter with what the checkout needs.
        modality: What stands where a picture belongs: ``picture``, ``text`` (its text twin: what it shows,
            in words) or ``both``.
        detail: How pictures are told in words: ``grid``, ``prose`` or ``json``.
        history: Earlier steps that a question shows: ``published`` (all in memory tasks, none in the others), ``all``, ``none``
            or the last so many.
        past_pictures: Whether pictures of earlier steps are ``kept``, or told in words (``text``).
        past_reasoning: Whether earlier answers stand with the reasoning that led to them (``kept``) or without (``dropped``).
        feedback: What a question says of the latest action: ``none``, or of ``legal`` (whether it could be carried out),
            ``changed`` (what is seen to have changed) and ``reward`` (1, 0 or -1: nearer to the win, not nearer, lost).
        option_order: Whether actions are ``shuffled`` at every step, or ``listed`` by their texts.
        tell_budget: Whether prompts tell how many steps a game allows.
        list_actions: Whether prompts list the actions; else they tell their forms, and the player writes one.
        seeds: ``sealed:FILE`` draws games that only the secret of ``raycade challenge new`` tells, ``training:NUMBER`` a block
            of games to train on; empty for the open ones.
    """

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

    tasks: str | Several[str] = PAPER_TASKS
    levels: int | Several[int] = (1, 2, 3)
    modes: Mode | Several[Mode] = MODES
    episodes: Count = 100
    resolution: Literal[32, 64, 96] = 64
    skin: str = ""
    templates: str = ""
    decoder: Decoder = "lenient"
    mde_decoys: Literal["table", "published"] = "table"
    variant: Variant | Several[Variant] = ("published",)
    environments: Environment | Several[Environment] = ("own",)
    recording: str = ""
    checkout: str = ""
    python: str = ""
    modality: Modality = DEFAULT.modality
    detail: Detail = DEFAULT.detail
    history: Literal["published"] | History = DEFAULT.history
    past_pictures: PastPictures = DEFAULT.past_pictures
    past_reasoning: PastReasoning = DEFAULT.past_reasoning
    feedback: Feedback | Several[Feedback] = "none"
    option_order: OptionOrder = DEFAULT.option_order
    tell_budget: bool = True
    list_actions: bool = True
    seeds: str = ""

    def __post_init__(self) -> None:
        check_instance("suite", self)
        for setting in ("tasks", "levels", "modes", "variant", "environments", "feedback"):
            value = getattr(self, setting)
            values = (value,) if isinstance(value, str | int) else tuple(value)
            object.__setattr__(self, setting, values)
        if self.tasks == ("all",):
            object.__setattr__(self, "tasks", PAPER_TASKS)
        # Runners may have another working directory.
        for setting in ("skin", "templates", "recording", "checkout"):
            folder = getattr(self, setting)
            if folder:
                object.__setattr__(self, setting, str(Path(folder).absolute()))
        if "/" in self.python:
            object.__setattr__(self, "python", str(Path(self.python).absolute()))
        drawn = self.environments == ("own",)
        object.__setattr__(self, "seeds", checked_seeds(self.seeds, drawn=drawn))

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

    @cached_property
    def presentation(self) -> Presentation:
        """How the games are told."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(Presentation)}
        return Presentation(**values | {"feedback": tuple(kind for kind in self.feedback if kind != "none")})

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
                yield from score_kidgym(run.plan, run.episodes())
                cells = run_cells(run, self.resolution)
                yield from published_tables(self.name, "KidGym", cells, self._conditions, run.settings)
                yield from self._published_environment_tables(run)
                yield capability_table(capability_score, tuple(CAPABILITIES), {cell.player for cell in cells})
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
        for table in published_tables(self.name, "KidGym's published environment", cells, conditions, run.settings):
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
    def _levels(self) -> tuple[int, ...]:
        return tuple(int(level) for level in self.levels)  # type: ignore[union-attr]

    @property
    def _modes(self) -> tuple[Mode, ...]:
        return tuple(mode for mode in MODES if mode in self.modes)  # type: ignore[operator]

    @property
    def _names(self) -> Sequence[str]:
        """The tasks that are drawn here, by name; one without a variant is drawn once only."""
        variants: Iterable[Variant] = self.variant  # type: ignore[assignment]
        return list(dict.fromkeys(named(task, variant) for variant in variants for task in self.tasks))

    def _seed(self, task: str, level: int, index: int) -> int:
        return stable_seed(self.name, task, str(level), index, *seed_parts(self.seeds))

    def _world(self, name: str, level: int, seed: int) -> World:
        task, variant = task_and_variant(name)
        return make(
            task,
            level,
            seed,
            cell_pixels=self.resolution,
            skin=self.skin,
            mde_decoys=self.mde_decoys,
            variant=variant,
        )

    @cached_property
    def _templates(self) -> Templates:
        """Read once, and carried along to wherever the suite is sent: runners never see a file that changed meanwhile."""
        return load_templates(self.templates)

    def _example(self, name: str, mode: Mode) -> tuple[Part, ...]:
        return worked_example(name, self._templates, self.resolution, self.skin) if mode == "icl" else ()

    def _dialogue(self, name: str, mode: Mode) -> Dialogue:
        templates = self._templates if self.tell_budget else self._templates.without(OF_BUDGET)
        memory = TASKS[task_and_variant(name)[0]].memory
        return Dialogue(templates, mode, memory, self._example(name, mode), self.presentation)

    @property
    def _recording(self) -> Recording:
        return read_recording(self.recording)

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

    def _check(self) -> None:
        """Check what depends on other settings, on files, and on tasks that are registered elsewhere."""
        load_user_tasks()
        for task in self.tasks:
            if task not in TASKS:
                near = did_you_mean(task, TASKS)
                raise ValueError(f"suite.tasks: no task {task!r}; there are {', '.join(TASKS)}{near}")
            self._check_levels(TASKS[task])
        if self.skin:
            try:
                self._world(PAPER_TASKS[0], 1, 0)
            except ValueError as error:
                raise ValueError(f"suite.skin: {error}") from error
        try:
            _ = self._templates
        except ValueError as error:
            raise ValueError(f"suite.templates: {error}") from error
        check_presentation(self.presentation, self._templates, bool(self.templates), self.decoder)
        self._check_variant()
        self._check_published()

    def _check_levels(self, task: type[World]) -> None:
        for variant in self.variant:
            levels = task.levels(variant)  # type: ignore[arg-type]
            beyond = [level for level in self._levels if level not in levels]
            if not beyond:
                continue
            which = task.name
            if variant != "published":
                which += f", drawn {variant},"
            said = f"{which} has no level {beyond[0]}, but 1 to {levels[-1]}"
            if task.limit:
                said += f": {task.limit}"
            raise ValueError(f"suite.levels={shown(self.levels)}: {said}")

    def _check_variant(self) -> None:
        """Settings that are about games drawn as published."""
        if "balanced" not in self.variant:
            return
        if self.mde_decoys != "table" and "MDE" in self.tasks:
            raise ValueError(
                f"suite.mde_decoys={self.mde_decoys} is for suite.variant=published: balanced games of MDE have no distractors"
            )
        if self._templates.wording.tells_tasks:
            raise ValueError(
                "suite.templates: the goals, actions and reasons of words.yaml are for suite.variant=published; balanced "
                "games have other ones"
            )

    def _check_published(self) -> None:
        """Settings of the published environment, which is not started for a plan."""
        given = [setting for setting in ("recording", "checkout", "python") if getattr(self, setting)]
        if "published" not in self.environments:
            if given:
                raise ValueError(f"suite.{given[0]} is set, but suite.environments has no published")
            return
        for setting, what in (
            ("recording", "the folder that `raycade kidgym record` wrote"),
            ("checkout", "the folder of the published repository"),
            ("python", "the interpreter that it is installed in"),
        ):
            if setting not in given:
                raise ValueError(f"suite.environments has published, so suite.{setting} must be {what}")
        changed = self.presentation.changes(DEFAULT)
        if changed:
            raise ValueError(
                f"suite.{next(iter(changed))} is for games of our own: leave published out of suite.environments"
            )
        if "icl" in self.modes:
            raise ValueError("suite.modes: the published environment has no worked example: leave out icl")
        try:
            _ = self._recording
        except ValueError as error:
            raise ValueError(f"suite.recording: {error}") from error
        for task in self.tasks:
            if task not in PAPER_TASKS:
                raise ValueError(
                    f"suite.tasks: the published environment has no {task}; it has {', '.join(PAPER_TASKS)}"
                )
            for level in self._levels:
                recorded_games(self._recording, task, level, self.episodes)


def _opening(world: World) -> str:
    """Hash of what an episode shows first: a changed game is another episode."""
    return stable_hash(world.goal, world.actions, _portable(world.frame))


def _portable(part: Part) -> str:
    """A text or a picture's description without the place of the skin; the hash of its content stays."""
    if isinstance(part, str):
        return part
    return dataclasses.replace(part, skin="").description  # type: ignore[type-var]
