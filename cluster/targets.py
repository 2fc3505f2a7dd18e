"""Objects that a configuration names by their class (``_target_``): where they may come from, what they take, building them.

Configurations come with downloaded run directories too. Hydra's own ``instantiate`` follows the attributes of modules to
any function there is, and resolves interpolations while it builds; here only classes of ours are called, with plain values.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from cluster.checks import check_keys, check_values
from cluster.errors import UserError

PLACES = {"suite": "evals.", "model.engine": "cluster.engines.", "tracker": "cluster.tracker."}
"""Below which module the classes of a section live."""

HYDRAS = ("_target_", "_convert_")
"""Keys that are no arguments."""


def check_target(section: str, config: Mapping[str, Any], protocol: type, given: Iterable[str] = ()) -> type:
    """See that a section names a class which keeps ``protocol`` and takes the section's keys and values; builds nothing.

    Args:
        section: one of ``PLACES``.
        config: its plain, resolved values.
        protocol: what the class must be able to do.
        given: arguments that do not come from the configuration.

    Raises:
        UserError: it does not.
    """
    if "_target_" not in config:
        raise UserError(f"{section}: this section names no class (_target_)")
    cls = find_class(section, config["_target_"])
    methods = [name for name, member in vars(protocol).items() if inspect.isfunction(member) and name[0] != "_"]
    if lacking := [name for name in methods if not callable(getattr(cls, name, None))]:
        raise UserError(f"{section}: _target_={config['_target_']} is no {protocol.__name__}: it cannot {lacking[0]}")
    values = {key: value for key, value in config.items() if key not in HYDRAS}
    known = [name for name in inspect.signature(cls).parameters if name not in given]
    check_keys(section, known, values)
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in known and name not in values and parameter.default is parameter.empty:
            raise UserError(f"{section}: {name} is missing")
    types = get_type_hints(cls.__init__)  # type: ignore[misc]
    if section == "suite":  # suites take lists in many forms and know their ranges
        types = {name: kind for name, kind in types.items() if kind in (bool, int, float)}
    check_values(section, types, values, bounded=section != "suite")
    return cls


def find_class(section: str, target: object) -> type:
    """The class of that name.

    Raises:
        UserError: there is none where this section's classes live.
    """
    place, found = PLACES[section], None
    module, _, name = str(target).rpartition(".")
    private = any(part.startswith("_") for part in module.split("."))  # importing __main__ would run a program
    if f"{module}.".startswith(place) and not private:
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ImportError:
            found = None
    if not isinstance(found, type) or not f"{found.__module__}.".startswith(place):
        raise UserError(f"{section}: _target_={target} is not allowed; it must be a class below {place}*")
    return found


def build(section: str, config: Any, **given: Any) -> Any:
    """The object that a section describes, those within it built first; lists and mappings stay what they are.

    Raises:
        UserError: a class in it is not allowed.
        Exception: whatever a class raises for arguments that it does not take.
    """
    if isinstance(config, list):
        return [build(section, each) for each in config]
    if not isinstance(config, Mapping):
        return config
    values = {key: build(section, value) for key, value in config.items() if key not in HYDRAS}
    return find_class(section, config["_target_"])(**values, **given) if "_target_" in config else values
