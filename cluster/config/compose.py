"""Hydra's part of a configuration: composed from the files of ``conf`` and the overrides, its values resolved."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers import oc

from cluster.config.registry import FOLDERS, TYPE, default_config, names_without_file
from cluster.errors import UserError
from cluster.models.hub import selectable
from cluster.runner.model_player import Decoding
from envs import plugins
from envs.suggest import did_you_mean

ROOT_KINDS: Mapping[str, Any] = {
    "suite": Any,
    "model": Any,
    "cluster": Any,
    "tracker": Any,
    "decoding": Decoding,
    "history": Any,
    "deterministic": bool,
    "baselines": Sequence[str] | None,
    "stop": Any,
    "order": Literal["auto", "longest_first", "balanced"],
    "shard": Any,
    "retry_failed": bool,
    "strict": bool,
    "preregistration": str | None,
    "name": str | None,
    "run_dir": str | int | float | None,
}
"""The keys of the root with their types; sections are checked each for itself."""
SECTIONS = tuple(ROOT_KINDS)

GROUPS = ("suite", "model", "cluster", "tracker", "stop")
"""Sections that are chosen by the name of a file in ``conf``."""
STOP_KEYS = ("against", "precision", "delta")
"""Keys of ``stop`` that may be written without it."""


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Hydra's configuration for these overrides.

    Raises:
        UserError: an override names a group, file or key that does not exist, or is malformed.
    """
    logging.getLogger("hydra").setLevel(logging.ERROR)
    offer_plugins(overrides)
    try:
        "".join(overrides).encode()
    except UnicodeEncodeError as error:
        raise UserError("an override is no UTF-8 text") from error
    for override in overrides:
        group, _, value = override.partition("=")
        if group in GROUPS and value.startswith(("[", "{")):
            raise UserError(
                f"{group}: must be one name, as {group}=NAME; its keys are set one by one, as {group}.KEY=VALUE"
            )
    with initialize_config_module("conf", version_base="1.3"), _environment_unread():
        try:
            config: DictConfig = compose("config", overrides=with_new_keys(overrides))
        except OverrideParseException as error:
            key = str(error.override).partition("=")[0].lstrip("+")
            if key.startswith("model.engine."):  # its value may be a secret
                raise UserError(f"{key}: its value cannot be read: put special characters in quotes") from None
            _check_no_key(str(error.override))
            raise UserError(
                f"{str(error.override).lstrip('+')}: cannot be read as KEY=VALUE: {_tidy(error)}"
            ) from error
        except (HydraException, OmegaConfBaseException, ValueError, AssertionError) as error:
            # ValueError: cluster=5; AssertionError: hydra.sweeper.params.x=1
            raise _composition_error(error) from error
        except RecursionError as error:
            raise UserError("an override is nested too deep to be read") from error
    return config


def plain_values(config: DictConfig) -> dict[str, Any]:
    """A composed configuration as plain values, its interpolations resolved.

    Raises:
        UserError: a value is missing, or an interpolation cannot be resolved or reads the environment.
    """
    try:
        with _environment_unread():
            plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        missing = re.search(r"Missing mandatory value: ([\w.]+)", str(error))
        if missing is None:
            raise UserError(_tidy(error)) from error
        # Of an interpolation, the key that it reads; else the last part of the key alone.
        key = missing[1]
        if "." not in key:
            key = error.full_key or key
        raise UserError(f"{key}: is missing; set {key}=...") from error
    return plain


