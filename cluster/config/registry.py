"""Registered suites, engines and trackers: checks their settings and builds them.

Configurations come with downloaded run directories too, so a section names its class by a registered name (``type``),
never by a module path, and passes plain values only.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from cluster.config.validation import check_keys, check_values
from cluster.engines.base import Engine
from cluster.errors import UserError
from envs import plugins
from evals.suite import Suite

TYPE = "type"
"""The key that names a registered class."""

GIVEN = ("sampling", "chat_template_kwargs")
"""Arguments of an engine that have a place of their own below ``model``."""

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "suite": {},
    "model.engine": {
        "openai": "cluster.engines.openai_api:OpenAIEngine",
        "simulated": "cluster.engines.simulated:SimulatedEngine",
        "vllm": "cluster.engines.vllm:VLLMEngine",
    },
    "tracker": {"wandb": "cluster.observe.wandb_tracker:WandbTracker"},
}
"""For each section of the configuration, the names that are known without an entry point."""

GROUPS: Mapping[str, str] = {
    "suite": "raycade.suites",
    "model.engine": "raycade.engines",
    "tracker": "raycade.trackers",
}
"""For each section, the entry-point group in which others register."""

_BASES: Mapping[str, type] = {"suite": Suite, "model.engine": Engine}


def names_of(section: str) -> dict[str, str]:
    """All registered names of a section; nothing is imported.

    Raises:
        UserError: a plugin folder cannot be read, or a name is taken twice.
    """
    try:
        return plugins.registered(GROUPS[section], BUILT_IN[section])
    except ValueError as error:
        raise UserError(str(error)) from error


def class_of(section: str, config: Mapping[str, Any]) -> Any:
    """The class that a section names.

    Raises:
        UserError: it names none, or one that is not registered or cannot be imported.
    """
    name = config.get(TYPE)
    if not isinstance(name, str):
        names = ", ".join(sorted(names_of(section)))
        raise UserError(f"{section}.{TYPE}={name}: must be a registered name; choose from {names}")
    names_of(section)
    try:
        cls = plugins.load(GROUPS[section], name, BUILT_IN[section])
    except ValueError as error:
        raise UserError(f"{section}.{TYPE}={name}: {error}") from error
    base = _BASES.get(section, object)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise UserError(f"{section}.{TYPE}={name}: is not a subclass of {base.__module__}.{base.__name__}")
    return cls


def check_section(section: str, config: Mapping[str, Any], given: Iterable[str] = ()) -> Any:
    """Check that a section names a registered class that accepts the section's keys and values; builds nothing.

    Args:
        section: one of ``GROUPS``.
        config: its plain, resolved values.
        given: constructor arguments that do not come from the configuration.

    Returns:
        The class.

    Raises:
        UserError: it does not.
    """
    cls = class_of(section, config)
    values = {key: value for key, value in config.items() if key != TYPE}
    parameters = inspect.signature(cls).parameters
    known = [name for name in parameters if name not in given]
    check_keys(section, known, values)
    for name in known:
        if name not in values and parameters[name].default is inspect.Parameter.empty:
            raise UserError(f"{section}.{name}: is missing")
    types = get_type_hints(cls.__init__)
    if section == "suite":  # suites accept lists in many forms and check their own ranges
        types = {name: kind for name, kind in types.items() if kind in (bool, int, float)}
    check_values(section, types, values, bounded=section != "suite")
    for name, within in cls.keys_within().items() if section == "model.engine" else ():
        if within and values.get(name):
            check_keys(f"{section}.{name}", within, values[name])
            check_values(f"{section}.{name}", within, values[name], bounded=False)
    return cls


def build(section: str, config: Any, **given: Any) -> Any:
    """The object that a section describes, those within it built first; lists and mappings stay what they are.

    Raises:
        UserError: a name in it is not registered.
        Exception: whatever a class raises for arguments that it does not take.
    """
    if isinstance(config, list):
        return [build(section, each) for each in config]
    if not isinstance(config, Mapping):
        return config
    values = {key: build(section, value) for key, value in config.items() if key != TYPE}
    return class_of(section, config)(**values, **given) if TYPE in config else values


def default_config(section: str, name: str) -> dict[str, Any]:
    """A section for a class without a configuration file: its name and its constructor's defaults.

    Raises:
        UserError: the class cannot be imported.
    """
    parameters = inspect.signature(class_of(section, {TYPE: name})).parameters
    defaults: dict[str, Any] = {TYPE: name}
    for parameter in parameters.values():
        if parameter.name not in GIVEN:
            defaults[parameter.name] = "???" if parameter.default is parameter.empty else _plain(parameter.default)
    return defaults


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dataclasses.Field):
        return None
    return dict(value) if isinstance(value, Mapping) else value
