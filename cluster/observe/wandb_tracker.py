"""Weights & Biases: live statistics, then the scores with their intervals, tables, sampled episodes and artifacts."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import psutil
from annotated_types import Ge, Unit
from numpy.typing import NDArray

from cluster.observe.tracker import FinalResults
from envs.picture import render_description
from envs.printable import printable
from envs.settings import Index
from evals.analysis.samples import SampledTurn
from evals.summary.flat import flat_summary
from evals.tables import Table

PROGRESS = "episodes/finished"
"""The x-axis of live statistics: it goes on where an earlier session ended."""
LIVE = (
    *("episodes/*", "success/*", "requests/*", "tokens/*", "replicas/*", "slots/*", "slot_utilization/*"),
    *("seconds_per_request/*", "requests_per_second", "tokens_per_second", "prefix_cache_hit_rate", "spent"),
    *("gpu_hours", "gpu_cost", "replies/*", "stopping/*"),
)
LONGEST_TEXT = 20_000
"""Characters of a prompt or reply in the table of episodes."""
ABANDON_SECONDS = 5.0
"""How long the end of a run waits for W&B to let go of its dead process."""
LEDGER_FILES = ("config.yaml", "plan.parquet", "versions.json", "summary.json", "episodes/*.parquet")
REPORT_FILES = ("report.html", "report/*", "tables/*")

TURN_COLUMNS = (
    *("episode", "outcome", "error", "suite", "task", "level", "mode", "turn"),
    *("picture", "prompt", "reasoning", "reply", "decoded", "rule"),
)


class WandbTracker:
    """Offline by default. raycade never reads the API key; wandb does.

    The id of a W&B run derives from the plan, so that a resumed run, and a later `raycade upload`, continue it. Under a W&B
    sweep the agent chooses the id.
    """

    def __init__(
        self,
        project: str,
        mode: Literal["offline", "online"] = "offline",
        entity: str | None = None,
        group: str | None = None,
        job_type: str | None = "eval",
        name: str | None = None,
        notes: str | None = None,
        tags: Sequence[str] = (),
        episodes: Index = 24,
        artifacts: bool = True,
        finish_seconds: Annotated[float, Ge(0), Unit("seconds")] = 60.0,
    ) -> None:
        """Nothing is sent before ``start``.

        Args:
            project: W&B project.
            mode: Offline runs are sent later, by `wandb sync`.
            entity: User or team; null for the default one.
            group: Runs of one group are shown together; a multirun sets its own.
            job_type: Kind of run within its group.
            name: Of the run; null for the name of its folder.
            notes: A description.
            tags: Labels to filter by.
            episodes: How many episodes the table of samples has.
            artifacts: Whether to store the ledger and the report as artifacts.
            finish_seconds: How long the end of a run waits for W&B.
        """
        self.project, self.mode, self.entity = project, mode, entity
        self.name, self.episodes, self.artifacts = name, episodes, artifacts
        self.finish_seconds = finish_seconds
        self._about: dict[str, Any] = {"group": group, "job_type": job_type, "notes": notes, "tags": list(tags)}
        self._run: Any = None
        self._run_dir = Path()

    def start(self, run_dir: Path, run_id: str, config: dict[str, Any]) -> None:
        """Start or continue the W&B run."""
        import wandb

        # A service that the process before this one started may be dead, and holds that one's run if it is not.
        os.environ.pop("WANDB_SERVICE", None)
        in_sweep = bool(os.environ.get("WANDB_SWEEP_ID"))
        self._run_dir = run_dir
        self._run = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=self.mode,
            id=None if in_sweep else run_id,
            resume=None if in_sweep else "allow",
            name=self.name or run_dir.name,
            dir=str(run_dir),
            config=config,
            allow_val_change=True,
            settings=wandb.Settings(silent=True, console="off", init_timeout=60),
            **self._about,
        )
        self._run.define_metric(PROGRESS)
        for name in LIVE:
            self._run.define_metric(name, step_metric=PROGRESS)
        self._run.define_metric("checkpoint/*", step_metric="checkpoint/step")

    def log(self, numbers: Mapping[str, float]) -> None:
        """One step of the live statistics."""
        finished = numbers.get("episodes/done", 0) + numbers.get("episodes/failed", 0)
        self._run.log({**numbers, PROGRESS: finished})

    def finish(self, results: FinalResults) -> None:
        """Log the last statistics, tables and sampled episodes, set the summary, store artifacts, and close."""
        import wandb

        self.log(results.numbers)
        self._run.log({f"tables/{table.name}": _wandb_table(table) for table in results.tables if table.rows})
        if self.episodes:
            self._run.log({"episodes": _episode_table(results.samples(self.episodes))})
        self._run.summary.update(flat_summary(results.summary))
        if self.artifacts:
            self._store("ledger", LEDGER_FILES)
            self._store("report", REPORT_FILES)
        self._run.finish()
        wandb.teardown()  # waits for W&B's process, which may write the end of its file after it has answered ``finish``

    def abandon(self) -> None:
        """Kill W&B's process, for which this one would wait at its end; what it has written stays."""
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if child.name().startswith("wandb"):
                    child.kill()
        # Without that process, what W&B does when this one ends fails, and prints a traceback: it is done here, unheard.
        ending = threading.Thread(target=_end_unheard, name="end of W&B", daemon=True)
        ending.start()
        ending.join(ABANDON_SECONDS)

    def _store(self, kind: str, patterns: Sequence[str]) -> None:
        """The run's files of one kind as an artifact; parts of the ledger are not copied, since they never change."""
        import wandb

        files: list[Path] = []
        for pattern in patterns:
            files += [path for path in sorted(self._run_dir.glob(pattern)) if path.is_file()]
        if not files:
            return
        name = re.sub(r"[^\w.-]+", "-", f"{self._run_dir.resolve().name}-{kind}")
        artifact = wandb.Artifact(name, type=kind, metadata={"run": self._run.id})
        for path in files:
            policy = "immutable" if path.suffix == ".parquet" else "mutable"
            artifact.add_file(str(path), str(path.relative_to(self._run_dir)), policy=policy, skip_cache=True)
        self._run.log_artifact(artifact)