def as_written(value: Any) -> Any:
    """Values of which OmegaConf makes a configuration that resolves to them, whatever their texts hold: ``${`` too."""
    if isinstance(value, Mapping):
        return {key: as_written(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_written(each) for each in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    # Before a reference a backslash counts as one only if it is doubled.
    return re.sub(r"(\\*)\$\{", lambda found: 2 * found[1] + "\\${", value)


@contextlib.contextmanager
def _environment_unread() -> Iterator[None]:
    """Within it ``${oc.env:NAME}`` is refused: resolved values are stored and sent to trackers, and this may be a secret."""
    OmegaConf.register_new_resolver("oc.env", _refuse_environment, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def _refuse_environment(*_: Any) -> None:
    raise ValueError(
        "would be stored with the run as it reads now. For a secret write env:NAME where the setting takes it, such as "
        "model.engine.headers; else let the shell insert the value"
    )


def with_new_keys(overrides: Sequence[str]) -> list[str]:
    """Overrides that may also set keys that a file of ``conf`` does not list; ``check_config`` knows which there are."""
    found = []
    for override in overrides:
        # Some keys of the stopping rule need not name its section.
        if override.partition("=")[0] in STOP_KEYS:
            override = f"stop.{override}"
        if re.match(r"(?:suite|model|cluster|tracker|stop)\.[^=]+=", override):
            override = f"++{override}"
        # A folder's name is text even where it reads as a number: Hydra would make 202611 of 2026_11.
        if folder := re.fullmatch(r"run_dir=([+.-]?\d[\w.+-]*)", override):
            override = f"run_dir='{folder[1]}'"
        found.append(override)
    return found


def offer_plugins(overrides: Sequence[str] = (), further: Sequence[str] = ()) -> None:
    """Make registered suites and engines without a file in ``conf`` selectable, and the models of the table.

    Those that no override mentions can be listed, but are not imported: they may be slow, or broken. Nor have they values,
    as Hydra copies all of them for each configuration.

    Args:
        overrides: Of one run.
        further: Of other runs, whose suites and models are offered too.

    Raises:
        UserError: one that is mentioned cannot be imported; the files of a model that ``overrides`` name are not found.
    """
    mentioned = set(re.findall(r"[\w.-]+", " ".join([*overrides, *further])))
    # Files of the user's own folder may name any of them.
    files_of_others = any("searchpath" in override for override in overrides)

    def is_needed(name: str) -> bool:
        return name in mentioned or files_of_others

    store = ConfigStore.instance()
    for name, section_of_model in selectable(overrides).items():
        node = section_of_model if is_needed(name) else {}
        store.store(group="model", name=name, node=node)
    for section, group in FOLDERS.items():
        for name in names_without_file(section):
            node = default_config(section, name) if is_needed(name) else {TYPE: name}
            # An engine without a file is a model of the same name.
            if section == "model.engine":
                node = {"name": name, "engine": node, "sampling": {}, "replica": {"gpus": 0, "cpus": 1}}
            store.store(group=group, name=name, node=node)


def _check_no_key(word: str) -> None:
    """See that a word of the command line that is no override is no key, before it is printed."""
    from cluster.engines.api_secrets import check_no_keys  # needed only where a word is wrong

    try:
        check_no_keys({"the command line": word})
    except ValueError as error:
        raise UserError(str(error)) from None


def _composition_error(error: Exception) -> UserError:
    """Hydra's complaint about a group, file or key that does not exist, in our words."""
    message = str(error)
    option = re.search(r"Could not find '([\w./]+)/(.+)'", message)
    if option:
        group, name = option.groups()
        there = message.partition("Available options")[2].partition("Config search path")[0].split()[2:]
        near = did_you_mean(name, there)
        message = f"{group}={name}: there is none{near or '.'} There are {', '.join(there)}"
        if group in FOLDERS.values() and not near:
            message += f". For one of your own, install its package or name its folder in {plugins.VARIABLE}"
        return UserError(message)
    key = re.match(r"Could not override '(\w+)'", message)
    if key and key[1] in SECTIONS:
        return UserError(f"{key[1]}: cannot be set as a whole; set its keys one by one, as {key[1]}.KEY=VALUE")
    merged = re.match(r"Error merging override \+*([^=]+)=", message)
    if merged:  # the value, which may be a secret, is not quoted
        return UserError(f"{merged[1]}: {_misfit(error.__cause__)}")
    if key:
        known = ", ".join(SECTIONS)
        near = did_you_mean(key[1], SECTIONS) or "."
        return UserError(f"{key[1]}: unknown key{near} There are {known}")
    return UserError(_tidy(error))


def _misfit(error: BaseException | None) -> str:
    """Why OmegaConf cannot set a value: it is a mapping where a list stands, say."""
    why = _tidy(error) if error is not None else ""
    kinds = re.fullmatch(r"Cannot merge (\w+)Config with (\w+)Config", why)
    if kinds is None:
        return why or "cannot be set to this"
    given, there = ({"Dict": "a mapping", "List": "a list"}.get(kind, kind) for kind in kinds.groups())
    return f"must be {there}, not {given}"


def _tidy(error: BaseException) -> str:
    """Hydra's message without its hints about Hydra's own flags."""
    lines = [line.strip() for line in str(error).splitlines()]
    hidden = (
        "Set the environment variable",
        "full_key:",
        "object_type=",
        "reference_type=",
        "To append to your config",
    )
    return "\n".join(line for line in lines if line and not line.startswith(hidden))
