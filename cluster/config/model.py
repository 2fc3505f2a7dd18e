"""The model that a configuration describes: its engine, sampling parameters and replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cluster.config.contents import by_content
from cluster.config.registry import GIVEN, TYPE, ask_class, check_section, class_of, make, stated_keys
from cluster.config.sections import checked_section, made_section
from cluster.engines.base import Capabilities, Engine, EngineDefectError, EngineError, Sampling, answering_settings
from cluster.engines.checked import check_capabilities, name_of
from cluster.errors import UserError
from cluster.models.hardware import check_parallel, within_model
from envs.settings import Count, NotNegative, settings_of, shown
from evals.conversation import cause_of
from evals.types import stable_hash

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
        """What the engine can do, with this model as far as it is known.

        Raises:
            UserError: the engine's class does not say.
        """
        cls = self.engine_class
        can = ask_class(cls, "capabilities", self.engine or {})
        try:
            check_capabilities(can)
        except ValueError as error:
            raise UserError(f"{name_of(cls)}.capabilities returned {error}") from error
        return within_model(self.engine, can)

    @property
    def metered(self) -> bool:
        """Whether every answer costs money."""
        return self.engine is not None and self.engine_class.metered

    def make_engine(self) -> Engine:
        """Build the engine, in the process that will host it.

        Raises:
            ValueError: it refuses its settings.
            EngineError: it cannot be built.
        """
        settings = dict(self.engine or {})
        if self.commit:
            settings["revision"] = self.commit
        given: dict[str, Any] = {"sampling": self.sampling}
        given |= {name: settings.pop(name) for name in GIVEN if name in settings}
        try:
            engine: Engine = make("model.engine", settings, **given)
        except (ValueError, EngineError, UserError):
            raise
        except BaseException as error:  # a constructor may be anybody's, and call sys.exit
            raise EngineDefectError(f"{name_of(self.engine_class)}() raised {cause_of(error)}") from error
        return engine


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
    checked_section("model", kinds, config)
    engine = None
    if config.get("engine") is not None:
        engine = _engine(_stated(config), _given(config, root))
    replica = made_section("model.replica", ReplicaNeeds, config.get("replica") or {})
    check_parallel(engine, replica.gpus * replica.nodes)
    return ModelSettings(name, engine, _sampling(config.get("sampling") or {}, engine), replica)


def _stated(model: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's section states of its engine, which has a place for the role of the system elsewhere."""
    engine = model["engine"]
    if not isinstance(engine, dict):
        return {}  # it names no class, and so it is refused
    if model.get("system_role"):
        return {**engine, "system_role": model["system_role"]}
    return dict(engine)


def _given(model: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Settings of the engine that have a place elsewhere, where they differ from what all engines do: with that place.

    Raises:
        UserError: one of them has a value of another kind.
    """
    template = model.get("chat_template_kwargs") or {}
    if not isinstance(template, dict):
        raise UserError(f"model.chat_template_kwargs={shown(template)}: must be a mapping")
    history = checked_section("history", {"reasoning": HistoryOfReasoning}, root.get("history") or {})
    return {
        "chat_template_kwargs": ("model.chat_template_kwargs", template),
        "keeps_reasoning": ("history.reasoning=kept", history.get("reasoning") == "kept"),
        "deterministic": ("deterministic=true", root.get("deterministic")),
    }


def _engine(engine: dict[str, Any], given: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """The engine's settings, checked; among them those that have a place elsewhere, if they are set."""
    cls = class_of("model.engine", engine)
    elsewhere = {name: value for name, (_, value) in given.items() if value and name in settings_of(cls)}
    # First: the messages of later checks quote settings, which may be secrets.
    ask_class(cls, "check_settings", {**engine, **elsewhere})
    check_section("model.engine", engine, given=GIVEN)
    engine = dict(engine)
    for name, (place, value) in given.items():
        if not value:
            continue
        if name not in settings_of(cls):
            raise UserError(f"{place}: model.engine.type={engine[TYPE]} takes none")
        engine[name] = value
    return {**engine, **ask_class(cls, "texts_of_files", engine)}


def _sampling(values: Any, engine: dict[str, Any] | None) -> Sampling:
    """Sampling parameters: those of all engines, and in ``extra`` those that only this one takes."""
    further = stated_keys(class_of("model.engine", engine), "sampling_keys") if engine else {}
    common = {name: setting.kind for name, setting in settings_of(Sampling).items() if name != "extra"}
    checked = checked_section("model.sampling", {**further, **common}, values)
    known = {name: value for name, value in checked.items() if name in common}
    return Sampling(**known, extra={name: checked[name] for name in checked.keys() - common.keys()})
