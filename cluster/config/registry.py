"""Registered suites, engines and trackers: checks their settings and builds them.

Configurations come with downloaded run directories too, so a section names its class by a registered name (``type``),
never by a module path, and passes plain values only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final, Literal

from cluster.engines.base import Engine
from cluster.engines.checked import name_of
from cluster.errors import UserError
from envs import plugins
from envs.settings import Setting, SettingError, check_arguments, check_keys, check_values, settings_of
from evals.conversation import cause_of
from evals.suite import Suite

TYPE = "type"
"""The key that names a registered class."""

GIVEN = ("sampling", "chat_template_kwargs", "keeps_reasoning", "deterministic")
"""Arguments of an engine that have a place of their own in the configuration."""

GROUPS: Mapping[str, str] = {
    "suite": "raycade.suites",
    "model.engine": "raycade.engines",
    "tracker": "raycade.trackers",
}
"""For each section, the entry-point group in which its classes are registered."""

FOLDERS: Mapping[str, str] = {"suite": "suite", "model.engine": "model", "tracker": "tracker"}
"""For each section, the folder of ``conf`` whose files are selected by name."""

_BASES: Mapping[str, type] = {"suite": Suite, "model.engine": Engine}


def names_of(section: str) -> dict[str, str]:
    """All registered names of a section; nothing is imported.

    Raises:
        UserError: a plugin folder cannot be read, or a name is taken twice.
    """
    try:
        return plugins.registered(GROUPS[section])
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
        cls = plugins.load(GROUPS[section], name)
    except ValueError as error:
        raise UserError(f"{section}.{TYPE}={name}: {error}") from error
    base = _BASES.get(section, object)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise UserError(f"{section}.{TYPE}={name}: is not a subclass of {base.__module__}.{base.__name__}")
    return cls


def check_section(section: str, config: Mapping[str, Any], given: Iterable[str] = ()) -> dict[str, Any]:
    """Check that a section names a registered class that declares the section's keys and values; builds nothing.

    Args:
        section: one of ``GROUPS``.
        config: its plain, resolved values.
        given: constructor arguments that do not come from the configuration.

    Returns:
        The values, lists as the class declares them.

    Raises:
        UserError: it does not.
    """
    cls = class_of(section, config)
    values = {key: value for key, value in config.items() if key != TYPE}
    return _checked(section, cls, values, given)


def make(section: str, config: Mapping[str, Any], **given: Any) -> Any:
    """The object that a section describes; in a suite's section, suites within it are built first.

    Raises:
        UserError: see ``check_section``.
        Exception: whatever the class raises for its arguments.
    """
    cls = class_of(section, config)
    values = {key: value for key, value in config.items() if key != TYPE}
    if section == "suite":
        values = {key: _with_suites(value) for key, value in values.items()}
    return cls(**_checked(section, cls, values, given), **given)


def _with_suites(value: Any) -> Any:
    """A value with a suite in place of each section that describes one."""
    if isinstance(value, list):
        return [_with_suites(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return make("suite", value) if TYPE in value else {key: _with_suites(each) for key, each in value.items()}


def _checked(section: str, cls: Any, values: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    try:
        checked = check_arguments(section, cls, values, given)
        # What an engine passes through to a library, such as vLLM's settings, has keys of its own.
        inner_kinds: Mapping[str, Mapping[str, Any]] = {}
        if section == "model.engine":
            inner_kinds = stated_keys(cls, "keys_within")
        for name, inner in inner_kinds.items():
            passed = values.get(name)
            if inner and passed:
                place = f"{section}.{name}"
                check_keys(place, inner, passed)
                check_values(place, inner, passed)
    except SettingError as error:
        raise UserError(str(error)) from None
    return checked


_REFUSE: Final = ("check_settings", "check_environment", "texts_of_files")
"""Class methods of an engine that raise a ValueError for settings which are wrong."""
_RETURN: Final[Mapping[str, type]] = {"known_prices": Mapping, "texts_of_files": Mapping, "price_note": str}
"""What class methods of an engine return."""


def ask_class(cls: type[Engine], method: str, *arguments: Any) -> Any:
    """What a class method of an engine, perhaps of another package, returns.

    Raises:
        UserError: the class refuses the settings, or the method fails.
    """
    try:
        answer = getattr(cls, method)(*arguments)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        is_refusal = isinstance(error, ValueError) and method in _REFUSE
        raise UserError(str(error) if is_refusal else f"{name_of(cls)}.{method} raised {cause_of(error)}") from None
    wanted = _RETURN.get(method, object)
    if not isinstance(answer, wanted):
        raise UserError(f"{name_of(cls)}.{method} must return a {wanted.__name__.lower()}, not {answer!r:.80}")
    return answer


def stated_keys(cls: Any, method: Literal["keys_within", "sampling_keys"]) -> Mapping[str, Any]:
    """What an engine's class says of the keys that it takes.

    Raises:
        UserError: the class, perhaps of another package, does not define it as a class method without arguments, or it fails.
    """
    where = f"{name_of(cls)}.{method}"
    try:
        found = getattr(cls, method)()
    except TypeError as error:
        raise UserError(f"{where} must be a class method: {error}") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"{where} raised {cause_of(error)}") from error
    if not isinstance(found, Mapping):
        raise UserError(f"{where} must return a mapping, not {found!r}")
    return found


def names_without_file(section: str) -> list[str]:
    """Registered names that no file of ``conf`` is named after, or is about: they are selected with their defaults.

    Raises:
        UserError: see ``names_of``.
    """
    covered = file_names(section)
    for name in file_names(section):
        file = resources.files("conf").joinpath(FOLDERS[section], f"{name}.yaml")
        covered |= set(re.findall(r"^ *type: (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    return sorted(names_of(section).keys() - covered)


def file_names(section: str) -> set[str]:
    """The names of the files of ``conf`` that a section is selected by."""
    files = resources.files("conf").joinpath(FOLDERS[section]).iterdir()
    return {file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")}


def default_config(section: str, name: str) -> dict[str, Any]:
    """A section for a class without a configuration file: its name and its constructor's defaults.

    Raises:
        UserError: the class cannot be imported.
    """
    settings = {
        key: setting for key, setting in settings_of(class_of(section, {TYPE: name})).items() if key not in GIVEN
    }
    defaults = {key: "???" if setting.required else plain_default(setting) for key, setting in settings.items()}
    return {TYPE: name, **defaults}


def plain_default(setting: Setting) -> Any:
    """A default value as a configuration holds it: tuples as lists."""
    return _plain(setting.default)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
