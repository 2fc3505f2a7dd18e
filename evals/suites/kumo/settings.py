"""The settings of KUMO: what they are, and which go together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from envs.kumo import BUDGET, DIFFICULTIES, Domain, available_domains, structured_sources
from envs.kumo.published import benchmark_domains, open_domain
from envs.kumo.search import check_size
from envs.kumo.world import World
from envs.settings import Count, Index, Several, check_instance
from envs.suggest import did_you_mean
from evals.presentation import History, OptionOrder, PastReasoning, Presentation
from evals.sealed import checked_seeds
from evals.suites.kumo.levels import check_sizes, is_level, level_of, size_of
from evals.suites.kumo.presentation import DEFAULT, check_presentation
from evals.suites.kumo.searched_game import BookChoice, check_once, domain_of, drawn_from
from evals.suites.kumo.wording import PromptStyle

MAIN_DOMAINS = ("medical", "chemical", "music", "education", "fantasy")


@dataclass(frozen=True)
class KumoSettings:
    """Games of elimination (KUMO): find the one valid truth among candidates by choosing tests.

    Attributes:
        domains: Names of domains that come with raycade, or paths of domain files; ``"all"``, alone or among others,
            stands for all that come with it. ``NAME@in`` and ``NAME@out`` are the parts of a domain's train/test split, which
            have no truth and no test in common.
        difficulties: Of ``easy`` (4 truths, 6 actions), ``hard`` (12 truths, 16 actions), and sizes such as ``6x8``.
        truths: Truths of a task, together with ``actions``: tasks of this size instead of those of ``difficulties``, up to
            where the optimal search ends (13 truths, 18 actions). Their level is called ``8x12``, say.
        actions: Actions of a task.
        tasks: A task file, as ``raycade kumo generate`` writes it or as published, to play tasks from instead of generating
            them: those of the domains and difficulties above. Published files need the one domain that they belong to.
        source: A folder that ``raycade kumo import`` wrote: its tasks of the domains (by name, or ``all``) and difficulties
            above are played.
        tasks_per_domain: Tasks of each domain and difficulty; of a task file the first so many.
        repeats: Runs of each task.
        seed: Another seed gives other tasks, and other drawn or permuted domains.
        valid_truths: Truths of a task that are right, any of which may be named (the paper's N_valid).
        structure: Domains drawn by chance instead of ``domains``: ``{density: .12, overlap: .2, domains: 5}``, say, with the
            settings of ``envs.kumo.structure.Structure``; or ``{names: permuted}``: those of ``domains`` with the names
            of their truths exchanged in the rules, so that knowledge of the world misleads.
        world: Games about the real world, the same ones in three versions, in which what the tests show is true of the right
            answer (``agree``), any that the book leaves possible (``ignore``) or false of it (``contradict``); null for games
            drawn as in the paper. Needs domains with a table of what is true.
        tell_world: Whether the prompt says whether what the tests show agrees with the real world.
        numeric: Share of the tests that show numbers, as far as domains have such tests (published easy tasks: 0.3); null
            for whatever comes.
        give_aways: Whether to allow tasks in which no action can rule out the valid truth, which tells the answer
            before the first test (19 % of the published easy tasks).
        book: How the guidebook is written: ``prose`` (everything defined, rule-outs in sentences), ``long`` (of twice as many
            truths and tests), ``noisy`` (irrelevant sentences in between), ``table`` or ``symbolic``; ``published``: that
            of the imported benchmark, which has no definitions for the first three; ``written``: that of the task file
            (``raycade kumo lab make``).
        prompt: ``own``, or ``published``: the words of the imported benchmark, all of them.
        malformed: Whether malformed tasks of an imported benchmark are ``scored`` as the published code does, or
            ``left_out`` of the tables; they are played in any case.
        transcripts: The checkout of the published repository: its models then are players that need no engine, by the
            names of their folders (``baselines=[deepseek-v3]``), and reply what they replied then.
        decoder: ``lenient`` reads replies as a person would and reminds once after one that names nothing; ``strict`` is
            the published parser, and the first reply that it cannot read ends the run.
        max_steps: Replies after which a run without prediction has failed (50 in the paper); players are told. Perfect play
            (``oracle``, ``regret``) tests until one truth is left, also where fewer are allowed.
        hard_regret: Whether to search hard tasks, too, for what each test lost (seconds of a core for each game).
        history: Earlier rounds that a question shows: ``all``, ``none`` or the last so many.
        past_reasoning: Whether earlier replies are ``kept`` as they were written, or ``dropped`` but for what they chose.
        feedback: ``changed`` tells with each outcome which candidates it rules out and which are left; or ``none``.
        option_order: Whether candidates and tests are ``listed`` in the task's order, or ``shuffled``.
        tell_budget: Whether the prompt tells how many rounds a game may take.
        list_actions: Whether the prompt lists the tests, which the guidebook names as well.
        seeds: ``sealed:FILE`` draws games that only the secret of ``raycade challenge new`` tells, ``training:NUMBER`` a block
            of games to train on; empty for the open ones.
    """

    domains: str | Several[str] = MAIN_DOMAINS
    difficulties: str | Several[str] = tuple(DIFFICULTIES)
    truths: Count | None = None
    actions: Count | None = None
    tasks: str | None = None
    source: str | None = None
    tasks_per_domain: Count = 50
    repeats: Count = 5
    seed: Index = 0
    valid_truths: Count = 1
    structure: Mapping[str, Any] | None = dataclasses.field(default=None, hash=False)
    world: World | None = None
    tell_world: bool = True
    numeric: float | None = None
    give_aways: bool = False
    book: BookChoice = "prose"
    prompt: PromptStyle = "own"
    malformed: Literal["scored", "left_out"] = "scored"
    transcripts: str | None = None
    decoder: Literal["lenient", "strict"] = "lenient"
    max_steps: Count = BUDGET
    hard_regret: bool = False
    history: History = "all"
    past_reasoning: PastReasoning = DEFAULT.past_reasoning
    feedback: Literal["none", "changed"] = "none"
    option_order: OptionOrder = DEFAULT.option_order
    tell_budget: bool = True
    list_actions: bool = True
    seeds: str = ""

    def __post_init__(self) -> None:
        check_instance("suite", self)
        drawn = self.source is None and self.tasks is None
        object.__setattr__(self, "seeds", checked_seeds(self.seeds, drawn=drawn))
        object.__setattr__(self, "difficulties", _listed(self.difficulties))
        domains: list[str] = []
        for name in _listed(self.domains):
            if name != "all":
                domains.append(name)
            elif self.source:
                domains += benchmark_domains(self.source)
            else:
                domains += available_domains()
        object.__setattr__(self, "domains", tuple(domains))

    @cached_property
    def presentation(self) -> Presentation:
        """How the games are told."""
        return Presentation(
            history=self.history,
            past_reasoning=self.past_reasoning,
            feedback=("changed",) if self.feedback == "changed" else (),
            option_order=self.option_order,
            tell_budget=self.tell_budget,
            list_actions=self.list_actions,
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """The domains that are played, as ``envs.kumo.domain_from`` reads them."""
        if self.structure is None:
            return tuple(self.domains)
        return structured_sources(self.structure, self.domains, self._drawn_from)

    @property
    def _drawn_from(self) -> int:
        """The seed of tasks and domains: the setting's, or one that a secret makes of it."""
        return drawn_from(self.seeds, self.seed)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that are played: the difficulties, or the one of the size chosen."""
        if self.truths is None or self.actions is None:
            return tuple(self.difficulties)
        return (level_of(self.truths, self.actions),)

    def _domain(self, source: str) -> Domain:
        return open_domain(self.source, source).domain if self.source else domain_of(source)

    def _check(self) -> None:
        for difficulty in self.difficulties:
            if not is_level(difficulty):
                raise ValueError(
                    f"suite.difficulties: no difficulty {difficulty!r}; there are {', '.join(DIFFICULTIES)}, and sizes such "
                    f"as 6x8{did_you_mean(difficulty, DIFFICULTIES)}"
                )
        check_sizes(self.difficulties)
        check_presentation(self.presentation, self.prompt)
        if (self.truths is None) != (self.actions is None):
            raise ValueError("suite.truths and suite.actions must be given together")
        for level in self.levels:
            check_size(*size_of(level))
        if self.tasks and self.source:
            raise ValueError("suite.tasks and suite.source cannot both be given: name one")
        if self.book == "written" and not self.tasks:
            raise ValueError(
                "suite.book=written needs suite.tasks, a task file with books, as raycade kumo lab make leaves one"
            )
        self._check_generator()
        self._check_source()
        check_once(self._domain(source).name for source in self.sources)

    def _check_generator(self) -> None:
        """Settings of the generator, beside tasks that it does not make freely."""
        # Tasks that were made before are played as they are: no setting of the generator applies to them.
        of_generator = {"seed": 0, "valid_truths": 1, "structure": None, "world": None, "numeric": None}
        if self.tasks:
            self._check_unset(of_generator, "for the tasks of a file (suite.tasks)")
        if self.source:
            self._check_unset(of_generator, "for an imported benchmark (suite.source)")
        # A world is built for one valid truth, on domains as they are.
        if self.world:
            self._check_unset({"valid_truths": 1, "structure": None, "numeric": None}, f"with suite.world={self.world}")
        elif not self.tell_world:
            raise ValueError("suite.tell_world=false needs suite.world: other prompts do not speak of the real world")

    def _check_unset(self, defaults: Mapping[str, Any], because: str) -> None:
        for setting, default in defaults.items():
            if getattr(self, setting) != default:
                raise ValueError(f"suite.{setting} cannot be chosen {because}")

    def _check_source(self) -> None:
        if self.source and self.book not in ("published", "table", "symbolic"):
            raise ValueError(
                f"suite.book={self.book}: the imported benchmark has no definitions; choose from published, table, symbolic"
            )
        needs = {
            "book": self.book == "published",
            "prompt": self.prompt == "published",
            "transcripts": self.transcripts,
        }
        for setting, chosen in needs.items():
            if chosen and not self.source:
                raise ValueError(
                    f"suite.{setting}={getattr(self, setting)} needs suite.source, a folder made by raycade kumo import"
                )
        if self.transcripts and (self.prompt, self.book, self.decoder) != ("published", "published", "strict"):
            raise ValueError(
                "suite.transcripts: the models replied to suite.prompt=published suite.book=published, and were read by "
                "suite.decoder=strict; choose these"
            )


def _listed(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
