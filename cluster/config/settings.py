"""From a composed configuration to typed, checked settings; every error names the bad value and what would be right."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from omegaconf import DictConfig, OmegaConf

from cluster.config.compose import ROOT_KINDS, as_written, compose_config, plain_values
from cluster.config.contents import by_content, missing_path
from cluster.config.registry import (
    GIVEN,
    TYPE,
    check_section,
    class_of,
    make,
    stated_keys,
)
from cluster.engines.api_secrets import check_no_keys
from cluster.engines.base import Capabilities, Engine, Sampling, answering_settings
from cluster.errors import UserError
from cluster.models.hardware import check_parallel, picture_rule, within_model
from cluster.models.hub import check_name
from cluster.runner.model_player import Decoding
from cluster.runner.router import Policy
from cluster.storage.shard import read_shard, shard_of
from envs.settings import (
    Count,
    NotNegative,
    Seconds,
    SettingError,
    check_keys,
    check_values,
    settings_of,
    shown,
)
from envs.suggest import did_you_mean
from evals.human import is_human
from evals.ledger.columns import ledger_schema
from evals.stopping.outcomes import measurable
from evals.stopping.rules import StopRule
from evals.suite import (
    Suite,
    built_in_players,
    check_openings,
    counting_pictures,
    ledger_columns,
    people_fingerprint,
    plan_for,
)
from evals.types import Episode, stable_hash

T = TypeVar("T")

LONGEST_NAME = 60
"""Characters of a run's name."""

HistoryOfReasoning = Literal["dropped", "kept"]
"""Whether prompts hold what the model thought in earlier turns."""


