"""From a composed configuration to typed, checked settings; every error names the bad value and what would be right."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from cluster.config.compose import ROOT_KINDS, as_written, compose_config, plain_values
from cluster.config.contents import missing_path
from cluster.config.model import ModelSettings, make_model
from cluster.config.plan import make_suite, players_of, whole_plan
from cluster.config.registry import ask_class, check_section
from cluster.config.sections import checked_section, made_section
from cluster.engines.api_secrets import check_no_keys
from cluster.engines.spend import Price
from cluster.errors import UserError
from cluster.models.hub import check_name
from cluster.runner.model_player import Decoding
from cluster.runner.router import Policy
from cluster.storage.shard import read_shard, shard_of
from envs.settings import Count, Seconds, shown
from envs.suggest import did_you_mean
from evals.ledger.columns import ledger_schema
from evals.stopping.outcomes import measurable
from evals.stopping.rules import StopRule
from evals.suite import Suite, check_openings, ledger_columns
from evals.types import Episode, stable_hash

LONGEST_NAME = 60
"""Characters of a run's name."""


@dataclass(frozen=True)
class ClusterSettings:
    """Where and how replicas and runners are started."""

    ray: bool = True
    """False: the run's one engine lives in the driver's process (``cluster=inline``)."""
    address: str | None = None
    """Of a Ray cluster, HOST:PORT or ``auto`` on one of its nodes; null starts Ray on this machine."""
    replicas: Count | Literal["fit"] = 1
    """How many, or as many as fit the cluster, nodes that join later included."""
    runners: Count | Literal["auto"] = "auto"
    """Processes that play episodes; ``auto`` is one for every eight replicas."""
    policy: Policy = "sticky"
    """How turns find their replica."""
    commit_seconds: Seconds = 2.0
    """Between commits to the ledger; up to five times as much in runs of more than 100,000 episodes."""
    health_seconds: Seconds = 5.0
    """Between health checks of a replica."""
    health_timeout: Seconds = 60.0
    """A replica that is unresponsive for this long is replaced."""
    gpu_hour_price: Price = 0.0
    """Price of one GPU for an hour, so that runs say what their GPUs cost; 0 for unknown."""
    grace_seconds: Seconds = 20.0
    """How long running episodes may take to finish after a stop signal."""
    live: bool = True
    """Keep recent turns of some running episodes in ``live/`` of the run directory, for those who look on."""


@dataclass(frozen=True)
class Settings:
    """All settings of a run, checked."""

    suite: Suite
    model: ModelSettings
    cluster: ClusterSettings
    tracker: dict[str, Any] | None
    """The tracker's section, checked; None for no tracker."""
    decoding: Decoding
    plan: tuple[Episode, ...]
    run_dir: Path
    config: str
    """The resolved configuration as YAML."""
    retry_failed: bool = False
    """Play failed episodes again, as new attempts."""
    strict: bool = False
    """Refuse to go on with other versions than earlier episodes were played with."""
    stop: StopRule | None = None
    """What ends the run before its plan does; None to play all of it."""
    preregistration: Path | None = None
    """A file of ``raycade preregister`` to be kept with the run."""
    balanced: bool = False
    """Play a balanced sample of the plan at any time, instead of the longest episodes first."""


def load_settings(overrides: Sequence[str]) -> Settings:
    """Compose the configuration and check it.

    Raises:
        UserError: something in it is unknown or invalid.
    """
    return settings_from_config(compose_config(overrides))


def settings_from_config(config: DictConfig) -> Settings:
    """Check a composed configuration and plan its episodes.

    Raises:
        UserError: see ``load_settings``.
    """
    plain = check_config(config)
    suite, model, whole = whole_plan(plain)
    plan = shard_of(whole, plain["shard"])
    if whole and not plan:
        raise UserError(f"shard={plain['shard']}: holds none of the {len(whole):,} planned episodes; use fewer shards")
    if not plan:
        raise UserError(f"suite={suite.name}: these settings plan no episodes")
    name = f"{suite.name}-{model.name}-{stable_hash(sorted(episode.id for episode in plan))[:8]}"
    run_dir = plain["run_dir"]
    if run_dir in (None, ""):
        run_dir = Path("runs") / re.sub(r"[^\w.-]+", "-", name)
    if "://" in str(run_dir):
        raise UserError(f"run_dir={run_dir}: must be a folder of this machine, not an address")
    # A rule that may stop at any moment needs a fair sample of the plan at any moment.
    is_balanced = plain["order"] == "balanced"
    if plain["order"] == "auto":
        is_balanced = bool(plain["stop"])
    return Settings(
        suite=suite,
        model=model,
        cluster=_for_model(made_section("cluster", ClusterSettings, plain["cluster"] or {}), model),
        tracker=plain["tracker"] or None,
        decoding=plain["decoding"],
        plan=plan,
        run_dir=Path(str(run_dir)),
        config=OmegaConf.to_yaml(OmegaConf.create(as_written(plain)), resolve=True),
        retry_failed=plain["retry_failed"],
        strict=plain["strict"],
        stop=_stop_rule(plain["stop"]),
        preregistration=Path(plain["preregistration"]) if plain["preregistration"] else None,
        balanced=is_balanced,
    )


