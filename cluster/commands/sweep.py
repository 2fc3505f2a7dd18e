"""Hydra multirun: runs in sequence, or wherever the chosen launcher starts them (``hydra/launcher=slurm``)."""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from cluster.commands.run import code_of, run, show_results
from cluster.config.compose import compose_config, offer_plugins, with_new_keys
from cluster.config.settings import check_config, check_pictures, settings_from_config
from cluster.errors import CONTINUE, RUN_FAILED, RunFailedError, UserError, cannot_write
from envs.printable import printable
from evals.types import stable_hash

LAUNCHERS = ("hydra._internal.core_plugins.basic_launcher", "hydra_plugins.hydra_submitit_launcher.submitit_launcher")
"""Loggers that report which runs are launched, and where their output goes."""


@dataclass(frozen=True)
class Outcome:
    """The result of one run, possibly on another machine."""

    overrides: tuple[str, ...]
    code: int
    where: str = ""
    """Its run directory."""
    error: str = ""
    stopped: bool = False
    """Whether a stop signal ended it, or the sweep before it began."""


def multirun(overrides: Sequence[str]) -> int:
    """Run every combination of the overrides' comma-separated values; returns the worst exit code.

    Raises:
        UserError: see ``play_all``.
    """
    return max((outcome.code for outcome in play_all(overrides)), default=0)


def play_all(overrides: Sequence[str]) -> list[Outcome]:
    """Run every combination, and say what became of each.

    A failed run does not stop the others; a stop signal does, on this machine.

    Raises:
        UserError: the overrides name something that does not exist, or hold a secret.
    """
    for combination in _combinations(overrides):  # before Hydra stores all overrides, secrets included
        check_config(compose_config(combination))
        offer_plugins(combination, overrides)  # to Hydra, which composes each of them once more
    _announce()
    outcomes = _launch(overrides)
    print("\nmultirun:", file=sys.stderr)
    for name, outcome in zip(_names_of(outcomes), outcomes, strict=True):
        print(printable(f"  {name}: exit code {outcome.code}: {outcome.error or outcome.where}"), file=sys.stderr)
    return outcomes


def _names_of(outcomes: Sequence[Outcome]) -> list[str]:
    """What each run was given that not all of several were given."""
    shared = set[str]()
    if len(outcomes) > 1:
        shared.update(set(outcomes[0].overrides).intersection(*(outcome.overrides for outcome in outcomes)))
    names = []
    for outcome in outcomes:
        own = [override for override in outcome.overrides if override not in shared]
        names.append(" ".join(own) or "run")
    return names


def _combinations(overrides: Sequence[str]) -> Iterator[list[str]]:
    """All combinations of the overrides' comma-separated values, without Hydra's own overrides.

    Raises:
        UserError: an override cannot be read.
    """
    several = []
    for each in _parsed(overrides):
        # Hydra's own say how a multirun works, and not what is played.
        group = each.key_or_group or ""
        of_hydra = each.is_hydra_override() or group.startswith("hydra/")
        if not of_hydra:
            several.append(_choices(each))
    for combination in itertools.product(*several):
        yield list(combination)


def _parsed(overrides: Sequence[str]) -> list[Override]:
    try:
        found: list[Override] = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise UserError(f"{error.override.partition('=')[0]}: cannot be read as KEY=VALUE") from error
    except RecursionError as error:
        raise UserError("an override is nested too deep to be read") from error
    return found


def _choices(override: Override) -> list[str]:
    """An override once for each of its values."""
    if not override.is_sweep_override():
        return [override.input_line or ""]
    key = override.get_key_element()
    try:
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:  # glob(...): which files there are is known to Hydra alone
        raise UserError(f"{override.input_line}: its values must be named, as in {key}=a,b") from error


def _launch(overrides: Sequence[str]) -> list[Outcome]:
    """Hydra's own multirun; ``hydra.main`` does the same but discards the results of the runs."""
    version.setbase("1.3")
    hydra = Hydra.create_main_hydra2("raycade", create_config_search_path("pkg://conf"))
    if _is_on_slurm(overrides):
        with contextlib.suppress(ModuleNotFoundError):  # submitit is not installed: Hydra says so
            from cluster.launch.slurm_queue import watch_the_queue

            watch_the_queue()
    try:
        batches = hydra.multirun(
            "config", Player(_group(overrides)), with_new_keys(overrides), with_log_configuration=False
        )
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_with_remedy(str(error))) from error
    except OSError as error:  # Hydra's own: what befalls a run is raised by its result, below
        folder = error.filename or "the folder of the sweep, multirun/ in the current one unless it is set"
        raise cannot_write(f"hydra.sweep.dir: {folder}", error) from error
    except Exception as error:
        if not type(error).__module__.startswith("submitit"):
            raise
        # A job that Slurm ended, or that could not be submitted: submitit names the job and quotes its log.
        others = "other jobs of this multirun go on; `raycade list` shows how far they are"
        return [Outcome((), RUN_FAILED, error=f"{error}\n{others}")]
    finally:
        GlobalHydra.instance().clear()
    outcomes: list[Outcome] = []
    for batch in batches:
        outcomes += [job.return_value for job in batch]
    return outcomes


def _is_on_slurm(overrides: Sequence[str]) -> bool:
    """Whether Slurm runs the jobs: ``hydra/launcher=slurm``, or submitit's own ``submitit_slurm``."""
    launchers = [each.value() for each in _parsed(overrides) if each.key_or_group == "hydra/launcher"]
    return any(str(launcher).endswith("slurm") for launcher in launchers)


def _group(overrides: Sequence[str]) -> str:
    """What a tracker calls all runs of this multirun: the same whenever it is started again."""
    return f"multirun-{stable_hash(sorted(overrides))[:8]}"


class Player:
    """Plays runs in sequence, in the process and on the machine that the launcher chose."""

    def __init__(self, group: str) -> None:
        """No run has been stopped yet; a tracker that knows groups and has none set gets ``group``."""
        self._stopped = False
        self._group = group

    def __call__(self, config: DictConfig) -> Outcome:
        """Play one run, unless an earlier one in this process was stopped: a stop signal is meant for the whole sweep."""
        overrides = tuple(each.removeprefix("++") for each in HydraConfig.get().overrides.task)
        if self._stopped:
            not_played = "not played: the sweep was stopped; run the same command again to resume"
            return Outcome(overrides, CONTINUE, error=not_played, stopped=True)
        try:
            if config.tracker and config.tracker.get("group", "unknown") is None:
                config.tracker.group = self._group
            settings = settings_from_config(config)
            check_pictures(settings)
            code, results = run(settings)
        except (UserError, RunFailedError) as error:
            print(f"error: {printable(str(error))}", file=sys.stderr)
            return Outcome(overrides, code_of(error), error=str(error))
        self._stopped = code == CONTINUE
        show_results(settings, results)
        return Outcome(overrides, code, str(settings.run_dir), stopped=self._stopped)


def _announce() -> None:
    handler = logging.StreamHandler()
    for name in LAUNCHERS:
        logger = logging.getLogger(name)
        if logger.handlers:  # an earlier multirun of this process announces its jobs already
            continue
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)


def _with_remedy(error: str) -> str:
    if "Could not find 'hydra/launcher/submitit" in error:
        return f"{error}\nthe submitit launcher is not installed: .venv/bin/python -m pip install -e '.[slurm]'"
    return error
