"""Sections of a configuration whose keys and types are those of a class of raycade's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from cluster.errors import UserError
from envs.settings import SettingError, check_keys, check_values, settings_of, shown

T = TypeVar("T")


def made_section(name: str, cls: type[T], values: Any) -> T:
    """A section as an object of its class."""
    kinds = {key: setting.kind for key, setting in settings_of(cls).items()}
    return cls(**checked_section(name, kinds, values))


def checked_section(name: str, kinds: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """A section's values, lists as they are declared.

    Raises:
        UserError: it is no mapping, or has a key or value that is none of ``kinds``.
    """
    if not isinstance(values, dict):
        raise UserError(f"{name}={shown(values)}: must be a mapping")
    try:
        check_keys(name, kinds, values)
        return check_values(name, kinds, values)
    except SettingError as error:
        raise UserError(str(error)) from None
