"""The stages of ``raycade kumo lab make``, each played as a run of its own in the pipeline's folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster.commands.run import Play, code_of, run
from cluster.config.compose import compose_config
from cluster.config.model import ModelSettings, make_model
from cluster.config.plan import make_suite
from cluster.config.settings import check_config, load_settings
from cluster.console import show, warn
from cluster.errors import CONTINUE, RunFailedError, UserError
from cluster.storage.stored_run import Run, read_runs
from envs.printable import printable
from evals.suites.kumo.lab.pipeline.folder import Folder, Stage
from evals.suites.kumo.lab.pipeline.items import EXPECTED_REVISIONS, Estimate, sample_items
from evals.suites.kumo.lab.pipeline.saving import save_accepted
from evals.suites.kumo.lab.pipeline.suite import KumoPipeline
from evals.suites.kumo.lab.pipeline.tables import estimate_table, joined, stage_table
from evals.tables import Table

STAGES: dict[str, tuple[Stage, ...]] = {
    "propose": ("propose",),
    "write": ("configure", "write"),
    "check": ("check",),
    "revise": ("revise",),
    "make": ("propose", "configure", "write", "check", "revise"),
}
REFUSED_SHOWN = 10
_NOTHING = {
    "configure": "there are no proposals; raycade kumo lab propose comes first",
    "write": "there are no domains",
    "check": "no book is unchecked; raycade kumo lab write or revise comes first",
    "revise": "no checked book is refused; raycade kumo lab check comes first",
}


def run_command(name: str, folder: Path, overrides: Sequence[str], estimate: bool, play: Play | None = None) -> int:
    """Run a command of ``cluster.suite_commands.kumo.pipeline``; returns the exit code.

    Args:
        name: Of the command.
        folder: See ``evals.suites.kumo.lab.pipeline.folder``.
        overrides: As of ``raycade run``, for all stages.
        estimate: Ask nothing, say only what asking would take.
        play: How a stage is played; by default with the cluster.

    Raises:
        UserError: an override is wrong, or the folder holds something else.
    """
    _check_given(folder, overrides)
    try:
        pipeline = _Pipeline(Folder(folder), list(overrides), play)
        # ``make`` plays all stages, and says first what they will take.
        if estimate or name == "make":
            estimates = [pipeline.estimate(stage) for stage in STAGES[name]]
            pipeline.show_estimates(estimates)
        if estimate:
            return 0
        return pipeline.go(name)
    except RunFailedError as error:
        warn(f"{error}. What was answered is kept; run the same command again to resume")
        return code_of(error)
    except ValueError as error:  # of the folder's files
        raise UserError(str(error)) from error


def _check_given(folder: Path, overrides: Sequence[str]) -> None:
    for override in overrides:
        if "=" not in override:
            raise UserError(f"{override!r}: overrides have the form KEY=VALUE")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; name a folder")


class _Pipeline:
    def __init__(self, folder: Folder, overrides: list[str], play: Play | None) -> None:
        self.folder, self.overrides, self.play = folder, overrides, play
        config = check_config(compose_config(self._overrides("propose", 1)))
        suite = make_suite(config["suite"])
        if not isinstance(suite, KumoPipeline):
            raise UserError("suite: the pipeline's commands choose the suite themselves; leave suite=... out")
        self.suite = suite
        self.model: ModelSettings = make_model(config["model"], config)
        if self.model.engine is None:
            raise UserError(f"model={self.model.name}: writes no text; choose a model that has an engine")

    # --- going on ---

    def go(self, name: str) -> int:
        """Play what a command has to do, and say what came of it."""
        played: list[Table] = []
        for suite in self._steps(name):
            if name != "make":
                self.show_estimates([self._left(suite)])
            code = self._play(suite)
            played.append(self._outcome(suite))
            if code:
                warn("stopped early; run the same command again to resume")
                break
        else:
            code = 0
        if played:
            show([joined(played)])
        print(f"{self.folder.path}: {self.folder.holdings()}")
        return code

    def _outcome(self, suite: KumoPipeline) -> Table:
        run = Run(self.folder.run_dir(suite.stage, suite.round))
        return read_runs([run], lambda: stage_table(suite.name, run.data.of(suite.name)))

    def _steps(self, name: str) -> Iterator[KumoPipeline]:
        """The stages that have something to do, each with its items, known once those before are played."""
        for stage, number in self._order(name):
            if self.suite.domains and stage in ("propose", "configure"):
                continue  # books for domains that there are
            suite = self._at(stage, number)
            if suite.items:
                yield suite
            elif name != "make" or stage in ("configure", "write"):
                warn(f"{stage}: nothing to do: {_NOTHING[stage]}")

    def _order(self, name: str) -> Iterator[tuple[Stage, int]]:
        if name != "make":
            for stage in STAGES[name]:
                yield stage, self._round(stage)
            return
        for stage in STAGES["make"][:3]:
            yield stage, 1
        # Each further round revises what the check of the one before refused.
        yield "check", 1
        for number in range(2, self.suite.rounds + 1):
            yield "revise", number - 1
            yield "check", number

    def _play(self, suite: KumoPipeline) -> int:
        code, results = run(load_settings(self._overrides(suite.stage, suite.round)), self.play)
        if results is not None:
            results.warn()
        done = self.folder.run(suite.stage, suite.round)
        if code:
            return code
        if done is None or not done.complete:
            return CONTINUE
        saved = save_accepted(self.folder, suite)
        for reason in saved.refused[:REFUSED_SHOWN]:
            print(f"{suite.stage}: refused {printable(reason)}")
        more = len(saved.refused) - REFUSED_SHOWN
        if more > 0:
            print(f"{suite.stage}: refused {more} more")
        for name in saved.differing:
            warn(f"{self.folder.path / name}: is there with other contents, and is left as it is")
        return 0

    # --- before ---

    def estimate(self, stage: Stage) -> Estimate:
        """Of what there is to do or, where other stages come first, of as much as these can yield."""
        suite = self._at(stage, self._round(stage))
        if suite.domains and stage in ("propose", "configure"):  # they make domains, and there are domains
            return Estimate.of(stage, [], suite.repairs)
        # Once the books are written, the items of the later stages are known too.
        written = self.folder.run("write")
        all_written = written is not None and written.complete
        if suite.items or stage == "propose" or all_written:
            return self._left(suite)
        # Each domain comes with its books; each round revises the share that was refused.
        books = self._domains_expected(suite) * suite.tasks_per_domain
        shares = [EXPECTED_REVISIONS**number for number in range(suite.rounds)]
        counts = {
            "configure": suite.proposals,
            "write": books,
            "check": books * sum(shares),
            "revise": books * sum(shares[1:]),
        }
        sample = sample_items(stage, suite.difficulty, suite.truths, suite.actions)
        return Estimate.of(stage, sample, suite.repairs, counts[stage])

    def _domains_expected(self, suite: KumoPipeline) -> int:
        """As many domains as there are by now, or proposals for them; else as many as will be proposed."""
        there = len(suite.domains) or len(self.folder.domains())
        return there or len(self.folder.proposals()) or suite.proposals

    def _left(self, suite: KumoPipeline) -> Estimate:
        """Of the items that are not in the ledger."""
        played = self.folder.run(suite.stage, suite.round)
        done = {row["index"] for row in played.rows} if played else set()
        return Estimate.of(suite.stage, [each for each in suite.items if each.number not in done], suite.repairs)

    def show_estimates(self, estimates: Sequence[Estimate]) -> None:
        """Print what stages are expected to take, those without items left out."""
        left = [each for each in estimates if each.items]
        engine: dict[str, Any] = self.model.engine or {}
        prompt, completion = (float(engine.get(name) or 0) for name in ("prompt_price", "completion_price"))
        if left:
            show([estimate_table(left, prompt, completion, self.model.sampling.max_tokens)])
        else:
            print("nothing is left to ask")

    # --- settings ---

    def _round(self, stage: Stage) -> int:
        return self.folder.round(stage) if stage in ("check", "revise") else 1

    def _at(self, stage: Stage, number: int) -> KumoPipeline:
        return dataclasses.replace(self.suite, stage=stage, round=number)

    def _overrides(self, stage: Stage, number: int) -> list[str]:
        folder, run_dir = _quoted(self.folder.path), _quoted(self.folder.run_dir(stage, number))
        ours = [f"suite.folder={folder}", f"suite.stage={stage}", f"suite.round={number}", f"run_dir={run_dir}"]
        return ["suite=kumo_pipeline", *self.overrides, *ours]


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("\\", "\\\\").replace("'", "\\'") + "'"