@dataclass(frozen=True)
class ReplicaNeeds:
    """Resources of one replica."""

    gpus: NotNegative = 1.0
    """GPUs that Ray reserves."""
    cpus: NotNegative = 1.0
    """CPU cores that Ray reserves."""
    nodes: Count = 1
    """A replica over several nodes takes ``gpus`` and ``cpus`` on each of them."""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Labels of Ray nodes that a replica needs: ``{ray.io/accelerator-type: H100}``, ``{market: "!spot"}``."""


@dataclass(frozen=True)
class ModelSettings:
    """A model by name; without an engine it is one of the built-in players."""

    name: str
    engine: dict[str, Any] | None
    sampling: Sampling
    replica: ReplicaNeeds
    commit: str = ""
    """Of its files on the hub, which the engine loads in place of a branch's; no part of ids. Empty for none or unknown."""

    @property
    def fingerprint(self) -> str:
        """Hash of what decides the model's answers."""
        if self.engine is None:
            return stable_hash(None)
        cls = self.engine_class
        answering = answering_settings(self.engine, cls.operational)
        if cls.reads_files:
            answering = by_content(answering)
        return stable_hash(cls.version, answering, dataclasses.asdict(self.sampling))

    @property
    def engine_class(self) -> type[Engine]:
        """The engine's class; only models that have an engine have one."""
        cls: type[Engine] = class_of("model.engine", self.engine or {})
        return cls

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do, with this model as far as it is known."""
        return within_model(self.engine, self.engine_class.capabilities(self.engine or {}))

    @property
    def metered(self) -> bool:
        """Whether every answer costs money."""
        return self.engine is not None and self.engine_class.metered

    def make_engine(self) -> Engine:
        """Build the engine, in the process that will host it."""
        settings = dict(self.engine or {})
        if self.commit:
            settings["revision"] = self.commit
        given: dict[str, Any] = {"sampling": self.sampling}
        given |= {name: settings.pop(name) for name in GIVEN if name in settings}
        engine: Engine = make("model.engine", settings, **given)
        return engine


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
    gpu_hour_price: NotNegative = 0.0
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
    run_dir = plain["run_dir"] or Path("runs") / re.sub(r"[^\w.-]+", "-", name)
    # A rule that may stop at any moment needs a fair sample of the plan at any moment.
    is_balanced = plain["order"] == "balanced"
    if plain["order"] == "auto":
        is_balanced = bool(plain["stop"])
    return Settings(
        suite=suite,
        model=model,
        cluster=_for_model(_section("cluster", ClusterSettings, plain["cluster"] or {}), model),
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
    try:
        settings.model.engine_class.check_environment(settings.model.engine)
    except ValueError as error:
        raise UserError(str(error)) from None
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
    _checked("", ROOT_KINDS, plain)
    _check_run_name(plain["name"])
    suite = make_suite(plain["suite"])
    if plain["stop"]:
        _check_measure(plain["stop"].get("measure", "success"), suite)
    _stop_rule(plain["stop"])
    check_name(plain["model"])
    model = make_model(plain["model"], plain)
    _players(plain, suite, model)
    if model.engine is not None:
        given = {name: value for name, value in plain["model"]["engine"].items() if value is not None}
        texts = model.engine_class.texts_of_files(given)
        plain["model"]["engine"] |= {**model.engine_class.known_prices(given), **given, **texts}
    _section("cluster", ClusterSettings, plain["cluster"] or {})
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
        return _section("stop", StopRule, section)
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


def whole_plan(config: Mapping[str, Any]) -> tuple[Suite, ModelSettings, tuple[Episode, ...]]:
    """Suite, model and all episodes of a resolved configuration, regardless of its shard.

    Raises:
        UserError: see ``load_settings``.
    """
    suite, model = make_suite(config["suite"]), make_model(config["model"], config)
    players = _players(config, suite, model)
    try:
        with counting_pictures(picture_rule(model.engine)):
            return suite, model, plan_for(suite, players)
    except (ValueError, OSError) as error:
        raise _about_suite(error) from error


def _players(config: Mapping[str, Any], suite: Suite, model: ModelSettings) -> dict[str, str]:
    """All players by name, each with a hash of what decides its answers."""
    decoding, baselines = config["decoding"], config["baselines"] or []
    built_in = built_in_players(suite)
    names = ", ".join(sorted(built_in))
    for name in baselines:
        if name not in built_in:
            near = did_you_mean(name, built_in) or "."
            raise UserError(f"baselines={shown(baselines)}: there is no player {name}{near} There are {names}")
    # A model has an engine, unless its name is that of a built-in player or of a person, who need none.
    needs_none = model.name in built_in or is_human(model.name)
    if model.engine is None:
        if not needs_none:
            raise UserError(f"model={model.name}: has no engine; players of this suite that need none: {names}")
        # What people see decides their answers.
        own = people_fingerprint(suite) if is_human(model.name) else ""
        return {model.name: own, **dict.fromkeys(baselines, "")}
    if needs_none:
        raise UserError(f"model.name={model.name}: this name belongs to a built-in player; give the model another one")
    _check_capabilities(suite, model, decoding)
    return {model.name: stable_hash(model.fingerprint, decoding), **dict.fromkeys(baselines, "")}


def _check_capabilities(suite: Suite, model: ModelSettings, decoding: str) -> None:
    """Check that the engine can do what the suite and the decoding need."""
    can = model.capabilities
    if decoding == "choice" and not can.options:
        raise UserError(
            f"decoding=choice: model={model.name} cannot constrain its replies to options; use decoding=free"
        )
    for part in suite.parts:
        try:
            needs = part.needs
        except (ValueError, OSError) as error:
            raise _about_suite(error) from error
        if needs.pictures > can.pictures:
            limit = f"takes {can.pictures} in a prompt" if can.pictures else "reads text only"
            raise UserError(
                f"suite={part.name}: shows up to {needs.pictures} pictures at once; model={model.name} {limit}"
            )
        if needs.label_scores and not can.label_scores:
            raise UserError(
                f"suite={part.name}: asks for probabilities of labels, which model={model.name} cannot give "
                f"({can.without_labels}); written answers need none"
            )
        if can.context is not None and needs.context > can.context:
            raise UserError(
                f"suite={part.name}: needs a context of {needs.context:,} tokens; model={model.name} has {can.context:,}"
            )


def make_suite(config: Any) -> Suite:
    """The suite that a configuration's ``suite`` section describes.

    Raises:
        UserError: it does not exist or rejects its settings.
    """
    try:
        suite: Suite = make("suite", config if isinstance(config, dict) else {})
    except UserError:
        raise
    except Exception as error:
        raise _about_suite(error) from error
    return suite


def _about_suite(error: Exception) -> UserError:
    message = str(error)
    return UserError(message if message.startswith("suite") else f"suite: {message}")


def make_model(config: Any, root: Mapping[str, Any]) -> ModelSettings:
    """The model that a configuration's ``model`` section describes.

    Args:
        config: That section.
        root: The whole configuration, whose ``history`` and ``deterministic`` the engine gets too.

    Raises:
        UserError: it has no name, or its engine or sampling is wrong.
    """
    name = config.get("name") if isinstance(config, dict) else None
    if not name or not isinstance(name, str):
        raise UserError("model.name: is missing")
    kinds = dict.fromkeys(
        ("name", "engine", "sampling", "replica", "decoding", "chat_template_kwargs", "system_role"), Any
    )
    _checked("model", kinds, config)
    engine = config.get("engine")
    if engine is not None:
        stated: dict[str, Any] = {}
        if isinstance(engine, dict):
            stated |= engine
            if config.get("system_role"):
                stated["system_role"] = config["system_role"]
        engine = _engine(stated, _given(config, root))
    replica = _section("model.replica", ReplicaNeeds, config.get("replica") or {})
    check_parallel(engine, replica.gpus * replica.nodes)
    return ModelSettings(name, engine, _sampling(config.get("sampling") or {}, engine), replica)


def _given(model: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Settings of the engine that have a place elsewhere, where they differ from what all engines do: with that place.

    Raises:
        UserError: one of them has a value of another kind.
    """
    template = model.get("chat_template_kwargs") or {}
    if not isinstance(template, dict):
        raise UserError(f"model.chat_template_kwargs={shown(template)}: must be a mapping")
    reasoning = _checked("history", {"reasoning": HistoryOfReasoning}, root.get("history") or {}).get("reasoning")
    return {
        "chat_template_kwargs": ("model.chat_template_kwargs", template),
        "keeps_reasoning": ("history.reasoning=kept", reasoning == "kept"),
        "deterministic": ("deterministic=true", root.get("deterministic")),
    }


