"""The settings of MultiStAR: what they are, and which go together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from annotated_types import Interval

from envs.files import absolute_path
from envs.picture import Detail
from envs.raven import CONFIGURATIONS, Difficulty, Render, configuration_named
from envs.settings import Count, Several, check_instance
from evals.presentation import Modality, OptionOrder, Presentation
from evals.sealed import checked_seeds
from evals.suites.multistar.mseval import Convention
from evals.suites.multistar.play import ReplyForm
from evals.suites.multistar.prompts import Order, Style
from evals.suites.multistar.published_questions.store import read_questions
from evals.suites.multistar.puzzles import Prior, Subtask
from evals.suites.multistar.questions import QUESTION_ATTRIBUTES
from evals.suites.multistar.templates import Templates, load_templates

Attribute = Literal["number", "position", "shape", "color", "size"]


@dataclass(frozen=True)
class MultiStarSettings:
    """Staged questions on RAVEN matrices (MultiStAR), each answer scored by the probabilities of all choices.

    Attributes:
        subtask: ``chain`` (36 or 71 questions per puzzle that build on one another; scored by MSEval) or ``direct`` (up to
            25 or 38 questions per puzzle, each for itself).
        configurations: Folder names or paper titles of RAVEN configurations, or ``"all"``.
        attributes: Of number, position, shape, color and size, or ``"all"``.
        puzzles: Of each configuration; 100 for ``direct`` and 10 for ``chain`` if not given.
        answer_sets: ``i_raven`` (unbiased) or ``raven``: how the wrong candidates of the final question are made.
        priors: What a chain question is told of the questions before it: ``none``, what the ``model`` answered, or the
            ``truth``. Each prior is played on its own. The direct subtask knows none.
        styles: Of ``vanilla`` (plain words), ``structured`` (HTML) and ``document`` (a printed page as picture).
        reply: ``labels`` (exact probabilities of the choices' labels, in one prefill) or ``text`` (a written answer, for
            engines without label scores; no MSEval then) or ``described`` (the same after a sentence or two on what is seen,
            so that objects that are not there show).
        sweep: Ask each chain question again with every option of every question before it; MSEval with priors needs it.
        convention: How MSEval's weights are computed, see ``evals.suites.multistar.mseval.CONVENTIONS``.
        paper_literal: Tell earlier answers in the way the paper's Table 10 prints, slips included.
        problems: Folder of problems in RAVEN's official format, to be asked about in place of generated ones, or an index of
            such that ``raycade raven import`` wrote, which holds their digests.
        options: ``balanced`` (an option is offered as often as it is true, so that nothing but the picture tells the answer;
            questions that this cannot be done for do not count) or ``uniform`` (as published).
        variant: ``published``, or ``balanced``: options on rules of positions are drawn in whole sets, so that these questions
            too cannot be answered without the picture (docs/validity_multistar.md).
        wording: ``own``, or ``published``: the authors' questions and pictures in place of ours, from ``source``.
        source: Folder that ``raycade multistar import`` wrote.
        doubtful: Published questions whose keys are known to be wrong: ``left_out`` of scores, or ``scored`` as published.
        order: ``paper`` (earlier answers stand before the question) or ``question_first`` (after the question and its choices,
            so that the calls of a sweep share a longer prefix and take less time).
        changing: How many of number or position, shape, size and color (1 to 4) change along the rows of a puzzle; null as
            published, where rules are drawn. With this or ``values`` only the final question counts.
        values: How many values shape, size and color take at most (4 to 10); null for all.
        render: ``own`` (all sizes can be told apart, sharp at every scale) or ``official`` (pixel for pixel as RAVEN's
            published generator draws; what its pixels do not show does not count).
        scale: How many times larger panels and pages are drawn than the published 160 pixels a panel.
        modality: What stands where the picture belongs: ``picture``, ``text`` (its text twin: what it shows, in words) or
            ``both``.
        detail: How pictures are told in words: ``grid``, ``prose`` or ``json``.
        option_order: Whether options stand in the order in which they were drawn (``listed``) or in another one that the
            question decides (``shuffled``): who answers by place shows. Numbered panels stay.
        templates: Folder of prompts in place of the built-in ones (docs/multistar_prompts.md); empty for none.
        seeds: ``sealed:FILE`` draws games that only the secret of ``raycade challenge new`` tells, ``training:NUMBER`` a block
            of games to train on; empty for the open ones.
    """

    subtask: Subtask = "chain"
    configurations: str | Several[str] = "all"
    attributes: Literal["all"] | Attribute | Several[Attribute] = "all"
    puzzles: Count | None = None
    answer_sets: Literal["i_raven", "raven"] = "i_raven"
    priors: Prior | Several[Prior] = ("none", "model")
    styles: Style | Several[Style] = ("vanilla",)
    reply: ReplyForm = "labels"
    sweep: bool = True
    convention: str = "decoded"
    paper_literal: bool = False
    problems: str = ""
    options: Literal["balanced", "uniform"] = "balanced"
    variant: Literal["published", "balanced"] = "published"
    order: Order = "paper"
    changing: Annotated[int, Interval(ge=1, le=4)] | None = None
    values: Annotated[int, Interval(ge=4, le=10)] | None = None
    render: Render = "own"
    scale: Annotated[int, Interval(ge=1, le=4)] = 1
    wording: Literal["own", "published"] = "own"
    source: str = ""
    doubtful: Literal["left_out", "scored"] = "left_out"
    modality: Modality = "picture"
    detail: Detail = "grid"
    option_order: OptionOrder = "listed"
    templates: str = ""
    seeds: str = ""

    def __post_init__(self) -> None:
        check_instance("suite", self)
        every: dict[str, tuple[str, ...]] = {
            "configurations": tuple(CONFIGURATIONS),
            "attributes": QUESTION_ATTRIBUTES,
            "priors": (),
            "styles": (),
        }
        for name, known in every.items():
            value = getattr(self, name)
            values = (value,) if isinstance(value, str) else tuple(value)
            if values == ("all",) and known:
                values = known
            object.__setattr__(self, name, values)
        drawn = self.wording == "own" and not self.problems
        object.__setattr__(self, "seeds", checked_seeds(self.seeds, drawn=drawn))
        for setting in ("problems", "source", "templates"):
            value = getattr(self, setting)
            if value:
                # Runners may have another working directory.
                object.__setattr__(self, setting, str(absolute_path(value, f"suite.{setting}={value}")))

    @property
    def _configurations(self) -> list[str]:
        return [configuration_named(name).name for name in self.configurations]

    @property
    def presentation(self) -> Presentation:
        """How questions are told."""
        return Presentation(modality=self.modality, detail=self.detail, option_order=self.option_order)

    @cached_property
    def _templates(self) -> Templates:
        """Read once, and carried along to wherever the suite is sent: runners never see a file that changed meanwhile."""
        return load_templates(self.templates, described=self.reply == "described")

    @property
    def _difficulty(self) -> Difficulty | None:
        """None as published."""
        if self.changing is None and self.values is None:
            return None
        return Difficulty(self.changing, self.values)

    def _check(self) -> None:
        """Check what depends on other settings, on files, and on names that can be spelled in two ways."""
        try:
            names = [configuration_named(name).name for name in self.configurations]
        except ValueError as error:
            raise ValueError(f"suite.configurations: {error}") from error
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"suite.configurations names {', '.join(twice)} twice")
        self._check_source()
        self._check_templates()
        try:
            Convention.named(self.convention)
        except ValueError as error:
            raise ValueError(f"suite.convention: {error}") from error

    def _check_templates(self) -> None:
        try:
            _ = self._templates
        except ValueError as error:
            raise ValueError(f"suite.templates: {error}") from error
        if self.templates and self.order != "paper":
            raise ValueError("suite.order has no meaning with suite.templates, which decide the order: leave it out")

    def _check_source(self) -> None:
        if self.variant == "balanced" and self.options == "uniform":
            raise ValueError("suite.variant=balanced and suite.options=uniform exclude each other: leave one out")
        if self.problems and self._difficulty:
            raise ValueError("suite.changing and suite.values have no meaning with suite.problems: leave them out")
        if self.wording == "published":
            self._check_published()
        elif self.source:
            raise ValueError("suite.source is set, but suite.wording is own; set suite.wording=published")

    def _check_published(self) -> None:
        for setting in ("problems", "scale", "render", "modality", "variant", "changing", "values"):
            if getattr(self, setting) != getattr(type(self), setting):
                raise ValueError(f"suite.{setting} has no meaning with suite.wording=published: leave it out")
        if not self.source:
            raise ValueError("suite.wording=published needs suite.source, a folder of `raycade multistar import`")
        try:
            known = read_questions(self.source)
        except ValueError as error:
            raise ValueError(f"suite.source: {error}") from error
        if not any((self.subtask, name) in known for name in self._configurations):
            raise ValueError(
                f"suite.source={self.source} holds no {self.subtask} questions of {', '.join(self._configurations)}"
            )