def check_pictures(settings: Settings) -> int:
    """Render the first pictures of each task and level; returns how many.

    Raises:
        UserError: one cannot be rendered.
    """
    try:
        return check_openings(settings.suite, settings.plan)
    except ValueError as error:
        raise UserError(str(error)) from error


def check_environment(settings: Settings) -> None:
    """See that the environment holds the keys that the engine reads, where the engine runs on this machine.

    Raises:
        UserError: it lacks one.
    """
    if settings.model.engine is None or settings.cluster.address is not None:
        return
    ask_class(settings.model.engine_class, "check_environment", settings.model.engine)
    missing = missing_path("model.engine", settings.model.engine) if settings.model.engine_class.reads_files else ""
    if missing:
        raise UserError(f"{missing}: there is no such file or folder")


def check_config(config: DictConfig) -> dict[str, Any]:
    """The plain values of a composed configuration, checked as far as possible without planning.

    Raises:
        UserError: something in it is unknown or invalid; values of unknown keys, which may be secrets, are not quoted.
    """
    plain = plain_values(config)
    try:  # first: the messages of later checks quote settings, which may be secrets
        check_no_keys(plain)
    except ValueError as error:
        raise UserError(str(error)) from None
    removed = [section for section in ROOT_KINDS if section not in plain]
    if removed:
        raise UserError(f"~{removed[0]}: cannot be removed; set {removed[0]}=...")
    checked_section("", ROOT_KINDS, plain)
    _check_run_name(plain["name"])
    suite = make_suite(plain["suite"])
    if isinstance(plain["stop"], dict):
        _check_measure(plain["stop"].get("measure", "success"), suite)
    _stop_rule(plain["stop"])
    check_name(plain["model"])
    model = make_model(plain["model"], plain)
    players_of(plain, suite, model)
    if model.engine is not None:
        given = {name: value for name, value in plain["model"]["engine"].items() if value is not None}
        texts = ask_class(model.engine_class, "texts_of_files", given)
        prices = ask_class(model.engine_class, "known_prices", given)
        plain["model"]["engine"] |= {**prices, **given, **texts}
    made_section("cluster", ClusterSettings, plain["cluster"] or {})
    if plain["tracker"]:
        check_section("tracker", plain["tracker"])
    if plain["shard"] is not None:
        read_shard(plain["shard"])
    return plain


def _check_run_name(name: str | None) -> None:
    """See that a run's name fits into a table's cell."""
    if name is None:
        return
    is_plain = name.isprintable() and name.strip() == name
    if not is_plain or not 0 < len(name) <= LONGEST_NAME:
        raise UserError(f"name={shown(name)}: is 1 to {LONGEST_NAME} characters that can be printed, or null")


def _stop_rule(section: Any) -> StopRule | None:
    """The rule of the ``stop`` section."""
    if not section:
        return None
    if isinstance(section, dict) and "kind" not in section:  # stop.most=50 without a rule
        raise UserError(f"stop.{next(iter(section))}: belongs to a rule; add stop=decided or stop=precise")
    try:
        return made_section("stop", StopRule, section)
    except ValueError as error:
        raise UserError(str(error)) from error


def _check_measure(measure: str, suite: Suite) -> None:
    """See that the suite's ledger will have the column that a stopping rule measures."""
    columns = measurable(ledger_schema(ledger_columns(suite)))
    if measure not in columns:
        near = did_you_mean(str(measure), columns)
        raise UserError(
            f"stop.measure={measure}: is no numeric column of the ledger; these are {', '.join(columns)}{near}"
        )


def _for_model(cluster: ClusterSettings, model: ModelSettings) -> ClusterSettings:
    """Metered models have one replica: each would have a spend cap and rate limits of its own."""
    if not model.metered or cluster.replicas == 1:
        return cluster
    if cluster.replicas != "fit":
        raise UserError(
            f"cluster.replicas={cluster.replicas}: model={model.name} is billed by the token, and its spend cap and rate "
            "limits apply to one replica; use 1, and raise model.engine.max_num_seqs for more concurrent requests"
        )
    return dataclasses.replace(cluster, replicas=1)