def _engine(engine: dict[str, Any], given: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """The engine's settings, checked; among them those that have a place elsewhere, if they are set."""
    cls = class_of("model.engine", engine)
    try:  # first: the messages of later checks quote settings, which may be secrets
        cls.check_settings(engine)
    except ValueError as error:
        raise UserError(str(error)) from None
    check_section("model.engine", engine, given=GIVEN)
    engine = dict(engine)
    for name, (place, value) in given.items():
        if not value:
            continue
        if name not in settings_of(cls):
            raise UserError(f"{place}: model.engine.type={engine[TYPE]} takes none")
        engine[name] = value
    try:
        return {**engine, **cls.texts_of_files(engine)}
    except ValueError as error:
        raise UserError(str(error)) from None


def _sampling(values: Any, engine: dict[str, Any] | None) -> Sampling:
    """Sampling parameters: those of all engines, and in ``extra`` those that only this one takes."""
    further = stated_keys(class_of("model.engine", engine), "sampling_keys") if engine else {}
    common = {name: setting.kind for name, setting in settings_of(Sampling).items() if name != "extra"}
    checked = _checked("model.sampling", {**further, **common}, values)
    known = {name: value for name, value in checked.items() if name in common}
    return Sampling(**known, extra={name: checked[name] for name in checked.keys() - common.keys()})


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


def _section(name: str, cls: type[T], values: Any) -> T:
    kinds = {key: setting.kind for key, setting in settings_of(cls).items()}
    return cls(**_checked(name, kinds, values))


def _checked(name: str, kinds: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """A section's values, lists as they are declared."""
    if not isinstance(values, dict):
        raise UserError(f"{name}={shown(values)}: must be a mapping")
    try:
        check_keys(name, kinds, values)
        return check_values(name, kinds, values)
    except SettingError as error:
        raise UserError(str(error)) from None
