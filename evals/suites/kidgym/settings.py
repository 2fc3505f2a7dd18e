"""The settings of KidGym: what they are, and which go together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, get_args

from envs.kidgym import TASKS, World, make
from envs.kidgym.world import Variant
from envs.picture import Detail
from envs.settings import Count, Several, check_instance, shown
from envs.suggest import did_you_mean
from evals.presentation import Feedback, History, Modality, OptionOrder, PastPictures, PastReasoning, Presentation
from evals.sealed import checked_seeds
from evals.suites.kidgym.presentation import DEFAULT, check_presentation
from evals.suites.kidgym.prompts import Mode
from evals.suites.kidgym.published_environment.plan import recorded_games
from evals.suites.kidgym.published_environment.recording import Recording, read_recording
from evals.suites.kidgym.reading import Decoder
from evals.suites.kidgym.templates import Templates, load_templates
from evals.suites.kidgym.user_tasks import load_user_tasks
from evals.suites.kidgym.variants import task_and_variant

PAPER_TASKS: Final = ("CL", "SE", "SO", "MA", "FI", "PU", "PL", "CO", "DMA", "MMA", "MDE", "MFI")
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
Environment = Literal["own", "published"]


@dataclass(frozen=True)
class KidGymSettings:
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

    @cached_property
    def presentation(self) -> Presentation:
        """How the games are told."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(Presentation)}
        return Presentation(**values | {"feedback": tuple(kind for kind in self.feedback if kind != "none")})

    @property
    def _levels(self) -> tuple[int, ...]:
        return tuple(int(level) for level in self.levels)  # type: ignore[union-attr]

    @property
    def _modes(self) -> tuple[Mode, ...]:
        return tuple(mode for mode in MODES if mode in self.modes)  # type: ignore[operator]

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

    @property
    def _recording(self) -> Recording:
        return read_recording(self.recording)

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
