"""From Hydra's configuration to typed, checked settings; every error names the bad value and what would be right."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from hydra import compose, initialize_config_module
from hydra.errors import HydraException, OverrideParseException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cluster.engine import Engine, Sampling
from cluster.errors import UserError
from cluster.merge import shard_of
from cluster.model_player import Decoding
from cluster.router import Policy
from evals.contracts import Episode, Suite, stable_hash
from evals.players import BUILT_IN_PLAYERS

T = TypeVar("T")

OPERATIONAL = frozenset(
    {
        "api_key_env",
        "base_url",
        "block_size",
        "cache_tokens",
        "completion_price",
        "dtype",
        "enforce_eager",
        "fault_file",
        "gpu_memory_utilization",
        "kv_cache_gib",
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_tries",
        "mm_processor_cache_gb",
        "pipeline_parallel_size",
        "poison",
        "prompt_price",
        "requests_per_minute",
        "spend_cap",
        "start_seconds",
        "tensor_parallel_size",
        "timeout_seconds",
        "tokens_per_minute",
    }
)
"""Engine settings that change how fast answers come, not which: they are no part of an episode's identity."""

TARGETS = {"suite": "evals.", "engine": "cluster.engines.", "tracker": "cluster.tracker."}
"""Where classes named in a configuration may come from: a run directory's config must not be able to run anything else."""


@dataclass(frozen=True)
class ReplicaNeeds:
    """What one replica takes from its node or nodes."""

    gpus: float = 1.0
    cpus: float = 1.0
    nodes: int = 1
    """A replica over several nodes takes ``gpus`` and ``cpus`` on each of them."""


@dataclass(frozen=True)
class ModelSettings:
    """A model by name; without an engine it is one of the built-in players."""

    name: str
    engine: dict[str, Any] | None
    sampling: Sampling
    replica: ReplicaNeeds

    @property
    def identity(self) -> str:
        """Hash of what decides the model's answers."""
        answering = {key: value for key, value in (self.engine or {}).items() if key not in OPERATIONAL}
        return stable_hash(answering, dataclasses.asdict(self.sampling) if self.engine else None)

    def make_engine(self) -> Engine:
        """Build the engine, in the process that will host it."""
        make = instantiate(OmegaConf.create(self.engine), _partial_=True, _convert_="all")
        engine: Engine = make(sampling=self.sampling)
        return engine


@dataclass(frozen=True)
class ClusterSettings:
    """Where a run's replicas and runners live."""

    address: str | None = None
    replicas: int | Literal["fit"] = 1
    """How many, or as many as fit the cluster, nodes that join later included."""
    runners: int | Literal["auto"] = "auto"
    """Processes that play episodes; ``auto`` is one for every eight replicas."""
    policy: Policy = "sticky"
    commit_seconds: float = 2.0
    health_seconds: float = 5.0
    """Between health checks of a replica."""
    health_timeout: float = 60.0
    """A replica that does not answer for so long is replaced."""
    grace_seconds: float = 20.0
    """After a signal to stop, how long episodes that have begun may take to end."""

    def __post_init__(self) -> None:
        for name, word in (("replicas", "fit"), ("runners", "auto")):
            value = getattr(self, name)
            if value != word and (not isinstance(value, int) or value < 1):
                raise UserError(f"cluster.{name}={value}: must be a whole number from 1 up, or {word}")
        for name in ("commit_seconds", "health_seconds", "health_timeout", "grace_seconds"):
            if getattr(self, name) <= 0:
                raise UserError(f"cluster.{name}={getattr(self, name)}: must be above 0")
        if self.policy not in get_args(Policy):
            raise UserError(f"cluster.policy={self.policy}: must be one of {', '.join(get_args(Policy))}")


@dataclass(frozen=True)
class Settings:
    """Everything that a run was asked for, checked."""

    suite: Suite
    model: ModelSettings
    cluster: ClusterSettings
    tracker: dict[str, Any]
    decoding: Decoding
    plan: tuple[Episode, ...]
    run_dir: Path
    config: str
    """The resolved configuration as YAML."""


