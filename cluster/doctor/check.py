"""What a check is: a name, what it tries, and a function that says how that went."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cluster.config.model import ModelSettings
from cluster.config.settings import ClusterSettings, Settings, load_settings
from cluster.models.hardware import model_of
from cluster.models.hub import TINY

Status = Literal["ok", "warn", "fail", "skipped"]
WIDTH = 80
TRIED = 34
"""Columns of what was tried."""


@dataclass(frozen=True)
class Need:
    """What the run asks of a machine, as far as its settings tell."""

    model: ModelSettings
    cluster: ClusterSettings
    tracker: Mapping[str, Any] | None
    run_dir: Path
    quick: bool = False
    """Start neither an engine nor Ray."""

    @property
    def engine(self) -> Mapping[str, Any]:
        """The section ``model.engine``; empty for built-in players."""
        return self.model.engine or {}

    @property
    def vllm(self) -> bool:
        """Whether the model is loaded by vLLM."""
        return self.engine.get("type") == "vllm"

    @property
    def hub_id(self) -> str:
        """The model's id on the hub; empty where it is a folder, built here, or no model of vLLM."""
        id = str(self.engine.get("model") or "")
        local = id == TINY or Path(id).is_dir()
        return id if self.vllm and not local else ""

    @property
    def uses_ray(self) -> bool:
        """Whether the run starts or joins Ray."""
        return self.cluster.ray and self.model.engine is not None

    @property
    def weights_gib(self) -> float:
        """GiB of the model's weights; 0 where they are not known, or tiny."""
        model = model_of(self.engine)
        return model.weights() if model is not None else 0.0

    def replicas_here(self, gpus: int) -> int:
        """Replicas that this machine is likely to host.

        Args:
            gpus: How many it has.
        """
        if self.model.engine is None:
            return 0
        needs = self.model.replica
        have, each = (gpus, needs.gpus) if needs.gpus else (os.cpu_count() or 1, needs.cpus)
        fitting = int(have / each) if each else 1
        asked = self.cluster.replicas if isinstance(self.cluster.replicas, int) else fitting
        return max(1, min(asked, fitting))


def need_of(overrides: Sequence[str], quick: bool) -> Need:
    """What a run with these overrides asks for.

    Raises:
        UserError: the settings are wrong.
    """
    settings: Settings = load_settings(overrides)
    return Need(settings.model, settings.cluster, settings.tracker, settings.run_dir.absolute(), quick)


@dataclass(frozen=True)
class Outcome:
    """How a check went."""

    status: Status
    found: str
    breaks: str = ""
    """What would fail in a run; empty where all is well."""
    mend: str = ""
    """What to do, as a command where there is one."""


def ok(found: str) -> Outcome:
    """All is well."""
    return Outcome("ok", found)


def skipped(why: str) -> Outcome:
    """Nothing to look at."""
    return Outcome("skipped", why)


@dataclass(frozen=True)
class Check:
    """One thing to be tried on a machine."""

    name: str
    tried: str
    """What it does, in at most ``TRIED`` columns."""
    look: Callable[[Need], Outcome]


@dataclass(frozen=True)
class Finding:
    """A check's outcome, on a machine."""

    name: str
    tried: str
    status: Status
    found: str
    breaks: str = ""
    mend: str = ""
    host: str = ""

    def to_json(self) -> dict[str, str]:
        """As plain values."""
        return dataclasses.asdict(self)

    def lines(self) -> list[str]:
        """For a terminal: one line, longer ones folded; below a fault what would fail, and the mend."""
        mark = {"ok": "ok", "warn": "WARN", "fail": "FAIL", "skipped": "-"}[self.status]
        first = f"{mark:<5}{self.tried:<{TRIED}} "
        lines = textwrap.wrap(self.found, WIDTH - len(first), break_on_hyphens=False) or [""]
        shown = [f"{first}{lines[0]}".rstrip(), *(" " * len(first) + line for line in lines[1:])]
        for word, text in (("breaks", self.breaks), ("mend", self.mend)):
            if text:
                lead = f"     {word + ':':<8}"
                shown += textwrap.wrap(
                    text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
                )
        return shown


def looked(check: Check, need: Need, host: str = "") -> Finding:
    """Make a check; an error of its own is a finding, too, and ends no other check."""
    try:
        outcome = check.look(need)
    except Exception as error:
        outcome = Outcome(
            "warn",
            f"the check itself failed: {type(error).__name__}: {first_words(str(error))}",
            "unknown: this was not looked at",
            "look at the message; the other checks go on",
        )
    return Finding(check.name, check.tried, outcome.status, outcome.found, outcome.breaks, outcome.mend, host)


def first_words(text: str, most: int = 160) -> str:
    """The first line that says something, cut at ``most`` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return line if len(line) <= most else line[: most - 3] + "..."


def gib(size: float) -> str:
    """A number of bytes, for people."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 100 * unit else f"{size / unit:,.0f} {name}"
    return f"{size:.0f} bytes"


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


def in_slurm() -> bool:
    """Whether this process belongs to a Slurm job."""
    return "SLURM_JOB_ID" in os.environ