def _end_unheard() -> None:
    import wandb

    with contextlib.suppress(Exception, SystemExit):
        wandb.teardown()


def _wandb_table(table: Table) -> Any:
    import wandb

    columns, rows = table.wide()
    return wandb.Table(columns=columns, data=rows, allow_mixed_types=True)


def _episode_table(turns: Sequence[SampledTurn]) -> Any:
    import wandb

    table = wandb.Table(columns=list(TURN_COLUMNS), allow_mixed_types=True)
    for turn in turns:
        pixels = _side_by_side(turn.pictures)
        table.add_data(
            *(turn.episode, turn.outcome, _text(turn.error), turn.suite, turn.task, turn.level, turn.mode, turn.turn),
            *(None if pixels is None else wandb.Image(pixels), _text(turn.prompt), _text(turn.reasoning)),
            *(_text(turn.reply), None if turn.decoded is None else _text(turn.decoded), turn.rule),
        )
    return table


def _text(text: str) -> str:
    shown = printable(text[:LONGEST_TEXT])
    return shown if len(text) <= LONGEST_TEXT else f"{shown} [{len(text) - LONGEST_TEXT:,} more characters]"


def _side_by_side(descriptions: Sequence[str]) -> NDArray[np.uint8] | None:
    """The pictures of one turn in a row, on white; those that can no longer be rendered are left out."""
    pictures = []
    for description in descriptions:
        try:
            pictures.append(render_description(description)[1])
        except ValueError:
            continue
    if not pictures:
        return None
    height = max(picture.shape[0] for picture in pictures)
    padded = []
    for picture in pictures:
        below = height - picture.shape[0]
        padded.append(np.pad(picture, ((0, below), (0, 8), (0, 0)), constant_values=255))
    return np.concatenate(padded, axis=1)