def load_settings(overrides: Sequence[str]) -> Settings:
    """Compose the configuration and check it.

    Raises:
        UserError: something in it is unknown or cannot be.
    """
    return settings_from_config(compose_config(overrides))


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Hydra's configuration for these overrides.

    Raises:
        UserError: an override names a group, file or key that does not exist, or is malformed.
    """
    logging.getLogger("hydra").setLevel(logging.ERROR)
    with initialize_config_module("conf", version_base="1.3"):
        try:
            config: DictConfig = compose("config", overrides=list(overrides))
        except OverrideParseException as error:
            raise UserError(f"{error.override}: cannot be read as KEY=VALUE: {_tidy(error)}") from error
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(_tidy(error) + _known_keys(str(error), overrides)) from error
    return config


def _known_keys(message: str, overrides: Sequence[str]) -> str:
    """For a key that does not exist: what does, in the same section."""
    found = re.match(r"Could not override '([\w.]+)\.\w+'", message)
    if not found:
        return ""
    chosen = [override for override in overrides if "." not in override.partition("=")[0]]
    section = OmegaConf.select(compose("config", overrides=chosen), found[1])
    return f"\n{found[1]} has: {', '.join(map(str, section))}" if isinstance(section, DictConfig) else ""


def settings_from_config(config: DictConfig) -> Settings:
    """Check a composed configuration and plan its episodes.

    Raises:
        UserError: see ``load_settings``.
    """
    try:
        plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise UserError(_tidy(error)) from error
    plain.pop("hydra", None)
    suite = make_suite(plain["suite"])
    model = _model(plain["model"])
    decoding = plain["decoding"]
    if decoding not in ("free", "choice"):
        raise UserError(f"decoding={decoding}: must be free or choice")
    tracker = plain.get("tracker") or {}
    _check_targets("tracker", tracker)
    plan = shard_of(_plan(suite, model, decoding, plain["baselines"] or []), plain["shard"])
    if not plan:
        raise UserError(f"suite={suite.name}: these settings plan no episode")
    name = f"{suite.name}-{model.name}-{stable_hash(sorted(episode.id for episode in plan))[:8]}"
    return Settings(
        suite=suite,
        model=model,
        cluster=_section("cluster", ClusterSettings, plain["cluster"]),
        tracker=tracker,
        decoding=decoding,
        plan=plan,
        run_dir=Path(plain["run_dir"] or Path("runs") / name),
        config=OmegaConf.to_yaml(OmegaConf.create(plain)),
    )


def make_suite(config: dict[str, Any]) -> Suite:
    """The suite that a configuration's ``suite`` section describes.

    Raises:
        UserError: it does not exist or refuses its settings.
    """
    if not isinstance(config, dict) or "_target_" not in config:
        raise UserError("suite: this section names no class (_target_)")
    _check_targets("suite", config)
    try:
        suite: Suite = instantiate(OmegaConf.create(config), _convert_="all")
    except Exception as error:
        raise UserError(f"suite: {_cause(error)}") from error
    return suite


def _model(config: dict[str, Any]) -> ModelSettings:
    name, engine = config.get("name"), config.get("engine")
    if not name:
        raise UserError("model: this section has no name")
    if engine is None and name not in BUILT_IN_PLAYERS:
        raise UserError(f"model={name}: has no engine; only {' and '.join(BUILT_IN_PLAYERS)} do without one")
    if engine is not None and name in BUILT_IN_PLAYERS:
        raise UserError(f"model={name}: this name belongs to a built-in player; give the model another one")
    _check_targets("engine", engine or {})
    sampling = {**(config.get("sampling") or {})}
    sampling["stop"] = tuple(sampling.get("stop") or ())
    return ModelSettings(
        name,
        engine,
        _section("model.sampling", Sampling, sampling),
        _section("model.replica", ReplicaNeeds, config.get("replica") or {}),
    )


def _plan(suite: Suite, model: ModelSettings, decoding: Decoding, baselines: Sequence[str]) -> tuple[Episode, ...]:
    unknown = [name for name in baselines if name not in BUILT_IN_PLAYERS]
    if unknown:
        raise UserError(f"baselines={list(baselines)}: unknown {unknown}; there are {sorted(BUILT_IN_PLAYERS)}")
    players = {model.name: stable_hash(model.identity, decoding) if model.engine else ""}
    players |= dict.fromkeys(baselines, "")
    try:
        episodes = suite.plan()
    except ValueError as error:
        raise UserError(f"suite: {error}") from error
    return tuple(episode.assigned(name, identity) for name, identity in players.items() for episode in episodes)


def _section(name: str, cls: type[T], values: dict[str, Any]) -> T:
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        raise UserError(f"{name}: unknown key {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return cls(**values)


def _check_targets(section: str, config: Any) -> None:
    if isinstance(config, dict):
        target = config.get("_target_")
        if target is not None and not str(target).startswith(TARGETS[section]):
            raise UserError(
                f"{section}: _target_={target} is not allowed; it must be a class below {TARGETS[section]}*"
            )
        for value in config.values():
            _check_targets(section, value)
    elif isinstance(config, list):
        for value in config:
            _check_targets(section, value)


def _cause(error: BaseException) -> str:
    """The innermost cause, as Hydra wraps what a constructor raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def _tidy(error: BaseException) -> str:
    """Hydra's own words without their hints about Hydra's flags."""
    lines = [line.strip() for line in str(error).splitlines()]
    hidden = (
        "Set the environment variable",
        "full_key:",
        "object_type=",
        "reference_type=",
        "To append to your config",
    )
    return "\n".join(line for line in lines if line and not line.startswith(hidden))
