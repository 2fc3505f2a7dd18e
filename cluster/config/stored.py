"""The stored configuration of a run, used again by a command: it may be somebody else's, so it is not trusted with everything.

Playing stored replies, or asking a model again, acts on settings: a suite may start a program that one names, an engine
may send a key to an address. Classes list such settings as ``given_again``. A stored value of theirs is refused unless the
user repeats the setting on the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cluster.config.compose import as_written
from cluster.config.registry import ask_class, class_of
from cluster.errors import UserError
from envs.files import parse_yaml
from envs.settings import settings_of, shown

_PRICES_DEPEND_ON = ("model", "batch", "extra_body")
"""Settings of an engine for which prices that were given by hand hold: answers in batches cost half, say."""


def stored_sections(
    run_dir: Path, config: Mapping[str, Any], names: Sequence[str], overrides: Sequence[str]
) -> dict[str, Any]:
    """Sections of a stored configuration with the values that the command line gives.

    Args:
        run_dir: Where the configuration is stored, for errors.
        config: All of it.
        names: Of the sections that the command acts on: ``suite``, ``model``.
        overrides: KEY=VALUE of the command line, keys with their section.

    Raises:
        UserError: an override names nothing, a stored setting must be given again, or the price of another model.
    """
    found = _with_overrides({name: config.get(name) for name in names}, overrides)
    if "model" in names:
        _forget_what_depends(config.get("model") or {}, found["model"] or {}, overrides)
    given = [override.partition("=")[0] for override in overrides]
    missing = []
    for key, value in _to_be_given(found):
        if not any(_holds(name, key) for name in given):
            missing.append(f"{key}={shown(value)}")
    if missing:
        raise UserError(
            f"{run_dir}: its stored configuration sets {' '.join(missing)}, which starts programs or says where keys are "
            "sent; if you trust these values, give each of them again on the command line"
        )
    return found


def _forget_what_depends(stored: Mapping[str, Any], now: dict[str, Any], overrides: Sequence[str]) -> None:
    """Leave out what depends on other settings of the engine: prices of the table are looked up again, names follow the model.

    Raises:
        UserError: prices were given by hand, and what they were given for is another now.
    """
    given = {override.partition("=")[0] for override in overrides}
    engine, engine_now = stored.get("engine"), now.get("engine")
    is_changed = any(name.startswith("model.engine") for name in given)
    if not engine or not engine_now or not is_changed:
        return
    # A player that is called as its model is called as the other one then.
    model = engine.get("model")
    if model and stored.get("name") == model and "model.name" not in given:
        now["name"] = engine_now.get("model")
    prices = {name: value for name, value in engine.items() if name.endswith("_price") and value is not None}
    others = {name: value for name, value in engine.items() if name not in prices}
    known = ask_class(class_of("model.engine", engine), "known_prices", others)
    for name, value in prices.items():
        if f"model.engine.{name}" in given:
            continue
        if known.get(name) == value:
            engine_now[name] = None
            continue
        # A price given by hand is that of what the run asked for.
        for setting in _PRICES_DEPEND_ON:
            if engine_now.get(setting) != engine.get(setting):
                raise UserError(
                    f"model.engine.{name}: {value:g} was given for model.engine.{setting}={shown(engine.get(setting))}; give "
                    "the price that holds now (null: that of the price table)"
                )


def _holds(name: str, key: str) -> bool:
    """Whether a name on the command line gives a setting: its own, or that of a section that holds it."""
    return key == name or key.startswith(f"{name}.")


def _with_overrides(sections: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The sections with other values for some of their keys; what looks like a reference to other values is text."""
    choice = " or ".join(f"{name}.KEY=VALUE" for name in sections)
    try:
        config = OmegaConf.create(as_written(sections))
    except OmegaConfBaseException as error:
        raise UserError(f"config.yaml: {str(error).splitlines()[0]}") from error
    for override in overrides:
        key, equals, value = override.partition("=")
        section, dot, _ = key.partition(".")
        is_setting = equals and dot
        if not is_setting or section not in sections:
            raise UserError(f"{override}: name settings as {choice}")
        try:
            # Replaced as a whole: a mapping that is given keeps nothing of the stored one.
            OmegaConf.update(config, key, as_written(parse_yaml(value, override)), merge=False, force_add=False)
        except (OmegaConfBaseException, TypeError, ValueError) as error:
            raise UserError(f"{override}: {str(error).splitlines()[0]}") from error
    found: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return found


def _to_be_given(sections: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "suite" in sections:
        yield from _to_be_given_of("suite", "suite", sections["suite"])
    model = sections.get("model")
    if isinstance(model, Mapping) and model.get("engine") is not None:
        yield from _to_be_given_of("model.engine", "model.engine", model["engine"])


def _to_be_given_of(kind: str, place: str, section: Any) -> Iterator[tuple[str, Any]]:
    """Keys and values of a section, and of the suites in a bundle, that differ from the defaults of their class."""
    if not isinstance(section, Mapping):
        return
    parts = section.get("suites")
    if isinstance(parts, list):
        for number, part in enumerate(parts):
            yield from _to_be_given_of(kind, f"{place}.suites.{number}", part)
    cls = class_of(kind, section)
    defaults = settings_of(cls)
    for name in sorted(cls.given_again & section.keys()):
        value = section[name]
        if not value:
            continue
        if value != defaults[name].default:
            yield f"{place}.{name}", value
